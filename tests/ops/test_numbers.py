"""0-d tensors: NumPy turns such arrays into scalars; along an axis they count as one element.

Every operator in the tables of tests/conformance gets 0-d tensors in place of its arrays. It must compute, with two
orders of gradients, or raise its own error: no NumPy scalar may reach a kernel or a result.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from conformance.table import Op
from conformance.test_conformance import OPERATORS
from retrograd.engine import tensor as engine_tensor
from retrograd.kernel_set import Listener, kernels
from retrograd.ops.reduce import reduction

SOURCE, HERE = Path(rg.__file__).parent, Path(__file__).parent
EDGES = (
    SOURCE / "ops",
    SOURCE / "nn",
    SOURCE / "specs",
    HERE.parent / "conformance",
)  # files that raise errors about arguments
REFUSALS = (ValueError, IndexError, TypeError, RuntimeError)
AXES = ("dim", "dim0", "dim1", "dims", "axis0", "axis1", "source", "destination")


@pytest.fixture
def only_arrays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Check the arguments and results of all kernels: none may be a NumPy scalar."""
    wrap = engine_tensor.wrap

    def checked_wrap(array: Any) -> Any:
        assert type(array) is np.ndarray, f"a result is {type(array).__name__}"
        return wrap(array)

    class Checking(Listener):
        def call(self, name: str, kernel: Any, args: Any, kwargs: Any) -> Any:
            scalars = [type(arg).__name__ for arg in args if isinstance(arg, np.generic)]
            assert not scalars, f"kernel {name} is given {scalars}"
            return kernel(*args, **kwargs)

    for module in [m for name, m in sys.modules.items() if name.startswith("retrograd.")]:
        if getattr(module, "wrap", None) is wrap:
            monkeypatch.setattr(module, "wrap", checked_wrap)
    with Checking():
        yield


def number(value: Any, dtype: Any, first: bool, leaves: list[Any]) -> Any:
    """Return a 0-d Tensor in place of an array, with its first element or with 0."""
    if isinstance(value, (list, tuple)):
        return type(value)(number(entry, dtype, first, leaves) for entry in value)
    if not isinstance(value, np.ndarray) or not value.size:
        return value
    kind = np.dtype(dtype) if value.dtype.kind == "f" else value.dtype
    x = rg.tensor(np.asarray(value.flat[0] if first else 0, kind))
    if kind.kind == "f":
        leaves.append(x.requires_grad_())
    return x


def line_of_one(entry: Op) -> dict[str, Any]:
    """Return the options of the entry, with every axis replaced by 0 or -1."""
    options = dict(entry.options.get("kwargs", {}))
    for name in AXES:
        if isinstance(options.get(name), (list, tuple)):
            options[name] = (0,)
        elif options.get(name) is not None:
            options[name] = -1
    try:
        named = list(inspect.signature(entry.function).parameters)
    except ValueError:
        named = []
    if "dim" in named[len(entry.args) :] and "dim" not in options:
        options["dim"] = 0
    return options


def tensors(found: Any) -> list[Any]:
    if isinstance(found, (list, tuple)):
        return [y for part in found for y in tensors(part)]
    return [found] if isinstance(found, rg.Tensor) else []


def run(entry: Op, dtype: Any, first: bool) -> None:
    leaves: list[Any] = []
    args, options = number(entry.args, dtype, first, leaves), line_of_one(entry)
    ys = [y for y in tensors(entry.function(*args, **options)) if y.requires_grad]
    if not ys or not leaves:
        return
    draw = np.random.default_rng(3).standard_normal
    gs = [rg.tensor(np.asarray(draw(y.shape), y.array.dtype), requires_grad=True) for y in ys]
    for create_graph in (False, True):
        found = rg.autograd.grad(ys, leaves, gs, create_graph=create_graph, retain_graph=True, allow_unused=True)
    first_order = [g for g in found if g is not None and g.requires_grad]
    if first_order:
        vs = [rg.tensor(np.asarray(draw(g.shape), g.array.dtype)) for g in first_order]
        rg.autograd.grad(first_order, [*leaves, *gs], vs, allow_unused=True)


def walk(name: str, dtype: Any, first: bool) -> None:
    faults = []
    for entry in OPERATORS:
        try:
            with rg.use_kernels(name):
                run(entry, dtype, first)
        except REFUSALS as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            if not any(Path(place.filename).is_relative_to(folder) for folder in EDGES) or not str(error):
                faults.append(f"{entry.name}: {error} ({place.filename}:{place.lineno})")
        except AssertionError as error:
            faults.append(f"{entry.name}: {error}")
    assert not faults, "\n".join(faults)


@pytest.mark.usefixtures("only_arrays")
def test_a_scalar_is_caught() -> None:
    with pytest.raises(AssertionError, match="a result is float64"):
        reduction.wrap(np.float64(1))  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match=r"kernel mul is given \['float64'\]"):
        kernels.mul(np.float64(1), np.ones(2))


@pytest.mark.usefixtures("only_arrays")
def test_every_operator_of_a_number(kernel_set: str) -> None:
    walk(kernel_set, np.float64, True)


@pytest.mark.nightly
@pytest.mark.usefixtures("only_arrays")
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_operator_of_numbers_and_zeros(kernel_set: str, dtype: Any, first: bool) -> None:
    walk(kernel_set, dtype, first)
