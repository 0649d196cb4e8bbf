"""SVG drawing of a recorded graph: operator cards, leaves, and arrows for values and gradients.

Widths are estimates for the widest common fonts; no font is measured.

The SVG is written as a string. Colors are classes of a style sheet, so that they follow light and dark mode. The
picture has its own background, so that it is readable on any page.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from ..._files.terminal import bytes_text, display_name
from .layout import Box, Place, Point, far_links, lay_out
from .walk import Leaf, Operator, Output, Saved, Walk

__all__ = [
    "Card",
    "Chip",
    "Line",
    "Text",
    "card_of",
    "chip_of",
    "draw",
    "listed",
    "norm_text",
    "shape_text",
    "shortened",
]


# ---- Lines of text on operator cards and leaf boxes, and their sizes ------------------------------------------------

PAD, LINE = 13.0, 19.0  # between text and the edge of its box; between lines
_MOST_SAVED, _MOST_NAMED, _MOST_LETTERS = 8, 12, 36
_LEAST_WIDTH = 210.0
# letters by width, relative to the font size, in DejaVu Sans, which is wide; bold letters are an eighth wider
_WIDTHS = {0.33: "ijlI.,:;'|! ", 0.41: 'ftr()[]-/"', 0.57: "acekosvxyz_", 0.72: "ABCDGHKNOPQRUVXYZ&", 0.95: "mwMW@%"}
_WIDTH = {letter: width for width, letters in _WIDTHS.items() for letter in letters}
_OTHER, _MONO_WIDTH = 0.63, 0.605


@dataclass(frozen=True)
class Text:
    """A piece of text. style: its CSS class."""

    text: str
    style: str
    size: float = 12.0
    bold: bool = False
    mono: bool = False

    @property
    def width(self) -> float:
        width = 0.0
        for letter in self.text:
            wide = unicodedata.east_asian_width(letter) in "WF"
            width += (
                1.0 if wide else _MONO_WIDTH if self.mono else _WIDTH.get(letter, _OTHER) * (1.13 if self.bold else 1.0)
            )
        return self.size * width


@dataclass(frozen=True)
class Line:
    """One line of a card: text on the left and on the right, or, as a badge, in a filled box."""

    left: tuple[Text, ...] = ()
    right: Text | None = None
    badge: bool = False

    @property
    def width(self) -> float:
        width = sum(text.width + 9.0 for text in self.left) - 9.0 + 16.0 * self.badge
        return width + (0.0 if self.right is None else 22.0 + self.right.width)


@dataclass(frozen=True)
class Chip:
    """The box of a leaf, or of the result.

    leaf: its index. gradient: whether one flows to it. again: the leaf is already drawn in full next to another card.
    """

    leaf: int
    lines: tuple[Line, ...]
    gradient: bool
    again: bool

    @property
    def width(self) -> float:
        return max(line.width for line in self.lines) + 2 * PAD

    @property
    def height(self) -> float:
        return LINE * len(self.lines) + 14.0


@dataclass(frozen=True)
class Card:
    """An operator: the lines of its forward and of its backward, and the leaves next to it."""

    operator: Operator
    forward: tuple[Line, ...]
    backward: tuple[Line, ...]
    chips: tuple[Chip, ...]

    @property
    def width(self) -> float:
        """The minimum width; all cards of a picture get that of the widest."""
        return max(_LEAST_WIDTH, *(line.width + 2 * PAD for line in (*self.forward, *self.backward)))

    @property
    def forward_height(self) -> float:
        return LINE * len(self.forward) + 16.0

    @property
    def own_height(self) -> float:
        return self.forward_height + LINE * len(self.backward) + 14.0


def card_of(operator: Operator, chips: Sequence[Chip], far: Iterable[Line]) -> Card:
    """Return the card of an operator. far: lines about links that are not drawn."""
    title = Text(shortened(operator.name), "rg-ink", 15.0, bold=True)
    number = Text(str(operator.number), "rg-quiet", 12.0, mono=True)
    module = Text(f"in {shortened(operator.module)}", "rg-quiet", 12.5) if operator.module else None
    forward = [Line((number, title), module), *map(_output, operator.outputs), *far]
    return Card(operator, tuple(forward), tuple(_backward(operator)), tuple(chips))


def _output(output: Output) -> Line:
    shape = Text(shape_text(output.shape), "rg-blue", 12.5, mono=True)
    norm = None if output.norm is None else norm_text(output.norm)
    return Line((shape, Text(output.dtype, "rg-quiet", 11.5, mono=True)), norm)


def _backward(operator: Operator) -> list[Line]:
    size = bytes_text(sum(saved.nbytes for saved in operator.saved))
    keeps = {
        "kept": f"keeps {size}" if operator.saved else "keeps nothing",
        "recomputed": f"recomputes {size}",
        "freed": "has freed what it kept",
    }[operator.state]
    title = Text(shortened(f"{operator.name}Backward"), "rg-orange", 12.5, bold=True)
    lines = [Line((title,), Text(keeps, "rg-quiet", 11.5))]
    if operator.rule is not None:
        lines.append(Line((Text(f"rule: {shortened(operator.rule)}", "rg-on", 12.0, bold=True),), badge=True))
    shown = operator.saved if len(operator.saved) <= _MOST_SAVED else operator.saved[: _MOST_SAVED - 1]
    lines += map(_kept, shown)
    rest = operator.saved[len(shown) :]
    if rest:
        more = bytes_text(sum(saved.nbytes for saved in rest))
        lines.append(Line((Text(f"and {len(rest)} more", "rg-quiet", 11.5),), Text(more, "rg-quiet", 11.5, mono=True)))
    return lines


def _kept(saved: Saved) -> Line:
    name = Text(shortened(saved.name), "rg-ink", 11.5, mono=True)
    kind = "" if saved.dtype == "float32" else f" {saved.dtype}"
    shape = Text(shape_text(saved.shape) + kind, "rg-quiet", 11.5, mono=True)
    return Line((name, shape), Text(bytes_text(saved.nbytes), "rg-quiet", 11.5, mono=True))


def chip_of(place: int, leaf: Leaf, module: str, again: bool) -> Chip:
    """Return the box of a leaf. module: the path shown on the card; the leaf's name is relative to it."""
    name = leaf.name.removeprefix(f"{module}.") if module else leaf.name
    title = Line((Text(shortened(name), "rg-ink", 12.5, bold=True),))
    if again:
        return Chip(place, (title,), leaf.grad_req != "null", True)
    shape = Text(shape_text(leaf.shape), "rg-quiet", 11.5, mono=True)
    lines = [title, Line((shape, Text(leaf.dtype, "rg-quiet", 11.5, mono=True)))]
    if leaf.grad_req == "null":
        lines.append(Line((Text("takes no gradient", "rg-quiet", 11.5),)))
    elif leaf.norm is not None:
        lines.append(Line((norm_text(leaf.norm),)))
    return Chip(place, tuple(lines), leaf.grad_req != "null", False)


