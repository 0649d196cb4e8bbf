"""Lazy layers: their state before the first call, the inferred sizes, and state_dict."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import nn, optim
from retrograd.engine.tensor import Tensor
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name

# name -> arguments of the lazy layer, size of the input, where the size goes among the ordinary layer's arguments
LAYERS: dict[str, tuple[tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = {
    "Linear": ((3,), {}, (2, 6)),
    "Conv1d": ((4, 3), {"padding": 1, "groups": 2}, (2, 6, 5)),
    "Conv2d": ((4, 3), {"stride": 2, "bias": False, "activation": "relu"}, (2, 6, 5, 5)),
    "Conv3d": ((4, 2), {"padding_mode": "circular", "padding": 1}, (2, 6, 3, 3, 3)),
    "ConvTranspose1d": ((4, 3), {"groups": 2}, (2, 6, 5)),
    "ConvTranspose2d": ((4, 3, 2), {"output_padding": 1}, (2, 6, 5, 5)),
    "ConvTranspose3d": ((4, 2), {"padding": "same"}, (2, 6, 3, 3, 3)),
    "BatchNorm1d": ((), {}, (5, 6)),
    "BatchNorm2d": ((1e-4,), {"momentum": None}, (2, 6, 3, 3)),
    "BatchNorm3d": ((), {"affine": False}, (2, 6, 2, 3, 2)),
    "InstanceNorm1d": ((), {"affine": True, "track_running_stats": True}, (2, 6, 5)),
    "InstanceNorm2d": ((), {"affine": False, "track_running_stats": False}, (6, 3, 3)),
    "InstanceNorm3d": ((), {"affine": True, "track_running_stats": True, "bias": False}, (2, 6, 2, 3, 2)),
}
EACH = pytest.mark.parametrize("name", LAYERS)


def make(name: str, **more: Any) -> tuple[Any, Any, Tensor]:
    """Return the lazy layer, an ordinary one with the same arguments, and an input."""
    given, options, shape = LAYERS[name]
    x = Tensor(np.random.default_rng(1).normal(size=shape).astype(np.float32))
    return getattr(nn, f"Lazy{name}")(*given, **options, **more), getattr(nn, name)(6, *given, **options, **more), x


@EACH
def test_the_first_call_makes_an_ordinary_layer(name: str) -> None:
    retrograd.manual_seed(3)
    lazy, ordinary, x = make(name)
    before = list(lazy.parameters())
    assert all(isinstance(p, nn.UninitializedParameter) and repr(p) == "<UninitializedParameter>" for p in before)
    assert repr(lazy).replace("Lazy", "") == repr(ordinary).replace("(6,", "(0,").replace("features=6", "features=0")
    retrograd.manual_seed(3)
    y = lazy(x)
    assert type(lazy) is type(ordinary) and repr(lazy) == repr(ordinary)
    assert all(p is q and type(p) is nn.Parameter for p, q in zip(before, lazy.parameters(), strict=True))
    np.testing.assert_array_equal(y.array, ordinary(x).array)  # the same draws
    state, other = lazy.state_dict(), ordinary.state_dict()
    assert list(state) == list(other)
    for key, value in state.items():
        np.testing.assert_array_equal(value.array, other[key].array)
        assert value.array.strides == other[key].array.strides
    np.testing.assert_array_equal(lazy(x).array, ordinary(x).array)


@EACH
def test_dtypes_and_copies(name: str) -> None:
    lazy, _, x = make(name)
    double = copy.deepcopy(lazy).double()
    again = pickle.loads(pickle.dumps(make(name, dtype=np.float64)[0]))
    for layer in (double, again):
        assert layer(Tensor(x.array.astype(np.float64))).dtype == np.float64
        assert {value.dtype for value in layer.state_dict().values()} <= {np.dtype("f8"), np.dtype("i8")}
    assert type(lazy).__name__ == f"Lazy{name}"
    assert lazy(x).dtype == np.float32


@EACH
def test_loading_an_ordinary_state(name: str) -> None:
    lazy, ordinary, x = make(name)
    with retrograd.no_grad():
        for parameter in ordinary.parameters():
            parameter.array[...] = np.random.default_rng(4).normal(size=parameter.shape)
    assert lazy.load_state_dict(ordinary.state_dict()) == ([], [])
    assert not lazy.has_uninitialized_params()
    np.testing.assert_array_equal(lazy(x).array, ordinary(x).array)
    assert type(lazy) is type(ordinary)


@EACH
def test_loading_a_lazy_state(name: str) -> None:
    lazy, ordinary, _ = make(name)
    state = lazy.state_dict()
    assert list(state) == list(ordinary.state_dict())
    assert make(name)[0].load_state_dict(state) == ([], [])
    if state and list(ordinary.parameters()):
        with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter or buffer"):
            ordinary.load_state_dict(state)


def test_what_has_no_shape_is_not_used() -> None:
    lazy = nn.LazyLinear(2)
    x = Tensor(np.ones((1, 3), np.float32))
    uses: list[Callable[[], Any]] = [
        lambda: lazy.weight + 1,
        lambda: F.linear(x, lazy.weight),
        lambda: lazy.weight.numel(),
        lambda: lazy.weight.array,
        lambda: nn.init.zeros_(lazy.bias),
    ]
    for use in uses:
        with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter.* call `forward` with"):
            use()
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter or buffer"):
        print(lazy.weight.shape)
    assert lazy.weight.requires_grad and lazy.weight.dtype == np.float32 and lazy.weight.grad is None
    lazy.reset_parameters()
    assert lazy.has_uninitialized_params() and lazy.in_features == 0
    parameter = nn.UninitializedParameter(dtype="float64")
    parameter.materialize((2, 3))
    assert type(parameter) is nn.Parameter and parameter.shape == (2, 3) and parameter.dtype == np.float64
    buffer = nn.UninitializedBuffer()
    assert repr(buffer) == "<UninitializedBuffer>" and not buffer.requires_grad
    buffer.materialize((4,), np.float64)
    assert type(buffer) is Tensor and buffer.shape == (4,)
    with pytest.raises(TypeError, match="dtype=int64, but layers compute in float32 or float64"):
        nn.UninitializedParameter(dtype=np.int64)


def test_an_optimizer_made_before_the_first_call() -> None:
    lazy = nn.Sequential(nn.LazyLinear(2), nn.LazyBatchNorm1d(), nn.Linear(2, 1))
    lazy[0].weight.grad_req = "write"
    optimizer = optim.Adam(lazy.parameters(), lr=0.1)
    lazy(Tensor(np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32))).square().sum().backward()
    before = [p.array.copy() for p in lazy.parameters()]
    optimizer.step()
    assert all((p.array != old).any() for p, old in zip(lazy[2].parameters(), before[-2:], strict=True))
    assert lazy[0].weight.grad_req == "write"
    assert [type(layer).__name__ for layer in lazy] == ["Linear", "BatchNorm1d", "Linear"]
    frozen = nn.LazyLinear(2)
    frozen.requires_grad_(False)
    frozen(Tensor(np.ones((1, 3), np.float32)))
    assert not frozen.weight.requires_grad


def test_hooks_run_once() -> None:
    calls: list[str] = []
    lazy = nn.LazyConv1d(2, 1)
    lazy.register_forward_pre_hook(lambda module, args: calls.append(f"before {type(module).__name__}"))
    lazy.register_forward_hook(lambda module, args, y: calls.append(f"after {type(module).__name__}"))
    lazy(Tensor(np.ones((1, 3, 4), np.float32)))
    assert calls == ["before LazyConv1d", "after Conv1d"]


def test_output_size_of_the_first_call() -> None:
    lazy = nn.LazyConvTranspose1d(2, 3, stride=2)
    assert lazy(Tensor(np.ones((1, 3, 4), np.float32)), output_size=[10]).shape == (1, 2, 10)


def test_a_part_of_the_state() -> None:
    weight = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    lazy = nn.LazyLinear(2)
    assert lazy.load_state_dict({"weight": weight}, strict=False).missing_keys == ["bias"]
    assert lazy.in_features == 3
    with pytest.raises(ValueError, match="LazyLinear: the loaded parameters have in_features=3, but input has 4"):
        lazy(Tensor(np.ones((1, 4), np.float32)))
    lazy(Tensor(np.ones((1, 3), np.float32)))
    np.testing.assert_array_equal(lazy.weight.array, weight)
    assert abs(lazy.bias.array).max() <= 3**-0.5


@pytest.mark.parametrize(
    ("layer", "state", "message"),
    [
        (
            lambda: nn.Sequential(nn.LazyConv2d(4, 3)),
            {"0.weight": np.zeros((5, 3, 3, 3), "f"), "0.bias": np.zeros(5, "f")},
            "size mismatch for 0.weight: copying a param with shape (5, 3, 3, 3) from checkpoint, the shape must be (",
        ),
        (
            lambda: nn.LazyConvTranspose1d(4, 3, groups=2),
            {"weight": np.zeros((3, 2, 3), "f"), "bias": np.zeros(4, "f")},
            "size mismatch for weight: copying a param with shape (3, 2, 3)",
        ),
        (
            lambda: nn.LazyInstanceNorm1d(affine=False),
            {"weight": np.zeros(4, "f")},
            'Unexpected key(s) in state_dict: "weight"',
        ),
        (
            lambda: nn.LazyBatchNorm1d(track_running_stats=False),
            {"weight": np.zeros(4, "f"), "bias": np.zeros(5, "f")},
            "size mismatch for weight: copying a param with shape (4,) from checkpoint, the shape must be (5,)",
        ),
        (lambda: nn.LazyLinear(2, False), {"weight": np.zeros((2, 3), "F")}, "dtype mismatch for weight: complex"),
        (lambda: nn.LazyLinear(2, False), {"weight": [1]}, '"weight": expected a Tensor or an array, got list'),
        (lambda: nn.LazyLinear(2), {}, 'Missing key(s) in state_dict: "weight", "bias".'),
    ],
)
def test_loading_what_does_not_fit(layer: Callable[[], Any], state: dict[str, Any], message: str) -> None:
    module = layer()
    with pytest.raises(RuntimeError, match=re.escape(message)):
        module.load_state_dict(state)
    assert all(isinstance(p, nn.UninitializedParameter) for p in module.parameters())


@pytest.mark.parametrize(
    ("layer", "shape", "kind", "message"),
    [
        (lambda: nn.LazyConv2d(4, 3), (3,), RuntimeError, "Expected 3D (unbatched) or 4D (batched) input to Lazy"),
        (
            lambda: nn.LazyConv1d(4, 3, groups=2),
            (1, 3, 5),
            ValueError,
            "LazyConv1d: in_channels=3 must be at least 1 and divisible by groups=2",
        ),
        (nn.LazyBatchNorm2d, (2, 3, 4), ValueError, "expected 4D input (got 3D input)"),
        (nn.LazyBatchNorm1d, (2, 0), ValueError, "LazyBatchNorm1d: input has no channels; input.shape=(2, 0)"),
        (lambda: nn.LazyLinear(4), (), ValueError, "LazyLinear: input is 0-d; its last axis must hold the features"),
    ],
)
def test_inputs_that_do_not_fit(
    layer: Callable[[], Any], shape: tuple[int, ...], kind: type[Exception], message: str
) -> None:
    module = layer()
    with pytest.raises(kind, match=re.escape(message)):
        module(Tensor(np.zeros(shape, np.float32)))
    assert module.has_uninitialized_params() and getattr(module, module.size_name) == 0


def test_a_first_call_that_fails_teaches_nothing() -> None:
    lazy = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d())
    parameters, text = list(lazy.parameters()), repr(lazy)
    with pytest.raises(ValueError, match="in 0 .*no output on axis 0"):
        lazy(Tensor(np.zeros((2, 3, 2, 5), np.float32)))
    assert repr(lazy) == text and all(isinstance(p, nn.UninitializedParameter) for p in lazy.parameters())
    with pytest.raises(ValueError, match=r"in 1 \(LazyBatchNorm2d"):  # one element for a channel
        lazy(Tensor(np.zeros((1, 6, 3, 3), np.float32)))
    assert lazy[0].in_channels == 6 and lazy[1].num_features == 0
    assert all(isinstance(tensor, nn.UninitializedBuffer) for tensor in (lazy[1].running_mean, lazy[1].running_var))
    lazy(Tensor(np.ones((2, 6, 5, 5), np.float32)))
    assert all(p is q and type(p) is nn.Parameter for p, q in zip(lazy.parameters(), parameters, strict=True))


def test_arguments_are_checked_at_once() -> None:
    with pytest.raises(ValueError, match="LazyConv2d: out_channels=3 must be divisible by groups=2"):
        nn.LazyConv2d(3, 3, groups=2)
    with pytest.raises(ValueError, match="LazyConvTranspose1d: padding_mode='wrap' must be one of"):
        nn.LazyConvTranspose1d(3, 3, padding_mode="wrap")
    with pytest.raises(ValueError, match="LazyBatchNorm1d: momentum=2 must be between 0 and 1"):
        nn.LazyBatchNorm1d(momentum=2)
