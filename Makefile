# Gleaner. `make help` explains the targets.
#
# Each target does the set-up it needs: the first one on a fresh machine
# installs the C library of the system-call filter (contrib/setup/debian.sh).

SHELL   := /bin/bash
BIN     := bin
# Commands start often: what draws man pages and what traces calls is left out of them.
# Names are resolved without the C library in all programs, as in the commands, which are
# built without it: they answer alike, and share what was compiled.
TAGS    := seccomp,libsqlite3,urfave_cli_no_docs,grpcnotrace,netgo
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unversioned)
LDFLAGS := -X main.version=$(VERSION) -X github.com/gleaner-hpc/gleaner/noded.Version=$(VERSION)
# The same flags everywhere: what was compiled for the programs need not be
# compiled again for their tests and for lint. Without what a debugger needs a
# sixth of all compiling is saved; stack traces and profiles need none of it. Compilers
# and linkers end before collecting their memory pays: that saves a quarter, and the largest
# takes 400 MB. They give way (nice) to tests that run beside them: these are about time.
# What a test or another program builds in turn has them too: without the tags, the
# network's package and all above it would be compiled once more.
COMPILING := -tags=$(TAGS) -trimpath -gcflags=all=-dwarf=false
TOOLS     := env GOGC=800
export GOFLAGS := $(COMPILING) '-toolexec=$(TOOLS) nice'
# NVIDIA's header warns about functions that its own Go binding wraps.
export CGO_CFLAGS := -O2 -Wno-deprecated-declarations
# What was written for Slurm finds the commands under its names in a directory of
# their own (docs/from-slurm.md).
SLURM_NAMES := sbatch squeue scancel scontrol sinfo sshare sprio sacctmgr srun salloc sattach sbcast sacct sstat seff sreport sdiag
COMMANDS := gsubmit gqueue gcancel ginfo gprio gshare gacct gstat geff greport gdiag gcontrol grun galloc gattach gbcast gcp gforward glogs gimage gdoctor gacctmgr greclaim grelease glend

# Containers and cgroups need root: test binaries are built by whoever calls
# make and only run through sudo, so that no cache ends up owned by root.
SUDO    := $(if $(filter 0,$(shell id -u)),,sudo --preserve-env=PATH,GOGC)
# lint has vetted all of it. Most tests wait most of the time, for processes and
# elections, so that more packages run at once than there are cores.
TEST_FLAGS := -vet off -p $(shell echo $$((3 * $$(nproc)))) $(if $(SUDO),-exec '$(SUDO)')
# At the end it tells which tests were skipped, and why. contrib/slowest.sh reads
# the file.
$(shell mkdir -p .build/times)
#
# A test that fails is run once more, alone, if it is one of at most three: most
# tests are about real processes, and a machine that stands still for a second can
# be late for any of them. make test names such a test at its end: it has a fault,
# or finds one.
#
# Tests that compute make much and keep little: those of the state machine take a quarter
# less when they collect their memory less often.
GO_TEST  = GOGC=400 go tool gotestsum --jsonfile .build/times/$@.json --format pkgname-and-test-fails --format-hide-empty-pkg \
	--rerun-fails=1 --rerun-fails-max-failures=3 --rerun-fails-abort-on-data-race --rerun-fails-report=.build/times/$@.again \
	--packages="$(1)" -- $(TEST_FLAGS)

.DEFAULT_GOAL := build
.PHONY: help setup build install uninstall deb packages demo demo-failover demo-fairshare demo-preempt demo-backfill demo-migrate demo-network demo-reclaim demo-people demo-image differ compare-lending gangs migrations sim-fairshare test computing waiting stories soak unit raced linted race left-out scenario attack reclaims runbook machine sim chaos chaos-short chaos-proof fuzz lint proto bench microbench man clean curve bench-nodes traces

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what building needs (libseccomp, SQLite), and CRIU, if they are missing
	@contrib/setup/debian.sh

