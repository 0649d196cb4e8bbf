"""gradcheck and gradgradcheck: comparison of gradients with central differences, and a report of the errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .arguments import as_list, as_truth, kind_name
from .backward_pass import grad
from .function import Function
from .grad_mode import enable_grad
from .gradcheck_diagnosis import diagnose, find_exchanged
from .tensor import Tensor, wrap

__all__ = ["GradcheckError", "GradcheckFault", "GradcheckReport", "gradcheck", "gradgradcheck"]


# ---- gradcheck and gradgradcheck ------------------------------------------------------------------------------------

_ATOL = 1e-5
_RTOL = 1e-3


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = _ATOL,
    rtol: float = _RTOL,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_layouts: bool = True,
    sharp: bool | None = None,
    surrogate: Callable[..., Any] | None = None,
) -> GradcheckReport:
    """Compare the gradients of `func` with central differences (f(x + eps) - f(x - eps)) / (2 eps), entry by entry.

    The whole Jacobian is built from one sweep per output element and two calls per input element, so inputs
    should be small. Further checks: the function is deterministic; forward and backward modify neither inputs nor
    upstream gradients; a zero upstream gradient gives a zero gradient; the gradient is linear in the upstream gradient;
    inputs and upstream gradients with other strides give the same result. `func` may use the inputs through a closure:
    their `array` is replaced during the check.

    Args:
        func: called with the inputs; returns a Tensor or a tuple or list of Tensors. Outputs that do not require a
            gradient are not checked.
        inputs: the Tensors among them that require a gradient are checked; they must be float64.
        eps: the step; for a linear function 1 gives exact differences, with atol=1e-12.
        atol, rtol: an entry is correct if |analytic - numeric| <= atol + rtol * |numeric|.
        nondet_tol: how much two runs may differ.
        check_layouts: also run with other strides.
        sharp: also fail if a gradient deviates within the tolerances, but by far more than the uncertainty of the
            numeric gradient, for example by a factor of 1.001. Default: True only if the tolerances are no looser
            than the standard ones.
        surrogate: the function whose gradient `func` uses as its own, as a straight-through estimator does. The
            central differences are those of surrogate(*inputs), which returns outputs of the same shapes. Choose
            inputs away from its kinks.

    Returns:
        The report, which is true if all checks passed and prints as text.

    Raises:
        GradcheckError: a check failed and raise_exception=True; its message is the report.
        ValueError: an input or output is not float64, there is nothing to check, or the outputs of the
            surrogate have other shapes.
        TypeError: `func` or the surrogate returns something other than Tensors or cannot be called, or a flag
            is not a bool.
    """
    sharpened = _check_flags("gradcheck", raise_exception, check_layouts, sharp, atol, rtol)
    if isinstance(inputs, Tensor):
        inputs = (inputs,)
    inputs = as_list("gradcheck", "inputs", inputs, "a Tensor or a list of them")
    checked = _check_inputs(inputs, "gradcheck")
    if surrogate is not None and not callable(surrogate):
        raise TypeError(f"gradcheck: surrogate is {kind_name(surrogate)}, expected a function of the inputs")
    check = Check(func, tuple(inputs), checked, eps, atol, rtol, nondet_tol, sharpened, check_layouts, False, surrogate)
    name = "gradcheck" if surrogate is None else "gradcheck against the surrogate"
    return _report(name, check, raise_exception)


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = _ATOL,
    rtol: float = _RTOL,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_layouts: bool = True,
    sharp: bool | None = None,
) -> GradcheckReport:
    """Check second derivatives, with respect to the inputs and the upstream gradients, by gradcheck of the gradient.

    The function checked maps (inputs, grad_outputs) to grad(outputs, inputs, grad_outputs,
    create_graph=True); its outputs are the gradients of the inputs that require one, its inputs are those of
    `func` and then `grad_outputs`.

    Args:
        grad_outputs: the upstream gradients, float64 (default: fixed irregular numbers).
        The other arguments and the result are those of `gradcheck`.

    Raises:
        GradcheckError, ValueError, TypeError: as for `gradcheck`.
    """
    sharpened = _check_flags("gradgradcheck", raise_exception, check_layouts, sharp, atol, rtol)
    if isinstance(inputs, Tensor):
        inputs = (inputs,)
    inputs = tuple(as_list("gradgradcheck", "inputs", inputs, "a Tensor or a list of them"))
    positions = _check_inputs(inputs, "gradgradcheck")
    checked = [inputs[position] for position in positions]
    with enable_grad():
        outputs = [output for output in outputs_of(func, inputs) if output._requires_grad]
    if not outputs:
        raise ValueError("gradgradcheck: no output of func requires a gradient")
    if grad_outputs is None:
        upstream = [Tensor(irregular(output.shape, 3 + k), requires_grad=True) for k, output in enumerate(outputs)]
    else:
        items = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)
        if len(items) != len(outputs):
            raise ValueError(
                f"gradgradcheck: {len(items)} grad_outputs for {len(outputs)} outputs that require grad; "
                "pass one for each"
            )
        upstream = [Tensor(item.array, requires_grad=True) for item in items]

    def gradient(*arguments: Any) -> tuple[Tensor, ...]:
        values = [output for output in outputs_of(func, arguments[: len(inputs)]) if output._requires_grad]
        gradients = grad(values, checked, arguments[len(inputs) :], create_graph=True, allow_unused=True)
        return tuple(
            [wrap(np.zeros_like(x.array)) if g is None else g for g, x in zip(gradients, checked, strict=True)]
        )

    arguments = (*inputs, *upstream)
    positions = [*positions, *range(len(inputs), len(arguments))]
    check = Check(gradient, arguments, positions, eps, atol, rtol, nondet_tol, sharpened, check_layouts, True)
    return _report("gradgradcheck (outputs are the gradients of the inputs)", check, raise_exception)


def _report(name: str, check: Check, raise_exception: bool) -> GradcheckReport:
    report = GradcheckReport(name)
    with _copied_arrays(check.inputs), enable_grad():
        report.faults.extend(check.run())
    if raise_exception and report.faults:
        raise GradcheckError(report)
    return report


def _check_flags(caller: str, raise_exception: Any, check_layouts: Any, sharp: Any, atol: float, rtol: float) -> bool:
    """Reject flags that are not bools, and return the value of `sharp` to use."""
    as_truth(caller, "raise_exception", raise_exception)
    as_truth(caller, "check_layouts", check_layouts)
    return (atol <= _ATOL and rtol <= _RTOL) if sharp is None else as_truth(caller, "sharp", sharp)


def _check_inputs(inputs: Sequence[Any], caller: str) -> list[int]:
    """Return the positions of the inputs that require a gradient."""
    positions = []
    for position, item in enumerate(inputs):
        if not isinstance(item, Tensor) or not item._requires_grad:
            continue
        if item.array.dtype != np.float64:
            raise ValueError(
                f"{caller}: inputs[{position}] is {item.array.dtype}; central differences need float64: "
                "Tensor(array.astype(np.float64), requires_grad=True)"
            )
        if item._grad_req == "null":
            raise ValueError(f'{caller}: inputs[{position}] has grad_req "null" and gets no gradient; set it to "add"')
        positions.append(position)
    if not positions:
        raise ValueError(f"{caller}: no input requires a gradient; pass Tensor(array, requires_grad=True)")
    return positions


@contextmanager
def _copied_arrays(inputs: Sequence[Any]) -> Iterator[None]:
    """Give the tensors contiguous copies within a block, so that the caller's arrays do not change."""
    arrays = {id(item): (item, item.array) for item in inputs if isinstance(item, Tensor)}
    try:
        for item, array in arrays.values():
            item.array = np.array(array, order="C")
        yield
    finally:
        for item, array in arrays.values():
            item.array = array


