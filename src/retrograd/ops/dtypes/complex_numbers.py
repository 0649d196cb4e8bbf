"""PyTorch's operators for complex numbers, such as ``conj`` and ``imag``, for tensors, which are always real."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ..argument_checks import require_tensor
from ..shape.shape import transpose

__all__ = ["adjoint", "conj", "conj_physical", "imag", "is_conj", "is_neg", "real", "resolve_conj", "resolve_neg"]


@operator(methods="conj conj_physical resolve_conj resolve_neg", numpy="conjugate", dtypes="bihf")
def real(input: Tensor) -> Tensor:
    """Return input itself: tensors are always real."""
    if interpreters and (seen := interpreted(real, locals())) is not None:
        return seen
    require_tensor("real", input)
    return input


conj: Final = real
conj_physical: Final = real
resolve_conj: Final = real
resolve_neg: Final = real


def imag(input: Tensor) -> NoReturn:
    """Raise a RuntimeError: real numbers have no imaginary part, as in PyTorch.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("imag: input is real; for pairs from retrograd.fft use input[..., 1]")


def is_conj(input: Tensor) -> bool:
    """Return False: tensors are always real."""
    require_tensor("is_conj", input)
    return False


is_neg = is_conj


@operator(methods="adjoint", dtypes="bihf")
def adjoint(input: Tensor) -> Tensor:
    """input with its last two axes swapped."""
    if interpreters and (seen := interpreted(adjoint, locals())) is not None:
        return seen
    return transpose(input, -2, -1)


METHODS: dict[str, Any] = {
    "real": property(lambda input: real(input), doc="The tensor itself: tensors are always real."),
    "H": property(lambda input: adjoint(input), doc="The matrix with its axes swapped."),
    "mH": property(lambda input: adjoint(input), doc="The tensor with its last two axes swapped."),
    **dict.fromkeys(("is_conj", "is_neg"), is_conj),
}
