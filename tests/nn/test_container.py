"""Sequential and ModuleList."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import nn
from retrograd.engine.tensor import Tensor


class Plus(nn.Module):
    def __init__(self, number: float) -> None:
        super().__init__()
        self.number = number

    def forward(self, x: Tensor) -> Tensor:
        return x * 10.0 + self.number


def numbers(modules: Any) -> list[float]:
    return [module.number for module in modules]


def names(modules: nn.Module) -> list[str]:
    return [name for name, _ in modules.named_children()]


def test_sequential_calls_in_turn() -> None:
    net = nn.Sequential(Plus(1), Plus(2), Plus(3))
    assert net(Tensor([0.0])).item() == 123
    assert nn.Sequential()(5) == 5
    assert nn.Sequential({"a": Plus(1), "b": Plus(2)})(Tensor([0.0])).item() == 12
    assert nn.Sequential({"a": Plus(1)}).a.number == 1


@pytest.mark.parametrize("kind", [lambda *m: nn.Sequential(*m), lambda *m: nn.ModuleList(m)])
def test_list_behavior(kind: Any) -> None:
    net = kind(*map(Plus, range(5)))
    assert len(net) == 5
    assert numbers(net) == [0, 1, 2, 3, 4]
    assert net[-1].number == 4 and net[np.int64(2)].number == 2
    part = net[1:4]
    assert type(part) is type(net) and numbers(part) == [1, 2, 3]
    assert part[0] is net[1]
    net[1] = Plus(7)
    del net[0]
    assert numbers(net) == [7, 2, 3, 4] and names(net) == ["0", "1", "2", "3"]
    del net[1:3]
    assert numbers(net) == [7, 4] and names(net) == ["0", "1"]
    assert net.insert(1, Plus(9)) is net
    net.insert(-1, Plus(8))
    net.insert(len(net), Plus(6))
    assert numbers(net) == [7, 9, 8, 4, 6] and names(net) == ["0", "1", "2", "3", "4"]
    assert net.append(Plus(1)) is net
    assert net.extend([Plus(2), Plus(3)]) is net
    assert numbers(net)[5:] == [1, 2, 3]


def test_module_list_adds_like_a_list() -> None:
    modules = nn.ModuleList([Plus(1)])
    modules += [Plus(2)]
    assert numbers(modules) == [1, 2]
    assert numbers(modules + [Plus(3)]) == [1, 2, 3]
    assert numbers(modules) == [1, 2]
    assert len(nn.ModuleList()) == 0


def test_slices_of_named_sequentials_keep_the_names() -> None:
    net = nn.Sequential({"a": Plus(1), "b": Plus(2), "c": Plus(3)})
    assert names(net[1:]) == ["b", "c"]


@pytest.mark.parametrize("kind", [nn.Sequential, nn.ModuleList])
def test_refusals_change_nothing(kind: Any) -> None:
    net = kind()
    net.append(Plus(1))
    for index in (1, -2):
        with pytest.raises(IndexError, match=f"index {index} is out of range; it holds 1 modules"):
            _ = net[index]
    with pytest.raises(IndexError, match="index 3 is out of range"):
        net.insert(3, Plus(2))
    with pytest.raises(IndexError, match="index 5 is out of range"):
        net[5] = Plus(2)
    with pytest.raises(IndexError, match="index 5 is out of range"):
        del net[5]
    for call in (
        lambda: net.append(3),
        lambda: net.extend([Plus(2), 3]),
        lambda: net.insert(0, 3),
    ):
        with pytest.raises(TypeError, match=f"{kind.__name__}: 3 is not a Module but int"):
            call()
    with pytest.raises(TypeError, match="got int, expected Module or None"):
        net[0] = 3
    assert numbers(net) == [1]
    with pytest.raises(TypeError, match="is not a Module"):
        nn.Sequential(Plus(1), lambda x: x)  # type: ignore[arg-type]


def test_module_list_has_no_forward() -> None:
    with pytest.raises(NotImplementedError, match='ModuleList has no "forward"'):
        nn.ModuleList([Plus(1)])(Tensor([0.0]))


class _Doubled(nn.ReLU):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) * 2


@pytest.mark.parametrize("mode", [retrograd.no_grad, retrograd.inference_mode])
@pytest.mark.parametrize("shape", [(3, 21, 30, 23), (40, 37, 29), (2100, 19), (2, 5, 7, 6)])
@pytest.mark.parametrize(
    "activation",
    [nn.ReLU, nn.ReLU6, lambda: nn.ReLU(inplace=True), lambda: nn.ReLU6(inplace=True), nn.Tanh, _Doubled],
)
def test_batch_norm_and_activation_without_a_graph(activation: Callable[[], Any], shape: Any, mode: Any) -> None:
    """The batch norm and the clamp after it are one pass; the bits are those of the two, which hooks still see."""
    kinds = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}
    retrograd.manual_seed(0)
    x = retrograd.randn(*shape) * 4
    if len(shape) == 4:
        x = x.contiguous(memory_format=retrograd.channels_last)
    net = nn.Sequential(kinds[len(shape)](shape[1]), activation(), kinds[len(shape)](shape[1]))
    net(x)
    net.eval()
    with mode():
        for given in (x, x.contiguous(), -x, x * float("nan")):
            expected = net[2](net[1](net[0](given)))
            y = net(given)
            assert np.array_equal(y.numpy(), expected.numpy(), equal_nan=True)
            assert y.is_inference() == expected.is_inference()
        seen: list[Any] = []
        with net[1].register_forward_pre_hook(lambda module, args: seen.append(args[0].numpy().copy())):
            net(x)
        assert np.array_equal(seen[0], net[0](x).numpy())
        assert [step.kernel for step in retrograd.record_steps(net, x)][1] == "channel_affine"