def shape_text(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape)) if shape else "scalar"


def norm_text(norm: float) -> Text:
    """Return the norm of a gradient, highlighted if it is NaN or infinite."""
    return Text(f"‖g‖ {norm:.3g}", "rg-orange" if math.isfinite(norm) else "rg-bad", 12.0, bold=True)


def listed(items: Sequence[object]) -> str:
    """Return 1, 2, 3; for many items the first four and the last: 1, 2, 3, 4 … 40 (40 of them)."""
    if len(items) <= _MOST_NAMED:
        return ", ".join(map(str, items))
    return f"{', '.join(map(str, items[:4]))} … {items[-1]} ({len(items)} of them)"


def shortened(name: str) -> str:
    """Return a name in one line, with its middle elided if it is long."""
    name = display_name(name)
    half = _MOST_LETTERS // 2
    return name if len(name) <= _MOST_LETTERS else f"{name[:half]}…{name[-half:]}"


# ---- SVG of a walk --------------------------------------------------------------------------------------------------

_MARGIN, _HEAD = 30.0, 96.0
_LEAF_GAP, _LEAF_SPACE = 46.0, 10.0  # between a card and its leaves; between leaves
_APART = 3.5  # distance of each arrow of a pair from their center line
_TIP = 8.0  # length of an arrowhead
_BEND = 9.0  # corner radius
_SANS = "system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',Arial,sans-serif"
_MONO = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"
_STYLE = (
    ".rg-page{fill:#f6f8fb}.rg-card,.rg-leaf{fill:#fff;stroke:#c5cedb}"
    ".rg-fore{fill:#edf3ff}.rg-back{fill:#fff6f0}.rg-ruled{fill:#f3eeff}"
    ".rg-ink{fill:#0f172a}.rg-quiet{fill:#5b6678}.rg-blue{fill:#1d4ed8}.rg-orange{fill:#b8400a}.rg-bad{fill:#c0162c}"
    ".rg-badge{fill:#6d28d9}.rg-on{fill:#fff}.rg-rule{stroke:#6d28d9}"
    ".rg-forward{stroke:#2563eb}.rg-backward{stroke:#e8590c}.rg-down{fill:#2563eb}.rg-up{fill:#e8590c}"
    "@media (prefers-color-scheme:dark){"
    ".rg-page{fill:#0d1117}.rg-card,.rg-leaf{fill:#161b22;stroke:#414b5a}"
    ".rg-fore{fill:#16233b}.rg-back{fill:#2b1e17}.rg-ruled{fill:#261d3d}"
    ".rg-ink{fill:#e8edf4}.rg-quiet{fill:#9aa7b8}.rg-blue{fill:#8db4ff}.rg-orange{fill:#ffab73}.rg-bad{fill:#ff8090}"
    ".rg-badge{fill:#b79bff}.rg-on{fill:#160c2e}.rg-rule{stroke:#b79bff}"
    ".rg-forward{stroke:#6d9dff}.rg-backward{stroke:#ff8a45}.rg-down{fill:#6d9dff}.rg-up{fill:#ff8a45}}"
)


