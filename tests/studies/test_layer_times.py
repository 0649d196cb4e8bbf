"""Times of packed and float networks, layer by layer, and the sentences about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import lowbit, nn
from retrograd.studies import layer_times
from retrograd.studies.layer_times import Part, for_inference, remark, times_in_turns

SIGNS: dict[str, Any] = {"weight": lowbit.XNOR(), "activation": lowbit.XNOR()}


def network() -> nn.Sequential:
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3),
        nn.BatchNorm2d(8),
        nn.Hardtanh(),
        lowbit.Conv2d(8, 16, 3, **SIGNS),
        nn.Flatten(),
        nn.Linear(256, 3),
    )
    net(retrograd.randn(9, 1, 8, 8))
    return net.eval()


def test_a_float_network_for_inference_has_the_same_bits() -> None:
    net, x = network(), retrograd.randn(2, 1, 8, 8)
    fast = for_inference(net)
    assert type(fast[1]).__name__ == "PackedNorm" and type(net[1]) is nn.BatchNorm2d
    np.testing.assert_array_equal(fast(x).detach().numpy(), net(x).detach().numpy())


def test_parts_are_timed_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each network runs as often as the others, and the times of a part include those of the modules after it."""
    monkeypatch.setattr(layer_times, "_SECONDS", 0.0)
    runs = []
    original = layer_times._run
    monkeypatch.setattr(
        layer_times, "_run", lambda model, *rest, **more: runs.append(model) or original(model, *rest, **more)
    )
    models = {"float": for_inference(network()), "packed": network().pack().model}
    parts = times_in_turns(models, retrograd.randn(2, 1, 8, 8))
    assert runs.count(models["float"]) == runs.count(models["packed"]) == 11
    for name, of_network in parts.items():
        assert [part.name for part in of_network] == ["Conv2d(1, 8)", "Conv2d(8, 16)", "Linear(256, 3)"]
        assert [part.arithmetic for part in of_network] == ["float", "binary" if name == "packed" else "float", "float"]
        assert all(part.seconds >= part.steps["layer"] > 0 for part in of_network)
    assert sorted(parts["packed"][1].steps) == ["codes", "factor", "layer", "one"]
    assert parts["packed"][1].used == 0.25 and parts["float"][1].used == 1.0


def test_the_reasons_of_a_slower_part() -> None:
    whole = [
        Part("Conv2d(8, 16)", "float", 50e-6, {"layer": 30e-6}),
        Part("Linear(4, 3)", "float", 9e-6, {"layer": 9e-6}),
    ]
    steps = {"layer": 60e-6, "one": 40e-6, "codes": 7e-6, "factor": 20e-6}
    packed = [Part("Conv2d(8, 16)", "binary", 100e-6, steps, used=0.25), whole[1]]
    assert remark("XNOR", packed, whole) == (
        "XNOR is 0.54 times as fast as float. Microseconds for a batch, with the modules after each layer: "
        "Conv2d(8, 16) 50 to 100, Linear(4, 3) 9 to 9. "
        "Conv2d(8, 16) is slower, with binary arithmetic: the layer takes 60 instead of 30; "
        "7 of this convert its float input to codes; 20 of this compute the mean |x| of each window; "
        "a single image takes 40, so this is mostly the fixed cost of a call; "
        "its input channels fill 25% of the words of codes; the modules after it take 40 instead of 20."
    )
    packed[0].seconds = 49e-6
    assert remark("XNOR", packed, whole).endswith("Linear(4, 3) 9 to 9.")
