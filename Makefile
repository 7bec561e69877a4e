# Two commands: `make demo` and `make test`. Each sets up what it needs on a fresh machine.

PYTHON ?= python3
VENV ?= .venv
# What proves the cases: auto takes the strongest that works, and containers take longer than bubblewrap.
SANDBOX ?= auto
# Tests wait more than they compute, so there are more of them at a time than a small machine has cores.
WORKERS ?= 3
BIN := $(VENV)/bin
# pip takes its settings from the environment, so a machine may constrain versions: PIP_CONSTRAINT=constraints.txt
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

export LITELLM_LOCAL_MODEL_COST_MAP := True

.PHONY: demo test test-fast lint docs fuzz attacks cases image clean

# --- what people type -----------------------------------------------------------------------------------------------

demo: $(VENV)/.demo ## run the demo suite, offline, and build its leaderboard
	$(BIN)/ml-dev-bench demo --out demo

test: $(VENV)/.dev ## everything: lint, types, every test, every case
	$(MAKE) lint
	$(BIN)/python -m pytest -m "not slow" --numprocesses $(WORKERS)
	$(BIN)/python -m pytest -m slow --numprocesses $(WORKERS)
	$(BIN)/ml-dev-bench cases verify --all --jobs 2 --sandbox $(SANDBOX)

# --- parts ----------------------------------------------------------------------------------------------------------

test-fast: $(VENV)/.dev
	$(BIN)/python -m pytest -m "not slow" --numprocesses $(WORKERS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

docs: $(VENV)/.demo ## the pages that the program writes: the reference of the commands
	$(BIN)/python -m bench.cli.reference docs/cli.md

fuzz: $(VENV)/.dev ## 10,000 random documents a parser; the night's part of the tests
	MLDB_FUZZ=nightly $(BIN)/python -m pytest tests/fuzz --numprocesses 4 --timeout 6000

attacks: $(VENV)/.demo ## every attack on every case; half an hour a sandbox
	$(BIN)/ml-dev-bench cases verify --all --attacks --jobs 2 --sandbox $(SANDBOX)

cases: $(VENV)/.demo
	$(BIN)/ml-dev-bench cases verify --all --jobs 2 --sandbox $(SANDBOX)

image: $(VENV)/.demo ## the image of the docker sandbox
	$(BIN)/ml-dev-bench image build

# --- set-up ---------------------------------------------------------------------------------------------------------

$(VENV)/.demo: pyproject.toml
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed: make PYTHON=python3.11"'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing ml-dev-bench and the ML stack of the cases into $(VENV); PyTorch is large, this takes minutes"
	$(PIP) install --editable '.[docker,ml,site]'
	touch $@

$(VENV)/.dev: $(VENV)/.demo pyproject.toml
	$(PIP) install --editable '.[ml,site,dev]'
	touch $@

clean:
	rm -rf $(VENV) demo dist build .mypy_cache .pytest_cache .ruff_cache
