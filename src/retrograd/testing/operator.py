"""check_op: checks that an operator satisfies everything that built-in operators satisfy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from ..autograd import backward, gradcheck, gradgradcheck
from ..engine.function import Function
from ..engine.tensor import Tensor
from ..kernel_set import kernel_setting, use_kernels
from ..kernels.compiled.machine.launch import get_num_threads, set_num_threads
from .function_call import Arrays, Call, outputs_of
from .second_derivatives import second_derivative_faults

# ---- The report of the checks, and the error that contains it -------------------------------------------------------

Check = Callable[[], Iterable[str]]


@dataclass
class ConformanceReport:
    """The names of passed checks and the faults of failed ones; true if there are no faults."""

    name: str
    passed: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return not self.faults

    def __str__(self) -> str:
        if self.faults:
            return "\n".join([f"{self.name} failed:", *[f"  {fault}" for fault in self.faults]])
        return f"{self.name}: passed {', '.join(self.passed)}"


class ConformanceError(AssertionError):
    """Raised when a check fails; ``report`` says which one and how."""

    def __init__(self, report: ConformanceReport) -> None:
        super().__init__(str(report))
        self.report = report


def run(name: str, checks: Mapping[str, Check]) -> ConformanceReport:
    """Run all checks; an exception counts as a fault, and the other checks still run."""
    report = ConformanceReport(name)
    for label, check in checks.items():
        try:
            faults = list(check())
        except Exception as error:
            faults = [f"{type(error).__name__}: {error}"]
        report.faults += [f"{label}: {fault}" for fault in faults]
        if not faults:
            report.passed.append(label)
    return report


# ---- check_op: the conformance checks of an operator ----------------------------------------------------------------

_EXACT = {"eps": 1.0, "atol": 1e-11, "rtol": 1e-11}  # differences of a linear function have only rounding errors
_SHAPES = [((3, 1, 2), (4, 1)), ((), (2, 3)), ((1,), (3, 2)), ((0, 3), (3,))]  # shapes of broadcast operands


class Refusal:
    """A call that must fail: ``Refusal(ValueError, "dim=3 is out of range", x, dim=3)``; x an array."""

    args: tuple[Any, ...]
    error: type[Exception]
    kwargs: dict[str, Any]
    message: str

    def __init__(self, error: type[Exception], message: str, *args: Any, **kwargs: Any) -> None:
        self.error, self.message, self.args, self.kwargs = error, message, args, kwargs


def check_op(
    function: Callable[..., Any],
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    oracle: Callable[..., Any] | None = None,
    order: int = 2,
    linear: bool = False,
    batch: Sequence[int] = (0,),
    broadcast: Sequence[int] = (),
    large: Sequence[Any] | None = None,
    integers: bool | None = None,
    random: bool = False,
    layouts: bool = True,
    arrays: bool = False,
    errors: Sequence[Refusal] = (),
    rtol: float = 1e-10,
    single: float = 2e-4,
    rounding: float = 0.0,
    full: bool = True,
    name: str = "",
) -> ConformanceReport:
    """Check a call, ``function(*args, **kwargs)``, and variants of it; arrays are passed as Tensors.

    Checks: values against the oracle; float32 and float64; other strides; unchanged inputs; first and second
    derivatives with irregular upstream gradients (gradcheck); ``grad_req``; gradients that do not change when other
    arrays are assigned to the tensors after forward; an empty batch; broadcasting; agreement of the two kernel sets;
    the same bits with 1 and 2 threads; error messages.

    Args:
        function: returns a Tensor or a tuple of Tensors.
        args: arrays (floating-point ones are differentiated and should be small), lists of arrays, and other values,
            which are passed on unchanged.
        kwargs: options.
        oracle: the same call in NumPy; gets float64 arrays, returns an array or a tuple of arrays.
        order: the highest derivative to check: 0, 1 or 2.
        linear: whether the function is linear in each input, so that differences are exact.
        batch: indices of the arrays whose first axis is the batch; if 0 is among them, the result is compared with the
            oracle's. Empty: there is no batch axis, or the function refuses an empty batch.
        broadcast: indices of the two arrays that broadcast with each other, if any.
        large: other arguments, larger than one task of a kernel, to compare kernel sets and threads (default: args).
        integers: whether int64 arrays in place of floating-point ones are accepted (True), refused (False), or either
            (None). Accepted ones must give the result for float64, truncated if it is int64.
        random: whether the function draws from retrograd's generator, which is seeded before each call.
        layouts: whether the values must be independent of strides.
        arrays: if True, the result for an ndarray in place of a Tensor is not checked. Otherwise the ndarray must be
            refused or give the same result, as in a function made of operators such as ``*``.
        errors: calls that must fail, with their errors.
        rtol, single: tolerance of values in float64 and float32, relative to the largest value of the result.
        rounding: relative change allowed when other gradients are requested (which may replace a fused kernel).
        full: check second derivatives entry by entry (``gradgradcheck``). Otherwise they are checked along random
            directions; this finds the same faults in a fifth of the time, but does not locate the wrong entry.
        name: the name of the function in the report.

    Returns:
        The report, which lists the checks that passed.

    Raises:
        ConformanceError: a check failed; its message is the report.
        TypeError: the function is a Function (pass its ``apply``), or args has Tensors or shapes in place of arrays.

    >>> import numpy as np, retrograd
    >>> report = retrograd.testing.check_op(retrograd.exp, np.array([0.5, -1.0]), oracle=np.exp)
    >>> "second derivative" in report.passed
    True
    """
    _check_call(function, args)
    options = dict(kwargs or {})
    call = Call(function, args, options, random)
    wide = call if large is None else Call(function, large, options, random)
    differentiable = bool(order and call.floating)
    check = _Operator(call, wide, oracle, differentiable, rtol, single, rounding)
    checks: dict[str, Check] = {}
    if oracle is not None:
        checks["values"] = lambda: check.values(call.arrays, rtol)
    if call.floating:
        checks["float32"] = check.single_precision
    if layouts:
        checks["strides"] = check.strides
    checks["inputs unchanged"] = check.unchanged
    tolerances: dict[str, Any] = _EXACT if linear else {}
    if differentiable:
        checks["first derivative"] = lambda: check.derivative(gradcheck, tolerances)
        if order > 1:
            checks["second derivative"] = (
                (lambda: check.derivative(gradgradcheck, tolerances))
                if full
                else (lambda: second_derivative_faults(call, linear))
            )
        checks["grad_req"] = check.requests
        checks["data replaced"] = check.replaced
    if batch:
        checks["empty batch"] = lambda: check.empty(batch)
    if broadcast:
        checks["broadcasting"] = lambda: check.broadcasting(broadcast, tolerances)
    checks["kernel sets"] = check.kernel_sets
    checks["threads"] = check.threads
    if call.floating:
        checks["refusals"] = lambda: check.refusals(errors, integers is False, arrays)
        if integers is None:
            checks["integers"] = check.integers
    elif errors:
        checks["refusals"] = lambda: check.listed_refusals(errors)
    report = run(name or getattr(function, "__name__", repr(function)), checks)
    if report.faults:
        raise ConformanceError(report)
    return report


def _check_call(function: Any, args: Sequence[Any]) -> None:
    """Raise TypeError for arguments of check_op with which nothing would be checked."""
    if isinstance(function, type) and issubclass(function, Function):
        raise TypeError(
            f"check_op: got the Function {function.__name__}, expected a function; {function.__name__}.apply"
        )
    if any(isinstance(arg, np.ndarray) for arg in args):
        return
    for index, arg in enumerate(args):
        shapes = isinstance(arg, list) and arg and all(type(item) is tuple for item in arg)
        if shapes or isinstance(arg, Tensor):
            given = f"{arg}, shapes" if shapes else "a Tensor"
            raise TypeError(
                f"check_op: args[{index}] is {given}; it checks NumPy arrays, such as np.array([0.5, -1.0])"
            )


class _Operator:
    """The checks; each yields its faults."""

    def __init__(
        self,
        call: Call,
        wide: Call,
        oracle: Callable[..., Any] | None,
        differentiable: bool,
        rtol: float,
        single: float,
        rounding: float,
    ) -> None:
        self.call, self.wide, self.oracle, self.differentiable = call, wide, oracle, differentiable
        self.rtol, self.single, self.rounding = rtol, single, rounding

    def expected(self, arrays: Arrays) -> Arrays:
        assert self.oracle is not None
        with np.errstate(all="ignore"):
            result = self.call.with_values([a.copy() for a in arrays], self.oracle)
        return [np.asarray(item) for item in (result if isinstance(result, (tuple, list)) else (result,))]

    def values(self, arrays: Arrays, rtol: float) -> Iterator[str]:
        found = [y.array for y in self.call.outputs(self.call.tensors(arrays))]
        yield from differences(found, self.expected(arrays), rtol, "retrograd", "the oracle")

    def single_precision(self) -> Iterator[str]:
        double, gradients = self.call.results(self.call.arrays, np.float64, self.differentiable)
        found, found_gradients = self.call.results(self.call.arrays, np.float32, self.differentiable)
        for array in (*found, *found_gradients):
            if array.dtype == np.float64:
                yield f"float32 inputs give {array.dtype}"
        yield from differences(found, double, self.single, "float32", "float64", types=False)
        yield from differences(found_gradients, gradients, 10 * self.single, "float32", "float64", "gradient", False)

    def strides(self) -> Iterator[str]:
        expected, expected_gradients = self.call.results(self.call.arrays, differentiable=self.differentiable)
        rtol = 1e-6 if any(y.dtype == np.float32 for y in expected) else 1e-12  # float32: of integers
        for label, layout in LAYOUTS.items():
            found, gradients = self.call.results([layout(a) for a in self.call.arrays], np.float64, self.differentiable)
            yield from differences(found, expected, rtol, label, "C order")
            yield from differences(gradients, expected_gradients, 1e-11, label, "C order", "gradient")

    def unchanged(self) -> Iterator[str]:
        tensors = self.call.tensors([a.copy() for a in self.call.arrays], requires_grad=self.differentiable)
        outputs = self.call.outputs(tensors)
        values = [y.array.copy() for y in outputs]
        for y in outputs:
            if y.requires_grad:
                upstream = np.cos(np.arange(y.array.size, dtype=np.float64)).reshape(y.shape)
                y.backward(Tensor(upstream), retain_graph=True)
        for k, (tensor, array) in enumerate(zip(tensors, self.call.arrays, strict=True)):
            if not np.array_equal(tensor.array, array, equal_nan=array.dtype.kind == "f"):
                yield f"input {k} was changed"
        for k, (y, value) in enumerate(zip(outputs, values, strict=True)):
            if not np.array_equal(y.array, value, equal_nan=value.dtype.kind == "f"):
                yield f"output {k} was changed by backward"

    def derivative(self, checker: Callable[..., Any], tolerances: dict[str, Any], call: Call | None = None) -> Any:
        call = call or self.call
        tensors = call.tensors([a.copy() for a in call.arrays], requires_grad=True)
        checked = [tensors[k] for k in call.floating]

        def of(*inputs: Tensor) -> tuple[Tensor, ...]:
            values = list(tensors)
            for k, tensor in zip(call.floating, inputs, strict=True):
                values[k] = tensor
            return outputs_of(call.with_values(values))

        checker(of, checked, **tolerances)  # raises with a report
        return iter(())

    def requests(self) -> Iterator[str]:
        """Check "add" = previous + "write", and that "null" leaves `grad` and all other gradients unchanged."""
        every = len(self.call.floating)
        previous = [np.sin(3.0 * np.arange(self.call.arrays[k].size)) for k in self.call.floating]
        written = self._delivered(["write"] * every, previous)
        added = self._delivered(["add"] * every, previous)
        for k, (w, p, a) in enumerate(zip(written, previous, added, strict=True)):
            if not np.array_equal(a, p + w, equal_nan=True):
                yield f'input {k}: grad_req="add" is not the previous gradient plus what "write" gives'
        for null in range(every):
            found = self._delivered(["null" if k == null else "write" for k in range(every)], previous)
            for k, (f, w) in enumerate(zip(found, written, strict=True)):
                expected = previous[k] if k == null else w
                slack = 0.0 if k == null else self.rounding * float(np.abs(w).max(initial=0))
                if not np.allclose(f, expected, rtol=0, atol=slack, equal_nan=True):
                    yield f'input {k} with grad_req="null" of input {null}: the gradient differs'

    def replaced(self) -> Iterator[str]:
        """Check that assigning arrays to inputs and outputs after forward does not affect the backward."""
        leaves = self.call.tensors(self.call.arrays, requires_grad=True)
        expected = self.call.gradients(self.call.outputs(leaves), leaves)
        # a leaf of another shape could not accumulate its gradient
        inputs = [t.clone() if t.requires_grad else Tensor(t.array.copy()) for t in leaves]
        outputs = self.call.outputs(inputs)

        def replace() -> None:
            for tensor in (*inputs, *outputs):
                tensor.array = np.full((1,) * (tensor.ndim + 1), 7, np.int64)

        found = self.call.gradients(outputs, leaves, replace)
        yield from differences(found, expected, 1e-12, "with other data", "without", "gradient")

    def _delivered(self, requests: list[str], previous: Arrays) -> Arrays:
        tensors = self.call.tensors([a.copy() for a in self.call.arrays], requires_grad=True)
        for k, request, start in zip(self.call.floating, requests, previous, strict=True):
            tensors[k].grad_req = request
            tensors[k].grad = Tensor(start.reshape(tensors[k].shape).copy())
        roots = [y for y in self.call.outputs(tensors) if y.requires_grad]
        if roots:  # one sweep: a second one would overwrite the first
            backward(roots, [Tensor(np.cos(np.arange(y.array.size) + 1.0).reshape(y.shape)) for y in roots])
        delivered = [tensors[k].grad for k in self.call.floating]
        return [np.zeros(0) if g is None else g.array.reshape(-1) for g in delivered]

    def empty(self, batch: Sequence[int]) -> Iterator[str]:
        arrays = [a[:0] if k in batch else a for k, a in enumerate(self.call.arrays)]
        found, gradients = self.call.results(arrays, differentiable=self.differentiable)
        if self.oracle is not None and 0 in batch:
            yield from differences(found, self.expected(arrays), self.rtol, "retrograd", "the oracle")
        for k, g in zip(self.call.floating, gradients, strict=False):
            if g.shape != arrays[k].shape:
                yield f"input {k}: the gradient has shape {g.shape}, the input {arrays[k].shape}"
            if k not in batch and g.any() and not any(y.size for y in found):
                yield f"input {k}: the gradient is not 0, but there is no output"

    def broadcasting(self, pair: Sequence[int], tolerances: dict[str, Any]) -> Iterator[str]:
        first, second = pair
        for shapes in (*_SHAPES, *[(b, a) for a, b in _SHAPES]):
            arrays = list(self.call.arrays)
            for k, shape in zip((first, second), shapes, strict=True):
                arrays[k] = np.resize(arrays[k].reshape(-1)[k:], shape)
            if self.oracle is not None:
                yield from (f"{shapes}: {fault}" for fault in self.values(arrays, self.rtol))
            if self.differentiable and all(a.size for a in arrays):
                smaller = Call(lambda *t: self.call.with_values(t), arrays, {}, self.call.random)
                yield from self.derivative(gradcheck, tolerances, smaller)

    def kernel_sets(self) -> Iterator[str]:
        before, results = kernel_setting(), {}
        try:
            for kernels, dtype in product(("textbook", "compiled"), (np.float32, np.float64)):
                use_kernels(kernels)
                results[kernels, dtype] = self.wide.results(self.wide.arrays, dtype, self.differentiable)
        finally:
            use_kernels(*before)
        for dtype, rtol in ((np.float32, self.single), (np.float64, max(self.rtol, 1e-10))):
            textbook, compiled = results["textbook", dtype], results["compiled", dtype]
            for kind, found, expected in zip(("value", "gradient"), compiled, textbook, strict=True):
                yield from differences(found, expected, rtol, "compiled", "textbook", kind)

    def threads(self) -> Iterator[str]:
        before, results = get_num_threads(), []
        try:
            for count in (1, 2):
                set_num_threads(count)
                results.append(self.wide.results(self.wide.arrays, np.float32, self.differentiable))
        finally:
            set_num_threads(before)
        for kind, one, two in zip(("value", "gradient"), *results, strict=True):
            if any(a.tobytes() != b.tobytes() for a, b in zip(one, two, strict=True)):
                yield f"{kind}: 1 and 2 threads give different bits"

    def integers(self) -> Iterator[str]:
        whole = [a.astype(np.int64) if a.dtype.kind == "f" else a for a in self.call.arrays]
        try:
            found = [y.array for y in self.call.outputs([Tensor(a) for a in whole])]
        except Exception:
            yield from self._expect_error(self.call, [Tensor(a) for a in whole], TypeError, "int64", "int64 inputs")
            return
        numbers = [w.astype(a.dtype) for w, a in zip(whole, self.call.arrays, strict=True)]
        expected, _ = self.call.results(numbers, differentiable=False)
        expected = [b if a.dtype.kind == "f" else np.trunc(b) for a, b in zip(found, expected, strict=True)]
        yield from differences(found, expected, self.single, "int64", "float64", types=False)

    def refusals(self, errors: Sequence[Refusal], whole: bool, arrays: bool) -> Iterator[str]:
        for k in self.call.floating if not arrays else ():
            tensors: list[Any] = list(self.call.tensors(self.call.arrays))
            expected = [y.array for y in self.call.outputs(tensors)]
            tensors[k] = self.call.arrays[k]
            label = f"an array for input {k}"
            try:
                found = [y.array for y in self.call.outputs(tensors)]
            except Exception:
                yield from self._expect_error(self.call, tensors, TypeError, "Tensor", label)
            else:  # x * array is a Tensor
                yield from differences(found, expected, max(self.rtol, 1e-10), label, "a Tensor")
        if whole:
            values = [Tensor(a.astype(np.int64)) if a.dtype.kind == "f" else Tensor(a) for a in self.call.arrays]
            yield from self._expect_error(self.call, values, TypeError, "int64", "int64 inputs")
        yield from self.listed_refusals(errors)

    def listed_refusals(self, errors: Sequence[Refusal]) -> Iterator[str]:
        for refusal in errors:
            call = Call(self.call.function, refusal.args, refusal.kwargs)
            label = f"{refusal.args} {refusal.kwargs}"
            yield from self._expect_error(call, call.tensors(call.arrays), refusal.error, refusal.message, label)

    def _expect_error(
        self, call: Call, values: Sequence[Any], error: type[Exception], message: str, label: str
    ) -> Iterator[str]:
        try:
            call.with_values(values)
        except error as raised:
            if not re.search(re.escape(message), str(raised)):
                yield f"{label}: the message {str(raised)!r} does not contain {message!r}"
        except Exception as raised:
            yield f"{label}: {type(raised).__name__} ({raised}) instead of {error.__name__}"
        else:
            yield f"{label}: accepted, expected {error.__name__} with {message!r}"


def differences(
    found: Arrays, expected: Arrays, rtol: float, one: str, other: str, kind: str = "value", types: bool = True
) -> Iterator[str]:
    """Yield differences in shape or kind of dtype, and those of more than ``rtol`` times the largest finite value."""
    if len(found) != len(expected):
        yield f"{one} has {len(found)} outputs, {other} {len(expected)}"
        return
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        if a.shape != b.shape:
            yield f"{kind} {k}: {one} has shape {a.shape}, {other} {b.shape}"
        elif types and a.dtype.kind != b.dtype.kind:
            yield f"{kind} {k}: {one} is {a.dtype}, {other} {b.dtype}"
        elif b.dtype.kind != "f":
            if not np.array_equal(a, b):
                yield f"{kind} {k}: {one} and {other} differ in {np.count_nonzero(a != b)} of {a.size} elements"
        else:
            finite = np.abs(b[np.isfinite(b)]).max(initial=1e-3)
            right = np.isclose(a, b, rtol=rtol, atol=rtol * float(finite), equal_nan=True)
            if not right.all():
                place = tuple(map(int, np.argwhere(~right)[0]))
                yield (
                    f"{kind} {k}: {one} and {other} differ in {np.count_nonzero(~right)} of {a.size} elements, "
                    f"first at {place}: {a[place]} and {b[place]}"
                )


def _backwards(a: np.ndarray) -> np.ndarray:
    return a[(slice(None, None, -1),) * a.ndim].copy()[(slice(None, None, -1),) * a.ndim]


def _every_second(a: np.ndarray) -> np.ndarray:
    """Return every second element of a larger array, with axis 1 last in memory."""
    if a.ndim < 2:
        return np.repeat(a, 2)[::2].reshape(a.shape)
    return np.moveaxis(np.repeat(np.moveaxis(a, 1, -1), 2, axis=-1)[..., ::2], -1, 1)


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Fortran order": lambda a: a.copy(order="F"),
    "backwards": _backwards,
    "every second element, channels last": _every_second,
}
