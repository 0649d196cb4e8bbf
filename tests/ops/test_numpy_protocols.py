"""NumPy functions of Tensors: values as for arrays, gradients checked by finite differences, and errors."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from conftest import numpy_2
from retrograd.engine.operator import OPERATORS
from retrograd.nn import Parameter
from retrograd.ops.numpy_protocols import FUNCTIONS

_DRAWN = np.random.default_rng(0)
A, B = _DRAWN.uniform(0.5, 1.5, (2, 3, 4))
SQUARE = _DRAWN.uniform(size=(3, 3)) + 3 * np.eye(3)

_REDUCED = ("all", "any", "max", "mean", "min", "nansum", "prod", "std", "sum", "var")
_OVER_ONE = (*_REDUCED, "amax", "amin", "average", "cumprod", "cumsum", "median", "nanmean", "ptp")
CALLS = [
    *(f"np.{name}(a{axis})" for name in _OVER_ONE for axis in ("", ", axis=1")),
    *(f"np.{name}(a, keepdims=True)" for name in _REDUCED),
    *(f"np.{name}(a, axis={axis})" for name in _REDUCED for axis in ("0, keepdims=True", "(-1, 0)")),
    *(f"np.{name}(a)" for name in ("argmax", "argmin", "argwhere", "count_nonzero", "nonzero")),
    *("np.argmax(a, axis=1, keepdims=True)", "np.count_nonzero(a > 1, axis=0)", "np.std(a, ddof=1)"),
    *("np.sum(a, 0, float)", "np.quantile(a, 0.3)", "np.quantile(a, [0.3, 0.6], axis=1)"),
    *("np.percentile(a, 30, axis=0)", "np.diff(a)", "np.diff(a, 2, axis=0)", "np.sort(a)", "np.sort(a, axis=None)"),
    *("np.argsort(a, axis=0)", "np.argsort(a, None)", "np.flip(a)", "np.flip(a, 1)", "np.fliplr(a)", "np.flipud(a)"),
    *("np.rot90(a)", "np.rot90(a, 2)", "np.roll(a, 1)", "np.roll(a, 1, axis=0)", "np.transpose(a)"),
    *("np.transpose(a[None], (1, 2, 0))", "np.swapaxes(a, 0, 1)", "np.moveaxis(a, 0, 1)", "np.squeeze(a[None])"),
    *("np.squeeze(a[None], axis=0)", "np.expand_dims(a, 1)", "np.expand_dims(a, (0, -1))", "np.reshape(a, (4, 3))"),
    *("np.reshape(a, -1)", "np.ravel(a)", "np.broadcast_to(a, (2, 3, 4))", "np.concatenate([a, b])"),
    *("np.concatenate((a, b), axis=None)", "np.stack([a, b], 1)", "np.vstack([a, b])", "np.hstack([a, b])"),
    *("np.dstack([a, b])", "np.column_stack([a, b])", "np.split(a, 2, axis=1)", "np.array_split(a, 2)"),
    *("np.hsplit(a, 2)", "np.vsplit(a, 3)", "np.tile(a, (2, 1))", "np.repeat(a, 2)", "np.repeat(a, 2, axis=0)"),
    *("np.take(a, [1, 2])", "np.take(a, [1, 2], axis=-1)", "np.where(a > 1, a, b)"),
    *("np.take_along_axis(a, np.array([[0, 1]]), 1)", "np.where(a > 1, a, 0.0)", "np.where(a > 1)"),
    *("np.clip(a, 0.7, 1.2)", "np.clip(a, None, 1.2)", "np.round(a, 1)", "np.around(a)", "np.nan_to_num(a)"),
    *("np.copy(a)", "np.diag(a)", "np.diag(a[0], 1)", "np.triu(a)", "np.tril(a, -1)", "np.trace(a)"),
    *("np.diagonal(a, 1)", "np.dot(a, b.T)", "np.dot(a[0], b[0])", "np.dot(2.0, a)", "np.dot(a, b[0])"),
    *("np.dot(a, np.stack([b.T, b.T]))", "np.inner(a, b)", "np.vdot(a, b)", "np.outer(a, b)", "np.kron(a, b)"),
    *("np.cross(a[:, :3], b[:, :3])", "np.tensordot(a, b)", "np.tensordot(a, b, axes=(0, 0))"),
    *("np.tensordot(a, b, ([0, 1], [0, 1]))", "np.einsum('ij,kj->ik', a, b)", "np.trapezoid(a)"),
    *("np.trapezoid(a, dx=0.5, axis=0)", "np.trapezoid(a, b)", "np.real(a)", "np.atleast_1d(a)"),
    *("np.atleast_2d(a[0])", "np.atleast_3d(a)", "np.isclose(a, b, atol=0.1)", "np.zeros_like(a)"),
    *("np.ones_like(a)", "np.full_like(a, 2.0)", "np.linalg.norm(a)", "np.linalg.norm(a, axis=1)"),
    *("np.linalg.norm(a, 1, axis=0)", "np.linalg.norm(a, 'fro')", "np.linalg.norm(a, 'nuc')"),
    *("np.linalg.norm(a, 1)", "np.linalg.norm(a, np.inf)", "np.linalg.norm(a[0], 3)"),
    *("np.linalg.norm(a, axis=(0, 1))", "np.linalg.norm(a, axis=1, keepdims=True)", "np.linalg.det(s)"),
    *("np.linalg.inv(s)", "np.linalg.solve(s, a)", "np.linalg.solve(s, a[:, 0])", "np.linalg.pinv(s)"),
    *("np.linalg.cholesky(s @ s.T)", "np.linalg.matrix_power(s, 3)", "np.linalg.multi_dot([s, s, a])"),
    *("np.linalg.slogdet(s)", "np.add.reduce(a)", "np.multiply.reduce(a, axis=1)"),
    *("np.maximum.reduce(a, axis=None)", "np.add.accumulate(a)", "np.multiply.accumulate(a, 1)"),
    *("np.multiply.outer(a, b)", "np.subtract.outer(a[0], b)", "np.minimum.reduce(a)", "np.logical_or.reduce(a)"),
    *("np.logical_and.reduce(a)", "np.add.reduce(a, axis=(0, 1), keepdims=True)", "np.matmul(a, b.T)"),
    *("np.add(a, [1.0, 2.0, 3.0, 4.0])", "np.concatenate([a, np.ones((1, 4))])", "np.power(2.0, a)"),
    *("np.ones(4) * a", "a - np.ones(4)", "np.ones(4) / a", "np.ones((2, 3)) @ a", "a @ np.ones(4)"),
    *("np.float64(3) * a", "np.ones(4) < a", "a >= np.ones(4)", "np.ones(4) == a", "a + np.ones((3, 1), np.int64)"),
    *("2.0 ** a", "a ** np.full(4, 3)"),
]
if not numpy_2:
    CALLS = [call for call in CALLS if "trapezoid" not in call]
# gradient 0, or discontinuous at the numbers of this test
_STEPS = re.compile(r"round|around|argm|sort\(|like|isclose")


def evaluate(call: str, a: Any, b: Any, s: Any) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # arccos(1.2)
        result = eval(call, {"np": np, "a": a, "b": b, "s": s})
    return [*result] if isinstance(result, list | tuple) else [result]


def assert_as_numpy(call: str, arrays: Any, grad: bool) -> None:
    expected = evaluate(call, *arrays)
    actual = evaluate(call, *[rg.tensor(array, requires_grad=grad) for array in arrays])
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected, strict=True):
        assert type(ours) is rg.Tensor
        np.testing.assert_allclose(ours.detach().numpy(), theirs, rtol=1e-6 if ours.dtype == "f" else 1e-12)


@pytest.mark.parametrize("call", CALLS)
def test_values_and_gradients(call: str) -> None:
    for grad in (False, True):
        assert_as_numpy(call, (A, B, SQUARE), grad)

    def results(*tensors: rg.Tensor) -> Any:
        return tuple(y for y in evaluate(call, *tensors) if y.is_floating_point() and y.requires_grad)

    leaves = [rg.tensor(x, requires_grad=True) for x in (A, B, SQUARE)]
    found = results(*leaves)
    compared = "<" in call.replace("<-", "") or ">=" in call or "==" in call
    if found and not _STEPS.search(call):
        assert rg.autograd.gradcheck(results, leaves)
    else:
        assert found or compared or re.search(r"all|any|count|nonzero|where\(a > 1\)|logical|like|isclose|arg", call)


@pytest.mark.parametrize("name", [name for operator in OPERATORS for name in operator.numpy])
def test_functions_of_elements(name: str) -> None:
    ufunc = getattr(np, name)
    call = f"np.{name}({', '.join('ab'[: ufunc.nin])})"
    try:
        evaluate(call, A, B, None)
    except TypeError:  # of integers
        whole = (A * 10).astype(np.int64), (B * 3).astype(np.int64)
        (ours,) = evaluate(call, *map(rg.tensor, whole), None)
        np.testing.assert_allclose(ours.numpy(), evaluate(call, *whole, None)[0])
        return
    assert_as_numpy(call, (A, B, A), True)


def test_every_function_of_the_table_is_numpys_and_is_called() -> None:
    called = " ".join(CALLS)
    for name in FUNCTIONS:
        function = np
        for part in name.split("."):
            function = getattr(function, part, None)  # type: ignore[assignment]
        if function is None:
            assert not numpy_2 and name in ("matrix_transpose", "trapezoid")
            continue
        assert re.search(rf"np\.{re.escape(name)}\(", called) or name in ("allclose", "empty_like", "matrix_transpose")
    x = rg.tensor(A, requires_grad=True)
    assert np.allclose(x, A) and np.empty_like(x).shape == (3, 4)


# ---- in place ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tensor", "array"])
def test_a_step_by_hand(kind: str) -> None:
    p, g = Parameter(A.copy()), B if kind == "array" else rg.tensor(B)
    memory = p.array
    p.data -= 0.1 * g
    assert p.array is memory and p.is_leaf and p.requires_grad and type(p) is Parameter
    np.testing.assert_allclose(memory, A - 0.1 * B)
    np.subtract(p.data, g, out=p.data)
    np.testing.assert_allclose(memory, A - 1.1 * B)


def test_an_array_that_is_changed_by_a_tensor() -> None:
    array = A.copy()
    array += rg.tensor(B)
    assert type(array) is np.ndarray
    np.testing.assert_array_equal(array, A + B)
    assert np.exp(rg.tensor(B), out=array) is array
    np.testing.assert_array_equal(array, np.exp(B))
    x, before = rg.tensor(B, requires_grad=True), array.copy()
    for change in (lambda: array.__iadd__(x), lambda: np.exp(x, out=array), lambda: np.sum(x, axis=0, out=array[0])):
        with pytest.raises(TypeError, match=r"numpy\.\w+: a tensor requires grad; the array given as out .*detach"):
            change()
    np.testing.assert_array_equal(array, before)


def test_out_that_is_a_tensor_is_recorded() -> None:
    x, out = rg.tensor(A, requires_grad=True), rg.zeros(3, 4, dtype=rg.float64)
    assert np.exp(x, out=out) is out and out.requires_grad
    out.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp(A))  # type: ignore[union-attr]
    y = rg.tensor(A, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf that requires a gradient cannot change"):
        np.add(x, 1, out=y)


def test_a_later_change_of_an_array_does_not_reach_the_gradient() -> None:
    x, factor = rg.tensor(A, requires_grad=True), B.copy()
    y, z = x * factor, np.multiply(factor, x)
    factor[:] = 0
    (y + z).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * B)  # type: ignore[union-attr]


# ---- what has no operator ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("np.cbrt(a)", "there is no operator for it, and the result would leave the graph unnoticed; compute it with"),
        ("np.unwrap(a)", "there is no operator for it"),
        ("np.fft.fft(a)", "there is no operator for it"),
        ("np.add.reduceat(a, [0, 1])", "there is no operator for it"),
        ("np.sum(a, where=a > 1)", "its operator does not accept the option where; leave it out"),
        ("np.max(a, initial=0.0)", "its operator does not accept the option initial"),
        ("np.reshape(a, (4, 3), 'F')", "its operator does not accept 3 arguments"),
        ("np.sin(a, where=[[True]])", "its operator does not accept the option where"),
        ("np.ones(4, complex) * a", "an array is complex128, which no operator accepts; convert it"),
        ("np.concatenate([a, np.ones((1, 4), np.uint32)])", "an array is uint32"),
    ],
)
def test_without_an_operator(call: str, why: str) -> None:
    """The result is NumPy's array, unless a gradient would be lost."""
    if "where=[[" not in call:
        (ours,) = evaluate(call, rg.tensor(A), None, None)
        assert not isinstance(ours, rg.Tensor)
        np.testing.assert_array_equal(ours, evaluate(call, A, None, None)[0])
    with pytest.raises(TypeError, match=rf"numpy\.[\w.]+: a tensor requires grad; {re.escape(why)}") as error:
        evaluate(call, rg.tensor(A, requires_grad=True), None, None)
    assert str(error.value).endswith(", or use tensor.detach()")