# gpmix serves PMIx, which Open MPI speaks: without libpmix-dev all but that is built.
build: setup ## build bin/: the daemons, ginit, goci, gstage, and gleaner with its links
	@mkdir -p $(BIN)
	CGO_ENABLED=0 go build -ldflags '-s -w' -o $(BIN)/ginit ./cmd/ginit
	go build -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/gctld ./cmd/gnoded
	CGO_ENABLED=0 go build -ldflags '$(LDFLAGS)' -o $(BIN)/ ./cmd/gleaner
	CGO_ENABLED=0 go build -ldflags '-s -w' -o $(BIN)/ ./cmd/goci ./cmd/gstage
	@rm -f $(BIN)/gpmix
	@if pkg-config --exists pmix 2>/dev/null; then set -x; go build -tags=$(TAGS),pmix -ldflags '-s -w' -o $(BIN)/ ./cmd/gpmix; fi
	@for c in $(COMMANDS); do ln -sf gleaner $(BIN)/$$c; done
	@mkdir -p $(BIN)/slurm; for c in $(SLURM_NAMES); do ln -sf ../gleaner $(BIN)/slurm/$$c; done

# Where things go, by the names of GNU's coding standards; DESTDIR goes before each.
PREFIX     ?= /usr/local
prefix     ?= $(PREFIX)
bindir     ?= $(prefix)/bin
sbindir    ?= $(prefix)/sbin
slurmdir   ?= $(prefix)/lib/gleaner/slurm
datadir    ?= $(prefix)/share
mandir     ?= $(datadir)/man
docdir     ?= $(datadir)/doc/gleaner
unitdir    ?= $(prefix)/lib/systemd/system
bashdir    ?= $(datadir)/bash-completion/completions
zshdir     ?= $(datadir)/zsh/site-functions
fishdir    ?= $(datadir)/fish/vendor_completions.d

install: ## install what make has built: programs, man pages, completion, units, examples (PREFIX=/usr/local DESTDIR=)
	@test -x $(BIN)/gctld || { echo "there is nothing to install yet: type make first"; exit 1; }
	install -d $(addprefix $(DESTDIR),$(bindir) $(sbindir) $(slurmdir) $(mandir)/man1 $(mandir)/man8 $(docdir) $(unitdir) $(bashdir) $(zshdir) $(fishdir))
	install $(BIN)/gctld $(BIN)/gnoded $(BIN)/ginit $(DESTDIR)$(sbindir)/
	install $(BIN)/gleaner $(BIN)/goci $(BIN)/gstage $(DESTDIR)$(bindir)/
	@if [ -e $(BIN)/gpmix ]; then install $(BIN)/gpmix $(DESTDIR)$(bindir)/; fi
	@for c in $(COMMANDS); do ln -sf gleaner $(DESTDIR)$(bindir)/$$c; done
	@for c in $(SLURM_NAMES); do ln -sf $(bindir)/gleaner $(DESTDIR)$(slurmdir)/$$c; done
	umask 022; $(BIN)/gleaner man --dir $(DESTDIR)$(mandir)/man1 >/dev/null
	umask 022; for d in gctld gnoded; do contrib/package/man8.sh $(BIN)/$$d >$(DESTDIR)$(mandir)/man8/$$d.8; done
	umask 022; $(BIN)/gleaner completion bash >$(DESTDIR)$(bashdir)/gleaner
	umask 022; $(BIN)/gleaner completion zsh >$(DESTDIR)$(zshdir)/_gleaner
	umask 022; $(BIN)/gleaner completion fish >$(DESTDIR)$(fishdir)/gleaner.fish
	@for c in $(COMMANDS); do ln -sf gleaner $(DESTDIR)$(bashdir)/$$c; ln -sf gleaner.fish $(DESTDIR)$(fishdir)/$$c.fish; done
	@for u in gctld gnoded gleaner-agent; do \
		sed 's|/usr/local/sbin/|$(sbindir)/|g; s|/usr/local/bin/|$(bindir)/|g' contrib/systemd/$$u.service >$(DESTDIR)$(unitdir)/$$u.service; \
		chmod 644 $(DESTDIR)$(unitdir)/$$u.service; done
	install -m 644 contrib/cluster.toml $(DESTDIR)$(docdir)/

