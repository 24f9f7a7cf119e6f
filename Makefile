# `make test` is all a fresh machine needs: it makes .venv by itself, and a second call reuses it.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
# More words for pytest, e.g. make test ARGS="-k deepnorm"
ARGS ?=

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TORCH := $(shell grep '^torch==' constraints.txt)
# One thread for each worker: with more, the workers fight over the cores and all are slower.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

.DEFAULT_GOAL := help
.PHONY: help venv demo test soak lint format docs bench build clean

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(STAMP)  ## create .venv with everything the other targets need

# torch first and by its exact version: an open range would fetch the newest, gigabytes of CUDA libraries with it.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "addnorm needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." \
	       "Name another: make venv PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -c constraints.txt $(TORCH)
	$(BIN)/python -m pip install -c constraints.txt -e ".[test]"
	@touch $@

demo: $(STAMP)  ## four designs side by side
	$(BIN)/python examples/four_designs.py

test: lint  ## lint, types and tests: what CI runs
	$(PYTEST) $(ARGS)

soak: $(STAMP)  ## every test, the slow ones too
	$(PYTEST) -m "slow or not slow" $(ARGS)

lint: $(STAMP)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy addnorm

format: $(STAMP)  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)  ## write docs/designs.md from the live catalogue
	$(BIN)/python -m addnorm.atlas.designs_page docs/designs.md

bench: $(STAMP)  ## each comparison with peers, a table of ratios
	@set -e; for file in $(sort $(wildcard benchmarks/*.py)); do echo "== $$file"; $(BIN)/python $$file; done

# Isolated, so it shows that the backend needs setuptools alone; pinned through the environment, as build has no -c.
build: $(STAMP)  ## wheel and sdist in dist/
	rm -rf build dist
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m build

clean:  ## remove what the targets made, .venv too
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis htmlcov .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
