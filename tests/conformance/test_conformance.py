"""The checks of retrograd.testing on every operator and layer of the tables, and that none is missing."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

import retrograd
from conformance.table import Layer, Op
from retrograd.nn import functional, grad

FAMILIES = sorted(
    path.stem
    for path in Path(__file__).parent.glob("[!t]*.py")  # not table.py, nor tests
)
TABLES = [importlib.import_module(f"conformance.{family}") for family in FAMILIES]
OPERATORS: list[Op] = [entry for table in TABLES for entry in getattr(table, "OPERATORS", [])]
LAYERS: list[Layer] = [entry for table in TABLES for entry in getattr(table, "LAYERS", [])]

# what makes, seeds, compares or describes tensors, and returns none to differentiate; of sparse matrices see
# tests/ops/sparse/test_sparse.py
NOT_OPERATORS = {
    "Generator",
    "active_kernels",
    "allclose",
    "arange",
    "as_tensor",
    "asarray",
    "conv_plan",
    "default_generator",
    "bartlett_window",
    "blackman_window",
    "broadcast_shapes",
    "fft.fftfreq",
    "fft.rfftfreq",
    "hamming_window",
    "hann_window",
    "kaiser_window",
    "empty",
    "empty_like",
    "equal",
    "exact_convolution",
    "eye",
    "fork_rng",
    "from_numpy",
    "full",
    "full_like",
    "get_rng_state",
    "initial_seed",
    "linspace",
    "logspace",
    "manual_seed",
    "normal",
    "ones",
    "ones_like",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "seed",
    "set_rng_state",
    "sparse_coo",
    "sparse_coo_tensor",
    "spmm",
    "tensor",
    "tril_indices",
    "triu_indices",
    "use_kernels",
    "zeros",
    "zeros_like",
}
# containers, base classes, and what another layer comes from at its first call (tests/nn/test_lazy.py)
NOT_LAYERS = {
    "Buffer",
    "DataParallel",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "RNNCellBase",
    "Sequential",
    "UninitializedBuffer",
    "UninitializedParameter",
    *(name for name in retrograd.nn.__all__ if name.startswith("Lazy")),
}


STACKS = ("Transformer", "TransformerDecoder", "TransformerEncoder")


@pytest.mark.parametrize("entry", OPERATORS, ids=lambda entry: entry.name)
def test_operator(entry: Op) -> None:
    """Every check; the second derivatives along random directions."""
    entry.run(full=False)


@pytest.mark.parametrize(
    "entry",
    # the layers of which these are made are checked by day
    [pytest.param(e, marks=[pytest.mark.nightly] * (e.name in STACKS)) for e in LAYERS],
    ids=[e.name for e in LAYERS],
)
def test_layer(entry: Layer) -> None:
    entry.run(full=False)


@pytest.mark.nightly
@pytest.mark.parametrize("entry", [*OPERATORS, *LAYERS], ids=lambda entry: entry.name)
def test_entry_by_entry(entry: Op) -> None:
    entry.run(full=True)


def test_names_are_given_once() -> None:
    for entries in (OPERATORS, LAYERS):
        names = [entry.name for entry in entries]
        assert sorted(set(names)) == sorted(names)


def test_every_operator_is_here() -> None:
    public = {*retrograd.ops.__all__, *functional.__all__, *grad.__all__} - NOT_OPERATORS
    functions = [getattr(retrograd, name) for name in retrograd.ops.__all__]
    same = {id(inspect.unwrap(function)) for function in functions if callable(function)}
    for room in (retrograd.fft, retrograd.linalg, retrograd.special):
        for name in room.__all__:
            function = inspect.unwrap(getattr(room, name))
            if inspect.isfunction(function) and id(function) not in same:
                public.add(f"{room.__name__.rpartition('.')[2]}.{name}")
                same.add(id(function))  # another name of it needs no entry
    tested = {entry.name.partition(":")[0] for entry in OPERATORS}
    assert public - NOT_OPERATORS <= tested, f"no entry for {sorted(public - NOT_OPERATORS - tested)}"


def test_every_layer_is_here() -> None:
    public = {name for name in retrograd.nn.__all__ if inspect.isclass(getattr(retrograd.nn, name))} - NOT_LAYERS
    tested = {entry.name.partition(":")[0] for entry in LAYERS}
    assert public <= tested, f"no entry for {sorted(public - tested)}"
