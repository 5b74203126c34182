# Needs Python 3.11 or newer, make and the network; nothing else.
# Another interpreter: make setup PYTHON=python3.12. More pytest options: make test ARGS="-m 'not slow'".

PYTHON ?= python3
ARGS ?=
# Of the tests: one more than there are cores, as Spark's tests wait for processes to start and to end.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

VENV := .venv
BIN := $(VENV)/bin
DEV := $(VENV)/.stamp-dev
TOOLS := $(VENV)/tools
COMPILE = $(TOOLS)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --custom-compile-command "make lock" $(ARGS)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup test sweep faults bounds check demo examples bench lock audit clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: $(DEV) ## create .venv and install windlass with the dev extra

test: setup ## run the tests in parallel
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

sweep: setup ## random scenarios against the oracle: make sweep ARGS="--seed 0 --scenarios 10000"
	$(BIN)/python -m tests.operator.sweep $(ARGS)

faults: setup ## the long tests under faults: calls interrupted at every line; Spark with kills, clusters, a soak; takes hours
	$(BIN)/python -m pytest -m faults $(ARGS)

bounds: setup ## the tests of the operator with kernels that check every index, compiled into a cache of their own
	NUMBA_BOUNDSCHECK=1 WINDLASS_CACHE_DIR=$(CURDIR)/.bounds_cache $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile tests/operator tests/slicing $(ARGS)

check: setup ## ruff, ruff format, mypy and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

demo: setup ## the Spark pipeline on a generated stream: examples/spark_demo.py
	$(BIN)/python examples/spark_demo.py

examples: setup ## the examples without Spark
	$(BIN)/python examples/demo.py
	$(BIN)/python examples/dashboard.py
	$(BIN)/python examples/custom_window.py

bench: setup ## run the benchmarks and draw their plots
	$(BIN)/python -m benchmarks.run

lock: $(TOOLS)/.stamp ## resolve the dependencies into locks/ anew; ARGS=--upgrade takes the newest versions
	printf 'hatchling>=1.27\neditables\nsetuptools\n' | $(COMPILE) --output-file locks/build.lock -
	$(COMPILE) --extra dev --output-file locks/dev.lock pyproject.toml
	printf 'pip-audit\nuv\n' | $(COMPILE) --output-file locks/tools.lock -

audit: $(TOOLS)/.stamp ## look the locked versions up among known vulnerabilities
	@$(TOOLS)/bin/pip-audit --strict --disable-pip --require-hashes --progress-spinner off \
		-r locks/build.lock -r locks/dev.lock 2>$(TOOLS)/audit.log \
		|| { echo "the audit did not pass: $$(tail -n 1 $(TOOLS)/audit.log)" >&2; exit 1; }

clean: ## remove .venv and everything generated
	rm -rf $(VENV) .bounds_cache build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# A stamp is removed before an installation and written after it, so a failed one is tried again.
$(DEV): pyproject.toml locks/build.lock locks/dev.lock
	@rm -f $@
	@command -v $(PYTHON) >/dev/null || { echo "windlass needs Python 3.11 or newer, but '$(PYTHON)' was not found: make setup PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("windlass needs Python 3.11 or newer, but $(PYTHON) is %d.%d: make setup PYTHON=/path/to/python" % (v[0], v[1]))'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r locks/build.lock
	$(BIN)/python -m pip install --quiet --require-hashes --no-build-isolation -r locks/dev.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(TOOLS)/.stamp: locks/tools.lock | $(DEV)
	$(BIN)/python -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --require-hashes -r locks/tools.lock
	@touch $@
