"""Other call forms of PyTorch's functions: by keyword, with a tuple of one, with repeated sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from ops.battery import numbers
from retrograd.autograd import grad, gradcheck, gradgradcheck
from retrograd.engine.tensor import Tensor
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name

X = numbers(2, 4, 3)


def t(values: Any) -> Tensor:
    return Tensor(np.array(values))


KEYWORDS = {
    "flip": (lambda x: rg.flip(x, dims=(0, 2)), lambda a: a[::-1, :, ::-1]),
    "permute": (lambda x: x.permute(dims=(2, 0, 1)), lambda a: a.transpose(2, 0, 1)),
    "reshape": (lambda x: rg.reshape(x, shape=(4, -1)), lambda a: a.reshape(4, 6)),
    "repeat": (lambda x: x.repeat(repeats=(2, 1, 1)), lambda a: np.tile(a, (2, 1, 1))),
    "tile": (lambda x: rg.tile(x, dims=(2,)), lambda a: np.tile(a, 2)),
    "expand": (lambda x: x.expand(size=(5, 2, 4, 3)), lambda a: np.broadcast_to(a, (5, 2, 4, 3))),
}


@pytest.mark.parametrize("name", KEYWORDS)
def test_sizes_by_name(name: str) -> None:
    call, expected = KEYWORDS[name]
    np.testing.assert_array_equal(call(Tensor(X)).array, expected(X))


def test_sizes_of_new_tensors_by_name() -> None:
    for make in (rg.zeros, rg.ones, rg.empty, rg.rand, rg.randn):
        assert make(size=(2, 3)).shape == (2, 3)
    with pytest.raises(TypeError, match=r"zeros: size=\(2,\) is also given by position: \(3,\); give it once"):
        rg.zeros(3, size=(2,))
    with pytest.raises(TypeError, match="flip: dims="):
        Tensor(X).flip(0, dims=(1,))


def test_places_are_int64_or_int32() -> None:
    sequence, rows = t([1.0, 2.0, 3.0]), t([[1.0, 2.0, 3.0], [0.0, 5.0, 6.0]])
    for call in (rg.searchsorted, lambda a, b, **k: rg.bucketize(b, a, **k)):
        for flag, kind in ((False, np.int64), (True, np.int32)):
            found = call(sequence, t([2.5]), out_int32=flag)
            assert found.array.tolist() == [2] and found.dtype == kind
            assert rg.searchsorted(rows, t([[2.5], [2.5]]), out_int32=flag).dtype == kind
        with pytest.raises(TypeError, match="out_int32=1 must be True or False, not int"):
            call(sequence, t([2.5]), out_int32=1)


def test_cdist() -> None:
    y = X[:, :2] + np.array([0.0, 1.0, 0.0])
    differ = (X[:, :, None] != y[:, None]).sum(-1)
    np.testing.assert_array_equal(rg.cdist(Tensor(X), Tensor(y), p=0).array, differ)
    for mode in ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"):
        found = rg.cdist(Tensor(X), Tensor(y), compute_mode=mode).array
        np.testing.assert_allclose(found, np.sqrt(((X[:, :, None] - y[:, None]) ** 2).sum(-1)), atol=1e-12)
    with pytest.raises(ValueError, match="compute_mode='fast' must be one of"):
        rg.cdist(Tensor(X), Tensor(y), compute_mode="fast")


@pytest.mark.parametrize("p", [-2.0, -1, -np.inf, 0])
def test_pairwise_distance(p: float) -> None:
    a, b = X[0], X[1]
    size = np.abs(a - b + 1e-6)
    expected = size.min(-1) if p == -np.inf else (size != 0).sum(-1) if p == 0 else (size**p).sum(-1) ** (1 / p)
    np.testing.assert_allclose(F.pairwise_distance(Tensor(a), Tensor(b), p).array, expected, rtol=1e-12)
    if p:
        assert gradcheck(lambda x, y: F.pairwise_distance(x, y, p), [leaf(a), leaf(b)])


def leaf(a: np.ndarray) -> Tensor:
    return Tensor(a.copy(), requires_grad=True)


ORDERS = ["fro", "nuc", np.inf, -np.inf, 1, -1, 2, -2]


@pytest.mark.pairwise
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dim", [(0, 1), (-1, 1), (2, 0)])
def test_matrix_norm(order: Any, dim: tuple[int, int]) -> None:
    expected = np.linalg.norm(X, order, dim, keepdims=True)
    np.testing.assert_allclose(rg.linalg.matrix_norm(Tensor(X), order, dim, True).array, expected, rtol=1e-12)
    found = rg.linalg.norm(Tensor(X), order, dim)
    np.testing.assert_allclose(found.array, np.linalg.norm(X, order, dim), rtol=1e-12)
    assert gradcheck(lambda x: rg.linalg.matrix_norm(x, order, dim), [leaf(X)])
    assert gradgradcheck(lambda x: rg.linalg.matrix_norm(x, order, dim), [leaf(X)])


def test_nuclear_norm_of_all_shapes() -> None:
    for shape in ((3, 3), (0, 3), (1, 4)):
        a = numbers(*shape)
        singular = np.linalg.svd(a, compute_uv=False)
        np.testing.assert_allclose(rg.norm(Tensor(a), "nuc").array, singular.sum(), rtol=1e-12)
    whole = numbers(3, 3)
    whole[1, 2] = np.nan
    assert np.isnan(rg.linalg.matrix_norm(Tensor(whole), 2).array)
    for call, message in (
        (lambda: rg.linalg.matrix_norm(Tensor(X), 3), "ord=3 must be one of 'fro', 'nuc'"),
        (lambda: rg.linalg.matrix_norm(Tensor(X), 2, (1,)), r"dim=\(1,\) must name 2 axes"),
        (lambda: rg.linalg.norm(Tensor(X), 2), "over 3 axes is neither a vector norm"),
        (lambda: rg.linalg.matrix_norm(rg.ones(0, 3), -2), "has no element to compare; ord=-2"),
        (lambda: rg.linalg.matrix_norm(rg.ones(0, 3), -np.inf), "has no element to compare; ord=-inf"),
        (lambda: rg.norm(Tensor(X), "nuc"), "must name 2 axes"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_negative_integer_powers() -> None:
    base, exponent = np.array([2, 1, -1, -1, 0, 3, -2]), np.array([-1, -2, -3, -4, -1, 2, -1])
    np.testing.assert_array_equal((t(base) ** t(exponent)).array, [0, 1, -1, 1, 0, 9, 0])
    np.testing.assert_array_equal((2 ** t([-1, 3])).array, [0, 8])
    with pytest.raises(ValueError, match="an integer has no negative integer power"):
        t([2]) ** -1


def test_take_along_dim_from_the_end() -> None:
    places = np.array([[[-1], [0], [-3], [2]]])
    x = leaf(X)
    y = rg.take_along_dim(x, t(places), 2)
    np.testing.assert_array_equal(y.array, np.take_along_axis(X, np.broadcast_to(places, (2, 4, 1)), 2))
    (g,) = grad(y.sum(), x)
    assert g.array.sum() == 8 and g.array[0, 0].tolist() == [0, 0, 1]
    with pytest.raises(IndexError, match="out of range"):
        rg.take_along_dim(x, t([[[-4]]]), 2)


@pytest.mark.parametrize("mode", ["replicate", "reflect"])
@pytest.mark.parametrize("pair", [(-1, 2), (2, -1), (-1, -1), (-4, 2), (1, -3)])
def test_padding_with_a_crop(mode: str, pair: tuple[int, int]) -> None:
    edge = {"replicate": "edge", "reflect": "reflect"}[mode]
    wide = np.pad(X, ((0, 0), (0, 0), (max(pair[0], 0), max(pair[1], 0))), edge)
    expected = wide[..., max(-pair[0], 0) : wide.shape[-1] - max(-pair[1], 0)]
    np.testing.assert_array_equal(F.pad(Tensor(X), pair, mode).array, expected)
    assert gradcheck(lambda x: F.pad(x, pair, mode), [leaf(X)])


def test_a_crop_of_more_than_there_is() -> None:
    with pytest.raises(ValueError, match="cuts off more than"):
        F.pad(Tensor(X), (-4, 2))


def test_prelu_at_infinity() -> None:
    x, w = t([np.inf, -2.0]), t(0.5)
    w.requires_grad_()
    g = t([3.0, 4.0]).requires_grad_()
    (gw,) = rg.autograd.grad(F.prelu(x, w), w, g, create_graph=True)
    assert gw.tolist() == -8
    assert rg.autograd.grad(gw, g)[0].tolist() == [0, -2]


def test_prelu_with_one_number() -> None:
    x, w = leaf(X), Tensor(np.array(0.25), requires_grad=True)
    y = F.prelu(x, w)
    np.testing.assert_array_equal(y.array, np.where(X > 0, X, 0.25 * X))
    gx, gw = grad(y, [x, w], Tensor(X))
    np.testing.assert_allclose(gx.array, np.where(X > 0, X, 0.25 * X))
    assert gw.shape == () and np.allclose(gw.array, (np.minimum(X, 0) * X).sum())
    assert F.prelu(t(-2.0), w).shape == ()


def test_margins_of_one_row() -> None:
    row = X[0, :, 0]
    expected = np.maximum(0, 1 - row[1] + np.delete(row, 1)).sum() / 4
    for target, shape in ((t(1), ()), (t([1]), (1,))):
        found = F.multi_margin_loss(Tensor(row), target, reduction="none")
        assert found.shape == shape and np.allclose(found.array, expected)
        assert np.allclose(F.multi_margin_loss(Tensor(row), target).array, expected)
    assert F.multi_margin_loss(t(1.0), t(0)).item() == 0 == F.multilabel_margin_loss(t(1.0), t(0)).item()


@pytest.mark.parametrize("shape", [(3,), (1, 3), (4, 3), (2, 1, 3), (1, 1, 3)])
def test_trapezoid_over_places_that_are_broadcast(shape: tuple[int, ...]) -> None:
    x = np.cumsum(np.abs(numbers(*shape)), -1)
    expected = ((X[..., 1:] + X[..., :-1]) * np.diff(x)).sum(-1) / 2
    np.testing.assert_allclose(rg.trapezoid(Tensor(X), Tensor(x)).array, expected)
    assert gradcheck(lambda y, x: rg.trapezoid(y, x), [leaf(X), leaf(x)])
    with pytest.raises(ValueError, match="as many elements along axis dim=1"):
        rg.trapezoid(Tensor(X), rg.ones(2, 1, 3, dtype=np.float64), dim=1)


def test_tensordot_over_one() -> None:
    a, b = numbers(4, 3), numbers(2, 1, 5)
    expected = np.einsum("ik,lmj->ilj", a, b)
    np.testing.assert_allclose(rg.tensordot(Tensor(a), Tensor(b), ([1], [1])).array, expected)
    np.testing.assert_allclose(rg.tensordot(Tensor(b), Tensor(a), ([1], [1])).array, expected.transpose(1, 2, 0))
    assert gradcheck(lambda a, b: rg.tensordot(a, b, ([1], [1])), [leaf(a), leaf(b)])
    with pytest.raises(ValueError, match="axis 0 of a has 4, axis 0 of b has 2"):
        rg.tensordot(Tensor(a), Tensor(b), ([0], [0]))


IMAGE, WEIGHT = numbers(2, 3, 6, 6), numbers(4, 3, 2, 2)
ONE = {
    "avg_pool2d": lambda one, x: F.avg_pool2d(x, one(2), one(1), one(1)),
    "max_pool2d": lambda one, x: F.max_pool2d(x, one(2), one(1), one(1), one(2)),
    "conv2d": lambda one, x: F.conv2d(x, Tensor(WEIGHT), None, one(2), one(1), one(2)),
    "conv_transpose2d": lambda one, x: F.conv_transpose2d(
        x, Tensor(WEIGHT.swapaxes(0, 1)), None, one(2), one(1), one(1)
    ),
    "AvgPool2d": lambda one, x: rg.nn.AvgPool2d(one(2), one(1), one(1))(x),
    "MaxPool2d": lambda one, x: rg.nn.MaxPool2d(one(2), one(1), one(1), one(2))(x),
}


@pytest.mark.parametrize("name", ONE)
def test_a_tuple_of_one_serves_all_axes(name: str) -> None:
    call = ONE[name]
    np.testing.assert_array_equal(call(lambda n: (n,), Tensor(IMAGE)).array, call(lambda n: n, Tensor(IMAGE)).array)


def test_an_empty_stride_is_the_kernel_size() -> None:
    x = Tensor(IMAGE)
    np.testing.assert_array_equal(F.avg_pool2d(x, 2, stride=(), padding=(1,)).array, F.avg_pool2d(x, 2, 2, 1).array)
    np.testing.assert_array_equal(F.max_pool2d(x, 3, stride=()).array, F.max_pool2d(x, 3).array)
    np.testing.assert_array_equal(F.lp_pool2d(x, 2, 2, stride=()).array, F.lp_pool2d(x, 2, 2).array)


@pytest.mark.parametrize("shape", [(0, 3), (0, 3, 4, 4), (2, 3, 0)])
def test_batch_norm_of_nothing(shape: tuple[int, ...]) -> None:
    x = leaf(np.zeros(shape))
    weight, bias = leaf(np.ones(3)), leaf(np.ones(3))
    mean, variance = Tensor(np.full(3, 5.0)), Tensor(np.full(3, 7.0))
    y = F.batch_norm(x, mean, variance, weight, bias, training=True)
    y.sum().backward()
    assert y.shape == x.grad.shape == shape and not weight.grad.array.any() and not bias.grad.array.any()
    assert mean.array.tolist() == [5] * 3 and variance.array.tolist() == [7] * 3


@pytest.mark.parametrize("shape", [(2, 0, 4, 4), (0, 3, 4), (2, 3, 0), (2, 3, 2, 2, 2, 2)])
def test_instance_norm(shape: tuple[int, ...]) -> None:
    a = numbers(*shape)
    over = tuple(range(2, a.ndim))
    with np.errstate(all="ignore"):
        expected = (a - a.mean(over, keepdims=True)) / np.sqrt(a.var(over, keepdims=True) + 1e-5) if a.size else a
    np.testing.assert_allclose(F.instance_norm(Tensor(a)).array, expected, atol=1e-12)
    if a.size:
        assert gradcheck(F.instance_norm, [leaf(a)])


def test_refusals() -> None:
    x = rg.ones(2, 3)
    for call, message in (
        (lambda: rg.isclose(x, x, rtol=-1), "isclose: rtol=-1 must be at least 0"),
        (lambda: rg.allclose(x, x, atol=np.nan), "atol=nan must be at least 0"),
        (lambda: F.batch_norm(x, None, None, training=True, eps=0), "eps=0 must be above 0 in training"),
        (lambda: F.batch_norm(x, rg.zeros(3), rg.ones(3), eps=-1.0), "eps=-1.0 must be at least 0$"),
        (lambda: rg.nn.Hardtanh(2.0, 1.0), "min_val=2.0 must be less than max_val=1.0"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    for pool in (F.max_pool1d, F.avg_pool1d, F.adaptive_max_pool1d):
        with pytest.raises(ValueError, match=r"input has no channels; input.shape=\(2, 0, 4\)"):
            pool(rg.ones(2, 0, 4), 2)


def test_sums_and_products_of_truth_values() -> None:
    x = t([[2.0, 0.0], [0.5, -0.5], [0.0, 0.0]])
    assert rg.sum(x, 1, dtype=np.bool_).array.tolist() == [True, True, False]
    assert rg.prod(x, 1, dtype=np.bool_).array.tolist() == [False, True, False]
    assert rg.nansum(x, dtype=np.bool_).array.dtype == np.bool_
    assert rg.sum(x > 0).array.dtype == np.int64


def test_no_difference_leaves_out_what_is_put_around() -> None:
    x = leaf(X)
    y = rg.diff(x, n=0, prepend=rg.ones(2, 4, 1, dtype=np.float64))
    np.testing.assert_array_equal(y.array, X)
    assert y is not x and not np.shares_memory(y.array, x.array)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (2, 0, 3), (2, 3, 0)])
@pytest.mark.parametrize("order", [1, 2, np.inf, "nuc", "fro"])
def test_the_norm_of_an_empty_matrix_is_0(shape: tuple[int, ...], order: Any) -> None:
    x = rg.zeros(shape, requires_grad=True)
    y = rg.linalg.matrix_norm(x, order)
    np.testing.assert_array_equal(y.array, np.zeros(shape[:-2], np.float32))
    assert rg.linalg.matrix_norm(x, order, keepdim=True).shape == (*shape[:-2], 1, 1)
    assert rg.autograd.grad(y, x, rg.ones_like(y))[0].shape == shape


def test_linear_with_a_weight_of_one_output() -> None:
    rng = np.random.default_rng(3)
    for shape in ((5,), (4, 5), (2, 3, 5)):
        x, w, b = leaf(rng.normal(size=shape)), leaf(rng.normal(size=5)), leaf(np.array(0.5))
        y = F.linear(x, w)
        np.testing.assert_allclose(y.array, (x.array * w.array).sum(-1))
        assert y.shape == shape[:-1]
        np.testing.assert_allclose(F.linear(x, w, b).array, y.array + 0.5)
        assert gradgradcheck(F.linear, [x, w, b]) and gradcheck(F.linear, [x, w, b])
    with pytest.raises(ValueError, match=r"which must be \(..., Ci\) and \(Co, Ci\) or \(Ci,\)"):
        F.linear(x, rg.ones(4, dtype=rg.float64))


def test_nan_to_num_of_none_is_0() -> None:
    assert rg.nan_to_num(t([np.nan, 2.0]), nan=None).tolist() == [0, 2]
