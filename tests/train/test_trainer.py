"""The training loop: it learns, and stopping it anywhere does not change the result."""

import dataclasses
import errno
import os
import signal

import numpy as np
import pytest

from retrograd.data import TensorDataset
from retrograd.ops.random.random import default_generator
from retrograd.train import CheckpointError, Progress, Settings, Stopped, TrainingError, load_checkpoint
from retrograd.train.checkpoint import save_checkpoint
from train.small import SMALL, bits, small_task

STEPS = 12  # 20 images in batches of 6 are 4 steps, times 3 epochs


class KilledError(Exception):
    """Stands for the end of the process."""


class KillAt(Progress):
    def __init__(self, step: int, act=None) -> None:
        self.left, self.act = step, act

    def step(self, epoch, images, loss, accuracy):
        self.left -= 1
        if self.left == 0:
            if self.act is None:
                raise KilledError
            self.act()


def test_it_learns_and_remembers_every_epoch(make_trainer):
    settings = dataclasses.replace(SMALL, epochs=30, lr=0.03)
    trainer = make_trainer(settings=settings)
    trainer.run()
    assert trainer.finished and len(trainer.history) == 30 and trainer.steps == 120
    first, last = trainer.history[0], trainer.history[-1]
    assert last["loss"] < first["loss"] and last["held_out_accuracy"] > 0.9
    assert last["epoch"] == 30 and last["lr"] < first["lr"] <= settings.lr
    assert load_checkpoint(trainer.path)["history"] == trainer.history


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(make_trainer):
    runs = []
    for number, seed in enumerate((4, 4, 5)):
        trainer = make_trainer(str(number), dataclasses.replace(SMALL, seed=seed))
        trainer.run()
        runs.append(bits(trainer))
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize("every", [3, pytest.param(None, marks=pytest.mark.nightly), 1])
@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_a_killed_run_goes_on_bit_for_bit(make_trainer, step, every):
    whole = make_trainer("whole")
    whole.run()
    with pytest.raises(KilledError):
        make_trainer("killed", checkpoint_every=every, progress=KillAt(step)).run()
    resumed = make_trainer("killed")
    default_generator.random(11)  # whatever happened before in the new process
    resumed.load_checkpoint()
    assert resumed.steps <= step
    resumed.run()
    assert bits(resumed) == bits(whole)
    timeless = [[{**record, "seconds": 0} for record in trainer.history] for trainer in (whole, resumed)]
    assert timeless[0] == timeless[1]


def test_interruptions_on_interruptions(make_trainer):
    whole = make_trainer("whole")
    whole.run()
    folder = "often"
    trainer = make_trainer(folder, checkpoint_every=1)
    for step in range(STEPS):
        trainer.progress = KillAt(2)
        try:
            trainer.run()
            break
        except KilledError:
            trainer = make_trainer(folder, checkpoint_every=1)
            trainer.load_checkpoint()
            assert trainer.steps == step + 1
    assert trainer.finished and bits(trainer) == bits(whole)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("step", [1, 4, 7, STEPS])
def test_a_signal_finishes_the_step_and_writes_a_checkpoint(make_trainer, number, step, capfd):
    before = signal.getsignal(number)
    whole = make_trainer("whole")
    whole.run()
    trainer = make_trainer("stopped", progress=KillAt(step, lambda: os.kill(os.getpid(), number)))
    with pytest.raises(Stopped, match=f"stopped after step {step} of 12; .*checkpoint.npz") as stopped:
        trainer.run()
    assert stopped.value.exit_code == 128 + number and signal.getsignal(number) is before
    assert "Ctrl-C again stops at once" in capfd.readouterr().err
    resumed = make_trainer("stopped")
    resumed.load_checkpoint()
    assert resumed.steps == step
    resumed.run()
    assert bits(resumed) == bits(whole)


def test_a_second_ctrl_c_stops_at_once(make_trainer):
    def twice():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    trainer = make_trainer(progress=KillAt(2, twice))
    with pytest.raises(KeyboardInterrupt):
        trainer.run()
    assert load_checkpoint(trainer.path)["steps"] == 0


def test_a_full_disk_keeps_the_earlier_checkpoint(make_trainer, monkeypatch):
    trainer = make_trainer(checkpoint_every=1)
    fsync, calls = os.fsync, []

    def full(handle):
        calls.append(handle)
        if len(calls) > 6:  # two per checkpoint: the file and its folder
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="no space is left"):
        trainer.run()
    monkeypatch.undo()
    assert os.listdir(trainer.output) == ["checkpoint.npz"] and load_checkpoint(trainer.path)["steps"] == 2
    resumed = make_trainer()
    resumed.load_checkpoint()
    resumed.run()
    whole = make_trainer("whole")
    whole.run()
    assert bits(resumed) == bits(whole)


# ---- numbers that are not finite, labels that are no class ---------------------------------------------------------


