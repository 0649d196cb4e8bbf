"""The fixed tree in which the gradients of shards are added.

The shards of a global batch are the leaves of a binary tree that depends only on their number. Each worker adds up the
largest whole subtrees of its own shards; above these, sums are exchanged between workers. So every addition has the
same two operands for any number of workers. The result is therefore bitwise identical, although floating-point addition
is not associative. (It is commutative, so the order of the two operands does not matter.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

Node = tuple[int, int]  # a range of shards: first, and one past the last


def shard_range(shards: int, workers: int, rank: int) -> range:
    """Return the consecutive shards of worker `rank`; workers have equally many, up to a difference of one."""
    return range(rank * shards // workers, (rank + 1) * shards // workers)


def split_point(node: Node) -> int:
    """Return where a node of two or more shards is split: after the largest power of 2 that leaves a right part."""
    first, end = node
    return first + (1 << ((end - first - 1).bit_length() - 1))


def path_to_root(shard: int, shards: int) -> list[Node]:
    """Return the nodes above a leaf, from the leaf to the root."""
    node, found = (0, shards), []
    while True:
        found.append(node)
        if node[1] - node[0] == 1:
            return found[::-1]
        cut = split_point(node)
        node = (node[0], cut) if shard < cut else (cut, node[1])


def merge_count(shard: int, own: range, shards: int) -> int:
    """Count the subtrees within `own` whose last leaf is this shard: the additions that its gradient triggers."""
    nodes = path_to_root(shard, shards)
    found = 0
    for node in nodes[1:]:
        if node[1] != shard + 1 or node[0] < own.start:
            break
        found += 1
    return found


def subtrees(own: range, shards: int) -> list[Node]:
    """Return the largest whole subtrees that cover the shards `own`, from left to right."""
    found, shard = [], own.start
    while shard < own.stop:
        node = max((n for n in path_to_root(shard, shards) if n[0] == shard and n[1] <= own.stop), key=lambda n: n[1])
        found.append(node)
        shard = node[1]
    return found


def add(left: np.ndarray, right: np.ndarray) -> None:
    """Compute left += right."""
    left += right


def tree_sum(
    parts: Mapping[Node, np.ndarray],
    shards: int,
    node: Node | None = None,
    combine: Callable[[np.ndarray, np.ndarray], None] = add,
) -> np.ndarray:
    """Return the sum over all shards, or over those of a node, in the order of the tree.

    parts: the sums of subtrees that cover these shards; the arrays are overwritten. combine: adds its second argument
    to its first, in place.
    """
    node = (0, shards) if node is None else node
    found = parts.get(node)
    if found is not None:
        return found
    cut = split_point(node)
    left = tree_sum(parts, shards, (node[0], cut), combine)
    combine(left, tree_sum(parts, shards, (cut, node[1]), combine))
    return left
