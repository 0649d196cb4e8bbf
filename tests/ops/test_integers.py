"""int64 and bool operands: integer results are exact, modulo 2**64, as Python's integers; others are float32."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import Tensor
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name

# float64 cannot represent their products exactly
LARGE = 2**53 + 1


def large(*shape: int, seed: int = 0, most: int = 2**62) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).integers(-most, most, shape)


def exactly(x: Any) -> np.ndarray:
    """Convert int64 to Python's integers, which do not overflow."""
    return np.asarray(x).astype(object)


def wrapped(x: Any) -> np.ndarray:
    """Wrap Python's integers to int64, modulo 2**64."""
    return np.asarray((np.asarray(x, object) + 2**63) % 2**64 - 2**63, np.int64)


def same(found: Any, wanted: Any) -> None:
    assert found.array.dtype == np.int64
    assert not found.requires_grad
    np.testing.assert_array_equal(found.array, wrapped(wanted))


def cut(x: int, y: int) -> int:
    """Return x / y rounded toward 0."""
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


X, Y, Z = large(3, 4), large(4, 5), large(2, 4, 3, seed=1)
V, W, M = large(4, seed=2), large(4, seed=3), large(3, 5, seed=4)
PRODUCTS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "matmul": (retrograd.matmul, lambda x, y: x @ y, (X, Y)),
    "matmul, broadcast": (retrograd.matmul, lambda x, y: x @ y, (X, Z)),
    "matmul, vectors": (retrograd.matmul, lambda x, y: (x * y).sum(), (V, W)),
    "bmm": (retrograd.bmm, lambda x, y: x @ y, (Z, Z.swapaxes(1, 2))),
    "mv": (retrograd.mv, lambda x, v: (x * v).sum(1), (X, V)),
    "inner": (retrograd.inner, lambda x, v: (x * v).sum(1), (X, V)),
    "outer": (retrograd.outer, np.multiply.outer, (V, W)),
    "tensordot": (lambda x, y: retrograd.tensordot(x, y, 1), lambda x, y: x @ y, (X, Y)),
    "einsum": (lambda x, y: retrograd.einsum("ij,jk->ki", x, y), lambda x, y: (x @ y).T, (X, Y)),
    "addmm": (
        lambda m, x, y: retrograd.addmm(m, x, y, beta=3, alpha=-2),
        lambda m, x, y: 3 * m - 2 * (x @ y),
        (M, X, Y),
    ),
    "addr": (
        lambda m, v, w: retrograd.addr(m, v, w, alpha=2),
        lambda m, v, w: m + 2 * np.multiply.outer(v, w),
        (X, X[:, 0], V),
    ),
    "addcmul": (lambda x, v, w: retrograd.addcmul(x, v, w, value=3), lambda x, v, w: x + 3 * v * w, (X, V, W)),
    "linear": (F.linear, lambda x, y, b: x @ y.T + b, (X, X[:2], V[:2])),
    "bilinear": (
        F.bilinear,
        lambda x, y, w: np.stack([((x @ k) * y).sum(1) for k in w], 1),
        (X, Z.swapaxes(1, 2)[:, :, :3].reshape(6, 3)[:3], large(2, 4, 3, seed=9)),
    ),
    "relu": (F.relu, lambda x: np.where(x > 0, x, 0), (X,)),
    "l1_loss": (lambda x, y: F.l1_loss(x, y, reduction="sum"), lambda x, y: abs(x - y).sum(), (X // 64, X[::-1] // 64)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_exact(name: str) -> None:
    function, oracle, arrays = PRODUCTS[name]
    wanted = oracle(*map(exactly, arrays))
    same(function(*map(Tensor, arrays)), wanted)
    strided = [np.repeat(x[::-1], 2, -1)[::-1, ..., ::2] if x.ndim > 1 else np.repeat(x, 3)[::3] for x in arrays]
    same(function(*map(Tensor, strided)), wanted)


def test_nothing_to_multiply() -> None:
    zeros = Tensor(np.zeros((3, 0), np.int64))
    same(zeros @ Tensor(np.zeros((0, 2), np.int64)), np.zeros((3, 2)))
    same(F.linear(Tensor(np.zeros((0, 4), np.int64)), Tensor(X)), np.zeros((0, 3)))
    same(F.conv1d(Tensor(np.zeros((0, 2, 5), np.int64)), Tensor(np.ones((3, 2, 2), np.int64))), np.zeros((0, 3, 4)))


@pytest.mark.parametrize("transposed", [False, True])
def test_convolution_is_exact(transposed: bool) -> None:
    x, w, b = large(2, 4, 6, 5), large(4, 3, 2, 3, seed=1), large(6, seed=2)
    stride, padding, dilation, groups = (2, 1), (1, 2), (1, 2), 2
    if transposed:
        y = F.conv_transpose2d(Tensor(x), Tensor(w), Tensor(b), stride, padding, 0, groups, dilation)
    else:
        w = w.reshape(6, 2, 2, 3)
        y = F.conv2d(Tensor(x), Tensor(w), Tensor(b), stride, padding, dilation, groups)
    wanted = np.zeros(y.shape, object) + exactly(b)[:, None, None]
    big, small = (wanted, exactly(x)) if transposed else (exactly(x), wanted)
    inner, outer = w.shape[1], len(w) // groups  # channels of a group: of the larger side, of the smaller one
    for n, g, c, k in itertools.product(range(2), range(groups), range(inner), range(outer)):
        for r in np.ndindex(w.shape[2:]):
            for o in np.ndindex(small.shape[2:]):
                i = tuple(o[d] * stride[d] + r[d] * dilation[d] - padding[d] for d in range(2))
                if all(0 <= i[d] < big.shape[2 + d] for d in range(2)):
                    at, to = (n, g * inner + c, *i), (n, g * outer + k, *o)
                    factor = int(w[(g * outer + k, c, *r)])
                    if transposed:
                        big[at] += factor * small[to]
                    else:
                        small[to] += factor * big[at]
    same(y, wanted)


def test_convolution_in_every_form() -> None:
    """The algorithm does not change the result; non-zero padding is applied first."""
    x, w = large(2, 3, 6, 5), large(4, 3, 3, 3)
    plain = F.conv2d(Tensor(x), Tensor(w), padding=1)
    for algorithm in ("winograd", "direct", "pytorch"):
        same(F.conv2d(Tensor(x), Tensor(w), padding=1, algorithm=algorithm), exactly(plain.array))
    around = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), "reflect")
    wanted = F.conv2d(Tensor(around), Tensor(w))
    same(F.conv2d(Tensor(x), Tensor(w), padding=1, padding_mode="reflect"), exactly(wanted.array))


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("divisor", [None, -3])
def test_pooling_is_exact(inside: bool, divisor: int | None) -> None:
    x, extents = large(2, 3, 6, 5, most=2**58), (6, 5)
    y, places = F.max_pool2d(Tensor(x), 3, 2, 1, return_indices=True)
    mean = F.avg_pool2d(Tensor(x), 3, 2, 1, True, not inside, divisor)
    for n, c, *o in np.ndindex(mean.shape):
        spans = [range(max(0, 2 * k - 1), min(e, 2 * k + 2)) for k, e in zip(o, extents, strict=True)]
        window = [int(x[n, c, i, j]) for i, j in itertools.product(*spans)]
        around = [min(e + 1, 2 * k + 2) - (2 * k - 1) for k, e in zip(o, extents, strict=True)]
        count = divisor or (len(window) if inside else around[0] * around[1])
        assert mean[n, c, *o].item() == cut(sum(window), count)
        if o[0] < y.shape[2] and o[1] < y.shape[3]:
            assert y[n, c, *o].item() == max(window)
            assert x[n, c].flat[places[n, c, *o].item()] == max(window)
    assert mean.dtype == y.dtype == np.int64


