"""The checks of gradcheck: the Jacobian against central differences, then determinism, linearity and side effects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .diagnosis import diagnose, find_exchanged
from .report import GradcheckFault
from .sweep import grad
from .tensor import Tensor, wrap

Jacobians = list[list[np.ndarray]]  # [output][input] -> (elements of the output, elements of the input)


@dataclass
class Check:
    """One run of the checker; every method yields the faults it finds."""

    func: Callable[..., Any]
    inputs: tuple[Any, ...]
    positions: list[int]  # of the inputs that are checked
    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    sharp: bool
    layouts: bool
    second: bool  # func is itself a gradient: outputs that were not recorded are faults
    surrogate: Callable[..., Any] | None = None  # whose differences are taken in place of those of func

    def run(self) -> list[GradcheckFault]:
        self.wanted: list[Tensor] = [self.inputs[position] for position in self.positions]
        self.before = [_copy(item) for item in self.inputs]
        results = outputs_of(self.func, self.inputs)
        self.chosen = [
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

    # ---- the checks ----------------------------------------------------------------------------------------

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
        self.analytic = self._analytic(outputs)
        changed = list(self._find_modified("backward"))
        if changed:
            yield from changed
            return
        numeric = self._numeric(outputs, self.eps)
        differs = False
        for o, output in enumerate(outputs):
            for i in range(len(self.wanted)):
                wrong = ~self._close(self.analytic[o][i], numeric[o][i])
                if wrong.any():
                    differs = True
                    yield self._fault("jacobian", output, o, i, numeric, wrong)
        if self.sharp and not differs:
            yield from self._precision(outputs, numeric)

    def _precision(self, outputs: list[Tensor], numeric: Jacobians) -> Iterator[GradcheckFault]:
        """Deviations within the tolerances that other steps of the differences do not explain."""
        others: list[Jacobians] = []
        for o, output in enumerate(outputs):
            for i in range(len(self.wanted)):
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

    # ---- their parts ---------------------------------------------------------------------------------------

    def _chosen_outputs(self) -> list[Tensor]:
        results = outputs_of(self.func, self.inputs)
        return [results[index] for index in self.chosen]

    def _differenced(self, outputs: list[Tensor]) -> list[Tensor]:
        """The results whose differences are taken: those of func, or of the surrogate."""
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
        gradients = grad(output, self.wanted, wrap(upstream), retain_graph=True, allow_unused=True)
        return [np.zeros_like(x.array) if g is None else g.array for g, x in zip(gradients, self.wanted, strict=True)]

    def _analytic(self, outputs: list[Tensor]) -> Jacobians:
        result = []
        for output in outputs:
            rows = [np.zeros((output.array.size, x.array.size)) for x in self.wanted]
            for k in range(output.array.size if output._requires_grad else 0):
                upstream = np.zeros(output.shape)
                upstream.reshape(-1)[k] = 1
                for row, gradient in zip(rows, self._sweep(output, upstream), strict=True):
                    row[k] = gradient.reshape(-1)
            result.append(rows)
        return result

    def _numeric(self, outputs: list[Tensor], eps: float) -> Jacobians:
        result = [[np.zeros((output.array.size, x.array.size)) for x in self.wanted] for output in outputs]
        for i, x in enumerate(self.wanted):
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
        with np.errstate(invalid="ignore"):  # infinities, which are not close to anything
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
        """The report of a wrong block of the Jacobian."""
        a, n, x = self.analytic[o][i], numeric[o][i], self.wanted[i]
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
        a, n, shape = self.analytic[o][i], numeric[o][i], self.wanted[i].shape
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
        return f"{others}; besides, {text}"

    def _slopes(self, o: int, i: int, wrong: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Slopes of output o below and above each wrong entry of input i, and where func jumps; else NaN and False.

        The two slopes of a smooth function approach each other with the step; those that do not are kept.
        """
        flat = self.wanted[i].array.reshape(-1)
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
    result = func(*inputs)
    results = list(result) if isinstance(result, tuple | list) else [result]
    for index, output in enumerate(results):
        if not isinstance(output, Tensor):
            raise TypeError(f"gradcheck: output {index} of {name} is {type(output).__name__}, expected a Tensor")
    return results


def _copy(item: Any) -> np.ndarray | None:
    return item.array.copy() if isinstance(item, Tensor) else None


def irregular(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Fixed numbers without a pattern, of both signs and between 0.5 and 1.5 in magnitude."""
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
