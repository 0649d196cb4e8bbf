"""Diagnosis of a wrong Jacobian: recognizes common mistakes in a backward by their effect on the numbers.

A Jacobian has shape (elements of the output, elements of the input); row k is the result of backward for the
upstream gradient that is 1 at output element k and 0 elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

# looser than gradcheck's own tolerances: a guess only has to name the mistake
_RTOL = 1e-4
_LONGEST_SHIFT = 64


def diagnose(
    analytic: np.ndarray,
    numeric: np.ndarray,
    output_shape: tuple[int, ...],
    input_shape: tuple[int, ...],
) -> str:
    """Describe in one sentence, as specific as possible, how `analytic` differs from `numeric`."""
    if not np.isfinite(numeric).all():
        return "the numeric gradient is not finite: func is not defined around this input; choose another one"
    if not np.isfinite(analytic).all():
        return f"backward returns NaN or infinity in {int((~np.isfinite(analytic)).sum())} entries"
    if not analytic.any():
        return "the gradient is dropped: it is zero everywhere, but the output depends on this input"
    if not numeric.any():
        return "the output does not depend on this input, the gradient should be zero"
    if _same(analytic, -numeric):
        return "the sign is flipped"
    if _same(analytic, np.broadcast_to(numeric.sum(0), numeric.shape)) and len(numeric) > 1:
        return "backward ignores the upstream gradient: it always returns the gradient of the sum of the outputs"
    factor = float((analytic * numeric).sum() / (numeric * numeric).sum())
    if factor and _same(analytic, factor * numeric):
        return f"the gradient is scaled by the constant factor {_format_factor(factor)}"
    for what, guess in _rearrangements(numeric, output_shape, input_shape):
        if _same(analytic, guess):
            return what
        if _same(analytic, -guess):
            return f"{what}, and the sign is flipped"
    if len(numeric) > 1 and _same(analytic, np.broadcast_to(analytic[:1], analytic.shape)):
        return "backward ignores the upstream gradient: it always returns the same"
    dropped = (analytic == 0) & ~_close(analytic, numeric)
    if dropped.any() and _close(analytic, numeric)[~dropped].all():
        return _describe_dropped(dropped, output_shape, input_shape)
    if _same(np.sort(analytic, axis=None), np.sort(numeric, axis=None)):
        return "the values are right, but in the wrong places"
    return _describe_ratios(analytic, numeric)


def find_exchanged(analytic: Sequence[np.ndarray], numeric: Sequence[np.ndarray], position: int) -> int | None:
    """Return the input whose gradient was returned for input `position`, if it is a different one."""
    for other in range(len(numeric)):
        if (
            other != position
            and numeric[other].shape == analytic[position].shape
            and numeric[other].any()
            and _same(analytic[position], numeric[other])
            and not _same(numeric[other], numeric[position])
        ):
            return other
    return None


def _close(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    scale = max(float(np.abs(a).max(initial=0.0)), float(np.abs(b).max(initial=0.0)))
    # Differences are also measured against the largest entry: in the smallest, central differences are noise.
    return np.abs(a - b) <= _RTOL * np.abs(b) + 1e-6 * scale


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(_close(a, b).all())


def _format_factor(factor: float) -> str:
    """Format 2 as "2", a third as "1/3", and anything else with as many digits as the numeric gradient has."""
    for value, before in ((factor, ""), (1 / factor, "1/")):
        nearest = round(value)
        if nearest and abs(value - nearest) < 1e-6 * abs(nearest):
            return f"-{before}{-nearest}" if nearest < 0 else f"{before}{nearest}"
    return f"{factor:.6g}"


def _rearrangements(
    numeric: np.ndarray, output_shape: tuple[int, ...], input_shape: tuple[int, ...]
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the Jacobian with the axes of the gradient or upstream gradient exchanged, flipped or shifted."""
    full = numeric.reshape(*output_shape, *input_shape)
    for what, shape, first, sign in (
        ("the gradient", input_shape, len(output_shape), 1),
        ("the upstream gradient", output_shape, 0, -1),  # moving it forward moves the rows backward
    ):
        long = [axis for axis, extent in enumerate(shape) if extent > 1]
        for axis, other in combinations(long, 2):
            guess = _transpose(full, first, shape, axis, other, sign)
            yield f"{what} is transposed: axes {axis} and {other} are exchanged", guess.reshape(numeric.shape)
        for count in range(1, len(long) + 1):
            for axes in combinations(long, count):
                along = f"axis {axes[0]}" if count == 1 else f"axes {list(axes)}"
                guess = np.flip(full, tuple([first + axis for axis in axes]))
                yield f"{what} is flipped along {along}", guess.reshape(numeric.shape)
        for axis in long:
            for step in range(1, min(shape[axis], _LONGEST_SHIFT + 1)):
                for shift in (step, -step):
                    text = f"{what} is shifted by {shift} along axis {axis}"
                    guess = np.roll(full, sign * shift, first + axis)
                    yield text, guess.reshape(numeric.shape)
                    slices = np.moveaxis(guess, first + axis, 0)  # a view: this clears the entries that wrapped around
                    slices[:step] *= sign * shift < 0
                    slices[len(slices) - step :] *= sign * shift > 0
                    yield f"{text}, with zeros", guess.reshape(numeric.shape)


def _transpose(full: np.ndarray, first: int, shape: tuple[int, ...], axis: int, other: int, sign: int) -> np.ndarray:
    """Exchange two axes and read the result in memory order as the old shape (sign -1: undo this instead)."""
    a, b = first + axis, first + other
    if sign > 0 or shape[axis] == shape[other]:
        return np.ascontiguousarray(np.swapaxes(full, a, b)).reshape(full.shape)
    swapped = list(full.shape)
    swapped[a], swapped[b] = swapped[b], swapped[a]
    return np.swapaxes(full.reshape(swapped), a, b)


def _describe_dropped(dropped: np.ndarray, output_shape: tuple[int, ...], input_shape: tuple[int, ...]) -> str:
    """Describe the missing entries and the indices along each axis that they are confined to, if any."""
    count = int(dropped.sum())
    text = f"a part of the gradient is dropped: {count} of {dropped.size} entries are zero, the others are right"
    full = dropped.reshape(*output_shape, *input_shape)
    names = [("output", axis) for axis in range(len(output_shape))]
    names += [("input", axis) for axis in range(len(input_shape))]
    for position, (side, axis) in enumerate(names):
        others = tuple(index for index in range(full.ndim) if index != position)
        present = np.flatnonzero(full.any(axis=others))
        if 0 < len(present) < full.shape[position]:
            listed = ", ".join(map(str, present[:8])) + (", ..." if len(present) > 8 else "")
            text += f"; they all have index {listed} along axis {axis} of the {side}"
    return text


def _describe_ratios(analytic: np.ndarray, numeric: np.ndarray) -> str:
    scale = np.abs(numeric).max()
    solid = np.abs(numeric) > 1e-6 * scale
    ratio = analytic[solid] / numeric[solid]
    text = f"analytic / numeric is between {ratio.min():.6g} and {ratio.max():.6g}"
    wrong_zero = int((~solid & (np.abs(analytic) > 1e-6 * scale)).sum())
    if wrong_zero:
        text += f", and {wrong_zero} entries that should be zero are not"
    return f"no common mistake fits; {text}"
