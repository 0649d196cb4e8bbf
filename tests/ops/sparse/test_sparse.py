"""Sparse tensors compared with dense arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.autograd import gradcheck, gradgradcheck

SHAPES = [(5, 4, 7), (1, 3, 0), (6, 2, 30), (3, 3, 1)]  # rows, columns, entries


def entries(rows: int, columns: int, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return indices, some of them repeated, and values."""
    rng = np.random.default_rng(seed)
    places = np.stack([rng.integers(0, rows, count), rng.integers(0, columns, count)])
    return places, rng.normal(size=count)


def dense(places: np.ndarray, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    array = np.zeros(shape)
    for place, value in zip(places.T, values, strict=True):
        array[tuple(place)] += value
    return array


@pytest.mark.parametrize(("rows", "columns", "count"), SHAPES)
def test_forms(kernel_set: Any, rows: int, columns: int, count: int) -> None:
    places, values = entries(rows, columns, count)
    a, expected = rg.sparse_coo_tensor(places, values, (rows, columns)), dense(places, values, (rows, columns))
    np.testing.assert_allclose(a.to_dense().array, expected)
    np.testing.assert_allclose(a.t().to_dense().array, expected.T)
    np.testing.assert_allclose((a * 3).to_dense().array, expected * 3)
    np.testing.assert_allclose((-a / 2).to_dense().array, -expected / 2)
    np.testing.assert_allclose((a + a.coalesce()).to_dense().array, expected * 2, atol=1e-15)
    np.testing.assert_allclose((a - rg.ones(rows, columns).double()).array, expected - 1)
    np.testing.assert_allclose(a.float().to_dense().array, expected.astype(np.float32), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(rg.sparse.sum(a).array, expected.sum(), atol=1e-12)
    np.testing.assert_allclose(rg.sparse.sum(a, 1).array, expected.sum(1), atol=1e-12)
    once = a.coalesce()
    assert once.is_coalesced() and not a.is_coalesced() and a._nnz() == count
    order = np.unique(places, axis=1)
    np.testing.assert_array_equal(once.indices().array, order)
    np.testing.assert_allclose(once.values().array, [expected[tuple(place)] for place in order.T])
    back = rg.tensor(expected).to_sparse()
    np.testing.assert_array_equal(back.to_dense().array, expected)
    mask = np.random.default_rng(1).normal(size=(rows, columns))
    np.testing.assert_allclose((a * rg.tensor(mask)).to_dense().array, expected * mask)
    assert a.shape == a.size() == (rows, columns) and a.size(1) == columns and a.is_sparse and a.ndim == 2
    assert not rg.zeros(1).is_sparse


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "columns", "count"), SHAPES)
def test_products(kernel_set: Any, rows: int, columns: int, count: int, dtype: type) -> None:
    places, values = entries(rows, columns, count)
    a, expected = rg.sparse_coo_tensor(places, values.astype(dtype)), dense(places, values, (rows, columns))
    a = rg.sparse_coo_tensor(places, values.astype(dtype), (rows, columns))
    x = np.random.default_rng(2).normal(size=(columns, 9)).astype(dtype)
    close: Any = {"rtol": 1e-5 if dtype is np.float32 else 1e-12, "atol": 1e-5 if dtype is np.float32 else 1e-12}
    for y in (a @ rg.tensor(x), rg.spmm(a, rg.tensor(x)), rg.sparse.mm(a, rg.tensor(x)), rg.mm(a, rg.tensor(x))):
        assert y.dtype == dtype
        np.testing.assert_allclose(y.array, expected @ x, **close)
    np.testing.assert_allclose(rg.matmul(a, rg.tensor(x[:, 0])).array, expected @ x[:, 0], **close)
    np.testing.assert_allclose((rg.tensor(x[:, :rows].T.copy()) @ a.t()).array, x[:, :rows].T @ expected.T, **close)
    whole = rg.sparse.addmm(rg.ones(rows, 9).to(y.dtype), a, rg.tensor(x), beta=2, alpha=3)
    np.testing.assert_allclose(whole.array, 2 + 3 * (expected @ x), **close)


@pytest.mark.parametrize(("rows", "columns", "count"), SHAPES)
def test_gradients(rows: int, columns: int, count: int) -> None:
    places, values = entries(rows, columns, count, seed=3)
    x = rg.tensor(np.random.default_rng(4).normal(size=(columns, 3))).requires_grad_()
    v = rg.tensor(values).requires_grad_()

    def make(v: rg.Tensor) -> Any:
        return rg.sparse_coo_tensor(places, v, (rows, columns))

    for function in (
        lambda v, x: make(v) @ x,
        lambda v, x: (make(v).coalesce() * 2) @ x,
        lambda v, x: x.t() @ make(v).t(),
        lambda v, x: (make(v) + make(v)).to_dense() @ x,
    ):
        assert gradcheck(function, (v, x)) and gradgradcheck(function, (v, x))
    w = rg.tensor(np.where(np.random.default_rng(5).random((3, 4)) < 0.5, 0, 1.5)).requires_grad_()
    other, g = np.random.default_rng(6).normal(size=(4, 2)), np.random.default_rng(7).normal(size=(3, 2))
    (w.to_sparse() @ rg.tensor(other)).backward(rg.tensor(g))
    np.testing.assert_allclose(w.grad.array, np.where(w.array != 0, g @ other.T, 0), rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_])
