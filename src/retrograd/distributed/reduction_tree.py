"""The fixed tree in which the gradients of shards are added.

The shards of a global batch are the leaves of a binary tree that depends only on their number. A worker adds up the
whole subtrees of its own shards. Where they meet those of other workers, the sums are exchanged. So every addition has
the same two operands for any number of workers, and the result is the same bits: floating-point addition is
commutative, but not associative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

Node = tuple[int, int]  # a range of shards: first, and one past the last


def shard_range(shards: int, workers: int, rank: int) -> range:
    """Return the shards of worker `rank`: consecutive, as many as the others have, or one fewer."""
    return range(rank * shards // workers, (rank + 1) * shards // workers)


def split_point(node: Node) -> int:
    """Return the cut of a node of two or more shards: the left part is a power of 2, no smaller than the right."""
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
    """Count the whole subtrees that end with this shard: how often its sum is added to that of its left neighbors."""
    nodes = path_to_root(shard, shards)
    found = 0
    for node in nodes[1:]:
        if node[1] != shard + 1 or node[0] < own.start:
            break
        found += 1
    return found


def subtrees(own: range, shards: int) -> list[Node]:
    """Return the largest whole subtrees of some consecutive shards, from left to right."""
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
    """Return the sum of all shards, or of those of a node, from the sums of subtrees that cover them. The arrays of
    `parts` are overwritten. `combine` stores the combination of two neighbors in the first."""
    node = (0, shards) if node is None else node
    found = parts.get(node)
    if found is not None:
        return found
    cut = split_point(node)
    left = tree_sum(parts, shards, (node[0], cut), combine)
    combine(left, tree_sum(parts, shards, (cut, node[1]), combine))
    return left
