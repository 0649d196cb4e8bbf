"""fit() and its callbacks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from retrograd import nn
from retrograd.data import DataLoader, IterableDataset, TensorDataset
from retrograd.engine.tensor import Tensor
from retrograd.kernel_set import use_kernels
from retrograd.nn.functional import mse_loss
from retrograd.ops.random.random import manual_seed
from retrograd.optim import SGD, Adam
from retrograd.train import (
    BestWeights,
    Callback,
    CosineSchedule,
    EarlyStopping,
    Fit,
    LRScheduler,
    ModelCheckpoint,
    Progress,
    TrainingError,
    fit,
    load_checkpoint,
)


@pytest.fixture(autouse=True)
def _on_numpy():
    manual_seed(0)
    with use_kernels("textbook"):
        yield


def points(count: int = 60, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, count)
    return (random.normal(size=(count, 3)) + 2 * labels[:, None]).astype(np.float32), labels


class Recorder(Callback):
    def __init__(self) -> None:
        self.events: list[str] = []
        self.rates: list[float] = []

    def on_start(self, fit):
        self.events.append("start")

    def on_step_start(self, fit):
        self.events.append(f"step {fit.steps}")

    def on_step_end(self, fit, samples):
        self.events.append(f"done {samples}")
        self.rates.append(fit.optimizer.param_groups[0]["lr"])

    def on_epoch_end(self, fit, record):
        self.events.append(f"epoch {record['epoch']}")

    def on_end(self, fit):
        self.events.append("end")


def test_it_learns_classes():
    model = nn.Linear(3, 2)
    adam = Adam(model.parameters(), lr=0.05)
    history = fit(model, points(), epochs=15, optimizer=adam, held_out=points(30, 2), progress=False)
    assert len(history) == 15 and history[-1]["loss"] < history[0]["loss"]
    assert history[-1]["held_out_accuracy"] > 0.7 and history.column("epoch") == list(range(1, 16))
    assert set(history[0]) == {
        "epoch",
        "step",
        "loss",
        "accuracy",
        "held_out_loss",
        "held_out_accuracy",
        "lr",
        "seconds",
    }


def test_it_is_the_loop_that_one_would_write():
    """fit() equals a handwritten loop bit for bit, including the order of the samples."""
    data = TensorDataset(*points(20))
    manual_seed(3)
    ours = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2))
    fit(ours, data, epochs=3, batch_size=6, optimizer=SGD(ours.parameters(), lr=0.1, momentum=0.9), progress=False)
    manual_seed(3)
    plain = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2))
    optimizer = SGD(plain.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        for x, y in DataLoader(data, 6, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(plain(x), y).backward()
            optimizer.step()
    for one, other in zip(ours.parameters(), plain.parameters(), strict=True):
        assert one.array.tobytes() == other.array.tobytes()


def test_regression_has_no_accuracy(capsys):
    x = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    y = (x @ np.array([[1.0], [-2.0]], np.float32) + 0.5).astype(np.float32)
    model = nn.Linear(2, 1)
    history = fit(model, (x, y), epochs=60, loss=mse_loss, optimizer=SGD(model.parameters(), lr=0.1), held_out=0.25)
    assert set(history[0]) == {"epoch", "step", "loss", "held_out_loss", "lr", "seconds"}
    assert history[-1]["held_out_loss"] < 1e-3 and abs(model.weight.array - [[1, -2]]).max() < 0.05
    assert history[-1]["step"] == 60 * math.ceil(30 / 32)
    text = capsys.readouterr().err
    assert "epoch  1/60  loss" in text and "held out: loss" in text and "accuracy" not in text


def test_means_are_over_samples_not_batches():
    x, y = points(10)
    model = nn.Linear(3, 2)
    running = Fit(model, DataLoader(TensorDataset(x, y), 4), SGD(model.parameters(), lr=0.1))
    found = running.evaluate(DataLoader(TensorDataset(x, y), 3))
    scores = model(Tensor(x)).array.astype(np.float64)
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    assert found["loss"] == pytest.approx(-logs[np.arange(10), y].mean(), rel=1e-5)
    assert found["accuracy"] == (scores.argmax(1) == y).mean() and model.training


def test_what_follows_the_target_is_handed_to_the_loss():
    x, y = points(12)
    weight = np.arange(12, dtype=np.float32)
    model = nn.Linear(3, 2)

    def loss(output, target, weight):
        return (nn.functional.cross_entropy(output, target, reduction="none") * weight).mean()

    data, optimizer = TensorDataset(x, y, weight), SGD(model.parameters(), lr=0.0)
    (record,) = fit(model, data, epochs=1, batch_size=5, loss=loss, optimizer=optimizer, held_out=data, progress=False)
    each = nn.functional.cross_entropy(model(Tensor(x)), Tensor(y), reduction="none").array
    assert record["loss"] == pytest.approx((each * weight).mean(), rel=1e-5)
    assert record["held_out_loss"] == pytest.approx((each * weight).mean(), rel=1e-5)


def test_callbacks_are_called_in_order():
    recorder = Recorder()
    fit(nn.Linear(3, 2), points(10), epochs=2, batch_size=7, callbacks=[recorder], progress=False)
    assert recorder.events == [
        "start",
        "step 1",
        "done 7",
        "step 2",
        "done 3",
        "epoch 1",
        "step 3",
        "done 7",
        "step 4",
        "done 3",
        "epoch 2",
        "end",
    ]


def test_augment_sees_training_batches_only():
    seen = []

    def augment(x):
        seen.append(len(x))
        return x + 1

    fit(nn.Linear(3, 2), points(10), epochs=1, batch_size=8, held_out=points(5), augment=augment, progress=False)
    assert seen == [8, 2]


class Scripted(Callback):
    """Replaces the held-out losses in the records with given ones; must be the first callback."""

    def __init__(self, losses):
        self.losses = losses

    def on_epoch_end(self, fit, record):
        record["held_out_loss"] = self.losses[record["epoch"] - 1]


@pytest.mark.parametrize(
    ("losses", "options", "last", "best"),
    [
        ([5, 4, 3, 2, 1], {"patience": 1}, 5, 5),
        ([5, 2, 3, 4, 1], {"patience": 1}, 4, 2),
        ([5, 2, 3, 1, 4], {"patience": 1}, 5, 4),
        ([5, 2, 3, 4, 1], {"patience": 0}, 3, 2),
        ([5, 4.9, 4.8, 4.7, 4], {"patience": 1, "min_delta": 0.5}, 3, 1),
        ([1, 2, 1, 0, 3], {"patience": 1, "mode": "max"}, 4, 2),
    ],
)
@pytest.mark.parametrize("restore", [True, False])
def test_early_stopping(losses, options, last, best, restore):
    weights = []

    class Keep(Callback):
        def on_epoch_end(self, fit, record):
            weights.append(fit.model.weight.array.copy())

    model, stop = nn.Linear(3, 2), EarlyStopping(restore_best=restore, **options)
    history = fit(
        model, points(), epochs=5, held_out=points(9), callbacks=[Scripted(losses), Keep(), stop], progress=False
    )
    assert len(history) == last and stop.best_epoch == best
    assert np.array_equal(model.weight.array, weights[best - 1 if restore else -1])


def test_best_weights_and_checkpoints(tmp_path):
    losses = [3.0, 1.0, 2.0]
    model, best = nn.Linear(3, 2), BestWeights()
    files = ModelCheckpoint(tmp_path / "best"), ModelCheckpoint(tmp_path / "last", save_best_only=False)
    fit(model, points(), epochs=3, held_out=points(9), callbacks=[Scripted(losses), best, *files], progress=False)
    saved, last = (load_checkpoint(tmp_path / name) for name in ("best", "last"))
    assert saved["record"]["epoch"] == best.best_epoch == 2 and last["record"]["epoch"] == 3
    assert np.array_equal(saved["model"]["weight"], model.weight.array)
    assert not np.array_equal(last["model"]["weight"], model.weight.array)
    again = BestWeights()
    again.load_state_dict(best.state_dict())
    assert again.best == 1.0 and again.weights.keys() == {"weight", "bias"}


def test_cosine_schedule():
    recorder = Recorder()
    fit(nn.Linear(3, 2), points(20), epochs=5, batch_size=10, callbacks=[CosineSchedule(0.3), recorder], progress=False)
    assert recorder.rates == [0.15 * (1 + math.cos(math.pi * step / 10)) for step in range(10)]
    recorder = Recorder()
    schedule = CosineSchedule(0.3, warmup=0.4)
    fit(nn.Linear(3, 2), points(20), epochs=5, batch_size=10, callbacks=[schedule, recorder], progress=False)
    expected = [0.3 * (step + 1) / 5 for step in range(4)] + [
        0.15 * (1 + math.cos(math.pi * step / 6)) for step in range(6)
    ]
    assert recorder.rates == pytest.approx(expected)


class HalveEach:
    def __init__(self, optimizer):
        self.optimizer, self.seen = optimizer, []

    def step(self, *metric):
        self.seen += metric
        self.optimizer.param_groups[0]["lr"] /= 2

    def state_dict(self):
        return {"seen": self.seen}

    def load_state_dict(self, state):
        self.seen = state["seen"]


@pytest.mark.parametrize(("every", "rate"), [("epoch", 0.25), ("step", 1 / 16)])
def test_schedulers_are_stepped(every, rate):
    model = nn.Linear(3, 2)
    optimizer = SGD(model.parameters(), lr=1.0)
    hook = LRScheduler(HalveEach(optimizer), every)
    fit(model, points(20), epochs=2, batch_size=10, optimizer=optimizer, callbacks=[hook], progress=False)
    assert optimizer.param_groups[0]["lr"] == rate


def test_a_scheduler_that_waits_for_a_plateau_gets_the_loss():
    model = nn.Linear(3, 2)
    optimizer = SGD(model.parameters(), lr=1.0)
    hook = LRScheduler(HalveEach(optimizer), monitor="loss")
    history = fit(model, points(20), epochs=2, optimizer=optimizer, callbacks=[hook], progress=False)
    assert hook.scheduler.seen == history.column("loss")
    other = LRScheduler(HalveEach(optimizer))
    other.load_state_dict(hook.state_dict())
    assert other.scheduler.seen == hook.scheduler.seen


class Stream(IterableDataset):
    def __iter__(self):
        x, y = points(12)
        return iter(zip(x, y, strict=True))


def test_data_of_every_kind():
    for data in (points(12), TensorDataset(*points(12)), DataLoader(TensorDataset(*points(12)), 5), Stream()):
        history = fit(nn.Linear(3, 2), data, epochs=2, batch_size=5, held_out=data, progress=False)
        assert history[-1]["step"] == 6


def test_targets_as_their_own_argument():
    x, y = points(12)
    records = []
    for arguments in (((x, y),), (x, y), (Tensor(x), Tensor(y))):
        manual_seed(0)
        records.append(fit(nn.Linear(3, 2), *arguments, epochs=2, held_out=0.25, progress=False).column("loss"))
    assert records[0] == records[1] == records[2]
    with pytest.raises(
        TypeError, match=r"targets is int; fit\(model, x, targets\) needs arrays or Tensors; pass epochs"
    ):
        fit(nn.Linear(3, 2), x, 3)
    with pytest.raises(TypeError, match=r"data is tuple; fit\(model, x, targets\) needs"):
        fit(nn.Linear(3, 2), (x, y), y)


def test_wrong_arguments():
    model, data = nn.Linear(3, 2), points(12)
    for options, error, message in (
        ({"epochs": 0}, ValueError, "epochs=0 must be a positive int"),
        ({"data": 3}, TypeError, "data must be a DataLoader"),
        ({"held_out": "x"}, TypeError, "held_out must be a DataLoader"),
        ({"held_out": 1.5}, ValueError, "held_out=1.5 must be data, or a fraction between 0 and 1"),
        ({"held_out": 0.01, "data": points(3)}, ValueError, "leaves 3 samples to train on and 0 held out|leaves"),
        ({"held_out": 0.5, "data": Stream()}, TypeError, "needs data that can be split"),
        ({"data": points(0)}, TrainingError, "an epoch without batches"),
        ({"callbacks": [EarlyStopping()]}, KeyError, "no 'held_out_loss'.*pass held_out data to fit"),
        ({"callbacks": [BestWeights("f1")]}, KeyError, "no 'f1' in an epoch's record; it has epoch, step"),
    ):
        with pytest.raises(error, match=message):
            fit(model, options.pop("data", data), progress=False, **options)
    for make, message in (
        (lambda: EarlyStopping(patience=-1), "patience=-1"),
        (lambda: EarlyStopping(mode="best"), "mode='best' must be 'min' or 'max'"),
        (lambda: CosineSchedule(0.0), "lr=0.0 must be greater than 0"),
        (lambda: CosineSchedule(0.1, 1.0), "warmup=1.0 from 0 to less than 1"),
        (lambda: LRScheduler(None, "batch"), "every='batch' must be"),
        (lambda: LRScheduler(None, "step", "loss"), "a step has no record"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


def test_a_loss_that_is_not_finite_says_where():
    x, y = points(12)
    x[7, 1] = np.inf
    with pytest.raises(TrainingError, match="the loss is nan at epoch 1, step 1: the batch itself holds NaN or inf"):
        fit(nn.Linear(3, 2), (x, y), progress=False)
    with pytest.raises(TrainingError, match="the held-out loss is nan at epoch 1"):
        fit(nn.Linear(3, 2), points(5), held_out=(x, y), progress=False)


def test_progress_is_told_and_closed():
    class Told(Progress):
        events: list[str] = []

        def start(self, epochs, images_per_epoch, images_done):
            self.events.append(f"{epochs} {images_per_epoch} {images_done}")

        def close(self):
            self.events.append("closed")

    fit(nn.Linear(3, 2), points(5), epochs=1, progress=Told())
    assert Told.events == ["1 5 0", "closed"]
