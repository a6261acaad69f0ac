# Everything from a fresh clone: `make demo` shows it, `make test` tests it.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint bench clean

demo: .venv/.installed
	$(BIN)/python examples/demo.py

test: .venv/.installed lint
	$(BIN)/pytest -n auto

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/.installed
	$(BIN)/python -m benchmarks

.venv/.installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable ".[dev]"
	touch $@

clean:
	rm -rf .venv out .pytest_cache .mypy_cache .ruff_cache .hypothesis
