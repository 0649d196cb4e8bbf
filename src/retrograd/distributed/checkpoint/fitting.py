"""Filling a state in place with what a checkpoint holds: first everything is found to fit, then it is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import numpy as np

from ..._files.state import brief, names
from ...engine.tensor import Tensor
from .errors import CheckpointException
from .structure import Kind, Node, word


class Fitting:
    """The plan for storing a checkpoint in a state: the copies and updates to make.

    kinds: dtype and shape of each saved tensor. new: makes the array for one that has no place yet.

    ``copies``: a saved tensor, and the array to which it is to be copied. ``updates``: a dict or a list, a key, and the
    value to be stored there.
    """

    def __init__(self, kinds: Mapping[str, Kind], new: Callable[[str], np.ndarray]) -> None:
        self._kinds, self._new = kinds, new
        self.copies: list[tuple[str, np.ndarray]] = []
        self.updates: list[tuple[Any, Any, Any]] = []

    def fit(self, target: Any, node: Node, place: str = "state_dict") -> Any:
        """Return the replacement for ``target``: itself, to be filled later, or a new value. Nothing is changed yet.

        None, an empty dict or an empty list takes everything that was saved in its place.

        Raises:
            CheckpointException: something of ``target`` is not in the checkpoint, or is of another kind or shape there.
        """
        ((kind, held),) = node.items()
        if kind == "tensor":
            return self._tensor(target, held, place)
        if kind == "dict":
            return self._dict(target, dict(held), place)
        if kind in ("list", "tuple"):
            return self._list(target, node, place)
        if isinstance(target, (Tensor, np.ndarray)) or (isinstance(target, (Mapping, list, tuple)) and target):
            raise _misfit(place, _described(target), word(node))
        return float(held) if kind == "float" else held

    def store(self) -> None:
        """Make the updates; the copies are the caller's."""
        for container, key, value in self.updates:
            container[key] = value

    def _tensor(self, target: Any, name: str, place: str) -> Any:
        dtype, shape = self._kinds[name]
        array = target.array if isinstance(target, Tensor) else target
        if target is None:
            array = self._new(name)
            target = Tensor(array)
            array = target.array
        elif not isinstance(array, np.ndarray):
            raise _misfit(place, _described(target), "a tensor")
        elif array.shape != shape or not np.can_cast(dtype, array.dtype, "same_kind"):
            raise _misfit(place, f"{array.dtype} {array.shape}", f"{dtype} {shape}")
        self.copies.append((name, array))
        return target

    def _dict(self, target: Any, saved: Mapping[Any, Node], place: str) -> Any:
        if target is None:
            return {key: self.fit(None, item, f"{place}[{key!r}]") for key, item in saved.items()}
        if not isinstance(target, MutableMapping):
            raise _misfit(place, _described(target), "a dict")
        for key in [*target] or saved:
            if key not in saved:
                raise CheckpointException(
                    f"checkpoint.load: {place}[{key!r}] is not in the checkpoint, which has {names(saved)} there"
                )
            value = self.fit(target.get(key), saved[key], f"{place}[{key!r}]")
            if key not in target or value is not target[key]:
                self.updates.append((target, key, value))
        return target

    def _list(self, target: Any, node: Node, place: str) -> Any:
        ((kind, held),) = node.items()
        listed = isinstance(target, (list, tuple))
        if target is not None and (not listed or (target and len(target) != len(held))):
            raise _misfit(place, _described(target), word(node))
        old = target or [None] * len(held)
        new = [self.fit(old[k], item, f"{place}[{k}]") for k, item in enumerate(held)]
        if isinstance(target, list):
            self.updates.append((target, slice(None), new))
            return target
        return tuple(new) if kind == "tuple" or listed else new


def _misfit(place: str, own: str, saved: str) -> CheckpointException:
    return CheckpointException(f"checkpoint.load: {place} is {own} here and {saved} in the checkpoint")


def _described(value: Any) -> str:
    if isinstance(value, (Tensor, np.ndarray)):
        return "a tensor"
    if isinstance(value, (list, tuple)):
        return f"a {'list' if isinstance(value, list) else 'tuple'} of {len(value)}"
    return "a dict" if isinstance(value, Mapping) else brief(value)
