"""Pruning: which elements become 0, and that they stay 0."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.nn.utils import prune


def layer(seed: int = 0) -> nn.Linear:
    rng = np.random.default_rng(seed)
    found = nn.Linear(5, 4).double()
    with rg.no_grad():
        found.weight.copy_(rg.tensor(rng.standard_normal((4, 5))))
    return found


def test_the_smallest_elements_are_pruned_and_stay_so() -> None:
    net = layer()
    weight, before = net.weight, net.weight.array.copy()
    assert prune.l1_unstructured(net, "weight", amount=0.3) is net
    small = np.abs(before) <= np.sort(np.abs(before), axis=None)[5]
    np.testing.assert_array_equal(net.weight.array, np.where(small, 0, before))
    assert net.weight_orig is weight and sorted(net.state_dict()) == ["bias", "weight_mask", "weight_orig"]
    opt = rg.optim.SGD([weight, net.bias], 0.1)
    x = rg.tensor(np.random.default_rng(1).standard_normal((3, 5)))
    for _ in range(3):
        opt.zero_grad()
        net(x).square().sum().backward()
        assert weight.grad is not None and ((weight.grad.array == 0) == small).all()
        opt.step()
    assert ((net.weight.array == 0) == small).all()
    prune.l1_unstructured(net, "weight", amount=4)  # among those that are left
    now = net.weight.array.copy()
    assert (now == 0).sum() == 10 and (now[small] == 0).all()
    assert prune.remove(net, "weight") is net and net.weight is weight and not prune.is_pruned(net)
    np.testing.assert_array_equal(net.weight.array, now)
    assert sorted(net.state_dict()) == ["bias", "weight"]


@pytest.mark.parametrize(("n", "norm"), [(1, lambda w: np.abs(w).sum(0)), (np.inf, lambda w: np.abs(w).max(0))])
def test_channels_with_the_smallest_norms_are_pruned(n: float, norm: Callable[[np.ndarray], np.ndarray]) -> None:
    net = layer()
    before = net.weight.array.copy()
    for dim, count in ((1, 2), (-1, 1)):
        prune.ln_structured(net, "weight", count, n, dim)
    least = np.argsort(norm(before))[:3]
    wanted = before.copy()
    wanted[:, least] = 0
    np.testing.assert_array_equal(net.weight.array, wanted)


def test_random_pruning() -> None:
    net = layer()
    prune.random_unstructured(net, "weight", 7)
    prune.random_unstructured(net, "bias", 0.5)
    assert (net.weight_mask.array == 0).sum() == 7 and (net.bias_mask.array == 0).sum() == 2
    net = layer()
    prune.random_structured(net, "weight", 0.5, 0)
    assert sorted((net.weight_mask.array == 0).sum(1).tolist()) == [0, 0, 5, 5]


def test_several_parameters_as_one() -> None:
    net = nn.Sequential(layer(0), nn.ReLU(), nn.Linear(4, 3).double())
    pairs = [(net[0], "weight"), (net[2], "bias")]
    scores = {pairs[1]: rg.tensor([9.0, 0.0, 9.0], dtype=rg.float64)}
    before = net[0].weight.array.copy()
    prune.identity(net[0], "weight")
    prune.global_unstructured(pairs, prune.L1Unstructured, scores, amount=3)
    small = np.abs(before) <= np.sort(np.abs(before), axis=None)[1]
    np.testing.assert_array_equal(net[0].weight_mask.array, 1.0 * ~small)
    assert net[2].bias_mask.tolist() == [1, 0, 1] and prune.is_pruned(net)


def test_masks_and_methods_of_ones_own() -> None:
    class Column(prune.BasePruningMethod):
        def compute_mask(self, t: rg.Tensor, default_mask: rg.Tensor) -> rg.Tensor:
            found = default_mask.clone()
            found[..., 0] = 0
            return found

    net, x = layer(), rg.tensor(np.random.default_rng(1).standard_normal((3, 5)))
    mask = rg.ones(4, 5)
    mask[1] = 0
    prune.custom_from_mask(net, "weight", mask)
    assert (net.weight.array == 0).sum() == 5 and not net.weight.array[1].any()
    assert (Column().prune(x).array == x.array * [0, 1, 1, 1, 1]).all()
    other = layer()
    Column.apply(other, "weight")
    assert not other.weight.array[:, 0].any()
    compiled = rg.compile(net)
    for each in (copy.deepcopy(net), pickle.loads(pickle.dumps(net)), compiled, compiled, compiled):
        np.testing.assert_array_equal(each(x).array, net(x).array)


REFUSED: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda m: prune.l1_unstructured(m, "a", 0.1), ValueError, "L1Unstructured: Linear has no parameter 'a'"),
    (lambda m: prune.l1_unstructured(m, "weight", 1.5), ValueError, "amount=1.5 must be a share from 0 to 1, or an"),
    (lambda m: prune.l1_unstructured(m, "weight", 21), ValueError, "amount=21 is more than the 20 that are left"),
    (lambda m: prune.ln_structured(m, "bias", 1, 2, 0), ValueError, r"shape \(4,\) has no channels; it needs two"),
    (lambda m: prune.ln_structured(m, "weight", 1, 2, 5), IndexError, r"dim=5 is out of range for a parameter of"),
    (lambda m: prune.remove(m, "weight"), ValueError, "remove: 'weight' of Linear is not pruned"),
    (lambda m: prune.custom_from_mask(m, "weight", rg.ones(2)), ValueError, r"mask has shape \(2,\), needs a Tensor"),
    (lambda m: prune.global_unstructured([], prune.Identity), ValueError, "parameters is empty"),
    (lambda m: prune.global_unstructured([m], prune.Identity), TypeError, "holds Linear, needs pairs"),
    (
        lambda m: prune.global_unstructured([(m, "weight")], prune.LnStructured, amount=1, n=2),
        TypeError,
        "LnStructured is structured, not unstructured",
    ),
    (lambda m: prune.BasePruningMethod.apply(m, "weight"), NotImplementedError, "has no compute_mask"),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_what_is_refused(call: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    net = layer()
    with pytest.raises(error, match=message):
        call(net)
    assert sorted(net.state_dict()) == ["bias", "weight"]


def test_an_unknown_type_is_refused() -> None:
    class Odd(prune.Identity):
        PRUNING_TYPE = "odd"

    net = layer()
    prune.identity(net, "weight")
    with pytest.raises(ValueError, match="Odd: PRUNING_TYPE='odd' must be 'unstructured', 'structured' or 'global'"):
        Odd.apply(net, "weight")
