# Works from a fresh clone with nothing but make and python3 (3.11 or later, with venv and pip).
#
# `.venv` is made on first use. A stamp per extra says what is installed in it; pip runs again only after
# pyproject.toml or constraints.txt changed.

PYTHON ?= python3
MINUTES ?= 10
RUNS ?= 5
WORKERS ?= 2
ARGS ?=
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
TALLY := $(BIN)/python -m tests.support.tally
# Does nothing where the copy is of the sources as they are. Without a C compiler brokers run interpreted.
COMPILE := $(BIN)/python -m barnabas.launcher.compiling
COMPILED_TIERS := tests/contract $(addprefix tests/unit/,broker client coordinator protocol replication runtime storage)
QUICK_TIERS := tests/unit tests/contract tests/simulation
WAITING_TIERS := tests/compatibility tests/differential
SLOW_TIERS := tests/failover tests/hostile tests/pipeline

.DEFAULT_GOAL := help
.PHONY: help compiled up down status test compose-test soak check bench bench-full pipeline-demo claims sim sim-coverage seeded lock clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

help:
	@echo 'make up            start ZooKeeper and three brokers on this machine   (ARGS="--brokers 1")'
	@echo 'make compiled      compile what is on the way of records; needs a C compiler, takes three minutes'
	@echo 'make status        what runs, where it listens'
	@echo 'make down          stop it; the data stays'
	@echo 'make check         format, lint, types, the test of the source'
	@echo 'make test          every test; less than an hour on 2 cores'
	@echo 'make compose-test  the cluster of docker-compose.yml; needs a Docker engine'
	@echo 'make soak          kills, faults, damage and hostile input             (MINUTES=10)'
	@echo 'make claims        what is said of kills and power cuts, and a table   (ARGS="kills power")'
	@echo 'make sim           simulated clusters under faults, one a seed         (RUNS=5 SEED=1 ARGS=--trace)'
	@echo 'make seeded        every seeded test again, with new seeds             (RUNS=5 SEED=1)'
	@echo 'make bench         beside Apache Kafka: the core rows, in 100 minutes  (ARGS="...")'
	@echo 'make bench-full    the other rows, one round                           (ARGS="...")'
	@echo 'make pipeline-demo real events through the pipeline, tables and a plot      (BOOTSTRAP= FOLDER= REPORT=)'
	@echo 'make lock          write constraints.txt                               (ARGS=--upgrade)'
	@echo 'make clean         stop the cluster, remove .venv and what tools left'

.venv/.stamp-venv:
	@command -v $(PYTHON) >/dev/null || { echo '$(PYTHON) is not there; install Python 3.11 or later, or name one: make PYTHON=python3.12' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("$(PYTHON) is Python " + sys.version.split()[0] + "; Barnabas needs 3.11 or later. Name another: make PYTHON=python3.12")'
	@$(BIN)/python -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo '$(PYTHON) cannot make a virtual environment: its ensurepip is missing. On Debian and Ubuntu: apt-get install python3-venv' >&2; exit 1; }; \
	  echo 'Making .venv'; $(PYTHON) -m venv --clear .venv; }
	@touch $@

.venv/.stamp-%: .venv/.stamp-venv pyproject.toml constraints.txt
	@echo 'Installing barnabas[$*] into .venv'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$*]'
	@touch $@

compiled: .venv/.stamp-compiled
	@$(COMPILE)

up: .venv/.stamp-local
	@BARNABAS_STARTED_BY=make $(BIN)/barnabas up --detach $(ARGS)

down: .venv/.stamp-local
	@$(BIN)/barnabas down $(ARGS)

status: .venv/.stamp-local
	@BARNABAS_STARTED_BY=make $(BIN)/barnabas status $(ARGS)

# Each tool runs, whatever the one before it found.
check: .venv/.stamp-test .venv/.stamp-pipeline
	@failed=; \
	$(BIN)/ruff format --check . || failed="$$failed format"; \
	$(BIN)/ruff check . || failed="$$failed lint"; \
	$(BIN)/mypy || failed="$$failed types"; \
	$(PYTEST) -q tests/unit/test_house.py tests/unit/house || failed="$$failed house"; \
	test -z "$$failed" || { echo "make check:$$failed" >&2; exit 1; }