# ---- Results of gradcheck: faults, the report that lists them, and the error that contains the report ---------------


@dataclass(frozen=True)
class GradcheckFault:
    """One fault; `check` is the name of the check that found it."""

    check: str
    message: str
    diagnosis: str = ""
    output: int | None = None  # position among the outputs of the function
    input: int | None = None  # position among its inputs
    output_index: tuple[int, ...] = ()  # the worst entry: d output[output_index] / d input[input_index]
    input_index: tuple[int, ...] = ()
    analytic: float | None = None
    numeric: float | None = None
    differing: int = 0  # entries of the Jacobian that differ, of `total`
    total: int = 0

    def __str__(self) -> str:
        return f"{self.message}\n  diagnosis: {self.diagnosis}" if self.diagnosis else self.message


@dataclass
class GradcheckReport:
    """The faults that a check found; true if there are none."""

    name: str
    faults: list[GradcheckFault] = field(default_factory=list)

    def __bool__(self) -> bool:
        return not self.faults

    def __str__(self) -> str:
        if not self.faults:
            return f"{self.name}: passed"
        return "\n".join([f"{self.name} failed:", *[str(fault) for fault in self.faults]])


class GradcheckError(RuntimeError):
    """Raised when a gradient is wrong; `report` says which one and how."""

    def __init__(self, report: GradcheckReport) -> None:
        super().__init__(str(report))
        self.report = report


