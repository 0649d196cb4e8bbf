"""L-BFGS, with a line search for the strong Wolfe conditions.

Source: Nocedal and Wright, "Numerical Optimization", 2006, algorithms 3.5 and 3.6, with the safeguards of minFunc
(M. Schmidt, 2005), as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from .._files.state import anything, brief, items
from ..arrays import number, zeros
from ..engine.aliasing import mark_changed
from ..engine.grad_mode import enable_grad
from ..engine.tensor import Tensor
from ..kernel_set import exact, kernels
from ..ops.shape.shape import reshaped
from .optimizer import Group, Optimizer, Params, State, array_like, array_of, checked_number
from .options import require_number
from .scheduler_base import require_count

__all__ = ["LBFGS"]


# ---- Line search for the strong Wolfe conditions --------------------------------------------------------------------


class Point(NamedTuple):
    """A step t along the direction: the loss, gradient and directional slope there."""

    t: float
    loss: float
    gradient: np.ndarray
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], Point],
    start: Point,
    t: float,
    longest: float,
    most: int,
    tolerance_change: float,
    c1: float = 1e-4,
    c2: float = 0.9,
) -> tuple[Point, int]:
    """Search along a direction; return the point found and the number of calls of ``evaluate``.

    t: the first step to try; longest: the largest absolute value in the direction; most: maximum number of iterations.
    """

    def rises(point: Point) -> bool:  # less than the sufficient decrease that c1 requires
        return point.loss > start.loss + c1 * point.t * start.slope

    def is_flat(point: Point) -> bool:
        return abs(point.slope) <= -c2 * start.slope

    new, previous, calls, iteration = evaluate(t), start, 1, 0
    bracket: list[Point] = []
    while iteration < most and not bracket:
        if rises(new) or (iteration > 1 and new.loss >= previous.loss):
            bracket = [previous, new]
        elif is_flat(new):
            return new, calls
        elif new.slope >= 0:
            bracket = [previous, new]
        else:
            bounds = new.t + 0.01 * (new.t - previous.t), 10 * new.t
            previous, new = new, evaluate(_lowest(previous, new, *bounds))
            calls += 1
            iteration += 1
    bracket = bracket or [start, new]
    low = 0 if bracket[0].loss <= bracket[1].loss else 1
    stuck = False
    while iteration < most and abs(bracket[1].t - bracket[0].t) * longest >= tolerance_change:
        left, right = sorted((bracket[0].t, bracket[1].t))
        t = _lowest(bracket[0], bracket[1], left, right)
        margin = 0.1 * (right - left)
        near = min(right - t, t - left) < margin
        if near and (stuck or t >= right or t <= left):
            t = right - margin if abs(t - right) < abs(t - left) else left + margin
            near = False
        stuck = near
        new = evaluate(t)
        calls += 1
        iteration += 1
        if rises(new) or new.loss >= bracket[low].loss:
            bracket[1 - low] = new
            low = 0 if bracket[0].loss <= bracket[1].loss else 1
            continue
        if is_flat(new):
            return new, calls
        if new.slope * (bracket[1 - low].t - bracket[low].t) >= 0:
            bracket[1 - low] = bracket[low]
        bracket[low] = new
    return bracket[low], calls


def _lowest(a: Point, b: Point, least: float, most: float) -> float:
    """Return the minimizer, within bounds, of the cubic through two points; the midpoint if there is no minimizer."""
    if a.t > b.t:
        a, b = b, a
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (least + most) / 2
    d2 = sqrt(square)
    return min(max(b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2)), least), most)


# ---- L-BFGS ---------------------------------------------------------------------------------------------------------

_VECTORS, _HISTORY = ("d", "prev_flat_grad"), ("old_dirs", "old_stps")
_NEEDED = ("d", "t", "prev_flat_grad", "H_diag", "ro")  # after the first step


class LBFGS(Optimizer):
    """The quasi-Newton method with a memory of ``history_size`` steps; each ``step(closure)`` does up to max_iter.

    The closure clears the gradients, computes the loss, calls backward() and returns the loss; it is called several
    times in a step.

    max_eval: maximum calls of closure per step; None means max_iter * 5 // 4.
    tolerance_grad: stop when no element of the gradient is larger.
    tolerance_change: stop when neither loss nor parameters change by more.
    line_search_fn: None takes steps of lr; "strong_wolfe" searches along each direction, starting with lr.

    The direction is that of the two-loop recursion. All parameters are in one group, have one dtype, and form one
    vector; the state is stored under the first of them. A failed step changes nothing.

    Source: Nocedal and Wright, "Numerical Optimization", 2006, algorithms 7.4 and 7.5.

    Raises:
        ValueError: there are several groups or dtypes, or an option is out of range.
        TypeError: for params, see Optimizer; in ``step``, closure is missing.
    """

    counters: dict[str, float] = {}

    def __init__(
        self,
        params: Params,
        lr: float = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        require_count("LBFGS: max_iter", max_iter)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)

    def add_param_group(self, param_group: Group) -> None:
        if self.param_groups:
            raise ValueError("LBFGS: only one parameter group is allowed; pass all parameters in one list")
        super().add_param_group(param_group)
        dtypes = sorted({str(parameter.dtype) for parameter in self.param_groups[0]["params"]})
        if len(dtypes) > 1:
            self.param_groups.clear()
            raise ValueError(f"LBFGS: parameters have the dtypes {' and '.join(dtypes)}; convert them to one")

    def check_options(self, group: Group) -> None:
        for option in ("lr", "tolerance_grad", "tolerance_change"):
            require_number(f"LBFGS: {option}", group[option])
        for option in ("max_iter", "max_eval", "history_size"):
            require_count(f"LBFGS: {option}", group[option])
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise ValueError(
                f'LBFGS: line_search_fn={group["line_search_fn"]!r} is invalid; it must be None or "strong_wolfe"'
            )

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take up to max_iter steps; return the loss before the first one.

        Raises:
            TypeError: closure is missing.
            RuntimeError: shape or dtype of a gradient is not that of its parameter; nothing is changed.
        """
        if closure is None:
            raise TypeError("LBFGS: closure is missing; step(closure) computes the loss several times")
        parameters = self.param_groups[0]["params"]
        before = [kernels.duplicate(parameter.array) for parameter in parameters]
        try:
            first, state = self._steps(closure)
        except BaseException:
            for parameter, array in zip(parameters, before, strict=True):
                kernels.copy(parameter.array, array)
            raise
        self.state[parameters[0]] = state
        return first

    def _steps(self, closure: Callable[[], Any]) -> tuple[Any, State]:
        group = self.param_groups[0]
        rate, tolerance = float(group["lr"]), float(group["tolerance_change"])
        state: State = {"func_evals": 0, "n_iter": 0, **self.state.get(group["params"][0], {})}
        state.update({name: list(state[name]) for name in (*_HISTORY, "ro") if name in state})

        def evaluate() -> tuple[Any, np.ndarray]:
            with enable_grad():
                loss = closure()
            state["func_evals"] += 1
            return loss, self._flat_gradient()

        first, g = evaluate()
        loss, calls = _number(first), 1
        for iteration in range(1, group["max_iter"] + 1):
            if _largest(g) <= group["tolerance_grad"]:
                break
            state["n_iter"] += 1
            d = _direction(state, g, group["history_size"])
            state.update(d=Tensor(d), prev_flat_grad=Tensor(g), prev_loss=loss)
            t = rate
            if state["n_iter"] == 1:
                size = number(exact("norm")(g, 1, (0,), False), "the length of the first step")
                t *= min(1.0, 1.0 / size)
            state["t"] = t
            slope, longest = _dot(g, d), _largest(d)
            if slope > -tolerance:
                break
            last = loss
            if group["line_search_fn"] is None:
                self._move(t, d)
                if (
                    iteration < group["max_iter"]
                ):  # the last evaluation would be wasted: the next step may have other data
                    result, g = evaluate()
                    loss, calls = _number(result), calls + 1
            else:
                origin = [kernels.duplicate(parameter.array) for parameter in group["params"]]

                def along(t: float, d: np.ndarray = d, origin: list[np.ndarray] = origin) -> Point:
                    self._move(t, d)
                    result, gradient = evaluate()
                    for parameter, array in zip(group["params"], origin, strict=True):
                        kernels.copy(parameter.array, array)
                    return Point(t, _number(result), gradient, _dot(gradient, d))

                point, count = strong_wolfe(
                    along, Point(0.0, loss, g, slope), t, longest, group["max_eval"] - calls, tolerance
                )
                loss, g, t, calls = point.loss, point.gradient, point.t, calls + count
                state["t"] = t
                self._move(t, d)
            if calls >= group["max_eval"] or longest * abs(t) <= tolerance or abs(loss - last) < tolerance:
                break
        return first, state

    def _flat_gradient(self) -> np.ndarray:
        parts = []
        for parameter in self.param_groups[0]["params"]:
            gradient = None if parameter.grad_req == "null" else parameter.grad
            if gradient is None:
                parts.append(zeros(parameter.array.size, parameter.array.dtype, like=parameter.array))
            else:
                self._check_gradients([parameter], [gradient.array])
                parts.append(reshaped(gradient.array, (-1,)))
        flat: np.ndarray = kernels.concatenate(parts, 0)
        return flat

    def _move(self, t: float, d: np.ndarray) -> None:
        """p = p + t d"""
        begin = 0
        for parameter in self.param_groups[0]["params"]:
            array = parameter.array
            kernels.add_scaled(array, d[begin : begin + array.size].reshape(array.shape), t)
            begin += array.size
        mark_changed(map(array_of, self.param_groups[0]["params"]), "LBFGS.step")

    def _checked_state(self, number: Any, parameter: Tensor, entries: Mapping[str, Any], group: Group) -> State:
        """Return a copy of entries, checking that vectors have one element per element of all parameters."""
        where = f"optimizer state_dict: state of parameter {number}"
        size = sum(each.array.size for each in self.param_groups[0]["params"])
        checked: State = {}

        def vector(name: str, value: Any) -> Tensor:
            array = array_like(f"{where}: {name}", value)
            if array.shape != (size,) or array.dtype.kind not in "iuf":
                raise ValueError(
                    f"{where}: {name} has shape {array.shape}, the parameters have {size} elements"
                    + ("" if array.dtype.kind in "iuf" else f"; it holds {array.dtype}")
                )
            return Tensor(exact("cast")(array, parameter.array.dtype))

        for name, value in entries.items():
            label = f"{where}: {brief(name)}"
            if name in _VECTORS:
                checked[name] = vector(name, value)
            elif name in _HISTORY:
                checked[name] = items(vector)(name, value)
            elif name == "ro":
                checked[name] = [checked_number(label, each, False) for each in items(anything)(label, value)]
            elif name in ("func_evals", "n_iter"):
                checked[name] = checked_number(label, value, True)
            elif name in ("t", "H_diag", "prev_loss"):
                checked[name] = checked_number(label, value, False)
            elif name != "al":  # PyTorch's scratch memory
                raise ValueError(f"{where} has the entry {brief(name)}, which LBFGS does not use")
        lengths = {len(checked.get(name, ())) for name in (*_HISTORY, "ro")}
        if len(lengths) != 1:
            raise ValueError(f"{where}: old_dirs, old_stps and ro have different lengths")
        if max(lengths) > group["history_size"]:
            raise ValueError(f"{where}: it has {max(lengths)} old_dirs, more than history_size={group['history_size']}")
        missing = [name for name in (*_NEEDED, *_HISTORY) if name not in checked]
        if checked.get("n_iter") and missing:
            raise ValueError(f"{where}: after {checked['n_iter']} iterations it must have {missing[0]!r}")
        return checked


