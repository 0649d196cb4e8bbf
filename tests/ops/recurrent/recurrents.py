"""Recurrent layers to test: their specs, seeded arguments, and the oracle's results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import naive_recurrent
from ops.battery import numbers
from retrograd.autograd import grad, gradgradcheck
from retrograd.engine.tensor import Tensor, wrap
from retrograd.ops.recurrent.arguments import weight_shapes
from retrograd.ops.recurrent.composed import Masks
from retrograd.ops.recurrent.recurrent import recurrent_layer
from retrograd.specs.recurrence import Recurrence, Weights, recurrence

FORWARD, BACK, BOTH = (False,), (True,), (False, True)

FUSED: dict[str, dict[str, Any]] = {
    "lstm": {},
    "gru": {"mode": "gru"},
    "tanh": {"mode": "rnn_tanh"},
    "relu": {"mode": "rnn_relu"},
    "lstm without bias": {"bias": False},
    "gru without bias": {"mode": "gru", "bias": False},
    "projection": {"projection": 2},
    "projection as wide as the cell": {"projection": 4},
    "clipped": {"clip": (-0.3, 0.2)},
    "clipped, NaN too": {"clip": (-0.5, 0.4), "clip_nan": True},
    "peephole": {"peephole": True},
    "coupled": {"coupled": True},
    "all of LSTM": {"projection": 3, "clip": (-0.4, 0.5), "peephole": True, "coupled": True},
    "peephole, clipped": {"clip": (-0.4, 0.5), "peephole": True},
    "one unit": {"hidden": 1, "input": 1},
    "17 units": {"hidden": 17, "input": 2},
    "gru, 17 units": {"mode": "gru", "hidden": 17, "input": 18},
}
COMPOSED: dict[str, dict[str, Any]] = {
    "lstm, normalized": {"norm": 1e-3},
    "lstm, normalized, projection, clipped": {"norm": 1e-2, "projection": 3, "clip": (-0.5, 0.4)},
    "lstm, normalized, coupled, no bias": {"norm": 1e-2, "coupled": True, "bias": False},
    "gru, normalized": {"mode": "gru", "norm": 1e-3},
    "tanh, normalized": {"mode": "rnn_tanh", "norm": 1e-3},
    "relu, normalized, no bias": {"mode": "rnn_relu", "norm": 1e-3, "bias": False},
    "gru, reset before": {"mode": "gru", "reset_after": False},
    "gru, reset before, normalized, dropout": {
        "mode": "gru",
        "reset_after": False,
        "norm": 1e-2,
        "recurrent_dropout": 0.5,
    },
    "lstm, zoneout": {"zoneout": (0.4, 0.3)},
    "lstm, zoneout of the cell, projection": {"zoneout": (0.4, 0.0), "projection": 2},
    "gru, zoneout": {"mode": "gru", "zoneout": (0.0, 0.5)},
    "tanh, zoneout, dropout": {"mode": "rnn_tanh", "zoneout": (0.0, 0.5), "recurrent_dropout": 0.4},
    "lstm, dropout": {"recurrent_dropout": 0.5},
    "gru, dropout": {"mode": "gru", "recurrent_dropout": 0.5},
    "lstm, peephole, zoneout, dropout": {"peephole": True, "zoneout": (0.2, 0.2), "recurrent_dropout": 0.3},
    "lstm, composed on request": {"algorithm": "composed"},
}


def described(mode: str, input: int = 3, hidden: int = 4, **options: Any) -> Recurrence:
    return recurrence("test", mode, input, hidden, **options)


@dataclass
class Case:
    """The float64 arrays that are the arguments of a layer."""

    what: Recurrence
    x: np.ndarray
    h0: np.ndarray | None
    c0: np.ndarray | None
    weights: list[Weights]
    lengths: np.ndarray | None = None
    masks: Masks | None = None
    cells: bool = True
    algorithm: str = "auto"

    @property
    def arrays(self) -> list[np.ndarray]:
        """Return all arrays that can require a gradient."""
        return [a for a in (self.x, self.h0, self.c0, *(p for w in self.weights for p in w)) if a is not None]

    def leaves(self, dtype: type = np.float64, wanted: bool = True) -> list[Tensor]:
        return [Tensor(a.astype(dtype), requires_grad=wanted) for a in self.arrays]

    def regrouped(self, flat: Sequence[Any]) -> tuple[Any, Any, Any, list[Weights]]:
        """Return x, h0, c0 and weights from a list in the order of ``arrays``."""
        pieces = iter(flat)

        def next_if(there: Any) -> Any:
            return None if there is None else next(pieces)

        x, h0, c0 = (next_if(value) for value in (self.x, self.h0, self.c0))
        return x, h0, c0, [Weights(*[next_if(piece) for piece in w]) for w in self.weights]

    def run(self, leaves: Sequence[Tensor], layer: Callable[..., Any] = recurrent_layer, **options: Any) -> list[Any]:
        """Return the outputs of the layer that are not None."""
        x, h0, c0, weights = self.regrouped(leaves)
        if layer is recurrent_layer:
            options["algorithm"] = self.algorithm
        found = layer(x, h0, c0, weights, self.what, self.lengths, self.cells, self.masks, **options)
        return [y for y in found if y is not None]

    def expected(self) -> list[np.ndarray]:
        """Return the outputs that are not None, computed by loops."""
        return self.there(naive_recurrent.values(*self.plain()))

    def there(self, outputs: Any) -> list[Any]:
        count = (2 + int(self.cells)) if self.what.cells else 1
        y, hn, *rest = outputs
        return [y, hn, *rest[: count - 1]]

    def plain(self) -> tuple[Any, ...]:
        masks = (None,) * 3 if self.masks is None else tuple(m if m is None else m.array for m in self.masks)
        return self.x, self.h0, self.c0, self.weights, self.what, self.lengths, masks

    def slope(self, directions: Sequence[np.ndarray | None], upstream: Sequence[np.ndarray | None]) -> float:
        """Return the derivative of the sum of the outputs times ``upstream`` as the arrays move in these directions."""
        x, h0, c0, weights, what, *rest = self.plain()
        padded = [*upstream, *[None] * (4 - len(upstream))]
        return naive_recurrent.slope(x, h0, c0, weights, what, self.regrouped(directions), padded, *rest)


def case(
    what: Recurrence,
    steps: int = 4,
    batch: int = 3,
    lengths: Sequence[int] | None = None,
    states: bool = True,
    cells: bool = True,
    seed: int = 0,
    masks: bool = False,
    algorithm: str = "auto",
) -> Case:
    """Return a case with small weights, so that no gate saturates; ``masks`` draws the masks of the options."""
    D, H, out = what.directions, what.hidden, what.output
    shapes = list(enumerate(weight_shapes(what)))
    weights = [
        Weights(*[None if shape is None else 0.6 * numbers(*shape, seed=seed + 10 * d + i) for i, shape in shapes])
        for d in range(D)
    ]
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
        algorithm,
    )


def of(options: dict[str, Any], reverse: tuple[bool, ...] = FORWARD, algorithm: str = "auto", **how: Any) -> Case:
    """Return a case; options: those of the spec, and an algorithm."""
    options = {"mode": "lstm", "reverse": reverse, "algorithm": algorithm, **options}
    return case(algorithm=options.pop("algorithm"), what=described(**options), **how)


def upstream(outputs: Sequence[Any], seed: int = 5) -> list[np.ndarray]:
    return [numbers(*y.shape, seed=seed + i) for i, y in enumerate(outputs)]


def check_values(one: Case, **options: Any) -> None:
    for found, expected in zip(one.run(one.leaves(), **options), one.expected(), strict=True):
        np.testing.assert_allclose(found.array, expected, rtol=1e-12, atol=1e-13)


def check_slopes(one: Case, alone: bool = False, seed: int = 3, **options: Any) -> None:
    """Check gradients along random directions of all arrays, or of each array ``alone``.

    Upstream gradients are random. With all arrays, each output in turn also gets no upstream gradient.
    """
    leaves = one.leaves()
    outputs = one.run(leaves, **options)
    gs: list[np.ndarray | None] = [*upstream(outputs)]
    rng = np.random.default_rng(seed)
    for silent in range(-1, len(outputs)):
        given = [None if i == silent else g for i, g in enumerate(gs)]
        pairs = [(y, Tensor(g)) for y, g in zip(outputs, given, strict=True) if g is not None]
        found = grad([y for y, _ in pairs], leaves, [g for _, g in pairs], retain_graph=True, allow_unused=True)
        for place in (None, *range(len(leaves))) if alone and silent < 0 else (None,):
            directions = [
                rng.standard_normal(leaf.shape) if place in (None, i) else None for i, leaf in enumerate(leaves)
            ]
            terms = zip(found, directions, strict=True)
            slope = sum(float((g.array * v).sum()) for g, v in terms if g is not None and v is not None)
            np.testing.assert_allclose(slope, one.slope(directions, given), rtol=1e-10, atol=1e-11)


def check_second(one: Case, directions: int = 2, seed: int = 6, **options: Any) -> None:
    """Check second derivatives by differences as all arrays move along random directions.

    The checked function maps the distances along the directions to a weighted sum of each output.
    """
    rng = np.random.default_rng(seed)
    moves = [rng.standard_normal((directions, *a.shape)) for a in one.arrays]
    gs = [wrap(g) for g in upstream(one.expected())]

    def sums(way: Tensor) -> tuple[Tensor, ...]:
        leaves = []
        for a, move in zip(one.arrays, moves, strict=True):
            moved = (way @ wrap(move.reshape(directions, -1))).reshape(a.shape)
            leaves.append(wrap(a) + moved)
        return tuple((y * g).sum() for y, g in zip(one.run(leaves, **options), gs, strict=True))

    way = Tensor(np.zeros(directions), requires_grad=True)
    assert gradgradcheck(sums, [way], check_layouts=False)
