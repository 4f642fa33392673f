# SPDX-License-Identifier: MIT
# The verbs. Each does its own set-up: what it needs is fetched and built first,
# once, into $OPENREG_CACHE (default ~/.cache/openreg).

MAKEFLAGS += --no-print-directory

# What a target does not take would be ignored without a word.
refuse = $(if $(and $(findstring command line,$(origin $(1))),$(filter-out $(2),$(MAKECMDGOALS))),\
	$(error make $(MAKECMDGOALS) does not take $(1); "make help" lists what it takes, and ARGS="--help" most options))
$(foreach name,KERNEL SEED CARDS MINUTES,$(call refuse,$(name),soak))
$(call refuse,SECONDS,fuzz-%)

help:
	@echo 'make demo               train a small network on the card, in a VM'
	@echo 'make test               every test suite'
	@echo 'make shell              a shell in a VM with the card and the driver;'
	@echo '                        ARGS="--cards 2": options of scripts/vm'
	@echo 'make sim                Python with torch and a card inside its own process'
	@echo 'make conformance        every operator of torch against the CPU; ARGS=--help'
	@echo 'make upstream-tests     PyTorch'"'"'s own device tests on a card; ARGS=--help'
	@echo 'make matrix             the suites that run in VMs, on every kernel; ARGS="lts"'
	@echo 'make bench              measure, natively and in a VM, into bench.json'
	@echo 'make sweep              time every operator against the CPU; ARGS=--help'
	@echo 'make fuzz-NAME          fuzz the card for SECONDS=60; NAME decode, packets,'
	@echo '                        card, diff or qemu; or the driver: ioctl'
	@echo 'make soak               many processes, kills, resets and unplugs for MINUTES=5;'
	@echo '                        KERNEL=stock, SEED=, CARDS=1'
	@echo 'make torture            the long half of the tests; ARGS="soak=60 fuzz-card=30"'
	@echo 'make coverage-kmod      which lines of the driver its tests run'
	@echo 'make coverage           which lines and branches of the card its tests run'
	@echo 'make course             render the course on writing a backend (docs/course)'
	@echo 'make build              build everything, run nothing'
	@echo 'make clean              delete everything that was built ($$OPENREG_CACHE)'
	@echo
	@echo 'One suite:              make test-NAME, NAME one of'
	@(scripts/suite --list; scripts/suite --list-more) | paste -sd ' ' | fold -sw 54 | sed 's/^/                          /'
	@echo 'One component:          make build-NAME, NAME one of'
	@scripts/build --list | paste -sd ' ' | fold -sw 54 | sed 's/^/                          /'
	@echo 'Anything else in a VM:  scripts/vm --help'
	@echo 'A VM of your own:       scripts/qemu ARGUMENTS of QEMU, such as -device openreg,help'
	@echo 'Anything on that card:  scripts/sim --help'
	@echo 'Anything in the root:   scripts/in-root COMMAND'

demo:
	@scripts/vm --with lib,plugin $(ARGS) -- python3 plugin/demo/digits.py

test:
	@scripts/test-all

shell:
	@scripts/vm --shell --timeout 0 $(ARGS)

sim:
	@scripts/sim $(ARGS)

conformance:
	@scripts/conformance $(ARGS)

upstream-tests:
	@scripts/upstream-tests $(ARGS)

matrix:
	@scripts/matrix $(ARGS)

bench:
	@tests/bench/run $(ARGS)

sweep:
	@scripts/sweep $(ARGS)

fuzz-%:
	@scripts/fuzz $* $(SECONDS)

soak:
	@scripts/soak $(or $(MINUTES),5) --kernel $(or $(KERNEL),stock) \
		$(if $(SEED),--seed $(SEED)) $(if $(CARDS),--cards $(CARDS)) $(ARGS)

torture:
	@scripts/torture $(ARGS)

coverage:
	@scripts/coverage

coverage-kmod:
	@scripts/coverage-kmod

course:
	@scripts/course

build:
	@scripts/build all

clean:
	@scripts/clean

check-style: test-style

test-%:
	@scripts/suite $*

build-%:
	@scripts/build $*

.PHONY: help demo test shell sim conformance upstream-tests matrix bench sweep soak torture coverage coverage-kmod course build clean check-style