@pytest.mark.parametrize(
    ("call", "way"),
    [
        ("np.copyto(a, b)", "tensor.copy_(src)"),
        ("np.put(a, [0], [1.0])", "tensor.put_(index, source)"),
        ("np.place(a, a > 1, [1.0])", "tensor[mask] = values"),
        ("np.fill_diagonal(a, 1.0)", "tensor.fill_diagonal_(value)"),
        ("np.add.at(a, [0], 1.0)", "tensor.index_add_(dim, index, source)"),
    ],
)
def test_changes_behind_our_back_are_refused(call: str, way: str) -> None:
    message = f"would change a tensor behind retrograd's back; use {way}"
    with pytest.raises(TypeError, match=re.escape(message)):
        evaluate(call, rg.tensor(A), B, None)


def test_out_without_an_operator() -> None:
    with pytest.raises(TypeError, match="numpy.cbrt: out is a Tensor, and there is no operator for it; leave it out"):
        np.cbrt(rg.tensor(A), out=rg.tensor(A))


def test_what_reads_no_values() -> None:
    x = rg.tensor(A, requires_grad=True)
    assert np.shape(x) == (3, 4) and np.ndim(x) == 2 and np.size(x) == 12
    assert np.result_type(x, np.float32) is np.dtype(np.float64)
    assert np.array_equal(x, A) and np.shares_memory(x, x.detach()) and not np.iscomplexobj(x)


