"""Gradient statistics: every figure against NumPy, and no effect on the training except time."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn, optim
from retrograd.cli import main
from retrograd.kernel_set import use_kernels
from retrograd.train import (
    Callback,
    CheckpointError,
    GradientMonitor,
    GradientStatistics,
    fit,
    load_checkpoint,
    save_checkpoint,
    true_gradients,
)
from retrograd.train.report import report_page
from train.small import SMALL, bits


@pytest.fixture(autouse=True)
def _on_numpy():
    with use_kernels("textbook"):
        yield


def model() -> nn.Sequential:
    rg.manual_seed(5)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 2, bias=False)))


def with_gradients() -> nn.Sequential:
    """A model with random gradients."""
    net = model()
    random = np.random.default_rng(7)
    for parameter in net.parameters():
        parameter.grad = rg.Tensor(random.normal(size=parameter.shape).astype(np.float32))
    return net


def flat(*parameters: Any) -> np.ndarray:
    return np.concatenate([parameter.grad.array.ravel() for parameter in parameters]).astype(np.float64)


def test_norms_zeros_and_numbers_that_are_not_finite():
    net = with_gradients()
    net[0].weight.grad.array[0, :2] = 0
    net[0].bias.grad.array[1] = -0.0
    net[2][1].weight.grad.array[0, 0] = 3e38  # its square is beyond float32
    rows = GradientStatistics(net).collect()
    assert [(row.path, row.kind) for row in rows] == [("0", "Linear"), ("2.0", "BatchNorm1d"), ("2.1", "Linear")]
    first = flat(net[0].weight, net[0].bias)
    assert rows[0].norm == pytest.approx(math.sqrt((first**2).sum()), rel=1e-13)
    assert rows[0].zeros == 3 / 16 and rows[0].not_finite == 0
    assert rows[2].norm == pytest.approx(math.sqrt((flat(net[2][1].weight) ** 2).sum()), rel=1e-13)
    net[2][0].bias.grad.array[:] = (np.nan, np.inf, -np.inf, 0)
    row = GradientStatistics(net).collect()[1]
    assert math.isnan(row.norm) and row.not_finite == 3 / 8 and row.zeros == 1 / 8


def test_the_update_is_what_the_optimizer_moved():
    net = with_gradients()
    stats = GradientStatistics(net)
    optimizer = optim.Adam(net.parameters(), lr=0.03)
    for _ in range(2):
        before = [parameter.array.astype(np.float64) for parameter in net.parameters()]
        stats.collect()
        assert all(row.update is None for row in stats.rows)
        optimizer.step()
        rows = stats.after_step()
        after = [parameter.array.astype(np.float64) for parameter in net.parameters()]
        for row, places in zip(rows, ([0, 1], [2, 3], [4]), strict=True):
            moved = sum(((after[n] - before[n]) ** 2).sum() for n in places)
            expected = math.sqrt(moved / sum((before[n] ** 2).sum() for n in places))
            assert row.update == pytest.approx(expected, rel=1e-12)
    net[2][1].weight.array[:] = 0  # weights of 0: the ratio is not defined
    stats.collect()
    optimizer.step()
    assert stats.after_step()[2].update is None and stats.rows[0].update > 0


def test_what_has_no_gradient_does_not_count():
    net = with_gradients()
    net[0].bias.grad = None
    net[2][0].weight.grad = net[2][0].bias.grad = None
    stats = GradientStatistics(net)
    first, second, _ = stats.collect()
    assert first.norm == pytest.approx(np.linalg.norm(flat(net[0].weight)), rel=1e-13)
    assert (second.norm, second.zeros, second.not_finite) == (None, None, None)
    net[0].bias.array += 100
    assert stats.after_step()[0].update == 0 and stats.rows[1].update is None
    assert re.search(r"2\.0 BatchNorm1d +- +- +- +-\n", str(stats))


def turned(gradient: np.ndarray, degrees: float) -> np.ndarray:
    """Return a vector at this angle to the gradient, of another length."""
    unit = gradient.astype(np.float64).ravel() / np.linalg.norm(gradient.astype(np.float64))
    other = np.random.default_rng(1).normal(size=unit.size)
    other -= unit * (unit @ other)
    other /= np.linalg.norm(other)
    angle = math.radians(degrees)
    return (7 * (math.cos(angle) * unit + math.sin(angle) * other)).reshape(gradient.shape)


@pytest.mark.parametrize("degrees", [0.0, 1e-7, 30.0, 90.0, 179.0, 180.0])
def test_the_angle_to_true_gradients(degrees):
    net = with_gradients()
    weight = net[2][1].weight
    true = {"2.1.weight": turned(weight.grad.array, degrees)}
    rows = GradientStatistics(net).collect(true_gradients=true)
    assert [row.angle for row in rows[:2]] == [None, None]
    assert rows[2].angle == pytest.approx(degrees, rel=1e-6, abs=1e-9)


def test_an_angle_is_over_the_parameters_that_are_named_and_defined():
    net = with_gradients()
    gradients = {name: parameter.grad.array for name, parameter in net.named_parameters()}
    random = np.random.default_rng(3)
    true = {name: rg.Tensor(random.normal(size=array.shape)) for name, array in gradients.items()}
    rows = GradientStatistics(net).collect(true)
    for row, names in zip(rows, (["0.weight", "0.bias"], ["2.0.weight", "2.0.bias"], ["2.1.weight"]), strict=True):
        u = np.concatenate([gradients[name].ravel() for name in names]).astype(np.float64)
        v = np.concatenate([true[name].array.ravel() for name in names])
        cosine = u @ v / np.linalg.norm(u) / np.linalg.norm(v)
        assert row.angle == pytest.approx(math.degrees(math.acos(cosine)), rel=1e-9)
    assert GradientStatistics(net).collect({"0.bias": gradients["0.bias"] * 3})[0].angle == pytest.approx(0, abs=1e-5)
    assert GradientStatistics(net).collect({"0.bias": np.zeros(4)})[0].angle is None
    net[0].bias.grad.array[0] = np.nan
    assert GradientStatistics(net).collect({"0.bias": np.ones(4)})[0].angle is None


def test_the_table():
    net = nn.Sequential(nn.Linear(2, 1, bias=False), nn.Linear(1, 1))
    assert str(GradientStatistics(net)) == "no gradients were measured"
    net[0].weight.array[:] = (3, 4)
    net[0].weight.grad = rg.tensor([[0.0, 0.25]])
    stats = GradientStatistics(net)
    stats.collect({"0.weight": [[0.0, -1.0]]})
    net[0].weight.array[:] = (3, 4.5)
    stats.after_step()
    assert str(stats).splitlines() == [
        "layer      ‖g‖   zeros  NaN, Inf  update/weight  angle (°)",
        "0 Linear  0.25  50.0 %       0 %        1.0e-01      180.0",
        "1 Linear     -       -         -              -          -",
    ]
    stats.collect()
    assert "angle" not in str(stats)
    big = nn.Linear(100, 100, bias=False)
    big.weight.grad = rg.ones(100, 100)
    big.weight.grad.array[0, 0] = np.inf
    assert re.search(r"^Linear +inf +0 % +<0\.1 % +-$", str(_collected(big)), re.MULTILINE)


def _collected(net: nn.Module) -> GradientStatistics:
    stats = GradientStatistics(net)
    stats.collect()
    return stats


def test_nothing_is_changed():
    net = with_gradients()
    before = [(p.array.tobytes(), p.grad.array.tobytes()) for p in net.parameters()]
    stats = GradientStatistics(net)
    stats.collect({"0.bias": np.ones(4)})
    stats.after_step()
    assert before == [(p.array.tobytes(), p.grad.array.tobytes()) for p in net.parameters()]


def test_errors():
    with pytest.raises(TypeError, match="GradientStatistics: model is list, expected a Module"):
        GradientStatistics([])
    stats = GradientStatistics(with_gradients())
    with pytest.raises(RuntimeError, match=r"call collect\(\) after backward, before the optimizer's step"):
        stats.after_step()
    with pytest.raises(ValueError, match=r"true_gradients names 'weight'; the model's parameters are 0\.weight, "):
        stats.collect({"weight": np.ones(3)})
    with pytest.raises(ValueError, match=r"true_gradients\['0\.bias'\] has shape \(3,\), expected \(4,\)"):
        stats.collect({"0.bias": np.ones(3)})
    with pytest.raises(TypeError, match="true_gradients is list, expected a dict: path of a parameter -> gradient"):
        stats.collect([np.ones(3)])
    assert stats.rows == []
    for every in (0, True, 1.5):
        with pytest.raises(ValueError, match="GradientMonitor: every=.* must be a positive int"):
            GradientMonitor(every)
    with pytest.raises(TypeError, match="GradientMonitor: every is a model; leave it out"):
        GradientMonitor(nn.Linear(2, 2))


# ---- in a training -----------------------------------------------------------------------------------------------


def points() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(2)
    x = random.normal(size=(20, 3)).astype(np.float32)
    return x, (x[:, 0] > 0).astype(np.int64)


class ByHand(Callback):
    """Records the norms and updates of the first layer at every step, computed independently."""

    def __init__(self) -> None:
        self.norms: list[float] = []
        self.updates: list[float] = []

    def on_step_start(self, fit):
        self.before = [p.array.astype(np.float64) for p in fit.model[0].parameters()]

    def on_gradients(self, fit):
        self.norms.append(np.linalg.norm(flat(*fit.model[0].parameters())))

    def on_step_end(self, fit, samples):
        moved = sum(((p.array - b) ** 2).sum() for p, b in zip(fit.model[0].parameters(), self.before, strict=True))
        self.updates.append(math.sqrt(moved / sum((b**2).sum() for b in self.before)))


def test_a_monitor_adds_means_to_the_record_and_leaves_the_weights_as_they_are():
    def trained(*callbacks: Callback) -> tuple[list[bytes], Any]:
        net = model()
        rg.manual_seed(1)
        history = fit(net, points(), epochs=3, batch_size=6, callbacks=callbacks, progress=False)  # 4 steps each
        return [p.array.tobytes() for p in net.parameters()], history

    hand = ByHand()
    plain, history = trained()
    assert all("gradients" not in record for record in history)
    weights, history = trained(hand, GradientMonitor(every=3))
    assert weights == plain
    for record, steps in zip(history, ([0, 3], [6], [9]), strict=True):
        assert list(record["gradients"]) == ["0", "2.0", "2.1"]
        figures = record["gradients"]["0"]
        assert figures["norm"] == pytest.approx(np.mean([hand.norms[n] for n in steps]), rel=1e-12)
        assert figures["update"] == pytest.approx(np.mean([hand.updates[n] for n in steps]), rel=1e-6)
        assert figures["not_finite"] == 0 and figures["angle"] is None
    _, history = trained(GradientMonitor(every=5))
    assert ["gradients" in record for record in history] == [True, True, True]
    _, history = trained(GradientMonitor(every=9))
    assert ["gradients" in record for record in history] == [True, False, True]


def test_a_monitor_measures_angles_where_there_is_a_rule():
    net, same = model(), model()
    same.load_state_dict(net.state_dict())
    history = fit(net, points(), epochs=1, callbacks=[GradientMonitor(1)], progress=False)
    assert history[0]["gradients"]["0"]["angle"] is None
    net.load_state_dict(same.state_dict())
    net[2].backward_rule = "reversal"  # of a container: its own gradients and those below turn around
    history = fit(net, points(), epochs=1, callbacks=[GradientMonitor(1)], progress=False)
    for path in ("0", "2.1"):
        assert history[0]["gradients"][path]["angle"] == pytest.approx(180, abs=1e-4)


def test_true_gradients():
    net, x = model(), rg.tensor(points()[0])
    (net(x) ** 2).sum().backward()
    expected = {name: p.grad.numpy().copy() for name, p in net.named_parameters()}
    net.zero_grad()
    net[0].backward_rule = lambda true, g: true(g * 0.0)
    loss = (net(x) ** 2).sum()
    found = true_gradients(loss, net)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        np.testing.assert_allclose(found[name].numpy(), gradient, rtol=1e-5)
    loss.backward()
    assert not net[0].weight.grad.numpy().any()


def test_means_leave_out_what_is_not_finite():
    net, monitor = with_gradients(), GradientMonitor(1)
    running: Any = type("Running", (), {"model": net, "steps": 1})()
    monitor.on_start(running)
    for value in (0.0, np.nan, 4.0):
        net[2][1].weight.grad.array[:] = value
        monitor.on_gradients(running)
        monitor.on_step_end(running, 1)
    record: dict[str, Any] = {}
    monitor.on_epoch_end(running, record)
    figures = record["gradients"]["2.1"]
    assert figures["norm"] == pytest.approx(4 * math.sqrt(8) / 2) and figures["not_finite"] == pytest.approx(1 / 3)
    assert figures["zeros"] == pytest.approx(1 / 3)


class AfterTwoEpochs(Callback):
    def on_epoch_end(self, fit, record):
        if record["epoch"] == 2:
            fit.stop("enough")


def test_a_resumed_run_keeps_what_was_measured(make_trainer):
    whole = make_trainer("whole")
    whole.run()
    first = make_trainer(gradients_every=2)
    first.callbacks.append(AfterTwoEpochs())
    first.run()
    again = make_trainer()  # goes on without measuring
    again.load_checkpoint()
    again.run()
    assert ["gradients" in record for record in again.history] == [True, True, False]
    assert bits(again) == bits(whole)
    page = report_page(again)
    assert "Gradients by layer" in page and page.count("<polyline") == 3 and "5 Linear" in page
    assert "Gradients by layer" not in report_page(whole)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm": -1.0}, r"gradients'\]\['0'\]\['norm'\] is -1\.0; it must be a finite number of at least 0"),
        ({"zeros": 1.5}, r"\['zeros'\] is 1\.5"),
        ({"angle": 181}, r"\['angle'\] is 181"),
        ({"more": 1}, r"gradients'\]\['0'\] has the entries"),
        (None, r"history\[0\]\['gradients'\] is 3; it must be a dict"),
    ],
)
def test_a_forged_record_is_refused(make_trainer, change, message):
    trainer = make_trainer(settings=dataclasses.replace(SMALL, epochs=1), gradients_every=1)
    trainer.run()
    state = load_checkpoint(trainer.path)
    if change is None:
        state["history"][0]["gradients"] = 3
    else:
        state["history"][0]["gradients"]["0"].update(change)
    save_checkpoint(trainer.path, state)
    with pytest.raises(CheckpointError, match=message):
        trainer.load_checkpoint()


def test_off_is_off(make_trainer):
    trainer = make_trainer()
    assert trainer.monitor is None and not any(isinstance(c, GradientMonitor) for c in trainer.callbacks)
    with pytest.raises(ValueError, match="gradients-every=0 must be at least 1"):
        make_trainer("other", gradients_every=0)


def test_the_command_line(capsys, tmp_path):
    quick = ["train", "digits", "--batch-size", "512", "--output", str(tmp_path)]
    assert main([*quick, "--epochs", "1", "--gradients-every", "0"]) == 2
    assert "--gradients-every 0 must be at least 1" in capsys.readouterr().err
    assert main([*quick, "--epochs", "2", "--gradients-every", "2"]) == 0
    out = capsys.readouterr().out
    table = out.partition("gradients, means of the last epoch\n")[2].splitlines()
    assert table[0].split() == ["layer", "‖g‖", "zeros", "NaN,", "Inf", "update/weight"]
    assert [line.split()[1] for line in table[1:6]] == ["Conv2d", "BatchNorm2d", "Conv2d", "BatchNorm2d", "Linear"]
    assert "Gradients by layer" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_after_a_failure_the_last_figures_are_shown(capsys, tmp_path):
    arguments = ["train", "digits", "--kernels", "textbook", "--lr", "1e30", "--gradients-every", "1"]
    assert main([*arguments, "--output", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert re.search(r"the gradients when they were last measured:\nlayer +‖g‖(.*\n)+retrograd: the loss is", error)