uninstall: ## remove what make install has put there; configuration and state stay
	rm -f $(addprefix $(DESTDIR)$(sbindir)/,gctld gnoded ginit) $(addprefix $(DESTDIR)$(bindir)/,gleaner goci gstage gpmix $(COMMANDS))
	rm -f $(addprefix $(DESTDIR)$(slurmdir)/,$(SLURM_NAMES))
	@rmdir $(DESTDIR)$(slurmdir) $(dir $(DESTDIR)$(slurmdir)) 2>/dev/null || true
	rm -f $(addprefix $(DESTDIR)$(unitdir)/,gctld.service gnoded.service gleaner-agent.service) $(DESTDIR)$(docdir)/cluster.toml
	rm -f $(addprefix $(DESTDIR)$(bashdir)/,gleaner $(COMMANDS)) $(DESTDIR)$(zshdir)/_gleaner
	rm -f $(addsuffix .fish,$(addprefix $(DESTDIR)$(fishdir)/,gleaner $(COMMANDS)))
	rm -f $(addsuffix .1,$(addprefix $(DESTDIR)$(mandir)/man1/,gleaner gleaner-agent gleaner-completion gleaner-dev gleaner-man gleaner-setup gleaner-simulate $(COMMANDS))) $(DESTDIR)$(mandir)/man8/gctld.8 $(DESTDIR)$(mandir)/man8/gnoded.8
	@rmdir $(DESTDIR)$(docdir) 2>/dev/null || true

# ARCH is Debian's word. Of another architecture than this machine's, the C library of
# the system-call filter comes from Debian too (contrib/setup/cross.sh).
ARCH    ?= $(shell dpkg --print-architecture 2>/dev/null || echo amd64)
CROSS   := /var/cache/gleaner/cross
DEB_OUT ?= .build/deb
CROSS_ENV = GOARCH=$(ARCH) CGO_ENABLED=1 CC='aarch64-linux-gnu-gcc --sysroot=$(CROSS)/$(ARCH)' PKG_CONFIG_SYSROOT_DIR=$(CROSS)/$(ARCH) PKG_CONFIG_LIBDIR=$(CROSS)/$(ARCH)/usr/lib/aarch64-linux-gnu/pkgconfig

deb: build ## Debian packages of all of it, into .build/deb (ARCH=amd64|arm64 VERSION of the package by the last tag)
ifeq ($(ARCH),$(shell dpkg --print-architecture 2>/dev/null || echo amd64))
	@contrib/package/deb.sh $(ARCH) $(BIN) $(DEB_OUT)
else
	@$(SUDO) contrib/setup/cross.sh $(ARCH)
	@mkdir -p .build/cross/$(ARCH)
	GOARCH=$(ARCH) CGO_ENABLED=0 go build -ldflags '-s -w' -o .build/cross/$(ARCH)/ginit ./cmd/ginit
	$(CROSS_ENV) go build -ldflags '$(LDFLAGS)' -o .build/cross/$(ARCH)/ ./cmd/gctld ./cmd/gnoded
	GOARCH=$(ARCH) CGO_ENABLED=0 go build -ldflags '$(LDFLAGS)' -o .build/cross/$(ARCH)/ ./cmd/gleaner
	GOARCH=$(ARCH) CGO_ENABLED=0 go build -ldflags '-s -w' -o .build/cross/$(ARCH)/ ./cmd/goci ./cmd/gstage
	@contrib/package/deb.sh $(ARCH) .build/cross/$(ARCH) $(DEB_OUT)
endif

packages: build ## install, upgrade, downgrade and purge the packages in a clean Debian made by debootstrap (minutes; not in make test)
	@$(SUDO) test/packages/clean-root.sh

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

