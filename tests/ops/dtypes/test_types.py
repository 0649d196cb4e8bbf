"""dtype names and settings, float16 as a storage type, uint8 masks, and printing of elements."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn

HALF = rg.tensor(np.array([[1.5, -2.0], [0.25, 70.0]], np.float16))


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    rg.set_default_dtype(rg.float32)
    rg.set_printoptions(profile="default")
    rg.use_deterministic_algorithms(False)
    rg.set_float32_matmul_precision("highest")


def test_names() -> None:
    same = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32"}
    for name, kind in (same | {"short": "int16", "bool": "bool", "uint8": "uint8", "int8": "int8"}).items():
        assert getattr(rg, name) == np.dtype(kind) and isinstance(getattr(rg, name), rg.dtype)
    assert (rg.pi, rg.e, rg.inf, rg.newaxis) == (np.pi, np.e, np.inf, None) and np.isnan(rg.nan)


@pytest.mark.parametrize("name", ["bfloat16", "complex64", "cfloat", "uint16"])
def test_what_no_tensor_holds_is_refused_where_it_is_used(name: str) -> None:
    kind = getattr(rg, name)
    assert kind != rg.float32 and rg.zeros(1).dtype != kind and {kind: 1}[copy.deepcopy(kind)] == 1
    assert pickle.loads(pickle.dumps(kind)) == kind and repr(kind).startswith("retrograd.")
    for use in (lambda: rg.zeros(1, dtype=kind), lambda: rg.zeros(1).to(kind), lambda: rg.finfo(kind)):
        with pytest.raises(TypeError, match=rf"dtype={kind!r} is not an element type of a Tensor: "):
            use()


def test_the_type_of_new_tensors() -> None:
    rg.set_default_dtype(rg.float64)
    assert rg.get_default_dtype() == rg.float64
    made = [rg.tensor([1.5]), rg.tensor(1.5), rg.Tensor([]), rg.zeros(1), rg.rand(1), rg.eye(1), rg.linspace(0, 1, 2)]
    made += [rg.full((1,), 2.0), rg.arange(1.5), rg.arange(3) / 2, rg.arange(3) * 0.5, rg.exp(rg.arange(2))]
    made += [rg.normal(0.0, 1.0, (2,)), rg.zeros(1).to(float), nn.Linear(1, 1).weight, nn.LSTM(1, 1).weight_ih_l0]
    assert {x.dtype for x in made} == {rg.float64}
    assert rg.tensor(np.ones(1, np.float32)).dtype == rg.zeros(1).float().dtype == rg.float32
    assert "dtype" not in repr(rg.zeros(1)) and "dtype=float32" in repr(rg.zeros(1).float())
    with pytest.warns(UserWarning, match="deprecated"):
        rg.set_default_tensor_type("torch.FloatTensor")
    assert rg.zeros(1).dtype == rg.float32
    for wrong in (rg.float16, rg.int64):
        with pytest.raises(TypeError, match=f"set_default_dtype: d={wrong} must be float32 or float64"):
            rg.set_default_dtype(wrong)


def test_float16_is_moved_compared_and_converted() -> None:
    assert rg.stack([HALF, HALF])[1, 0].tolist() == [1.5, -2.0] and (HALF.clone() == HALF).all()
    assert (HALF > 1).tolist() == [[True, False], [False, True]] and HALF.t().reshape(4).tolist() == [1.5, 0.25, -2, 70]
    assert repr(HALF[0]) == "tensor([ 1.5, -2. ], dtype=float16)" and HALF.double().sum().item() == 69.75
    assert rg.ones(2).mul(1e6).half().tolist() == [np.inf, np.inf]
    with pytest.raises(RuntimeError, match="only float32 and float64 tensors can require a gradient"):
        HALF.clone().requires_grad_()
    x = rg.randn(3, requires_grad=True)
    x.half().float().sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("name", "compute"),
    [
        *(("add", lambda: HALF + HALF), ("mul", lambda: HALF * 2), ("exp", lambda: HALF.exp())),
        *(("sum", lambda: HALF.sum()), ("matmul", lambda: HALF @ HALF), ("add", lambda: HALF.clone().add_(HALF))),
        *(("softmax", lambda: HALF.softmax(1)), ("linear", lambda: nn.functional.linear(HALF, HALF))),
        *(("mean", lambda: HALF.mean()), ("max", lambda: HALF.max()), ("relu", lambda: nn.functional.relu(HALF))),
        *(("cumsum", lambda: HALF.cumsum(0)), ("rfft", lambda: rg.fft.rfft(HALF)), ("inverse", lambda: HALF.inverse())),
        *(("conv1d", lambda: nn.functional.conv1d(HALF, HALF[None])), ("max_pool1d", lambda: rg.max_pool1d(HALF, 1))),
    ],
)
def test_float16_computes_nothing(name: str, compute: Callable[[], Any]) -> None:
    if rg.active_kernels() == "textbook" and name in ("add", "mul", "sum", "max", "cumsum", "softmax"):
        pytest.skip("NumPy computes in float16")
    with pytest.raises(TypeError, match=rf"^{name}: .*float16.*\.float\(\)"):
        compute()


def test_numbers_that_do_not_fit() -> None:
    x = rg.zeros(2, dtype=rg.uint8)
    for use in (lambda: x.fill_(256), lambda: rg.full((1,), 300, dtype=rg.uint8), lambda: x.__setitem__(0, -257)):
        with pytest.raises(ValueError, match="does not fit uint8"):
            use()
    assert (x + 300).tolist() == [44, 44] and x.fill_(-1).tolist() == [255, 255]
    assert rg.tensor([-1.5, 300.7, np.nan]).to(rg.uint8).dtype == rg.uint8  # no warning


def test_bytes_as_masks() -> None:
    mask, x = rg.tensor([1, 0, 1], dtype=rg.uint8), rg.arange(3)
    with pytest.warns(UserWarning, match="a mask with dtype uint8 is now deprecated"):
        assert x[mask].tolist() == [0, 2]
    with pytest.warns(UserWarning, match="a mask with dtype uint8 is now deprecated"):
        assert rg.where(mask, x, 7).tolist() == [0, 7, 2]


def test_questions() -> None:
    x = rg.zeros(2, 3)
    assert rg.is_tensor(x) and not rg.is_tensor(x.array) and rg.is_floating_point(x) and x.is_floating_point()
    assert not rg.is_complex(x) and x.is_signed() and not rg.zeros(1, dtype=rg.uint8).is_signed()
    assert rg.is_nonzero(rg.tensor(2)) and x.is_same_size(rg.ones(2, 3)) and rg.numel(x) == 6
    assert [rg.typename(each) for each in (x, x.int(), 3, nn.Linear)] == [
        *("torch.FloatTensor", "torch.IntTensor", "int", "retrograd.nn.linear.Linear")
    ]
    for query in (rg.is_floating_point, rg.is_complex, rg.is_nonzero, rg.is_signed, rg.numel):
        with pytest.raises(TypeError, match=f"{query.__name__}: input is list, needs a Tensor"):
            query([1.0])
    with pytest.raises(TypeError, match="is_same_size: other is int"):
        rg.is_same_size(x, 3)
    with pytest.raises(TypeError, match="result_type: tensor2 is str"):
        rg.result_type(x, "a")
    with pytest.raises(TypeError, match="finfo: type=int64 is not floating-point"):
        rg.finfo(rg.int64)
    with pytest.raises(TypeError, match="iinfo: type=float32 is not an integer type"):
        rg.iinfo(rg.float32)
    assert rg.finfo() == rg.finfo(rg.float32) != rg.finfo(rg.float64) and rg.result_type(True, 1.5) == rg.float32


def test_shapes_are_sizes() -> None:
    shape = rg.zeros(2, 3, 4).shape
    assert isinstance(shape, rg.Size) and shape == (2, 3, 4) and shape.numel() == 24
    assert str(shape) == repr(shape) == "retrograd.Size([2, 3, 4])"
    assert f"{shape} {shape:>10}|" == "(2, 3, 4)  (2, 3, 4)|"
    assert shape[1:].numel() == 12 and shape[0] == 2 and (shape[:1] + (5,)).numel() == 10
    assert rg.zeros(shape[1:]).size().numel() == 12 and rg.Size([2, 3]).numel() == 6


def test_printing() -> None:
    x = rg.tensor([1234.56789, 0.000123456])
    rg.set_printoptions(precision=2, sci_mode=True)
    assert repr(x) == "tensor([1.23e+03, 1.23e-04])"
    rg.set_printoptions(sci_mode=False, precision=1)
    assert repr(x) == "tensor([1234.6, 0.0])"
    rg.set_printoptions(profile="short", threshold=5)
    assert repr(rg.arange(10)) == "tensor([0, 1, ..., 8, 9])"
    rg.set_printoptions(profile="full", linewidth=20)
    assert repr(rg.arange(10)).count("\n") > 1
    with pytest.raises(ValueError, match="precision=-1 must be at least 0"):
        rg.set_printoptions(precision=-1)
    with pytest.raises(ValueError, match="profile='long'; choose default, short or full"):
        rg.set_printoptions(profile="long")


def test_settings_that_have_one_value_here() -> None:
    rg.use_deterministic_algorithms(True, warn_only=True)
    assert rg.are_deterministic_algorithms_enabled() and rg.is_deterministic_algorithms_warn_only_enabled()
    rg.set_deterministic_debug_mode("error")
    assert rg.get_deterministic_debug_mode() == 2 and not rg.is_deterministic_algorithms_warn_only_enabled()
    rg.set_float32_matmul_precision("high")
    assert rg.get_float32_matmul_precision() == "high" and rg.set_flush_denormal(True) is False
    rg.set_num_interop_threads(4)
    assert rg.get_num_interop_threads() == 1
    for call, error, message in (
        (lambda: rg.use_deterministic_algorithms(1), TypeError, "mode=1"),
        (lambda: rg.set_deterministic_debug_mode(3), RuntimeError, "debug_mode=3; choose"),
        (lambda: rg.set_float32_matmul_precision("low"), ValueError, "precision='low'; choose"),
        (lambda: rg.set_num_interop_threads(0), RuntimeError, "threads=0 must be at least 1"),
        (lambda: rg.set_flush_denormal(2), TypeError, "mode=2"),
    ):
        with pytest.raises(error, match=message):
            call()