# What is quick and alone runs on both cores, and so does, a file at a time, what waits for other programs most of its time;
# where faults and loads are timed a test has the machine for itself.
test: .venv/.stamp-local .venv/.stamp-test .venv/.stamp-pipeline .venv/.stamp-compiled
	@rm -rf .reports/test; mkdir -p .reports/test; failed=; \
	$(COMPILE) --if-possible || failed=1; \
	$(PYTEST) -n 2 $(ARGS) --junitxml=.reports/test/quick.xml $(QUICK_TIERS) || failed=1; \
	! $(COMPILE) --check || BARNABAS_WAY_OF_RECORDS=compiled $(PYTEST) -n 2 -o pythonpath=.compiled -m 'not interpreted' $(ARGS) --junitxml=.reports/test/compiled.xml $(COMPILED_TIERS) || failed=1; \
	$(PYTEST) -n 2 --dist loadfile $(ARGS) --junitxml=.reports/test/waiting.xml $(WAITING_TIERS) || failed=1; \
	$(PYTEST) $(ARGS) --junitxml=.reports/test/slow.xml $(SLOW_TIERS) || failed=1; \
	$(TALLY) .reports/test || failed=1; \
	test -z "$$failed"

compose-test: .venv/.stamp-test
	@rm -rf .reports/compose; mkdir -p .reports/compose
	@$(PYTEST) $(ARGS) --junitxml=.reports/compose/compose.xml tests/compose

soak: .venv/.stamp-local .venv/.stamp-test
	@rm -rf .reports/soak; mkdir -p .reports/soak; failed=; \
	BARNABAS_SOAK_MINUTES=$(MINUTES) $(PYTEST) $(ARGS) -o timeout=$$(( $(MINUTES) * 60 + 600 )) --junitxml=.reports/soak/faults.xml -m soak tests/failover tests/hostile || failed=1; \
	$(TALLY) .reports/soak || failed=1; \
	test -z "$$failed"

# Whole clusters in one process, on a virtual clock; a seed replays to the byte.
sim: .venv/.stamp-local .venv/.stamp-test
	@$(BIN)/python -m barnabas.simulation --seeds $(RUNS) $(if $(SEED),--first $(SEED)) --workers $(WORKERS) $(ARGS)

# How many lines of what is promised the seeds of two processes run (RUNS=500 takes most of an hour): at least 85 in 100.
sim-coverage: .venv/.stamp-local .venv/.stamp-test
	@rm -f .coverage .coverage.*; first=$${SEED:-1}; half=$$(( ($(RUNS) + 1) / 2 )); \
	for start in $$first $$(( first + half )); do \
	  $(BIN)/python -m coverage run -p --source=controller,replication,barnabas/storage,broker -m barnabas.simulation \
	    --first $$start --seeds $$half --workers 1 $(ARGS) & pids="$$pids $$!"; \
	done; failed=; for pid in $$pids; do wait $$pid || failed=1; done; \
	$(BIN)/python -m coverage combine -q && $(BIN)/python -m coverage report --skip-covered --fail-under=85 && test -z "$$failed"

# One seed drives all tests of a run that draw; consecutive seeds, and the first failing one is printed and stops it.
seeded: .venv/.stamp-local .venv/.stamp-test .venv/.stamp-pipeline
	@first=$${SEED:-$$($(BIN)/python -c 'import random; print(random.getrandbits(31))')}; \
	for seed in $$(seq $$first $$(( first + $(RUNS) - 1 ))); do \
	  BARNABAS_SEED=$$seed $(PYTEST) -q -n 2 -m 'hypothesis or seeded' $(ARGS) $(QUICK_TIERS) || { echo "make seeded SEED=$$seed RUNS=1 replays this" >&2; exit 1; }; \
	done

# To list rows nothing need be compiled.
bench bench-full: .venv/.stamp-local .venv/.stamp-test $(if $(findstring --list,$(ARGS)),,.venv/.stamp-compiled)
	@$(if $(findstring --list,$(ARGS)),,$(COMPILE) --if-possible)
	@$(BIN)/python -m bench.side_by_side $(if $(filter bench-full,$@),--full) $(ARGS)

# Needs a Java 17, as Spark does; everything else is installed or started where it is missing.
pipeline-demo: .venv/.stamp-local .venv/.stamp-pipeline .venv/.stamp-test
	@$(BIN)/python -m bench.pipeline_demo $(if $(BOOTSTRAP),--bootstrap $(BOOTSTRAP)) $(if $(FOLDER),--folder $(FOLDER)) $(if $(CHANGELOGS),--changelogs $(CHANGELOGS)) $(if $(REPORT),--report $(REPORT)) $(ARGS)

claims: .venv/.stamp-local .venv/.stamp-test .venv/.stamp-pipeline
	@$(BIN)/python -m tests.failover.claims --json .reports/claims.json $(ARGS)

lock: .venv/.stamp-venv
	@test -f constraints.txt || : > constraints.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --no-header --no-emit-index-url --no-emit-find-links $(ARGS) -o constraints.txt pyproject.toml
	@! grep -nE 'file:|index-url|find-links' constraints.txt

clean:
	@test ! -x $(BIN)/barnabas || $(BIN)/barnabas down
	rm -rf .venv .compiled .compiled-* .reports dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -f *__mypyc*.so; find barnabas broker controller pyspark_barnabas pyspark_barnabas_segments replication zk_schema -name '*.so' -delete