@pytest.mark.parametrize("count", [1, 2, 3, None])
def test_dense_axes(kernel_set: Any, dtype: type, count: int | None) -> None:
    """In to_sparse(count), values are the subarrays along the other axes that have a nonzero element."""
    rng = np.random.default_rng(8)
    x = (3 * rng.normal(size=(4, 3, 2)) * (rng.random((4, 3, 1)) < 0.6) * (rng.random((4, 1, 1)) < 0.6)).astype(dtype)
    t = rg.tensor(x, requires_grad=dtype in (np.float32, np.float64))
    s = t.to_sparse() if count is None else t.to_sparse(count)
    places = [place for place in np.ndindex(x.shape[:count]) if x[place].any()]
    assert s.indices().array.T.tolist() == [list(place) for place in places] and s.is_coalesced()
    np.testing.assert_array_equal(s.values().detach().array, np.array([x[place] for place in places]))
    assert (s.sparse_dim(), s.dense_dim(), s.shape) == (count or 3, 3 - (count or 3), x.shape)
    other = rng.normal(size=x.shape).astype(dtype)
    both = (s * 2 + s * rg.tensor(other)).coalesce()
    assert both._nnz() == len(places)
    np.testing.assert_allclose(both.to_dense().detach().array, x * 2 + x * other, rtol=1e-5)
    if t.requires_grad:
        g = rng.normal(size=x.shape).astype(dtype)
        both.to_dense().backward(rg.tensor(g))
        kept = np.zeros(x.shape, np.bool_)
        for place in places:
            kept[place] = True
        np.testing.assert_allclose(t.grad.array, np.where(kept, g * (2 + other), 0), rtol=1e-5)


def test_values_of_several_axes() -> None:
    places, values, g = np.array([[0, 2, 0], [1, 1, 1]]), np.arange(12.0).reshape(3, 4), np.random.default_rng(9)
    v = rg.tensor(values, requires_grad=True)
    s = rg.sparse_coo_tensor(places, v)
    expected = np.zeros((3, 2, 4))
    expected[0, 1], expected[2, 1] = values[0] + values[2], values[1]
    assert s.shape == (3, 2, 4) and s.coalesce().values().shape == (2, 4)
    upstream = g.normal(size=(2, 3, 4))
    dense = s.transpose(0, -2).to_dense()
    np.testing.assert_array_equal(dense.detach().array, expected.swapaxes(0, 1))
    dense.backward(rg.tensor(upstream))
    np.testing.assert_array_equal(v.grad.array, upstream[[1, 1, 1], [0, 2, 0]])
    empty = rg.zeros(0, 3).to_sparse(1)
    assert empty._nnz() == 0 and empty.to_dense().shape == (0, 3)
    assert rg.tensor(5.0).to_sparse().to_dense().item() == 5.0


def test_older_forms() -> None:
    a = rg.sparse.FloatTensor(rg.tensor([[0, 1], [1, 0]]), rg.tensor([1.0, 2.0]), (2, 2))
    assert a.dtype == rg.float32 and a.to_dense().tolist() == [[0.0, 1.0], [2.0, 0.0]]
    assert rg.sparse.DoubleTensor([[0], [1]], [3], (2, 2)).dtype == rg.float64
    assert rg.sparse_coo_tensor([[0, 4], [1, 0]], [1.0, 2.0]).shape == (5, 2)
    cube = rg.sparse_coo_tensor([[1, 0], [0, 1], [2, 2]], [1.0, 2.0], (2, 2, 3))
    assert cube.to_dense().array[1, 0, 2] == 1.0 and cube.to_dense().array.sum() == 3.0
    assert a.cpu() is a and repr(a).endswith("size=(2, 2), nnz=2, layout=retrograd.sparse_coo)")


@pytest.mark.parametrize("dtype", [np.int64, np.bool_])
def test_integers_and_truth_values(dtype: type) -> None:
    places, values = entries(4, 3, 9)
    numbers = (values * 3).astype(dtype)
    expected = np.zeros((4, 3), dtype)
    np.add.at(expected, tuple(places), numbers)
    a = rg.sparse_coo_tensor(places, numbers, (4, 3))
    np.testing.assert_array_equal(a.to_dense().array, expected)
    np.testing.assert_array_equal(a.coalesce().to_dense().array, expected)
    np.testing.assert_array_equal(rg.tensor(expected).to_sparse().to_dense().array, expected)