def _direction(state: State, g: np.ndarray, history: int) -> np.ndarray:
    """Add the last step to the memory and return the direction for the gradient g."""
    if state["n_iter"] == 1:
        state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
        return _negative(g)
    y, s = kernels.curvature_pair(g, state["prev_flat_grad"].array, state["d"].array, state["t"])
    curvature = _dot(y, s)
    if curvature > 1e-10:
        if len(state["ro"]) == history:
            for name in (*_HISTORY, "ro"):
                del state[name][0]
        state["old_dirs"].append(Tensor(y))
        state["old_stps"].append(Tensor(s))
        state["ro"].append(1.0 / curvature)
        state["H_diag"] = curvature / _dot(y, y)
    pairs = [(y.array, s.array, rho) for y, s, rho in zip(*(state[name] for name in (*_HISTORY, "ro")), strict=True)]
    q = _negative(g)
    weights = []
    for y, s, rho in reversed(pairs):
        weights.append(_dot(s, q) * rho)
        kernels.add_scaled(q, y, -weights[-1])
    kernels.scale_in_place(q, state["H_diag"])
    for (y, s, rho), weight in zip(pairs, reversed(weights), strict=True):
        kernels.add_scaled(q, s, weight - _dot(y, q) * rho)
    return q


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    # kernels, because NumPy's dot product may depend on its number of threads
    found: float = number(kernels.sum(kernels.mul(a, b), (0,), False), "the direction and length of a step")
    return found


def _largest(a: np.ndarray) -> float:
    return float(number(kernels.norm_of_all([a], largest=True), "a norm"))


def _negative(g: np.ndarray) -> np.ndarray:
    found: np.ndarray = kernels.neg(g)
    return found


def _number(value: Any) -> float:
    return float(value.item() if hasattr(value, "item") else value)
