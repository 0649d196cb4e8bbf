"""Checks of a trainer's checkpoint: every entry's type and range, and their consistency."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._files.state import Check, brief, check_table, count, items, number, optional, same, table
from .gradients import check_gradients

if TYPE_CHECKING:
    from .trainer import Trainer

__all__ = ["check_state"]


def check_state(trainer: Trainer, identity: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Check that ``trainer`` can resume from ``state``; nothing is changed.

    The model's arrays and the states of random generators are checked where they are loaded.

    identity: the task, data and settings, which must equal those in the state.

    Raises:
        ValueError: an entry is missing, invalid or inconsistent with others; the message says which.
    """
    missing = trainer.state_dict().keys() - check_table("the state", state).keys()
    if missing:
        raise ValueError(f"it lacks {', '.join(sorted(missing))}")
    for name, own in identity.items():
        saved = state[name]
        if name == "options" and isinstance(saved, Mapping) and not same(saved.get("sha256"), own.get("sha256")):
            raise ValueError(f"its {trainer.task.samples} differ: they had the SHA-256 {brief(saved.get('sha256'))}")
        if not same(saved, own):
            raise ValueError(f"its {name} is {brief(saved)}, this run's is {brief(own)}")
    epoch = count(0, trainer.settings.epochs)("epoch", state["epoch"])
    steps = _check_place(trainer, epoch, state)
    _check_optimizer(trainer, steps, state["optimizer"])
    for key, array in check_table("model", state["model"]).items():
        if isinstance(array, np.ndarray) and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"model[{brief(key)}] holds NaN or infinity")


def _check_place(trainer: Trainer, epoch: int, state: Mapping[str, Any]) -> int:
    """The number of steps; the loader's position, the sums and the history must be consistent with it."""
    batches, total = len(trainer.loader), len(trainer.task.train)
    position = count(0, batches)("loader['position']", check_table("loader", state["loader"]).get("position"))
    done = epoch * batches + position
    steps = count(done, done)("steps", state["steps"])
    samples = min(position * trainer.settings.batch_size, total)
    classes = hasattr(trainer.task, "classes")
    right = count(0, samples)
    seconds = number(0)("seconds", state["seconds"])
    table(
        {
            "loss": number(),
            "correct": right if classes or not samples else optional(right),
            "samples": count(samples, samples),
            "seconds": number(0),
        }
    )("sums", state["sums"])
    spent = 0.0
    for place, record in enumerate(items(check_table, epoch)("history", state["history"]), 1):
        counts = classes or "accuracy" in record or "held_out_accuracy" in record
        measured: dict[str, Check] = {"gradients": check_gradients} if "gradients" in record else {}
        table({**_record(place, batches, counts), **measured})(f"history[{place - 1}]", record)
        spent += record["seconds"]
    if not math.isclose(spent, seconds, rel_tol=1e-6, abs_tol=1e-6):
        raise ValueError(f"seconds is {seconds}, but the epochs of the history took {spent}")
    return steps


def _record(place: int, batches: int, counts: bool) -> dict[str, Check]:
    """Checks of an epoch's record in the history; accuracies only if the targets are classes."""
    shares = {"accuracy": number(0, 1), "held_out_accuracy": number(0, 1)}
    return {
        "epoch": count(place, place),
        "step": count(place * batches, place * batches),
        "loss": number(),
        "held_out_loss": number(),
        "lr": number(0),
        "seconds": number(0),
        **(shares if counts else {}),
    }


def _check_optimizer(trainer: Trainer, steps: int, state: Any) -> None:
    """Options must equal this run's, except the learning rate, which the schedule sets; counters cannot be ahead."""
    groups = items(check_table)("optimizer['param_groups']", check_table("optimizer", state).get("param_groups"))
    for place, (group, own) in enumerate(zip(groups, trainer.optimizer.state_dict()["param_groups"], strict=False)):
        for option, value in own.items():
            if option != "lr" and not same(group.get(option), value):
                saved = brief(group.get(option))
                raise ValueError(f"optimizer: {option} of group {place} is {saved}, this run's is {brief(value)}")
    for key, entries in check_table("optimizer['state']", state.get("state")).items():
        name = f"optimizer['state'][{brief(key)}]"
        count(0, steps)(f"{name}['step']", check_table(name, entries).get("step"))
