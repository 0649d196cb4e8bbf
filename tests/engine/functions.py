"""Small Functions for the engine's tests, which import nothing but the engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from retrograd.engine import Function, Tensor, once_differentiable

Gradients = tuple[Tensor | None, ...]


class Add(Function):
    """x + y, for equal shapes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        return Tensor(np.asarray(x.array + y.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        return g, g


class Mul(Function):
    """x * y, for equal shapes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return Tensor(np.asarray(x.array * y.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        x, y = ctx.saved_tensors
        gx = Mul.apply(g, y) if ctx.needs_input_grad[0] else None
        gy = Mul.apply(g, x) if ctx.needs_input_grad[1] else None
        return gx, gy


class Exp(Function):
    """exp(x); saves its output."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = Tensor(np.asarray(np.exp(x.array)))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return Mul.apply(g, y)


class Sum(Function):
    """The sum of all elements, without axes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.shape = x.shape
        return Tensor(np.asarray(x.array.sum()))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return Spread.apply(g, ctx.shape)


class Spread(Function):
    """x, a single number, expanded to a shape: a view with strides of 0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        return Tensor(np.broadcast_to(x.array, shape))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        return Sum.apply(g), None


class Transpose(Function):
    """A view of x with reversed axes."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return Tensor(x.array.T)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return Transpose.apply(g)


class MatMul(Function):
    """x @ y for two matrices."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return Tensor(x.array @ y.array)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        x, y = ctx.saved_tensors
        return MatMul.apply(g, Transpose.apply(y)), MatMul.apply(Transpose.apply(x), g)


class DivMod(Function):
    """(x / 2, x * 3, the sign of x as int64): two outputs with a gradient and one without."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, ...]:
        return Tensor(x.array / 2), Tensor(x.array * 3), Tensor(np.sign(x.array).astype(np.int64))

    @staticmethod
    def backward(ctx: Any, g_half: Tensor, g_triple: Tensor, g_sign: Tensor) -> Tensor:
        ctx.seen = (g_half, g_triple, g_sign)
        return Tensor(g_half.array / 2 + g_triple.array * 3)


class OnceSquare(Function):
    """x * x, whose backward is plain NumPy and declared once_differentiable."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return Tensor(np.asarray(x.array * x.array))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return Tensor(np.asarray(2 * x.array * g.array))


class Identity(Function):
    """Returns its argument itself."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g


def leaf(*values: float, dtype: Any = np.float64) -> Tensor:
    """Return a vector that requires a gradient."""
    return Tensor(np.array(values, dtype), requires_grad=True)


def irregular(*shape: int, seed: int = 1) -> Tensor:
    """Return random float64 numbers, none near zero, that require a gradient."""
    values = np.random.default_rng(seed).uniform(0.5, 1.5, shape)
    signs = np.random.default_rng(seed + 1000).choice([-1.0, 1.0], shape)
    return Tensor(np.asarray(values * signs), requires_grad=True)


def values(tensor: Tensor | None) -> list[float]:
    """Return the elements of a tensor, which must not be None."""
    assert tensor is not None
    return tensor.array.tolist()
