"""Layout of a layered graph: layers by longest path, an order with few crossings, and columns on a page.

Every box is in a layer above the boxes that it leads to. A link over several layers passes through a lane of its own in
each of them. The links in `far_links` would clutter the drawing, and are named at both ends instead. Layers fill
columns of about equal height, read like newspaper columns, so that a long chain has the proportions of a screen.

Sources: K. Sugiyama, S. Tagawa, M. Toda, "Methods for Visual Understanding of Hierarchical System Structures", IEEE
Transactions on Systems, Man, and Cybernetics 11(2), 1981 (layers, barycenters); J. B. Kruskal, "Nonmetric
multidimensional scaling: a numerical method", Psychometrika 29, 1964 (pooling of neighbors, in `_spread`).
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
_PORT = 30.0  # the largest distance between the links of a box
_GUTTER = 40.0  # between columns, besides the lanes in it
_TURN = 24.0  # from a box to the first lane around the end of its column
_PROPORTION = 1.5  # width to height of a page
_SWEEPS = 12

Point = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A card. width, height: its size; right: the extent of what is attached to its right."""

    width: float
    height: float
    right: float = 0.0


@dataclass(frozen=True)
class Place:
    """The midpoint of a card's upper edge."""

    x: float
    y: float


@dataclass(frozen=True)
class Layout:
    """Places of boxes and routes of links.

    routes: for each drawn link, by its number, the pieces from one box down to another, each a line (two points) or a
    detour around the end of a column (six points).
    """

    places: list[Place]
    routes: dict[int, list[list[Point]]]
    width: float
    height: float


@dataclass(eq=False)
class _Item:
    """A box in a layer, or the lane of a link (box is None); above, below: its links in the adjacent layers.

    weight: how strongly its neighbors attract it; higher at the end of a long path, to straighten it.
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
    """Compute places for boxes and routes for links (from, to), where `from` is the smaller number."""
    rows, chains = _rows(boxes, links, _layers(len(boxes), links), far_links(len(boxes), links))
    _order(rows)
    _spread_all(rows)
    return _page(boxes, rows, chains)


def far_links(count: int, links: Sequence[tuple[int, int]]) -> set[int]:
    """Return the numbers of links that are not drawn: they cross many layers, or fewer from a box with many links."""
    layers = _layers(count, links)
    leaving, coming = Counter(start for start, _ in links), Counter(end for _, end in links)
    far = set()
    for number, (start, end) in enumerate(links):
        reach = 1 if max(leaving[start], coming[end]) > _MOST else _REACH
        if layers[end] - layers[start] > reach:
            far.add(number)
    return far


def _layers(count: int, links: Sequence[tuple[int, int]]) -> list[int]:
    """Return the layer of each box: its longest path to the last box, or the next layer with space."""
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
    """Return the items of each layer, and for each drawn link the items along it, both ends included."""
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


# ---- The order in a layer -------------------------------------------------------------------------------------------


def _order(rows: list[list[_Item]]) -> None:
    """Sort each layer by the barycenters of its neighbors, alternately down and up; keep the fewest crossings."""
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


# ---- The places in a layer ------------------------------------------------------------------------------------------


def _spread_all(rows: Sequence[list[_Item]]) -> None:
    """Move every item as close to the mean of its neighbors as the order allows."""
    for row in rows:
        _spread(row, [0.0] * len(row))
    for sweep in range(2 * _SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            desired = []
            for item in row:
                near = (item.above if sweep % 2 == 0 else item.below) or item.below or item.above
                total = sum(other.weight for other in near)
                desired.append(sum(other.x * other.weight for other in near) / total if near else item.x)
            _spread(row, desired)


def _spread(row: Sequence[_Item], desired: Sequence[float]) -> None:
    """Set the places of a row: least-squares closest to the desired ones, in order and with the minimum distances."""
    offset, offsets = 0.0, []
    for before, item in zip([None, *row], row, strict=False):
        if before is not None:
            offset += before.right + item.left + (_BOX_GAP if before.box is not None or item.box is not None else 0.0)
        offsets.append(offset)
    groups: list[tuple[float, float, int]] = []  # mean, weight, size
    for item, target, offset in zip(row, desired, offsets, strict=True):
        mean, weight, size = target - offset, item.weight, 1
        while groups and groups[-1][0] >= mean:
            other, more, many = groups.pop()
            mean = (mean * weight + other * more) / (weight + more)
            weight, size = weight + more, size + many
        groups.append((mean, weight, size))
    means = [mean for mean, _, size in groups for _ in range(size)]
    for item, mean, offset in zip(row, means, offsets, strict=True):
        item.x = mean + offset


# ---- The page -------------------------------------------------------------------------------------------------------


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
    used = [0] * len(columns)  # used lanes of each gutter
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
    """Return the first and last layer of each column, for the number of columns that best fits the page proportion."""
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
    """Divide the layers into at most this many columns, and minimize the height of the tallest one."""
    low, high = max(heights) + _ROW_GAP, sum(heights) + _ROW_GAP * len(heights)
    while high - low > 1.0:
        middle = (low + high) / 2
        low, high = (low, middle) if len(_filled(heights, middle)) <= count else (middle, high)
    return _filled(heights, high)


def _filled(heights: Sequence[float], most: float) -> list[tuple[int, int]]:
    """Fill columns with layers up to a height, one after the other."""
    columns, first, height = [], 0, 0.0
    for layer, own in enumerate(heights):
        if layer > first and height + own + _ROW_GAP > most:
            columns.append((first, layer - 1))
            first, height = layer, 0.0
        height += own + _ROW_GAP
    return [*columns, (first, len(heights) - 1)]


def _ports(boxes: Sequence[Box], chains: dict[int, list[_Item]]) -> dict[tuple[int, bool], float]:
    """Return (link, whether it leaves) -> its horizontal offset from the middle of the card."""
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