demo-backfill: build ## a job that can be saved fills the hole in front of a wide one, which starts on the second it was promised
	@$(SUDO) contrib/demo-backfill.sh

demo-migrate: build ## a Python job that counts in its memory moves between two nodes while somebody watches it
	@$(SUDO) contrib/demo-migrate.sh

# Twenty minutes on two cores.
gangs: build ## connected jobs on several nodes move again and again (ROUNDS=50 ONLY=ring|workers|dask|mpich|mpich6|openmpi|openmpi6)
	@$(SUDO) env ROUNDS='$(or $(ROUNDS),50)' ONLY='$(ONLY)' test/gangs/gangs.sh

demo-network: build ## a job on two nodes moves with its open connections, in mid-stream, while one of its nodes is drained
	@$(SUDO) contrib/demo-network.sh

demo-reclaim: build ## an owner takes a node back: guests are parked, go on elsewhere, or continue in place
	@$(SUDO) contrib/demo-reclaim.sh

demo-image: build ## jobs in container images: made without a daemon, pushed to a registry that the demo starts, signed, run on two nodes and moved; files staged in and out through S3
	@go build -o .build/registry ./test/registry
	@$(SUDO) contrib/demo-image.sh

demo-people: build ## a Slurm user's week, typed with Slurm's names by an ordinary user: every answer is compared with Slurm's
	@$(SUDO) contrib/demo-people.sh

# PEER is a folder in which Debian's Slurm is installed, with slurmdbd and MariaDB.
differ: build ## type the same lines into Slurm and into Gleaner: each difference is mended, or listed in docs/from-slurm.md (PEER=DIR ONLY=regexp)
	@mkdir -p .build
	@go build -o .build/differ ./test/differ
	@$(SUDO) .build/differ -peer '$(PEER)' -only '$(ONLY)'

# PHILLY and DEPARTURES are the files; neither is part of the tree.
compare-lending: build ## replay a trace of labs that share nothing, lend with kill, or lend with park and pack: a table and a picture (PHILLY=jobs.csv.gz DEPARTURES= FROM=14-0 UNTIL=24-0)
	@mkdir -p .build
	@test -r '$(or $(PHILLY),../shared/data/philly/jobs.csv.gz)' || { echo "make compare-lending: PHILLY=FILE says where the trace is (docs/reclaim.md)"; exit 1; }
	$(BIN)/gleaner simulate --trace '$(or $(PHILLY),../shared/data/philly/jobs.csv.gz)' --cluster contrib/examples/philly.toml --round-limits \
		--lending isolated,kill,park,pack $(if $(DEPARTURES),--departures '$(DEPARTURES)') \
		--from '$(or $(FROM),14-0)' --until '$(or $(UNTIL),24-0)' --svg .build/lending.svg

# TABLE=FILE writes the table as Markdown; ONLY is a regular expression on names.
migrations: build ## move 50 real programs, with GPUs of unlike nodes: they end as if nothing had been (ROUNDS=2 PARALLEL=3 ONLY= TABLE=)
	@contrib/setup/debian.sh programs || echo "make migrations: continuing without"
	@mkdir -p .build
	@go build -o .build/migrations ./test/migrations
	@$(SUDO) env ROUNDS='$(ROUNDS)' PARALLEL='$(PARALLEL)' ONLY='$(ONLY)' TABLE='$(TABLE)' contrib/migrations.sh

