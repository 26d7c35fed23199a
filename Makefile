# Shortcuts: each target runs a few commands that can also be run by hand.
.DEFAULT_GOAL := help
JOBS ?= $(shell nproc)

.PHONY: help
help:  ## show this list
	@sed -n 's/^\([a-z][a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

.PHONY: build
build:  ## build the programs, optimised, into build/release
	@./scripts/bootstrap.sh build
	cmake --preset release
	cmake --build --preset release -j $(JOBS)

.PHONY: test
test:  ## build, and run every test once, under AddressSanitizer and UBSan: 15 to 18 minutes on two CPUs
	@python3 -B scripts/run_tests.py --jobs $(JOBS)

.PHONY: test-all
test-all:  ## run all tests in all variants: sanitizers, threads, optimised, images, pods, lab; TEST_MINUTES=N ends it earlier
	@python3 -B scripts/run_tests.py --runs all --jobs $(JOBS) $(if $(TEST_MINUTES),--minutes $(TEST_MINUTES))

.PHONY: quick
quick:  ## build and run the unit tests of what differs from QUICK_BASE (origin/main)
	@python3 -B scripts/quick.py --jobs $(JOBS) $(if $(QUICK_BASE),--base $(QUICK_BASE))

.PHONY: nightly
nightly: arm64 k8s-test  ## run the checks that take too long for every change: arm64, the image from scratch, fuzzing, soak, attacks
	$(MAKE) fuzz FUZZ_SECONDS=$(or $(FUZZ_SECONDS),600) FUZZ_OPTIONS=--coverage
	$(MAKE) soak
	$(MAKE) hostile HOSTILE_OPTIONS="--only agent --builds dev" SEEDS=$(or $(SEEDS),5000)

.PHONY: arm64
arm64:  ## build everything for arm64 and run the unit tests under qemu-user
	@./scripts/bootstrap.sh build arm64
	@./scripts/arm64_sysroot.sh
	cmake --preset arm64
	cmake --build --preset arm64 -j $(JOBS)
	ctest --preset arm64

.PHONY: k8s-test
k8s-test: build  ## build the image from its Dockerfile, run it in pods, test the chart and the plugin with real programs
	@./scripts/bootstrap.sh test k8s
	docker/build.sh
	@for program in helm kubernetes dra_driver; do ./scripts/$$program.sh >/dev/null || \
	  echo "k8s-test: scripts/$$program.sh has failed; tests that need its programs are skipped"; done
	FAIRLEAD_IMAGES=$(CURDIR)/build/image ctest --test-dir build/release -R '^(kubernetes|cni|injection)_' \
	  --output-on-failure --no-tests=error -V

.PHONY: lab
lab: build  ## test Fairlead with the kernel's SMC in two virtual machines with RDMA; LAB_KEEP=1 keeps them running
	@./scripts/bootstrap.sh lab
	python3 -B tests/lab/lab.py

.PHONY: two-nodes
two-nodes: build  ## a cluster of two virtual machines with RNICs: the chart, pods, what goes and comes back; not part of test
	@./scripts/bootstrap.sh test lab k8s
	@./scripts/helm.sh >/dev/null
	@./scripts/kubernetes.sh >/dev/null
	@./scripts/containerd.sh >/dev/null
	@./scripts/dra_driver.sh >/dev/null
	python3 -B tests/two_nodes/run.py

.PHONY: lab-bench
lab-bench: build  ## compare speeds in the lab: TCP, the kernel's SMC-R, HAProxy, Fairlead, the device
	@./scripts/bootstrap.sh lab
	python3 -B tests/lab/bench.py

.PHONY: demo
demo:  ## show SMC-R between two proxies on this machine
	@./scripts/bootstrap.sh build demo
	@echo "demo: builds the proxy, fairleadctl and fairlead-node first: the first time up to 15 minutes on two CPUs"
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target fairlead-proxy fairleadctl fairlead-node
	python3 scripts/demo.py

# Without a package the example says which one is missing.
define run_example
	@./scripts/bootstrap.sh build
	@./scripts/bootstrap.sh examples || echo "$@: some packages of the examples are missing"
	@echo "$@: builds the proxy, fairleadctl and fairlead-node first: the first time up to 15 minutes on two CPUs"
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target fairlead-proxy fairleadctl fairlead-node
	python3 -B examples/$(1).py
endef

.PHONY: example-dask
example-dask:  ## shuffle data in a Dask cluster, without proxies, with HAProxy, with Fairlead
	$(call run_example,dask_shuffle)

.PHONY: example-postgres
example-postgres:  ## use a PostgreSQL server that admits only the client's own address, in the same ways
	$(call run_example,postgres)

.PHONY: example-nats
example-nats:  ## use a NATS server with long and short connections, in the same ways
	$(call run_example,nats)

.PHONY: bench
bench: build  ## compare with other proxies, side by side
	@./scripts/bootstrap.sh demo
	python3 tests/bench/bench.py

