# The checks, run by hand and by CI. `make quick` is for each save. `make test` shows within minutes whether a clone
# works, and `make check` runs everything: it goes on after a step that fails, and fails if any did. Both install
# what they need (as root on Debian) or say how to.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Only `rest` runs steps side by side; in any other call `make -j` would mix their outputs up.
ifndef TOGETHER
.NOTPARALLEL:
endif
.PHONY: help quick test check rest idle need format vet belayvet lint lua race race-modules integration browser postgres \
	mutants bench-guard torture fuzz bench demo

# Two packages at a time: their tests start Redis servers and time them, and a third starves the others. Four
# tests of each, because most of them wait.
RACE := go test -race -p 2 -parallel 4
# What `test` selects of the integration tests: kills with -9, stops, lost replies, recovery, and jobs from Ruby and to it.
SELECTED := ^Test(Kill|Stop|Signals|LostAnswer|AJanitorIsKilledAtItsWork|RubyEnqueuesAndBelayWorks|BelayEnqueuesAndRubyWorks)$$
# One page in Chromium: two jobs of one jid, of which one is deleted.
PAGE := ^TestASelectionStaysWithItsJob$$
# The tests that read the files of this repository. The race detector would slow them by minutes, for nothing.
READING := ^Test(ImportsGoDown|RootLinks|EveryPackage|NoFileNames|ReadersFind|TrapsHave|WordsArePlain)
# The other modules. They have dependencies that a program with Belay must not get.
MODULES := bench cmd/belayvet contrib/gitlab contrib/otel contrib/outbox examples/outbox integration/browser integration/postgres
# What `quick` tests: packages without I/O, and the test kit on its Redis in memory.
PURE := ./job/... ./retry ./dedup/... ./driver ./link ./internal/drivertest/resp ./integration/verdict ./integration/chaosplan
# The checks without their bugs, which `check` has run, and the bugs in scripts: no check of theirs looks at the clock.
UNPLANTED := ^TestChecksPassWithoutABug$$
INSCRIPTS := ^TestMutantsAreCaught$$/^\.$$/^lua$$
# `rest` leaves out what `test` has run.
SKIPPED := $(if $(TESTED),$(SELECTED)|$(PAGE),^$$)
SEED ?=
OUT ?=
MINUTES ?= 25
SHARDS ?=
comma := ,
FUZZTIME ?= 15s
BENCHTIME ?= 1s

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

quick: ## vet, the tests without Redis and Ruby, and whether each planted bug can still be planted (half a minute)
	@go vet ./...
	@go test -skip 'Ruby|OnARealRedis|Conformance/.*/^redis$$' $(PURE) ./belaytest
	@go test -run '$(READING)' .
	@go test -run '^TestEachPlantedTextStandsOnce' ./integration/mutants

# Without the race detector, so that it shares the build cache of `make demo`. `go vet` finds all that `go test`
# looks for, so the tests need not look again: -vet=off. Six tests of a package run at a time: they mostly wait, and
# with eight on two busy cores some missed their bounds.
test: need format lua ## does this clone work? every package's tests, kill -9, stop, Ruby, one page in Chromium (minutes)
	@echo "== test: go vet, go test, all but integration; of integration '$(SELECTED)'; of integration/browser '$(PAGE)'"
	@go vet ./...
	@go test -vet=off -p 2 -parallel 6 $$(go list ./... | grep -v /integration)
	@go test -vet=off -count=1 -parallel 8 -run '$(SELECTED)' ./integration
	@cd integration/browser && go test -count=1 -run '$(PAGE)' .

check: ## everything but torture, and without mutants unless PLANT=1
	@log=$$(mktemp); trap 'rm -f "$$log"' EXIT; failed=0; for part in test rest; do \
		$(MAKE) --no-print-directory $$part 2>&1 | tee -a "$$log" || failed=1; done; \
	if [ $$failed = 1 ]; then echo "== what failed"; tools/failures "$$log"; fi; exit $$failed

# Two steps run at a time, and make prints each step's output when it has ended. The tests of real processes
# have bounds of seconds on the wall clock, so beside them runs only what takes the time that they leave idle.
rest: bench-guard ## what `check` runs after `test`
	@failed=0; for steps in "integration idle" "race browser postgres race-modules" $(if $(PLANT),mutants); do \
		$(MAKE) --no-print-directory -k -j 2 -O TOGETHER=1 TESTED=1 $$steps || failed=1; done; \
	exit $$failed

# With the lowest priority: the checks that run no program of ours, the build of what `race` runs, and bugs in scripts.
idle:
	@failed=0; nice -n 19 $(MAKE) --no-print-directory -k vet lint belayvet || failed=1; \
	nice -n 19 go test -race -vet=off -exec true $$(go list ./... | grep -v /integration) >/dev/null || failed=1; \
	$(if $(PLANT),nice -n 19 go test -count=1 -parallel 2 -timeout 30m -run '$(INSCRIPTS)' ./integration/mutants || failed=1;) \
	exit $$failed

