"""Blocks, replaced slices, sets, correlations, integrals and parts of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd
from peers.compare import assert_agree, assert_close, normal

X, M, V, W = normal(3, 5, 6), normal(4, 6), normal(7), normal(4)
Call = Callable[..., Any]
# library and Tensors -> Tensor, and their arrays
WITH_GRADIENT: dict[str, tuple[Call, tuple[Any, ...]]] = {
    **{
        f"atleast_{n}d {shape}": (lambda m, x, n=n: getattr(m, f"atleast_{n}d")(x), (np.asarray(normal(*shape)),))
        for n in (1, 2, 3)
        for shape in ((), (3,), (2, 3), (2, 3, 4))
    },
    **{
        f"{name} {pieces}": (lambda m, x, name=name, p=pieces: getattr(m, name)(x, p)[1], (normal(3, 6, 9),))
        for name in ("hsplit", "vsplit", "dsplit")
        for pieces in (3, [1, 3])
    },
    **{f"dist {p}": (lambda m, x, y, p=p: m.dist(x, y, p), (M, normal(6))) for p in (2, 1, np.inf, 0.5, 3)},
    "column_stack": (lambda m, x, y: m.column_stack((x, y)), (V, normal(7, 2))),
    "row_stack": (lambda m, x, y: m.row_stack((x, y)), (V, normal(2, 7))),
    "block_diag": (lambda m, x, y, z: m.block_diag(x, y, z), (V, M, np.array(2.0))),
    "combinations": (lambda m, x: m.combinations(x, 3), (V,)),
    "combinations, repeated": (lambda m, x: m.combinations(x, 2, True), (W,)),
    "split_with_sizes": (lambda m, x: x.split_with_sizes([2, 4], 1)[1], (M,)),
    "adjoint": (lambda m, x: x.adjoint(), (X,)),
    "kron": (lambda m, x, y: x.kron(y), (M, normal(2, 3))),
    "kron, axes": (lambda m, x, y: m.kron(x, y), (V, normal(2, 3, 2))),
    "vdot": (lambda m, x, y: m.vdot(x, y), (V, V + 1)),
    "msort": (lambda m, x: x.msort(), (X,)),
    "nanquantile": (lambda m, x: m.nanquantile(x, 0.4, dim=1, keepdim=True), (X,)),
    "cov": (lambda m, x: m.cov(x), (M,)),
    "cov, weights": (
        lambda m, x: m.cov(
            x, correction=0, fweights=m.tensor([1, 2, 0, 3, 1, 1]), aweights=m.tensor(np.arange(6) + 0.5)
        ),
        (M,),
    ),
    "cov, importance": (lambda m, x, w: m.cov(x, aweights=w.abs()), (M, normal(6))),
    "cov, vector": (lambda m, x: x.cov(), (V,)),
    "corrcoef": (lambda m, x: x.corrcoef(), (M,)),
    "trapz": (lambda m, y, x: m.trapz(y, x), (X, normal(6))),
    "cumulative_trapezoid": (lambda m, y, x: m.cumulative_trapezoid(y, x, dim=1), (X, normal(5))),
    "cumulative_trapezoid, dx": (lambda m, y: m.cumulative_trapezoid(y, dx=0.3), (X,)),
    "gradient": (lambda m, x: m.gradient(x, dim=1)[0], (X,)),
    "as_strided": (lambda m, x: m.as_strided(x, (2, 3), (1, 2), 1), (V,)),
    "as_strided, overlapping": (lambda m, x: x.as_strided((3, 4), (1, 1)), (V,)),
    "as_strided of a view": (lambda m, x: (x * 2)[2:].as_strided((2, 2), (1, 2)), (V,)),
    "as_strided of a view, from the start": (lambda m, x: (x * 2)[2:].as_strided((2,), (2,), 3), (V,)),
    "as_strided, transposed": (lambda m, x: m.as_strided(x.t(), (3, 2), (1, 6), 2), (M,)),
    "as_strided, repeated": (lambda m, x: m.as_strided(x[:1].expand(4), (3, 2), (0, 0)), (V,)),
    # PyTorch's gradient to the input is that of the replaced elements
    "as_strided_scatter": (
        lambda m, x, y: m.as_strided_scatter(x.detach(), y, (2, 2), (1, 3), 1) + x * 0,
        (V, normal(2, 2)),
    ),
    "select_scatter": (lambda m, x, y: m.select_scatter(x, y[0], 1, 2), (X, normal(1, 3, 6))),
    "slice_scatter": (lambda m, x, y: m.slice_scatter(x, y, 1, 1, None, 2), (X, normal(3, 2, 6))),
    "diagonal_scatter": (lambda m, x, y: m.diagonal_scatter(x, y, 1, 0, 2), (X, normal(5, 3))),
    "put": (lambda m, x, y: m.put(x, m.tensor([[0, -1], [7, 3]]), y), (M, normal(2, 2))),
    "put, added": (lambda m, x, y: x.put(m.tensor([0, -1, 0]), y, accumulate=True), (M, normal(3))),
    "frexp": (lambda m, x: m.frexp(x)[0], (V,)),
    "ldexp": (lambda m, x, y: m.ldexp(x, y), (V, V[::-1].copy())),
    "float_power": (lambda m, x: m.float_power(x, 3), (V,)),
}


@pytest.mark.parametrize("name", WITH_GRADIENT)
def test_gradients(name: str) -> None:
    call, arrays = WITH_GRADIENT[name]
    assert_agree(lambda *x: call(retrograd, *x), lambda *x: call(torch, *x), *arrays)


FIRST_ORDER: dict[str, tuple[Call, tuple[Any, ...]]] = {
    "pdist": (lambda m, x: m.nn.functional.pdist(x, 3.0), (M,)),
    "renorm": (lambda m, x: m.renorm(x, 2, 1, 1.5), (X,)),
    "renorm 1": (lambda m, x: x.renorm(1, 0, 5.0), (X,)),
    "copysign": (lambda m, x, y: m.copysign(x, y), (V, normal(3, 7))),
    **{
        f"index_reduce {reduce} {include}": (
            lambda m, x, y, r=reduce, i=include: m.index_reduce(x, 1, m.tensor([0, 3, 0]), y, r, include_self=i),
            (X, normal(3, 3, 6)),
        )
        for reduce in ("prod", "mean", "amax", "amin")
        for include in (True, False)
    },
}


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", FIRST_ORDER)
def test_first_gradients(name: str) -> None:
    call, arrays = FIRST_ORDER[name]
    assert_agree(lambda *x: call(retrograd, *x), lambda *x: call(torch, *x), *arrays, second=False)


HOLES = X.copy()
HOLES[0, 1] = HOLES[:, :, 2] = np.nan
RUNS = np.array([[1, 1, 2], [1, 1, 2], [3, 3, 3], [1, 1, 2]])
SPECIAL = np.array([0.0, -0.0, 1, -1, 0.5, np.inf, -np.inf, np.nan, 3, -2.5, 5e-324])
PARTS = np.array([0.0, 0.3, 1.0])
VALUES: dict[str, Call] = {
    "atleast_2d": lambda m: m.atleast_2d(m.tensor(1.0), m.ones(3)),
    "combinations of none": lambda m: m.combinations(m.tensor([1, 2, 3]), 0),
    "combinations of too many": lambda m: m.combinations(m.tensor([1, 2, 3]), 5),
    "corrcoef of a vector": lambda m: m.corrcoef(m.tensor(V)),
    **{
        f"nanquantile {dim} {way}": lambda m, d=dim, i=way: m.nanquantile(
            m.tensor(HOLES), m.tensor(PARTS), dim=d, interpolation=i
        )
        for dim in (None, 0, 1)
        for way in ("linear", "lower", "higher", "midpoint", "nearest")
    },
    **{
        f"gradient {options}": lambda m, options=options: m.gradient(m.tensor(X), **options)
        for options in ({}, {"dim": (0, 2), "edge_order": 2}, {"spacing": 0.5}, {"spacing": (2.0, 3.0), "dim": (1, 2)})
    },
    "gradient, coordinates": lambda m: m.gradient(
        m.tensor(X), spacing=[m.tensor(np.array([0.0, 1, 3, 3.5, 5]))], dim=1, edge_order=2
    ),
    "gradient of integers": lambda m: m.gradient(m.tensor([1, 4, 9, 16])),
    "vander": lambda m: m.vander(m.tensor(V), 3),
    "vander, increasing": lambda m: m.vander(m.tensor([1, 2, 3]), increasing=True),
    "isin": lambda m: m.isin(m.tensor([[1, 2], [3, 4]]), m.tensor([2, 3, 9])),
    "isin, a number": lambda m: m.isin(m.tensor([[1.0, 2], [3, 4]]), 2, invert=True),
    "isin, of a number": lambda m: m.isin(2, m.tensor([1, 2])),
    **{
        f"unique_consecutive {options}": lambda m, options=options: m.unique_consecutive(m.tensor(RUNS), **options)
        for options in (
            {},
            {"return_inverse": True, "return_counts": True},
            {"dim": 0, "return_inverse": True},
            {"dim": 1, "return_counts": True},
        )
    },
    "unique_consecutive of nothing": lambda m: m.unique_consecutive(m.tensor([]), return_counts=True),
    **{
        f"{name} {n} {options}": lambda m, name=name, n=n, options=options: getattr(m, f"{name}_window")(
            n, *options, dtype=m.float64
        )
        for name in ("bartlett", "blackman", "hamming", "hann", "kaiser")
        for n in (0, 1, 2, 7)
        for options in ((), (False,))
    },
    "hamming, numbers": lambda m: m.hamming_window(5, True, 0.4, 0.6, dtype=m.float64),
    "kaiser, numbers": lambda m: m.kaiser_window(5, False, 3.0),
    **{
        f"signal.{name} {n} {options}": lambda m, name=name, n=n, options=options: getattr(m.signal.windows, name)(
            n, **options, dtype=m.float64
        )
        for name, more in (
            *(
                (name, {})
                for name in (
                    "bartlett",
                    "blackman",
                    "cosine",
                    "exponential",
                    "gaussian",
                    "general_hamming",
                    "hamming",
                    "hann",
                    "kaiser",
                    "nuttall",
                )
            ),
            ("exponential", {"tau": 2.5}),
            ("gaussian", {"std": 3.0}),
            ("general_cosine", {"a": [0.3, 0.4, 0.2, 0.1]}),
            ("general_hamming", {"alpha": 0.7}),
            ("kaiser", {"beta": 3.0}),
            ("kaiser", {"beta": 0.0}),
        )
        for n in (0, 1, 2, 7)
        for options in (more, {**more, "sym": False})
    },
    "signal.exponential, center": lambda m: m.signal.windows.exponential(5, center=1.5, sym=False),
    "histogramdd": lambda m: m.histogramdd(m.tensor(X.reshape(-1, 2)), [2, 3]).hist,
    "histogramdd, edges": lambda m: m.histogramdd(m.tensor(X.reshape(-1, 2)), 3, range=(-1.0, 1.0, 0.0, 2.0)).bin_edges,
    "histogramdd, density": lambda m: (
        m.histogramdd(
            m.tensor(X.reshape(-1, 2)), 2, weight=m.arange(1.0, X.size / 2 + 1, dtype=m.float64), density=True
        ).hist
    ),
    "histogramdd, nothing": lambda m: m.histogramdd(m.tensor(X.reshape(-1, 2)[:0]), 2)[1],
    "histogramdd, NaN": lambda m: (
        m.histogramdd(m.tensor([[1.0, float("nan")], [0.0, 1.0]]), 3, range=(0.0, 1.0, 0.0, 1.0)).hist
    ),
    "nonzero_static": lambda m: m.nonzero_static(m.tensor(X) > 0, size=3),
    "nonzero_static, more": lambda m: m.tensor([[0, 2], [3, 0]]).nonzero_static(size=4, fill_value=9),
    "nonzero_static, a number": lambda m: m.nonzero_static(m.tensor(5), size=2),
    "constant_pad_nd": lambda m: m.constant_pad_nd(m.tensor(X), (1, -1, 0, 2), 0.5),
    "unravel_index": lambda m: m.unravel_index(m.tensor([[0, 7], [5, 11]]), (3, 4)),
    "frexp": lambda m: m.frexp(m.tensor(SPECIAL)),
    "copysign": lambda m: m.copysign(m.tensor(SPECIAL)[:, None], m.tensor(SPECIAL[~np.isnan(SPECIAL)])),
    "heaviside": lambda m: m.heaviside(m.tensor(SPECIAL), m.tensor(np.array([0.5]))),
    "nextafter": lambda m: m.nextafter(m.tensor(SPECIAL), m.tensor(SPECIAL[::-1].copy())),
    "zeta, numbers": lambda m: (
        m.special.zeta(3, m.tensor(np.array([0.5, 2.0]))),
        m.special.zeta(m.tensor([2, 1, 0]), 1.5),
        m.special.zeta(2.5, m.tensor([0.0, -1.0, -2.5])),
    ),
    "gradient, none": lambda m: m.gradient(m.tensor(X), spacing=None, dim=None),
    "gradient, a distance of 0": lambda m: m.gradient(m.tensor(X), spacing=0.0),
    "cov, one row": lambda m: m.cov(m.tensor(X[0])[:1]),
    "corrcoef, one row": lambda m: m.corrcoef(m.tensor(X[0])[:1]),
    "cov, a wider weight": lambda m: m.cov(m.tensor(X[0].astype(np.float32)), aweights=m.tensor(abs(X[0, 0]))),
    "cov, an integer and weights": lambda m: m.cov(m.tensor([[1, 2, 4], [3, 1, 1]]), aweights=m.tensor([0.5, 1, 2])),
    "histogram, of nothing": lambda m: m.histogram(m.tensor(X)[:0], 4),
    "gcd": lambda m: m.gcd(m.tensor([12, -18, 0, 7]), m.tensor([8, 12, 0, 0])),
    "lcm": lambda m: m.lcm(m.tensor([12, -18, 0, 7]), m.tensor([8, 12, 0, 0])),
    "ldexp": lambda m: m.ldexp(m.tensor([1.0, 2]), m.tensor([3, 4])),
    "float_power": lambda m: m.float_power(m.tensor([1, 2, -3]), 2),
    "float_power of a number": lambda m: m.float_power(2, m.tensor([1, 2, -3])),
    "shifts": lambda m: (m.tensor([1, -8, 5]) << m.tensor([1, 2, 0]), m.tensor([64, -8]) >> 1),
    "histogram": lambda m: m.histogram(m.tensor(X), 4),
    "histogram, density": lambda m: m.histogram(m.tensor(X), 4, range=(-1.0, 1.0), density=True),
    "histogram, edges": lambda m: m.histogram(m.tensor(X), m.tensor(np.array([-1.0, 0, 0.5])), weight=m.tensor(X * X)),
    **{
        f"{name} {x.dtype}": lambda m, name=name, x=x: getattr(m, name)(m.tensor(x))
        for name in ("isposinf", "isneginf", "isreal", "signbit", "deg2rad", "rad2deg", "sinc", "lgamma", "erfinv")
        for x in (SPECIAL, np.array([1, -1, 0]), np.array([True, False]))
    },
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    found = []
    for m in (retrograd, torch):
        with np.errstate(all="ignore"):
            value = VALUES[name](m)
        found.append(value if isinstance(value, (tuple, list)) else [value])
    for mine, yours in zip(*found, strict=True):
        assert_close(mine, yours, name, 1e-6)


def test_shapes_and_messages() -> None:
    shapes = ((3, 1), 2, (4, 1, 1))
    assert tuple(retrograd.broadcast_shapes(*shapes)) == tuple(torch.broadcast_shapes(*shapes))
    with pytest.raises(ValueError, match="broadcast_shapes: shapes .* do not broadcast"):
        retrograd.broadcast_shapes((2,), (3,))
    with pytest.raises(ValueError, match="hann_window: window_length=-1 must be at least 0"):
        retrograd.hann_window(-1)
    with pytest.raises(ValueError, match="hann_window: dtype=int64 must be a floating-point type"):
        retrograd.hann_window(3, dtype=retrograd.int64)


@pytest.mark.parametrize("name", ["bilinear", "nearest"])
def test_older_names_of_interpolate(name: str) -> None:
    x = normal(2, 3, 4, 5)
    with pytest.warns(UserWarning, match="deprecated"):
        theirs = getattr(torch.nn.functional, f"upsample_{name}")(torch.tensor(x), scale_factor=2)
    mine = getattr(retrograd.nn.functional, f"upsample_{name}")(retrograd.tensor(x), scale_factor=2)
    assert_close(mine, theirs, name)


def test_methods_that_draw() -> None:
    assert retrograd.tensor([0.0, 1.0]).multinomial(1).tolist() == [1]
    assert retrograd.tensor([0.0, 1.0]).bernoulli().tolist() == [0, 1]
