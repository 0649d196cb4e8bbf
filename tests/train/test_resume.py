"""A checkpoint with a correct digest and inconsistent content is refused, and nothing changes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mutation import bounded, frozen
from retrograd.train import CheckpointError, History, Trainer, load_checkpoint, save_checkpoint
from train.small import SMALL

State = dict[str, Any]


def put(*path: Any, value: Any) -> Callable[[State], None]:
    def change(state: State) -> None:
        *way, last = path
        holder: Any = state
        for key in way:
            holder = holder[key]
        holder[last] = value

    return change


LIES: list[tuple[Callable[[State], None], str]] = [
    (put("epoch", value=-(10**9)), "epoch is -1000000000; it must be an integer from 0 to 3"),
    (put("epoch", value=4), "epoch is 4"),
    (put("epoch", value="1"), "epoch is '1'"),
    (put("epoch", value=1.0), "epoch is 1.0"),
    (put("steps", value=5), "steps is 5; it must be an integer from 6 to 6"),
    (put("seconds", value=-1.0), "seconds is -1.0"),
    (put("seconds", value=10**400), "seconds is .*; it must be a finite number"),
    (put("seconds", value=1e9), "seconds is 1000000000.0, but the epochs of the history took"),
    (put("sums", value=[1]), r"sums is \[1\]; it must be a dict"),
    (put("sums", value={}), r"sums has the entries \[\], expected"),
    (put("sums", "samples", value=-5), r"sums\['samples'\] is -5; it must be an integer from 12 to 12"),
    (put("sums", "correct", value=13), r"sums\['correct'\] is 13"),
    (put("sums", "correct", value=None), r"sums\['correct'\] is None"),
    (put("sums", "loss", value="x"), r"sums\['loss'\] is 'x'"),
    (put("history", value=[]), "history has 0 items, expected 1"),
    (put("history", value={}), "history is {}; it must be a list"),
    (put("history", 0, value=7), r"history\[0\] is 7; it must be a dict"),
    (put("history", 0, "epoch", value=2), r"history\[0\]\['epoch'\] is 2"),
    (put("history", 0, "step", value=5), r"history\[0\]\['step'\] is 5"),
    (put("history", 0, "accuracy", value=1.5), r"history\[0\]\['accuracy'\] is 1.5"),
    (put("history", 0, "loss", value=None), r"history\[0\]\['loss'\] is None"),
    (put("history", 0, "more", value=1), r"history\[0\] has the entries .*more"),
    (put("loader", "position", value=3), "steps is 6; it must be an integer from 7 to 7"),
    (put("loader", "position", value=-1), r"loader\['position'\] is -1"),
    (put("loader", value=None), "loader is None; it must be a dict"),
    (put("random", "state", "inc", value=2), r"state\['inc'\] is 2; it must be odd"),
    (put("random", "state", value=None), r"state\['state'\] is None"),
    (put("optimizer", "param_groups", 0, "weight_decay", value=1e300), "weight_decay of group 0 is 1e.300, this run's"),
    (put("optimizer", "param_groups", 0, "params", value=[0] * 6), "params of group 0 is"),
    (put("optimizer", "state", 0, "step", value=7), r"\['step'\] is 7; it must be an integer from 0 to 6"),
    (put("optimizer", "state", value=[1]), r"optimizer\['state'\] is \[1\]"),
    (put("optimizer", value=3), "optimizer is 3; it must be a dict"),
    (put("settings", "epochs", value=10**9), "its settings is .*1000000000"),
    (put("task", value=np.ones(2)), "its task is array"),
    (put("model", "0.weight", value=np.full((3, 1, 3, 3), np.nan, np.float32)), "model.'0.weight'. holds NaN"),
    (put("model", "1.num_batches_tracked", value=np.array(-1)), "1.num_batches_tracked: -1 is not a count"),
    (put("model", value=None), "model is None; it must be a dict"),
]


@pytest.fixture
def honest(make_trainer: Callable[..., Trainer]) -> tuple[Trainer, State]:
    """A new trainer, and the state of another after step 6 of 12, in the second epoch."""
    trainer = make_trainer(checkpoint_every=6)
    kept: list[State] = []
    save = trainer.save_checkpoint

    def keep() -> None:
        save()
        if trainer.steps == 6:
            kept.append(load_checkpoint(trainer.path))

    trainer.save_checkpoint = keep  # type: ignore[method-assign]
    trainer.run()
    return make_trainer("again"), kept[0]


def test_every_lie_is_refused(honest: tuple[Trainer, State]) -> None:
    trainer, state = honest
    before = frozen(trainer.state_dict())
    for change, message in LIES:
        lie = copy.deepcopy(state)
        change(lie)
        with bounded():
            save_checkpoint(trainer.path, lie)
            with pytest.raises(CheckpointError, match=f"(?s)does not fit this run: .*{message}"):
                trainer.load_checkpoint()
        assert frozen(trainer.state_dict()) == before, message
    save_checkpoint(trainer.path, state)
    trainer.load_checkpoint()
    assert (trainer.epoch, trainer.steps) == (1, 6) and isinstance(trainer.history, History)


def test_the_end_of_an_epoch_is_taken_up_at_either_side(make_trainer: Callable[..., Trainer]) -> None:
    """The position is the number of batches after an epoch's last step, and 0 after its evaluation."""
    trainer = make_trainer(checkpoint_every=4)
    states: list[State] = []
    save = trainer.save_checkpoint

    def keep() -> None:
        save()
        states.append(load_checkpoint(trainer.path))

    trainer.save_checkpoint = keep  # type: ignore[method-assign]
    trainer.run()
    assert [(state["epoch"], state["loader"]["position"]) for state in states] == [
        *((0, 0), (0, 4), (1, 0), (1, 4), (2, 0), (2, 4), (3, 0))
    ]
    assert SMALL.epochs == 3
    for number, state in enumerate(states):
        again = make_trainer(f"again-{number}")
        again.load_state_dict(state)
        assert again.steps == state["steps"]


def test_a_refused_state_leaves_no_entry_of_its_groups(make_trainer: Callable[..., Trainer]) -> None:
    trainer = make_trainer()
    state = copy.deepcopy(trainer.state_dict())
    before = frozen(trainer.state_dict())
    state["optimizer"]["param_groups"][0]["mine"] = 1
    state["model"] = {}
    with pytest.raises(RuntimeError, match="issing"):
        trainer.load_state_dict(state)
    assert frozen(trainer.state_dict()) == before
