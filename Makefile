# SPDX-License-Identifier: BSD-2-Clause
# Every target sets up what it needs; the second time that takes a moment only. See README.md.
PYTHON := .venv/bin/python
# Where that is set each of the hundreds of interpreters of a run would compile everything anew, and every test be rewritten.
unexport PYTHONDONTWRITEBYTECODE
PYTEST ?= $(PYTHON) -m pytest
# Where process 1 collects no orphans, nodes of the testbed could not end.
ALONE  := $(PYTHON) -m ganeti.tools.reaping
# What only computes gives way to what others wait for.
LAST   := $(PYTHON) -m tests.least_urgent
# The quick tests, in three processes that each read and run a third: they compute as long as each other, and one that waits
# leaves its processor to the others.
THE_TREE  := tests/tidy tests/property tests/contract tests/golden tests/unit/cli
THE_NODE  := $(addprefix tests/unit/,node noded tools wconfd)
THE_OTHER := tests/unit $(patsubst %,--ignore=%,$(filter tests/unit/%,$(THE_TREE) $(THE_NODE)))
FAST   := fast-tree fast-node fast-other
SLOW   := tests/system tests/real
# Four files at a time: each has a testbed with namespaces of its own, or daemons below a root and at an address of their own,
# and half of the time they wait. The longest first, those with real guests, which need a processor, apart from each other.
LONG   := $(foreach name,system/test_package system/test_kills system/test_master_campaign real/test_kvm_kills \
          system/test_backup_chains system/test_htools_cluster real/test_kvm_maintenance system/test_interrupted \
          system/test_replicated_instance system/test_maintd_balance real/test_kvm_hotplug system/test_state_cache \
          real/test_backup_chains real/test_mirrored_faults system/test_master_failover system/test_mirrored_instance \
          system/test_maintd system/test_failover_interrupted system/test_watcher_rest,tests/$(name).py)
OTHERS := $(filter-out $(LONG),$(sort $(wildcard $(addsuffix /test_*.py,$(SLOW)))))
FILES_AT_ONCE ?= 4
PAIRS  := -n $(FILES_AT_ONCE) --dist loadfile --no-loadscope-reorder
SHOWN  ?= 15
# What clusters of the testbed speak: 4, 6 or hybrid, as in make clusters GANETI_IP=6.
GANETI_IP ?=
export GANETI_IP
# What tests/conftest.py marks as thorough takes a third of the time: `make test` runs it, `make check` does not.
CHOSEN ?= not real and not thorough
KEEP   ?=
export KEEP
DELAY_MS ?=
DELAY_SEED ?=
export DELAY_MS DELAY_SEED

# The simulator (docs/simulator.md): make simulate SEED=79 NODES=5, or SEEDS=1-500, or PLAN=FILE.
SIMULATE := $(PYTHON) -m ganeti_simulation
SIMULATED ?= $(if $(SEED),--seed '$(SEED)') $(if $(SEEDS),--seeds '$(SEEDS)') $(if $(NODES),--nodes '$(NODES)') \
             $(if $(PLAN),--plan '$(PLAN)') $(if $(MUTATION),--mutation '$(MUTATION)')

.PHONY: install demo test check campaign bench deb format types $(FAST) trial slow simulated clusters contracts simulate
ifndef AT_ONCE
.NOTPARALLEL:
endif

install:
	@setup/install

# Three nodes, real guests: placed, moved, rescued. KEEP=1 leaves them running. DELAY_MS=500 slows every node call.
demo: install
	@$(ALONE) setup/demo

# Format, types, tidy and unit tests: under a minute. What one leaves of the processors the others take; each
# prints what it has to say when it is done.
check: install
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	@$(MAKE) --no-print-directory --jobs=5 --output-sync=target AT_ONCE=1 $(FAST) trial types

types:
	.venv/bin/mypy

fast-tree:
	$(PYTEST) -m '$(CHOSEN)' $(THE_TREE)

fast-node:
	$(PYTEST) -m '$(CHOSEN)' $(THE_NODE)

fast-other:
	$(PYTEST) -m '$(CHOSEN)' $(THE_OTHER)

trial:
	$(SIMULATE) --seeds 1-4 --jobs 1

# The gate: everything, real QEMU guests included, and more random histories than the quick check has.
test: export GANETI_HISTORIES ?= 4000
test: export CHOSEN = not real
# What fails beside hundreds of daemons runs once more, alone, and is named: see tests/once_more.py.
test slow: export PYTEST = $(PYTHON) -m tests.once_more
test: check slow

# Clusters and tools of storage wait a third of their time and more: simulations, which only compute, have what they leave.
slow: install
	@$(MAKE) --no-print-directory --jobs=3 AT_ONCE=1 clusters contracts simulated

simulated:
	$(LAST) $(SIMULATE) --seeds 1-50 --keep-going
	$(LAST) $(PYTEST) -n 2 --dist loadfile --durations=5 tests/simulation

contracts:
	$(ALONE) $(PYTEST) -m real tests/contract

clusters:
	$(ALONE) $(PYTEST) $(PAIRS) --durations=$(SHOWN) $(LONG) $(OTHERS)

# The suite of disk templates with what this machine has of LVM's device mapper, DRBD, Gluster and Ceph; what is missing is
# named at the end.
test-host: install
	GANETI_TEST_HOST=1 $(ALONE) $(PYTEST) -rs -m 'real or daemons' tests/contract/test_storage.py tests/contract/test_plain.py \
	  tests/contract/test_snapshots.py tests/contract/test_drbd_tools.py tests/real/test_rbd.py \
	  tests/real/test_rbd_failover.py

# Long seeds and kills: GANETI_CAMPAIGN is read by the tests that can go on for longer, GANETI_SEEDS=1-20000 says how
# many schedules are simulated, GANETI_EVERY=50 that of all crash points only every fiftieth is played.
campaign: install
	$(PYTHON) -m pip install -qq --disable-pip-version-check -e '.[dev,campaign]'
	$(SIMULATE) --seeds $(or $(GANETI_SEEDS),1-20000) --keep-going
	$(SIMULATE) --crash-points --every $(or $(GANETI_EVERY),1)
	GANETI_CAMPAIGN=1 GANETI_HISTORIES=200000 $(ALONE) $(PYTEST) tests/property tests/system tests/real

# Production code on simulated machines: the same seed tells the same story, twice.
simulate: install
	@$(SIMULATE) $(SIMULATED)

# Every figure the project claims; each file in bench/ also runs alone.
bench: install
	@for figure in bench/[a-z]*.py; do $(PYTHON) $$figure || exit 1; done

# The Debian package, with every library it needs, in dist/.
deb: install
	@$(PYTHON) setup/deb

format: install
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .
