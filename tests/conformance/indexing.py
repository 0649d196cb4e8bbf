"""Cases of indices, masks, gather and scatter. (tests/ops/index/test_indexing.py tests indexing rules.)"""

from __future__ import annotations

from typing import Any

import numpy as np

import retrograd
from conformance.shape import linear
from conformance.table import Op, Refusal, distinct, normal

X, Y = normal(3, 4, 2), normal(3, 4, 2, seed=1)
INDEX = np.array([2, 0, 2])
PLACES = np.array([[[2, 0], [1, 1]], [[0, 0], [2, 1]]])  # (2, 2, 2), repeated along every axis
MASK = normal(3, 4, 2) > 0
ROW = np.array([[True], [False], [True], [True]])


def filled(x: np.ndarray, index: Any, value: Any, add: bool = False) -> np.ndarray:
    y = x.copy()
    if add:
        np.add.at(y, index, value)
    else:
        y[index] = value
    return y


def scattered(x: np.ndarray, d: int, index: np.ndarray, src: Any, join: Any) -> np.ndarray:
    """The definition, place by place."""
    y = x.copy()
    for place in np.ndindex(index.shape):
        target = (*place[:d], index[place], *place[d + 1 :])
        y[target] = join(y[target], src[place] if np.ndim(src) else src)
    return y


def reduced(x: np.ndarray, d: int, index: np.ndarray, src: np.ndarray, how: str, include_self: bool) -> np.ndarray:
    values: dict[tuple[int, ...], list[float]] = {}
    for place in np.ndindex(index.shape):
        values.setdefault((*place[:d], index[place], *place[d + 1 :]), []).append(src[place])
    y = x.copy()
    join = {"sum": np.sum, "prod": np.prod, "mean": np.mean, "amax": np.max, "amin": np.min}[how]
    for place, found in values.items():
        y[place] = join([x[place], *found] if include_self else found)
    return y


def gathered(x: np.ndarray, d: int, index: np.ndarray) -> np.ndarray:
    y = np.empty(index.shape, x.dtype)
    for place in np.ndindex(index.shape):
        y[place] = x[(*place[:d], index[place], *place[d + 1 :])]
    return y


NOT_INT64 = "is float64, needs an int64 Tensor"

