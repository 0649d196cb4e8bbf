"""Recurrent layers to test: their descriptions, arguments from a seed, and what the oracle says of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import naive_recurrent
from ops.battery import numbers
from retrograd.autograd import grad
from retrograd.engine.tensor import Tensor, wrap
from retrograd.ops.recurrent import recurrent_layer
from retrograd.ops.recurrent_arguments import weight_shapes
from retrograd.ops.recurrent_composed import Masks
from retrograd.recurrence import Recurrence, Weights, recurrence

FORWARD, BACK, BOTH = (False,), (True,), (False, True)


def described(mode: str, input: int = 3, hidden: int = 4, **options: Any) -> Recurrence:
    return recurrence("test", mode, input, hidden, **options)


@dataclass
class Case:
    """The arguments of a layer as arrays, float64."""

    what: Recurrence
    x: np.ndarray
    h0: np.ndarray | None
    c0: np.ndarray | None
    weights: list[Weights]
    lengths: np.ndarray | None = None
    masks: Masks | None = None
    cells: bool = True

    @property
    def arrays(self) -> list[np.ndarray]:
        """All that a gradient can be asked for."""
        return [a for a in (self.x, self.h0, self.c0, *(p for w in self.weights for p in w)) if a is not None]

    def leaves(self, dtype: type = np.float64, wanted: bool = True) -> list[Tensor]:
        return [Tensor(a.astype(dtype), requires_grad=wanted) for a in self.arrays]

    def regrouped(self, flat: Sequence[Any]) -> tuple[Any, Any, Any, list[Weights]]:
        """x, h0, c0 and weights of what ``arrays`` lists."""
        pieces = iter(flat)

        def next_if(there: Any) -> Any:
            return None if there is None else next(pieces)

        x, h0, c0 = (next_if(value) for value in (self.x, self.h0, self.c0))
        return x, h0, c0, [Weights(*[next_if(piece) for piece in w]) for w in self.weights]

    def run(self, leaves: Sequence[Tensor], layer: Callable[..., Any] = recurrent_layer, **options: Any) -> list[Any]:
        """The outputs that there are."""
        x, h0, c0, weights = self.regrouped(leaves)
        found = layer(x, h0, c0, weights, self.what, self.lengths, self.cells, self.masks, **options)
        return [y for y in found if y is not None]

    def expected(self) -> list[np.ndarray]:
        """The outputs that there are, by loops."""
        return self.there(naive_recurrent.values(*self.plain()))

    def there(self, outputs: Any) -> list[Any]:
        count = (2 + int(self.cells)) if self.what.cells else 1
        y, hn, *rest = outputs
        return [y, hn, *rest[: count - 1]]

    def plain(self) -> tuple[Any, ...]:
        masks = (None,) * 3 if self.masks is None else tuple(m if m is None else m.data for m in self.masks)
        return self.x, self.h0, self.c0, self.weights, self.what, self.lengths, masks

    def slope(self, directions: Sequence[np.ndarray | None], upstream: Sequence[np.ndarray | None]) -> float:
        """The derivative of the sum of the outputs times ``upstream`` when the arrays move in these directions."""
        x, h0, c0, weights, what, *rest = self.plain()
        padded = [*upstream, *[None] * (4 - len(upstream))]
        return naive_recurrent.slope(x, h0, c0, weights, what, self.regrouped(directions), padded, *rest)


def case(
    what: Recurrence, steps: int = 4, batch: int = 3, lengths: Sequence[int] | None = None, states: bool = True,
    cells: bool = True, seed: int = 0, masks: bool = False,
) -> Case:  # fmt: skip
    """Small weights, so that no gate is saturated; what is drawn with ``masks`` are those of the options."""
    D, H, out = what.directions, what.hidden, what.output
    weights = [
        Weights(*[None if s is None else 0.6 * numbers(*s, seed=seed + 10 * d + i) for i, s in enumerate(weight_shapes(what))])
        for d in range(D)
    ]  # fmt: skip
    rng, drawn = np.random.default_rng(seed), None
    if masks:
        p, (of_cell, of_hidden) = what.recurrent_dropout, what.zoneout
        drawn = Masks(
            wrap(np.where(rng.random((D, batch, out)) < p, 0, 1 / (1 - p))) if p else None,
            wrap(rng.random((D, steps, batch, H)) < of_cell) if of_cell else None,
            wrap(rng.random((D, steps, batch, out)) < of_hidden) if of_hidden else None,
        )
    return Case(
        what,
        numbers(steps, batch, what.input, seed=seed),
        0.7 * numbers(D, batch, out, seed=seed + 1) if states else None,
        0.7 * numbers(D, batch, H, seed=seed + 2) if states and what.cells else None,
        weights,
        None if lengths is None else np.array(lengths),
        drawn,
        cells and what.cells,
    )


def upstream(outputs: Sequence[Any], seed: int = 5) -> list[np.ndarray]:
    return [numbers(*y.shape, seed=seed + i) for i, y in enumerate(outputs)]


def check_values(one: Case, **options: Any) -> None:
    for found, expected in zip(one.run(one.leaves(), **options), one.expected(), strict=True):
        np.testing.assert_allclose(found.data, expected, rtol=1e-12, atol=1e-13)


def check_slopes(
    one: Case, tries: int = 2, seed: int = 3, rtol: float = 1e-10, layer: Callable[..., Any] = recurrent_layer,
    **options: Any,
) -> None:  # fmt: skip
    """Every gradient along random directions, an array at a time and all together, with random upstream gradients.

    In turn each output has no upstream gradient.
    """
    leaves = one.leaves()
    outputs = one.run(leaves, layer, **options)
    gs: list[np.ndarray | None] = [*upstream(outputs)]
    rng = np.random.default_rng(seed)
    for silent in range(-1, len(outputs)) if tries > 1 else (-1,):
        given = [None if i == silent else g for i, g in enumerate(gs)]
        pairs = [(y, Tensor(g)) for y, g in zip(outputs, given, strict=True) if g is not None]
        found = grad([y for y, _ in pairs], leaves, [g for _, g in pairs], retain_graph=True, allow_unused=True)
        chosen = [None] if silent >= 0 else [None, *range(len(leaves))][: None if tries > 1 else 1]
        for alone in chosen:
            directions = [
                rng.standard_normal(leaf.shape) if alone in (None, i) else None for i, leaf in enumerate(leaves)
            ]
            slope = sum(
                float((g.data * v).sum())
                for g, v in zip(found, directions, strict=True)
                if g is not None and v is not None
            )
            np.testing.assert_allclose(slope, one.slope(directions, given), rtol=rtol, atol=1e-11)
