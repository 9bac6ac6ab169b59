# Needs python3 (3.11 or newer) and make; everything else goes into $(VENV).
# Another Python, another JAX: make test PYTHON=python3.13 JAX=0.11.2
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet $(if $(JAX),jax==$(JAX) jaxlib==$(JAX))
STAMP := $(VENV)/python-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')-jax-$(or $(JAX),newest)
GPU_STAMP := .venv-gpu/$(notdir $(STAMP))

# What make check runs: every layer once, with little to compile.
FAST := common cli/test_specs.py engine/test_segments.py model/test_problem.py model/test_problems.py \
	model/test_files.py model/test_finite_horizon.py policies/test_golden.py policies/test_epochs.py \
	policies/test_ridge.py policies/test_lin_ucb.py policies/test_constant.py results \
	theory/test_errata.py live/test_journal.py campaign/test_log.py sweeps/test_batches.py

# XLA before JAX 0.12 runs the kernels of a loop one by one unless asked to compile the loop whole.
reproduce bench: export XLA_FLAGS ?= --xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=1000000000

.PHONY: help test check evidence reproduce bench gpu-check measured notebooks notebooks-check docs format clean

help:
	@echo "make reproduce  run all the paper's experiments at full size, into results/"
	@echo "make test       check formatting, types and behaviour"
	@echo "make check      the same in a minute, with the fast tests only"
	@echo "make evidence   what takes long and proves a figure once: kills, coverage, full size (10 min)"
	@echo "make bench      time dlbjax against its peers, measure its memory, precision and decisions (2 h)"
	@echo "make gpu-check  compile for GPUs that need not be there, count kernels and instructions (4 GB)"
	@echo "make notebooks  execute all notebooks at full size, in place (5 min); make notebooks-check in small sizes"
	@echo "make docs       build the documentation's site into results/site"
	@echo "make measured   copy what make reproduce and make bench wrote into the documentation"
	@echo "make format     let ruff format and fix the code"
	@echo "make clean      remove the environment and what was built"

$(STAMP):
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/base: pyproject.toml $(STAMP)
	$(PIP) --editable .
	@touch $@

$(VENV)/test: $(VENV)/base
	$(PIP) --editable ".[test]"
	@touch $@

test: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 3 --dist loadfile

check: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2 --dist loadfile $(addprefix tests/,$(FAST))

evidence: $(VENV)/test
	$(BIN)/python -m pytest -m evidence

reproduce: $(VENV)/base
	$(BIN)/dlbjax reproduce --out results

bench: $(VENV)/base
	$(PIP) --editable ".[benchmarks]"
	$(BIN)/python benchmarks/run.py --out results/benchmarks
	$(BIN)/python benchmarks/sweep.py --out results/benchmarks
	$(BIN)/python benchmarks/precision.py
	$(BIN)/python benchmarks/identification.py | tee results/benchmarks/identification.md
	$(BIN)/python benchmarks/decisions.py --agents 300 | tee results/benchmarks/decisions.md
	if command -v chromium >/dev/null; then $(PIP) --editable ".[test]" && $(BIN)/python -m benchmarks.lab; fi

# An environment of its own: CUDA's compiler takes 4 GB. GPU_CHECK="--cards A100 --channels 3" does a part, and
# GPU_CHECK=--all everything. XLA fuses no products with sums on GPUs unless asked to.
gpu-check: export XLA_FLAGS ?= --xla_backend_extra_options=-nvptx-fma-level=2 --xla_gpu_ftz=true
$(GPU_STAMP): pyproject.toml
	$(PYTHON) -m venv --clear .venv-gpu
	.venv-gpu/bin/python -m pip install --quiet $(if $(JAX),jax==$(JAX) jaxlib==$(JAX)) \
		--editable ".[cuda12]" nvidia-cuda-nvdisasm
	@touch $@

gpu-check: $(GPU_STAMP)
	JAX_PLATFORMS=cpu .venv-gpu/bin/python benchmarks/gpu.py --out results/benchmarks $(GPU_CHECK)

measured:
	cp results/claims.md results/*.png notebooks/measured/
	if [ -d results/benchmarks ]; then cp results/benchmarks/*.md results/benchmarks/*.png notebooks/measured/benchmarks/; fi

notebooks-check: $(VENV)/test
	$(BIN)/python -m pytest -n 2 -m notebooks tests/test_notebooks.py

notebooks: notebooks-check
	$(PIP) --editable ".[notebooks]"
	cd notebooks && PATH="$(CURDIR)/$(BIN):$$PATH" ../$(BIN)/jupyter execute --inplace *.ipynb
	$(BIN)/python -m tests.pages

$(VENV)/docs: $(VENV)/test
	$(PIP) --editable ".[docs]"
	@touch $@

docs: $(VENV)/docs
	$(BIN)/sphinx-build --builder html --fail-on-warning --keep-going --fresh-env \
		--doctree-dir results/doctrees notebooks results/site

format: $(VENV)/test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv* build results *.egg-info .pytest_cache .mypy_cache .ruff_cache
