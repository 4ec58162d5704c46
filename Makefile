# Gleaner. `make help` explains the targets.
#
# Each target does the set-up it needs: the first one on a fresh machine
# installs the C library of the system-call filter (contrib/setup/debian.sh).

SHELL   := /bin/bash
BIN     := bin
TAGS    := seccomp
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unversioned)
LDFLAGS := -X main.version=$(VERSION) -X github.com/gleaner-hpc/gleaner/noded.Version=$(VERSION)
# The same flags everywhere: what was compiled for the programs need not be
# compiled again for their tests and for lint.
export GOFLAGS := -trimpath
# NVIDIA's header warns about functions that its own Go binding wraps.
export CGO_CFLAGS := -O2 -g -Wno-deprecated-declarations
COMMANDS := gsubmit gqueue gcancel ginfo gprio gshare gcontrol grun gattach gdoctor gacctmgr

# Containers and cgroups need root: test binaries are built by whoever calls
# make and only run through sudo, so that no cache ends up owned by root.
SUDO    := $(if $(filter 0,$(shell id -u)),,sudo --preserve-env=PATH)
# lint has vetted all of it. Most tests wait most of the time, for processes and
# elections, so that more packages run at once than there are cores.
TEST_FLAGS := -tags '$(TAGS)' -vet off -p $(shell echo $$((3 * $$(nproc)))) $(if $(SUDO),-exec '$(SUDO)')
# At the end it tells which tests were skipped, and why.
GO_TEST := go tool gotestsum --format pkgname-and-test-fails --format-hide-empty-pkg -- $(TEST_FLAGS)

.DEFAULT_GOAL := build
.PHONY: help setup build demo demo-failover demo-fairshare demo-preempt demo-migrate migrations sim-fairshare test unit race scenario runbook machine sim chaos chaos-short chaos-proof fuzz lint proto bench microbench man clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what building needs (libseccomp), and CRIU, if they are missing
	@contrib/setup/debian.sh

build: setup ## build bin/: the daemons, ginit, and gleaner with its links
	@mkdir -p $(BIN)
	CGO_ENABLED=0 go build -ldflags '-s -w' -o $(BIN)/ginit ./cmd/ginit
	go build -tags '$(TAGS),urfave_cli_no_docs' -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/gctld ./cmd/gnoded ./cmd/gleaner
	@for c in $(COMMANDS); do ln -sf gleaner $(BIN)/$$c; done

demo: build ## run the main job on a one-machine cluster and check every outcome
	@$(SUDO) contrib/demo.sh

demo-failover: build ## kill the leading controller again and again while jobs are submitted and run (KILLS=5)
	@$(SUDO) env KILLS='$(or $(KILLS),5)' contrib/demo-failover.sh

demo-fairshare: build ## two labs of unequal shares submit 500 real jobs each: use converges to the shares, with a picture (PICTURE=.build/fairshare.svg)
	@mkdir -p .build
	@go build -o .build/shares ./test/shares
	@$(SUDO) env PICTURE='$(PICTURE)' contrib/demo-fairshare.sh

demo-preempt: build ## a job of a high QOS sends the cheapest ones away, and the cluster says what that costs
	@$(SUDO) contrib/demo-preempt.sh

demo-migrate: build ## a Python job that counts in its memory moves between two nodes while somebody watches it
	@$(SUDO) contrib/demo-migrate.sh

# TABLE=FILE writes the table as Markdown; ONLY is a regular expression on names.
migrations: build ## move 50 real programs between two nodes: they end as if nothing had been (ROUNDS=2 PARALLEL=3 ONLY= TABLE=)
	@contrib/setup/debian.sh programs || echo "make migrations: going on without"
	@mkdir -p .build
	@go build -o .build/migrations ./test/migrations
	@$(SUDO) env ROUNDS='$(ROUNDS)' PARALLEL='$(PARALLEL)' ONLY='$(ONLY)' TABLE='$(TABLE)' contrib/migrations.sh

test: build lint unit race scenario ## all tests: lint, unit, race detector, scenarios with real containers, a machine, chaos
	@$(MAKE) --no-print-directory -j3 --output-sync=target runbook machine chaos-short # each waits more than it works
	@echo "make test: all passed"

unit: setup ## unit tests (as root they include real containers and cgroups)
	$(GO_TEST) -timeout 10m $$(go list ./... | grep -v -e /test/scenario -e /test/machine -e /test/operations)

race: setup ## the race detector over what runs concurrently
	$(GO_TEST) -race -short -timeout 10m ./ctld/... ./noded/... ./cmd/... ./proto/...

