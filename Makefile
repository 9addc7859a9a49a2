# The checks, run by hand and by CI. `make quick` is for each save, `make test` for each commit, and `make check`
# runs everything: it installs what it needs (as root on Debian) or says how to, goes on after a step that fails,
# and fails if any did.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Only `check` runs steps side by side; in any other call `make -j` would mix their outputs up.
ifndef TOGETHER
.NOTPARALLEL:
endif
.PHONY: help quick check need format vet belayvet lint lua test integration browser postgres mutants bench-guard torture \
	fuzz bench demo

# Two packages at a time: their tests start Redis servers and time them, and a third starves the others. Four
# tests of each, because most of them wait.
RACE := go test -race -p 2 -parallel 4
# The tests that read the files of this repository. The race detector would slow them by minutes, for nothing.
READING := ^Test(ImportsGoDown|RootLinks|EveryPackage|NoFileNames|ReadersFind|TrapsHave|WordsArePlain)
# The other modules. They have dependencies that a program with Belay must not get.
MODULES := bench cmd/belayvet contrib/otel contrib/outbox examples/outbox integration/browser integration/postgres
# What `quick` tests: packages without I/O, and the test kit on its Redis in memory.
PURE := ./job/... ./retry ./dedup/... ./driver ./driver/drivertest/resp ./integration/verdict ./integration/chaosplan
# What mostly computes yields to the tests beside it, whose bounds are seconds on the wall clock.
YIELD = $(if $(TOGETHER),nice -n 19)
SEED ?=
OUT ?=
MINUTES ?= 25
FUZZTIME ?= 15s
BENCHTIME ?= 1s

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

quick: ## vet, and the tests that need neither Redis nor Ruby (less than half a minute)
	@go vet ./...
	@go test -skip 'Ruby|OnARealRedis|Conformance/.*/^redis$$' $(PURE) ./belaytest
	@go test -run '$(READING)' .

# Two steps run at a time, and make prints each step's output when it has ended. The tests of real processes
# have bounds of seconds on the wall clock, so only steps that yield run beside them.
check: need format lua bench-guard ## everything but mutants and torture
	@failed=0; for steps in "integration vet lint belayvet" "test browser postgres"; do \
		$(MAKE) --no-print-directory -k -j 2 -O TOGETHER=1 $$steps || failed=1; done; \
	exit $$failed

need: ## what the checks need: look, and as root on Debian install what is missing
	@echo "== need"
	@tools/need

format: ## every Go file is as gofmt writes it
	@echo "== format: gofmt -l ."
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then \
		echo "run: gofmt -w" $$unformatted; exit 1; fi

vet: ## go vet, in each module, and the tests that read the files of this repository
	@echo "== vet: go vet ./..., and in $(MODULES); go test -run '$(READING)' ."
	@for module in . $(MODULES); do (cd $$module && $(YIELD) go vet ./...); done
	@$(YIELD) go test -run '$(READING)' .

# A module of its own, which ./... does not reach. The examples get copied, so they must pass it.
belayvet: ## cmd/belayvet: its tests, and a run over the examples
	@echo "== belayvet: its tests, and go vet -vettool=bin/belayvet . ./belaytest ./examples/..."
	@cd cmd/belayvet && $(YIELD) go test -count=1 ./... && $(YIELD) go build -o ../../bin/belayvet .
	@$(YIELD) go vet -vettool=bin/belayvet . ./belaytest ./examples/...

# Built from source by a module of its own, so that no other module gets a linter's two hundred dependencies.
# The first build takes a minute or two on two cores; then Go's cache has it.
lint: ## golangci-lint with .golangci.yaml, in each module
	@echo "== lint: golangci-lint run ./... (built from source the first time), and in $(MODULES)"
	@export GOWORK=off; for module in . $(MODULES); do \
		(cd $$module && $(YIELD) go tool -modfile="$(CURDIR)/tools/lint/go.mod" golangci-lint run ./...); done

lua: ## luacheck on the scripts
	@echo "== lua: luacheck lua/*.lua"
	@luacheck --no-color -q lua/*.lua lua/shared/*.lua

test: ## tests of every package but integration, with the race detector, on real Redis servers (minutes)
	@echo "== test: $(RACE), all but integration, and in bench and contrib/otel"
	@$(RACE) -timeout 10m -skip '$(READING)' $$(go list ./... | grep -v /integration)
	@cd bench && $(RACE) -timeout 10m ./...
	@cd contrib/otel && $(RACE) -timeout 10m ./...

# Real servers, processes and signals are not in the key of Go's test cache, hence -count=1. One package at a
# time, because their bounds are seconds on the wall clock; eight tests, because they mostly wait.
integration: ## the README's promises against real processes and signals (minutes)
	@echo "== integration: go test -race -count=1 ./integration/..., all but mutants"
	@go test -race -count=1 -p 1 -parallel 8 -timeout 20m $$(go list ./integration/... | grep -v /mutants)

# In a module of its own, because it brings a driver for SQL.
postgres: ## the promises of dedup/wal and contrib/outbox, with real PostgreSQL servers
	@echo "== postgres: go test -race -count=1, in integration/postgres"
	@cd integration/postgres && go test -race -count=1 ./...

# In a module of its own, because it brings a browser's protocol.
browser: ## the dashboard, and Sidekiq's own, in Chromium: every page and button; OUT=FOLDER keeps its screenshots
	@echo "== browser: go test -count=1, in integration/browser"
	@cd integration/browser && BELAY_BROWSER_OUT="$(abspath $(OUT))" go test -count=1 ./...

mutants: ## planted bugs are caught, each by its check (docs/mutants.md)
	@echo "== mutants: go test -count=1 ./integration/mutants"
	@$(YIELD) go test -count=1 -timeout 30m ./integration/mutants

bench-guard: ## what a job costs, in counts and ratios, against recorded bounds (half a minute)
	@echo "== bench-guard: go run ./bench guard"
	@go run ./bench guard

torture: ## crashes at every command and rounds of chaos, for MINUTES (25), all drawn from SEED
	@echo "== torture: $(MINUTES) minutes, seed $(or $(SEED),drawn)"
	@go run ./integration/torture -minutes "$(MINUTES)" -seed "$(SEED)" -out "$(OUT)"

fuzz: ## every fuzz target for FUZZTIME (15s) each
	@echo "== fuzz: $(FUZZTIME) each"
	@tools/fuzz $(FUZZTIME)

bench: ## Go benchmarks of every package, BENCHTIME (1s) each
	@echo "== bench: go test -bench . -benchtime $(BENCHTIME)"
	@go test -p 1 -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) $$(go list ./... | grep -v /integration)

demo: ## workers are killed while jobs run; nothing is lost
	@echo "== demo: belay demo"
	@go run ./cmd/belay demo