@pytest.mark.parametrize("dtype", [np.int64, np.bool_])
@pytest.mark.parametrize(
    ("name", "oracle"),
    [
        ("exp", np.exp),
        ("log", np.log),
        ("sqrt", np.sqrt),
        ("rsqrt", lambda x: 1 / np.sqrt(x)),
        ("reciprocal", lambda x: 1 / x),
        ("sin", np.sin),
        ("tanh", np.tanh),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
        ("logit", lambda x: np.log(x / (1 - x))),
    ],
)
def test_of_integers_in_float32(name: str, oracle: Any, dtype: Any) -> None:
    x = np.array([[0, 1, 2], [3, 1, -1]]).astype(dtype)
    for array in (x, x.T[::-1], x[:0], x[0, 1], LARGE * np.ones(2, dtype)):
        y = getattr(retrograd, name)(Tensor(np.asarray(array)))
        assert y.dtype == np.float32
        with np.errstate(all="ignore"):
            wanted = oracle(np.asarray(array, np.float32).astype(np.float64))
            np.testing.assert_allclose(y.array, wanted.astype(np.float32), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_types_promote_in_every_order(order: tuple[int, ...]) -> None:
    """0-d tensors and numbers do not change the dtype of a tensor with axes, unless their category is higher."""
    i, f, d = np.array([2, 3]), np.array([0.5, 1.5], np.float32), np.array(2.0)
    for kinds, wanted in (
        ((i, f, i), np.float32),
        ((i, i > 2, i), np.int64),
        ((i, d, i), np.float64),
        ((f, d, i), np.float32),
        ((f, i, f.astype(np.float64)), np.float64),
    ):
        operands = [kinds[k] for k in order]
        y = retrograd.addcmul(*map(Tensor, operands), value=2)
        assert y.dtype == wanted
        np.testing.assert_array_equal(y.array, operands[0] + 2.0 * operands[1] * operands[2])
        low, high = Tensor(np.minimum(operands[1], operands[2])), Tensor(np.maximum(operands[1], operands[2]))
        z = retrograd.clamp(Tensor(operands[0]), low, high)
        np.testing.assert_array_equal(z.array, np.clip(operands[0] * 1.0, low.array, high.array))


def test_a_gradient_flows_through_a_promotion() -> None:
    x, i = Tensor([0.5, 2.0], requires_grad=True), Tensor([3, -4])
    (retrograd.addcmul(i, x, i, value=2) * Tensor([1.0, 10.0])).sum().backward()
    np.testing.assert_array_equal(x.grad.array, [6, -80])
    x.grad = None
    F.mse_loss(x, i, reduction="sum").backward()
    np.testing.assert_array_equal(x.grad.array, [-5, 12])


@pytest.mark.parametrize("name", ["hypot", "logaddexp"])
def test_integers_beside_numbers_that_are_none(name: str) -> None:
    operator, x, i = getattr(retrograd, name), np.float32([0.5, -2.0]), np.array([3, -4])
    wanted = getattr(np, name)(x, i.astype(np.float32))
    for y in (operator(Tensor(x), Tensor(i)), operator(Tensor(i), Tensor(x))):
        assert y.dtype == np.float32
        np.testing.assert_allclose(y.array, wanted, rtol=1e-6)


@pytest.mark.parametrize(("own", "other"), [("float32", "float64"), ("float64", "float32"), ("float32", "bool")])
def test_huber_loss_has_the_type_of_its_input(own: str, other: str) -> None:
    x, t = Tensor(np.array([0.5, 3.0], own), requires_grad=True), Tensor(np.array([1, 0], other))
    for reduction, wanted in (("none", [0.125, 2.5]), ("sum", 2.625), ("mean", 1.3125)):
        loss = F.huber_loss(x, t, reduction)
        assert loss.dtype == own and loss.tolist() == wanted
    (gx,) = retrograd.autograd.grad(F.huber_loss(x, t, "sum"), x)
    assert gx.dtype == own and gx.tolist() == [-0.5, 1]


def test_differences_are_taken_before_they_are_rounded() -> None:
    x, y = retrograd.tensor([[LARGE, 1]]), retrograd.tensor([[LARGE - 3, 5]])
    np.testing.assert_allclose(F.pairwise_distance(x, y, 2.0, 0.0).array, [5])
    np.testing.assert_allclose(F.margin_ranking_loss(x, y, retrograd.tensor([[-1, -1]])).array, 1.5)
    np.testing.assert_allclose(F.triplet_margin_loss(x, y, x + 1, eps=0.0).array, 6 - 2**0.5, rtol=1e-6)


def test_larger_and_smaller_of_two() -> None:
    a, b = retrograd.tensor([[1, 5], [2, 2]]), retrograd.tensor([3, 2])
    assert retrograd.max(a, b).tolist() == a.max(other=b).tolist() == [[3, 5], [3, 2]]
    assert retrograd.min(a, other=b).tolist() == a.min(b).tolist() == [[1, 2], [2, 2]]
    assert a.max(Tensor(np.int64(0))).tolist() == a.tolist()  # no axis 0
    assert retrograd.max(a, Tensor(2.5)).dtype == np.float32
    assert retrograd.max(a > 2, retrograd.tensor([True, False])).tolist() == [[True, True], [True, False]]


K, B = retrograd.tensor([[1, 2], [3, 4]]), retrograd.tensor([[True, False], [True, True]])
BOTH = "both must be float32, both float64 or both int64: convert"
X1 = Tensor([[0.5, 1.0], [1.5, 2.0]])
NO_DIFFERENCE = "is bool, needs numbers; convert it to integers, or use ~x to invert a mask and x ^ y for where two"
NO_FLOAT = "needs float32 or float64; convert one with .float()"
REFUSALS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: K.max(K, True), TypeError, "max: two tensors do not allow dim or keepdim"),
    (lambda: retrograd.min(K, 0, other=K), TypeError, "min: two tensors do not allow dim or keepdim"),
    (lambda: K.max(other=2), TypeError, "max: other is int, needs a Tensor"),
    (lambda: K @ B, TypeError, f"matmul: input is int64, other is bool; {BOTH}"),
    (lambda: B @ B, TypeError, f"matmul: input is bool, other is bool; {BOTH}"),
    (lambda: K @ K.float(), TypeError, f"matmul: input is int64, other is float32; {BOTH}"),
    (lambda: retrograd.einsum("ij,jk->ik", B, B), TypeError, f"einsum: ij is bool, jk is bool; {BOTH}"),
    (lambda: F.linear(K, K, Tensor([1.0, 2.0])), TypeError, f"linear: weight is int64, bias is float32; {BOTH}"),
    (lambda: B - B, TypeError, f"sub: input {NO_DIFFERENCE}"),
    (lambda: B - K, TypeError, f"sub: input {NO_DIFFERENCE}"),
    (lambda: K - B, TypeError, f"sub: other {NO_DIFFERENCE}"),
    (lambda: X1 - True, TypeError, f"sub: other {NO_DIFFERENCE}"),
    (lambda: np.True_ - X1, TypeError, f"sub: input {NO_DIFFERENCE}"),
    (lambda: 1 - B, TypeError, f"sub: other {NO_DIFFERENCE}"),
    (lambda: retrograd.sub(K, B, alpha=2), TypeError, f"sub: other {NO_DIFFERENCE}"),
    (lambda: X1.clone().sub_(True), TypeError, f"sub: other {NO_DIFFERENCE}"),
    (lambda: X1.clone().__isub__(True), TypeError, f"sub: other {NO_DIFFERENCE}"),
    (lambda: B.clone().__isub__(B), TypeError, f"sub: input {NO_DIFFERENCE}"),
    (lambda: retrograd.hypot(K, K), TypeError, f"hypot: input and other promote to int64, {NO_FLOAT}"),
    (lambda: retrograd.hypot(B, 3), TypeError, f"hypot: input and other promote to int64, {NO_FLOAT}"),
    (lambda: K.clone().hypot_(K), TypeError, f"hypot: input and other promote to int64, {NO_FLOAT}"),
    (lambda: retrograd.logaddexp(K, B), TypeError, f"logaddexp: input and other promote to int64, {NO_FLOAT}"),
    (lambda: B.logaddexp(B), TypeError, f"logaddexp: input and other promote to bool, {NO_FLOAT}"),
    (lambda: F.l1_loss(X1, B), TypeError, "l1_loss: target is bool, needs float32 or float64"),
    (lambda: F.l1_loss(B, X1, reduction="sum"), TypeError, "l1_loss: input is bool, needs float32 or float64"),
    (lambda: F.huber_loss(K, X1), TypeError, "huber_loss: input is int64, needs float32 or float64"),
    (lambda: F.huber_loss(B, X1), TypeError, "huber_loss: input is bool, needs float32 or float64"),
    (lambda: F.mse_loss(B, K), TypeError, "mse_loss: input is bool, needs float32 or float64"),
    (lambda: F.smooth_l1_loss(K, B), TypeError, "smooth_l1_loss: input is int64, needs float32 or float64"),
    (lambda: retrograd.add(K, K, alpha=0.5), TypeError, "add: alpha=0.5 cannot scale int64; use an int, or convert"),
    (lambda: retrograd.add(K, K, alpha="2"), TypeError, "add: alpha is str, needs a number"),
    (lambda: retrograd.addr(K, K[0], K[0], beta=1.0), TypeError, "addr: beta=1.0 cannot scale int64; use an int"),
    (lambda: retrograd.addmm(K, K, K, alpha=np.inf), ValueError, "addmm: alpha=inf does not fit int64; convert"),
    (lambda: retrograd.addcmul(B, B, B), TypeError, "addcmul: input is bool, needs float32 or float64"),
    (lambda: retrograd.addcdiv(K.float(), K, B), TypeError, "addcdiv: tensor1 is int64, tensor2 is bool; one must be"),
    (lambda: F.relu(B), TypeError, "relu: input is bool, needs float32 or float64"),
    (lambda: F.hardtanh(K, -np.inf, 2), ValueError, "hardtanh: min_val=-inf does not fit int64; convert the"),
    (lambda: F.threshold(K, 0, 1e30), ValueError, "threshold: value=1e+30 does not fit int64"),
    (lambda: F.softsign(B), TypeError, "softsign: input is bool, needs float32 or float64"),
    (lambda: F.tanhshrink(B), TypeError, "tanhshrink: input is bool, needs float32 or float64"),
    (lambda: F.gelu(K), TypeError, "gelu: input is int64, needs float32 or float64; convert it with input.float()"),
    (lambda: retrograd.frac(K), TypeError, "frac: input is int64, needs float32 or float64"),
    (lambda: K.mean(), TypeError, "mean: input is int64, needs float32 or float64"),
    (lambda: K.var(), TypeError, "var: input is int64, needs float32 or float64"),
    (lambda: F.l1_loss(K, K), TypeError, "l1_loss: input is int64, needs float32 or float64"),
    (lambda: F.kl_div(K.float(), K, reduction="sum"), TypeError, "kl_div: target is int64, needs float32 or float64"),
    (lambda: F.pairwise_distance(K, B), TypeError, "pairwise_distance: x2 is bool, needs float32 or float64"),
    (lambda: F.cosine_similarity(K, K), TypeError, "cosine_similarity: x1 is int64, needs float32 or float64"),
    (lambda: F.margin_ranking_loss(K, K, B), TypeError, "margin_ranking_loss: target is bool, needs float32"),
    (lambda: F.unfold(K[None, None], 2), TypeError, "unfold: input is int64, needs float32 or float64"),
    (lambda: F.softmin(K, 0), TypeError, "softmin: input is int64, needs float32 or float64"),
    (lambda: F.dropout(K), TypeError, "dropout: input is int64, needs float32 or float64"),
    (lambda: K.exp_(), TypeError, "exp_: the result is float32, which input of int64 cannot hold"),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSALS)
