"""Cases of blocks, replaced slices, sets, correlations, integrals and parts of numbers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

import retrograd
from conformance.table import Op, Refusal, beside, distinct, normal, uniform
from retrograd import Tensor

X, M, V = normal(3, 5, 4), normal(4, 6), normal(7)
FAR = uniform(0.5, 2.0, 3, 5)
PLACES = np.array([2, 0, 2])
HOLES = np.where(np.arange(60).reshape(3, 5, 4) % 7 == 3, np.float32(np.nan), np.float32(0))
WHOLE, OTHER = np.array([[12, -18, 0], [7, 30, 4]]), np.array([[8, 12, 5], [0, -4, 6]])
V2, EDGES = normal(40, 2), ([-1.0, 0.0, 0.25, 2.0], [-0.5, 0.5])
RUNS = np.array([1, 1, 2, 2, 2, 1, 3, 3])


def tensors(x: Any) -> Any:
    return tuple(x)


def flat(histogram: Any) -> Any:
    return histogram.hist, *histogram.bin_edges


def replaced(index: Any) -> Any:
    def of(x: np.ndarray, y: np.ndarray, *_: Any, **options: Any) -> np.ndarray:
        z = x.copy()
        z[index] = y
        return z

    return of


def reduced(x: np.ndarray, dim: int, index: np.ndarray, source: np.ndarray, reduce: str, **_: Any) -> np.ndarray:
    y = x.copy()
    for i in set(index.tolist()):
        rows = np.concatenate((x[:, i : i + 1], source[:, index == i]), 1)
        y[:, i] = {"prod": rows.prod, "mean": rows.mean, "amax": rows.max, "amin": rows.min}[reduce](1)
    return y


def covariance(x: np.ndarray) -> np.ndarray:
    return np.array([[((a - a.mean()) * (b - b.mean())).sum() / (len(a) - 1) for b in x] for a in x])


def limited(x: np.ndarray, p: float, dim: int, most: float) -> np.ndarray:
    norms = [(abs(x[:, i]) ** p).sum() ** (1 / p) for i in range(x.shape[1])]
    scale = np.array([most / (n + 1e-7) if n > most else 1 for n in norms])
    return x * scale[:, None]


def derivative(x: np.ndarray) -> np.ndarray:
    """Along axis 1."""
    y = np.empty_like(x)
    y[:, 0], y[:, -1] = x[:, 1] - x[:, 0], x[:, -1] - x[:, -2]
    y[:, 1:-1] = (x[:, 2:] - x[:, :-2]) / 2
    return y


def strided(x: np.ndarray, size: Any, stride: Any, offset: int) -> np.ndarray:
    flat = x.ravel()
    return np.array([[flat[offset + i * stride[0] + j * stride[1]] for j in range(size[1])] for i in range(size[0])])


def kron(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.block([[[a * y for a in row] for row in x]]).reshape(len(x) * len(y), -1)


BLOCKS = [
    *[
        Op(
            f"atleast_{n}d",
            getattr(retrograd, f"atleast_{n}d"),
            V,
            linear=True,
            batch=(),
            oracle=lambda x, n=n: x.reshape([(7,), (1, 7), (1, 7, 1)][n - 1]),
        )
        for n in (1, 2, 3)
    ],
    Op(
        "atleast_2d: several",
        lambda x, y: retrograd.atleast_2d([x, y]),
        V,
        X,
        linear=True,
        batch=(),
        oracle=lambda x, y: (x[None], y),
    ),
    Op(
        "column_stack",
        lambda x, y: retrograd.column_stack((x, y)),
        V,
        normal(7, 2),
        linear=True,
        batch=(),
        oracle=lambda x, y: np.concatenate((x[:, None], y), 1),
    ),
    Op(
        "row_stack",
        lambda x, y: retrograd.row_stack((x, y)),
        V,
        normal(2, 7),
        linear=True,
        batch=(),
        oracle=lambda x, y: np.concatenate((x[None], y)),
    ),
    Op(
        "block_diag",
        retrograd.block_diag,
        normal(2, 3),
        V,
        normal(),
        linear=True,
        batch=(),
        oracle=lambda x, y, z: np.block(
            [[x, np.zeros((2, 8))], [np.zeros((1, 3)), y[None], np.zeros((1, 1))], [np.zeros((1, 10)), z[None, None]]]
        ),
        errors=[Refusal(ValueError, "block_diag: tensors[1].shape=(3, 5, 4) has more than 2 axes", V, X)],
    ),
    Op(
        "combinations",
        retrograd.combinations,
        V,
        3,
        linear=True,
        batch=(),
        integers=True,
        oracle=lambda x, r: np.array([*itertools.combinations(x, r)]),
        errors=[
            Refusal(ValueError, "combinations: input.shape=(4, 6) must have one axis", M),
            Refusal(ValueError, "combinations: r=-1 must be at least 0", V, -1),
        ],
    ),
    Op(
        "combinations: with replacement",
        retrograd.combinations,
        V,
        2,
        True,
        linear=True,
        batch=(),
        oracle=lambda x, r, _: np.array([*itertools.combinations_with_replacement(x, r)]),
    ),
    Op(
        "hsplit",
        lambda x: tensors(retrograd.hsplit(x, 3)),
        M,
        linear=True,
        oracle=lambda x: tuple(x[:, i : i + 2] for i in (0, 2, 4)),
        errors=[
            Refusal(
                ValueError,
                "hsplit: indices_or_sections=3 must divide 4, the extent of axis 1 of input.shape=(6, 4)",
                M.T,
            ),
        ],
    ),
    Op(
        "vsplit",
        lambda x, n=2: tensors(retrograd.vsplit(x, n)),
        M,
        linear=True,
        batch=(),
        oracle=lambda x: (x[:2], x[2:]),
        errors=[
            Refusal(ValueError, "vsplit: input.shape=(7,) needs at least 2 axes", V),
            Refusal(ValueError, "vsplit: indices_or_sections=0 must divide 4", M, 0),
        ],
    ),
    Op(
        "dsplit",
        lambda x: tensors(retrograd.dsplit(x, [1, 2])),
        X,
        linear=True,
        oracle=lambda x: (x[..., :1], x[..., 1:2], x[..., 2:]),
    ),
    *[
        Op(
            name,
            lambda x, name=name: tensors(getattr(retrograd, name)(x, [2, 3], 1)),
            X,
            linear=True,
            oracle=lambda x: (x[:, :2], x[:, 2:]),
        )
        for name in ("split_with_sizes", "unsafe_split", "unsafe_split_with_sizes")
    ],
    Op(
        "unsafe_chunk",
        lambda x: tensors(retrograd.unsafe_chunk(x, 2, 1)),
        X,
        linear=True,
        oracle=lambda x: (x[:, :3], x[:, 3:]),
    ),
    # of a clone, since the result depends on the storage
    Op(
        "as_strided",
        lambda x, *call: retrograd.as_strided(retrograd.clone(x).contiguous(), *call),
        V,
        (3, 4),
        (1, 1),
        1,
        oracle=strided,
        linear=True,
        batch=(),
        errors=[
            Refusal(ValueError, "stride=(1,), storage_offset=0 lead to element 7, but the storage", V, (8,), (1,)),
            Refusal(ValueError, "as_strided: size=(8,) and stride=(1, 1) must have the same length", V, (8,), (1, 1)),
            Refusal(
                ValueError,
                "as_strided: size=(1180591620717411303424,) and stride=(0,) are too large",
                V,
                (2**70,),
                (0,),
            ),
        ],
    ),
    Op(
        "as_strided_scatter",
        lambda x, src, *call: retrograd.as_strided_scatter(retrograd.clone(x).contiguous(), src, *call),
        M,
        normal(2, 3),
        (2, 3),
        (1, 7),
        2,
        linear=True,
        batch=(),
        oracle=lambda x, src, *_: replaced([2, 9, 16, 3, 10, 17])(x.ravel(), src.ravel()).reshape(x.shape),
        errors=[
            Refusal(ValueError, "as_strided_scatter: src.shape=(7,) must be size=(2,)", M, V, (2,), (1,)),
            Refusal(
                ValueError,
                "as_strided_scatter: size=(7,) and stride=(0,) map several elements of src to one position",
                M,
                V,
                (7,),
                (0,),
            ),
            Refusal(
                TypeError,
                "as_strided_scatter: src is int64, input is float64; use src.to(input.dtype)",
                M,
                WHOLE,
                (2, 3),
                (3, 1),
            ),
        ],
    ),
]

SLICES = [
    Op(
        "select_scatter",
        retrograd.select_scatter,
        X,
        X[:, 0],
        1,
        2,
        linear=True,
        batch=(),
        oracle=replaced(np.s_[:, 2]),
        errors=[
            Refusal(
                ValueError, "select_scatter: src.shape=(3, 5, 4) must be (3, 4), the shape of the replaced", X, X, 1, 2
            ),
            Refusal(IndexError, "index 5 is out of bounds for axis 1 with size 5", X, X[:, 0], 1, 5),
        ],
    ),
    Op(
        "slice_scatter",
        retrograd.slice_scatter,
        X,
        X[:, :2] + 1,
        1,
        1,
        None,
        2,
        linear=True,
        batch=(),
        oracle=replaced(np.s_[:, 1::2]),
        errors=[Refusal(ValueError, "slice_scatter: step=0 must be at least 1", X, X, 0, 0, 1, 0)],
    ),
    Op(
        "diagonal_scatter",
        retrograd.diagonal_scatter,
        X,
        normal(4, 3),
        1,
        0,
        1,
        linear=True,
        batch=(),
        oracle=lambda x, y, *_: np.stack(
            [np.where(np.eye(3, 5, 1) > 0, np.pad(y[k], (1, 1))[:5], x[..., k]) for k in range(4)], -1
        ),
        errors=[
            Refusal(
                ValueError,
                "diagonal_scatter: src is float64 of shape (7,), the diagonal is float64 of shape (4, 3)",
                X,
                V,
            ),
        ],
    ),
    Op(
        "put",
        retrograd.put,
        M,
        np.array([[0, -1], [7, 3]]),
        normal(2, 2),
        linear=True,
        batch=(),
        oracle=lambda x, i, y: replaced(i.ravel())(x.ravel(), y.ravel()).reshape(x.shape),
        errors=[
            Refusal(ValueError, "put: source has 7 elements, index 3; they must be equal", M, PLACES, V),
            Refusal(IndexError, "out of range", M, np.array([24]), V[:1]),
        ],
    ),
    Op(
        "put: added",
        retrograd.put,
        M,
        PLACES,
        normal(3),
        True,
        linear=True,
        batch=(),
        oracle=lambda x, i, y, _: (x.ravel() + np.bincount(i, y, 24)).reshape(x.shape),
    ),
    *[
        Op(
            f"index_reduce{': ' + reduce if reduce != 'prod' else ''}",
            retrograd.index_reduce,
            distinct(3, 5, 4) + 4,
            1,
            PLACES,
            distinct(3, 3, 4, seed=1) + 4.02,
            reduce,
            batch=(),
            oracle=reduced,
            errors=[
                Refusal(
                    ValueError,
                    "index_reduce: reduce='sum' must be 'prod', 'mean', 'amax' or 'amin'",
                    X,
                    1,
                    PLACES,
                    X,
                    "sum",
                ),
                Refusal(
                    ValueError,
                    "index_reduce: source.shape=(3, 5, 4) must be (3, 3, 4); index.shape=(3,)",
                    X,
                    1,
                    PLACES,
                    X,
                    "prod",
                ),
            ],
        )
        for reduce in ("prod", "mean", "amax", "amin")
    ],
    Op(
        "index_reduce: a number",
        retrograd.index_reduce,
        np.array(1.5),
        0,
        np.array([0, 0]),
        np.array([2.0, -0.5]),
        "prod",
        batch=(),
        oracle=lambda x, d, i, y, r: x * y[0] * y[1],
        errors=[
            Refusal(
                IndexError,
                "index_reduce: dim=1 is out of range; 1 axes allow -1 to 0",
                np.array(1.5),
                1,
                np.array(0),
                np.array(2.5),
                "prod",
            ),
        ],
    ),
]

SETS = [
    Op("isin", retrograd.isin, WHOLE, np.array([7, 0, 99]), order=0, batch=(0,),
       oracle=lambda x, y: np.array([[v in y for v in row] for row in x], np.bool_).reshape(x.shape)),
    Op("isin: numbers", lambda x: retrograd.isin(x, 7, invert=True), WHOLE, order=0, oracle=lambda x: x != 7),
    Op("unique_consecutive", lambda x: retrograd.unique_consecutive(x, True, True), RUNS, order=0, batch=(),
       oracle=lambda x: (np.array([1, 2, 1, 3]), np.array([0, 0, 1, 1, 1, 2, 3, 3]), np.array([2, 3, 1, 2]))),
    Op("unique_consecutive: slices", lambda x: retrograd.unique_consecutive(x, dim=1), WHOLE[:, [0, 0, 1]], order=0,
       batch=(), oracle=lambda x: x[:, 1:]),
    Op("unravel_index", retrograd.unravel_index, np.array([[0, 7], [5, 11]]), (3, 4), order=0, batch=(0,),
       oracle=lambda x, shape: (x // 4, x % 4), errors=[
        Refusal(IndexError, "out of range", np.array([12]), (3, 4)),
        Refusal(IndexError, "out of range", np.array([1]), ()),
        Refusal(TypeError, "unravel_index: indices is float64, needs", V, (3, 4)),
    ]),
    Op("msort", retrograd.msort, distinct(3, 5, 4), batch=(), integers=True, oracle=lambda x: np.sort(x, 0)),
    Op("nanquantile", lambda x, q: retrograd.nanquantile(x + beside(x, HOLES, dtype=retrograd.float32), q, 1),
       distinct(3, 5, 4), 0.3, batch=(), oracle=lambda x, q: np.nanquantile(x + HOLES, q, 1)),
    Op("nanquantile: several", retrograd.nanquantile, distinct(3, 5), np.array([0.2, 0.7]), batch=(),
       oracle=np.quantile, errors=[
        Refusal(ValueError, "nanquantile: q=1.5 must be from 0 to 1, one number or one axis of them", V, 1.5),
    ]),
    Op("histogram", lambda x: retrograd.histogram(x, 4), V, order=0, batch=(),
       oracle=lambda x: (1.0 * np.histogram(x, 4)[0], np.histogram(x, 4)[1])),
    Op("histogram: of nothing", lambda x: retrograd.histogram(x, 4), V[:0], order=0, batch=(),
       oracle=lambda x: (np.zeros(4), np.array([0, 0.25, 0.5, 0.75, 1]))),
    Op("histogram: edges", lambda x, bins=None: retrograd.histogram(
        x, Tensor(np.array([-1, 0, 0.5], x.dtype)) if bins is None else bins, density=True).hist, M, order=0, batch=(),
       oracle=lambda x: np.histogram(x, [-1, 0, 0.5], density=True)[0], errors=[
        Refusal(ValueError, "histogram: bins=0 must be an int from 1", M, 0),
        Refusal(ValueError, "must be at least 2 edges in increasing order", M, V),
    ]),
    Op("histogramdd", lambda x: flat(retrograd.histogramdd(x, (2, 3))), V2, order=0, batch=(),
       oracle=lambda x: (np.histogramdd(x, (2, 3))[0], *np.histogramdd(x, (2, 3))[1])),
    Op("histogramdd: range, density, weight", lambda x, w: retrograd.histogramdd(
        x, 3, range=(-1, 0.5, 0, 2), weight=w, density=True).hist, V2, uniform(0.5, 2.0, 40), order=0, batch=(),
       oracle=lambda x, w: np.histogramdd(x, 3, ((-1, 0.5), (0, 2)), True, w)[0]),
    Op("histogramdd: edges", lambda x: retrograd.histogramdd(
        x, [Tensor(np.array(edges, x.dtype)) for edges in EDGES]).hist, V2.reshape(8, 5, 2), order=0, batch=(),
       oracle=lambda x: np.histogramdd(x.reshape(-1, 2), [np.array(edges) for edges in EDGES])[0]),
    Op("histogramdd: messages", lambda x, bins=2, **options: retrograd.histogramdd(x, bins, **options).hist, V2,
       order=0, batch=(), oracle=lambda x: np.histogramdd(x, 2)[0], errors=[
        Refusal(ValueError, "histogramdd: input.shape=(7,) must have at least 2 axes", V),
        Refusal(ValueError, "histogramdd: bins has 3 entries, needs 2 for input.shape=(40, 2)", V2, (1, 2, 3)),
        Refusal(ValueError, "histogramdd: bins[1]=0 must be from 1 to", V2, (1, 0)),
        Refusal(TypeError, "histogramdd: bins[0]=1.5 must be an int, or a Tensor of edges", V2, 1.5),
        Refusal(TypeError, "histogramdd: bins[0] is int64, input is float64", V2, np.array([0, 1])),
        Refusal(ValueError, "histogramdd: bins[0]=", V2, np.array([1.0, 0.0])),
        Refusal(ValueError, "histogramdd: range has 2 numbers, needs 4: (low, high) of each axis", V2, range=(0, 1)),
        Refusal(ValueError, "the range of axis 1, from 2.0 to 1.0, must be finite and must not descend", V2,
                range=(0, 1, 2, 1)),
        Refusal(ValueError, "histogramdd: weight.shape=(7,) must be (40,), one per point", V2, weight=V),
    ]),
]  # fmt: skip

SUMS = [
    Op("kron", retrograd.kron, M, normal(2, 3), batch=(), integers=True, oracle=kron),
    Op("kron: more axes", retrograd.kron, V, normal(2, 3), batch=(), oracle=lambda x, y: kron(x[None], y)),
    Op(
        "vdot",
        retrograd.vdot,
        V,
        V + 1,
        oracle=lambda x, y: (x * y).sum(),
        batch=(0, 1),
        errors=[Refusal(ValueError, "vdot: 7 and 4 must be equal; input.shape=(7,), other.shape=(4,)", V, M[:, 0])],
    ),
    Op(
        "cov",
        retrograd.cov,
        M,
        batch=(),
        oracle=covariance,
        errors=[
            Refusal(ValueError, "cov: input.shape=(3, 5, 4) must have at most 2 axes", X),
            Refusal(TypeError, "cov: fweights is float64, needs integers", M, fweights=M[0]),
            Refusal(ValueError, "cov: aweights.shape=(4,) must be (6,), its elements at least 0", M, aweights=M[:, 0]),
        ],
    ),
    Op(
        "cov: weights",
        lambda x: retrograd.cov(x, fweights=beside(x, [1, 2, 0, 3, 1, 1], dtype=retrograd.int64)),
        M,
        batch=(),
        oracle=lambda x: covariance(x.repeat([1, 2, 0, 3, 1, 1], 1)),
    ),
    Op(
        "cov: a number",
        lambda x: retrograd.cov(
            x,
            correction=0,
            fweights=beside(x, 2, dtype=retrograd.int64),
            aweights=beside(x, 0.5, dtype=retrograd.float32),
        ),
        np.array(2.0),
        batch=(),
        order=0,
        integers=True,
        oracle=lambda x: np.array(0.0),
    ),
    Op("cov: one row", retrograd.cov, M[:1], batch=(), oracle=lambda x: ((x - x.mean()) ** 2).sum() / 5),
    Op("corrcoef: one row", retrograd.corrcoef, M[:1], batch=(), order=0, oracle=lambda x: np.array(1.0)),
    Op(
        "corrcoef",
        retrograd.corrcoef,
        M,
        batch=(),
        order=0,
        oracle=lambda x: covariance(x) / np.sqrt(np.outer(np.diag(covariance(x)), np.diag(covariance(x)))),
    ),
    Op("corrcoef: apart", lambda x: retrograd.corrcoef(x)[0, 1:], M, batch=()),
    Op("dist", retrograd.dist, M, normal(6), 3, batch=(), oracle=lambda x, y, p: (abs(x - y) ** p).sum() ** (1 / p)),
    Op(
        "renorm",
        retrograd.renorm,
        X,
        2.0,
        1,
        3.0,
        batch=(),
        oracle=limited,
        errors=[
            Refusal(ValueError, "renorm: input.shape=(7,) needs at least 2 axes", V, 2.0, 0, 1.0),
            Refusal(ValueError, "renorm: p=0 must be a number above 0", X, 0, 0, 1.0),
            Refusal(ValueError, "renorm: maxnorm=-1 must be a number of at least 0", X, 2.0, 0, -1),
        ],
    ),
    Op(
        "trapz",
        retrograd.trapz,
        X,
        normal(4),
        batch=(),
        oracle=lambda y, x: ((y[..., 1:] + y[..., :-1]) * np.diff(x) / 2).sum(-1),
    ),
    Op(
        "cumulative_trapezoid",
        retrograd.cumulative_trapezoid,
        X,
        kwargs={"dx": 0.5, "dim": 1},
        linear=True,
        oracle=lambda y, dx, dim: np.cumsum((y[:, 1:] + y[:, :-1]) / 4, 1),
    ),
    Op(
        "gradient",
        lambda x, edge_order=1, spacing=None: retrograd.gradient(x, dim=1, edge_order=edge_order, spacing=spacing)[0],
        X,
        linear=True,
        oracle=derivative,
        errors=[
            Refusal(
                ValueError,
                "gradient: axis 1 of input.shape=(4, 1) needs at least 2 elements for edge_order=1",
                M[:, :1],
            ),
            Refusal(ValueError, "gradient: edge_order=3 must be 1 or 2", X, 3),
            Refusal(
                ValueError, "gradient: spacing=[1, 2] must name as many distances as there are axes, 1", X, 1, [1, 2]
            ),
            Refusal(TypeError, "gradient: spacing holds 'a'; it must be a number, or numbers or Tensors", X, 1, "a"),
        ],
    ),
    Op(
        "gradient: axes and distances",
        lambda x: retrograd.gradient(x, spacing=(0.5, 3), dim=(2, 0), edge_order=2),
        X,
        linear=True,
        batch=(),
        oracle=lambda x: tuple(np.gradient(x, 0.5, 3, axis=(2, 0), edge_order=2)),
    ),
    Op(
        "gradient: coordinates",
        lambda x: retrograd.gradient(
            x, dim=1, edge_order=2, spacing=[beside(x, [0.0, 1, 3, 3.5, 5], dtype=retrograd.float64)]
        )[0],
        X,
        linear=True,
        oracle=lambda x: np.gradient(x, [0.0, 1, 3, 3.5, 5], axis=1, edge_order=2),
    ),
]

NUMBERS = [
    Op("deg2rad", retrograd.deg2rad, M, linear=True, oracle=lambda x: x * math.pi / 180),
    Op("rad2deg", retrograd.rad2deg, M, linear=True, oracle=lambda x: x / math.pi * 180),
    Op("float_power", lambda x, p: retrograd.float_power(x, p).to(x.dtype), FAR, 1.5, oracle=lambda x, p: x**p),
    Op("ldexp", retrograd.ldexp, FAR, FAR + 1, batch=(0, 1), oracle=lambda x, y: x * 2.0**y),
    Op(
        "frexp",
        lambda x: retrograd.frexp(x)[0],
        FAR * 5,
        oracle=lambda x: x / 2 ** np.ceil(np.log2(x)),
        errors=[Refusal(TypeError, "frexp: input is int64, needs float32 or float64", WHOLE)],
    ),
    Op(
        "gcd",
        retrograd.gcd,
        WHOLE,
        OTHER,
        order=0,
        batch=(0, 1),
        oracle=np.vectorize(math.gcd, otypes=[int]),
        errors=[Refusal(TypeError, "gcd: input and other promote to float64, needs integers", V, V)],
    ),
    Op("lcm", retrograd.lcm, WHOLE, OTHER, order=0, batch=(0, 1), oracle=np.vectorize(math.lcm, otypes=[int])),
    Op(
        "heaviside",
        retrograd.heaviside,
        M,
        normal(6),
        order=0,
        batch=(0,),
        oracle=lambda x, v: (x > 0) * 1.0,
        errors=[Refusal(TypeError, "heaviside: values is int64; both must be Tensors of one type", V, WHOLE[0])],
    ),
    Op(
        "nextafter",
        lambda x: retrograd.nextafter(x, beside(x, [0] * 4)),
        M[:, :4],
        linear=True,
        oracle=lambda x: np.nextafter(x, 0),
    ),
    Op(
        "nextafter: up",
        lambda x, y: retrograd.nextafter(x, y) > x,
        V,
        V + 1,
        order=0,
        batch=(0, 1),
        oracle=lambda x, y: x < y,
    ),
    Op(
        "bitwise_left_shift",
        retrograd.bitwise_left_shift,
        WHOLE,
        abs(OTHER),
        order=0,
        batch=(0, 1),
        oracle=lambda x, y: x * 2**y,
    ),
    Op(
        "bitwise_right_shift",
        retrograd.bitwise_right_shift,
        WHOLE,
        abs(OTHER),
        order=0,
        batch=(0, 1),
        oracle=lambda x, y: x // 2**y,
    ),
    *[
        Op(name, getattr(retrograd, name), M, order=0, oracle=oracle)
        for name, oracle in (
            ("isposinf", lambda x: x == np.inf),
            ("isneginf", lambda x: x == -np.inf),
            ("isreal", lambda x: x == x),
            ("signbit", lambda x: x < 0),
        )
    ],
    *[
        Op(name, getattr(retrograd, name), M, M[::-1], order=0, oracle=oracle, batch=(0, 1))
        for name, oracle in (
            ("greater", np.greater),
            ("greater_equal", np.greater_equal),
            ("less", np.less),
            ("less_equal", np.less_equal),
            ("not_equal", np.not_equal),
        )
    ],
]

OPERATORS = [*BLOCKS, *SLICES, *SETS, *SUMS, *NUMBERS]
