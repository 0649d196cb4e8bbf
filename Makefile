# Everything runs in .venv, which is made here. A stamp in it says which extra of pyproject.toml is installed;
# once it is, nothing is fetched again until pyproject.toml changes.

# the first interpreter that is new enough
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$name"; break; }; done)
BIN := .venv/bin
ARGS ?=

# A process of the tests for each core: what needs several threads asks for them. They find their kernels compiled, where
# each process would compile the same ones otherwise. Each has its share of neighbouring tests, which load the same.
PYTEST := RETROGRAD_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --maxprocesses 4 --dist worksteal

# Hundreds of processes of the tests import the package: but for the first they find it compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help train explain test browser nightly sweeps peers bench docs onnx-table lint clean
.DELETE_ON_ERROR:

help:
	@echo 'make train     train the default network on the digits in the package; ends with a report'
	@echo 'make explain   open the page that takes a gradient apart, entry by entry'
	@echo 'make test      run the tests'
	@echo 'make browser   run the tests of the page in a Chromium of this machine'
	@echo 'make nightly   run the tests that take long as well'
	@echo 'make sweeps    run the sweeps of hyper-parameters among the examples, with Optuna and Ray'
	@echo 'make peers     compare every operator with PyTorch 2.13'
	@echo 'make bench     measure speed and memory side by side with PyTorch 2.13'
	@echo 'make docs      build the pages into docs/_build/html; their code is run'
	@echo 'make onnx-table  write which tests of ONNX pass into docs/onnx_table.md'
	@echo 'make lint      ruff, mypy, and which room may import which'
	@echo 'make clean     remove what these commands made'
	@echo 'ARGS="..." is handed on, as in: make test ARGS="-k conv", make bench ARGS="--only networks"'

train: .venv/.train
	$(BIN)/retrograd train digits $(ARGS)

explain: .venv/.explain
	$(BIN)/retrograd explain $(ARGS)

test: .venv/.test
	$(BIN)/retrograd warmup
	$(PYTEST) $(ARGS)

browser: .venv/.browser
	$(PYTEST) tests/explanation -m "browser and not nightly" $(ARGS)

nightly: .venv/.browser
	$(BIN)/retrograd warmup
	RETROGRAD_DRAW=$$(date +%s) $(PYTEST) -m "not sweeps" $(ARGS)

sweeps: .venv/.sweeps
	$(BIN)/python -m pytest -q -m sweeps tests/test_sweeps.py $(ARGS)

peers: .venv/.peers
	$(BIN)/python -m pytest -q tests/peers $(ARGS)

bench: .venv/.bench
	$(BIN)/python -m benchmarks $(ARGS)

docs: .venv/.docs
	$(BIN)/python -m sphinx -q -W --keep-going -E docs docs/_build/html $(ARGS)
	@echo 'docs/_build/html/index.html'

onnx-table: .venv/.test
	cd tests && ../$(BIN)/python -m onnx_models.table

lint: .venv/.lint
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --allow-untyped-defs --allow-untyped-calls --allow-any-generics examples/*.py
	$(BIN)/python -m pytest -q tests/test_rooms.py

clean:
	rm -rf docs/_build docs/operators .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# .venv/.NAME: the package, editable, with the extra NAME
.venv/.%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

$(BIN)/python:
	@test -n '$(PYTHON)' || { echo 'retrograd needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3' >&2; exit 1; }
	$(PYTHON) -m venv .venv