def draw(found: Walk, title: str, summary: Sequence[str]) -> str:
    """Return the picture as SVG. summary: lines below its title."""
    first = found.left_out + 1  # number of the first card
    last = len(found.operators)
    links = [
        (source.operator - first, place)
        for place, operator in enumerate(found.operators)
        for source in operator.sources
        if source.leaf is None and source.operator >= first
    ]
    links.append((last - 1, last))
    far = {links[number] for number in far_links(last + 1, links)}
    cards = _cards(found, first, far)
    result = _result(found)
    wide = max(card.width for card in cards)
    boxes = [Box(wide, _height(card), _right(card)) for card in cards] + [Box(result.width, result.height)]
    layout = lay_out(boxes, links)
    head, head_width = _head(title, summary, any(card.operator.rule is not None for card in cards))
    width = max(layout.width, head_width) + 2 * _MARGIN
    height = layout.height + _HEAD + LINE * len(summary) + _MARGIN
    shift = (width - layout.width) / 2, _HEAD + LINE * len(summary)
    arrows = [_link(pieces, found, links[number], first) for number, pieces in layout.routes.items()]
    shown = [_card(card, place, wide, found) for card, place in zip(cards, layout.places, strict=False)]
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="rg-graph" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}" role="img" font-family={quoteattr(_SANS)} font-size="12">',
            f"<title>{escape(title)}</title><style>{_STYLE}</style>",
            f'<rect class="rg-page" width="{width:.0f}" height="{height:.0f}" rx="14"/>',
            head,
            f'<g transform="translate({shift[0]:.1f} {shift[1]:.1f})">',
            *arrows,
            *shown,
            _chip(result, layout.places[-1].x - result.width / 2, layout.places[-1].y, result.width, "rg-result"),
            "</g></svg>",
        ]
    )


# ---- Selection of what is drawn -------------------------------------------------------------------------------------


