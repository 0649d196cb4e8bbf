"""Cases of views, joining, splitting, reordering and diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np

import retrograd
from conformance.table import Layer, Op, Refusal, normal
from retrograd import nn

X, Y = normal(2, 3, 4), normal(2, 3, 4, seed=1)
SQUARE = normal(3, 4, 4)
WIDE = (normal(40, 30, 20),)


def linear(name: str, function: Any, *args: Any, oracle: Any, **options: Any) -> Op:
    """A case of an operator that moves elements: linear, and for integers too."""
    return Op(name, function, *args, oracle=oracle, linear=True, integers=True, **options)


def method(name: str) -> Any:
    """``name`` as a method of its first argument."""
    return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)


def rolled(x: np.ndarray, shift: int, axis: int) -> np.ndarray:
    n = x.shape[axis]
    return np.stack([x.take((i - shift) % n, axis) for i in range(n)], axis) if n else x


def embedded(x: np.ndarray, offset: int = 0) -> np.ndarray:
    n = x.shape[-1] + abs(offset)
    y = np.zeros((*x.shape[:-1], n, n), x.dtype)
    for i in range(x.shape[-1]):
        y[..., i + max(0, -offset), i + max(0, offset)] = x[..., i]
    return y


def kept(x: np.ndarray, keep: Any) -> np.ndarray:
    i, j = np.indices(x.shape[-2:])
    return x * keep(i, j)


VIEWS = [
    linear("reshape", retrograd.reshape, X, (6, 4), oracle=lambda x, s: x.reshape(s), batch=()),
    linear("reshape: one extent follows", retrograd.reshape, X, (-1, 4), oracle=lambda x, s: x.reshape(s)),
    linear("flatten", retrograd.flatten, X, 1, oracle=lambda x, d: x.reshape(len(x), 12)),
    linear(
        "permute",
        retrograd.permute,
        X,
        (2, 0, -2),
        oracle=lambda x, d: np.einsum("ijk->kij", x),
        errors=[Refusal(ValueError, "dims=(0, 1) must name each of the 3 axes", X, (0, 1))],
    ),
    linear("transpose", retrograd.transpose, X, 0, -1, oracle=lambda x, a, b: np.einsum("ijk->kji", x)),
    linear("swapaxes", retrograd.swapaxes, X, 1, 2, oracle=lambda x, a, b: np.einsum("ijk->ikj", x)),
    linear("swapdims", retrograd.swapdims, X, 1, 2, oracle=lambda x, a, b: np.einsum("ijk->ikj", x)),
    linear("movedim", retrograd.movedim, X, 0, 2, oracle=lambda x, a, b: np.einsum("ijk->jki", x)),
    linear(
        "movedim: several",
        retrograd.movedim,
        X,
        (0, 1),
        (-1, 0),
        oracle=lambda x, a, b: np.einsum("ijk->jki", x),
        errors=[
            Refusal(ValueError, "source=(0, 1) and destination=2 must have the same number of axes", X, (0, 1), 2),
            Refusal(ValueError, "movedim: source=(0, -3) names an axis twice", X, (0, -3), (0, 1)),
            Refusal(IndexError, "movedim: source=3 is out of range", X, 3, 0),
        ],
    ),
    linear("moveaxis", retrograd.moveaxis, X, 0, 1, oracle=lambda x, a, b: np.einsum("ijk->jik", x)),
    linear(
        "t",
        retrograd.t,
        X[0],
        oracle=lambda x: np.einsum("ij->ji", x),
        errors=[Refusal(ValueError, "t: input has 3 axes, at most 2 are allowed", X)],
    ),
    linear("squeeze", retrograd.squeeze, X[:, None, :, :1], oracle=lambda x: x[:, 0, :, 0], batch=()),
    linear(
        "squeeze: some",
        retrograd.squeeze,
        X[:, None, :, :1],
        (1, 2),
        oracle=lambda x, d: x[:, 0],
        errors=[Refusal(ValueError, "squeeze: dim=(1, -3) names an axis twice", X[:, None], (1, -3))],
    ),
    linear("unsqueeze", retrograd.unsqueeze, X, -2, oracle=lambda x, d: x[:, :, None, :]),
    linear("ravel", retrograd.ravel, X, oracle=lambda x: x.reshape(-1)),
    linear(
        "unflatten",
        retrograd.unflatten,
        X,
        -1,
        (2, -1),
        oracle=lambda x, d, s: x.reshape(*x.shape[:2], 2, 2),
        errors=[
            Refusal(ValueError, "unflatten: sizes=(3, 2) do not multiply to 4, the extent of axis dim=2", X, 2, (3, 2)),
            Refusal(ValueError, "unflatten: sizes=(-1, 3) do not multiply to 4", X, 2, (-1, 3)),
            Refusal(ValueError, "unflatten: sizes=(-1, -1) do not multiply", X, 2, (-1, -1)),
        ],
    ),
    linear(
        "view_as",
        lambda x, o: retrograd.view_as(retrograd.contiguous(x), o),
        X,
        np.zeros((6, 4), np.int64),
        oracle=lambda x, o: x.reshape(o.shape),
        batch=(0, 1),
    ),
    linear(
        "reshape_as",
        retrograd.reshape_as,
        X,
        np.zeros((6, 4), np.int64),
        oracle=lambda x, o: x.reshape(o.shape),
        batch=(0, 1),
    ),
    linear("expand", retrograd.expand, X[:, :1], (5, 2, 3, 4), oracle=np.broadcast_to, batch=()),
    linear("broadcast_to", retrograd.broadcast_to, X[:, :1], (5, 2, 3, 4), oracle=np.broadcast_to, batch=()),
    linear(
        "expand_as",
        retrograd.expand_as,
        X[:, :1],
        np.zeros((2, 3, 4), np.int64),
        oracle=lambda x, o: np.broadcast_to(x, o.shape),
        batch=(0, 1),
    ),
    linear("clone", retrograd.clone, X, oracle=lambda x: x),
    linear("contiguous", retrograd.contiguous, X, oracle=lambda x: x),
    Op(
        "is_contiguous",
        lambda x: retrograd.tensor(retrograd.is_contiguous(x)),
        X,
        oracle=lambda x: True,
        order=0,
        integers=True,
        layouts=False,
    ),
    Op("numel", lambda x: retrograd.tensor(retrograd.numel(x)), X, oracle=np.size, order=0, integers=True),
    linear(
        "narrow",
        retrograd.narrow,
        X,
        1,
        -2,
        2,
        oracle=lambda x, d, s, n: x[:, 1:3],
        errors=[
            Refusal(IndexError, "narrow: start=4 is out of range; axis dim=1", X, 1, 4, 0),
            Refusal(ValueError, "narrow: start=1, length=3 must lie within axis dim=1", X, 1, 1, 3),
        ],
    ),
    linear(
        "select",
        retrograd.select,
        X,
        1,
        -1,
        oracle=lambda x, d, i: x[:, 2],
        errors=[
            Refusal(IndexError, "select: index=3 is out of range; axis dim=1", X, 1, 3),
        ],
    ),
]

JOINS = [
    linear("cat", retrograd.cat, [X, Y[:, :1], X[:, :0]], 1, oracle=lambda t, d: np.concatenate(t, 1), batch=(0, 1, 2)),
    linear(
        "cat: of any length",
        retrograd.cat,
        [X, Y[:1], normal(0)],
        oracle=lambda t: np.concatenate(t[:2]),
        batch=(),
        layouts=False,
        errors=[
            Refusal(
                ValueError,
                "cat: tensors[1].shape=(2, 3), tensors[0].shape=(2, 4); they may differ in axis dim=0",
                [X[:, 0], X[:, :, 0]],
            ),
            Refusal(TypeError, "cat: tensors[1] is float, but tensors must be a tuple or list of Tensors", [X, 2.0]),
            Refusal(TypeError, "cat: tensors must be a tuple or list of Tensors, got Tensor", X),
            Refusal(ValueError, "cat: tensors is empty", []),
            Refusal(ValueError, "cat: tensors[0] has no axis", [normal()]),
        ],
    ),
    linear("concat", retrograd.concat, [X, Y], oracle=np.concatenate, batch=(0, 1)),
    linear("concatenate", retrograd.concatenate, [X, Y], -1, oracle=np.concatenate, batch=(0, 1)),
    linear(
        "stack",
        retrograd.stack,
        [X, Y, X],
        -2,
        oracle=np.stack,
        batch=(0, 1, 2),
        errors=[
            Refusal(
                ValueError, "stack: tensors[1].shape=(3, 4), tensors[0].shape=(2, 3, 4); they must be equal", [X, X[0]]
            ),
        ],
    ),
    linear("hstack", retrograd.hstack, [X, Y], oracle=np.hstack, batch=(0, 1)),
    linear("hstack: vectors", retrograd.hstack, [X[0, 0], Y[0, 1], normal()], oracle=np.hstack, batch=(0, 1)),
    linear("vstack", retrograd.vstack, [X[0, 0], Y[0]], oracle=np.vstack, batch=(1,)),
    linear("dstack", retrograd.dstack, [X[0], Y[0]], oracle=np.dstack, batch=(0, 1)),
    linear("dstack: vectors", retrograd.dstack, [X[0, 0], Y[0, 0]], oracle=np.dstack, batch=(0, 1)),
    linear("broadcast_tensors", retrograd.broadcast_tensors, X, Y[0, :, :1], oracle=np.broadcast_arrays),
    linear(
        "meshgrid", retrograd.meshgrid, X[0, 0], X[0, :, 0], normal(), oracle=lambda *t: np.meshgrid(*t, indexing="ij")
    ),
    linear(
        "meshgrid: xy",
        retrograd.meshgrid,
        X[0, 0],
        X[0, :, 0],
        kwargs={"indexing": "xy"},
        oracle=lambda *t, indexing: np.meshgrid(*t),
        errors=[
            Refusal(ValueError, "meshgrid: indexing='ab' must be", X[0, 0], indexing="ab"),
            Refusal(ValueError, "meshgrid: tensors[0].shape=(3, 4); each must be a vector", X[0]),
        ],
    ),
    linear(
        "cartesian_prod",
        retrograd.cartesian_prod,
        X[0, 0],
        X[0, :, 0],
        oracle=lambda a, b: np.array([(p, q) for p in a for q in b]).reshape(-1, 2),
        errors=[
            Refusal(ValueError, "cartesian_prod: tensors[0].shape=(3, 4); each must be a vector", X[0]),
        ],
    ),
    linear("split", retrograd.split, X, 3, -1, oracle=lambda x, n, d: (x[..., :3], x[..., 3:])),
    linear(
        "split: sizes",
        retrograd.split,
        X,
        [1, 0, 3],
        2,
        oracle=lambda x, n, d: (x[..., :1], x[..., :0], x[..., 1:]),
        errors=[
            Refusal(
                ValueError, "split: split_size_or_sections=[1, 2] must be at least 0 each and add up to 4", X, [1, 2], 2
            ),
            Refusal(ValueError, "split: split_size_or_sections=0 must be at least 1", X, 0),
            Refusal(TypeError, "split: split_size_or_sections=1.5 must be an int", X, 1.5),
        ],
    ),
    linear(
        "chunk",
        retrograd.chunk,
        X,
        3,
        2,
        oracle=lambda x, n, d: (x[..., :2], x[..., 2:]),
        errors=[
            Refusal(ValueError, "chunk: chunks=0 must be at least 1", X, 0),
        ],
    ),
    linear("tensor_split", retrograd.tensor_split, X, 3, 2, oracle=lambda x, n, d: np.array_split(x, 3, 2)),
    linear(
        "tensor_split: places",
        retrograd.tensor_split,
        X,
        (1, 3, 9),
        2,
        oracle=lambda x, n, d: (x[..., :1], x[..., 1:3], x[..., 3:], x[..., :0]),
    ),
    linear(
        "tensor_split: backwards",
        retrograd.tensor_split,
        X,
        (3, -3),
        2,
        oracle=lambda x, n, d: (x[..., :3], x[..., :0], x[..., 1:]),
        errors=[
            Refusal(ValueError, "tensor_split: indices_or_sections=0 must be at least 1", X, 0),
        ],
    ),
    linear("unbind", retrograd.unbind, X, 1, oracle=lambda x, d: tuple(x[:, i] for i in range(3))),
]

ORDERS = [
    linear("flip", retrograd.flip, X, (0, -1), oracle=lambda x, d: x[::-1, :, ::-1]),
    linear(
        "fliplr",
        retrograd.fliplr,
        X,
        oracle=lambda x: x[:, ::-1],
        errors=[Refusal(ValueError, "fliplr: input.shape=(4,) has fewer than 2 axes", X[0, 0])],
    ),
    linear(
        "flipud",
        retrograd.flipud,
        X,
        oracle=lambda x: x[::-1],
        errors=[Refusal(ValueError, "flipud: input has no axis", normal())],
    ),
    linear("roll", retrograd.roll, X, 5, 2, oracle=rolled),
    linear(
        "roll: two axes",
        retrograd.roll,
        X,
        (-1, 1),
        (1, 2),
        oracle=lambda x, n, d: rolled(rolled(x, -1, 1), 1, 2),
        errors=[
            Refusal(ValueError, "roll: shifts=(1, 2) and dims=1 must have the same length", X, (1, 2), 1),
            Refusal(ValueError, "roll: shifts=(1, 2) needs dims", X, (1, 2)),
        ],
    ),
    linear(
        "roll: all elements", retrograd.roll, X, 5, oracle=lambda x, n: rolled(x.reshape(-1), 5, 0).reshape(x.shape)
    ),
    *[
        linear(f"rot90: {k}", retrograd.rot90, X, k, (1, 2), oracle=lambda x, k, d: np.rot90(x, k, d))
        for k in (-1, 0, 1, 2)
    ],
    linear(
        "rot90",
        retrograd.rot90,
        X,
        oracle=np.rot90,
        batch=(),
        errors=[Refusal(ValueError, "rot90: dims=(0, 1, 2) must be two axes", X, 1, (0, 1, 2))],
    ),
    linear(
        "repeat",
        retrograd.repeat,
        X,
        (2, 1, 3, 2),
        oracle=np.tile,
        errors=[Refusal(ValueError, "repeat: repeats=(2, 2) must be at least 0 each and as many as the axes", X, 2, 2)],
    ),
    linear(
        "tile",
        retrograd.tile,
        X,
        (2, 3),
        oracle=np.tile,
        errors=[Refusal(ValueError, "tile: dims=(2, -1) must be at least 0 each", X, (2, -1))],
    ),
    linear("repeat_interleave", retrograd.repeat_interleave, X, 2, 1, oracle=np.repeat, large=(*WIDE, 3, 0)),
    linear("repeat_interleave: elements", retrograd.repeat_interleave, X, 2, oracle=np.repeat),
    linear(
        "repeat_interleave: each",
        lambda x, n: retrograd.repeat_interleave(x, n, 1, output_size=3),
        X,
        np.array([2, 0, 1]),
        oracle=lambda x, n: np.repeat(x, n, 1),
        large=(normal(50, 3, 200), np.array([2, 0, 1])),
    ),
    Op(
        "repeat_interleave: refusals",
        retrograd.repeat_interleave,
        X,
        1,
        0,
        oracle=np.repeat,
        integers=True,
        errors=[
            Refusal(
                ValueError,
                "repeat_interleave: repeats=[1, 2] must be one number of at least 0, or one for each of the 3",
                X,
                np.array([1, 2]),
                1,
            ),
            Refusal(
                ValueError, "repeat_interleave: output_size=5, but the repeats add up to 4", X, 2, 0, output_size=5
            ),
            Refusal(TypeError, "repeat_interleave: repeats is float64", X, 1.5, 0),
        ],
    ),
]

DIAGONALS = [
    linear(
        "tril",
        retrograd.tril,
        SQUARE[..., :3],
        1,
        oracle=lambda x, k: kept(x, lambda i, j: j - i <= 1),
        errors=[Refusal(ValueError, "tril: input.shape=(4,) has fewer than 2 axes", X[0, 0])],
    ),
    linear("triu", retrograd.triu, SQUARE[:, :3], -1, oracle=lambda x, k: kept(x, lambda i, j: j - i >= -1)),
    linear(
        "diagonal",
        retrograd.diagonal,
        X,
        1,
        2,
        0,
        batch=(),
        oracle=lambda x, o, a, b: np.array([[x[1, j, 0]] for j in range(3)]),
        errors=[Refusal(ValueError, "diagonal: dim1=0 and dim2=-3 are the same axis", X, 0, 0, -3)],
    ),
    linear(
        "diag_embed",
        retrograd.diag_embed,
        X,
        -2,
        oracle=embedded,
        errors=[
            Refusal(ValueError, "diag_embed: dim1=1 and dim2=1 are the same axis", X, 0, 1, 1),
            Refusal(ValueError, "diag_embed: input has no axis", normal()),
        ],
    ),
    linear(
        "diag_embed: axes",
        retrograd.diag_embed,
        X[0],
        1,
        0,
        2,
        oracle=lambda x, o, a, b: np.moveaxis(embedded(x, 1), 0, 1),
    ),
    linear(
        "diag",
        retrograd.diag,
        SQUARE[0],
        -1,
        oracle=lambda x, k: np.array([x[i + 1, i] for i in range(3)]),
        batch=(),
        errors=[Refusal(ValueError, "diag: input.shape=(2, 3, 4), needs a vector or a matrix", X)],
    ),
    linear("diag: of a vector", retrograd.diag, X[0, 0], 2, oracle=embedded),
    linear("diagflat", retrograd.diagflat, X[0], -1, oracle=lambda x, k: embedded(x.reshape(-1), -1)),
    linear(
        "trace",
        retrograd.trace,
        SQUARE[0, :3],
        oracle=lambda x: sum((x[i, i] for i in range(min(x.shape))), 0.0),
        errors=[Refusal(ValueError, "trace: input.shape=(2, 3, 4), needs a matrix", X)],
    ),
]

OPERATORS = [*VIEWS, *JOINS, *ORDERS, *DIAGONALS]

LAYERS = [
    Layer("Identity", nn.Identity, X, oracle=lambda x: x, integers=True, arrays=True),
    Layer("Flatten", nn.Flatten, X, oracle=lambda x: x.reshape(len(x), 12), linear=True, integers=True),
    Layer(
        "Unflatten",
        lambda: nn.Unflatten(2, (2, -1)),
        X,
        oracle=lambda x: x.reshape(len(x), 3, 2, 2),
        linear=True,
        integers=True,
    ),
]
