"""Pointwise operators made from their formulas: the Function, and the function that users call.

What the backward runs is the formula of the gradient: on Tensors where it is recorded, else in one kernel. ``run`` and
``Backward`` decide that, here alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...engine.function import Function
from ...engine.tensor import Tensor, wrap
from ...formulas import FORMULAS, FUSED, POINTWISE, form
from ...formulas.table import gradients_of, same_grad
from ..arguments.checks import as_float
from ..kernel_set import kernels
from ..shape.broadcasting import sum_to
from .operands import Binary, binary, recording

__all__: list[str] = []
Formula = Callable[..., Any]
Domain = tuple[float, float]
ROWS: dict[str, Callable[..., Tensor]] = {}  # the public functions that are made here
on_tensors: dict[str, Callable[..., Tensor]] = {}  # the operator of each primitive; ``methods`` fills it


def apply_primitive(name: str, operands: tuple[Any, ...]) -> Tensor:
    """What a primitive of a formula means on Tensors."""
    return on_tensors[name](*operands)


_loaded = kernels.__dict__  # the kernels of the active set that were called before


def kernel(formula: Any) -> Callable[..., Any]:
    """The kernel of a formula, of the list or a user's, in the active set."""
    return _loaded.get(formula.kernel) or _load(formula)


def _load(formula: Any) -> Callable[..., Any]:
    found: Callable[..., Any]
    found = kernels.formula_kernel(formula) if hasattr(formula, "digest") else getattr(kernels, formula.kernel)
    _loaded[formula.kernel] = found
    return found


def carried(
    composed: Formula, kernel: Callable[..., Any], operands: Sequence[Tensor], numbers: Sequence[Any] = ()
) -> Tensor:
    """What formulas make of Tensors: recorded operator by operator, or without a record by the kernel made of them."""
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


def pointwise(
    name: str, module: str = "", kernel: str = "", title: str = "", straight: bool = False, **members: Any
) -> type[Any]:
    """The Function of the formula ``name``; its gradients are declared in ``formulas``, or it is ``<name>_grad``.

    module: where the Function belongs; by default the caller's.
    kernel: the formula, if it has another name. title: the Function's name, if it is not that in capitals.
    straight: it is made of straight pieces, so that its second derivative is 0.
    members: of the class, as ``exact`` of ``Binary``.
    """
    kernel = kernel or name
    parts = gradients_of(name)
    # what the documentation and backward_source show
    formulas = *[FORMULAS[each] for each in (kernel,) if each in FORMULAS], *dict.fromkeys(parts)
    members["__module__"] = module or sys._getframe(1).f_globals["__name__"]
    members["piecewise_linear"] = straight
    return make(title or name, POINTWISE[kernel], parts, FUSED.get(f"{name}_grad"), formulas, **members)


def make(
    title: str,
    value: Any,
    parts: Sequence[Formula],
    fused: Formula | None,
    formulas: tuple[Formula, ...] = (),
    **members: Any,
) -> type[Function]:
    """The Function of a formula and of its gradients, see ``Backward``."""
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

    run_forward, run_backward = forward, backward
    if count == 1:
        run_forward, run_backward = forward_of_one, backward_of_one
    elif count == 2 and not numbers and saved in ([], [0, 1]):
        run_forward, run_backward = forward_of_two, backward_of_two
    # ``formula`` is for whoever writes it in another form, as the export to ONNX does
    members = {"__doc__": value.__doc__, "formula": staticmethod(value)} | members
    shown, base = formulas or (value,), Binary if count == 2 else Function
    function: type[Function] = made_of(shown, title, run_forward, run_backward, base, **members)
    return function


def made_of(
    formulas: tuple[Any, ...], name: str, forward: Any, backward: Any, base: type[Any] = Function, **members: Any
) -> Any:
    """A Function; ``formulas`` are what the documentation and backward_source show."""
    members["__module__"] = members.get("__module__") or sys._getframe(2).f_globals["__name__"]
    members = {"__doc__": formulas[-1].__doc__, "formulas": formulas} | members
    title = "".join(word[:1].upper() + word[1:] for word in name.split("_"))
    return type(title, (base,), {"forward": staticmethod(forward), "backward": staticmethod(backward)} | members)


def operator(name: str, doc: str, domain: Domain = (-2.0, 2.0)) -> Callable[[Tensor], Tensor]:
    """The public function of a pointwise operator without numbers; integers and truth values become float32.

    domain: between which numbers tests draw its operand.
    """
    module = sys._getframe(1).f_globals["__name__"]
    function = pointwise(name, module)

    def call(input: Tensor) -> Tensor:
        if isinstance(input, Tensor) and input.array.dtype.char in "fd":
            return function.apply(input)
        return function.apply(as_float(name, input))

    return _row(call, name, doc, module, function, (domain,))


def operator_of_two(
    name: str, doc: str, domains: tuple[Domain, Domain] = ((-2.0, 2.0), (-2.0, 2.0)), **members: Any
) -> Callable[[Tensor | float, Tensor | float], Tensor]:
    """The public function of a pointwise operator of two operands that broadcast; ``members`` as in ``pointwise``."""
    module = sys._getframe(1).f_globals["__name__"]
    function = pointwise(name, module, **members)

    def call(input: Tensor | float, other: Tensor | float) -> Tensor:
        return binary(function, name, input, other)

    return _row(call, name, doc, module, function, domains)


def _row(call: Any, name: str, doc: str, module: str, function: type[Function], domains: tuple[Domain, ...]) -> Any:
    call.__name__ = call.__qualname__ = name
    call.__doc__, call.__module__ = doc, module
    call.function, call.domains = function, domains  # the documentation shows the one, tests draw from the others
    ROWS[name] = call
    return call
