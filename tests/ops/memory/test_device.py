"""Devices: the CPU, names of other devices, and factory options without effect."""

from __future__ import annotations

import copy
import functools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.data import DataLoader

CPU = rg.device("cpu")
FACTORIES: dict[str, Callable[..., rg.Tensor]] = {
    "tensor": lambda **o: rg.tensor([1.0], **o),
    "as_tensor": lambda **o: rg.as_tensor([1.0], **o),
    "asarray": lambda **o: rg.asarray([1.0], **o),
    "zeros": lambda **o: rg.zeros(2, **o),
    "ones": lambda **o: rg.ones(2, **o),
    "empty": lambda **o: rg.empty(2, **o),
    "full": lambda **o: rg.full((2,), 3.0, **o),
    "eye": lambda **o: rg.eye(2, **o),
    "arange": lambda **o: rg.arange(3, **o),
    "linspace": lambda **o: rg.linspace(0, 1, 3, **o),
    "logspace": lambda **o: rg.logspace(0, 1, 3, **o),
    "rand": lambda **o: rg.rand(2, **o),
    "randn": lambda **o: rg.randn(2, **o),
    "randint": lambda **o: rg.randint(3, (2,), **o),
    "randperm": lambda **o: rg.randperm(3, **o),
    "normal": lambda **o: rg.normal(0.0, 1.0, (2,), **o),
    "tril_indices": lambda **o: rg.tril_indices(2, 2, **o),
    "triu_indices": lambda **o: rg.triu_indices(2, 2, **o),
    **{
        name: functools.partial(getattr(rg, name), rg.zeros(2))
        for name in ("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like")
    },
    "full_like": lambda **o: rg.full_like(rg.zeros(2), 3.0, **o),
    "randint_like": lambda **o: rg.randint_like(rg.zeros(2), 3, **o),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_every_factory_takes_a_device(name: str) -> None:
    factory = FACTORIES[name]
    for device in (None, "cpu", "cpu:0", CPU):
        assert factory(device=device).device == CPU
    with pytest.raises(RuntimeError, match=rf"{name}: device='cuda:1', but there is one device, the CPU; leave"):
        factory(device=rg.device("cuda", 1))
    with pytest.raises(TypeError, match=rf"{name}: device=3.5 is float, needs a device; write device='cpu'"):
        factory(device=3.5)


def test_the_name_of_a_device() -> None:
    assert repr(CPU) == "device(type='cpu')" and str(CPU) == "cpu" and CPU.index is None
    there = rg.device("cuda", 0)
    assert repr(there) == "device(type='cuda', index=0)" and str(there) == "cuda:0"
    assert rg.device(type="cuda", index=0) == there == rg.device("cuda:0") == rg.device(there)
    assert len({there, rg.device("cuda:0"), CPU, rg.device("cpu:0")}) == 3
    assert CPU != "cpu" and there != rg.device("cuda")
    assert pickle.loads(pickle.dumps(there)) == copy.deepcopy(there) == there
    with CPU as device:
        assert rg.zeros(1).device == device
    assert rg.get_default_device() == CPU
    rg.set_default_device("cpu")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: rg.device("gpu"),
            RuntimeError,
            "type='gpu' is not a device; the only one here is 'cpu' .known names: cpu, cuda, ",
        ),
        (lambda: rg.device("cuda:x"), RuntimeError, "type='cuda:x' must end with an index of at least 0"),
        (lambda: rg.device("cuda:1", 1), RuntimeError, "already has an index; leave out index=1"),
        (lambda: rg.device("cuda", -1), RuntimeError, "index=-1 must be at least 0"),
        (lambda: rg.device("cuda", "1"), TypeError, "index='1' must be an int"),
        (lambda: rg.device(0), RuntimeError, "0 is the index of an accelerator, and there is none"),
        (lambda: rg.device(1.5), TypeError, "type=1.5 is float, needs a str"),
        (lambda: setattr(CPU, "type", "cuda"), AttributeError, "type cannot be changed"),
        (lambda: rg.device("cuda").__enter__(), RuntimeError, "with device: device='cuda', but there is one"),
        (lambda: rg.set_default_device("cuda"), RuntimeError, "set_default_device: device='cuda', but there is one"),
        (lambda: rg.zeros(2).cuda(), RuntimeError, "cuda: there is one device, the CPU; leave the call out"),
        (lambda: nn.Linear(1, 1).cuda(), RuntimeError, "cuda: there is one device, the CPU; leave the call out"),
        (lambda: nn.Linear(1, 1).to("mps"), RuntimeError, "to: device='mps', but there is one device"),
        (lambda: nn.Linear(1, 1).to_empty(device="meta"), RuntimeError, "to_empty: device='meta', but there is one"),
        (lambda: nn.Linear(1, 1, device="cuda"), RuntimeError, "Linear: device='cuda', but there is one device"),
        (lambda: nn.Conv2d(1, 1, 1, device="cuda"), RuntimeError, "Conv2d: device='cuda', but there is one device"),
        (lambda: nn.ConvLSTM2d(1, 1, 3, device="cuda"), RuntimeError, "ConvLSTM2d: device='cuda', but there is one"),
        (lambda: rg.zeros(2).to("cpu", "gpu"), TypeError, "dtype='gpu' is not an element type"),
        (lambda: rg.zeros(2).to(CPU, rg.float64, False, True, 1), TypeError, "to: got 5 arguments; the forms are to"),
        (lambda: rg.zeros(2).to(np.float64, dtype=1), TypeError, "unexpected argument dtype=1"),
        (lambda: rg.zeros(2).to("cpu", copy=1), TypeError, "copy=1"),
        (lambda: rg.zeros(2, devise="cpu"), TypeError, r"zeros\(\) got an unexpected keyword argument 'devise'"),
        (lambda: rg.zeros_like(rg.zeros(2), out=None), TypeError, r"zeros_like\(\) got an unexpected keyword"),
        (lambda: rg.zeros(2, out=2), TypeError, "zeros: out=int must be a Tensor"),
        (lambda: rg.zeros(2, layout="strided"), TypeError, "layout='strided' must be retrograd.strided"),
        (lambda: rg.zeros(2, pin_memory=2), TypeError, "pin_memory=2"),
        (lambda: rg.empty(2, memory_format=1), TypeError, "memory_format=1 must be a memory format"),
        (lambda: rg.empty(2, memory_format=rg.channels_last), ValueError, "is not supported here; write empty"),
        (lambda: DataLoader([1], pin_memory=2), TypeError, "pin_memory=2"),
        (lambda: DataLoader([1], pin_memory=True, pin_memory_device="cuda"), RuntimeError, "there is one device"),
    ],
)
def test_what_is_refused(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_where_a_tensor_is_and_goes() -> None:
    x = rg.randn(2, 3)
    assert x.device == CPU and x.is_cpu and not x.is_cuda and x.get_device() == -1 and x.layout is rg.strided
    for same in (x.cpu(), x.to("cpu"), x.to(CPU), x.to(CPU, rg.float32, non_blocking=True), x.to(device=CPU), x.to(x)):
        assert same is x
    assert x.pin_memory() is x and not x.is_pinned() and x.to(rg.zeros(1, dtype=rg.int64)).dtype == rg.int64
    copied = x.to("cpu", copy=True)
    assert copied is not x and np.array_equal(copied.array, x.array)
    w = rg.randn(2, requires_grad=True)
    g = rg.randn(2, dtype=rg.float64)
    w.to("cpu", rg.float64, copy=True).backward(g)
    assert w.grad is not None and np.array_equal(w.grad.array, g.array.astype(np.float32))
    other = type("device", (), {"type": "cpu", "index": None, "__str__": lambda self: "cpu"})()  # another library's
    assert rg.zeros(1, device=other).to(other).device == CPU


def test_factories_take_options_without_meaning() -> None:
    x = rg.zeros(2, 3, out=None, layout=rg.strided, pin_memory=True, memory_format=rg.contiguous_format)
    assert x.shape == (2, 3) and rg.ones_like(x, memory_format=rg.preserve_format, layout=None).shape == (2, 3)
    assert len(DataLoader([1, 2], 2, False, None, None, 0, None, True, in_order=False)) == 1
    for value in (rg.strided, rg.channels_last):
        assert pickle.loads(pickle.dumps(value)) is value and repr(value).startswith("retrograd.")


@pytest.mark.parametrize("layer", [nn.Linear, nn.LayerNorm, nn.BatchNorm1d, nn.PReLU, nn.LazyLinear, nn.GRU])
def test_layers_take_a_device_and_a_type(layer: Any) -> None:
    sizes = (3, 4) if layer in (nn.Linear, nn.GRU) else (3,)
    net = layer(*sizes, device=CPU, dtype=rg.float64)
    assert {parameter.dtype for parameter in net.parameters()} == {rg.float64}
    assert net.to(CPU) is net.cpu() is net.to("cpu", rg.float32, non_blocking=True) is net
    assert {parameter.dtype for parameter in net.parameters()} == {rg.float32}
    net.to(rg.zeros(1, dtype=rg.float64))
    assert {parameter.dtype for parameter in net.type("torch.DoubleTensor").parameters()} == {rg.float64}
    with pytest.raises(TypeError, match="dtype=float16, but layers compute in float32 or float64"):
        net.half()
    with pytest.raises(TypeError, match="bfloat16: layers compute in float32 or float64"):
        net.bfloat16()


def test_to_empty_gives_new_memory() -> None:
    net = nn.BatchNorm1d(3)
    before = [tensor.array for tensor in net.state_dict(keep_vars=True).values()]
    net.to_empty(device="cpu")
    after = [tensor.array for tensor in net.state_dict(keep_vars=True).values()]
    assert all(new is not old and new.shape == old.shape for new, old in zip(after, before, strict=True))
