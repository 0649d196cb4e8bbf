"""Base classes of pointwise operators: operand checks, and Functions made from formulas.

backward evaluates the gradient's formula: on Tensors if the gradient is itself recorded, otherwise in one kernel. Only
``run``, ``Backward`` and ``backward_of_one``, all in this file, make that choice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...arrays import from_host, zeros
from ...engine.dtype import FLOAT32
from ...engine.function import Function
from ...engine.grad_mode import INFERENCE, thread
from ...engine.grad_mode import is_grad_enabled as recording
from ...engine.node import first_saved, saved_arrays, saved_output
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...formulas import FORMULAS, FUSED, POINTWISE, form
from ...formulas.registry import gradients_of, same_grad
from ...kernel_set import exact, is_copy, kernels
from ..argument_checks import require_float
from ..dtypes.promotion import promote, promote_to_float
from ..shape.broadcasting import broadcast_shape, sum_to

__all__ = [
    "Binary",
    "Constant",
    "Gradients",
    "WithoutGradient",
    "binary",
    "promoted",
    "recording",
    "unary_exact",
    "unary_float",
]


# ---- Base classes and operand checks of the element-wise operators --------------------------------------------------

Gradients = tuple[Tensor | None, ...]


class Binary(Function):
    """An operator with two broadcast operands. ``exact``: integers are allowed too, without a gradient."""

    formula: Any  # its value
    exact: ClassVar[bool] = False  # False: integers become float32
    integers: ClassVar[bool] = True  # False: at least one operand must be floating-point
    booleans: ClassVar[bool] = True  # False: no operand may be boolean


class Constant(Function):
    """A result y that is piecewise constant in x, such as a count of elements; the gradient is 0"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: np.ndarray) -> Tensor:
        ctx.shape, ctx.dtype = x.array.shape, x.array.dtype
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        return wrap(zeros(ctx.shape, ctx.dtype, like=g.array)), None


class WithoutGradient(Function):
    """A result y of the operator ``name``, which has no gradient: backward raises NotImplementedError."""

    gradient = "none: a backward through it is an error"

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: np.ndarray, name: str) -> Tensor:
        ctx.operator = name
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        raise NotImplementedError(f"{ctx.operator}: it has no gradient; use input.detach()")


def unary_float(operator: type[Function], name: str, x: Tensor) -> Tensor:
    """Apply the operator to a floating-point Tensor.

    Raises:
        TypeError: x is not a floating-point Tensor.
    """
    if not (isinstance(x, Tensor) and (x.array.dtype is FLOAT32 or x.array.dtype.char in "fd")):
        require_float(name, x)
    return operator.apply(x)


@operator
def unary_exact(operator: type[Function], name: str, x: Tensor) -> Tensor:
    """Apply the operator to a floating-point Tensor, or to integers without a gradient; ``name`` is also its kernel.

    Raises:
        TypeError: x is not a Tensor, or is boolean.
    """
    if interpreters and (seen := interpreted(unary_exact, locals())) is not None:
        return seen
    if isinstance(x, Tensor):
        dtype = x.array.dtype
        if dtype is FLOAT32 or dtype.char in "fd":
            return operator.apply(x)
        if dtype.kind in "iu":
            return wrap(exact(name)(x.array))
    return unary_float(operator, name, x)