INDICES = [
    linear(
        "index_put",
        lambda x, v, i: retrograd.index_put(x, (i,), v),
        X,
        Y[:2],
        np.array([2, 0]),
        oracle=lambda x, v, i: filled(x, i, v),
        batch=(),
    ),
    linear(
        "index_put: the last value stays",
        lambda x, v, i: retrograd.index_put(x, (i,), v),
        X,
        Y,
        INDEX,
        oracle=lambda x, v, i: filled(x, i, v),
        batch=(),
    ),
    linear(
        "index_put: added",
        lambda x, v, i: retrograd.index_put(x, (i, i), v, True),
        X,
        Y[0, 0],
        INDEX,
        oracle=lambda x, v, i: filled(x, (i, i), v, True),
        batch=(),
    ),
    linear(
        "index_put: mask",
        lambda x, v, m: retrograd.index_put(x, (m,), v),
        X,
        Y[0, 0, :1],
        MASK,
        oracle=lambda x, v, m: filled(x, m, v),
        batch=(),
        layouts=False,
    ),
    Op(
        "index_put: refusals",
        lambda x, i, v: retrograd.index_put(x, i, v),
        X,
        [INDEX],
        2.0,
        integers=True,
        batch=(),
        oracle=lambda x, i, v: filled(x, i[0], v),
        errors=[
            Refusal(TypeError, "index_put: indices is Tensor, needs a tuple of Tensors", X, INDEX, 2.0),
            Refusal(IndexError, "index_put: index[1]=3 is out of range; axis 0", X, [np.array([0, 3])], 2.0),
            Refusal(
                ValueError,
                "index_put: a value of shape (3,) does not broadcast to the shape (3, 4, 2) of",
                X,
                [INDEX],
                normal(3),
            ),
            Refusal(TypeError, "index_put: the value is str, needs a Tensor or a number", X, [INDEX], "a"),
            Refusal(TypeError, "index_put: the value is float64, input is int64", INDEX, [INDEX], normal(3)),
        ],
    ),
    linear(
        "index_select",
        retrograd.index_select,
        X,
        1,
        INDEX,
        oracle=lambda x, d, i: x[:, i],
        large=(normal(60, 50, 40), 1, np.arange(300) * 7 % 50),
        errors=[
            Refusal(
                IndexError,
                "index_select: index[0]=-1 is out of range; axis dim=1 of input.shape=(3, 4, 2) allows 0 to 3",
                X,
                1,
                np.array([-1]),
            ),
            Refusal(TypeError, f"index_select: index {NOT_INT64}", X, 1, normal(3)),
            Refusal(ValueError, "index_select: index.shape=(1, 1), needs a vector", X, 1, np.array([[0]])),
        ],
    ),
    linear(
        "index_add",
        retrograd.index_add,
        X,
        1,
        INDEX,
        Y[:, :3],
        kwargs={"alpha": 2.5},
        oracle=lambda x, d, i, s, alpha: filled(x, (slice(None), i), alpha * s, True),
        batch=(0, 2),
        errors=[
            Refusal(IndexError, "index_add: index[1]=-1 is out of range", X, 1, np.array([0, -1]), Y[:, :2]),
            Refusal(
                ValueError,
                "index_add: source.shape=(3, 4, 2), but 3 slices of input.shape=(3, 4, 2) along dim=1 have shape",
                X,
                1,
                INDEX,
                Y,
            ),
            Refusal(
                TypeError, "index_add: source is int64, needs a Tensor of input's type, float64", X, 0, INDEX, MASK * 1
            ),
        ],
    ),
    linear(
        "index_copy",
        retrograd.index_copy,
        X,
        1,
        INDEX,
        Y[:, :3],
        oracle=lambda x, d, i, s: filled(x, (slice(None), i), s),
        batch=(0, 2),
    ),
    linear(
        "index_fill",
        retrograd.index_fill,
        X,
        1,
        np.array([-1, 0]),
        2.0,
        oracle=lambda x, d, i, v: filled(x, (slice(None), i), v),
        errors=[
            Refusal(
                IndexError,
                "index_fill: index[0]=-5 is out of range; axis dim=1 of input.shape=(3, 4, 2) allows -4 to 3",
                X,
                1,
                np.array([-5]),
                1.0,
            ),
            Refusal(TypeError, "index_fill: value is str, needs a number", X, 1, INDEX, "a"),
            Refusal(ValueError, "index_fill: value.shape=(2,), needs a number", X, 1, INDEX, normal(2)),
        ],
    ),
    linear(
        "take",
        retrograd.take,
        X,
        PLACES * 7 - 8,
        oracle=lambda x, i: x.reshape(-1)[i],
        batch=(),
        errors=[
            Refusal(
                IndexError,
                "take: index[0]=24 is out of range; input.shape=(3, 4, 2) with 24 elements allows -24 to 23",
                X,
                np.array([24]),
            ),
        ],
    ),
    Op(
        "nonzero",
        retrograd.nonzero,
        X * MASK,
        oracle=lambda x: np.array([p for p in np.ndindex(x.shape) if x[p]], int).reshape(-1, 3),
        order=0,
        integers=True,
    ),
    Op(
        "nonzero: as_tuple",
        lambda x: retrograd.nonzero(x, as_tuple=True),
        X * MASK,
        oracle=np.nonzero,
        order=0,
        integers=True,
    ),
    Op(
        "nonzero_static",
        retrograd.nonzero_static,
        X * MASK,
        kwargs={"size": 5},
        order=0,
        integers=True,
        batch=(),
        oracle=lambda x, size: np.stack(x.nonzero(), 1)[:size],
        errors=[
            Refusal(ValueError, "nonzero_static: size=-1 must be at least 0", X, size=-1),
            Refusal(TypeError, "nonzero_static: size=1.5 must be an int", X, size=1.5),
            Refusal(TypeError, "nonzero_static: fill_value=0.5 must be an int", X, size=1, fill_value=0.5),
            Refusal(
                ValueError,
                "nonzero_static: fill_value=9223372036854775808 does not fit int64",
                X,
                size=1,
                fill_value=2**63,
            ),
        ],
    ),
    Op(
        "nonzero_static: filled up",
        retrograd.nonzero_static,
        X * MASK,
        kwargs={"size": 30, "fill_value": 7},
        order=0,
        integers=True,
        oracle=lambda x, size, fill_value: np.concatenate(
            (np.stack(x.nonzero(), 1), np.full((size - np.count_nonzero(x), 3), fill_value))
        ),
    ),
    Op("argwhere", retrograd.argwhere, X * MASK, oracle=lambda x: np.stack(x.nonzero(), 1), order=0, integers=True),
]