def _cards(found: Walk, first: int, far: set[tuple[int, int]]) -> list[Card]:
    leads: dict[int, list[int]] = {}  # a card -> distant cards that its result goes to
    for start, end in sorted(far):
        leads.setdefault(start, []).append(end)
    cards = []
    drawn: set[int] = set()  # the leaves drawn so far
    for place, operator in enumerate(found.operators):
        chips = []
        for leaf in dict.fromkeys(source.leaf for source in operator.sources if source.leaf is not None):
            chips.append(chip_of(leaf, found.leaves[leaf], operator.module, leaf in drawn))
            drawn.add(leaf)
        before = sorted({s.operator for s in operator.sources if s.leaf is None and (s.operator - first, place) in far})
        omitted = sorted({s.operator for s in operator.sources if s.leaf is None and s.operator < first})
        lines = [
            Line((Text(f"{words} {listed(numbers)}", "rg-quiet", 11.5),))
            for words, numbers in (
                ("from", before),
                ("not drawn: from", omitted),
                ("also to", [end + first for end in leads.get(place, ())]),
            )
            if numbers
        ]
        cards.append(card_of(operator, chips, lines))
    return cards


def _result(found: Walk) -> Chip:
    output = found.operators[-1].outputs[found.output]
    title = Text("result", "rg-ink", 12.5, bold=True)
    shape = Text(shape_text(output.shape), "rg-blue", 12.0, mono=True)
    return Chip(0, (Line((title, shape, Text(output.dtype, "rg-quiet", 11.5, mono=True))),), True, False)


def _height(card: Card) -> float:
    return max(card.own_height, sum(chip.height for chip in card.chips) + _LEAF_SPACE * (len(card.chips) - 1))


def _right(card: Card) -> float:
    return _LEAF_GAP + max(chip.width for chip in card.chips) if card.chips else 0.0


# ---- Drawing --------------------------------------------------------------------------------------------------------


def _card(card: Card, place: Place, width: float, found: Walk) -> str:
    operator, height = card.operator, _height(card)
    left, middle = place.x - width / 2, card.forward_height
    has_rule = operator.rule is not None
    parts = [
        f'<g class="rg-operator" data-number="{operator.number}"><title>{escape(_tooltip(operator))}</title>',
        *_leaf_boxes(card, place.x + width / 2, place.y, found),
        f'<g transform="translate({left:.1f} {place.y:.1f})">',
        f'<rect class="rg-card" width="{width:.1f}" height="{height:.1f}" rx="9"/>',
        f'<path class="rg-fore" d="M.5 {middle:.1f}V9.5a9 9 0 0 1 9-9H{width - 9.5:.1f}a9 9 0 0 1 9 9V{middle:.1f}z"/>',
        f'<path class="{"rg-ruled" if has_rule else "rg-back"}" d="M.5 {middle:.1f}V{height - 9.5:.1f}a9 9 0 0 0 9 9'
        f'H{width - 9.5:.1f}a9 9 0 0 0 9-9V{middle:.1f}z"/>',
        _lines(card.forward, width, 8.0),
        _lines(card.backward, width, middle + 7.0),
    ]
    if has_rule:
        parts.append(
            f'<rect class="rg-rule" x="-1" y="-1" width="{width + 2:.1f}" height="{height + 2:.1f}" rx="10" '
            'fill="none" stroke-width="2"/>'
        )
    return "".join([*parts, "</g></g>"])


def _tooltip(operator: Operator) -> str:
    """Return the tooltip of an operator."""
    text = f"{operator.number} {display_name(operator.name)}"
    text += f" in {display_name(operator.module)}" if operator.module else ""
    text += f", called at {display_name(operator.place)}" if operator.place else ""
    return text + (f"; its backward is the rule {display_name(operator.rule)}" if operator.rule is not None else "")


