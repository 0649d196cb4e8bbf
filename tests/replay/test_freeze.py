"""Frozen modules: constant weights, batch norms within convolutions."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from comparison import bits
from replay.small import NETWORKS, image, launches, network
from retrograd import nn
from retrograd.nn.compilation import explain_recording

pytestmark = pytest.mark.usefixtures("without_gradients")


def test_a_frozen_convolution_whose_own_result_is_read() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

        def forward(self, x: rg.Tensor) -> list[rg.Tensor]:
            y = self.conv(x)
            return [y, self.norm(y)]

    rg.manual_seed(0)
    net = Both().eval()
    frozen = net.freeze()
    for seed in (0, 0, 1, 2):
        for y, wanted in zip(frozen(image(seed)), net(image(seed)), strict=True):
            np.testing.assert_allclose(y.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_freezing_a_module_whose_copies_share_parameters() -> None:
    class Shared(nn.Linear):
        def __deepcopy__(self, memo: dict[int, Any]) -> nn.Module:
            return self

    net = nn.Sequential(Shared(3, 3)).eval()
    with pytest.raises(ValueError, match=r"freeze: copy.deepcopy\(Sequential\) shares parameters"):
        net.freeze()
    assert net[0].weight.requires_grad


def with_statistics(net: nn.Module, shape: tuple[int, ...]) -> nn.Module:
    """The network in eval mode, with running statistics that are not those of the start."""
    net.train()
    for seed in range(3):
        net(image(seed + 20, *shape) * 2 + 0.5)
    return net.eval()


def chain(*layers: nn.Module) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(*copy.deepcopy(layers))


C, B = nn.Conv2d, nn.BatchNorm2d


FROZEN: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    **NETWORKS,
    "with a bias": (chain(C(3, 20, 5, padding=2), B(20), nn.ReLU(), C(20, 4, 1), B(4, affine=False)), (2, 3, 9, 8)),
    "transposed": (chain(nn.ConvTranspose2d(3, 17, 4, 2, 1, bias=False), B(17)), (2, 3, 5, 6)),
    "groups": (chain(C(6, 12, 3, groups=3), B(12), nn.ConvTranspose2d(12, 6, 3, groups=3), B(6)), (2, 6, 7, 7)),
    "winograd": (chain(C(40, 40, 3, padding=1), B(40), nn.SiLU()), (2, 40, 16, 15)),
    "large": (chain(C(260, 300, 3, 2), B(300)), (1, 260, 7, 7)),
    "volumes": (chain(nn.Conv3d(3, 5, 3), nn.BatchNorm3d(5)), (1, 3, 4, 5, 6)),
}


@pytest.mark.parametrize("name", FROZEN)
def test_frozen_networks_differ_by_rounding(name: str) -> None:
    make, shape = FROZEN[name]
    rg.manual_seed(2)
    net = with_statistics(make(), shape)
    frozen = net.freeze()
    for seed in (0, 0, 1, 2):
        x = image(seed, *shape)
        wanted = copy.deepcopy(net).double()(x.double()).numpy()
        error, usual = (np.abs(each.numpy() - wanted).max() for each in (frozen(x), net(x)))
        assert error <= 3 * usual + 1e-6 * np.abs(wanted).max()
    assert launches(frozen) == 1


def test_batch_norms_become_part_of_convolutions() -> None:
    net = with_statistics(network(), (2, 3, 9, 9))
    compiled, frozen, x = rg.compile(net), net.freeze(), image()
    compiled(x), frozen(x)
    (usual,), (less,) = (each._recorder.found.values() for each in (compiled, frozen))
    assert {"fixed_scale", "channel_affine_clamp"} <= {step.kernel for step in usual.steps}
    assert not {"fixed_scale", "channel_affine"} & {step.kernel for step in less.steps}
    assert not [
        call for program, _ in less.parts for call in program.calls if "pack" in getattr(call[0], "__name__", "")
    ]


def test_a_scale_that_others_read_is_kept() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5)

        def forward(self, x: rg.Tensor) -> rg.Tensor:
            y = self.conv(x)
            return self.norm(y) + y

    net = with_statistics(Twice(), (2, 3, 9, 9))
    frozen, x = net.freeze(), image()
    for given in (x, x * 2):
        np.testing.assert_allclose(frozen(given).numpy(), net(given).numpy(), atol=1e-5)


def test_what_is_frozen_does_not_change() -> None:
    net, x = with_statistics(network(), (2, 3, 9, 9)), image()
    frozen = net.freeze()
    before = frozen(x).numpy()
    net[0].weight.mul_(2)
    net[1].running_mean.add_(1)
    np.testing.assert_array_equal(frozen(x).numpy(), before)
    other = frozen(image(0, 1, 3, 9, 9))  # recorded later, with the same weights
    np.testing.assert_allclose(other.numpy(), frozen(image(0, 1, 3, 9, 9)).numpy())
    with rg.enable_grad():
        assert not frozen(x.requires_grad_()).requires_grad
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(frozen))(x.detach()).numpy(), before)


class CountingInABuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(9, 9)
        self.register_buffer("calls", rg.zeros(1))

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        self.calls.add_(1)
        return self.linear(x) * self.calls


def test_a_frozen_module_that_changes_a_buffer_runs_as_usual() -> None:
    net = CountingInABuffer().eval()
    frozen = net.freeze()
    for _ in range(4):
        assert bits(net(image()).detach().numpy()) == bits(frozen(image()).numpy())
    assert "it changes a parameter or buffer" in explain_recording(frozen)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_freezing_by_a_call_with_numbers_that_are_not_finite(number: float) -> None:
    net = nn.Sequential(nn.Linear(9, 9), nn.ReLU(), nn.Linear(9, 2)).eval()
    frozen, x = net.freeze(), image()
    frozen(x * number)  # an error if NumPy warns
    assert rg.allclose(frozen(x), net(x), atol=1e-5)


def test_freezing_in_training_mode_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"freeze: Sequential is in training mode; call eval\(\) first"):
        network().train().freeze()
