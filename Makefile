# SPDX-License-Identifier: MIT
# Every target does its own set-up: it fetches and builds what it needs, once, into
# $OPENREG_CACHE (default ~/.cache/openreg).

MAKEFLAGS += --no-print-directory

# refuse NAME,TARGETS: an error if the command line sets the variable NAME for another
# target. Make would ignore the variable silently.
refuse = $(if $(and $(findstring command line,$(origin $(1))),$(filter-out $(2),$(MAKECMDGOALS))),\
	$(error make $(MAKECMDGOALS) does not take $(1); "make help" lists what it takes, and ARGS="--help" most options))
$(foreach name,KERNEL CARDS MINUTES,$(call refuse,$(name),soak))
$(call refuse,SEED,soak grade)
$(foreach name,LAB FROM,$(call refuse,$(name),lab grade))
$(call refuse,JSON,grade)
$(call refuse,SECONDS,fuzz-%)
$(call refuse,VM,demo-ddp)
$(call refuse,RESULTS,test test-% fuzz-% soak matrix torture coverage coverage-kmod)
export OPENREG_RESULTS := $(or $(RESULTS),$(OPENREG_RESULTS))

help:
	@echo 'make demo               train a small network on the card, in a VM'
	@echo 'make demo-ddp           train one on 4 cards in 4 processes, and compare the'
	@echo '                        losses with one card; VM=yes: on the cards of a VM'
	@echo 'make test               every test suite'
	@echo 'make shell              open a shell in a VM with the card and the driver;'
	@echo '                        ARGS="--cards 2": options of scripts/vm'
	@echo 'make sim                start Python with torch and a card in its own process'
	@echo 'make conformance        compare every torch operator with the CPU; ARGS=--help'
	@echo 'make upstream-tests     run PyTorch'"'"'s own device tests on a card; ARGS=--help'
	@echo 'make matrix             run the VM suites on every kernel; ARGS="lts"'
	@echo 'make bench              measure, natively and in a VM, into bench.json'
	@echo 'make sweep              time every operator against the CPU; ARGS=--help'
	@echo 'make fuzz-NAME          fuzz for SECONDS=60; NAME is decode, packets, card,'
	@echo '                        diff or qemu for the card, ioctl for the driver'
	@echo 'make soak               run many processes with kills, resets and unplugs for'
	@echo '                        MINUTES=5; KERNEL=stock, SEED=, CARDS=1'
	@echo 'make torture            run the long tests; ARGS="soak=60 fuzz-card=30"'
	@echo 'make coverage-kmod      show which lines of the driver its tests run'
	@echo 'make coverage           show which lines and branches of the card its tests run'
	@echo 'make course             render the course on writing a backend (docs/course)'
	@echo 'make lab LAB=n          open a shell in a VM with your module of lab n (docs/labs)'
	@echo 'make grade              grade your labs, or only LAB=n; SEED= for the same'
	@echo '                        variations again, JSON=FILE for a report, FROM=DIR'
	@echo 'make build              build everything, run nothing'
	@echo 'RESULTS=yes             with test, test-NAME, fuzz-NAME, soak, matrix, torture and'
	@echo '                        coverage: write the figures into docs/results'
	@echo 'make clean              delete everything that was built ($$OPENREG_CACHE)'
	@echo
	@echo 'One suite:              make test-NAME, NAME one of'
	@(scripts/suite --list; scripts/suite --list-more) | paste -sd ' ' | fold -sw 54 | sed 's/^/                          /'
	@echo 'One component:          make build-NAME, NAME one of'
	@scripts/build --list | paste -sd ' ' | fold -sw 54 | sed 's/^/                          /'
	@echo 'A command in a VM:      scripts/vm --help'
	@echo 'Your own VM:            scripts/qemu QEMU-ARGUMENT..., such as -device openreg,help'
	@echo 'A command, card inside: scripts/sim --help'
	@echo 'A command in the root:  scripts/in-root COMMAND'

PLUGIN := lib,plugin

demo:
	@scripts/vm --with $(PLUGIN) $(ARGS) -- python3 plugin/demo/digits.py

demo-ddp:
	@$(if $(VM),scripts/vm --cards 4 --mem 6G --with $(PLUGIN),scripts/sim --cards 4) $(ARGS) -- \
		env OMP_NUM_THREADS=1 python3 -m torch.distributed.run --standalone --nproc-per-node 4 \
		plugin/demo/digits_ddp.py

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

lab:
	@scripts/lab $(or $(LAB),0) $(if $(FROM),--from $(FROM)) $(ARGS)

grade:
	@scripts/lab --grade $(if $(LAB),--lab $(LAB)) $(if $(SEED),--seed $(SEED)) \
		$(if $(JSON),--json $(JSON)) $(if $(FROM),--from $(FROM)) $(ARGS)

build:
	@scripts/build all

clean:
	@scripts/clean

check-style: test-style

test-%:
	@scripts/suite $*

build-%:
	@scripts/build $*

.PHONY: help demo demo-ddp test shell sim conformance upstream-tests matrix bench sweep soak torture coverage coverage-kmod course lab grade build clean check-style
