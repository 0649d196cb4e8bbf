"""Describes how the gradient of a broken backward differs from the correct one, in sentences that the arrays confirm.

gradcheck's own diagnosis is about Jacobians, dy/dx. A page shows gradients, gy times these, about which it may be
false: a bug can permute the entries of the Jacobian, and yet give gradients that share no number with the correct ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations

import numpy as np

from .measurements import Arrays

__all__ = ["differing", "diagnosis"]

_TOLERANCE = 1e-5  # of the largest correct entry
_MOST_PARTS = 8  # slices of gy that are tried one by one
_LARGEST = 4000  # entries of an array whose rearrangements are tried


def differing(right: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Return which entries are wrong; rounding differences are not."""
    allowed = _TOLERANCE * float(np.abs(right[np.isfinite(right)]).max(initial=0.0)) + 1e-12
    with np.errstate(invalid="ignore"):
        same = (np.abs(wrong - right) <= allowed) | (wrong == right) | (np.isnan(wrong) & np.isnan(right))
    different: np.ndarray = ~same
    return different


def diagnosis(
    right: Arrays, wrong: Arrays, gy: np.ndarray, backward: Callable[[np.ndarray], Mapping[str, np.ndarray]]
) -> str:
    """Return a line about each wrong gradient; names of arrays and entries are in backquotes.

    backward: returns the correct gradients for another upstream gradient
    """
    parts = _PartialGradients(gy, backward)
    return "\n".join(_sentence(name, right[name], array, parts) for name, array in wrong.items())


class _PartialGradients:
    """The correct gradients for other upstream gradients, each computed once: from gy[j] alone, and from ones."""

    def __init__(self, gy: np.ndarray, backward: Callable[[np.ndarray], Mapping[str, np.ndarray]]) -> None:
        self.count = len(gy) if gy.ndim else 0
        self._gy, self._backward = gy, backward
        self._found: dict[int | None, Mapping[str, np.ndarray]] = {}

    def of(self, name: str, part: int | None) -> np.ndarray:
        """Return a gradient from gy[part] alone; without part, from an upstream gradient of ones."""
        if part not in self._found:
            upstream = np.ones_like(self._gy) if part is None else np.zeros_like(self._gy)
            if part is not None:
                upstream[part] = self._gy[part]
            self._found[part] = self._backward(upstream)
        return self._found[part][name]


def _sentence(name: str, right: np.ndarray, wrong: np.ndarray, parts: _PartialGradients) -> str:
    finite = np.isfinite(wrong)
    if not finite.all():
        return f"{_of(int((~finite).sum()), wrong.size, name)} NaN or infinite."
    if not wrong.any():
        return f"Every entry of `{name}` is 0."
    whole = _whole(name, right, wrong, parts)
    return whole or _partial(name, right, wrong)


def _whole(name: str, right: np.ndarray, wrong: np.ndarray, parts: _PartialGradients) -> str:
    """Return a sentence about all entries of a gradient, or "" if none fits."""
    if not right.any():
        return ""
    if _same(wrong, -right):
        return f"Every entry of `{name}` has the wrong sign."
    factor = float((wrong * right).sum() / (right * right).sum())
    if factor and _same(wrong, factor * right):
        return f"Every entry of `{name}` is {_ratio(factor)} times the right one."
    if _same(wrong, parts.of(name, None)):
        return f"`{name}` ignores the upstream gradient: it is the gradient for a `gy` of ones."
    for part in range(min(parts.count, _MOST_PARTS) if parts.count > 1 else 0):
        if _same(wrong, parts.of(name, part)):
            rest = "the rest of `gy`" if parts.count > 2 else f"`gy[{1 - part}]`"
            return f"`{name}` is what `gy[{part}]` alone gives. What {rest} adds is missing."
    if right.size <= _LARGEST:
        for how, guess in _rearranged(right):
            if _same(wrong, guess):
                return f"`{name}` has the right numbers, but {how}."
    if right.size > 1 and _same(np.sort(wrong, None), np.sort(right, None)):
        return f"`{name}` has the right numbers, but in the wrong places."
    return ""


def _partial(name: str, right: np.ndarray, wrong: np.ndarray) -> str:
    """Return a sentence about the wrong entries alone."""
    different = differing(right, wrong)
    count = int(different.sum())
    rest = "" if count == wrong.size else "; the others are right"
    if not wrong[different].any():
        text = f"{_of(count, wrong.size, name)} 0 and should not be{rest}."
    else:
        at = int(np.where(different, np.abs(wrong - right), -1.0).argmax())
        place = ", ".join(str(int(i)) for i in np.unravel_index(at, wrong.shape)) if wrong.ndim else ""
        entry = f"`{name}[{place}]`" if wrong.ndim else f"`{name}`"
        text = (
            f"{_of(count, wrong.size, name)} wrong{rest}. The largest error is in {entry}: "
            f"{_number(wrong.flat[at])} in place of {_number(right.flat[at])}."
        )
    return text + "".join(_confined(different))


def _confined(different: np.ndarray) -> Iterator[str]:
    """Yield a sentence for each axis on which all wrong entries have one index."""
    for axis, extent in enumerate(different.shape):
        present = np.unique(np.nonzero(different)[axis])
        if len(present) == 1 < extent:
            yield f" Every wrong entry has index {int(present[0])} on axis {axis}."


def _rearranged(right: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Yield a gradient with axes exchanged, flipped or shifted, and what was done."""
    long = [axis for axis, extent in enumerate(right.shape) if extent > 1]
    for a, b in combinations(long, 2):
        if right.shape[a] == right.shape[b]:
            yield f"with axes {a} and {b} exchanged", np.swapaxes(right, a, b)
    for count in range(1, len(long) + 1):
        for axes in combinations(long, count):
            names = ", ".join(map(str, axes))
            yield f"flipped along {'axis' if count == 1 else 'axes'} {names}", np.flip(right, axes)
    for axis in long:
        for shift in (1, -1):
            moved = np.roll(right, shift, axis)
            yield f"moved by {_number(shift)} along axis {axis}, around the end", moved
            cleared = np.moveaxis(moved.copy(), axis, 0)
            cleared[0 if shift > 0 else -1] = 0
            yield f"moved by {_number(shift)} along axis {axis}, with zeros behind", np.moveaxis(cleared, 0, axis)


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return not differing(b, a).any()


def _of(count: int, size: int, name: str) -> str:
    """Return the subject and verb of a sentence: "3 of 50 entries of `gx` are"."""
    if size == 1:
        return f"`{name}` is"
    if count == size:
        return f"All {size} entries of `{name}` are"
    return f"{count} of {size} entries of `{name}` {'is' if count == 1 else 'are'}"


def _ratio(factor: float) -> str:
    """Format 2 as "2", a third as "1/3", other numbers with four digits."""
    for value, before in ((factor, ""), (1 / factor, "1/")):
        nearest = round(value)
        if nearest and abs(value - nearest) < 1e-5 * abs(nearest):
            return f"{'−' if nearest < 0 else ''}{before}{abs(nearest)}"
    return _number(factor)


def _number(value: float) -> str:
    return f"{float(value):.4g}".replace("-", "−")
