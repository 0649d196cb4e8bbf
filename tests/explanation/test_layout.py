"""Layers, order and positions of boxes, on random graphs."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrograd.explanation.graph.layout import Box, far_links, lay_out
from strategies import examples

_ROUNDING = 0.01


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Box], list[tuple[int, int]]]:
    """Draw boxes and links; every box but the last leads to some later ones."""
    count = draw(st.integers(1, 25))
    sizes = st.tuples(st.sampled_from([60.0, 211.5]), st.sampled_from([40.0, 133.3]), st.sampled_from([0.0, 9.0]))
    boxes = [Box(*draw(sizes)) for _ in range(count)]
    links = []
    for start in range(count - 1):
        ends = draw(st.lists(st.integers(start + 1, count - 1), min_size=1, max_size=3))
        links += [(start, end) for end in ends]
    return boxes, links


@examples(60)
@given(graphs())
def test_boxes_are_apart_and_routes_join_them(graph: tuple[list[Box], list[tuple[int, int]]]) -> None:
    boxes, links = graph
    layout = lay_out(boxes, links)
    areas = [
        (place.x - box.width / 2, place.y, place.x + box.width / 2 + box.right, place.y + box.height)
        for box, place in zip(boxes, layout.places, strict=True)
    ]
    for number, (x0, y0, x1, y1) in enumerate(areas):
        assert x0 > -_ROUNDING and x1 < layout.width + _ROUNDING and y0 >= 0 and y1 < layout.height + _ROUNDING
        for a0, b0, a1, b1 in areas[:number]:
            assert x1 < a0 + _ROUNDING or a1 < x0 + _ROUNDING or y1 < b0 + _ROUNDING or b1 < y0 + _ROUNDING
    assert set(layout.routes) == set(range(len(links))) - far_links(len(boxes), links)
    for number, pieces in layout.routes.items():
        start, end = links[number]
        assert all(0 <= x <= layout.width and 0 <= y <= layout.height for piece in pieces for x, y in piece)
        assert all(before[-1] == pytest.approx(after[0]) for before, after in pairwise(pieces))
        (x, y), (other_x, other_y) = pieces[0][0], pieces[-1][-1]
        assert abs(x - layout.places[start].x) <= boxes[start].width / 2
        assert y == pytest.approx(layout.places[start].y + boxes[start].height)
        assert abs(other_x - layout.places[end].x) <= boxes[end].width / 2
        assert other_y == pytest.approx(layout.places[end].y)


def test_a_chain_is_straight_and_a_skip_goes_around_it() -> None:
    layout = lay_out([Box(600.0, 40.0)] * 4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    middle = layout.places[0].x
    assert all(abs(place.x - middle) < 3 for place in layout.places)
    assert all(abs(x - middle) > 300 for piece in layout.routes[3][1:-1] for x, _ in piece)


def test_no_layer_is_too_wide() -> None:
    boxes = [Box(100.0, 40.0)] * 31
    layout = lay_out(boxes, [(start, 30) for start in range(30)])
    levels = [place.y for place in layout.places]
    assert max(levels.count(level) for level in levels) <= 12  # six, and those beside it in another column
    assert len(far_links(31, [(start, 30) for start in range(30)])) == 24


def test_one_box() -> None:
    layout = lay_out([Box(100.0, 40.0, 20.0)], [])
    assert layout.routes == {} and layout.places[0].x == 50.0 and (layout.width, layout.height) == (120.0, 40.0)