# The programs come first: everything that starts after them finds compiled what is linked
# into them. Lint beside them would compile the same at the same time.
test: build ## all tests: lint, unit, race detector, stories with real containers, a virtual machine, chaos
	@contrib/setup/debian.sh munge || echo "make test: continuing without munged"
	@rm -f .build/times/*
	@$(MAKE) --no-print-directory -j2 --output-sync=line computing waiting BUILT=yes
	@contrib/slowest.sh .build/times/*.json
	@if [ -n "$$(cat .build/times/*.again)" ]; then echo "failed at first, and passed when run once more:"; cat .build/times/*.again; fi
	@echo "make test: all passed"

# A make that has just built all says so to those below: go build takes a second of
# processor time for each program to find that it is up to date.
BUILT :=
BUILD := $(if $(BUILT),,build)

# What computes runs beside what waits for processes most of the time.
computing: setup
	@$(MAKE) --no-print-directory -j2 --output-sync=line raced linted RACED='$(RACE_TOO)'

raced:
	@$(MAKE) --no-print-directory race
	@$(MAKE) --no-print-directory left-out

linted:
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory unit

# The virtual machine takes one core for minutes: it is not left until the end.
waiting: $(BUILD)
	@$(MAKE) --no-print-directory -j2 --output-sync=target machine stories BUILT=yes

stories:
	@$(MAKE) --no-print-directory scenario
	@$(MAKE) --no-print-directory -j2 --output-sync=target runbook chaos-short

# What runs concurrently is tested under the race detector. Of these packages
# some have tests that show it nothing new and take long with it: make race leaves
# those out, and make left-out runs them. All others of make test run only once.
RACE_ONLY := ./cmd/gleaner/run ./ctld/api ./ctld/history ./ctld/leader ./ctld/peerlink ./ctld/pki ./ctld/replica ./ctld/session ./ctld/web ./noded/gpu ./noded/images ./noded/pid1 ./noded/shim/relay ./proto/dial ./proto/login ./proto/prototest ./proto/step/...
RACE_TOO  := ./noded/shim ./ctld ./noded
RACED     :=

# What takes long begins first, so that nothing is left over at the end.
LONG := ./noded/container ./test/sim/broken ./test/sim/ordered ./ctld/state

unit: setup ## unit tests (as root they include real containers and cgroups)
	$(call GO_TEST,$(LONG) $$(go list ./... | grep -vxF "$$(go list $(RACE_ONLY) $(RACED))" | grep -v -e /test/scenario -e /test/machine -e /test/operations)) -timeout 10m

# Nothing is inlined there: that saves a fifth of all compiling with the race detector.
RACE := -race -short -gcflags='all=-dwarf=false -l'
race: setup ## the race detector over what runs concurrently
	@contrib/setup/debian.sh postgres || echo "make race: continuing without PostgreSQL"
	$(call GO_TEST,$(RACE_TOO) $(RACE_ONLY)) $(RACE) -timeout 10m
	GOGC=400 go test $(TEST_FLAGS) $(RACE) -run View ./ctld/state

# The names of the tests that make race left out are in what it wrote.
left-out: setup ## those tests that make race left out, without the race detector
	@test -s .build/times/race.json || { echo "which tests these are is not known yet: type make race first"; exit 1; }
	$(call GO_TEST,$(RACE_TOO)) -timeout 10m -run "^($$(sed -n 's/.*"Action":"skip".*"Test":"\([^"/]*\).*/\1/p' .build/times/race.json | sort -u | paste -sd'|'))$$"

# Before a release, and behind a change of the state machine, the scheduler, the
# log or the simulation.
soak: build ## the tests of chance for longer: walks, damaged disks, floods, simulated days and faults, chaos (an hour or so)
	go vet ./...
	go tool staticcheck -tags '$(TAGS)' ./...
	SOAK=1 $(call GO_TEST,./ctld/state ./ctld ./ctld/replica ./noded/network ./test/sim/... ./test/traces) -timeout 3h -count 1
	@SOAK=1 $(MAKE) --no-print-directory machine
	@SOAK=1 $(MAKE) --no-print-directory sim SEEDS=500
	@$(MAKE) --no-print-directory chaos MINUTES=30

scenario: $(BUILD) ## stories in txtar against the real binaries, as root
	$(call GO_TEST,./test/scenario/) -timeout 30m -count 1 -parallel $$((5 * $$(nproc) / 2))