def test_refusals(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)


def test_a_mask_beside_a_floating_point_operand_is_a_number():
    """PyTorch rejects this, but its Tensor(bool array) holds numbers, where ours holds booleans."""
    one, mask = np.array([[1.0, 0.0], [1.0, 1.0]], np.float32), np.array([[0.5, 1.0], [1.5, 2.0]], np.float32)
    for result, wanted in ((1.0 - B, 1 - one), (X1 - B, mask - one), (B - X1, one - mask), (X1 - B[0, 0], mask - 1)):
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result.numpy(), wanted)


SMALL = ("uint8", "int8", "int16", "int32", "int64")


@pytest.mark.parametrize("kind", ["bool", *SMALL])
def test_sum_to_size_of_integers(kind: str) -> None:
    x = np.arange(24).reshape(2, 3, 4).astype(kind)
    for size in ((3, 4), (2, 1, 4), (1, 1), (), (2, 3, 4), (1, 2, 3, 4)[1:]):
        found = Tensor(x).sum_to_size(size)
        wanted = x.astype(np.int64)
        while wanted.ndim > len(size):
            wanted = wanted.sum(0)
        for axis, extent in enumerate(size):
            wanted = wanted.sum(axis, keepdims=True) if extent == 1 else wanted
        np.testing.assert_array_equal(found.array, wanted)
        assert found.dtype == (kind if size == x.shape else np.int64)
    for wrong in ((4, 4), (1, 2, 3, 4), (2, 2, 4)):
        with pytest.raises(ValueError, match=r"sum_to_size: size=.* does not broadcast to input.shape=\(2, 3, 4\)"):
            Tensor(x).sum_to_size(wrong)