@operator
def binary(operator: type[Binary], name: str, x: Any, y: Any) -> Tensor:
    """Apply the operator to two Tensors, or a Tensor and a number: shapes broadcast, types promote.

    Raises:
        ValueError: the shapes do not broadcast, or a number does not fit the type.
        TypeError: an operand is neither a Tensor nor a number, or of a type that the operator does not support.
    """
    if interpreters and (seen := interpreted(binary, locals())) is not None:
        return seen
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        dtype = x.array.dtype
        if y.array.dtype is dtype and (dtype is FLOAT32 or dtype.kind == "f"):
            if x.array.shape != y.array.shape:
                broadcast_shape(name, x.array.shape, y.array.shape)
            return operator.apply(x, y)
    elif type(y) is float and -65504.0 <= y <= 65504.0 and isinstance(x, Tensor) and x.array.dtype.char in "fd":
        return operator.apply(x, wrap(from_host(y, x.array.dtype)))  # as below, for the usual numbers
    given = x, y
    # y handles the operation itself, e.g. a SparseTensor
    if not isinstance(y, Tensor) and getattr(y, "__array_ufunc__", x) is None:
        reflected = getattr(y, f"__r{name}__", None)
        if reflected is not None:
            return reflected(x)
    x, y = promoted(operator, name, x, y)
    if not operator.exact and x.array.dtype.kind != "f":
        x, y = promote_to_float(name, *given)
    broadcast_shape(name, x.array.shape, y.array.shape)
    if x.array.dtype.kind == "f":
        return operator.apply(x, y)
    return Tensor(exact(operator.formula.kernel)(x.array, y.array))