def _leaf_boxes(card: Card, edge: float, y: float, found: Walk) -> list[str]:
    """Return the leaves of a card, whose right edge is at `edge`, and the arrows between them and the card."""
    parts = []
    width = max((chip.width for chip in card.chips), default=0.0)
    y += (_height(card) - sum(c.height for c in card.chips) - _LEAF_SPACE * (len(card.chips) - 1)) / 2
    for chip in card.chips:
        start, end, middle = edge + _LEAF_GAP, edge, y + chip.height / 2
        name = quoteattr(display_name(found.leaves[chip.leaf].name))
        parts.append(f'<g class="rg-link" data-from={name} data-to="{card.operator.number}">')
        parts.append(_across(start, end, middle - _APART, True))
        if chip.gradient:
            parts.append(_across(end, start, middle + _APART, False))
        parts.append(f"</g>{_chip(chip, start, y, width, 'rg-parameter', found.leaves[chip.leaf].name)}")
        y += chip.height + _LEAF_SPACE
    return parts


def _chip(chip: Chip, x: float, y: float, width: float, kind: str, name: str = "") -> str:
    dashes = ' stroke-dasharray="4 3"' if chip.again else ""
    title = f"<title>{escape(display_name(name))}</title>" if name else ""
    return (
        f'<g class="{kind}" transform="translate({x:.1f} {y:.1f})">{title}<rect class="rg-leaf" '
        f'width="{width:.1f}" height="{chip.height:.1f}" rx="{min(14.0, chip.height / 2):.1f}"{dashes}/>'
        f"{_lines(chip.lines, width, 7.0)}</g>"
    )


def _lines(lines: Sequence[Line], width: float, top: float) -> str:
    parts = []
    for number, line in enumerate(lines):
        base = top + LINE * number + 13.5
        x = PAD
        if line.badge:
            box = f'x="{x:.1f}" y="{base - 13:.1f}" width="{line.width:.1f}" height="17"'
            parts.append(f'<rect class="rg-badge" {box} rx="8.5"/>')
            x += 8.0
        for text in line.left:
            parts.append(_text(text, x, base))
            x += text.width + 9.0
        if line.right is not None:
            parts.append(_text(line.right, width - PAD, base, ' text-anchor="end"'))
    return "".join(parts)


def _text(text: Text, x: float, y: float, more: str = "") -> str:
    weight = ' font-weight="600"' if text.bold else ""
    family = f" font-family={quoteattr(_MONO)}" if text.mono else ""
    return (
        f'<text class="{text.style}" x="{x:.1f}" y="{y:.1f}" font-size="{text.size:g}"{weight}{family}{more}>'
        f"{escape(text.text)}</text>"
    )


def _link(pieces: Sequence[Sequence[Point]], found: Walk, link: tuple[int, int], first: int) -> str:
    """Return the two arrows of a link: down in the color of values, up in that of gradients."""
    start, end = link
    to = str(end + first) if end < len(found.operators) else "result"
    (x, y), (other_x, other_y) = pieces[0][0], pieces[-1][-1]
    return (
        f'<g class="rg-link" data-from="{start + first}" data-to="{to}" fill="none" stroke-width="1.8">'
        f'<path class="rg-forward" d="{_curve(pieces, -_APART, 0.0, _TIP)}"/>'
        f'<path class="rg-backward" d="{_curve(pieces, _APART, _TIP, 0.0)}"/>'
        f"{_tip('rg-down', other_x - _APART, other_y, 0.0, 1.0)}{_tip('rg-up', x + _APART, y, 0.0, -1.0)}</g>"
    )


def _curve(pieces: Sequence[Sequence[Point]], aside: float, above: float, below: float) -> str:
    """Return a route, offset sideways and shortened at both ends, as an SVG path."""
    x, y = pieces[0][0]
    path = [f"M{x + aside:.1f} {y + above:.1f}"]
    for number, piece in enumerate(pieces):
        x, y = piece[-1]
        y -= below if number == len(pieces) - 1 else 0.0
        x += aside
        if len(piece) > 2:
            path.append(_around(piece, aside, (x, y)))
        elif abs(piece[0][0] - piece[1][0]) < 0.5:
            path.append(f"V{y:.1f}")
        else:
            slope = max(-1.0, min(1.0, (piece[1][0] - piece[0][0]) / 60))  # keeps a pair apart where it is flat
            middle = (piece[0][1] + piece[1][1]) / 2 - 1.4 * aside * slope
            path.append(f"C{piece[0][0] + aside:.1f} {middle:.1f} {x:.1f} {middle:.1f} {x:.1f} {y:.1f}")
    return "".join(path)