MASKS = [
    linear(
        "masked_fill",
        retrograd.masked_fill,
        X,
        ROW,
        0.5,
        oracle=lambda x, m, v: np.where(m, v, x),
        errors=[
            Refusal(TypeError, "masked_fill: mask is int64, needs a bool Tensor", X, INDEX, 1.0),
            Refusal(ValueError, "masked_fill: shapes (3, 4, 2) and (3, 1) do not broadcast", X, ROW[:3], 1.0),
            Refusal(ValueError, "masked_fill: value.shape=(2,), needs a number", X, MASK, normal(2)),
        ],
    ),
    linear(
        "masked_fill: broadcast",
        retrograd.masked_fill,
        X[:1],
        MASK,
        normal(),
        batch=(),
        oracle=lambda x, m, v: np.where(m, v, x),
    ),
    linear("masked_select", retrograd.masked_select, X, ROW, oracle=lambda x, m: x[np.broadcast_to(m, x.shape)]),
    linear(
        "masked_scatter",
        retrograd.masked_scatter,
        X,
        ROW,
        Y,
        batch=(),
        oracle=lambda x, m, s: filled(x, np.broadcast_to(m, x.shape), s.reshape(-1)[:18]),
        errors=[
            Refusal(ValueError, "masked_scatter: source has 3 elements, but the mask is True at 18", X, ROW, normal(3)),
        ],
    ),
]

