# mypy: ignore-errors
"""The task that corrects positions whose taps read padding, where a weight is not finite; see borders.py."""

from __future__ import annotations

from ..machine.compiler import Array, Table, helper
from ..machine.microkernel_jit import apply_formula, finish_line, finish_of
from ..machine.simd import address, offset, pointer_like
from ..memory.packing_jit import are_finite, is_finite
from .borders import BORDERS

_OUTSIDE, _APART = -1, -2  # a tap reads padding; it does not reach this position


@helper
def _read_at(plan, axis, position, tap):  # type: ignore[no-untyped-def]
    """The place along an axis that a tap reads at a position."""
    stride, extent = plan[BORDERS.stride + axis], plan[BORDERS.read + axis]
    move, low = tap * plan[BORDERS.dilation + axis], plan[BORDERS.low + axis]
    if plan[BORDERS.gradient] == 0:
        at = position * stride + move - low
        return at if 0 <= at < extent else _OUTSIDE
    at = position + low - move
    if at % stride != 0:
        return _APART
    return at // stride if 0 <= at < extent * stride else _OUTSIDE


@helper
def _is_at_border(plan, axis, position):  # type: ignore[no-untyped-def]
    """Whether a tap reads padding at a position of an axis."""
    tap, taps = 0, plan[BORDERS.kernel + axis]
    while tap < taps and _read_at(plan, axis, position, tap) != _OUTSIDE:
        tap += 1
    return tap < taps


@helper
def _weights_are_finite(w, plan):  # type: ignore[no-untyped-def]
    """Whether no weight is infinite or NaN."""
    depth, columns = plan[BORDERS.depth], plan[BORDERS.columns]
    depth_step, column_step = plan[BORDERS.depth_step], plan[BORDERS.column_step]
    for group in range(plan[BORDERS.groups]):
        for a in range(plan[BORDERS.kernel]):
            for b in range(plan[BORDERS.kernel + 1]):
                for c in range(plan[BORDERS.kernel + 2]):
                    at = a * plan[BORDERS.taps] + b * plan[BORDERS.taps + 1] + c * plan[BORDERS.taps + 2]
                    some = offset(w, group * plan[BORDERS.group_step] + at)
                    if column_step == 1:
                        if not are_finite(some, depth, depth_step, columns):
                            return False
                        continue
                    for column in range(columns):
                        for k in range(depth):
                            zero = some[column * column_step + k * depth_step] * 0.0
                            if zero != zero:
                                return False
    return True


@helper
def _sum(source, w, plan, n, d, h, x, group, column):  # type: ignore[no-untyped-def]
    """The sum of the products of weights and elements that exist, at a position of a channel."""
    depth, step, total = plan[BORDERS.depth], plan[BORDERS.depth_step], 0.0
    for a in range(plan[BORDERS.kernel]):
        at_d = _read_at(plan, 0, d, a)
        for b in range(plan[BORDERS.kernel + 1] if at_d >= 0 else 0):
            at_h = _read_at(plan, 1, h, b)
            for c in range(plan[BORDERS.kernel + 2] if at_h >= 0 else 0):
                at_w = _read_at(plan, 2, x, c)
                if at_w >= 0:
                    place = n * plan[BORDERS.source] + at_d * plan[BORDERS.source + 1]
                    place += at_h * plan[BORDERS.source + 2] + at_w * plan[BORDERS.source + 3]
                    weight = group * plan[BORDERS.group_step] + column * plan[BORDERS.column_step]
                    weight += a * plan[BORDERS.taps] + b * plan[BORDERS.taps + 1] + c * plan[BORDERS.taps + 2]
                    for k in range(depth):
                        total += source[place + group * depth + k] * w[weight + k * step]
    return total


@helper
def _clamped(value, target, bounds):  # type: ignore[no-untyped-def]
    """A sum within the bounds, if there are any."""
    if address(bounds) != address(target):
        if value < bounds[0]:
            return bounds[0] * 1.0
        if value > bounds[1]:
            return bounds[1] * 1.0
    return value


@helper
def _may_be_wrong(target, plan, scratch, residual, bounds):  # type: ignore[no-untyped-def]
    """Whether the first or the last position holds a NaN, or might if a formula kept it."""
    finish = finish_of(target, bounds, residual)
    if finish[2] != 0:
        one = pointer_like(target, address(scratch))
        one[0] = float("nan")
        apply_formula(finish, address(one), 1, 0, 1)
        if one[0] == one[0]:
            return True
    channels, halved = plan[BORDERS.groups] * plan[BORDERS.columns], plan[BORDERS.halved]
    ends = (
        plan[BORDERS.written],
        plan[BORDERS.written + 1] // halved,
        plan[BORDERS.written + 2] // halved,
    )
    for d in range(plan[BORDERS.near]):
        for h in range(plan[BORDERS.near + 1]):
            for x in range(plan[BORDERS.near + 2]):
                first = d * plan[BORDERS.target + 1] + h * plan[BORDERS.target + 2] + x * plan[BORDERS.target + 3]
                last = (
                    (plan[BORDERS.batch] - 1) * plan[BORDERS.target]
                    + (ends[0] - 1 - d) * plan[BORDERS.target + 1]
                    + (ends[1] - 1 - h) * plan[BORDERS.target + 2]
                    + (ends[2] - 1 - x) * plan[BORDERS.target + 3]
                )
                if not is_finite(offset(target, first), channels) or not is_finite(offset(target, last), channels):
                    return True
    return False


def fill(
    task: int,
    worker: int,
    source: Array,
    w: Array,
    init: Array,
    target: Array,
    plan: Table,
    scratch: Table,
    residual: Array,
    bounds: Array,
) -> None:
    """Compute the positions that read padding again, from products with elements that exist, if a weight is not finite.

    ``target`` holds the sums with what follows them, or the maxima of two by two. It is also given as ``init`` where
    there is no bias.
    """
    if not _may_be_wrong(target, plan, scratch, residual, bounds) or _weights_are_finite(w, plan):
        return
    columns, halved = plan[BORDERS.columns], plan[BORDERS.halved]
    channels, has_bias = plan[BORDERS.groups] * columns, address(init) != address(target)
    extent_h, extent_w = plan[BORDERS.written + 1] // halved, plan[BORDERS.written + 2] // halved
    for n in range(plan[BORDERS.batch]):
        for d in range(plan[BORDERS.written]):
            for h in range(extent_h):
                for x in range(extent_w):
                    first = n + d + h + x == 0  # which may hold a mark, see direct_jit.py
                    border = first or _is_at_border(plan, 0, d)
                    for i in range(halved):
                        border = border or _is_at_border(plan, 1, halved * h + i)
                        border = border or _is_at_border(plan, 2, halved * x + i)
                    if not border:
                        continue
                    at = n * plan[BORDERS.target] + d * plan[BORDERS.target + 1]
                    at += h * plan[BORDERS.target + 2] + x * plan[BORDERS.target + 3]
                    for channel in range(channels):
                        group, column = channel // columns, channel % columns
                        begin = init[channel] * 1.0 if has_bias else 0.0
                        if halved == 1:
                            target[at + channel] = begin + _sum(source, w, plan, n, d, h, x, group, column)
                            continue
                        best = 0.0
                        for i in range(4):
                            value = begin + _sum(source, w, plan, n, d, 2 * h + i // 2, 2 * x + i % 2, group, column)
                            value = _clamped(value, target, bounds)
                            if i == 0 or value > best or value != value:
                                best = value
                        target[at + channel] = best
                    if halved == 1:
                        finish_line(target, at, channels, residual, bounds)
