"""The forecasting network: windows, options and errors, resuming, and its report."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retrograd.engine.tensor import Tensor
from retrograd.kernel_set import use_kernels
from retrograd.ops.random.random import manual_seed
from retrograd.train import (
    CheckpointError,
    SeriesRun,
    Settings,
    Trainer,
    TrainingError,
    load_checkpoint,
    load_run,
    save_checkpoint,
)
from retrograd.train.fit import History
from retrograd.train.forecasting import SeriesOptions, SeriesTask, errors, series_task
from retrograd.train.networks import SeriesNetwork
from retrograd.train.report import report_page
from train.small import bits as weights
from train.test_report import Page
from train.test_text import _Stop

SETTINGS = Settings(epochs=4, batch_size=16, lr=0.02, seed=3, kernels="textbook")


@pytest.fixture(autouse=True)
def _on_numpy() -> Any:
    with use_kernels("textbook"):
        yield


@pytest.fixture(scope="module")
def waves(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("series") / "waves.csv"
    values = 10 + 3 * np.sin(2 * np.pi * np.arange(200) / 8) + 0.2 * np.random.default_rng(0).normal(size=200)
    path.write_text("day,height\n" + "".join(f"d{day},{value}\n" for day, value in enumerate(values)))
    return path


def made(path: Path, folder: Path, **options: Any) -> Trainer:
    manual_seed(SETTINGS.seed)
    return Trainer(series_task(path, SeriesOptions("height", horizon=5)), SETTINGS, folder, **options)


@pytest.fixture(scope="module")
def whole(waves: Path, tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    with use_kernels("textbook"):
        trainer = made(waves, tmp_path_factory.mktemp("whole"))
        trainer.run()
    return trainer


def task_of(trainer: Trainer) -> SeriesTask:
    assert isinstance(trainer.task, SeriesTask)
    return trainer.task


def test_windows_and_their_targets(whole: Trainer) -> None:
    task = task_of(whole)
    values = (task.series.values - task.mean) / task.deviation
    assert (task.period, task.first, task.horizon) == (8, 160, 5)
    assert task.mean == task.series.values[:160].mean() and task.deviation == task.series.values[:160].std()
    x, target = (tensor.array for tensor in task.train.tensors)
    assert x.shape == (160 - 24 - 5 + 1, 24) and target.shape == (132, 5)
    for row in (0, 77, 131):
        np.testing.assert_allclose(x[row], values[row : row + 24], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(target[row], values[row + 24 : row + 29], rtol=1e-6, atol=1e-6)
    x, target = (tensor.array for tensor in task.held_out.tensors)
    assert len(x) == len(task.origins) == 36 and task.origins[0] == 160 and task.origins[-1] == 195
    np.testing.assert_allclose(target * task.deviation + task.mean, task.truth, rtol=1e-5)
    np.testing.assert_allclose(x[0], values[136:160], rtol=1e-6, atol=1e-6)


def test_the_network_begins_with_the_last_value() -> None:
    manual_seed(0)
    model = SeriesNetwork(3, hidden=4)
    model.head.weight.array[:] = 0
    model.head.bias.array[:] = 0
    x = np.random.default_rng(0).normal(size=(2, 7)).astype(np.float32)
    assert np.array_equal(model(Tensor(x)).array, np.repeat(x[:, -1:], 3, axis=1))


def test_the_forecast_is_the_mean_of_network_and_autoregression(whole: Trainer) -> None:
    task = task_of(whole)
    x = task.held_out.tensors[0]
    whole.model.train()
    alone = whole.model(x).array * task.deviation + task.mean
    regression = task.regression.forecast(task.series.values, task.origins, task.horizon)
    assert np.abs(alone - regression).max() > 0.1
    np.testing.assert_allclose(task.forecasts(whole), (alone + regression) / 2, atol=1e-4)


def test_a_trend_does_not_change_the_forecast_of_the_gru() -> None:
    manual_seed(0)
    model, x = SeriesNetwork(3, hidden=4, lags=2), np.random.default_rng(0).normal(size=(2, 7)).astype(np.float32)
    np.testing.assert_allclose(model(Tensor(x + 100)).array, model(Tensor(x)).array + 100, rtol=1e-4)


@pytest.mark.parametrize(
    ("off", "losses", "message"),
    [
        (0.0, [3.0, 2.0, 1.0], "Better than the network: perfect. The held-out loss was still falling: try more --epo"),
        (0.0, [3.0, 1.0, 2.0], "was lowest after epoch 2, so the network overfits its 132 windows: try a longer seri"),
        (0.0, [3.0, 1.0, 1.01], "The held-out loss has leveled off: try a longer series, another --period or a higher"),
        (9.0, [3.0, 1.0, 2.0], ""),
    ],
)
def test_a_better_baseline_is_named_with_what_to_try(
    whole: Trainer, monkeypatch: pytest.MonkeyPatch, off: float, losses: list[float], message: str
) -> None:
    task = task_of(whole)
    monkeypatch.setitem(task.__dict__, "baselines", {"perfect": task.truth + off, "worse": task.truth + 9})
    monkeypatch.setattr(whole, "history", History([{**whole.history[0], "held_out_loss": loss} for loss in losses]))
    said = task.result(whole)
    assert message in said and ("Better" in said) == bool(message) and "worse." not in said.partition("Better")[2]
    assert ("Better" in Page(report_page(whole)).text) == bool(message)
    if message:
        assert message.split(": ")[-1] in task.shortfall(whole, 1.0)


def test_it_learns_and_says_how_well(whole: Trainer) -> None:
    task = task_of(whole)
    network = errors(task.forecasts(whole), task.truth)[0]
    assert network < 0.6  # of a wave from 7 to 13
    names = list(task.baselines)
    assert re.fullmatch(r"autoregression of order \d+", names[0]) and names[1] == "one period before"
    assert all(found.shape == task.truth.shape for found in task.baselines.values())
    assert errors(task.baselines[names[1]], task.truth)[0] < 0.4
    assert f"mean absolute error {network:.4g} over the next 5 values" in task.result(whole)


@pytest.mark.parametrize("step", [2, 14])
def test_a_run_goes_on_bit_for_bit(waves: Path, whole: Trainer, tmp_path: Path, step: int) -> None:
    stopped = made(waves, tmp_path, checkpoint_every=1)
    stopped.callbacks.append(_Stop(step))
    with pytest.raises(KeyboardInterrupt):
        stopped.run()
    resumed = made(waves, tmp_path)
    resumed.load_checkpoint()
    resumed.run()
    assert weights(resumed) == weights(whole)
    assert resumed.history.column("held_out_loss") == whole.history.column("held_out_loss")


def test_another_series_is_refused(whole: Trainer, waves: Path, tmp_path: Path) -> None:
    other = tmp_path / "waves.csv"
    other.write_text(waves.read_text().replace("d7,", "d7,1"))
    with pytest.raises(CheckpointError, match="its windows differ"):
        made(other, whole.output).load_checkpoint()


def test_the_sunspots() -> None:
    task = series_task(None, SeriesOptions())
    assert (task.period, task.horizon, len(task.series.values)) == (132, 12, 2784)
    assert task.train.tensors[0].shape[1] == 396 and "sunspot" in task.source


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        (range(31), {"period": 8}, "31 values are fewer than 4 periods of 8; pass a longer series, or a shorter"),
        (range(100), {"period": 25, "horizon": 6}, "choose a --horizon of at most 5"),
        (range(33), {"period": 8, "horizon": 6}, "choose a --horizon of at most 3"),
        ([1, 2] * 90 + [3] * 20, {"period": 2, "horizon": 41}, "choose a --horizon of at most 40"),
        ([1e200, -1e200] * 50, {}, "the values are too large, so that their standard deviation is inf; choose another"),
        ([0, 1e-320] * 50, {}, "the values are too close to each other, so that their standard deviation is 0; choose"),
        ([5] * 100, {"period": 8}, "the first 80 values are all 5; there is nothing to learn"),
        ([5.1] * 100, {}, "the first 80 values are all 5.1; there is nothing to learn"),
        (range(1, 7), {}, "no period found in the 5 values to train on; pass"),
    ],
)
def test_series_that_cannot_be_learned(tmp_path: Path, values: Any, options: dict[str, int], message: str) -> None:
    path = tmp_path / "file.csv"
    path.write_text("x\n" + "".join(f"{value}\n" for value in values))
    with pytest.raises(TrainingError, match=re.escape(message)):
        series_task(path, SeriesOptions("x", **options))


def test_what_is_no_series(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_text("x\n1\n?\n")
    with pytest.raises(TrainingError, match=r"line 3: column 'x' contains '\?', which is not a number"):
        series_task(path, SeriesOptions("x"))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"period": 1}, "period=1 must be an int of at least 2"), ({"horizon": 0}, "horizon=0 must be an int of at leas")],
)
def test_options_are_checked(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SeriesOptions(**options)


def test_the_report(whole: Trainer) -> None:
    task = task_of(whole)
    text = report_page(whole)
    page = Page(text)
    assert "$" not in page.text and len(page.ids) == len(set(page.ids))
    for words in (
        "height of waves.csv",
        "Held-out part",
        "one period before",
        "Error by steps ahead",
        "GRU",
        "a period of 8",
    ):
        assert words in page.text
    for found in (task.forecasts(whole), *task.baselines.values()):
        for error in errors(found, task.truth):
            assert f"{error:.4g}" in page.text


# ---- what it forecasts ---------------------------------------------------------------------------------------------


def test_a_forecast_with_its_intervals(whole: Trainer) -> None:
    run, task = load_run(whole.output), task_of(whole)
    assert isinstance(run, SeriesRun) and (run.column, run.window, run.horizon) == ("height", 24, 5)
    assert repr(run) == f"<SeriesRun {whole.path}: height, the next 5 values from the last 24>"
    assert np.array_equal(run.values, task.series.values) and run.labels == task.series.labels[-8:]
    held_out = task.forecasts(whole)
    for place in (0, 17, 35):  # the windows of the held-out part
        found = run.forecast(run.values[: task.origins[place]], level=0.5)
        np.testing.assert_allclose(found.values, held_out[place], rtol=1e-6)
    found = run.forecast(level=0.8)
    assert found.labels == ("+1", "+2", "+3", "+4", "+5") and found.level == 0.8
    for step in range(5):  # 40 - step errors, of which the quantile leaves at most a fifth above
        origins = np.arange(160, 200 - step)
        error = [
            abs(run.forecast(run.values[:origin], 5).values[step] - run.values[origin + step]) for origin in origins
        ]
        width = found.upper[step] - found.values[step]
        assert width == pytest.approx(sorted(error)[int(np.ceil((len(error) + 1) * 0.8)) - 1])
        assert np.mean(np.array(error) <= width * (1 + 1e-5)) >= 0.8
    np.testing.assert_allclose(found.values - found.lower, found.upper - found.values)


def test_a_forecast_beyond_the_horizon_goes_on_from_itself(whole: Trainer) -> None:
    run = SeriesRun(whole.path)
    found = run.forecast(steps=12, level=0.5)
    first = run.forecast(level=0.5).values
    np.testing.assert_array_equal(found.values[:5], first)
    again = run.forecast(np.concatenate([run.values, first]), level=0.5).values
    np.testing.assert_allclose(found.values[5:10], again, rtol=1e-4)
    assert len(found.labels) == len(found.lower) == 12


def test_intervals_need_held_out_values(whole: Trainer) -> None:
    run = SeriesRun(whole.path)
    found = run.forecast(steps=45)  # 40 are held out, and a level of 0.9 needs 9 errors
    assert np.isfinite(found.values).all() and np.isfinite(found.lower).tolist() == [True] * 32 + [False] * 13
    assert (found.upper[32:] == np.inf).all() and (found.lower[32:] == -np.inf).all()
    assert (run.half_widths(5, 1e-12) <= run.half_widths(5, 0.02)).all()  # both are the least error
    assert np.isinf(run.half_widths(5, 0.99)).all() and np.isfinite(run.half_widths(40, 0.5)).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps=0 must be from 1"),
        ({"steps": 100_001}, "must be from 1 to 100,000"),
        ({"level": 1.0}, "level=1.0 must be greater than 0 and less than 1"),
        ({"values": 3}, r"series of shape \(N,\), got the shape \(\); for the number of steps, write steps=3"),
        ({"values": np.zeros(23)}, "are too few: a forecast is based on the last 24"),
        ({"values": np.full(24, np.nan)}, "values holds nan; they must be finite"),
        ({"values": np.full(24, 1e60)}, r"values holds 1e\+60, which is far outside the series of the run: mean 10"),
        ({"values": np.full(24, -1.7e308)}, r"values holds -1.7e\+308, which is far outside"),
        ({"labels": ("1", "2", "3")}, "labels are those of values; pass both, or neither"),
    ],
)
def test_what_cannot_be_forecast(whole: Trainer, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SeriesRun(whole.output).forecast(**options)


def test_checkpoints_that_forecast_nothing(whole: Trainer, tmp_path: Path) -> None:
    state = load_checkpoint(whole.path)
    series = state["series"]
    for changed, message in (
        ({key: value for key, value in state.items() if key != "series"}, "an earlier version wrote it; train again"),
        ({**state, "series": {**series, "values": series["values"].astype(np.float32)}}, "a line of float64 numbers"),
        ({**state, "series": {**series, "values": series["values"] * np.nan}}, r"\['values'\] holds NaN or infinity"),
        ({**state, "series": {**series, "first": 200}}, r"\['first'\] is 200; it must be an integer from 1 to 199"),
        ({**state, "series": {**series, "deviation": 0.0}}, r"\['deviation'\] is 0.0; .* above 0"),
        ({**state, "series": {**series, "window": 161}}, "its window of 161 values is longer than the 160 to train on"),
        ({**state, "network": {"name": "digits", "arguments": {}}}, "its network is not for series"),
    ):
        save_checkpoint(tmp_path / "changed", changed)
        with pytest.raises(CheckpointError, match=f"is not a checkpoint that forecasts a series: .*{message}"):
            load_run(tmp_path / "changed")


def test_what_is_not_a_run(whole: Trainer, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no run at .*none$"):
        load_run(tmp_path / "none")
    with pytest.raises(CheckpointError, match="is not the folder of a run: there is no checkpoint.npz in it$"):
        load_run(tmp_path)
    (tmp_path / "runs" / "waves").mkdir(parents=True)
    (tmp_path / "runs" / "waves" / "checkpoint.npz").write_bytes(whole.path.read_bytes())
    with pytest.raises(CheckpointError, match=r"in it; runs there: \S*runs/waves"):
        load_run(tmp_path / "runs")
    (tmp_path / "notes.txt").write_text("notes")
    with pytest.raises(CheckpointError, match="notes.txt is not a checkpoint: it is a text file that begins"):
        load_run(tmp_path / "notes.txt")
    for name, content, loader in (
        ("m.onnx", b"\x08\x0a\x12\x01a", "retrograd.onnx.load"),
        ("m.pt", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "retrograd.load"),
        ("m.safetensors", b"\x02" + bytes(7) + b"{}", "retrograd.load_packed"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(CheckpointError, match=f"{name} is not a checkpoint: it is .*{loader}"):
            load_run(tmp_path / name)
    save_checkpoint(tmp_path / "own.npz", {"epoch": 3})
    with pytest.raises(CheckpointError, match="own.npz is a checkpoint, but not of a run"):
        load_run(tmp_path / "own.npz")
    with pytest.raises(TypeError, match="load_run: path is int, needs a str or a Path"):
        load_run(3)  # type: ignore[arg-type]
