"""Pointwise operators: Functions made from their formulas.

What the backward runs is the formula of the gradient: on Tensors where it is recorded, else in one kernel. ``run`` and
``Backward`` decide that, here alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...engine.function import Function
from ...engine.tensor import Tensor, wrap
from ...formulas import FORMULAS, FUSED, POINTWISE, form
from ...formulas.table import gradients_of, same_grad
from ...kernel_set import is_copy, kernels
from ..shape.broadcasting import sum_to
from .operands import Binary, recording

__all__: list[str] = []
Formula = Callable[..., Any]
on_tensors: dict[str, Callable[..., Tensor]] = {}  # the operator of each primitive; ``methods`` fills it


def apply_primitive(name: str, operands: tuple[Any, ...]) -> Tensor:
    """Apply a primitive of a formula to Tensors."""
    return on_tensors[name](*operands)


_loaded = kernels.__dict__  # the kernels of the active set that were called before


def kernel(formula: Any) -> Callable[..., Any]:
    """The kernel of a formula, of the list or a user's, in the active set."""
    return _loaded.get(formula.kernel) or _load(formula)


def _load(formula: Any) -> Callable[..., Any]:
    found: Callable[..., Any]
    found = kernels.load_formula(formula) if hasattr(formula, "digest") else getattr(kernels, formula.kernel)
    return found


def carried(
    composed: Formula, kernel: Callable[..., Any], operands: Sequence[Tensor], numbers: Sequence[Any] = ()
) -> Tensor:
    """Apply a formula to Tensors: recorded operator by operator, or without a record in one kernel."""
    if recording():
        result: Tensor = composed(*operands, *numbers)
        return result
    return wrap(kernel(*[operand.array for operand in operands], *numbers))


def run(formula: Formula, operands: Sequence[Tensor], numbers: Sequence[float] = ()) -> Tensor:
    """A formula of Tensors, on the one carrier or the other."""
    if formula is same_grad:
        return operands[0]
    if recording():
        result: Tensor = formula(*operands, *numbers)
        return result
    return wrap(kernel(formula)(*[operand.array for operand in operands], *numbers))


class _Job(NamedTuple):
    """One call of a kernel: a formula of g, of saved tensors and of numbers, for the gradients of some operands.

    operands: places among the saved; -1 stands for g where the formula reads none. flags: which results are wanted.
    """

    formula: Formula
    operands: tuple[int, ...]
    numbers: tuple[int, ...]
    flags: tuple[bool, ...]
    places: tuple[int, ...]