def test_bytes_do_not_wrap_in_floating_point_results() -> None:
    x = Tensor(np.array([[1, 9, 3, 200, 100]], np.uint8))
    assert retrograd.gradient(x, dim=1)[0].tolist() == [[8, 1, 95.5, 48.5, -100]]
    assert retrograd.trapezoid(x).tolist() == [5 + 6 + 101.5 + 150]
    assert retrograd.trapezoid(x, Tensor(np.array([9, 8, 6, 5, 1], np.uint8))).tolist() == [-5 - 12 - 101.5 - 600]
    y = Tensor(np.array([[[0, 9, 3, 255]]], np.uint8))
    assert F.lp_pool1d(y, float("inf"), 2).tolist() == [[[9, 255]]]
    assert F.lp_pool1d(y, float("-inf"), 2).tolist() == [[[0, 3]]]


_IN_FLOATS: dict[str, tuple[Callable[..., Any], Callable[[float, float], float]]] = {
    "ldexp": (retrograd.ldexp, lambda x, y: x * 2**y),
    "xlog1py": (retrograd.special.xlog1py, lambda x, y: x * math.log1p(y)),
    "atan2": (retrograd.atan2, math.atan2),
    "true_divide": (retrograd.true_divide, lambda x, y: x / y),
}


@pytest.mark.parametrize("name", _IN_FLOATS)
@pytest.mark.parametrize("kind", ["uint8", "int8", "int16"])
def test_numbers_do_not_wrap_in_floating_point_results(name: str, kind: str) -> None:
    """A 0-d tensor, and for most operators a number, that the small type of the other operand cannot hold."""
    function, exact = _IN_FLOATS[name]
    x = Tensor(np.array([7, 9], kind))
    for number in (Tensor(np.array(99_999)),) if name == "ldexp" else (99_999, Tensor(np.array(99_999))):
        np.testing.assert_allclose(function(number, x).numpy(), [exact(99_999, 7), exact(99_999, 9)], rtol=1e-5)
        if name == "ldexp":
            assert np.isinf(function(x, number).numpy()).all()
        else:
            np.testing.assert_allclose(function(x, number).numpy(), [exact(7, 99_999), exact(9, 99_999)], rtol=1e-5)