.PHONY: scale
scale: build  ## measure growth with connections, link groups, peers and time
	@./scripts/bootstrap.sh demo plot
	python3 tests/bench/scale.py

.PHONY: variants
variants:  ## print which lines only one variant of the integration tests reaches: docs/testing.md
	@./scripts/bootstrap.sh build test fuzz
	python3 -B scripts/variants.py --jobs $(JOBS)

.PHONY: fuzz
fuzz:  ## fuzz every decoder for FUZZ_SECONDS (60) of a CPU each; FUZZ_OPTIONS=--coverage prints what is reached
	@./scripts/bootstrap.sh build fuzz
	cmake --preset fuzz
	cmake --build --preset fuzz -j $(JOBS)
	python3 scripts/fuzz.py --seconds $(or $(FUZZ_SECONDS),60) $(FUZZ_OPTIONS)

.PHONY: sim
sim:  ## simulate whole clusters: SEEDS (1000) runs from FIRST_SEED (1), or the seeds of SEED_LIST
	@./scripts/bootstrap.sh build test
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target simulate
	build/release/tests/sim/simulate --seeds $(or $(SEEDS),1000) --first-seed $(or $(FIRST_SEED),1) \
	  $(if $(SEED_LIST),--list $(SEED_LIST))

.PHONY: model
model:  ## check the models of the protocol with Spin, in all states within their bounds, and with SEEDS (1000) simulations
	@./scripts/bootstrap.sh build model
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target simulate
	python3 -B tests/model/run.py --seeds $(or $(SEEDS),1000) --jobs $(JOBS)

.PHONY: mutants
mutants:  ## build MUTANTS (200) small defects into the protocol's code, drawn by SEED (1), and count those that the tests notice
	@./scripts/bootstrap.sh build test mutants
	/usr/bin/python3 -B tests/mutants/run.py --seed $(or $(SEED),1) --mutants $(or $(MUTANTS),200) --jobs $(JOBS)

.PHONY: hostile
hostile:  ## attack pairs of pods with hostile sidecars, and the node agent: SEEDS (1000) from FIRST_SEED (1), on two builds
	@./scripts/bootstrap.sh build test
	cmake --preset dev
	cmake --build --preset dev -j $(JOBS) --target fairlead-proxy fairleadctl fairlead-node fairlead-cni other_devices_proxy
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target fairlead-proxy fairleadctl fairlead-node fairlead-cni other_devices_proxy
	python3 scripts/hostile.py --seeds $(or $(SEEDS),1000) --first-seed $(or $(FIRST_SEED),1) \
	  --jobs $(or $(HOSTILE_JOBS),4) $(HOSTILE_OPTIONS)

.PHONY: soak
soak:  ## run mixed load while ports fail, SOAK_SECONDS (600) each under ASan and TSan, from SOAK_SEED (1)
	@./scripts/bootstrap.sh build test
	cmake --preset dev
	cmake --build --preset dev -j $(JOBS) --target fairlead-proxy fairleadctl fairlead-node other_devices_proxy
	cmake --preset tsan
	cmake --build --preset tsan -j $(JOBS) --target fairlead-proxy fairleadctl fairlead-node other_devices_proxy
	python3 scripts/soak.py --seconds $(or $(SOAK_SECONDS),600) --seed $(or $(SOAK_SEED),1)

.PHONY: suites
suites: build  ## run test suites of real servers through two proxies; SUITES=redis,... and SUITES_UNITS=regex select
	@./scripts/bootstrap.sh suites
	python3 -B scripts/suites.py

.PHONY: programs
programs: build  ## run iperf3, wrk, h2load, ab, sysbench, redis, gRPC and NATS through two proxies; PROGRAMS=wrk,... PROGRAMS_MEMORY=32MiB
	@./scripts/bootstrap.sh programs
	python3 -B scripts/programs.py $(if $(PROGRAMS),--only $(PROGRAMS)) $(if $(PROGRAMS_MEMORY),--memory $(PROGRAMS_MEMORY))

.PHONY: release
release:  ## make a release in build/release-VERSION: images for amd64 and arm64, chart, SBOMs, notes, checksums; RELEASE_KEY=FILE signs
	@./scripts/bootstrap.sh build arm64 k8s
	scripts/release.sh

.PHONY: tidy
tidy:  ## run clang-tidy over sources that differ from TIDY_BASE (origin/main); TIDY_ALL=1: over all sources
	@./scripts/bootstrap.sh build test
	cmake --preset dev
	cmake --build --preset dev -j $(JOBS) --target fairlead_bpf
	python3 scripts/tidy.py --jobs $(JOBS) $(if $(TIDY_ALL),--all,)

.PHONY: format
format:  ## format every source file
	@./scripts/bootstrap.sh test
	git ls-files -z '*.h' '*.cc' '*.c' | xargs -0 clang-format-14 -i