def promoted(operator: type[Binary], name: str, x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Convert both operands to Tensors of one type that the operator supports; see ``promote``.

    Raises:
        TypeError: an operand is neither a Tensor nor a number, or of a type that the operator does not support.
        ValueError: a number does not fit the type.
    """
    if not operator.booleans:
        # 1.0 - mask is allowed: in scripts, Tensor(boolean array) makes a mask where PyTorch makes numbers
        number = _is_floating(x) or _is_floating(y)
        for label, value in (("input", x), ("other", y)):
            if isinstance(value, (bool, np.bool_)) or (isinstance(value, Tensor) and value.array.dtype.kind == "b"):
                if number and isinstance(value, Tensor):
                    continue
                raise TypeError(
                    f"{name}: {label} is bool, needs numbers; convert it to integers, "
                    f"or use ~x to invert a mask and x ^ y for where two differ"
                )
    x, y = promote(name, x, y)
    if not operator.integers and x.array.dtype.kind != "f":
        raise TypeError(
            f"{name}: input and other promote to {x.array.dtype}, needs float32 or float64; convert one with .float()"
        )
    return x, y


def _is_floating(value: Any) -> bool:
    """Return whether the operand is a floating-point number or Tensor."""
    return value.array.dtype.kind == "f" if isinstance(value, Tensor) else isinstance(value, (float, np.floating))


# ---- Pointwise operators: Functions made from their formulas --------------------------------------------------------

Formula = Callable[..., Any]
on_tensors: dict[str, Callable[..., Tensor]] = {}  # the operator of each primitive, filled in by ``methods``


def apply_primitive(name: str, operands: tuple[Any, ...]) -> Tensor:
    """Apply a primitive of a formula to Tensors."""
    return on_tensors[name](*operands)


_loaded = kernels.__dict__  # kernels of the active set that have been called


def kernel(formula: Any) -> Callable[..., Any]:
    """Return the kernel of a built-in or user-defined formula in the active kernel set."""
    return _loaded.get(formula.kernel) or _load(formula)


def _load(formula: Any) -> Callable[..., Any]:
    found: Callable[..., Any]
    found = kernels.load_formula(formula) if hasattr(formula, "digest") else getattr(kernels, formula.kernel)
    return found


def fused_or_composed(
    composed: Formula, kernel: Callable[..., Any], operands: Sequence[Tensor], numbers: Sequence[Any] = ()
) -> Tensor:
    """Apply a formula to Tensors: operator by operator if recording, otherwise in one kernel."""
    if recording():
        result: Tensor = composed(*operands, *numbers)
        return result
    return wrap(kernel(*[operand.array for operand in operands], *numbers))


def run(formula: Formula, operands: Sequence[Tensor], numbers: Sequence[float] = ()) -> Tensor:
    """Run a gradient formula on Tensors: operator by operator if recording, otherwise in one kernel."""
    if formula is same_grad:
        return operands[0]
    if recording():
        result: Tensor = formula(*operands, *numbers)
        return result
    return wrap(kernel(formula)(*[operand.array for operand in operands], *numbers))


class _Job(NamedTuple):
    """One kernel call: a formula of g, saved tensors and numbers, which computes the gradients of some operands.

    operands: indices of saved tensors; -1 means g if the formula reads none. flags: which results are requested.
    """

    formula: Formula
    operands: tuple[int, ...]
    numbers: tuple[int, ...]
    flags: tuple[bool, ...]
    places: tuple[int, ...]


class Backward:
    """The gradient of each operand of an operator, which may have been broadcast.

    parts: a formula for each operand. fused: one formula that returns all gradients except those equal to g, or None.
    saved: the names of the operands, or of the result y, that the formulas read.
    """

    numbers: Sequence[str]
    parts: Sequence[Formula]
    fused: Formula | None

    def __init__(self, parts: Sequence[Formula], fused: Formula | None, numbers: Sequence[str]) -> None:
        self.parts, self.fused, self.numbers = parts, fused, numbers
        read = [name for part in parts for name in form(part).operands[1:]]
        self.saved: tuple[str, ...] = form(fused).operands[1:] if fused else tuple(sorted({*read}))
        self._jobs: dict[tuple[bool, ...], list[_Job]] = {}
        self._reads: dict[tuple[bool, ...], tuple[bool, ...]] = {}
        self._through = all(part is same_grad for part in parts)
        self._name: str = getattr(fused, "kernel", "")
        self._two = fused is not None and form(fused).results == len(self.saved) == 2 and not numbers

    def run(
        self,
        g: Tensor,
        ctx: Any,
        numbers: Sequence[float],
        shapes: Sequence[tuple[int, ...]],
        needs_grad: tuple[bool, ...],
    ) -> tuple[Tensor | None, ...]:
        """Return the requested gradients in the shapes of their operands; no ``shapes`` if all have that of g."""
        if self._through:
            if not shapes and needs_grad == (True, True):
                return g, g
            found: list[Any] = [g if needed else None for needed in needs_grad]
        elif thread.mode.enabled:
            saved = ctx.saved_tensors
            found = [g if needed else None for needed in needs_grad]
            for formula, operands, own, _, (place,) in self._parts(needs_grad):
                found[place] = formula(g, *[saved[each] for each in operands], *[numbers[each] for each in own])
        elif self._two and needs_grad == (True, True):  # a shortcut for the most frequent case
            x, y = saved_arrays(ctx)
            x_grad, y_grad = (_loaded.get(self._name) or _load(self.fused))(g.array, x, y, True, True)
            if not shapes:
                return wrap(x_grad), wrap(y_grad)
            found = [wrap(x_grad), wrap(y_grad)]
        else:
            found = self._run_jobs(g, ctx.saved_arrays, numbers, needs_grad)
        for place, shape in enumerate(shapes):
            gradient = found[place]
            if gradient is not None and gradient.array.shape != shape:
                found[place] = sum_to(gradient, shape)
        return (*found,)

    def reads(self, needs_grad: tuple[bool, ...]) -> tuple[bool, ...]:
        """Return, for each name in ``saved``, whether one of the requested gradients reads it."""
        found = self._reads.get(needs_grad)
        if found is None:
            read = {operand for one in self._parts(needs_grad) for operand in one.operands}
            found = self._reads[needs_grad] = (*[place in read for place in range(len(self.saved))],)
        return found

    def _run_jobs(
        self, g: Tensor, saved: Sequence[np.ndarray], numbers: Sequence[float], needs_grad: tuple[bool, ...]
    ) -> list[Tensor | None]:
        found: list[Tensor | None] = [g if needed else None for needed in needs_grad]
        jobs = self._jobs.get(needs_grad)
        if jobs is None:
            jobs = self._jobs[needs_grad] = self._planned(needs_grad)
        for formula, operands, own, flags, places in jobs:
            arrays: list[Any] = [saved[each] if each >= 0 else g.array for each in operands]
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

    def _parts(self, needs_grad: tuple[bool, ...]) -> list[_Job]:
        """Return a separate job for each requested gradient."""
        return [
            self._job(part, (), (place,))
            for place, part in enumerate(self.parts)
            if needs_grad[place] and part is not same_grad
        ]

    def _planned(self, needs_grad: tuple[bool, ...]) -> list[_Job]:
        """Plan one job for all gradients with a joint formula, unless only one with its own kernel is requested."""
        apart = self._parts(needs_grad)
        if self.fused is None or not apart or (len(apart) == 1 and hasattr(apart[0].formula, "kernel")):
            return apart
        places = tuple([place for place, part in enumerate(self.parts) if part is not same_grad])
        job = self._job(self.fused, tuple([needs_grad[place] for place in places]), places)
        read = {operand for one in apart for operand in one.operands}
        return [job._replace(operands=tuple([operand if operand in read else -1 for operand in job.operands]))]

    def _job(self, formula: Formula, flags: tuple[bool, ...], places: tuple[int, ...]) -> _Job:
        one = form(formula)
        operands = tuple([self.saved.index(name) for name in one.operands[1:]])
        return _Job(formula, operands, tuple([self.numbers.index(name) for name in one.numbers]), flags, places)


class Pointwise(Function):
    """A pointwise operator defined by formulas: ``class Silu(Pointwise, formula="silu")``.

    formula: a name in ``formulas``; its gradients are declared there, or its gradient is ``<name>_grad``. value: the
    formula of the value, if operators share it and differ in their gradients. straight: the operator is piecewise
    linear, so its second derivative is 0 almost everywhere. An operator with two operands is a ``Binary`` as well.
    """

    formula: Any  # of the value; the ONNX exporter translates it
    formulas: tuple[Any, ...] = ()  # shown by the documentation and by backward_source
    _definition: _Definition

    def __init_subclass__(
        cls,
        formula: str = "",
        value: str = "",
        straight: bool = False,
        definition: _Definition | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init_subclass__(**kwargs)
        if definition is None:
            if not formula:  # a variant of another operator
                return
            value, parts = value or formula, gradients_of(formula)
            shown = *[FORMULAS[each] for each in (value,) if each in FORMULAS], *dict.fromkeys(parts)
            definition = _Definition(POINTWISE[value], parts, FUSED.get(f"{formula}_grad"), shown)
        cls.piecewise_linear = straight
        cls.formula, cls.formulas = staticmethod(definition.value), definition.shown or (definition.value,)
        cls.__doc__ = cls.__doc__ or definition.value.__doc__
        cls._definition = definition
        for name, function in zip(("forward", "setup_context", "backward"), _passes(definition), strict=True):
            setattr(cls, name, staticmethod(function))
        cls._takes_ctx, cls._pure = False, (cls.forward, cls.setup_context)

    @classmethod
    def backward_with(cls, edited: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return a backward that calls an edited copy of a gradient on Tensors, or None for any other function."""
        value, parts, fused, _ = cls._definition
        own = [is_copy(edited, part) for part in parts]
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
                    gradient = (edited if own[place] else part)(*operands, *values)
                    found[place] = gradient if gradient.array.shape == shape else sum_to(gradient, shape)
            return (*found,)

        return backward


class _Definition(NamedTuple):
    """The formulas of an operator: its value, its gradients (separate and joint), and the formulas to show."""

    value: Any
    parts: Sequence[Formula]
    fused: Formula | None
    shown: tuple[Any, ...] = ()


def make_function(
    title: str, value: Any, parts: Sequence[Formula], fused: Formula | None, **members: Any
) -> type[Pointwise]:
    """Make the Function of a user-defined formula."""
    bases = (Pointwise, Binary) if len(form(value).operands) == 2 else (Pointwise,)
    name = "".join(word[:1].upper() + word[1:] for word in title.split("_"))
    return type(name, bases, members, definition=_Definition(value, parts, fused))


def _passes(definition: _Definition) -> tuple[Any, Any, Any]:
    """Make forward, setup_context and backward; see ``Backward``."""
    value, parts, fused, _ = definition
    name, (operands, numbers, *_) = value.kernel, form(value)
    count, gradients = len(operands), Backward(parts, fused, numbers)
    saved, takes_numbers = _saved(definition)
    rest = (None,) * len(numbers)  # numbers have no gradient
    two = count == 2 and not numbers and saved in ([], [0, 1])
    of_part: str = "" if not parts or parts[0] is same_grad else getattr(parts[0], "kernel", "")

    def forward_of_one(x: Tensor, *values: float) -> Tensor:
        return wrap((_loaded.get(name) or _load(value))(x.array, *values))

    def forward_of_one_alone(x: Tensor) -> Tensor:
        return wrap((_loaded.get(name) or _load(value))(x.array))

    def setup_of_one(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        if saved:
            ctx.saved = [saved_output(output.array, 0) if saved[0] < 0 else (inputs[0], inputs[0].array)]
        if takes_numbers:
            ctx.numbers = inputs[1:]

    def backward_of_one(ctx: Any, g: Tensor) -> Any:
        own = ctx.numbers if takes_numbers else ()
        if not of_part or thread.mode.enabled:
            gx = run(parts[0], (g, *ctx.saved_tensors), own)
        elif own or not saved:
            gx = wrap((_loaded.get(of_part) or _load(parts[0]))(g.array, *(saved and ctx.saved_arrays), *own))
        else:
            gx = wrap((_loaded.get(of_part) or _load(parts[0]))(g.array, first_saved(ctx)))
        return (gx, *rest) if rest else gx

    reads_for_x, reads_for_y = (gradients.reads((x, not x)) for x in (True, False)) if two else ((), ())

    def forward_of_two(x: Tensor, y: Tensor) -> Tensor:
        return wrap((_loaded.get(name) or _load(value))(x.array, y.array))

    def setup_of_two(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, y = inputs
        a, b = x.array, y.array
        if saved:
            of_x, of_y = ctx.needs_input_grad
            if of_x and of_y:
                ctx.saved = [(x, a), (y, b)]
            elif x._grad_req is INFERENCE or y._grad_req is INFERENCE or thread.mode.rules is not None:
                ctx.saved = inputs  # a rule may read both
            else:
                reads_x, reads_y = reads_for_x if of_x else reads_for_y
                ctx.saved = [(x, a) if reads_x else None, (y, b) if reads_y else None]
        if a.shape != b.shape:
            ctx.shapes = a.shape, b.shape

    def backward_of_two(ctx: Any, g: Tensor) -> Any:
        return gradients.run(g, ctx, (), getattr(ctx, "shapes", ()), ctx.needs_input_grad)

    def forward(*values: Any) -> Tensor:
        return wrap(kernel(value)(*[tensor.array for tensor in values[:count]], *values[count:]))

    def setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        needs = ctx.needs_input_grad[:count]
        if all(needs) or thread.mode.rules is not None:  # a rule may read all
            ctx.saved = tuple([inputs[place] for place in saved])
        else:
            reads = gradients.reads(needs)
            ctx.saved = tuple([inputs[place] if read else None for place, read in zip(saved, reads, strict=True)])
        ctx.shapes, ctx.numbers = (*[tensor.array.shape for tensor in inputs[:count]],), inputs[count:]

    def backward(ctx: Any, g: Tensor) -> Any:
        found = gradients.run(g, ctx, ctx.numbers, ctx.shapes, ctx.needs_input_grad[:count])
        return found + rest

    if count == 1:
        return forward_of_one if numbers else forward_of_one_alone, setup_of_one, backward_of_one
    if two:
        return forward_of_two, setup_of_two, backward_of_two
    return forward, setup, backward


def _saved(definition: _Definition) -> tuple[list[int], bool]:
    """Return the places of the operands that backward reads, -1 for the result, and whether it reads the numbers."""
    value, parts, fused, _ = definition
    operands, numbers, *_ = form(value)
    names = Backward(parts, fused, numbers).saved
    saved = [operands.index(each) if each in operands else -1 for each in names]
    return saved, bool(numbers and parts) and form(parts[0]).numbers == numbers
