# Two commands do all their own set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help demo dev test lint types env

help:
	@echo "make demo   materialise the graph (sample corpus, or ZEROTH_MIRROR) and print the metric table"
	@echo "make dev    the Dagster UI on the same instance"
	@echo "make test   lint, strict types, every test"
	@echo "make env    only the virtual environment"

# A lock in the script: two `make` at once install once.
env:
	@$(PYTHON) scripts/bootstrap.py --venv $(VENV)

demo: env
	@$(BIN)/zeroth materialize
	@$(BIN)/zeroth metrics

dev: env
	@$(BIN)/zeroth dev

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYTHONPATH=. $(BIN)/lint-imports --no-cache

types: env
	$(BIN)/mypy

# Two at a time: half of what a test waits for is a server or a child process. A file's tests stay together.
test: lint types
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --cov --cov-report=term