GATHERS = [
    *[
        linear(f"gather: along {d}", retrograd.gather, X, d, PLACES % X.shape[d], oracle=gathered, batch=())
        for d in range(3)
    ],
    linear(
        "gather",
        retrograd.gather,
        X,
        -1,
        PLACES % 2,
        oracle=lambda x, d, i: gathered(x, 2, i),
        batch=(0, 1),
        errors=[
            Refusal(
                IndexError,
                "gather: index[1, 0]=-1 is out of range; axis dim=1 of input.shape=(3, 4) allows 0 to 3",
                X[..., 0],
                1,
                np.array([[0], [-1]]),
            ),
            Refusal(
                ValueError,
                "gather: index.shape=(1, 5) must have as many axes as input.shape=(3, 4)",
                X[..., 0],
                0,
                np.zeros((1, 5), np.int64),
            ),
            Refusal(TypeError, f"gather: index {NOT_INT64}", X, 0, X),
            Refusal(ValueError, "gather: sparse_grad=True is not supported", X, 0, PLACES, sparse_grad=True),
        ],
    ),
    linear(
        "take_along_dim",
        retrograd.take_along_dim,
        X,
        np.array([[[1], [3]]]),
        1,
        oracle=lambda x, i, d: x[:, [1, 3]],
        batch=(0,),
        errors=[
            Refusal(
                ValueError,
                "take_along_dim: indices.shape=(2, 2, 2) and input.shape=(3, 4, 2) must be equal or 1",
                X,
                PLACES,
                1,
            )
        ],
    ),
    linear(
        "take_along_dim: no axis",
        retrograd.take_along_dim,
        X,
        INDEX * 9,
        oracle=lambda x, i: x.reshape(-1)[i],
        batch=(),
    ),
    *[
        linear(
            f"scatter: along {d}",
            retrograd.scatter,
            X,
            d,
            PLACES % X.shape[d],
            Y,
            batch=(),
            oracle=lambda x, d, i, s: scattered(x, d, i, s, lambda old, new: new),
        )
        for d in range(3)
    ],
    linear(
        "scatter",
        retrograd.scatter,
        X,
        1,
        PLACES,
        3.0,
        batch=(0, 1),
        oracle=lambda x, d, i, s: scattered(x, d, i, s, lambda old, new: new),
        errors=[
            Refusal(IndexError, "scatter: index[0, 0, 0]=4 is out of range", X, 1, PLACES[:1] + 2, Y),
            Refusal(
                ValueError,
                "scatter: index.shape=(2, 2, 2) must have as many axes as src.shape=(3, 4, 1)",
                X,
                1,
                PLACES,
                Y[..., :1],
            ),
            Refusal(TypeError, "scatter: src is int64, needs a Tensor of input's type, float64", X, 1, PLACES, PLACES),
            Refusal(ValueError, 'scatter: reduce=\'mean\' must be "add" or "multiply"', X, 1, PLACES, Y, reduce="mean"),
        ],
    ),
    Op(
        "scatter: multiply",
        retrograd.scatter,
        X,
        1,
        PLACES,
        Y,
        kwargs={"reduce": "multiply"},
        batch=(0, 1, 2),
        oracle=lambda x, d, i, s, reduce: scattered(x, d, i, s, lambda a, b: a * b),
        integers=True,
    ),
    linear(
        "scatter: add",
        retrograd.scatter,
        X,
        1,
        PLACES,
        Y,
        kwargs={"reduce": "add"},
        batch=(0, 1, 2),
        oracle=lambda x, d, i, s, reduce: scattered(x, d, i, s, lambda a, b: a + b),
    ),
    linear(
        "scatter_add",
        retrograd.scatter_add,
        X,
        0,
        PLACES,
        Y,
        batch=(),
        oracle=lambda x, d, i, s: scattered(x, d, i, s, lambda a, b: a + b),
        large=(normal(70, 300), 1, np.arange(70 * 300).reshape(70, 300) * 7 % 300, normal(70, 300, seed=1)),
    ),
    *[
        Op(
            f"scatter_reduce: {how}, {'with' if own else 'without'} self",
            retrograd.scatter_reduce,
            distinct(3, 4, 2),
            0,
            PLACES,
            distinct(3, 4, 2, seed=1) + 0.02,
            how,
            kwargs={"include_self": own},
            batch=(),
            integers=True,
            oracle=lambda x, d, i, s, how, include_self: reduced(x, d, i, s, how, include_self),
        )
        for how in ("sum", "prod", "mean", "amax", "amin")
        for own in (True, False)
    ],
    Op(
        "scatter_reduce",
        retrograd.scatter_reduce,
        X,
        1,
        PLACES,
        Y,
        "sum",
        batch=(0, 1, 2),
        integers=True,
        oracle=lambda x, d, i, s, how: reduced(x, d, i, s, how, True),
        errors=[
            Refusal(
                ValueError,
                "scatter_reduce: reduce='max' must be one of sum, prod, mean, amax, amin",
                X,
                0,
                PLACES,
                Y,
                "max",
            ),
        ],
    ),
]

OPERATORS = [*INDICES, *MASKS, *GATHERS]
