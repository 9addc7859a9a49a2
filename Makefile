# What is run by hand and by CI. `make check` is the whole of it: it installs what it needs (root on
# Debian) or says how to, and stops at the first step that fails.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# The steps share two cores and the same build cache; `make -j check` would only mix their outputs up.
.NOTPARALLEL:
.PHONY: help check need format vet belayvet lint lua test integration replica mutants bench-guard peers torture fuzz bench demo

# Two packages at a time: their tests start Redis servers and time them, and a third starves the others.
RACE := go test -race -p 2
# Modules of their own, so that what they need is nobody's who imports Belay.
MODULES := bench bench/peers cmd/belayvet integration/replica
SEED ?=
OUT ?=
MINUTES ?= 25
FUZZTIME ?= 15s
BENCHTIME ?= 1s

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

check: need format vet belayvet lint lua test peers bench-guard integration replica mutants ## all of the steps down to mutants, in this order

need: ## what the checks need: look, and as root on Debian install what is missing
	@echo "== need"
	@tools/need

format: ## every Go file is as gofmt writes it
	@echo "== format: gofmt -l ."
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then \
		echo "run: gofmt -w" $$unformatted; exit 1; fi

vet: ## go vet, in each module
	@echo "== vet: go vet ./..., and in $(MODULES)"
	@go vet ./...
	@for module in $(MODULES); do (cd $$module && go vet ./...); done

# In a module of its own, which ./... does not reach. What is copied from here is held to what it wants of every program.
belayvet: ## cmd/belayvet, and what it says of the examples
	@echo "== belayvet: its tests, and go vet -vettool=bin/belayvet . ./belaytest ./examples/..."
	@cd cmd/belayvet && go test -count=1 ./... && go build -o ../../bin/belayvet .
	@go vet -vettool=bin/belayvet . ./belaytest ./examples/...

# Built from source by a module of its own, so that a linter's two hundred dependencies are nobody's who
# imports Belay. The first build takes a minute or two on two cores; then Go's cache has it.
lint: ## golangci-lint with .golangci.yaml, in each module
	@echo "== lint: golangci-lint run ./... (built from source the first time), and in $(MODULES)"
	@export GOWORK=off; for module in . $(MODULES); do \
		(cd $$module && go tool -modfile="$(CURDIR)/tools/lint/go.mod" golangci-lint run ./...); done

lua: ## luacheck on the scripts
	@echo "== lua: luacheck lua/*.lua"
	@luacheck --no-color -q lua/*.lua lua/shared/*.lua

test: ## tests of every package but integration, with the race detector
	@echo "== test: $(RACE), all but integration, and in bench"
	@$(RACE) -timeout 10m $$(go list ./... | grep -v /integration)
	@cd bench && $(RACE) -timeout 10m ./...

# Real servers, processes and signals: nothing of that is in Go's test cache key, hence -count=1. One
# package at a time, because their bounds are seconds on the wall clock; four tests, because they mostly wait.
integration: ## the README's promises against real processes and signals (minutes)
	@echo "== integration: go test -race -count=1 ./integration/..., all but mutants"
	@go test -race -count=1 -p 1 -parallel 4 -timeout 20m $$(go list ./integration/... | grep -v /mutants)

# In a module of its own, because it brings a driver for SQL.
replica: ## what package dedup/wal promises, with a real PostgreSQL and a replica of it
	@echo "== replica: go test -race -count=1, in integration/replica"
	@cd integration/replica && go test -race -count=1 ./...

mutants: ## planted bugs are caught, each by its check (docs/mutants.md)
	@echo "== mutants: go test -count=1 ./integration/mutants"
	@go test -count=1 -timeout 10m ./integration/mutants

# Not their tests of asynq and River themselves, which want their servers: what the bench needs of all of them.
peers: ## the bench's peers, a module of their own: they compile, and speak the bench's language
	@echo "== peers: go test ./talk ./measure in bench/peers"
	@cd bench/peers && GOWORK=off go vet ./... && GOWORK=off go test -count=1 ./talk ./measure

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
