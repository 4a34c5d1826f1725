# Everything works from a fresh clone with nothing but Python 3.11 or newer: the first target makes .venv and fills it.
PYTHON ?= python3
VENV := .venv
LOWEST := .venv-lowest
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Processes that the tests run in: twice as many as cores, since most tests wait for something most of their time.
JOBS ?= 4
PYTEST := $(BIN)/pytest -q -n $(JOBS) --dist worksteal
# Some environments tell Python to keep no compiled modules. Tests start many Pythons, and each would compile all
# modules again, every process of the tests itself too: seconds at each of these, tenths of one at each command.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo test test-slow test-all test-lowest check format docs man bench measures lock clean

help:
	@echo "make demo       a live console on an embedded server with a lively workload"
	@echo "make test       the tests, without the slow ones"
	@echo "make test-slow  only the slow tests"
	@echo "make test-all   all tests"
	@echo "make test-lowest  the core's quick tests with the lowest versions of what qdeck needs"
	@echo "make check      ruff, mypy, import-linter, phrases"
	@echo "make format     ruff's formatter and safe fixes"
	@echo "make bench      the benchmarks"
	@echo "make docs       the pages of the reference that are made from code"
	@echo "make man        the manual pages, into build/man"
	@echo "make measures   what can be counted of the structure, beside what was recorded; RECORD=1 records it"
	@echo "make lock       new versions of the dependencies, with their hashes, into requirements.lock"
	@echo "make clean      remove .venv, builds and caches"

# What is installed is what requirements.lock names, to the byte. The project itself needs nothing more, not to be built either.
$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "qdeck needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 …" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --no-deps --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# All versions anew, for every Python and system that is supported. `make lock UPGRADE=` keeps those that still fit.
UPGRADE ?= --upgrade
lock:
	@test -x $(VENV)-lock/bin/uv || { $(PYTHON) -m venv $(VENV)-lock && $(VENV)-lock/bin/python -m pip install --quiet uv; }
	$(VENV)-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-emit-index-url $(UPGRADE) --all-extras --group dev pyproject.toml --output-file requirements.lock

install: $(STAMP)

demo: $(STAMP)
	@$(BIN)/qdeck demo

test: $(STAMP)
	@$(PYTEST) -m "not slow"

test-slow: $(STAMP)
	@$(PYTEST) -m slow

test-all: $(STAMP)
	@$(PYTEST)

# Applications hold redis and croniter below the newest: kombu and arq do, and the pages that people install from.
$(LOWEST)/.installed: pyproject.toml tests/project/lowest.py
	@test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(LOWEST)/bin/python tests/project/lowest.py > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install --quiet --editable ".[all]" --group dev --constraint $(LOWEST)/constraints.txt
	@touch $@

test-lowest: $(LOWEST)/.installed
	@$(LOWEST)/bin/pytest -q -n $(JOBS) --dist worksteal -m "not slow" --ignore tests/console --ignore tests/bench

check: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/project/phrases.py

format: $(STAMP)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# RECORD=1 keeps the figures, SINCE=COMMIT counts the titles after another commit than the first record.
measures: $(STAMP)
	@$(BIN)/python tests/project/measures.py $(if $(RECORD),--record) $(if $(SINCE),--since $(SINCE))

man: $(STAMP)
	@$(BIN)/python hatch_build.py build/man
	@echo "build/man: read one with man -l build/man/qdeck.1"

docs: $(STAMP)
	@$(BIN)/python tests/project/reference.py

bench: $(STAMP)
	@$(BIN)/python tests/bench/run.py

clean:
	rm -rf $(VENV) $(LOWEST) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find core console tests -name __pycache__ -type d -prune -exec rm -rf {} +
