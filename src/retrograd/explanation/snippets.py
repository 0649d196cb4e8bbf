"""An explanation as programs to take along: the same run, and a gradcheck of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["as_gradcheck", "as_python"]

_IMPORTS = "import retrograd as rg\nfrom retrograd.nn import functional as F\n"
_LARGEST = 4096  # numbers of an array that is written out


def as_python(source: str, inputs: Mapping[str, np.ndarray], gy: np.ndarray, imports: str = "") -> str:
    """The call, its backward with this upstream gradient, and the gradients printed."""
    lines = [_IMPORTS + imports]
    lines += [f"{name} = {_tensor(array, array.dtype.kind == 'f')}" for name, array in inputs.items()]
    lines += [f"gy = {_tensor(gy, False)}", "", f"y = {source}", "y.backward(gy)"]
    lines += [f'print("g{name} =", {name}.grad)' for name, array in inputs.items() if array.dtype.kind == "f"]
    return "\n".join(lines) + "\n"


def as_gradcheck(name: str, source: str, inputs: Mapping[str, np.ndarray], imports: str = "") -> str:
    """A test that compares the gradients of the call with central differences."""
    lines = [_IMPORTS + imports + "from retrograd.autograd import gradcheck\n\n", f"def test_the_gradient_of_{name}():"]
    for each, array in inputs.items():
        wide = array.astype(np.float64) if array.dtype.kind == "f" else array
        lines.append(f"    {each} = {_tensor(wide, wide.dtype.kind == 'f')}")
    names = ", ".join(inputs)
    lines.append(f"    assert gradcheck(lambda {names}: {source}, [{names}])")
    return "\n".join(lines) + "\n"


def _tensor(array: np.ndarray, requires_grad: bool) -> str:
    shape = ", ".join(map(str, array.shape))
    values = f"rg.randn({shape}" if array.size > _LARGEST else f"rg.tensor({_text(array)}"
    wide = ", dtype=rg.float64" if array.dtype == np.float64 else ""
    return f"{values}{wide}{', requires_grad=True' if requires_grad else ''})"


def _text(array: np.ndarray) -> str:
    """The entries as nested lists, each with the digits that it needs in its own type."""
    if array.ndim == 0:
        return _number(array[()])
    return f"[{', '.join(map(_text, array))}]"


def _number(value: Any) -> str:
    if isinstance(value, np.floating):
        return f"float({str(value)!r})" if not np.isfinite(value) else str(value)
    return repr(value.item())
