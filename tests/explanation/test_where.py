"""``source_map`` and ``retrograd where``: the stops are there, in their files, at their lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import retrograd as rg
from retrograd import nn
from retrograd.cli import main
from retrograd.engine.operator import OPERATORS
from retrograd.explanation.where import Stop, source_map, stops_of
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name

PACKAGE = Path(rg.__file__).parent


def text_at(stop: Stop) -> str:
    """The lines from the one that a stop names, as far as the name could be behind decorators."""
    return "\n".join((PACKAGE / stop.file).read_text(encoding="utf-8").splitlines()[stop.line - 1 : stop.line + 4])


def names(stops: list[Stop], role: str) -> list[str]:
    return [stop.name for stop in stops if stop.role == role]


def test_every_stop_of_every_operator_is_there() -> None:
    seen = set()
    for operator in OPERATORS:
        stops = stops_of(operator.function)
        assert stops[0].role == "operator" and stops[0].name == operator.name
        for stop in stops:
            if stop in seen or operator.function.__name__ != operator.function.__code__.co_name:
                continue
            seen.add(stop)
            name = stop.role if stop.role in ("forward", "backward") else stop.name.rpartition(".")[2]
            if stop.line == 1 and stop.role == "compiled":
                continue  # made in a loop
            inner = r"^    def ((for|back)ward\b|(for|back)ward_of_|of_(one|two|three))"  # made by another function
            assert re.search(rf"\b{re.escape(name)}\b|{inner}", text_at(stop)), stop
    assert len(seen) > 1500


def test_the_way_of_a_convolution() -> None:
    stops = stops_of("conv2d")
    assert names(stops, "Function") == ["Conv", "ConvInputGrad", "ConvWeightGrad"]
    assert names(stops, "textbook") == names(stops, "kernel") == ["conv", "conv_input_grad", "conv_weight_grad"]
    assert {"convolution.convolution.gather", "convolution.winograd.multiply_pairs"} <= {*names(stops, "compiled")}
    (textbook, *_) = [stop for stop in stops if stop.role == "textbook"]
    assert textbook.file == "textbook/convolution.py" and "def conv(" in text_at(textbook)


def test_of_a_tensor_the_algorithm_too() -> None:
    y = F.conv2d(rg.ones(2, 64, 28, 28, requires_grad=True), rg.ones(64, 64, 3, 3), padding=1)
    shown = source_map(y)
    assert shown.startswith("Function             Conv") and "the algorithm for these shapes" in shown
    plan = F.conv_plan((2, 64, 28, 28), (64, 64, 3, 3), padding=1)
    assert re.search(rf"  conv +{plan.output.algorithm} .*direct [\d,]+", shown)
    assert re.search(rf"  conv_weight_grad +{plan.weight_gradient.algorithm} ", shown)
    assert "algorithm" not in source_map(rg.exp(rg.ones(2, requires_grad=True)))


def test_formulas_and_parts() -> None:
    assert names(stops_of(rg.sigmoid), "gradient") == ["sigmoid_grad"]
    assert {"add", "mul"} <= {*names(stops_of(nn.LSTM), "calls")}
    assert names(stops_of(nn.LSTM(2, 3)), "Function")[0] == "PlaceRows"
    assert names(stops_of(nn.Conv2d), "calls") == ["conv2d"]


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["where", "torch.nn.functional.softmax"]) == 0
    assert capsys.readouterr().out.rstrip("\n") == source_map(F.softmax)
    assert main(["where", "sofmax"]) == 2
    assert "there is no operator or layer 'sofmax'; near: softmax" in capsys.readouterr().err


def test_what_is_none() -> None:
    with pytest.raises(TypeError, match="source_map: got int, expected an operator, its name, a layer or a Tensor"):
        source_map(3)
    with pytest.raises(ValueError, match="this tensor is not the result of a recorded operation"):
        source_map(rg.ones(2))
