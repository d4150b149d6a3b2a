PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: setup demo test test-fast lint house bench bench-scaling bench-tables bench-streaming kills reproduce clean

setup: $(STAMP)

# torch goes first and with an exact version; otherwise other packages pull in a build of their own choice.
$(STAMP): pyproject.toml research/pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -c constraints.txt "$$(grep '^torch==' constraints.txt)"
	$(BIN)/pip install --quiet -c constraints.txt -e '.[demo,yaml,export,dev]' -e 'research[rivals]'
	touch $(STAMP)

demo: setup
	$(BIN)/svdkl demo

# Everything; at the end stand the ten tests that took longest.
test: setup
	$(BIN)/python -m pytest --durations=10

# For every change: equations and single modules, without the tests that are marked as slow.
test-fast: setup
	$(BIN)/python -m pytest -m 'not slow' tests/laws tests/oracles tests/unit

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# How far a call walks, how large the package is, and how much its modules know of each other, beside the limits.
house: setup
	$(BIN)/python tools/house

# Long; what is measured is kept, and the same command goes on.
bench: setup
	$(BIN)/svdkl bench

bench-scaling: setup
	$(BIN)/python benchmarks/scaling.py

# Needs the files of Covertype and the flights in SVDKL_DATA.
bench-tables: setup
	$(BIN)/python benchmarks/tables.py

# Makes 3 GB of rows in a temporary folder.
bench-streaming: setup
	$(BIN)/python benchmarks/streaming.py

# One of two processes killed at ten random moments, and resumed.
kills: setup
	SVDKL_KILLS=10 $(BIN)/python -m pytest -n 0 tests/integration/test_killed.py

# Suites of experiments on the data in SVDKL_DATA; what is finished is not run again.
SUITES ?= tabular regression
reproduce: setup
	for suite in $(SUITES); do $(BIN)/svdkl reproduce $$suite || exit 1; done

clean:
	rm -rf $(VENV)