def test_powers_and_zeta_of_numbers_that_do_not_fit() -> None:
    x = Tensor(np.array([2, 3], np.int8))
    np.testing.assert_allclose(retrograd.float_power(300, x).numpy(), [300**2, 300**3], rtol=1e-14)
    np.testing.assert_allclose(
        retrograd.float_power(x, Tensor(np.array(300))).numpy(), [2.0**300, 3.0**300], rtol=1e-12
    )
    large = 2.0**20  # the sum of (large + k)**-x is close to its integral
    for number in (2**20, Tensor(np.array(2**20))):
        np.testing.assert_allclose(retrograd.special.zeta(x, number).numpy(), [1 / large, 0.5 / large**2], rtol=1e-5)


def test_float_power_takes_numbers_in_float64() -> None:
    power = retrograd.float_power(Tensor(np.array([7.0], np.float32)), 0.1)
    np.testing.assert_allclose(power.numpy(), [7**0.1], rtol=1e-15)


@pytest.mark.parametrize("kind", SMALL)
def test_means_keep_the_type(kind: str) -> None:
    x, index = Tensor(np.array([[1, 4], [6, 9]], kind)), Tensor(np.array([0, 0]))
    y = x.index_reduce(1, index, x, "mean")
    assert y.dtype == kind and y.tolist() == [[2, 4], [7, 9]]
    z = x.scatter_reduce(1, index.expand(2, 2), x, "mean", include_self=False)
    assert z.dtype == kind and z.tolist() == [[2, 4], [7, 9]]


def test_refusals_of_integers_by_name() -> None:
    x, index = Tensor(np.array([[[3, 4, 5]]])), Tensor(np.array([0]))
    with pytest.raises(TypeError, match="index_add: alpha=1.5 cannot scale int64; use an int"):
        x.index_add(1, index, x, alpha=1.5)
    assert x.index_add(1, index, x, alpha=2).tolist() == [[[9, 12, 15]]]
    with pytest.raises(TypeError, match="local_response_norm: input is int32, needs float32 or float64"):
        F.local_response_norm(x.int(), 2)
    with pytest.raises(TypeError, match="hinge_embedding_loss: input is int64, needs float32 or float64"):
        F.hinge_embedding_loss(x, Tensor(np.array([[[1, -1, 1]]])))
