"""From (N, C, S) to (N, S, C) in memory."""

from __future__ import annotations

from ..simd import lanes, offset, transpose


def channels_last(
    task: int, worker: int, x: Array, y: Array, positions: int, channels: int, per_task: int, tasks: int,
) -> None:  # fmt: skip
    """Some neighbouring positions of one image, all channels."""
    n = task // tasks
    first = (task - n * tasks) * per_task
    last = min(positions, first + per_task)
    origin = n * positions * channels
    whole_c = channels // lanes(x) * lanes(x)
    whole_s = first + (last - first) // lanes(x) * lanes(x)
    for c in range(0, whole_c, lanes(x)):  # few streams of memory at a time
        for s in range(first, whole_s, lanes(x)):
            source, target = origin + c * positions + s, origin + s * channels + c
            transpose(offset(x, source), positions, offset(y, target), channels)
    for s in range(first, last):
        source, target = origin + s, origin + s * channels
        for c in range(whole_c if s < whole_s else 0, channels):
            y[target + c] = x[source + c * positions]
