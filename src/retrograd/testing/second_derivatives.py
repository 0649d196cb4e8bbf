"""Checks of second derivatives along random directions: one number tests all entries of a Jacobian.

The gradients G of a call are checked as functions of its inputs and upstream gradients. A sweep with random weights w
gives the gradients of <w, G>; their product with a random direction v must equal the derivative of <w, G> along v. Any
wrong entry changes the product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ..autograd import grad
from ..engine.tensor import Tensor
from .function_call import Arrays, Call, numbers

# G is computed twice for each direction of each argument, and swept once for each set of weights
_DIRECTIONS, _WEIGHTS = 2, 2
_LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "in Fortran order": lambda a: a.copy(order="F"),
    "every second element, backwards": lambda a: np.repeat(a.reshape(-1)[::-1], 2)[::-2].reshape(a.shape),
}


def second_derivative_faults(call: Call, linear: bool) -> Iterator[str]:
    """Yield the faults in the second derivatives of a call."""
    return _SecondDerivatives(call, linear).faults()


class _SecondDerivatives:
    def __init__(self, call: Call, linear: bool) -> None:
        self.call = call
        self.step = 1.0 if linear else 1e-6
        # differences of a linear function have only rounding errors
        self.tolerance = (1e-11, 1e-11) if linear else (1e-6, 1e-7)
        roots = [y for y in call.outputs(call.tensors(call.arrays, requires_grad=True)) if y.requires_grad]
        self.point = [call.arrays[k] for k in call.floating] + [numbers(y.shape, 3 + k) for k, y in enumerate(roots)]

    def faults(self) -> Iterator[str]:
        weights = [
            [numbers(a.shape, 11 + 7 * w + k) for k, a in enumerate(self.point[: len(self.call.floating)])]
            for w in range(_WEIGHTS)
        ]
        before = [a.copy() for a in self.point]
        kept = [[a.copy() for a in each] for each in weights]
        swept = [self.swept(self.point, each) for each in weights]
        for array, copy in zip([*self.point, *sum(weights, [])], [*before, *sum(kept, [])], strict=True):
            if not np.array_equal(array, copy, equal_nan=True):
                yield "an input or an upstream gradient was changed"
                return
        yield from self.compared(self.swept(self.point, weights[0]), swept[0], 0.0, "different in a second sweep")
        for k, zero in enumerate(self.swept(self.point, [np.zeros_like(a) for a in weights[0]])):
            if zero.any():
                yield f"{self.label(k)}: an upstream gradient of zeros gives {np.abs(zero).max():.6g} instead of 0"
        mixed = [2 * a - 3 * b for a, b in zip(*weights, strict=True)]
        expected = [2 * a - 3 * b for a, b in zip(*swept, strict=True)]
        yield from self.compared(self.swept(self.point, mixed), expected, 1e-9, "not linear in the upstream gradient")
        for name, layout in _LAYOUTS.items():
            found = self.swept([layout(a) for a in self.point], [layout(a) for a in weights[0]])
            yield from self.compared(found, swept[0], 1e-9, f"different with arrays {name}")
        for k in range(len(self.point)):
            for d in range(_DIRECTIONS):
                yield from self.along(k, d, weights, swept)

    def along(self, k: int, d: int, weights: list[Arrays], swept: list[Arrays]) -> Iterator[str]:
        """Compare differences of argument k in direction d with products."""
        rng = np.random.default_rng((k, d, *self.point[k].shape))
        direction = rng.choice((-1.0, 1.0), self.point[k].shape) * rng.uniform(0.5, 1.0, self.point[k].shape)
        sides = []
        for sign in (1.0, -1.0):
            point = list(self.point)
            point[k] = point[k] + sign * self.step * direction
            sides.append((point[k], self.gradients(point)))
        (above, high), (below, low) = sides
        steps = (above - below) / (2 * self.step)  # the direction after rounding
        rtol, atol = self.tolerance
        for w, products in zip(weights, swept, strict=True):
            terms = [a * (h - b) / (2 * self.step) for a, h, b in zip(w, high, low, strict=True)]
            numeric = float(sum(t.sum() for t in terms))
            analytic = float((products[k] * steps).sum())
            size = float(np.abs(products[k] * steps).sum() + sum(np.abs(t).sum() for t in terms))
            if not abs(numeric - analytic) <= atol + rtol * size:
                yield (
                    f"{self.label(k)}: along a random direction the gradients change by {numeric:.9g}, the second "
                    f"derivatives say {analytic:.9g}"
                )
                return

    def compared(self, found: Arrays, expected: Arrays, rtol: float, what: str) -> Iterator[str]:
        for k, (a, b) in enumerate(zip(found, expected, strict=True)):
            if not np.allclose(a, b, rtol=rtol, atol=rtol * (1 + float(np.abs(b).max(initial=0))), equal_nan=True):
                yield f"{self.label(k)}: second derivatives are {what}, by {np.abs(a - b).max():.6g}"

    def label(self, k: int) -> str:
        inputs = self.call.floating
        return f"input {inputs[k]}" if k < len(inputs) else f"upstream gradient {k - len(inputs)}"

    def gradients(self, point: Arrays) -> Arrays:
        """Return G at a point."""
        _, found, shapes = self._graph(point)
        return [np.zeros(s) if g is None else g.array for g, s in zip(found, shapes, strict=True)]

    def swept(self, point: Arrays, weights: Arrays) -> Arrays:
        """Return the gradient of <weights, G> for each argument."""
        leaves, found, _ = self._graph(point)
        pairs = [(g, w) for g, w in zip(found, weights, strict=True) if g is not None and g.requires_grad]
        if not pairs:
            return [np.zeros(leaf.shape) for leaf in leaves]
        result = grad([g for g, _ in pairs], leaves, [Tensor(w) for _, w in pairs], allow_unused=True)
        return [np.zeros(leaf.shape) if g is None else g.array for g, leaf in zip(result, leaves, strict=True)]

    def _graph(self, point: Arrays) -> tuple[list[Tensor], list[Tensor | None], list[tuple[int, ...]]]:
        count = len(self.call.floating)
        arrays = list(self.call.arrays)
        for k, array in zip(self.call.floating, point[:count], strict=True):
            arrays[k] = array
        tensors = self.call.tensors(arrays, requires_grad=True)
        checked = [tensors[k] for k in self.call.floating]
        upstream = [Tensor(array, requires_grad=True) for array in point[count:]]
        roots = [y for y in self.call.outputs(tensors) if y.requires_grad]
        found = grad(roots, checked, upstream, create_graph=True, allow_unused=True)
        return [*checked, *upstream], list(found), [t.shape for t in checked]
