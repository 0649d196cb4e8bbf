"""Declaration of a kernel in the interface: its signature, its results' specification, the arguments it overwrites.

A specification is a function of the same arguments, in which a ``Spec`` stands for each array. It computes the ``Spec``
of each result without data. Models: shape rules of JAX, meta functions of PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ...formulas import form
from ...specs.array_spec import Array, Spec

Pair = tuple[Array, Array]
Three = tuple[Array, Array, Array]
Axes = tuple[int, ...]
BOOL, INT64, UINT8 = np.dtype(np.bool_), np.dtype(np.int64), np.dtype(np.uint8)
_F = TypeVar("_F", bound=Callable[..., Any])


class Kernel:
    """A kernel of the interface.

    declaration: the function that declares the signature and documents the kernel. spec: computes the specification of
    the results from the arguments, with a ``Spec`` for each array; None if it depends on values. writes: the parameter
    that the kernel overwrites. changes: one that it reads and overwrites; ``*columns`` means all that follow. host: why
    the results depend on values, if they do.
    """

    host: str
    name: str
    changes: str
    writes: str
    text: Callable[..., Any]
    spec: Callable[..., Any] | None

    def __init__(
        self,
        name: str,
        declaration: Callable[..., Any],
        spec: Callable[..., Any] | None,
        writes: str = "",
        changes: str = "",
        host: str = "",
    ) -> None:
        self.name, self.declaration, self.spec, self.host = name, declaration, spec, host
        self.writes, self.changes = writes, changes
        self.__doc__ = (
            declaration.__doc__ or f"The gradients of ``{name.removesuffix('_grad')}``, for the inputs that need one."
        )

    def __repr__(self) -> str:
        return f"<kernel {self.name}>"


KERNELS: dict[str, Kernel] = {}


def declare(spec: Callable[..., Any] | None, **about: str) -> Callable[[_F], _F]:
    def keep(declaration: Any) -> Any:
        found = KERNELS[declaration.__name__] = Kernel(declaration.__name__, declaration, spec, **about)
        return found

    return keep


# ---- Specifications shared by several kernels ----------------------------------------------------------------------


def along(x: Spec, axis: int, size: int) -> Spec:
    """x with another extent along an axis."""
    return x._replace(shape=(*x.shape[:axis], size, *x.shape[axis + 1 :]))


def only(needs_grad: Sequence[bool], *specs: Spec) -> tuple[Spec | None, ...]:
    return tuple([spec if needed else None for spec, needed in zip(specs, needs_grad, strict=True)])


def elementwise(formula: Callable[..., Any]) -> Callable[..., Any]:
    """The results of a formula: broadcast operands, in the type of the last one."""
    one = form(formula)
    count = len(one.operands)

    def spec(*values: Any) -> Any:
        operands = values[:count]
        found = Spec(
            np.broadcast_shapes(*[each.shape for each in operands]),
            np.dtype(np.bool_) if one.truth else operands[-1].dtype,
        )
        return found if one.results == 1 else only(values[-one.results :], *[found] * one.results)

    return spec
