"""Layout of a layered drawing: layers by the longest path, an order with few crossings, columns of a page.

Every box is in a layer above those it leads to. A link over several layers passes each of them in a lane of its
own; those of `far_links` would be a tangle, and are named at both ends instead. Layers fill columns of about equal
height, read like those of a newspaper, so that a long chain has the proportions of a screen.

Sources: K. Sugiyama, S. Tagawa, M. Toda, "Methods for Visual Understanding of Hierarchical System Structures", IEEE
Transactions on Systems, Man, and Cybernetics 11(2), 1981 (layers, barycentres); J. B. Kruskal, "Nonmetric
multidimensional scaling: a numerical method", Psychometrika 29, 1964 (pooling of neighbours, in `_spread`).
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["Box", "Layout", "Place", "Point", "far_links", "lay_out"]

_REACH = 8  # layers that a drawn link may cross
_MOST = 6  # boxes in a layer, and links of a box that may pass one
_ROW_GAP, _BOX_GAP, _LANE = 50.0, 34.0, 16.0
_PORT = 30.0  # between the links of a box, at most
_GUTTER = 40.0  # between columns, beside the lanes in it
_TURN = 24.0  # from a box to the first lane around the end of its column
_PROPORTION = 1.5  # width to height of a page
_SWEEPS = 12

Point = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """width and height of a card; right: what stands to the right of it and moves with it."""

    width: float
    height: float
    right: float = 0.0


@dataclass(frozen=True)
class Place:
    """The middle of a card's upper edge."""

    x: float
    y: float


@dataclass(frozen=True)
class Layout:
    """places: of the boxes. routes: of the drawn links, by their numbers: pieces from one box down to another, each a
    line (two points) or a way around the end of a column (six)."""

    places: list[Place]
    routes: dict[int, list[list[Point]]]
    width: float
    height: float


@dataclass(eq=False)
class _Item:
    """A box in a layer, or the lane of a link (box is None); above, below: what it is linked to in the next layers.

    weight: how much a place near its neighbours matters; more at the end of a long path, which so becomes straight.
    """

    box: int | None
    left: float
    right: float
    height: float
    weight: float = 0.001
    x: float = 0.0
    above: list[_Item] = field(default_factory=list)
    below: list[_Item] = field(default_factory=list)


def lay_out(boxes: Sequence[Box], links: Sequence[tuple[int, int]]) -> Layout:
    """Places for boxes and routes for links (from, to), of which `from` is the smaller number."""
    rows, chains = _rows(boxes, links, _layers(len(boxes), links), far_links(len(boxes), links))
    _order(rows)
    _spread_all(rows)
    return _page(boxes, rows, chains)


def far_links(count: int, links: Sequence[tuple[int, int]]) -> set[int]:
    """The numbers of the links that are not drawn: they pass many layers, or some and their box has many others."""
    layers = _layers(count, links)
    leaving, coming = Counter(start for start, _ in links), Counter(end for _, end in links)
    far = set()
    for number, (start, end) in enumerate(links):
        reach = 1 if max(leaving[start], coming[end]) > _MOST else _REACH
        if layers[end] - layers[start] > reach:
            far.add(number)
    return far


