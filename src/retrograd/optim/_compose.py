"""Several schedulers on one optimiser: in sequence, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .._files.state import Check, anything, brief, count, items
from ._plateau import ReduceLROnPlateau
from ._scheduler import LRScheduler, require_count, require_optimizer
from .optimizer import Optimizer


class _Composed(LRScheduler):
    _schedulers: list[LRScheduler]

    def _check(self, optimizer: Optimizer | None, schedulers: Sequence[LRScheduler]) -> None:
        name = type(self).__name__
        if not isinstance(schedulers, (list, tuple)) or not schedulers:
            raise ValueError(f"{name}: schedulers={schedulers!r} must be a list of at least one scheduler")
        for position, scheduler in enumerate(schedulers):
            if not isinstance(scheduler, LRScheduler):
                got = type(scheduler).__name__
                raise TypeError(f"{name}: schedulers[{position}] must be an LRScheduler, got {got}")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name}: schedulers[{position}] is ReduceLROnPlateau, whose step needs a metric; step it alone"
                )
            if scheduler.optimizer is not (optimizer or schedulers[0].optimizer):
                raise ValueError(f"{name}: schedulers[{position}] belongs to another optimizer; use one for all")

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def _entries(self) -> dict[str, Check]:
        return {**super()._entries(), "_schedulers": items(anything)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        state = self._checked(state_dict, super().state_dict())
        saved = state.pop("_schedulers")
        if len(saved) != len(self._schedulers):
            raise ValueError(
                f"{type(self).__name__} state_dict: it has {len(saved)} schedulers, expected {len(self._schedulers)}"
            )
        before = [scheduler.state_dict() for scheduler in self._schedulers]
        try:
            for scheduler, part in zip(self._schedulers, saved, strict=True):
                scheduler.load_state_dict(part)
        except Exception:
            for scheduler, part in zip(self._schedulers, before, strict=True):
                scheduler.load_state_dict(part)
            raise
        self._load(state)


class SequentialLR(_Composed):
    """Schedulers in sequence: the next one takes over at each milestone and counts from 0 there.

    schedulers: of the same optimiser; milestones: one fewer than schedulers, increasing.

    Raises:
        ValueError: schedulers is empty, one belongs to another optimiser or is ReduceLROnPlateau, or milestones are too
            few, too many, or not increasing.
        TypeError: one of schedulers is not a scheduler, or optimizer is not an Optimizer.
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        require_optimizer("SequentialLR", optimizer)
        self._check(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"SequentialLR: {len(milestones)} milestones for {len(schedulers)} schedulers; "
                "there must be one fewer, where the next one takes over"
            )
        milestones = [require_count("SequentialLR: milestone", milestone) for milestone in milestones]
        if sorted(set(milestones)) != milestones:
            raise ValueError(f"SequentialLR: milestones={milestones} must increase")
        self._schedulers, self._milestones = list(schedulers), milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # each scheduler set the rates of its first epoch in __init__: restart with the first one
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for scheduler in _leaves(self):
            scheduler.last_epoch -= 1
        self._schedulers[0]._begin()
        self._last_lr = self._schedulers[0].get_last_lr()

    def _entries(self) -> dict[str, Check]:
        return {**super()._entries(), "_milestones": self._increasing}

    def _increasing(self, name: str, value: Any) -> list[int]:
        milestones = items(count(1), len(self._schedulers) - 1)(name, value)
        if sorted(set(milestones)) != milestones:
            raise ValueError(f"{name} is {brief(milestones)}; its numbers must increase")
        return milestones

    def step(self) -> None:  # type: ignore[override]
        """Set the rates of the next epoch with the active scheduler."""
        self.last_epoch += 1
        active = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[active]
        if active > 0 and self._milestones[active - 1] == self.last_epoch:
            scheduler._restart()
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def _leaves(scheduler: LRScheduler) -> Iterator[LRScheduler]:
    if isinstance(scheduler, _Composed):
        for part in scheduler._schedulers:
            yield from _leaves(part)
    else:
        yield scheduler


class ChainedScheduler(_Composed):
    """All schedulers at once: each changes the rates left by the previous one.

    optimizer: that of all schedulers; None means the first one's.

    Raises:
        ValueError: schedulers is empty, or one belongs to another optimiser or is ReduceLROnPlateau.
        TypeError: one of schedulers is not a scheduler.
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self._check(optimizer, schedulers)
        self._schedulers = list(schedulers)
        self.optimizer = optimizer or schedulers[0].optimizer
        self._last_lr = self._current()

    def step(self) -> None:  # type: ignore[override]
        """Step all of them."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._current()
