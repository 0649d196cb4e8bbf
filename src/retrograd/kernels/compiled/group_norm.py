"""What lies between the two passes over memory of a group normalisation: statistics of channels become those of groups.

A piece's two numbers stand at n * n_step + c * c_step + p * p_step, and ``second`` behind that. Sums are in float64.
"""

from __future__ import annotations

import math as scalar

from ..compiler import Array


def statistics(
    task: int, worker: int, pieces: Array, weight: Array, bias: Array, mean: Array, inverse: Array, centers: Array,
    factors: Array, shifts: Array, results: int, channels: int, groups: int, length: int, parts: int, piece: int,
    n_step: int, c_step: int, p_step: int, second: int, per_task: int, eps: float,
) -> None:  # fmt: skip
    """mean and inverse (N, groups) of some groups, and what ``normalise`` takes, per channel (N, C).

    A piece is the mean and the sum of squares about it of ``piece`` of ``length`` numbers; the last one may be shorter.
    """
    size = channels // groups
    for result in range(task * per_task, min(results, (task + 1) * per_task)):
        n = result // groups
        first = (result - n * groups) * size
        base = n * n_step + first * c_step
        about = 1.0 * pieces[base]
        if about - about != 0.0:
            about = 0.0
        total = 0.0
        for c in range(size):
            for p in range(parts):
                total += (pieces[base + c * c_step + p * p_step] - about) * min(piece, length - p * piece)
        center = about + total / (length * size)
        total = 0.0
        for c in range(size):
            for p in range(parts):
                i = base + c * c_step + p * p_step
                away = pieces[i] - center
                total += pieces[i + second] + away * away * min(piece, length - p * piece)
        scale = 1.0 / scalar.sqrt(total / (length * size) + eps)
        mean[result] = center
        inverse[result] = scale
        for c in range(first, first + size):
            centers[n * channels + c] = center
            factors[n * channels + c] = scale * weight[c]
            shifts[n * channels + c] = bias[c]


def coefficients(
    task: int, worker: int, pieces: Array, weight: Array, mean: Array, inverse: Array, totals: Array, dots: Array,
    centers: Array, factors: Array, slopes: Array, levels: Array, results: int, channels: int, groups: int, length: int,
    parts: int, n_step: int, c_step: int, p_step: int, second: int, per_task: int,
) -> None:  # fmt: skip
    """totals and dots (N, C), the sums of g and of g z, and what ``normalise_grad`` takes, per channel (N, C).

    A piece is the sum of g and of g * (x - mean).
    """
    size = channels // groups
    for result in range(task * per_task, min(results, (task + 1) * per_task)):
        n = result // groups
        first = (result - n * groups) * size
        scale = 1.0 * inverse[result]
        level, slope = 0.0, 0.0
        for c in range(first, first + size):
            total, dot = 0.0, 0.0
            for p in range(parts):
                i = n * n_step + c * c_step + p * p_step
                total += pieces[i]
                dot += pieces[i + second]
            dot *= scale
            totals[n * channels + c] = total
            dots[n * channels + c] = dot
            level += weight[c] * total
            slope += weight[c] * dot
        level = -scale * level / (length * size)
        slope = -scale * scale * slope / (length * size)
        for c in range(first, first + size):
            centers[n * channels + c] = mean[result]
            factors[n * channels + c] = scale * weight[c]
            slopes[n * channels + c] = slope
            levels[n * channels + c] = level