def test_nan_in_the_data_is_named_before_any_step(make_trainer):
    task = small_task()
    task.train.tensors[0].array[7, 0, 2, 3] = np.nan
    trainer = make_trainer(task=task)
    with pytest.raises(TrainingError, match=r"training data: image 7 holds nan at \(0, 2, 3\)"):
        trainer.run()
    assert trainer.steps == 0 and not trainer.path.exists()


@pytest.mark.parametrize("label", [-1, 2])
def test_a_label_that_is_no_class_is_named(make_trainer, label):
    task = small_task()
    task.held_out.tensors[1].array[3] = label
    with pytest.raises(TrainingError, match=f"held-out data: label 3 is {label}; with 2 classes a label is 0 to 1"):
        make_trainer(task=task).run()


def test_data_of_a_wrong_kind_is_refused(make_trainer):
    for train, message in (
        (TensorDataset(np.zeros((0, 1, 4, 4), np.float32), np.zeros(0, np.int64)), "there are no images"),
        (TensorDataset(np.zeros((3, 1, 4, 4), np.int64), np.zeros(3, np.int64)), "images are int64"),
        (TensorDataset(np.zeros((3, 1, 4, 4), np.float32)), "a sample has 1 parts"),
    ):
        task = small_task()
        task.train = train
        with pytest.raises(TrainingError, match=message):
            make_trainer(task=task).run()


def test_a_loss_that_is_nan_names_layer_and_step(make_trainer):
    task = small_task()

    def poison(images):
        return np.full_like(images, np.inf) if trainer.steps == 6 else images

    task.augment = poison
    trainer = make_trainer(task=task, checkpoint_every=5)
    with pytest.raises(TrainingError, match="loss is nan at epoch 2, step 6: the batch itself holds NaN"):
        trainer.run()
    assert load_checkpoint(trainer.path)["steps"] == 5


def test_a_layer_that_overflows_is_named(make_trainer):
    trainer = make_trainer(checkpoint_every=1)
    trainer.progress = KillAt(2, lambda: trainer.model[5].weight.array.fill(3e38))
    with pytest.raises(TrainingError, match="step 3: the first output that holds NaN or infinity is that of '5', L"):
        trainer.run()
    state = load_checkpoint(trainer.path)
    assert all(np.isfinite(array).all() for array in state["model"].values())


def test_parameters_that_are_not_finite_are_never_saved(make_trainer):
    trainer = make_trainer(checkpoint_every=1)
    trainer.progress = KillAt(3, lambda: trainer.model[0].weight.array.fill(np.inf))
    with pytest.raises(TrainingError, match=r"after step 3, 0\.weight holds NaN or infinity.*last checkpoint"):
        trainer.run()
    assert load_checkpoint(trainer.path)["steps"] == 2


# ---- checkpoints that do not fit -----------------------------------------------------------------------------------


def test_a_checkpoint_must_fit_and_a_misfit_changes_nothing(make_trainer):
    make_trainer().run()
    for trainer, message in (
        (make_trainer(settings=dataclasses.replace(SMALL, lr=0.5)), "its settings is .*this run's is"),
        (make_trainer(task=small_task(hidden=5)), "does not fit this run.*5"),
        (make_trainer("elsewhere"), "there is no such checkpoint"),
    ):
        before, random = bits(trainer), default_generator.bit_generator.state
        with pytest.raises(CheckpointError, match=message):
            trainer.load_checkpoint()
        assert bits(trainer) == before and default_generator.bit_generator.state == random
        assert (trainer.steps, trainer.epoch, trainer.history) == (0, 0, [])


@pytest.mark.parametrize("part", ["model", "optimizer", "loader", "random", "history", "sums"])
def test_a_part_that_is_missing_or_wrong_is_refused(make_trainer, part):
    trainer = make_trainer()
    trainer.run()
    state = load_checkpoint(trainer.path)
    fresh = make_trainer()
    before = bits(fresh), fresh.optimizer.state_dict(), fresh.loader.state_dict()
    for broken in ({**state, part: 3}, {name: value for name, value in state.items() if name != part}):
        save_checkpoint(trainer.path, broken)  # a sealed file with wrong content
        with pytest.raises(CheckpointError, match="does not fit this run"):
            fresh.load_checkpoint()
        assert (bits(fresh), fresh.optimizer.state_dict(), fresh.loader.state_dict()) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs=0"),
        ({"batch_size": 0}, "batch-size=0"),
        ({"lr": 0.0}, "lr=0.0 must be greater than 0"),
        ({"lr": float("nan")}, "lr=nan"),
        ({"seed": -1}, "seed=-1"),
        ({"kernels": "cuda"}, "'compiled' or 'textbook'"),
        ({"epochs": 2.5}, "epochs=2.5 cannot be a float"),
        ({"seed": True}, "seed=True cannot be a bool"),
    ],
)
def test_settings_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        Settings(**options)
    with pytest.raises(ValueError, match="settings must be a dict"):
        Settings.from_dict({**Settings().as_dict(), "more": 1})


def test_checkpoint_every_is_checked(make_trainer):
    with pytest.raises(ValueError, match="checkpoint-every=0"):
        make_trainer(checkpoint_every=0)