def _around(piece: Sequence[Point], aside: float, end: Point) -> str:
    """Return a path down, across, up, across and down, with round corners; parallel arrows keep their distance."""
    corners = [(x + (aside if n in (0, 1, 4, 5) else -aside), y - aside) for n, (x, y) in enumerate(piece)]
    corners[0], corners[-1] = (corners[0][0], piece[0][1]), end
    path = []
    for (ax, ay), (bx, by), (cx, cy) in zip(corners, corners[1:], corners[2:], strict=False):
        before, after = _BEND / max(abs(bx - ax) + abs(by - ay), 1.0), _BEND / max(abs(cx - bx) + abs(cy - by), 1.0)
        path.append(
            f"L{bx + (ax - bx) * before:.1f} {by + (ay - by) * before:.1f}"
            f"Q{bx:.1f} {by:.1f} {bx + (cx - bx) * after:.1f} {by + (cy - by) * after:.1f}"
        )
    return f"{''.join(path)}L{end[0]:.1f} {end[1]:.1f}"


def _tip(kind: str, x: float, y: float, right: float, down: float) -> str:
    """Return the head of an arrow that ends at (x, y) and points in a direction."""
    back_x, back_y = x - right * (_TIP + 1.0), y - down * (_TIP + 1.0)
    wide_x, wide_y = 4.0 * down, 4.0 * right
    return (
        f'<path class="{kind}" stroke="none" d="M{x:.1f} {y:.1f}L{back_x + wide_x:.1f} {back_y + wide_y:.1f}'
        f'L{back_x - wide_x:.1f} {back_y - wide_y:.1f}z"/>'
    )


def _across(start: float, end: float, y: float, forward: bool) -> str:
    """Return a straight arrow between a leaf and its card."""
    right = 1.0 if end > start else -1.0
    kinds = ("rg-forward", "rg-down") if forward else ("rg-backward", "rg-up")
    return (
        f'<path class="{kinds[0]}" stroke-width="1.8" d="M{start:.1f} {y:.1f}H{end - right * _TIP:.1f}"/>'
        f"{_tip(kinds[1], end, y, right, 0.0)}"
    )


def _head(title: str, summary: Sequence[str], rules: bool) -> tuple[str, float]:
    """Return the SVG of the header above the graph (title, summary, legend), and its width."""
    heading = Text(title, "rg-ink", 19.0, bold=True)
    lines = [Text(line, "rg-quiet", 13.0) for line in summary]
    parts = [_text(heading, _MARGIN, 42.0)]
    parts += [_text(line, _MARGIN, 42.0 + LINE * (number + 1.2)) for number, line in enumerate(lines)]
    y, x = 42.0 + LINE * (len(lines) + 1.0) + 10.0, _MARGIN
    for forward, words in ((True, "forward: values"), (False, "backward: gradients, ‖g‖ their norm")):
        label = Text(words, "rg-ink", 12.5)
        parts += [_across(x, x + 34.0, y - 4.0, forward), _text(label, x + 42.0, y)]
        x += 42.0 + label.width + 24.0
    if rules:
        label = Text("rule", "rg-on", 12.0, bold=True)
        badge = Line((label,), badge=True)
        meaning = Text("in place of the backward", "rg-ink", 12.5)
        parts.append(f'<g transform="translate({x - PAD:.1f} {y - 13.5:.1f})">{_lines([badge], 0.0, 0.0)}</g>')
        parts.append(_text(meaning, x + badge.width + 8.0, y))
        x += badge.width + 8.0 + meaning.width
    return "".join(parts), max([x - _MARGIN, heading.width, *(line.width for line in lines)])
