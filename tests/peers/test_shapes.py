"""Shapes, indices, products, padding, windows, resampling and embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as peer

import retrograd
import retrograd.nn.functional as ours
from peers.compare import assert_agree, assert_close, distinct, normal, uniform

X = normal(3, 4, 5)
INDEX = np.array([2, 0, 2])
MASK = X > 0


def both(name: str, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """The function of this name in both libraries; arrays among the further arguments become tensors."""

    def bound(library: Any, tensor: Any) -> Any:
        function = getattr(library, name) if hasattr(library, name) else getattr(library.Tensor, name)
        rest = [tensor(a) if isinstance(a, np.ndarray) else a for a in args]
        return lambda *xs: function(*xs, *rest, **kwargs)

    return bound(retrograd, retrograd.tensor), bound(torch, torch.tensor)


def first(functions: tuple[Any, Any], k: int = 0) -> tuple[Any, Any]:
    return tuple(lambda *xs, f=f: f(*xs)[k] for f in functions)  # type: ignore[return-value]


SHAPES: dict[str, tuple[tuple[Any, Any], tuple[np.ndarray, ...]]] = {
    "squeeze": (both("squeeze", (0, 2)), (normal(1, 3, 1),)),
    "unflatten": (both("unflatten", 1, (2, -1)), (X,)),
    "movedim": (both("movedim", (0, 1), (2, 0)), (X,)),
    "swapaxes": (both("swapaxes", 0, 2), (X,)),
    "t": (both("t"), (X[0],)),
    "narrow": (both("narrow", 1, 1, 2), (X,)),
    "select": (both("select", 1, -1), (X,)),
    "broadcast_to": (both("broadcast_to", (2, 3, 4, 5)), (X,)),
    "hstack": ((lambda x: retrograd.hstack([x, x]), lambda x: torch.hstack([x, x])), (X,)),
    "dstack": ((lambda x: retrograd.dstack([x, x]), lambda x: torch.dstack([x, x])), (X[0],)),
    "vstack": ((lambda x: retrograd.vstack([x, x]), lambda x: torch.vstack([x, x])), (X[0, 0],)),
    "cat": ((lambda x, y: retrograd.cat([x, y], 1), lambda x, y: torch.cat([x, y], 1)), (X, X[:, :2])),
    "stack": ((lambda x, y: retrograd.stack([x, y], -1), lambda x, y: torch.stack([x, y], -1)), (X, X * 2)),
    "split": (first(both("split", [1, 3], 1), 1), (X,)),
    "chunk": (first(both("chunk", 3, 2), 2), (X,)),
    "tensor_split": (first(both("tensor_split", 3, 1), 1), (X,)),
    "tensor_split at": (first(both("tensor_split", (1, -1), 2), 1), (X,)),
    "unbind": (first(both("unbind", 1), 3), (X,)),
    "meshgrid": (
        tuple(lambda x, y, m=m: m(x, y, indexing="xy")[1] * x for m in (retrograd.meshgrid, torch.meshgrid)),
        (X[0, 0], X[0, :, 0]),
    ),
    "cartesian_prod": (both("cartesian_prod"), (X[0, 0], X[0, :, 0])),
    "flip": (both("flip", (0, 2)), (X,)),
    "roll": (both("roll", (1, -2), (0, 2)), (X,)),
    "roll all": (both("roll", 7), (X,)),
    "rot90": (both("rot90", 3, (1, 2)), (X,)),
    "repeat": (both("repeat", 2, 1, 3, 1), (X,)),
    "tile": (both("tile", (2, 3)), (X,)),
    "repeat_interleave": (both("repeat_interleave", np.array([1, 0, 2]), 0), (X,)),
    "tril": (both("tril", -1), (X,)),
    "triu": (both("triu", 1), (X,)),
    "diag": (both("diag", 1), (X[0],)),
    "diag of vector": (both("diag", -1), (X[0, 0],)),
    "diagonal": (both("diagonal", -1, 2, 0), (X,)),
    "diag_embed": (both("diag_embed", 1, 0, -1), (X,)),
    "diagflat": (both("diagflat", 1), (X[0],)),
    "trace": (both("trace"), (X[0],)),
    "unfold": (both("unfold", 2, 3, 2), (X,)),
    "take": (both("take", np.array([[0, -1], [7, 7]])), (X,)),
    "index_select": (both("index_select", 0, INDEX), (X,)),
    "index_add": (
        (
            lambda x, s: x.index_add(0, retrograd.tensor(INDEX), s, alpha=2),
            lambda x, s: x.index_add(0, torch.tensor(INDEX), s, alpha=2),
        ),
        (X, X + 1),
    ),
    "index_copy": (
        (
            lambda x, s: x.index_copy(0, retrograd.tensor(INDEX[1:]), s),
            lambda x, s: x.index_copy(0, torch.tensor(INDEX[1:]), s),
        ),
        (X, X[:2] + 1),
    ),
    "index_fill": (both("index_fill", 1, np.array([-1, 0]), 3.0), (X,)),
    "masked_fill": (both("masked_fill", MASK, 3.0), (X,)),
    "masked_select": (both("masked_select", MASK), (X,)),
    "masked_scatter": (
        (
            lambda x, s: x.masked_scatter(retrograd.tensor(MASK), s),
            lambda x, s: x.masked_scatter(torch.tensor(MASK), s),
        ),
        (X, X * 2),
    ),
    "gather": (both("gather", 1, np.array([[[3, 1], [0, 0], [2, 2]]])), (X,)),
    "take_along_dim": (both("take_along_dim", np.array([[[3], [1]]]), 1), (X,)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str) -> None:
    (mine, yours), arrays = SHAPES[name]
    assert_agree(mine, yours, *arrays)


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_scatter_reduce(reduce: str, include_self: bool) -> None:
    index = np.array([[[3, 1], [0, 0], [2, 3]], [[1, 1], [1, 1], [1, 0]]])
    functions = [
        lambda x, s, t=t: x.scatter_reduce(1, t(index), s, reduce, include_self=include_self)
        for t in (retrograd.tensor, torch.tensor)
    ]
    # PyTorch has no second derivative of amax and amin here
    assert_agree(*functions, distinct(3, 4, 5), distinct(*index.shape, seed=1) + 0.03, second=reduce in ("sum", "mean"))


@pytest.mark.parametrize("name", ["scatter", "scatter_add"])
def test_scatter(name: str) -> None:
    index = np.array([[[3, 1], [0, 0], [2, 2]]])
    functions = [lambda x, s, t=t: getattr(x, name)(1, t(index), s) for t in (retrograd.tensor, torch.tensor)]
    assert_agree(*functions, X, X[:1, :3, :2] + 1)


INDICES: list[Any] = [
    ([0, 2, 1],),
    ([0, 1], slice(None), [1, 0]),
    (0, slice(None), [0, 1]),
    ([0, 1], 2, [1, 1]),
    (None, [0, 1], None),
    (slice(1, None), [[0], [3]], [1, 4]),
    (..., [0, 1]),
    ([[0], [2]], ..., 1),
    (MASK,),
    (MASK[:, 0, 0], [1, 2]),
    (slice(None), MASK[0, :, 0]),
    ([], 1),
    (True, 0),
    (1, None, [True, False, True, True]),
]


@pytest.mark.parametrize("index", INDICES, ids=lambda i: str(i)[:40])
def test_index(index: Any) -> None:
    def as_tensors(tensor: Any) -> tuple[Any, ...]:
        return tuple(tensor(part) if isinstance(part, np.ndarray) else part for part in index)

    mine, yours = as_tensors(retrograd.tensor), as_tensors(torch.tensor)
    assert_agree(lambda x: x[mine], lambda x: x[yours], X)
    value = normal(*X[INDEX].shape)[0, 0, :1]

    def assigned(x: Any, v: Any, at: Any) -> Any:
        y = x * 2
        y[at] = v
        return y

    assert_agree(lambda x, v: assigned(x, v, mine), lambda x, v: assigned(x, v, yours), X, value)


EQUATIONS = {
    "ij,jk->ik": ((3, 4), (4, 5)),
    "bij,bjk": ((2, 3, 4), (2, 4, 5)),
    "ii": ((3, 3),),
    "ii->i": ((3, 3),),
    "...ij->...ji": ((2, 3, 4),),
    "i...,i...->...": ((3, 4), (3, 1)),
    "ab,bc,cd->da": ((2, 3), (3, 4), (4, 5)),
    "bhqd,bhkd->bhqk": ((2, 2, 3, 4), (2, 2, 5, 4)),
    "i,j": ((3,), (4,)),
    "ij,ij->": ((3, 4), (3, 4)),
    "b...j,jk": ((2, 3, 4), (4, 2)),
    "ij,k->kij": ((2, 3), (4,)),
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(equation: str) -> None:
    arrays = [normal(*shape, seed=i) for i, shape in enumerate(EQUATIONS[equation])]
    assert_agree(lambda *xs: retrograd.einsum(equation, *xs), lambda *xs: torch.einsum(equation, *xs), *arrays)


A, B, U = normal(3, 4), normal(4, 5), normal(3)
PRODUCTS: dict[str, tuple[tuple[Any, Any], tuple[np.ndarray, ...]]] = {
    "mm": (both("mm"), (A, B)),
    "bmm": (both("bmm"), (normal(2, 3, 4), normal(2, 4, 5))),
    "mv": (both("mv"), (A, B[:, 0])),
    "dot": (both("dot"), (A[0], B[:, 0])),
    "inner": (both("inner"), (A, normal(2, 4))),
    "outer": (both("outer"), (U, B[0])),
    "addmm": (both("addmm", beta=2, alpha=0.5), (normal(5), A, B)),
    "addmv": (both("addmv", beta=2, alpha=0.5), (U, A, B[:, 0])),
    "addbmm": (both("addbmm", beta=2, alpha=0.5), (normal(3, 5), normal(2, 3, 4), normal(2, 4, 5))),
    "baddbmm": (both("baddbmm", beta=2, alpha=0.5), (normal(3, 5), normal(2, 3, 4), normal(2, 4, 5))),
    "addr": (both("addr", beta=2, alpha=0.5), (normal(3, 5), U, B[0])),
    "cross": (
        (lambda x, y: retrograd.cross(x, y, 1), lambda x, y: torch.cross(x, y, 1)),
        (normal(2, 3), normal(2, 3, seed=1)),
    ),
    "tensordot": (
        (
            lambda x, y: retrograd.tensordot(x, y, ([1, 2], [1, 0])),
            lambda x, y: torch.tensordot(x, y, ([1, 2], [1, 0])),
        ),
        (X, normal(5, 4, 2)),
    ),
    "bilinear": ((ours.bilinear, peer.bilinear), (A, normal(3, 5), normal(2, 4, 5), normal(2))),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    (mine, yours), arrays = PRODUCTS[name]
    assert_agree(mine, yours, *arrays)


@pytest.mark.parametrize("p", [1.0, 2.0, float("inf"), 3.0])
def test_cdist(p: float) -> None:
    # PyTorch has no second derivative
    x, y = normal(2, 3, 4), normal(2, 5, 4, seed=1)
    assert_agree(lambda a, b: retrograd.cdist(a, b, p), lambda a, b: torch.cdist(a, b, p), x, y, second=False)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("pad", [(1, 2), (2, 0, 1, 1), (1, 1, 0, 1, 1, 0), (-1, 2), (0, 1, -1, -1)], ids=str)
@pytest.mark.parametrize("batch", [True, False])
def test_pad(mode: str, pad: tuple[int, ...], batch: bool) -> None:
    x = normal(2, 3, *(4, 3, 4)[: len(pad) // 2])
    value = {"value": 1.5} if mode == "constant" else {}
    # PyTorch has no second derivative of all of them
    assert_agree(
        lambda t: ours.pad(t, pad, mode, **value),
        lambda t: peer.pad(t, pad, mode, **value),
        x if batch else x[0],
    )


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2},
        {"kernel_size": (2, 3), "padding": (1, 0), "stride": 2},
        {"kernel_size": 2, "dilation": (2, 1)},
    ],
    ids=str,
)
def test_unfold_and_fold(options: dict[str, Any]) -> None:
    x = normal(2, 3, 6, 7)
    assert_agree(lambda t: ours.unfold(t, **options), lambda t: peer.unfold(t, **options), x)
    columns = peer.unfold(torch.tensor(x), **options).numpy()
    assert_agree(lambda t: ours.fold(t, (6, 7), **options), lambda t: peer.fold(t, (6, 7), **options), columns)
    assert_agree(lambda t: ours.fold(t, (6, 7), **options), lambda t: peer.fold(t, (6, 7), **options), columns[0])


@pytest.mark.parametrize("name", ["pixel_shuffle", "pixel_unshuffle", "channel_shuffle"])
def test_pixels(name: str) -> None:
    x = normal(2, 8, 4, 6)
    assert_agree(
        lambda t: getattr(ours, name)(t, 2), lambda t: getattr(peer, name)(t, 2), x, second=name != "channel_shuffle"
    )


RESAMPLED = [
    (mode, options)
    for mode in ("nearest", "nearest-exact", "area", "linear", "bicubic")
    for options in (
        {"size": 7},
        {"size": 3},
        {"scale_factor": 2},
        {"scale_factor": 1.7},
        {"scale_factor": 0.6},
        {"scale_factor": 1.7, "recompute_scale_factor": True},
        {"size": 5},
        *(
            [{"size": 8, "align_corners": True}, {"size": 1, "align_corners": True}]
            if mode in ("linear", "bicubic")
            else []
        ),
    )
]


@pytest.mark.parametrize(("mode", "options"), RESAMPLED, ids=str)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_interpolate(mode: str, options: dict[str, Any], axes: int) -> None:
    if mode == "bicubic" and axes != 2:
        return
    mode = {1: "linear", 2: "bilinear", 3: "trilinear"}[axes] if mode == "linear" else mode
    x = normal(2, 3, *(5, 6, 4)[:axes])
    for array in (x, x.astype(np.float32)):
        assert_agree(
            lambda t: ours.interpolate(t, mode=mode, **options),
            lambda t: peer.interpolate(t, mode=mode, **options),
            array,
            second=array is x,
        )


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("size", [(3, 4), (9, 2), (11, 13), (1, 9)], ids=str)
def test_interpolate_antialiased(mode: str, size: tuple[int, int], align: bool) -> None:
    assert_agree(
        lambda t: ours.interpolate(t, size, mode=mode, align_corners=align, antialias=True),
        lambda t: peer.interpolate(t, size, mode=mode, align_corners=align, antialias=True),
        normal(2, 2, 8, 9),
        second=False,
    )


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_an_extent_that_stays_is_not_interpolated(mode: str) -> None:
    """Also by a factor that is not 1. PyTorch's gradient is that of a call that interpolates."""
    x, factors = normal(2, 2, 8, 9), (1.1, 0.6)
    found = ours.interpolate(retrograd.tensor(x), scale_factor=factors, mode=mode, antialias=True)
    expected = peer.interpolate(torch.tensor(x), scale_factor=factors, mode=mode, antialias=True)
    np.testing.assert_allclose(found.array, expected.numpy(), atol=1e-12)


