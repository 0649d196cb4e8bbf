"""``source_map`` and ``retrograd where``: files and lines of each stage, and what a call ran."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import retrograd as rg
from retrograd import nn
from retrograd.cli import main
from retrograd.engine.operator import OPERATORS
from retrograd.engine.steps import Steps
from retrograd.explanation.operators import find
from retrograd.explanation.source_map import Stop, listed, ran, source_map, stops_of
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name

PACKAGE = Path(rg.__file__).parent


def text_at(stop: Stop) -> str:
    """Return the source from a stop's line on, far enough to reach the name behind decorators."""
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
    assert names(stops, "Function") == ["Conv", "ConvWeightGrad", "ConvInputGrad"]
    assert names(stops, "textbook") == names(stops, "kernel") == ["conv", "conv_weight_grad", "conv_input_grad"]
    assert {"convolution.direct.gather", "convolution.winograd.multiply_pairs"} <= {*names(stops, "compiled")}
    (textbook, *_) = [stop for stop in stops if stop.role == "textbook"]
    assert textbook.file == "kernels/textbook/convolution.py" and "def conv(" in text_at(textbook)


def test_of_a_tensor_the_algorithm_too() -> None:
    y = F.conv2d(rg.ones(2, 64, 28, 28, requires_grad=True), rg.ones(64, 64, 3, 3), padding=1)
    shown = source_map(y)
    assert shown.startswith("Function             Conv") and "the algorithm for these shapes" in shown
    plan = F.conv_plan((2, 64, 28, 28), (64, 64, 3, 3), padding=1)
    assert re.search(rf"  conv +{plan.output.algorithm} .*direct [\d,]+", shown)
    assert re.search(rf"  conv_weight_grad +{plan.weight_gradient.algorithm} ", shown)
    with pytest.raises(ValueError, match="no operator or layer 'unpack_patch2col'; near: unfold$"):
        source_map("unpack_patch2col")
    slow = source_map(F.conv2d(rg.ones(1, 2, 5, 5, requires_grad=True), rg.ones(2, 2, 3, 3), algorithm="mxnet"))
    assert (
        "the one that was set, in the textbook kernels; no compiled kernel runs\n  conv               mxnet\n" in slow
    )
    assert "algorithm" not in source_map(rg.exp(rg.ones(2, requires_grad=True)))


def test_the_algorithm_whatever_has_a_gradient() -> None:
    """The operands that no gradient reads are not saved; their shapes are known all the same."""

    def shown(function: Callable[..., rg.Tensor], places: str) -> list[str]:
        shapes = (2, 6, 9, 9), (6, 4, 3, 3), ((4,) if function is F.conv_transpose2d else (6,))
        if function is F.conv2d:
            shapes = (2, 4, 9, 9), *shapes[1:]
        x, w, b = (rg.ones(*shape, requires_grad=name in places) for name, shape in zip("xwb", shapes, strict=True))
        lines = source_map(function(x, w, b)).splitlines()
        heading = [at for at, line in enumerate(lines) if line.startswith("the algorithm for these shapes")]
        return lines[heading[0] :] if heading else []

    for function in (F.conv2d, F.conv_transpose2d):
        expected = shown(function, "xwb")
        assert len(expected) == 4
        assert shown(function, "x") == shown(function, "w") == shown(function, "xw") == expected
        assert shown(function, "b") == []


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


def operands() -> tuple[rg.Tensor, rg.Tensor]:
    rg.manual_seed(2)
    return rg.randn(2, 3, 8, 8, requires_grad=True), rg.randn(4, 3, 3, 3, requires_grad=True)


def recorded(x: rg.Tensor, w: rg.Tensor) -> Steps:
    """Return the steps of a convolution, forward and backward, as ``record_steps`` returns them."""
    forward = rg.record_steps(F.conv2d, x, w, padding=1)
    y = forward.result
    backward = rg.record_steps(rg.autograd.grad, y, (x, w), rg.ones_like(y))
    return Steps([*forward, *backward])


def test_a_call_lists_its_steps_and_their_launches() -> None:
    x, w = operands()
    bare, _, shown = source_map(F.conv2d, x, w, padding=1).partition("\n\n")
    assert bare == source_map(F.conv2d) == source_map("conv2d")
    assert shown.startswith("the algorithm for these shapes") and "\n\nforward: 1 step\n" in shown
    assert x.grad is None and w.grad is None
    steps = recorded(x, w)
    passes = ran(F.conv2d, (x, w), {"padding": 1})
    found = [*passes["forward"], *passes["backward"]]
    assert [step.text for step in found] == str(steps).splitlines()
    assert [line[2:] for line in shown.splitlines() if line.startswith("  %")] == str(steps).splitlines()
    assert [step.kernel.name for step in found] == [step.kernel for step in steps]
    for step, each in zip(steps, found, strict=True):
        launches = step.plan().launches
        assert [stop.name.partition("(")[0] for stop in each.launches] == [launch.name for launch in launches]
        tasks = [getattr(launch, "tasks", None) for launch in launches]
        assert [re.findall(r"\((\d+) tasks?\)$", stop.name) for stop in each.launches] == [
            [] if count is None else [str(count)] for count in tasks
        ]
        assert each.launches and not each.why_not
    taken = {(stop.file, stop.line) for step in found for stop in step.launches if "convolution" in stop.name}
    known = {(stop.file, stop.line) for stop in stops_of("conv2d") if stop.role == "compiled"}
    assert taken and taken <= known