class Backward:
    """The gradient of each operand of an operator, which may have been broadcast.

    parts: a formula for each operand. fused: all of them, but for those that are g itself, as one formula of several
    results; None if there is none.
    saved: the names of the operands, or of the result y, that they take.
    """

    def __init__(self, parts: Sequence[Formula], fused: Formula | None, numbers: Sequence[str]) -> None:
        self.parts, self.fused, self.numbers = parts, fused, numbers
        taken = [name for part in parts for name in form(part).operands[1:]]
        self.saved = form(fused).operands[1:] if fused else tuple(sorted({*taken}))
        self._jobs: dict[tuple[bool, ...], list[_Job]] = {}
        self._through = all(part is same_grad for part in parts)
        self._name: str = getattr(fused, "kernel", "")
        self._two = fused is not None and form(fused).results == len(self.saved) == 2 and not numbers

    def __call__(
        self,
        g: Tensor,
        saved: Sequence[Tensor],
        numbers: Sequence[float],
        shapes: Sequence[tuple[int, ...]],
        wanted: tuple[bool, ...],
    ) -> tuple[Tensor | None, ...]:
        """Those that are wanted, in the shapes of their operands; no ``shapes`` if all have that of g."""
        if self._through:
            found: list[Any] = [g if want else None for want in wanted]
        elif recording():
            found = [g if want else None for want in wanted]
            for formula, operands, own, _, (place,) in self._parts(wanted):
                found[place] = formula(g, *[saved[each] for each in operands], *[numbers[each] for each in own])
        elif self._two and wanted == (True, True):  # the same as below, in the most frequent case
            x, y = saved
            run_both = _loaded.get(self._name) or _load(self.fused)
            x_grad, y_grad = run_both(g.array, x.array, y.array, True, True)
            if not shapes:
                return wrap(x_grad), wrap(y_grad)
            found = [wrap(x_grad), wrap(y_grad)]
        else:
            found = self._run_jobs(g, saved, numbers, wanted)
        for place, shape in enumerate(shapes):
            gradient = found[place]
            if gradient is not None and gradient.array.shape != shape:
                found[place] = sum_to(gradient, shape)
        return (*found,)

    def _run_jobs(
        self, g: Tensor, saved: Sequence[Tensor], numbers: Sequence[float], wanted: tuple[bool, ...]
    ) -> list[Tensor | None]:
        found: list[Tensor | None] = [g if want else None for want in wanted]
        jobs = self._jobs.get(wanted)
        if jobs is None:
            jobs = self._jobs[wanted] = self._planned(wanted)
        for formula, operands, own, flags, places in jobs:
            arrays: list[Any] = [saved[each].array if each >= 0 else g.array for each in operands]
            if own:
                arrays += [numbers[each] for each in own]
            results = kernel(formula)(g.array, *arrays, *flags)
            if not flags:
                found[places[0]] = wrap(results)
            else:
                for place, result in enumerate(results):
                    if result is not None:
                        found[places[place]] = wrap(result)
        return found

    def _parts(self, wanted: tuple[bool, ...]) -> list[_Job]:
        """Each operand's gradient on its own."""
        return [
            self._job(part, (), (place,))
            for place, part in enumerate(self.parts)
            if wanted[place] and part is not same_grad
        ]

    def _planned(self, wanted: tuple[bool, ...]) -> list[_Job]:
        """All gradients in one job, where there is a formula of them and no kernel for the one that is wanted."""
        apart = self._parts(wanted)
        if self.fused is None or not apart or (len(apart) == 1 and hasattr(apart[0].formula, "kernel")):
            return apart
        places = tuple([place for place, part in enumerate(self.parts) if part is not same_grad])
        job = self._job(self.fused, tuple([wanted[place] for place in places]), places)
        read = {operand for one in apart for operand in one.operands}
        return [job._replace(operands=tuple([operand if operand in read else -1 for operand in job.operands]))]

    def _job(self, formula: Formula, flags: tuple[bool, ...], places: tuple[int, ...]) -> _Job:
        one = form(formula)
        operands = tuple([self.saved.index(name) for name in one.operands[1:]])
        return _Job(formula, operands, tuple([self.numbers.index(name) for name in one.numbers]), flags, places)


class Pointwise(Function):
    """An operator of single elements, made of formulas: ``class Silu(Pointwise, formula="silu")``.

    formula: in ``formulas``, by name; its gradients are declared there, or it is ``<name>_grad``. value: the formula of
    the value, if several operators share it and differ in their gradients. straight: it is made of straight pieces, so
    that its second derivative is 0. An operator of two operands is a ``Binary`` as well.
    """

    formula: Any  # of the value; the export to ONNX writes it in another form
    formulas: tuple[Any, ...] = ()  # what the documentation and backward_source show
    _made: _Made

    def __init_subclass__(
        cls, formula: str = "", value: str = "", straight: bool = False, made: _Made | None = None, **kwargs: Any
    ) -> None:
        super().__init_subclass__(**kwargs)
        if made is None:
            if not formula:
                return  # a variant of another one
            value, parts = value or formula, gradients_of(formula)
            shown = *[FORMULAS[each] for each in (value,) if each in FORMULAS], *dict.fromkeys(parts)
            made = _Made(POINTWISE[value], parts, FUSED.get(f"{formula}_grad"), shown)
        cls.piecewise_linear = straight
        cls.formula, cls.formulas = staticmethod(made.value), made.shown or (made.value,)
        cls.__doc__ = cls.__doc__ or made.value.__doc__
        cls._made = made
        forward, backward = _passes(made)
        cls.forward, cls.backward = staticmethod(forward), staticmethod(backward)  # type: ignore[method-assign]

    @classmethod
    def backward_with(cls, text: Callable[..., Any]) -> Callable[..., Any] | None:
        """The backward in which a changed copy of a gradient replaces it, on Tensors; None if it is no such copy."""
        value, parts, fused, _ = cls._made
        own = [is_copy(text, part) for part in parts]
        if not any(own):
            return None
        saved, of_value = Backward(parts, fused, form(value).numbers).saved, form(value).numbers

        def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
            known = {"g": g, **dict(zip(saved, ctx.saved_tensors, strict=True))}
            numbers = dict(zip(of_value, getattr(ctx, "numbers", ()), strict=False))
            shapes = getattr(ctx, "shapes", ()) or (g.array.shape,) * len(parts)
            found: list[Tensor | None] = [None] * len(parts)
            for place, (part, shape) in enumerate(zip(parts, shapes, strict=True)):
                if ctx.needs_input_grad[place]:
                    names = form(part)
                    operands = [known[each] for each in names.operands]
                    values = [numbers[each] for each in names.numbers]
                    gradient = (text if own[place] else part)(*operands, *values)
                    found[place] = gradient if gradient.array.shape == shape else sum_to(gradient, shape)
            return (*found,)

        return backward


