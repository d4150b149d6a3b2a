PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: setup demo test lint bench clean

setup: $(STAMP)

# torch goes first and with an exact version; otherwise other packages pull in a build of their own choice.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -c constraints.txt "$$(grep '^torch==' constraints.txt)"
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev,baselines]'
	touch $(STAMP)

demo: setup
	$(BIN)/python examples/digits.py

test: setup
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup
	$(BIN)/python benchmarks/step.py
	$(BIN)/python benchmarks/scaling.py

clean:
	rm -rf $(VENV)