def test_messages_of_operators_pass_through() -> None:
    with pytest.raises(ValueError, match="split: axis 0 has 3 elements, not a multiple of 2 sections; use array_split"):
        np.split(rg.tensor(A), 2)
    with pytest.raises(ValueError, match=r"add: shapes \(3, 4\) and \(3,\) do not broadcast"):
        np.add(rg.tensor(A), np.ones(3))
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(rg.tensor(A, requires_grad=True))


def test_nothing_is_recorded_without_gradients() -> None:
    x = Parameter(A.copy())
    with rg.no_grad():
        assert not np.sin(x).requires_grad and not (np.ones(4) * x).requires_grad
    x.grad_req = "null"
    assert type(np.sin(x)) is rg.Tensor


# ---- DLPack --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "bool", "int32", "uint8", "float16"])
@pytest.mark.parametrize("shape", [(), (2, 3), (0, 3), (4, 1, 2)])
def test_dlpack(kind: str, shape: Any) -> None:
    array = np.ones((*shape, 2), kind)[..., 0]  # not contiguous
    x = rg.Tensor(array)
    there = np.from_dlpack(x)
    assert there.dtype == kind and there.ctypes.data == x.data_ptr()
    assert (
        there.strides == array.strides or not array.size
    )  # strides of an empty array have no meaning: NumPy 1.26 has 0
    if there.flags.writeable or numpy_2:  # NumPy 1.26 imports arrays as read-only, and does not export read-only ones
        back = rg.from_dlpack(there)
        assert back.data_ptr() == x.data_ptr() and back.shape == shape
        assert back.array.flags.writeable == there.flags.writeable
    assert rg.from_dlpack(x).data_ptr() == x.data_ptr()


