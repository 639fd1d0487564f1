# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: run test lint types unit test-slow bench install clean

run: $(INSTALLED)  ## generate a Wiki-shaped lake, train on a local Ray, write the report
	$(BIN)/python jobs/train_wiki.py

test: lint types unit  ## what CI runs

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(INSTALLED)
	$(BIN)/mypy

unit: $(INSTALLED)
	$(BIN)/python -m pytest

test-slow: $(INSTALLED)  ## the checks too slow for every change
	$(BIN)/python -m pytest -m slow

bench: $(INSTALLED)  ## the checks that measure speed
	$(BIN)/python -m pytest -m bench -s

install: $(INSTALLED)

$(INSTALLED): pyproject.toml infra/constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	    --constraint infra/constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf runs build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
