"""Paths: which nodes a sweep has to run for the gradients of some tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .region import Region
from .tensor import Tensor

# order of a node on a path to an input -> the needs_input_grad it gets; None: it ends the path
Paths = Mapping[int, tuple[bool, ...] | None]


AT_THE_END = float(2**62)  # above the order of any node


def find_paths(roots: tuple[Tensor, ...], wanted: tuple[Tensor, ...], oldest: dict[int, float] | None = None) -> Paths:
    """The nodes on paths from `roots` to `wanted`, as in `Paths`; a rule leads to all inputs of its call.

    oldest: gets, by the id of each leaf of `wanted` that is reached, the order of the oldest node that uses it;
        AT_THE_END if a rule's region does, or it is a root.
    """
    targets = {tensor._edge[0].order for tensor in wanted if tensor._edge is not None}
    leaves = {id(tensor) for tensor in wanted if tensor._edge is None}
    stack = [root._edge[0] for root in roots if root._edge is not None]
    seen = {node.order: node for node in stack}
    regions: dict[Region, bool] = {}  # whether an input of the call is wanted, or leads to what is
    while stack:
        node = stack.pop()
        edges = node.edges
        region = node.region
        while region is not None and region not in regions:
            regions[region] = False
            edges = (*edges, *region.edges)
            region = region.parent
        for edge in edges:
            if type(edge) is tuple and edge[0].order not in seen:
                seen[edge[0].order] = edge[0]
                stack.append(edge[0])
    paths: dict[int, tuple[bool, ...] | None] = {}

    def leads(edges: Iterable[Any]) -> tuple[bool, ...]:
        return tuple(
            [
                edge is not None and (edge[0].order in paths if type(edge) is tuple else id(edge) in leaves)
                for edge in edges
            ]
        )

    for order in sorted(seen, reverse=True):  # the oldest first
        node = seen[order]
        needs = leads(node.edges)
        region = node.region if regions else None
        while region is not None and not (regions[region] or any(leads(region.edges))):
            region = region.parent
        if region is not None:
            regions[region] = True
        if any(needs) or region is not None:
            paths[order] = needs
            if oldest is not None:
                last = order if node.region is None else AT_THE_END
                for edge, need in zip(node.edges, needs, strict=True):
                    if need and type(edge) is not tuple:
                        oldest[id(edge)] = max(last, oldest.get(id(edge), last))
        elif order in targets:
            paths[order] = None
    if oldest is not None:
        used = [*roots, *(edge for region in regions for edge in region.edges if type(edge) is not tuple)]
        oldest.update((id(leaf), AT_THE_END) for leaf in used if id(leaf) in leaves)
    return paths