need: ## what the checks need: look, and as root on Debian install what is missing
	@echo "== need"
	@tools/need

format: ## every Go file is as gofmt writes it
	@echo "== format: gofmt -l ."
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then \
		echo "run: gofmt -w" $$unformatted; exit 1; fi

vet: ## go vet, in each module
	@echo "== vet: go vet ./..., and in $(MODULES)"
	@for module in . $(MODULES); do (cd $$module && go vet ./...); done

# A module of its own, which ./... does not reach. The examples get copied, so they must pass it.
belayvet: ## cmd/belayvet: its tests, and a run over the examples
	@echo "== belayvet: its tests, and go vet -vettool=bin/belayvet . ./belaytest ./examples/..."
	@cd cmd/belayvet && go test -count=1 ./... && go build -o ../../bin/belayvet .
	@go vet -vettool=bin/belayvet . ./belaytest ./examples/...

# Built from source by a module of its own, so that no other module gets a linter's two hundred dependencies.
# The first build takes a minute or two on two cores; then Go's cache has it.
lint: ## golangci-lint with .golangci.yaml, in each module
	@echo "== lint: golangci-lint run ./... (built from source the first time), and in $(MODULES)"
	@export GOWORK=off; for module in . $(MODULES); do \
		(cd $$module && go tool -modfile="$(CURDIR)/tools/lint/go.mod" golangci-lint run ./...); done

lua: ## luacheck on the scripts
	@echo "== lua: luacheck lua/*.lua, and contrib/gitlab/*.lua"
	@luacheck --no-color -q lua/*.lua lua/shared/*.lua contrib/gitlab/*.lua

race: ## tests of every package but integration, with the race detector, on real Redis servers (minutes)
	@echo "== race: $(RACE), all but integration"
	@$(RACE) -timeout 10m -skip '$(READING)' $$(go list ./... | grep -v /integration)

race-modules: ## the same of the other modules with tests
	@echo "== race-modules: $(RACE), in bench, contrib/gitlab and contrib/otel"
	@for module in bench contrib/gitlab contrib/otel; do (cd $$module && $(RACE) -timeout 10m ./...); done

# Real servers, processes and signals are not in the key of Go's test cache, hence -count=1. One package at a
# time, because their bounds are seconds on the wall clock; six tests, because they mostly wait. With eight, two cores
# were so busy for moments that tests missed their bounds.
integration: ## the README's promises against real processes and signals (minutes)
	@echo "== integration: go test -race -count=1 -skip '$(SKIPPED)' ./integration/..., all but mutants"
	@go test -race -count=1 -p 1 -parallel 6 -timeout 25m -skip '$(SKIPPED)' $$(go list ./integration/... | grep -v /mutants)

# In a module of its own, because it brings a driver for SQL.
postgres: ## the promises of dedup/wal and contrib/outbox, with real PostgreSQL servers
	@echo "== postgres: go test -race -count=1, in integration/postgres"
	@cd integration/postgres && go test -race -count=1 ./...

# In a module of its own, because it brings a browser's protocol.
browser: ## the dashboard, and Sidekiq's own, in Chromium: every page and button; OUT=FOLDER keeps its screenshots
	@echo "== browser: go test -count=1 -skip '$(SKIPPED)', in integration/browser"
	@cd integration/browser && BELAY_BROWSER_OUT="$(abspath $(OUT))" go test -count=1 -skip '$(SKIPPED)' ./...

mutants: ## planted bugs are caught, each by its check (docs/mutants.md)
	@echo "== mutants: go test -count=1 $(if $(TESTED),-skip '$(UNPLANTED)$(if $(PLANT),|$(INSCRIPTS))' )./integration/mutants"
	@go test -count=1 -parallel 3 -timeout 30m $(if $(TESTED),-skip '$(UNPLANTED)$(if $(PLANT),|$(INSCRIPTS))') ./integration/mutants

bench-guard: ## what a job costs, in counts and ratios, against recorded bounds (half a minute)
	@echo "== bench-guard: go run ./bench guard"
	@go run ./bench guard

torture: ## crashes at every command and rounds of chaos, for MINUTES (25), all drawn from SEED; SHARDS=3 for a fleet with shards
	@echo "== torture: $(MINUTES) minutes, seed $(or $(SEED),drawn)$(if $(SHARDS),$(comma) $(SHARDS) shards)"
	@go run ./integration/torture -minutes "$(MINUTES)" -seed "$(SEED)" -shards "$(or $(SHARDS),0)" -out "$(OUT)"

fuzz: ## every fuzz target for FUZZTIME (15s) each
	@echo "== fuzz: $(FUZZTIME) each"
	@tools/fuzz $(FUZZTIME)

bench: ## Go benchmarks of every package, BENCHTIME (1s) each
	@echo "== bench: go test -bench . -benchtime $(BENCHTIME)"
	@go test -p 1 -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) $$(go list ./... | grep -v /integration)

demo: ## workers are killed while jobs run; nothing is lost
	@echo "== demo: belay demo"
	@go run ./cmd/belay demo
