"""Stack objects of the pickle reader other than plain values, and the checks of keys and values."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from typing import Any

from ...engine.tensor import Tensor
from .refusal import MOST_DEPTH, Refused, entry
from .storage import Storage

__all__ = ["Name", "Pending", "checked_key", "checked_object"]


class Name:
    """A global of a pickle: its name and nothing else."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class Pending:
    """An object whose state follows; keys: where the pickle stored it."""

    __slots__ = ("build", "keys")

    def __init__(self, build: Callable[[Any], Any]) -> None:
        self.build = build
        self.keys: list[int] = []


def checked_key(key: Any) -> Any:
    """A key of a dict or item of a set, whose hash takes a bounded time and does not collide by design.

    Raises:
        Refused: it is of another kind.
    """
    if type(key) is tuple and len(key) <= 16:
        for item in key:
            if type(item) is tuple:
                break
            checked_key(item)
        else:
            return key
    elif key is None or type(key) in (str, bytes, bool, float) or (type(key) is int and abs(key) < 2**61 - 1):
        return key
    kind = key.text if type(key) is Name else "a large int" if type(key) is int else type(key).__name__
    raise Refused(f"a key of a dict or an item of a set is {kind}; strings, numbers and short tuples are read")


def checked_object(value: Any) -> Any:
    """The value, which is whole: no container holds itself, and none of the reader's own objects is left in it.

    Raises:
        Refused: it is not, or containers are nested too deep.
    """
    heights: dict[int, int] = {}  # of containers that were looked through
    path: list[tuple[Any, Iterator[tuple[Any, Any]], list[int]]] = []  # container, the rest of it, its height so far
    keys: list[Any] = []
    active: set[int] = set()

    def place() -> str:
        text = "obj"
        for key in keys[:10]:
            text = entry(text, key)
        return text + "..." * (len(keys) > 10)

    def enter(item: Any) -> None:
        entries = _entries(item)
        if entries is None:
            if type(item) in (Name, Storage, Pending):
                what = item.text if type(item) is Name else "a storage without a tensor or an unfinished object"
                raise Refused(f"{place()} is {what}, which is not read as a value")
            return
        if id(item) in active:
            raise Refused(f"{place()} is a container that holds it")
        if id(item) not in heights:
            if len(path) >= MOST_DEPTH:
                raise Refused(f"{place()} is nested deeper than {MOST_DEPTH} containers")
            active.add(id(item))
            path.append((item, entries, [0]))
        elif len(path) + heights[id(item)] > MOST_DEPTH:
            raise Refused(f"{place()} is nested deeper than {MOST_DEPTH} containers")
        elif path:
            path[-1][2][0] = max(path[-1][2][0], heights[id(item)])

    enter(value)
    while path:
        container, rest, height = path[-1]
        del keys[len(path) - 1 :]
        following = next(rest, None)
        if following is not None:
            keys.append(following[0])
            enter(following[1])
            continue
        path.pop()
        active.discard(id(container))
        heights[id(container)] = height[0] + 1
        if path:
            path[-1][2][0] = max(path[-1][2][0], height[0] + 1)
    return value


def _entries(value: Any) -> Iterator[tuple[Any, Any]] | None:
    if isinstance(value, dict):
        return iter(value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return enumerate(value)
    return iter(vars(value).items()) if type(value) is Namespace or isinstance(value, Tensor) else None