def test_options_of_dlpack() -> None:
    x = rg.ones(3)
    assert x.__dlpack_device__() == (1, 0)
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        assert "versioned" in repr(x.__dlpack__(max_version=(1, 0), stream=None, dl_device=(1, 0)))
        assert np.from_dlpack(x, copy=True).ctypes.data != x.data_ptr() == np.from_dlpack(x, copy=False).ctypes.data
        with pytest.raises(BufferError, match="unsupported device"):
            x.__dlpack__(dl_device=(2, 0))
    with pytest.raises((RuntimeError, ValueError), match="stream"):  # as for NumPy arrays: ValueError since 2.5
        x.__dlpack__(stream=1)
    fixed = np.ones(3)
    fixed.flags.writeable = False
    with pytest.raises(BufferError, match="readonly"):
        rg.Tensor(fixed).__dlpack__()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: np.from_dlpack(rg.ones(3, requires_grad=True)), RuntimeError, "requires grad"),
        (lambda: rg.from_dlpack(rg.ones(3, requires_grad=True)), RuntimeError, "requires grad"),
        (lambda: np.from_dlpack(rg.Tensor(np.ones(3)[::-1])), BufferError, r"backwards .* tensor.clone\(\)"),
        (lambda: rg.from_dlpack([1.0]), TypeError, "from_dlpack: ext_tensor is list, which does not support DLPack"),
        (lambda: rg.from_dlpack(np.ones(3, complex)), TypeError, "complex128 is not supported"),
        (lambda: rg.from_dlpack(_OfAnotherKind()), TypeError, "from_dlpack: NumPy cannot read the elements"),
    ],
)
def test_dlpack_refuses(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


class _OfAnotherKind:
    """An array on a GPU."""

    def __dlpack__(self, **options: Any) -> Any:
        raise RuntimeError("Unsupported device in DLTensor.")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0