reclaims: $(BUILD) ## 300 reclaims of nodes and GPUs under a mixed load: how many promises were kept, and how long guests took to leave
	SOAK=1 $(call GO_TEST,./test/scenario/) -timeout 30m -count 1 -v -run 'TestScenarios/^reclaim-many$$'

attack: $(BUILD) ## the stories of ordinary users who attack: attack-*.txtar, which are part of make scenario
	$(call GO_TEST,./test/scenario/) -timeout 15m -count 1 -run 'TestScenarios/^attack-'

runbook: $(BUILD) ## docs/install.md and docs/operations.md, typed on hosts made of namespaces, as root
	$(call GO_TEST,./test/operations/) -timeout 15m -count 1

# Its tests are compiled ahead of all others: it computes the longest of all, on one core.
machine: export GOFLAGS := $(COMPILING) '-toolexec=$(TOOLS)'
machine: $(BUILD) ## the cases that depend on control groups, in a virtual machine with cgroup v2 only
	@contrib/setup/debian.sh machine || echo "make machine: continuing without"
	go tool gotestsum --jsonfile .build/times/$@.json --format standard-verbose -- -vet off -timeout 25m -count 1 ./test/machine/

# The same SEED makes the same faults in the same order; the timing is that of
# real processes.
MINUTES ?= 5
CHAOS   := go build -o .build/ ./test/chaos ./test/chaos/proof && CGO_ENABLED=0 go build -ldflags '-s -w' -o .build/ ./test/chaos/record

chaos: $(BUILD) ## three controllers and six nodes in hostile weather, under load (MINUTES=5 SEED=n)
	@mkdir -p .build
	@$(CHAOS)
	$(SUDO) .build/chaos -bin $(BIN) -length $(MINUTES)m -seed $(or $(SEED),0)

chaos-short: $(BUILD) ## the same for 30 seconds, as part of the tests
	@mkdir -p .build
	@$(CHAOS)
	$(SUDO) .build/chaos -bin $(BIN) -length 30s -seed $(or $(SEED),0)

chaos-proof: build ## break one protection after the other: the checker of make chaos must find each
	@mkdir -p .build/broken
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

# The whole of staticcheck and of go vet analyses every library too: make soak does that.
lint: setup ## gofmt, and the checks of go vet and staticcheck that look at one package
	@out=$$(gofmt -l $$(git ls-files '*.go' | grep -v '\.pb\.go$$')); test -z "$$out" || { echo "gofmt -w these:"; echo "$$out"; exit 1; }
	go run ./test/lint -tags '$(TAGS)' ./...

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
	go build -o .build/bench ./test/bench
	$(SUDO) .build/bench -bin $(BIN) -size '$(BENCH)' -slurm '$(SLURM)' -markdown .build/bench.md -json .build/bench.json
	@$(MAKE) --no-print-directory curve

curve: ## what a scheduling pass costs as nodes and jobs grow (CURVE="-jobs 1000000" for other sizes: see -help)
	@mkdir -p .build
	@go build -o .build/curve ./test/curve
	@.build/curve $(CURVE)

# TRACES is the folder of the traces, which are not part of the tree.
traces: ## replay recorded workloads under all policies, beside the figures of another simulator (TRACES=../shared/data QUICK=1 without the long one)
	@mkdir -p .build
	@go build -o .build/traces ./test/traces
	@.build/traces -folder '$(or $(TRACES),../shared/data)' $(if $(QUICK),-quick)

bench-nodes: build ## three controllers with thousands of connected nodes: processor, memory, fail-over (NODES=10000)
	@mkdir -p .build
	@go build -o .build/nodes ./test/nodes
	@$(SUDO) .build/nodes -bin $(BIN) -nodes $(or $(NODES),10000)

microbench: build ## Go's benchmarks of single functions, in all packages
	go test $(TEST_FLAGS) -run '^$$' -bench . -benchtime 1s ./...

man: build ## the man pages, into bin/man
	$(BIN)/gleaner man --dir $(BIN)/man

clean: ## remove what was built
	rm -rf $(BIN) .build