@pytest.mark.parametrize("extent", [7, 13, 56, 100])
@pytest.mark.parametrize("target", [5, 14, 33, 112, 113])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_nearest_chooses_the_same_elements(extent: int, target: int, mode: str) -> None:
    x = np.arange(float(extent)).astype(np.float32).reshape(1, 1, -1)
    for options in ({"size": target}, {"scale_factor": target / extent}):
        mine = ours.interpolate(retrograd.tensor(x), mode=mode, **options)
        assert_close(mine, peer.interpolate(torch.tensor(x), mode=mode, **options), str(options))


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("axes", [2, 3])
def test_grid_sample(axes: int, mode: str, padding: str, align: bool) -> None:
    if mode == "bicubic" and axes == 3:
        return
    options = {"mode": mode, "padding_mode": padding, "align_corners": align}
    x = normal(2, 3, *(5, 4, 3)[:axes])
    grid = uniform(-2.3, 2.3, 2, *(3, 4, 2)[:axes], axes)
    # PyTorch has no second derivative
    assert_agree(
        lambda t, g: ours.grid_sample(t, g, **options) + (g * 0).sum(),
        lambda t, g: peer.grid_sample(t, g, **options) + (g * 0).sum(),
        x,
        grid,
        second=False,
    )


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("size", [(2, 1, 3, 4), (2, 1, 3, 2, 2)], ids=str)
def test_affine_grid(size: tuple[int, ...], align: bool) -> None:
    theta = normal(2, len(size) - 2, len(size) - 1)
    assert_agree(
        lambda t: ours.affine_grid(t, size, align), lambda t: peer.affine_grid(t, size, align), theta, second=False
    )


