# Needs python3 (3.11 or newer) and make; everything else goes into .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help test reproduce bench notebooks format clean

help:
	@echo "make reproduce  run all the paper's experiments at full size, into results/"
	@echo "make test       check formatting, types and behaviour"
	@echo "make bench      time dlbjax against its peers, measure its memory and precision (1 h)"
	@echo "make notebooks  test all notebooks in small sizes, then execute them at full size, in place"
	@echo "make format     let ruff format and mend the code"
	@echo "make clean      remove the environment and what was built"

.venv/base: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

.venv/test: .venv/base
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	@touch $@

test: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 3 --dist loadfile

reproduce: .venv/base
	$(BIN)/dlbjax reproduce --out results

bench: .venv/base
	$(BIN)/python -m pip install --quiet --editable ".[benchmarks]"
	$(BIN)/python benchmarks/run.py --out results/benchmarks
	$(BIN)/python benchmarks/sweep.py --out results/benchmarks
	$(BIN)/python benchmarks/precision.py
	$(BIN)/python benchmarks/identification.py

notebooks: .venv/base
	$(BIN)/python -m pip install --quiet --editable ".[notebooks,test]"
	$(BIN)/python -m pytest -m notebooks
	cd notebooks && PATH="$(CURDIR)/$(BIN):$$PATH" ../$(BIN)/jupyter execute --inplace *.ipynb

format: .venv/test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build results *.egg-info .pytest_cache .mypy_cache .ruff_cache
