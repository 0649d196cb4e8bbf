"""PyTorch's legacy constructors, and ``tensor`` of sequences that contain tensors and NumPy numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.autograd import Variable

KINDS: dict[str, Any] = {
    "FloatTensor": np.float32,
    "DoubleTensor": np.float64,
    "HalfTensor": np.float16,
    "LongTensor": np.int64,
    "IntTensor": np.int32,
    "ShortTensor": np.int16,
    "CharTensor": np.int8,
    "ByteTensor": np.uint8,
    "BoolTensor": np.bool_,
}


@pytest.mark.parametrize("name", KINDS)
def test_every_class(name: str) -> None:
    kind: Any = getattr(rg, name)
    assert kind.dtype == KINDS[name] and kind.__doc__.startswith(f"A Tensor of {np.dtype(KINDS[name])}: ")
    made = [kind(2, 3), kind(rg.Size((2, 3))), kind([[1, 0, 1]] * 2), kind(np.ones((2, 3)))]
    made += [kind(((1, 2, 3), [1, 1, 1])), kind(kind(2, 3)), kind(2, 3, device="cpu"), kind([range(3)] * 2)]
    for x in made:
        assert x.dtype == KINDS[name] and x.shape == (2, 3) and type(x) is rg.Tensor and isinstance(x, kind)
    assert kind().shape == (0,) and not kind(3).any() and kind([1, 0]).tolist() == [1, 0]
    other = rg.zeros(1, dtype=rg.float32 if KINDS[name] is not np.float32 else rg.int64)
    assert not isinstance(other, kind) and not isinstance(np.ones(1, KINDS[name]), kind)
    assert other.type(kind).dtype == other.type(f"torch.{name}").dtype == KINDS[name]
    assert kind(2).type() == f"torch.{name}"
    with pytest.raises(TypeError, match=rf"{name}: data is {other.dtype}; convert it with .to\(retrograd."):
        kind(other)


def test_tensors_share_memory_and_history() -> None:
    x = rg.ones(2, requires_grad=True)
    y = rg.FloatTensor(x * 2)
    (y * rg.tensor([3.0, 5.0])).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [6, 10]
    array = np.zeros(2, np.float64)
    shared = rg.Tensor(rg.from_numpy(array))
    array[0] = 5
    assert shared.tolist() == [5, 0] and shared.dtype == rg.float64


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: rg.FloatTensor("a"), TypeError, "FloatTensor: data is str, needs ints, a sequence, an array or a"),
        (lambda: rg.FloatTensor(2.0), TypeError, "FloatTensor: data is float, needs ints, a sequence"),
        (lambda: rg.LongTensor(2, device="cuda"), RuntimeError, "LongTensor: device='cuda', but there is one device"),
        (lambda: rg.Tensor(2, device="cuda"), RuntimeError, "Tensor: device='cuda', but there is one device"),
        (lambda: rg.ByteTensor([1, 300]), ValueError, "data contains 300, which uint8 cannot hold"),
        (lambda: rg.tensor([[-129]], dtype=rg.int8), ValueError, "data contains -129, which int8 cannot hold"),
        (lambda: rg.FloatTensor(-1), ValueError, r"size=\(-1,\) has a negative extent"),
        (lambda: rg.Tensor(rg.ones(2, requires_grad=True)), TypeError, "already a Tensor, and requires grad; use it"),
        (lambda: rg.zeros(1).type("torch.cuda.FloatTensor"), RuntimeError, "is on a GPU, but there is one device"),
        (lambda: rg.zeros(1).type("torch.FlotTensor"), ValueError, "'torch.FlotTensor' is not the name of a type"),
        (lambda: rg.zeros(1).type("float7"), TypeError, "dtype='float7' is not an element type"),
        (lambda: Variable([1.0]), TypeError, "Variable: data has to be a Tensor, but got list"),
        (lambda: Variable(rg.arange(2), requires_grad=True), RuntimeError, "only float32 and float64"),
    ],
)
def test_what_is_refused(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_sequences_in_a_tensor_are_of_the_default_type() -> None:
    for data in ([1, 2], (1, 2), [True, True], [np.float64(1), 2], range(1, 3), [rg.tensor(1), rg.tensor(2.0)]):
        assert rg.Tensor(data).dtype == rg.float32
    assert rg.Tensor([]).shape == rg.Tensor().shape == (0,) and rg.Tensor(rg.Size([2, 3])).tolist() == [[0] * 3] * 2
    assert rg.Tensor(np.arange(2)).dtype == rg.int64  # an array is kept
    assert rg.Tensor([1, 2], dtype=np.int64).dtype == rg.int64 and rg.Tensor([1], device="cpu").tolist() == [1]


@pytest.mark.parametrize(
    ("data", "dtype", "values"),
    [
        ([rg.tensor(1.0), rg.tensor(2.5)], np.float32, [1, 2.5]),
        ([[rg.tensor(1), 2], (3, 4)], np.int64, [[1, 2], [3, 4]]),
        ([rg.tensor(1.0, dtype=rg.float64), 2], np.float64, [1, 2]),
        ([np.float64(1), 2.5], np.float64, [1, 2.5]),
        (np.float64(1), np.float64, 1),
        ([np.float32(1), 2], np.float32, [1, 2]),
        ([True, 2], np.int64, [1, 2]),
        ([np.ones(2), np.ones(2)], np.float64, [[1, 1], [1, 1]]),
        (2.5, np.float32, 2.5),
        ([1, 2.5], np.float32, [1, 2.5]),
    ],
)
def test_tensors_and_numbers_of_numpy_in_sequences(data: Any, dtype: Any, values: Any) -> None:
    for make in (rg.tensor, rg.as_tensor):
        x: rg.Tensor = make(data)
        assert x.dtype == dtype and x.tolist() == values


def test_a_loss_in_a_sequence_leaves_its_history_with_a_warning() -> None:
    loss = rg.ones(1, requires_grad=True).sum() * 2
    with pytest.warns(UserWarning, match="Converting a tensor with requires_grad=True to a scalar"):
        x = rg.tensor([[loss, rg.tensor(3.0)]])
    assert x.tolist() == [[2, 3]] and not x.requires_grad


def test_variable() -> None:
    x = rg.ones(2, requires_grad=True)
    y = Variable(x * 2)
    assert isinstance(y, Variable) and isinstance(x, Variable) and not isinstance(x.array, Variable)
    assert y.is_leaf and not y.requires_grad and type(y) is rg.Tensor
    w = Variable(rg.ones(2), requires_grad=True)
    (w * 3).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [3, 3]
    with pytest.warns(UserWarning, match="volatile was removed"):
        Variable(rg.ones(2), volatile=True)