INDICES_OF_ROWS = np.array([[1, 4, 1], [0, 2, 2]])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding_idx": 2},
        {"scale_grad_by_freq": True},
        {"padding_idx": -4, "scale_grad_by_freq": True},
        {"max_norm": 1.0},
        {"max_norm": 1.2, "norm_type": 1.0},
    ],
    ids=str,
)
def test_embedding(options: dict[str, Any]) -> None:
    w = normal(5, 3)
    mine = retrograd.tensor(w, requires_grad=True)
    yours = torch.tensor(w, requires_grad=True)
    y = ours.embedding(retrograd.tensor(INDICES_OF_ROWS), mine, **options)
    p = peer.embedding(torch.tensor(INDICES_OF_ROWS), yours, **options)
    assert_close(y, p, "value")
    assert_close(mine, yours, "weight")
    g = normal(*y.shape, seed=5)
    y.backward(retrograd.tensor(g))
    p.backward(torch.tensor(g))
    assert_close(mine.grad, yours.grad, "gradient")


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("form", ["rows", "offsets", "last"])
# not scale_grad_by_freq: PyTorch takes the frequency of a wrong row
@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}, {"weights": True}], ids=str)
def test_embedding_bag(mode: str, form: str, options: dict[str, Any]) -> None:
    options = dict(options)
    weighted = options.pop("weights", False)
    if mode != "sum" and weighted:
        return
    w = normal(5, 3)
    index = INDICES_OF_ROWS if form == "rows" else INDICES_OF_ROWS.reshape(-1)
    offsets = {"rows": None, "offsets": [0, 2, 2], "last": [0, 1, 6]}[form]
    factors = normal(*index.shape, seed=3)
    results = []
    for library, function in ((retrograd, ours), (torch, peer)):
        weight, scale = (library.tensor(a, requires_grad=True) for a in (w, factors))
        y = function.embedding_bag(
            library.tensor(index),
            weight,
            None if offsets is None else library.tensor(offsets),
            mode=mode,
            include_last_offset=form == "last",
            per_sample_weights=scale if weighted else None,
            **options,
        )
        y.backward(library.tensor(normal(*y.shape, seed=5)))
        results.append((y, weight.grad, *([scale.grad] if weighted else [])))
    for mine, yours in zip(*results, strict=True):
        assert_close(mine, yours, "value or gradient")


def test_one_hot_and_nonzero() -> None:
    x = np.array([[0, 3], [1, 1]])
    assert_close(ours.one_hot(retrograd.tensor(x)), peer.one_hot(torch.tensor(x)), "one_hot")
    assert_close(ours.one_hot(retrograd.tensor(x), 6), peer.one_hot(torch.tensor(x), 6), "one_hot")
    assert_close(retrograd.nonzero(retrograd.tensor(x)), torch.nonzero(torch.tensor(x)), "nonzero")
