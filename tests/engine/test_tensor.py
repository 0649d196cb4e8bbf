"""The Tensor: arguments, attributes, printing and errors."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

import retrograd
from engine.functions import Exp, leaf, values
from retrograd.engine import Tensor, no_grad


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_])
def test_an_array_of_an_allowed_dtype_is_kept(dtype: Any) -> None:
    array = np.zeros((2, 3), dtype)
    tensor = Tensor(array)
    assert tensor.array is array and tensor.dtype == dtype and tensor.shape == (2, 3)


@pytest.mark.parametrize(
    ("data", "dtype", "value"),
    [
        (1.5, np.float32, 1.5),
        (np.int64(2), np.int64, 2),
        ([[2]], np.float32, [[2]]),
        (True, np.bool_, True),
        ([1.0, 2], np.float32, [1, 2]),
        (((1, 2), [3, 4]), np.float32, [[1, 2], [3, 4]]),
        ([True, False], np.float32, [1, 0]),
        ([], np.float32, []),
        (np.float64(0.1), np.float64, 0.1),
        (np.float32(0.5), np.float32, 0.5),
    ],
)
def test_python_numbers(data: Any, dtype: Any, value: Any) -> None:
    tensor = Tensor(data)
    assert tensor.dtype == dtype and tensor.tolist() == value


def test_dtype_converts() -> None:
    assert Tensor(np.ones(2, np.float16), dtype=np.float32).dtype == np.float32
    assert Tensor([1, 2], dtype="float64", requires_grad=True).dtype == np.float64
    assert Tensor(np.ones(2, np.uint8), dtype=np.int64).dtype == np.int64


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (np.ones(2, np.uint16), "dtype uint16 is not supported; use float32"),
        (np.ones(2, np.longdouble), "is not supported"),
        (np.ones(2, np.complex128), "complex128"),
        (np.ones(2, ">f8"), ">f8"),
        (np.array(["a"]), "<U1"),
        ([[1.0], [2.0, 3.0]], "is not a regular array"),
        ("text", "data is str, needs numbers"),
        (None, "data is NoneType, needs numbers"),
        (np.ma.masked_array([1.0], [True]), "mask"),
        (Tensor([1.0], requires_grad=True), "already a Tensor"),
    ],
)
def test_refused_data(data: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        Tensor(data)


@pytest.mark.parametrize(
    ("data", "dtype", "text"),
    [
        (
            [2**63],
            np.int64,
            "data contains 9223372036854775808, which int64 cannot hold; pass dtype=float32 or float64",
        ),
        (2**63, np.int64, "data contains 9223372036854775808, which int64 cannot hold"),
        ([[1], [-(2**70)]], np.int64, "data contains -1180591620717411303424, which int64 cannot hold"),
        ([1, 10**400], np.int64, "data contains <int of 1329 bits>, which int64 cannot hold"),
        ([10**5000], np.float64, "data contains <int of 16610 bits>, which is larger than any float64; use float"),
    ],
)
def test_integers_beyond_int64_are_refused(data: Any, dtype: Any, text: str) -> None:
    with pytest.raises(ValueError, match=f"Tensor: {text}"):
        Tensor(data, dtype=dtype)


def test_integers_beyond_int64_as_floats() -> None:
    assert Tensor(2**70, dtype=np.float32).item() == 2.0**70
    assert Tensor([1, -(2**70)], dtype=np.float64).tolist() == [1, -(2.0**70)]
    assert Tensor([2**70, 0.5], dtype=np.float64).tolist() == [2.0**70, 0.5]
    assert Tensor([2**70, 0], dtype=np.bool_).tolist() == [True, False]


def test_refused_dtype() -> None:
    with pytest.raises(TypeError, match="dtype complex64 is not supported"):
        Tensor([1.0], dtype=np.complex64)


def test_only_floating_tensors_require_grad() -> None:
    with pytest.raises(RuntimeError, match="only float32 and float64.*this one is float16"):
        Tensor(np.ones(2, np.float16), requires_grad=True)
    with pytest.raises(RuntimeError, match="only float32 and float64.*this one is int64"):
        Tensor([1, 2], requires_grad=True, dtype=np.int64)
    tensor = Tensor([1.0])
    assert tensor.requires_grad_() is tensor and tensor.requires_grad
    assert not tensor.requires_grad_(False).requires_grad
    with pytest.raises(RuntimeError, match="only a leaf"):
        Exp.apply(leaf(1)).requires_grad = False


def test_size_and_the_like() -> None:
    tensor = Tensor(np.zeros((2, 3)))
    assert tensor.size() == (2, 3) and tensor.size(-1) == 3 and tensor.ndim == tensor.dim() == 2
    assert tensor.numel() == 6 and len(tensor) == 2
    with pytest.raises(IndexError, match=r"dim is 2, expected -2 to 1 for shape \(2, 3\)"):
        tensor.size(2)
    with pytest.raises(TypeError, match="without axes"):
        len(Tensor(1.0))


def test_numbers() -> None:
    assert Tensor([[2.5]]).item() == 2.5 and float(leaf(2)) == 2 and int(Tensor(2.7)) == 2
    assert bool(Tensor([0])) is False and [10, 20][Tensor(np.int64(1))] == 20
    assert f"{Tensor(3.14159):.2f}" == "3.14" and f"{Tensor(np.int64(3))}" == "tensor(3)"
    with pytest.raises(RuntimeError, match=r"shape \(2,\) has 2 elements, expected exactly 1"):
        float(Tensor([1.0, 2.0]))
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(Tensor([1.0, 2.0]))
    with pytest.raises(TypeError, match="float32"):
        [10][Tensor(0.0)]
    with pytest.raises(TypeError, match="one element"):
        f"{Tensor([1.0, 2.0]):.2f}"


def test_numpy_never_leaves_the_graph_unnoticed() -> None:
    x = leaf(1, 2)
    assert Tensor([1.0]).numpy() is not None
    for use in (x.numpy, lambda: np.asarray(x), lambda: np.array(x), lambda: np.array([x, x])):
        with pytest.raises(RuntimeError, match="requires grad.*detach"):
            use()
    detached = x.detach()
    assert detached.numpy() is x.array and detached.is_leaf and not detached.requires_grad


def test_array_protocol() -> None:
    x = Tensor([1.0, 2.0])
    assert np.asarray(x) is x.array and np.array(x) is not x.array
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert x.__array__(copy=True) is not x.array
    with pytest.raises(ValueError, match="copy=False"):
        x.__array__(np.float64, copy=False)


def test_repr() -> None:
    assert repr(Tensor([1.0, 2.5])) == "tensor([1. , 2.5])"
    assert repr(Tensor([1, 2])) == "tensor([1., 2.])"
    assert repr(leaf(1)) == "tensor([1.], dtype=float64, requires_grad=True)"
    assert repr(Exp.apply(Tensor([0.0], requires_grad=True))) == "tensor([1.], grad_fn=<ExpBackward>)"
    assert "shape=(0, 3)" in repr(Tensor(np.zeros((0, 3))))


def test_grad_is_checked_when_assigned() -> None:
    x = leaf(1, 2)
    x.grad = Tensor(np.ones(2))
    x.grad = None
    with pytest.raises(TypeError, match="ndarray; wrap it"):
        x.grad = np.ones(2)  # type: ignore[assignment]
    with pytest.raises(ValueError, match=r"expected float64 of shape \(2,\).*got float64 of shape \(3,\)"):
        x.grad = Tensor(np.ones(3))
    with pytest.raises(ValueError, match="got float32"):
        x.grad = Tensor(np.ones(2, np.float32))
    with pytest.raises(ValueError, match="its own gradient"):
        x.grad = x


def test_tensors_are_keys() -> None:
    x, y = leaf(1), leaf(1)
    assert len({x: 1, y: 2}) == 2


def test_an_array_on_the_left_does_not_swallow_the_tensor() -> None:
    x = leaf(1, 2)
    for y in (np.ones(2) * x, np.float64(2) * x, np.ones((2, 2)) @ x):
        assert type(y) is Tensor and y.requires_grad


class Named(Tensor):
    """A subclass without slots, like Parameter."""

    name: str


def test_deepcopy_and_pickle_of_leaves() -> None:
    x = Named(np.asfortranarray(np.ones((2, 3))), requires_grad=True)
    x.name = "weight"
    x.grad = Tensor(np.ones((2, 3)))
    x.grad_req = "write"
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(other) is Named and other.name == "weight" and other.grad_req == "write" and other.requires_grad
        np.testing.assert_array_equal(other.array, x.array)
        assert other.array is not x.array and other.grad is not None and other.grad.array is not x.grad.array
        assert other.array.flags.f_contiguous
    tied = [x, x]
    copied = copy.deepcopy(tied)
    assert copied[0] is copied[1] and copied[0] is not x


def test_attributes_stay_with_their_tensor() -> None:
    x = Tensor(np.ones((2, 3)))
    x.name, x.notes = "weight", ["latent"]
    x.add_(1)
    assert x.name == "weight" and x.requires_grad_() is x and x.double() is x and {"name", "notes"} <= set(dir(x))
    twin = copy.copy(x)
    assert twin.notes is x.notes and twin.requires_grad and np.shares_memory(twin.array, x.array)
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(other) is Tensor and vars(other) == vars(x) and other.notes is not x.notes
    for other in (x.detach(), x.data, x.clone(), x.float(), x * 1, x[0], x.view(-1), Tensor(x.detach())):
        assert vars(other) == {}
    y = Exp.apply(x)
    y.name = "result"
    y.backward(Tensor(np.full((2, 3), 0.5)))
    assert y.name == "result" and vars(x.grad) == {}
    del x.name
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'name'"):
        x.name  # noqa: B018


def test_tensors_may_hold_themselves_and_are_freed() -> None:
    x = Tensor(np.ones(2))
    x.me, x.product = x, x * 2
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert other.me is other and other.product.tolist() == [2, 2]
    held = weakref.ref(x)
    del x, other
    gc.collect()
    assert held() is None


@pytest.mark.parametrize("name", ["shape", "dtype", "ndim", "device", "is_leaf", "grad_fn", "T", "is_cuda", "nbytes"])
def test_what_a_tensor_computes_cannot_be_set(name: str) -> None:
    x = Tensor(np.ones(2))
    with pytest.raises(AttributeError, match=f"'{name}' of 'Tensor' object has no setter"):
        setattr(x, name, 1)
    assert vars(x) == {}


def test_a_deleted_gradient_is_none() -> None:
    x = leaf(2)
    x.grad = Tensor(np.array(values(x)))
    del x.grad, x.grad
    assert x.grad is None and x.requires_grad


def test_results_are_not_copied() -> None:
    y = Exp.apply(leaf(1))
    for action in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(RuntimeError, match="only leaf tensors.*detach"):
            action(y)
    with no_grad():
        copy.deepcopy(Exp.apply(leaf(1)))


def test_ints_are_extents() -> None:
    """Tensor(2, 3) as in PyTorch, with zeros for values; numbers of other kinds, and tensor(2), are data."""
    for extents in ((3,), (2, 3), (2, 0, 4), (1, 2, 3, 4)):
        x = Tensor(*extents)
        assert (x.shape, x.dtype, x.requires_grad) == (extents, np.float32, False) and not x.array.any()
    assert retrograd.tensor(3).tolist() == retrograd.as_tensor(3).tolist() == 3
    assert Tensor(3, dtype=np.float64).tolist() == Tensor(np.int64(3)).tolist() == Tensor(3.0).tolist() == 3
    assert retrograd.DoubleTensor(2, 3).dtype == np.float64 and retrograd.FloatTensor([1, 2]).dtype == np.float32
    for wrong in ((2, -1), (-1,), (2, 3.0), (2, 3, "float32")):
        with pytest.raises(TypeError, match=r"Tensor: (extents \(.*\) must be ints of at least 0|requires_grad=)"):
            Tensor(*wrong)
    with pytest.raises(ValueError, match=r"Tensor: extents \(1048576, .*\) are too many elements"):
        Tensor(2**20, 2**20, 2**20, 2**20)
    with pytest.raises(TypeError, match="Tensor: takes data, requires_grad and dtype, got 4 as well"):
        Tensor([1.0], False, None, 4)