def test_the_text_of_a_launch_is_where_it_says() -> None:
    x, w = operands()
    for call in (lambda: ran(F.conv2d, (x, w)), lambda: ran(rg.softmax, (x, 1)), lambda: ran(nn.LSTM(8, 4), (x[0],))):
        for stop in [stop for steps in call().values() for step in steps for stop in step.launches]:
            name = re.sub(r"(_[fd])?\(.*", "", stop.name)
            words = re.findall(r"\w{4,}", text_at(stop))
            assert any(f"_{name}".endswith(f"_{word}") for word in words), stop


def test_a_call_of_anything() -> None:
    x, _ = operands()
    layer = nn.Linear(8, 2)
    assert source_map(layer, x).startswith(source_map(layer) + "\n\nforward: 1 step\n")
    backward = [step.kernel.name for step in ran(layer, (x,))["backward"]]
    assert backward[:3] == ["matmul", "matmul", "sum"] and {*backward[3:]} == {"duplicate"}  # of x, weight and bias
    assert layer.weight.grad is None
    optimizer = rg.optim.SGD(layer.parameters(), lr=0.1)

    def training(x: rg.Tensor) -> rg.Tensor:
        loss = layer(x).tanh().sum()
        loss.backward()
        optimizer.step()
        return loss

    shown = source_map(training, x.detach())
    assert re.match(r"\d+ steps\n  %3: ", shown) and "= tanh_grad(" in shown and "  update(sgd, " in shown
    assert "backward:" not in source_map(rg.exp, x.detach())
    assert source_map(lambda x: x[0], x).startswith("forward: 0 steps\nbackward: 2 steps\n")
    apply = F.softmax.operator.functions[0]
    assert source_map(apply, x, 1).startswith(source_map(apply))


def test_a_step_without_machine_code() -> None:
    x, _ = operands()
    with rg.use_kernels("textbook"):
        assert {line.split()[0] for line in listed(ran(rg.softmax, (x, 1))) if line.startswith("    ")} == {"textbook"}
    shown = source_map(rg.sort, x)
    assert re.search(r"= argsort\(.*\n    textbook         argsort +kernels/textbook/sorting.py:\d+\n  %", shown)
    passes = ran(lambda: nn.Linear(2, 3) and None, ())  # its first values are rounded to float32
    assert passes["forward"][-1].why_not == "a conversion to float32 would compute elements"
    assert listed(passes)[-1].strip() == f"no plan: {passes['forward'][-1].why_not}"


def test_the_command_runs_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["where", "conv2d", "--steps", "--set", "stride=2"]) == 0
    bare, call, steps = capsys.readouterr().out.rstrip("\n").partition("\n\nF.conv2d(x, w, b, stride=2, padding=1)\n")
    assert bare == source_map("conv2d") and call
    assert steps.splitlines() == listed(find("conv2d").with_settings({"stride": 2}).steps())
    assert "  y: float32[2, 2, 2, 2] = conv(x: float32[2, 2, 4, 4], w: float32[2, 2, 3, 3], b: float32[2], " in steps
    assert "  gw: float32[2, 2, 3, 3] = duplicate(%0: " in steps
    for words, message in (
        (["conv2d", "--set", "stride=2"], "--set stride=2 is for the example of --steps; add --steps"),
        (["addmv", "--steps"], "where --steps: there is no operator 'addmv' here"),
        (["conv2d", "--steps", "--set", "stride=9"], "where --steps: stride=9 must be one of 1, 2, 3"),
    ):
        assert main(["where", *words]) == 2 and message in capsys.readouterr().err


def test_what_cannot_be_called() -> None:
    with pytest.raises(TypeError, match=r"and the class Linear, .* the object: source_map\(Linear\(...\), x"):
        source_map("Linear", rg.ones(2))
    with pytest.raises(TypeError, match="got arguments and int, which cannot be called; pass an operator, its name"):
        source_map(3, rg.ones(2))


def test_what_is_none() -> None:
    with pytest.raises(TypeError, match="source_map: got int, expected an operator, its name, a layer or a Tensor"):
        source_map(3)
    with pytest.raises(ValueError, match="this tensor is not the result of a recorded operation"):
        source_map(rg.ones(2))


def test_every_step_of_several_gradients_has_its_place() -> None:
    x, y = rg.tensor([1.0, 2.0], requires_grad=True), rg.tensor([3.0, 4.0], requires_grad=True)
    for function in (rg.xlogy, rg.mul, rg.div, rg.atan2, rg.maximum, rg.pow, rg.hypot):
        for step in ran(function, (x, y), {})["backward"]:
            assert step.kernel.file != "?" and step.kernel.line, step
