"""Line search for the strong Wolfe conditions.

Source: Nocedal and Wright, "Numerical Optimization", 2006, algorithms 3.5 and 3.6, with the safeguards of minFunc
(M. Schmidt, 2005), as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import NamedTuple

import numpy as np


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
    """The point found, and the number of calls of ``evaluate``.

    t: the first step to try; longest: the largest absolute value in the direction; most: maximum number of iterations.
    """

    def rises(point: Point) -> bool:  # not the sufficient decrease c1 requires
        return point.loss > start.loss + c1 * point.t * start.slope

    def is_flat(point: Point) -> bool:
        return abs(point.slope) <= -c2 * start.slope

    new, previous, calls, turn = evaluate(t), start, 1, 0
    bracket: list[Point] = []
    while turn < most and not bracket:
        if rises(new) or (turn > 1 and new.loss >= previous.loss):
            bracket = [previous, new]
        elif is_flat(new):
            return new, calls
        elif new.slope >= 0:
            bracket = [previous, new]
        else:
            bounds = new.t + 0.01 * (new.t - previous.t), 10 * new.t
            previous, new = new, evaluate(_lowest(previous, new, *bounds))
            calls += 1
            turn += 1
    bracket = bracket or [start, new]
    low = 0 if bracket[0].loss <= bracket[1].loss else 1
    stuck = False
    while turn < most and abs(bracket[1].t - bracket[0].t) * longest >= tolerance_change:
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
        turn += 1
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
    """The minimiser, within bounds, of the cubic through two points' losses and slopes; the midpoint if none exists."""
    if a.t > b.t:
        a, b = b, a
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (least + most) / 2
    d2 = sqrt(square)
    return min(max(b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2)), least), most)
