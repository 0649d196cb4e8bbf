"""Pointwise operators made from their formulas: the Function, and the function that users call.

What the backward runs is the formula of the gradient: on Tensors where it is recorded, else in one kernel.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from ..formulas import FORMULAS, PAIRS
from .broadcasting import sum_to
from .dtype import as_float
from .kernel_set import kernels
from .operands import Binary, Gradients, recording, summed

__all__: list[str] = []
on_tensors: dict[str, Callable[..., Tensor]] = {}  # the operator of each primitive; ``methods`` fills it


def apply_primitive(name: str, operands: tuple[Any, ...]) -> Tensor:
    """What a primitive of a formula means on Tensors."""
    return on_tensors[name](*operands)


def run(formula: Callable[..., Any], operands: tuple[Tensor, ...], numbers: tuple[float, ...] = ()) -> Tensor:
    """A formula of Tensors: recorded operator by operator, or without a record in one kernel."""
    if recording():
        result: Tensor = formula(*operands, *numbers)
        return result
    return wrap(getattr(kernels, formula.__name__)(*[operand.array for operand in operands], *numbers))


def pointwise(name: str, saves: str = "input", module: str = "") -> type[Function]:
    """The Function of the kernel ``name``; its gradient is the formula ``<name>_grad``.

    saves: what that formula takes after g, the "input" or the "result".
    module: where the Function belongs; by default the caller's.
    """
    gradient, saves_result = FORMULAS[f"{name}_grad"], saves == "result"

    def forward(ctx: Any, x: Tensor, *numbers: float) -> Tensor:
        y = wrap(getattr(kernels, name)(x.array, *numbers))
        ctx.save_for_backward(y if saves_result else x)
        ctx.numbers = numbers
        return y

    def backward(ctx: Any, g: Tensor) -> Gradients:
        numbers = ctx.numbers
        return run(gradient, (g, *ctx.saved_tensors), numbers), *[None] * len(numbers)

    formulas = (*[FORMULAS[each] for each in (name,) if each in FORMULAS], gradient)
    made: type[Function] = _made(Function, name, forward, backward, formulas, __module__=module)
    return made


def pointwise_of_two(name: str, exact: Callable[..., Any] | None = None, integers: bool = True) -> type[Binary]:
    """The Function of the kernel ``name`` of two operands that broadcast; the pair ``<name>_grad`` are its gradients.

    exact, integers: as in ``Binary``.
    """
    to_x, to_y = PAIRS[f"{name}_grad"]

    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return wrap(getattr(kernels, name)(x.array, y.array))

    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_y), (x, y) = ctx.needs_input_grad, ctx.saved_tensors
        sx, sy = x.array.shape, y.array.shape
        if not recording():
            return summed(getattr(kernels, f"{name}_grad")(g.array, x.array, y.array, want_x, want_y), sx, sy)
        gx = sum_to(to_x(g, x, y), sx) if want_x else None
        return gx, sum_to(to_y(g, x, y), sy) if want_y else None

    formulas = (*[FORMULAS[each] for each in (name,) if each in FORMULAS], to_x, to_y)
    return _made(Binary, name, forward, backward, formulas, exact=exact, integers=integers)


def _made(base: type[Any], name: str, forward: Any, backward: Any, formulas: tuple[Any, ...], **members: Any) -> Any:
    """A Function; ``formulas`` are what the documentation and backward_source show."""
    members["__module__"] = members.get("__module__") or sys._getframe(2).f_globals["__name__"]
    members["__doc__"] = formulas[-1].__doc__
    title = "".join(word.capitalize() for word in name.split("_"))
    own = {"forward": staticmethod(forward), "backward": staticmethod(backward), "formulas": formulas}
    return type(title, (base,), own | members)


def operator(name: str, doc: str, saves: str = "input") -> Callable[[Tensor], Tensor]:
    """The public function of a pointwise operator without numbers; integers and truth values become float32."""
    module = sys._getframe(1).f_globals["__name__"]
    function = pointwise(name, saves, module)

    def call(input: Tensor) -> Tensor:
        if isinstance(input, Tensor) and input.array.dtype.kind == "f":
            return function.apply(input)
        return function.apply(as_float(name, input))

    call.__name__ = call.__qualname__ = name
    call.__doc__, call.__module__ = doc, module
    call.function = function  # type: ignore[attr-defined]  # the documentation shows it
    return call
