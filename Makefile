# Two commands: `make demo` and `make test`. Each sets up what it needs on a fresh machine: the system's packages where it
# may (Debian and Ubuntu; MLDB_NO_INSTALL=1 leaves the system alone), and the rest in $(VENV).

PYTHON ?= python3
VENV ?= .venv
# What proves the cases; empty: bubblewrap, or what else works. The attacks want one that isolates.
SANDBOX ?=
# Tests wait more than they compute, so there are more of them at a time than a small machine has cores.
WORKERS ?= 6
# Which cases are proven: see `cases verify --help`. Every night: --all, in shards.
PROVE ?= --changed
BIN := $(VENV)/bin
# pip takes its settings from the environment, so a machine may constrain versions: PIP_CONSTRAINT=constraints.txt
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# pip would compile with one core what all of them can, and the tests of libraries, which nobody imports, too.
INSTALL := $(PIP) install --no-compile
COMPILE := $(BIN)/python -m compileall -q -j 0 -x '/tests/' $(VENV)/lib >/dev/null || true

# What was skipped, to be told at the end of `make test`.
SKIPPED := $(CURDIR)/.skipped

export SANDBOX
export LITELLM_LOCAL_MODEL_COST_MAP := True
# Workers side by side, each with threads for every core, would spend their time waiting for one another.
test-fast everything every-variant: export OPENBLAS_NUM_THREADS := 1
test-fast everything every-variant: export OMP_NUM_THREADS := 1

.PHONY: demo demo-system test test-setup test-system everything tests types-and-proofs test-fast test-nightly every-variant
.PHONY: lint docs fuzz
.PHONY: attacks cases
.PHONY: locks image clean

# --- what people type -----------------------------------------------------------------------------------------------

demo: demo-system $(VENV)/.demo ## run the demo suite, offline, and build its leaderboard
	$(BIN)/ml-dev-bench demo --out demo --example-year

test: export MLDB_SKIPPED := $(SKIPPED)
test: test-setup ## lint, types, every kind of test, the cases that changed; at the end what was skipped
	@scripts/with_engine $(MAKE) --no-print-directory everything; status=$$?; \
	if test -s $(SKIPPED); then echo; echo "skipped or missing here:"; cat $(SKIPPED); fi; exit $$status

# --- parts ----------------------------------------------------------------------------------------------------------

# One case at a time takes what the tests leave; so do the types, which one core looks at. Both also fill the time in
# which an image is built.
everything: export JOBS := 1
everything: $(VENV)/.dev
	scripts/beside $(MAKE) --no-print-directory tests -- $(MAKE) --no-print-directory types-and-proofs

# Each worker would compile all files of tests for itself; so one that runs none of them does it for all.
tests: $(VENV)/.dev
	@scripts/beside scripts/sandbox_image $(BIN)/ml-dev-bench -- \
	    sh -c '$(BIN)/python -m pytest --collect-only >/dev/null' || true
	$(BIN)/python -m pytest -m "not nightly" --numprocesses $(WORKERS) --dist worksteal \
	    --durations 60 --durations-min 4

types-and-proofs: lint
	scripts/prove_cases $(BIN)/ml-dev-bench $(PROVE)

test-fast: $(VENV)/.dev
	$(BIN)/python -m pytest -m "not slow and not nightly" --numprocesses $(WORKERS) --dist worksteal

test-nightly: export MLDB_SKIPPED := $(SKIPPED)
test-nightly: test-system $(VENV)/.dev ## every variant of every test
	@scripts/with_engine $(MAKE) --no-print-directory every-variant

every-variant: $(VENV)/.dev
	@scripts/sandbox_image $(BIN)/ml-dev-bench || true
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

docs: $(VENV)/.demo ## the pages that the program writes: commands, architecture, wrong answers, corrections
	$(BIN)/python -m scripts.command_reference docs/cli.md
	$(BIN)/python -m scripts.architecture docs/architecture.md
	$(BIN)/python -m scripts.attack_matrix docs/attacks.md
	$(BIN)/python -m scripts.case_cheats docs/case-cheats.md
	$(BIN)/python -m scripts.case_corrections docs/corrections.md
	$(BIN)/python -m scripts.casekit_reference docs/casekit.md

fuzz: $(VENV)/.dev ## 10,000 random documents a parser; the night's part of the tests
	MLDB_FUZZ=nightly $(BIN)/python -m pytest tests/fuzz --numprocesses 4 --timeout 6000

attacks: demo-system $(VENV)/.demo ## every attack on every case; half an hour a sandbox
	$(BIN)/ml-dev-bench cases verify --all --attacks --jobs 2 --sandbox $(or $(SANDBOX),auto)

cases: demo-system $(VENV)/.demo ## the proofs of the cases that changed and of a sample; all of them: PROVE=--all
	scripts/prove_cases $(BIN)/ml-dev-bench $(PROVE)

locks: demo-system $(VENV)/.demo ## prove all cases, and write the locks that are to be committed
	scripts/prove_cases $(BIN)/ml-dev-bench --all --write-locks

image: $(VENV)/.demo ## the image of the docker sandbox
	scripts/sandbox_image $(BIN)/ml-dev-bench

# --- set-up ---------------------------------------------------------------------------------------------------------

demo-system:
	@PYTHON=$(PYTHON) scripts/system_packages git venv bubblewrap

# The packages of the system mostly load and unpack, those of Python mostly compute.
test-setup:
	@PYTHON=$(PYTHON) scripts/system_packages venv
	@scripts/beside $(MAKE) --silent $(VENV)/.dev -- $(MAKE) --silent test-system

test-system:
	@rm -f $(SKIPPED)
	@PYTHON=$(PYTHON) scripts/system_packages git venv bubblewrap chromium curl jq docker

$(BIN)/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed: make PYTHON=python3.11"'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	@echo "installing ml-dev-bench and the ML stack of the cases into $(VENV); PyTorch is large, this takes minutes"
	$(INSTALL) --editable '.[docker,ml,site]'
	$(COMPILE)
	touch $@

# All at once: packages that were installed before, for `make demo`, stay as they are.
$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "installing ml-dev-bench, the ML stack of the cases and what tests need into $(VENV); this takes minutes"
	$(INSTALL) --editable '.[docker,ml,site,dev]'
	$(COMPILE)
	touch $(VENV)/.demo $@

clean:
	rm -rf $(VENV) $(SKIPPED) demo dist build .mypy_cache .pytest_cache .ruff_cache