class _Made(NamedTuple):
    """The formulas of an operator: of its value, of the gradients one by one and together, and those to be shown."""

    value: Any
    parts: Sequence[Formula]
    fused: Formula | None
    shown: tuple[Any, ...] = ()


def made(title: str, value: Any, parts: Sequence[Formula], fused: Formula | None, **members: Any) -> type[Pointwise]:
    """The Function of a user's formula."""
    bases = (Pointwise, Binary) if len(form(value).operands) == 2 else (Pointwise,)
    name = "".join(word[:1].upper() + word[1:] for word in title.split("_"))
    return type(name, bases, members, made=_Made(value, parts, fused))


def _passes(made: _Made) -> tuple[Any, Any]:
    """forward and backward, see ``Backward``."""
    value, parts, fused, _ = made
    name, (operands, numbers, *_) = value.kernel, form(value)
    count, gradients = len(operands), Backward(parts, fused, numbers)
    saved = [operands.index(each) if each in operands else -1 for each in gradients.saved]  # -1: the result
    takes_numbers = bool(numbers and parts) and form(parts[0]).numbers == numbers
    rest = (None,) * len(numbers)  # numbers have no gradient

    def forward_of_one(ctx: Any, x: Tensor, *values: float) -> Tensor:
        y = wrap((_loaded.get(name) or _load(value))(x.array, *values))
        if saved:
            ctx.save_for_backward(x if saved[0] >= 0 else y)
        if takes_numbers:
            ctx.numbers = values
        return y

    def backward_of_one(ctx: Any, g: Tensor) -> Any:
        gx = run(parts[0], (g, *ctx.saved_tensors), ctx.numbers if takes_numbers else ())
        return (gx, *rest) if rest else gx

    def forward_of_two(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        a, b = x.array, y.array
        if saved:
            ctx.save_for_backward(x, y)
        if a.shape != b.shape:
            ctx.shapes = a.shape, b.shape
        return wrap((_loaded.get(name) or _load(value))(a, b))

    def backward_of_two(ctx: Any, g: Tensor) -> Any:
        return gradients(g, ctx.saved_tensors, (), getattr(ctx, "shapes", ()), ctx.needs_input_grad)

    def forward(ctx: Any, *values: Any) -> Tensor:
        arrays = [tensor.array for tensor in values[:count]]
        ctx.save_for_backward(*[values[place] for place in saved])
        ctx.shapes, ctx.numbers = [array.shape for array in arrays], values[count:]
        return wrap(kernel(value)(*arrays, *values[count:]))

    def backward(ctx: Any, g: Tensor) -> Any:
        found = gradients(g, ctx.saved_tensors, ctx.numbers, ctx.shapes, ctx.needs_input_grad[:count])
        return found + rest

    if count == 1:
        return forward_of_one, backward_of_one
    if count == 2 and not numbers and saved in ([], [0, 1]):
        return forward_of_two, backward_of_two
    return forward, backward