# ---- The checks: Jacobian against central differences, determinism, linearity and side effects ----------------------

Jacobians = list[list[np.ndarray]]  # [output][input] -> (elements of the output, elements of the input)


@dataclass
class Check:
    """One run of the checker; every method yields the faults it finds."""

    func: Callable[..., Any]
    inputs: tuple[Any, ...]
    positions: list[int]  # the inputs that are checked
    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    sharp: bool
    layouts: bool
    second: bool  # True if func is itself a gradient: outputs that were not recorded are faults
    surrogate: Callable[..., Any] | None = None  # its differences are used instead of those of func

    def run(self) -> list[GradcheckFault]:
        self.checked_inputs: list[Tensor] = [self.inputs[position] for position in self.positions]
        self.before: list[np.ndarray | None] = [_copy(item) for item in self.inputs]
        results = outputs_of(self.func, self.inputs)
        self.chosen: list[int] = [
            index
            for index, output in enumerate(results)
            if output._requires_grad or (self.second and output.array.dtype.kind == "f")
        ]
        outputs = [results[index] for index in self.chosen]
        if not outputs:
            raise ValueError(
                "gradcheck: no output of func requires a gradient; it must use its inputs through "
                "differentiable operators"
            )
        for index, output in zip(self.chosen, outputs, strict=True):
            if output.array.dtype != np.float64:
                raise ValueError(
                    f"gradcheck: output {index} is {output.array.dtype}; central differences need float64 throughout"
                )
        # Each check assumes that those before it have passed.
        for check in (self._same_twice, self._jacobian, self._upstream, self._other_layouts):
            faults = list(check(outputs))
            if faults:
                return faults
        return []

    # ---- The checks ----------------------------------------------------------------------------------------

    def _same_twice(self, outputs: list[Tensor]) -> Iterator[GradcheckFault]:
        yield from self._find_modified("forward")
        again = self._chosen_outputs()
        for index, first, second in zip(self.chosen, outputs, again, strict=True):
            if not np.allclose(first.array, second.array, rtol=0, atol=self.nondet_tol, equal_nan=True):
                worst = np.abs(first.array - second.array).max()
                yield GradcheckFault(
                    "deterministic",
                    f"two calls with the same inputs differ in output {index} by up to {worst:.6g}; "
                    "fix the random numbers, for example with manual_seed inside func",
                    output=index,
                )

    def _jacobian(self, outputs: list[Tensor]) -> Iterator[GradcheckFault]:
        self.analytic: Jacobians = self._analytic(outputs)
        changed = list(self._find_modified("backward"))
        if changed:
            yield from changed
            return
        numeric = self._numeric(outputs, self.eps)
        differs = False
        for o, output in enumerate(outputs):
            for i in range(len(self.checked_inputs)):
                wrong = ~self._close(self.analytic[o][i], numeric[o][i])
                if wrong.any():
                    differs = True
                    yield self._fault("jacobian", output, o, i, numeric, wrong)
        if self.sharp and not differs:
            yield from self._precision(outputs, numeric)

    def _precision(self, outputs: list[Tensor], numeric: Jacobians) -> Iterator[GradcheckFault]:
        """Yield deviations within the tolerances that other step sizes of the differences do not explain."""
        others: list[Jacobians] = []
        for o, output in enumerate(outputs):
            for i in range(len(self.checked_inputs)):
                size = float(np.linalg.norm(numeric[o][i]))
                deviation = float(np.linalg.norm(self.analytic[o][i] - numeric[o][i]))
                if not deviation > max(1e-5 * size, 1e-8):
                    continue
                if not others:
                    others = [self._numeric(outputs, factor * self.eps) for factor in (0.5, 2.0, 3.0)]
                rounding = 2.0**-52 * float(np.abs(output.array).max()) / self.eps * numeric[o][i].size ** 0.5
                steps = [float(np.linalg.norm(other[o][i] - numeric[o][i])) for other in others]
                doubt = max(steps) + rounding
                if deviation > 10 * doubt:
                    difference = np.abs(self.analytic[o][i] - numeric[o][i])
                    yield self._fault(
                        "precision", output, o, i, numeric, difference > 10 * doubt / difference.size**0.5
                    )

    def _upstream(self, outputs: list[Tensor]) -> Iterator[GradcheckFault]:
        for o, output in enumerate(outputs):
            if not output._requires_grad or not output.array.size:
                continue
            zero = self._sweep(output, np.zeros_like(output.array))
            for i, got in enumerate(zero):
                if got.any():
                    yield GradcheckFault(
                        "zero upstream",
                        f"output {self.chosen[o]} ({output.grad_fn}), input {self.positions[i]}: a zero "
                        f"upstream gradient gives {got.reshape(-1)[np.abs(got).argmax()]:.6g} instead of "
                        "zero",
                        "backward ignores the upstream gradient, or adds something to it",
                        output=self.chosen[o],
                        input=self.positions[i],
                    )
                    return
            upstream = irregular(output.shape, 5 + o)
            original = upstream.copy()
            got_all = self._sweep(output, upstream)
            if not np.array_equal(upstream, original):
                yield GradcheckFault(
                    "modified",
                    f"backward modified its upstream gradient (output {self.chosen[o]}, {output.grad_fn})",
                )
                return
            yield from self._find_modified("backward")
            again = self._sweep(output, upstream)
            for i, (got, repeated) in enumerate(zip(got_all, again, strict=True)):
                expected = (original.reshape(-1) @ self.analytic[o][i]).reshape(got.shape)
                if not np.allclose(got, repeated, rtol=0, atol=self.nondet_tol, equal_nan=True):
                    yield GradcheckFault(
                        "deterministic",
                        f"two sweeps from output {self.chosen[o]} give input {self.positions[i]} gradients "
                        f"that differ by up to {np.abs(got - repeated).max():.6g}",
                    )
                if not self._agree(got, expected):
                    yield GradcheckFault(
                        "linear",
                        f"output {self.chosen[o]} ({output.grad_fn}), input {self.positions[i]}: the "
                        "gradient is not linear in the upstream gradient, it deviates by up to "
                        f"{np.abs(got - expected).max():.6g}",
                        "backward uses the upstream gradient other than as a factor",
                        output=self.chosen[o],
                        input=self.positions[i],
                    )

    def _other_layouts(self, outputs: list[Tensor]) -> Iterator[GradcheckFault]:
        if not self.layouts:
            return
        expected = [output.array.copy() for output in outputs]
        arrays = [item.array if isinstance(item, Tensor) else None for item in self.inputs]
        for name, layout in (("Fortran order", _fortran), ("every second element, backwards", _strided)):
            try:
                for item, array in zip(self.inputs, arrays, strict=True):
                    if array is not None:
                        item.array = layout(array)
                for o, (output, value) in enumerate(zip(self._chosen_outputs(), expected, strict=True)):
                    if not self._agree(output.array, value):
                        yield GradcheckFault(
                            "layout",
                            f"output {self.chosen[o]} ({output.grad_fn}) is wrong for inputs with other "
                            f"strides ({name})",
                            output=self.chosen[o],
                        )
                        return
                    if not output._requires_grad:
                        continue
                    upstream = irregular(output.shape, 7 + o)
                    for i, got in enumerate(self._sweep(output, layout(upstream))):
                        if not self._agree(got, (upstream.reshape(-1) @ self.analytic[o][i]).reshape(got.shape)):
                            yield GradcheckFault(
                                "layout",
                                f"the gradient of output {self.chosen[o]} ({output.grad_fn}) for input "
                                f"{self.positions[i]} is wrong for inputs or upstream gradients with other "
                                f"strides ({name})",
                                output=self.chosen[o],
                                input=self.positions[i],
                            )
            finally:
                for item, array in zip(self.inputs, arrays, strict=True):
                    if array is not None:
                        item.array = array

    # ---- Helpers of the checks -----------------------------------------------------------------------------

    def _chosen_outputs(self) -> list[Tensor]:
        results = outputs_of(self.func, self.inputs)
        return [results[index] for index in self.chosen]

    def _differenced(self, outputs: list[Tensor]) -> list[Tensor]:
        """Return the outputs to take central differences of: those of func, or of the surrogate."""
        if self.surrogate is None:
            return self._chosen_outputs()
        results = outputs_of(self.surrogate, self.inputs, "surrogate")
        for position, output in zip(self.chosen, outputs, strict=True):
            shape = results[position].array.shape if position < len(results) else None
            if shape != output.array.shape:
                found = "nothing" if shape is None else f"shape {shape}"
                raise ValueError(
                    f"gradcheck: output {position} of func has shape {output.array.shape}, the surrogate returns "
                    f"{found} there; it takes the same inputs and returns outputs of the same shapes"
                )
        return [results[position] for position in self.chosen]

    def _sweep(self, output: Tensor, upstream: np.ndarray) -> list[np.ndarray]:
        gradients = grad(output, self.checked_inputs, wrap(upstream), retain_graph=True, allow_unused=True)
        return [
            np.zeros_like(x.array) if g is None else g.array
            for g, x in zip(gradients, self.checked_inputs, strict=True)
        ]

    def _analytic(self, outputs: list[Tensor]) -> Jacobians:
        result = []
        for output in outputs:
            rows = [np.zeros((output.array.size, x.array.size)) for x in self.checked_inputs]
            for k in range(output.array.size if output._requires_grad else 0):
                upstream = np.zeros(output.shape)
                upstream.reshape(-1)[k] = 1
                for row, gradient in zip(rows, self._sweep(output, upstream), strict=True):
                    row[k] = gradient.reshape(-1)
            result.append(rows)
        return result

    def _numeric(self, outputs: list[Tensor], eps: float) -> Jacobians:
        result = [[np.zeros((output.array.size, x.array.size)) for x in self.checked_inputs] for output in outputs]
        for i, x in enumerate(self.checked_inputs):
            flat = x.array.reshape(-1)  # a view, since the arrays are contiguous copies
            for k in range(flat.size):
                value = flat[k]
                flat[k] = value + eps
                step = flat[k]
                above = [output.array.copy() for output in self._differenced(outputs)]
                flat[k] = value - eps
                step -= flat[k]
                below = self._differenced(outputs)
                with np.errstate(invalid="ignore"):
                    for o, (high, low) in enumerate(zip(above, below, strict=True)):
                        result[o][i][:, k] = ((high - low.array) / step).reshape(-1)
                flat[k] = value
        return result

    def _close(self, got: np.ndarray, expected: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):  # infinities are not close to anything
            return np.abs(got - expected) <= self.atol + self.rtol * np.abs(expected)

    def _agree(self, got: np.ndarray, expected: np.ndarray) -> bool:
        return bool(self._close(got, expected).all())

    def _find_modified(self, what: str) -> Iterator[GradcheckFault]:
        for position, (item, before) in enumerate(zip(self.inputs, self.before, strict=True)):
            if before is not None and not np.array_equal(item.array, before, equal_nan=before.dtype.kind == "f"):
                item.array[...] = before
                yield GradcheckFault("modified", f"{what} modified input {position}", input=position)

    def _fault(
        self, check: str, output: Tensor, o: int, i: int, numeric: Jacobians, wrong: np.ndarray
    ) -> GradcheckFault:
        """Describe a wrong block of the Jacobian."""
        a, n, x = self.analytic[o][i], numeric[o][i], self.checked_inputs[i]
        with np.errstate(invalid="ignore"):
            distance = np.abs(a - n)
        row, column = np.unravel_index(int(np.where(np.isnan(distance), np.inf, distance).argmax()), distance.shape)
        at_output = tuple(int(k) for k in np.unravel_index(int(row), output.shape))
        at_input = tuple(int(k) for k in np.unravel_index(int(column), x.shape))
        analytic, value = float(a[row, column]), float(n[row, column])
        name, position = self.chosen[o], self.positions[i]
        of = "" if self.surrogate is None else "(of the surrogate) "
        message = (
            f"output {name} (shape {output.shape}, {output.grad_fn}), input {position} (shape {x.shape}): "
            f"{int(wrong.sum())} of {wrong.size} entries of the Jacobian differ\n"
            f"  worst: d output[{_indices(at_output)}] / d input[{_indices(at_input)}]: analytic {analytic:.9g}, "
            f"numeric {of}{value:.9g}, difference {abs(analytic - value):.3g}, allowed "
            f"{self.atol + self.rtol * abs(value):.3g}"
        )
        if check == "precision":
            message += "; within the tolerances, but far outside the uncertainty of the numeric gradient (sharp)"
        if not output._requires_grad:
            diagnosis = (
                "this gradient was not recorded, so its derivative is lost: write backward in "
                "differentiable operators, or mark it @once_differentiable"
            )
        else:
            other = find_exchanged(self.analytic[o], numeric[o], i)
            if other is not None:
                diagnosis = f"the gradients are exchanged: this is the gradient of input {self.positions[other]}"
            else:
                diagnosis = self._diagnosis(output, o, i, numeric, wrong)
        return GradcheckFault(
            check,
            message,
            diagnosis,
            name,
            position,
            at_output,
            at_input,
            analytic,
            value,
            int(wrong.sum()),
            wrong.size,
        )

    def _diagnosis(self, output: Tensor, o: int, i: int, numeric: Jacobians, wrong: np.ndarray) -> str:
        """Describe the errors in a block of the Jacobian; entries at kinks of the function are diagnosed separately."""
        a, n, shape = self.analytic[o][i], numeric[o][i], self.checked_inputs[i].shape
        below, above, jumps = self._slopes(o, i, wrong)
        with np.errstate(invalid="ignore"):
            within = (np.minimum(below, above) <= a) & (a <= np.maximum(below, above))
        kinks = wrong & within
        if not kinks.any():
            return diagnose(a, n, output.shape, shape)
        row, column = (int(k) for k in np.argwhere(kinks)[0])
        place = _indices(tuple(int(k) for k in np.unravel_index(column, shape)))
        what = "jumps" if jumps[row, column] else "has a kink"
        text = (
            f"func {what} at input[{place}]: its slope is {below[row, column] + 0.0:.6g} below and "
            f"{above[row, column] + 0.0:.6g} above, the analytic gradient {a[row, column]:.6g} lies between them, and "
            "central differences give their mean; choose inputs away from such points"
        )
        if (kinks == wrong).all():
            return text
        others = diagnose(np.where(kinks, 0.0, a), np.where(kinks, 0.0, n), output.shape, shape)
        return f"{others}; in addition, {text}"

    def _slopes(self, o: int, i: int, wrong: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the slopes of output o below and above each wrong entry of input i, and where func jumps.

        The two slopes of a smooth function approach each other as the step shrinks. Only slopes that do not are kept;
        all other entries are NaN and False.
        """
        flat = self.checked_inputs[i].array.reshape(-1)
        below, above = np.full(wrong.shape, np.nan), np.full(wrong.shape, np.nan)
        jumps = np.zeros(wrong.shape, bool)

        def result() -> np.ndarray:
            return self._differenced(self._chosen_outputs())[o].array.reshape(-1).copy()

        with np.errstate(invalid="ignore"):
            middle = result()
            for column in np.flatnonzero(wrong.any(0)):
                value, gaps = flat[column], []
                for step in (0.5 * self.eps, self.eps):
                    sides = []
                    for signed in (-step, step):
                        flat[column] = value + signed
                        sides.append((result() - middle) / (flat[column] - value))
                    gaps.append(np.abs(sides[1] - sides[0]))
                flat[column] = value
                kept = wrong[:, column] & (gaps[0] > 0.75 * gaps[1])
                below[kept, column], above[kept, column] = sides[0][kept], sides[1][kept]
                jumps[kept, column] = (gaps[0] > 1.5 * gaps[1])[kept]
        return below, above, jumps


def outputs_of(func: Callable[..., Any], inputs: Sequence[Any], name: str = "func") -> list[Tensor]:
    if isinstance(func, type) and issubclass(func, Function):
        raise TypeError(
            f"gradcheck: {name} is the Function {func.__name__}, expected a function; pass {func.__name__}.apply"
        )
    result: Any = func(*inputs)
    results = list(result) if isinstance(result, tuple | list) else [result]
    for index, output in enumerate(results):
        if not isinstance(output, Tensor):
            raise TypeError(f"gradcheck: output {index} of {name} is {kind_name(output)}, expected a Tensor")
    return results


def _copy(item: Any) -> np.ndarray | None:
    return item.array.copy() if isinstance(item, Tensor) else None


def irregular(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Return reproducible random numbers of both signs, between 0.5 and 1.5 in magnitude."""
    values = np.random.default_rng(seed).uniform(-1, 1, shape)
    return np.asarray(values + np.where(values < 0, -0.5, 0.5))


def _fortran(array: np.ndarray) -> np.ndarray:
    return np.array(array, order="F")


def _strided(array: np.ndarray) -> np.ndarray:
    if not array.ndim:
        return array.copy()
    buffer = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    view = buffer[..., ::-2]
    view[...] = array
    return view


def _indices(index: tuple[int, ...]) -> str:
    return ", ".join(map(str, index)) or "()"