def _layers(count: int, links: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each box: as many above the last as the longest path has links, or the next one that is not full."""
    below: list[list[int]] = [[] for _ in range(count)]
    for start, end in links:
        below[start].append(end)
    height = [0] * count
    there: dict[int, int] = {}  # boxes by height
    for box in reversed(range(count)):
        own = max((height[other] + 1 for other in below[box]), default=0)
        while there.get(own, 0) >= _MOST:
            own += 1
        height[box] = own
        there[own] = there.get(own, 0) + 1
    return [max(height, default=0) - h for h in height]


def _rows(
    boxes: Sequence[Box], links: Sequence[tuple[int, int]], layers: Sequence[int], far: set[int]
) -> tuple[list[list[_Item]], dict[int, list[_Item]]]:
    """The items of each layer, and for each drawn link those that it passes, both ends included."""
    rows: list[list[_Item]] = [[] for _ in range(max(layers, default=0) + 1)]
    items = [_Item(n, box.width / 2, box.width / 2 + box.right, box.height) for n, box in enumerate(boxes)]
    for item, layer in zip(items, layers, strict=True):
        rows[layer].append(item)
    chains = {}
    for number, (start, end) in enumerate(links):
        if number in far:
            continue
        chain = [items[start]]
        for layer in range(layers[start] + 1, layers[end]):
            lane = _Item(None, _LANE / 2, _LANE / 2, 0.0)
            rows[layer].append(lane)
            chain.append(lane)
        chain.append(items[end])
        for upper, lower in zip(chain, chain[1:], strict=False):
            upper.below.append(lower)
            lower.above.append(upper)
        chains[number] = chain
    depth = [0] * len(boxes)
    for start, end in sorted(links):
        depth[end] = max(depth[end], depth[start] + 1)
    for item, steps in zip(items, depth, strict=True):
        item.weight = (1.0 + steps) ** 2
    return rows, chains


# ---- the order in a layer ------------------------------------------------------------------------------------


def _order(rows: list[list[_Item]]) -> None:
    """Sort each layer by the barycentres of its neighbours, down and up in turn; the one with least crossings stays."""
    best, fewest = [list(row) for row in rows], _crossings(rows)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        places: dict[int, int] = {}  # in the layer before
        for row in rows if down else reversed(rows):
            keys = {}
            for place, item in enumerate(row):
                near = [places[id(other)] for other in (item.above if down else item.below)]
                keys[id(item)] = sum(near) / len(near) if near else place
            row.sort(key=lambda item, keys=keys: keys[id(item)])  # type: ignore[misc]
            places = {id(item): place for place, item in enumerate(row)}
        crossings = _crossings(rows)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    rows[:] = best


def _crossings(rows: Sequence[Sequence[_Item]]) -> int:
    total = 0
    for upper, lower in zip(rows, rows[1:], strict=False):
        places = {id(item): place for place, item in enumerate(lower)}
        seen: list[int] = []
        for item in upper:
            ends = sorted(places[id(other)] for other in item.below)
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total


# ---- the places in a layer -----------------------------------------------------------------------------------


def _spread_all(rows: Sequence[list[_Item]]) -> None:
    """Put every item as near to the mean of its neighbours as the order allows."""
    for row in rows:
        _spread(row, [0.0] * len(row))
    for sweep in range(2 * _SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = []
            for item in row:
                near = (item.above if sweep % 2 == 0 else item.below) or item.below or item.above
                total = sum(other.weight for other in near)
                wanted.append(sum(other.x * other.weight for other in near) / total if near else item.x)
            _spread(row, wanted)


def _spread(row: Sequence[_Item], wanted: Sequence[float]) -> None:
    """The places nearest to the wanted ones, in the least squares, that keep order and distances."""
    offset, offsets = 0.0, []
    for before, item in zip([None, *row], row, strict=False):
        if before is not None:
            offset += before.right + item.left + (_BOX_GAP if before.box is not None or item.box is not None else 0.0)
        offsets.append(offset)
    groups: list[tuple[float, float, int]] = []  # mean, weight, size
    for item, want, offset in zip(row, wanted, offsets, strict=True):
        mean, weight, size = want - offset, item.weight, 1
        while groups and groups[-1][0] >= mean:
            other, more, many = groups.pop()
            mean = (mean * weight + other * more) / (weight + more)
            weight, size = weight + more, size + many
        groups.append((mean, weight, size))
    means = [mean for mean, _, size in groups for _ in range(size)]
    for item, mean, offset in zip(row, means, offsets, strict=True):
        item.x = mean + offset


# ---- the page ------------------------------------------------------------------------------------------------


def _page(boxes: Sequence[Box], rows: Sequence[Sequence[_Item]], chains: dict[int, list[_Item]]) -> Layout:
    """Cut the layers into columns, and move everything to its place on the page."""
    heights = [max((item.height for item in row), default=0.0) for row in rows]
    crossing = [sum(len(item.below) for item in row) for row in rows]  # links from each layer to the next
    columns = _columns(rows, heights, crossing)
    tops: list[float] = [0.0] * len(rows)
    places: list[Place] = [Place(0.0, 0.0)] * len(boxes)
    gutters: list[float] = []  # the left end of the gutter after each column
    left, lowest = 0.0, 0.0
    margin = max([_LANE * crossing[last] for _, last in columns[:-1]], default=-_TURN) + _TURN
    for first, last in columns:
        items = [item for row in rows[first : last + 1] for item in row]
        shift = left - min(item.x - item.left for item in items)
        y = margin
        for layer in range(first, last + 1):
            tops[layer] = y
            for item in rows[layer]:
                item.x += shift
                if item.box is not None:
                    places[item.box] = Place(item.x, y)
            y += heights[layer] + _ROW_GAP
        right = max(item.x + item.right for item in items)
        gutters.append(right + _GUTTER / 2)
        lowest = max(lowest, y - _ROW_GAP)
        left = right + _GUTTER + _LANE * crossing[last]
    layer_of = {id(item): layer for layer, row in enumerate(rows) for item in row}
    column_of = {layer: n for n, (first, last) in enumerate(columns) for layer in range(first, last + 1)}
    used = [0] * len(columns)  # lanes of each gutter
    ports = _ports(boxes, chains)
    routes: dict[int, list[list[Point]]] = {}
    for number, chain in sorted(chains.items()):
        routes[number] = pieces = []
        for upper, lower in zip(chain, chain[1:], strict=False):
            layer = layer_of[id(upper)]
            if upper.box is None:
                start = upper.x, tops[layer] + heights[layer]
                pieces.append([(upper.x, tops[layer]), start])
            else:
                start = upper.x + ports[number, True], places[upper.box].y + upper.height
            if lower.box is None:
                end = lower.x, tops[layer + 1]
            else:
                end = lower.x + ports[number, False], places[lower.box].y
            column = column_of[layer]
            if column == column_of[layer + 1]:
                pieces.append([start, end])
                continue
            lane = _LANE * used[column]
            used[column] += 1
            down, across, up = lowest + _TURN + lane, gutters[column] + lane, margin - _TURN - lane
            pieces.append([start, (start[0], down), (across, down), (across, up), (end[0], up), end])
    width = left - _LANE * crossing[columns[-1][1]] - _GUTTER if columns else 0.0
    return Layout(places, routes, width, lowest + margin)


def _columns(
    rows: Sequence[Sequence[_Item]], heights: Sequence[float], crossing: Sequence[int]
) -> list[tuple[int, int]]:
    """The first and last layer of each column, so many columns that the page has about the right proportion."""
    best: list[tuple[int, int]] = []
    least = math.inf
    for count in range(1, len(rows) + 1):
        columns = _balanced(heights, count)
        wide, high = 0.0, 0.0
        for first, last in columns:
            items = [item for row in rows[first : last + 1] for item in row]
            wide += max(item.x + item.right for item in items) - min(item.x - item.left for item in items)
            wide += _GUTTER + _LANE * crossing[last]
            high = max(high, sum(heights[first : last + 1]) + _ROW_GAP * (last - first + 1))
        miss = abs(math.log(wide / high / _PROPORTION))
        if miss < least:
            best, least = columns, miss
        if wide > 2 * _PROPORTION * high:
            break
    return best


def _balanced(heights: Sequence[float], count: int) -> list[tuple[int, int]]:
    """Layers in at most so many columns, of which the highest is as low as can be."""
    low, high = max(heights) + _ROW_GAP, sum(heights) + _ROW_GAP * len(heights)
    while high - low > 1.0:
        middle = (low + high) / 2
        low, high = (low, middle) if len(_filled(heights, middle)) <= count else (middle, high)
    return _filled(heights, high)


def _filled(heights: Sequence[float], most: float) -> list[tuple[int, int]]:
    """Layers in columns that are filled up to a height, one after the other."""
    columns, first, height = [], 0, 0.0
    for layer, own in enumerate(heights):
        if layer > first and height + own + _ROW_GAP > most:
            columns.append((first, layer - 1))
            first, height = layer, 0.0
        height += own + _ROW_GAP
    return [*columns, (first, len(heights) - 1)]


def _ports(boxes: Sequence[Box], chains: dict[int, list[_Item]]) -> dict[tuple[int, bool], float]:
    """(link, whether it leaves) -> how far from the middle of the card it touches it."""
    touching: dict[tuple[int, bool], list[tuple[float, int]]] = {}
    for number, chain in chains.items():
        touching.setdefault((chain[0].box or 0, True), []).append((chain[1].x, number))
        touching.setdefault((chain[-1].box or 0, False), []).append((chain[-2].x, number))
    ports = {}
    for (box, leaves), ends in touching.items():
        step = min(_PORT, (boxes[box].width - 32.0) / max(1, len(ends) - 1))
        for place, (_, number) in enumerate(sorted(ends)):
            ports[number, leaves] = step * (place - (len(ends) - 1) / 2)
    return ports