scenario: build ## stories in txtar against the real binaries, as root
	$(GO_TEST) -timeout 15m -count 1 -parallel $$((2 * $$(nproc))) ./test/scenario/

runbook: build ## docs/operations.md, typed on hosts made of namespaces, as root
	$(GO_TEST) -timeout 15m -count 1 ./test/operations/

machine: build ## the cases that depend on control groups, in a virtual machine with cgroup v2 only
	@contrib/setup/debian.sh machine || echo "make machine: going on without"
	go test -tags '$(TAGS)' -timeout 15m -count 1 -v ./test/machine/

# The same SEED makes the same faults in the same order; the timing is that of
# real processes.
MINUTES ?= 5
CHAOS   := go build -o .build/ ./test/chaos ./test/chaos/proof && CGO_ENABLED=0 go build -ldflags '-s -w' -o .build/ ./test/chaos/record

chaos: build ## three controllers and six nodes in hostile weather, under load (MINUTES=5 SEED=n)
	@mkdir -p .build
	@$(CHAOS)
	$(SUDO) .build/chaos -bin $(BIN) -length $(MINUTES)m -seed $(or $(SEED),0)

chaos-short: build ## the same for 40 seconds, as part of the tests
	@mkdir -p .build
	@$(CHAOS)
	$(SUDO) .build/chaos -bin $(BIN) -length 40s -seed $(or $(SEED),0)

chaos-proof: build ## break one protection after the other: the checker of make chaos must find each
	@mkdir -p .build/proof
	@$(CHAOS)
	$(SUDO) .build/proof -chaos .build/chaos -bin $(BIN) -tags '$(TAGS)'

FUZZTIME ?= 1m
FUZZ     ?=
fuzz: setup ## run every fuzz target for FUZZTIME=1m each, or those that match FUZZ=regexp
	go run ./test/fuzz -tags '$(TAGS)' -time $(FUZZTIME) -run '$(FUZZ)'

sim-fairshare: setup ## the labs of demo-fairshare in virtual time, in a second: the picture is .build/sim-fairshare.svg (SEED=n)
	@mkdir -p .build
	@go build -o .build/shares ./test/shares
	@.build/shares -seed $(or $(SEED),1) -o .build/sim-fairshare.svg

# SEED=n replays one simulated day, SEEDS=n runs that many; SIMFLAGS has more
# (see test/sim).
SEEDS    ?= 100
SIMFLAGS ?=
sim: setup ## simulate days of a whole cluster in virtual time (SEEDS=100, or SEED=n for one)
	@mkdir -p .build
	@go build -o .build/sim ./test/sim
	@.build/sim $(if $(SEED),-seed $(SEED),-seeds $(SEEDS)) $(SIMFLAGS)

lint: setup ## gofmt, go vet, staticcheck
	@out=$$(gofmt -l $$(git ls-files '*.go' | grep -v '\.pb\.go$$')); test -z "$$out" || { echo "gofmt -w these:"; echo "$$out"; exit 1; }
	go vet -tags '$(TAGS)' ./...
	go tool staticcheck -tags '$(TAGS)' ./...

proto: ## regenerate the Go of the .proto contracts (needs protoc)
	@command -v protoc >/dev/null || { echo "protoc is missing: apt-get install protobuf-compiler"; exit 1; }
	@mkdir -p .build
	go build -o .build/ google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
	PATH=$$PWD/.build:$$PATH protoc -I proto --go_out=proto --go_opt=paths=source_relative \
		--go-grpc_out=proto --go-grpc_opt=paths=source_relative proto/gleaner/v1/*.proto

# BENCH=full measures longer. SLURM=auto fetches Debian's Slurm into a folder of
# its own if it is not there; off leaves it out; a folder holds it unpacked.
BENCH ?= quick
SLURM ?= auto

bench: build ## measure beside Slurm and libcontainer (BENCH=quick|full SLURM=auto|off|DIR)
	@[ '$(SLURM)' != auto ] || contrib/setup/debian.sh slurm || true # the report says what is missing
	@mkdir -p .build
	go build -tags '$(TAGS)' -o .build/bench ./test/bench
	$(SUDO) .build/bench -bin $(BIN) -size '$(BENCH)' -slurm '$(SLURM)' -markdown .build/bench.md -json .build/bench.json

microbench: build ## Go's benchmarks of single functions, in all packages
	go test $(TEST_FLAGS) -run '^$$' -bench . -benchtime 1s ./...

man: build ## the man pages, into bin/man
	$(BIN)/gleaner man --dir $(BIN)/man

clean: ## remove what was built
	rm -rf $(BIN) .build
