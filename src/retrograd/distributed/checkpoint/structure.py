"""A state as a tree of plain values, and the tensors in it by name.

A node is a dict of one entry: {"dict": [[key, node], ...]}, {"list": [node, ...]}, {"tuple": [node, ...]},
{"tensor": name}, {"value": a number, a string, a truth value or None} or {"float": "inf", "-inf" or "nan"}.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..._files.state import brief
from ...engine.dtype import ALLOWED
from ...engine.tensor import Tensor
from .errors import CheckpointException

Node = dict[str, Any]
Kind = tuple[str, tuple[int, ...]]  # dtype and shape

_DEEPEST = 100  # nested containers
_NOT_FINITE = ("inf", "-inf", "nan")
_WORDS = {"dict": "a dict", "list": "a list", "tuple": "a tuple", "tensor": "a tensor"}


def describe(value: Any, tensors: dict[str, np.ndarray], path: tuple[Any, ...] = ()) -> Node:
    """The node of a value; the tensors in it are put into ``tensors``.

    Raises:
        TypeError: it holds something that no node stands for. ValueError: it is nested too deep, or two entries have
            one name.
    """
    where = f"checkpoint.save: state_dict{''.join(f'[{key!r}]' for key in path)}"
    if len(path) > _DEEPEST:
        raise ValueError(f"{where} is nested more than {_DEEPEST} deep")
    array = value.array if isinstance(value, Tensor) else value
    if isinstance(array, np.ndarray):
        name = "/".join(str(key).replace("%", "%25").replace("/", "%2F") for key in path)
        if name in tensors:
            raise ValueError(f"{where} has the name {name!r}, as another tensor has; a number and a string are one key")
        if array.dtype not in ALLOWED:
            raise TypeError(f"{where} is {array.dtype}; expected a dtype that a Tensor can have")
        tensors[name] = array
        return {"tensor": name}
    if isinstance(value, Mapping):
        for key in value:
            if isinstance(key, bool) or not isinstance(key, (str, int)):
                raise TypeError(f"{where} has the key {brief(key)}; expected keys of str or int")
        return {"dict": [[key, describe(item, tensors, (*path, key))] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        nodes = [describe(item, tensors, (*path, place)) for place, item in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": nodes}
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and not math.isfinite(plain):
        return {"float": str(plain)}
    if plain is None or isinstance(plain, (bool, int, float, str)):
        return {"value": plain}
    raise TypeError(
        f"{where} is {type(value).__name__}; expected tensors, numbers, strings, None, and dicts, lists and tuples of "
        "them"
    )


def check_node(node: Any, tensors: Mapping[str, object], depth: int = 0) -> None:
    """Check a node from a file.

    Raises:
        ValueError: it is none, or names a tensor that is not in ``tensors``.
    """
    if depth > _DEEPEST + 1 or not isinstance(node, dict) or len(node) != 1:
        raise ValueError(f"{brief(node)} is no node of a state")
    ((kind, held),) = node.items()
    if kind == "dict" and isinstance(held, list):
        for entry in held:
            if not isinstance(entry, list) or len(entry) != 2 or type(entry[0]) not in (str, int):
                raise ValueError(f"{brief(entry)} is no entry of a dict")
            check_node(entry[1], tensors, depth + 1)
    elif kind in ("list", "tuple") and isinstance(held, list):
        for item in held:
            check_node(item, tensors, depth + 1)
    elif not (
        (kind == "tensor" and isinstance(held, str) and held in tensors)
        or (kind == "value" and (held is None or isinstance(held, (bool, int, float, str))))
        or (kind == "float" and held in _NOT_FINITE)
    ):
        raise ValueError(f"{brief(node)} is no node of a state")


def merge(nodes: Sequence[tuple[int, Node]], place: str = "state_dict") -> Node:
    """One node for those of several ranks: dicts have the keys of all, and of other values the first rank's counts.

    Raises:
        CheckpointException: the ranks have things of different kinds, or lists of different lengths, at one place.
    """
    first, node = nodes[0]
    ((kind, held),) = node.items()
    container = kind in _WORDS
    for rank, other in nodes[1:]:
        ((other_kind, other_held),) = other.items()
        if (kind != other_kind and (container or other_kind in _WORDS)) or (
            kind in ("list", "tuple") and len(held) != len(other_held)
        ):
            raise CheckpointException(
                f"checkpoint.save: {place} is {word(node)} in rank {first} and {word(other)} in rank {rank}"
            )
    if kind == "dict":
        found: dict[Any, list[tuple[int, Node]]] = {}
        for rank, other in nodes:
            for key, item in other["dict"]:
                found.setdefault(key, []).append((rank, item))
        return {"dict": [[key, merge(items, f"{place}[{key!r}]")] for key, items in found.items()]}
    if kind in ("list", "tuple"):
        rows = [[(rank, other[kind][k]) for rank, other in nodes] for k in range(len(held))]
        return {kind: [merge(row, f"{place}[{k}]") for k, row in enumerate(rows)]}
    return node


def word(node: Node) -> str:
    ((kind, held),) = node.items()
    return f"{_WORDS[kind]} of {len(held)}" if kind in ("list", "tuple") else _WORDS.get(kind, brief(held))