def test_a_function_may_save_one() -> None:
    """Many scripts have graph attention layers that do this."""

    class Spmm(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, values: rg.Tensor, x: rg.Tensor) -> rg.Tensor:
            a = rg.sparse_coo_tensor([[0, 1], [1, 0]], values, (2, 2))
            ctx.save_for_backward(a, x)
            return rg.matmul(a, x)

        @staticmethod
        def backward(ctx: Any, g: rg.Tensor) -> Any:
            a, x = ctx.saved_tensors
            rows, columns = a._indices()
            return (g[rows] * x[columns]).sum(1), a.t().matmul(g)

    values, x = rg.randn(2).double().requires_grad_(), rg.randn(2, 3).double().requires_grad_()
    assert gradcheck(Spmm.apply, (values, x))


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda a: a.indices(), RuntimeError, "indices: an index may occur twice; call coalesce"),
        (lambda a: a @ rg.ones(4, 2), ValueError, r"sparse matrix has shape \(2, 3\), other.shape=\(4, 2\) must be"),
        (lambda a: a @ rg.ones(3).double(), TypeError, "the sparse matrix is float32, other is float64"),
        (lambda a: a @ rg.ones(3).long(), TypeError, "other is int64, needs float32 or float64"),
        (lambda a: rg.spmm(rg.ones(2, 2), rg.ones(2, 2)), TypeError, "one must be a sparse matrix"),
        (lambda a: rg.sparse.sum(rg.ones(2)), TypeError, "input is Tensor, needs a SparseTensor"),
        (lambda a: a + rg.sparse_coo_tensor([[0]], [1.0]), ValueError, "must be equal"),
        (lambda a: a * rg.ones(2, 2), ValueError, r"shapes \(2, 3\) and \(2, 2\) must be equal"),
        (lambda a: a.cuda(), RuntimeError, "cuda"),
        (lambda a: rg.sparse_coo_tensor([[0]], [1.0]).t(), ValueError, "is not a sparse matrix"),
        (lambda a: rg.sparse_coo_tensor([[0], [3]], [1.0], (2, 3)), ValueError, r"indices\[1\] contains 3.* below 3"),
        (lambda a: rg.sparse_coo_tensor([[-1], [0]], [1.0], (2, 3)), ValueError, r"indices\[0\] contains -1"),
        (lambda a: rg.sparse_coo_tensor([[0], [0]], [1.0, 2.0], (2, 3)), ValueError, r"must be \(sparse_dim, K\) and"),
        (lambda a: rg.sparse_coo_tensor([[0]], [[1.0]], (2,)), ValueError, "1 axes, .* 1 rows and each value 1 axes"),
        (lambda a: rg.sparse_coo_tensor([[0]], [[1.0]], (2, 3)), ValueError, r"size=\(2, 3\) must end in \(1,\)"),
        (lambda a: rg.ones(2, 3).to_sparse(3), ValueError, r"sparse_dim=3 must be from 1 to 2, the number of axes"),
        (lambda a: rg.ones(2, 3).to_sparse(0), ValueError, r"sparse_dim=0 must be from 1 to 2"),
        (lambda a: rg.ones(2, 3).to_sparse(1.0), TypeError, r"to_sparse: sparse_dim=1.0 must be an int"),
        (lambda a: rg.ones(2, 3).to_sparse(1) + a, ValueError, "add: 1 and 2 sparse axes must be equal"),
        (lambda a: rg.ones(2, 3).to_sparse(1).transpose(0, 1), ValueError, "among the 1 sparse axes"),
        (lambda a: a.transpose(0, 2), IndexError, "transpose: dim1=2 is out of range"),
        (lambda a: rg.ones(2, 3).to_sparse(1) @ rg.ones(3), ValueError, r"with 1 dense axes is not a sparse matrix"),
        (lambda a: rg.sparse_coo_tensor([[0]], [1.0], (2, 3)), ValueError, "has 2 axes, indices have 1 rows"),
        (lambda a: rg.sparse_coo_tensor([[0.5]], [1.0]), TypeError, "indices are float32, need int64"),
        (lambda a: rg.sparse_coo_tensor([[0]], [1.0], requires_grad=True), ValueError, "pass values that require"),
    ],
)
def test_messages(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call(rg.sparse_coo_tensor([[0, 1], [2, 0]], [1.0, 2.0], (2, 3)))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float64])
def test_dense_beside_sparse(dtype: Any) -> None:
    """Sums with a dense tensor on the left, and integer entries, some of them at the same place."""
    indices = np.array([[0, 1, 0], [2, 0, 2]])
    sparse = rg.sparse_coo_tensor(rg.tensor(indices), rg.tensor(np.array([3, 4, 5], dtype)), (2, 3))
    matrix = np.zeros((2, 3), dtype)
    np.add.at(matrix, (indices[0], indices[1]), [3, 4, 5])
    dense = np.arange(6).reshape(2, 3).astype(dtype)
    for result, wanted in (
        (rg.tensor(dense) + sparse, dense + matrix),
        (rg.tensor(dense) - sparse, dense - matrix),
        (sparse - rg.tensor(dense), matrix - dense),
        (rg.tensor(dense) * sparse, dense * matrix),
        (sparse.coalesce(), matrix),
    ):
        found = result if isinstance(result, rg.Tensor) else result.to_dense()
        np.testing.assert_array_equal(found.numpy(), wanted)
        assert found.dtype == dtype
    assert sparse.coalesce().indices().tolist() == [[0, 1], [2, 0]]
