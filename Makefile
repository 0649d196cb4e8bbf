# Everything runs in .venv, which is created here. A stamp file records which extra of pyproject.toml is installed;
# nothing is fetched again until pyproject.toml changes.

# the first interpreter that is recent enough
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$name"; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
PINS :=
ARGS ?=

# One test process per core; tests that need several threads request them. Kernels are compiled beforehand, because
# otherwise each process would compile the same ones. Each process runs adjacent tests, which load the same modules.
PYTEST := RETROGRAD_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --maxprocesses 4 --dist worksteal

# "make lint" runs these.
LINTED := --ignore tests/test_imports.py --ignore tests/test_editors.py

# NumPy's products in the oracles, too: OpenBLAS's threads would wait actively for the cores of the other processes.
test processors browser nightly: export OPENBLAS_NUM_THREADS := 1

# Processors whose compiled kernels every x86-64 machine can run: AVX2 with FMA, and SSE 4.2 without it. LLVM uses these
# names, and OpenBLAS the same names with a capital.
PROCESSORS := haswell nehalem
AS_PROCESSOR = NUMBA_CPU_NAME=$(1) OPENBLAS_CORETYPE=$$(echo $(1) | sed 's/./\u&/') $(PYTEST)
KERNEL_TESTS := tests/kernels tests/textbook tests/conformance
TRAINING_TESTS := tests/train/test_trainer.py tests/train/test_fit.py -k learns

# Hundreds of test processes import the package; all but the first find its bytecode compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help train explain test processors blas versions arm browser nightly sweeps peers bench docs links onnx-table lint clean
.DELETE_ON_ERROR:

help:
	@echo 'make train     train the default network on the digits in the package; ends with a report (half a minute with an'
	@echo '               empty kernel cache, 5 seconds later)'
	@echo 'make explain   open a page that shows every gradient entry as a sum of products'
	@echo 'make test      run the tests (about 5 minutes on two cores, the first time)'
	@echo 'make processors  run a tenth of the kernel tests, and train, as on machines with AVX2 and with SSE 4.2 only'
	@echo 'make blas      run the tests with the BLAS kernels of other processors, with one and two threads'
	@echo 'make versions  run the tests with other Pythons (PYTHONS="python3.12 python3.14") and the oldest packages'
	@echo 'make arm       run a tenth of the kernel tests on an emulated 64-bit ARM processor (Debian, as root)'
	@echo 'make browser   run the tests of the page in a Chromium on this machine'
	@echo 'make nightly   run all tests, including those that take long'
	@echo 'make sweeps    run the example hyperparameter sweeps with Optuna and Ray'
	@echo 'make peers     compare every operator with PyTorch 2.13'
	@echo 'make bench     measure speed and memory side by side with PyTorch 2.13'
	@echo 'make docs      build the pages into docs/_build/html and run their code (about 2 minutes)'
	@echo 'make links     follow the links of the pages to other machines'
	@echo 'make onnx-table  write the table of passing ONNX tests, docs/reference/onnx_table.md'
	@echo 'make lint      ruff, mypy, spelling, what editors show, and which package may import which'
	@echo 'make clean     remove everything that these commands created'
	@echo 'ARGS="..." is passed on, as in: make test ARGS="-k conv", make bench ARGS="--only networks"'

train: $(VENV)/.train
	$(BIN)/retrograd train digits $(ARGS)

explain: $(VENV)/.explain
	$(BIN)/retrograd explain $(ARGS)

test: $(VENV)/.test
	$(BIN)/retrograd warmup
	$(PYTEST) --draw $$(date -u +%F) $(LINTED) $(ARGS)

processors: $(VENV)/.test
	test "$$(uname -m)" = x86_64 || { echo 'these processors need an x86-64 machine'; exit 0; }; \
	seed=$$(date +%s); for name in $(PROCESSORS); do \
		echo "== $$name"; $(call AS_PROCESSOR,$$name) $(KERNEL_TESTS) --tenth $$seed $(ARGS) && \
		$(call AS_PROCESSOR,$$name) $(TRAINING_TESTS) || exit 1; \
	done

blas: $(VENV)/.test
	for threads in 1 2; do for name in Nehalem Haswell SkylakeX; do \
		echo "== OpenBLAS for $$name, $$threads threads"; \
		OPENBLAS_CORETYPE=$$name $(BIN)/python -c 'import numpy as np; np.ones((99, 99)) @ np.ones((99, 99))' || \
			{ echo 'these kernels do not run on this processor'; continue; }; \
		OPENBLAS_CORETYPE=$$name OPENBLAS_NUM_THREADS=$$threads $(PYTEST) $(ARGS) || exit 1; \
	done; done

PYTHONS := python3.11 python3.12 python3.13 python3.14
versions:
	for name in $(PYTHONS); do if command -v $$name >/dev/null; then \
		$(MAKE) test VENV=.venv/versions/$$name PYTHON=$$name || exit 1; \
	else echo "$$name is not installed"; fi; done
	$(MAKE) test VENV=.venv/versions/oldest PYTHON=python3.11 PINS='numpy==1.26.* numba==0.63.*'

arm: $(VENV)/.test
	tests/arm.sh $(ARGS)

browser: $(VENV)/.browser
	$(PYTEST) tests/explanation -m "browser and not nightly" $(ARGS)

nightly: $(VENV)/.browser
	$(BIN)/retrograd warmup
	RETROGRAD_DRAW=$$(date +%s) $(PYTEST) -m "not sweeps" $(ARGS)
	for name in $(PROCESSORS); do \
		echo "== $$name"; $(call AS_PROCESSOR,$$name) $(KERNEL_TESTS) -m "not sweeps" && \
		$(call AS_PROCESSOR,$$name) $(TRAINING_TESTS) || exit 1; \
	done

sweeps: $(VENV)/.sweeps
	$(BIN)/python -m pytest -q -m sweeps tests/test_sweeps.py $(ARGS)

peers: $(VENV)/.peers
	$(BIN)/python -m pytest -q tests/peers $(ARGS)

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks $(ARGS)

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -q -W --keep-going -E -j auto docs docs/_build/html $(ARGS)
	@echo 'docs/_build/html/index.html'

links: $(VENV)/.docs
	$(BIN)/python -m sphinx -q -b linkcheck -j auto docs docs/_build/links $(ARGS)

onnx-table: $(VENV)/.test
	cd tests && ../$(BIN)/python -m onnx_models.table

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/mypy --allow-untyped-defs --allow-untyped-calls --allow-any-generics examples/*.py
	$(BIN)/python -m pytest -q tests/test_imports.py tests/test_editors.py

clean:
	rm -rf docs/_build docs/reference/operators .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# $(VENV)/.NAME: the package, editable, with the extra NAME; PINS="numpy==1.26.*" requests other versions
$(VENV)/.%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]' $(PINS)
	@touch $@

$(BIN)/python:
	@test -n '$(PYTHON)' || { echo 'retrograd needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
