"""The lines of text on an operator's card and in a leaf's box, and the space that they need.

Widths are estimates for the widest common fonts: no font is measured.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..._files.terminal import bytes_text, display_name
from .walk import Leaf, Operator, Output, Saved

__all__ = ["Card", "Chip", "Line", "Text", "card_of", "chip_of", "listed", "norm_text", "shape_text", "shortened"]

PAD, LINE = 13.0, 19.0  # between text and the edge of its box; from line to line
_MOST_SAVED, _MOST_NAMED, _MOST_LETTERS = 8, 12, 36
_LEAST_WIDTH = 210.0
# letters by their widths, relative to the size, in DejaVu Sans, which is wide; bold ones are an eighth wider
_WIDTHS = {0.33: "ijlI.,:;'|! ", 0.41: 'ftr()[]-/"', 0.57: "acekosvxyz_", 0.72: "ABCDGHKNOPQRUVXYZ&", 0.95: "mwMW@%"}
_WIDTH = {letter: width for width, letters in _WIDTHS.items() for letter in letters}
_OTHER, _MONO = 0.63, 0.605


@dataclass(frozen=True)
class Text:
    """A piece of text. style: its class in the style sheet."""

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
            width += 1.0 if wide else _MONO if self.mono else _WIDTH.get(letter, _OTHER) * (1.13 if self.bold else 1.0)
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

    leaf: its place. gradient: whether one flows to it. again: it has been drawn in full beside another card.
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
    """An operator: the lines of its forward and of its backward, and the leaves beside it."""

    operator: Operator
    forward: tuple[Line, ...]
    backward: tuple[Line, ...]
    chips: tuple[Chip, ...]

    @property
    def width(self) -> float:
        """The least; all cards of a picture get that of the widest."""
        return max(_LEAST_WIDTH, *(line.width + 2 * PAD for line in (*self.forward, *self.backward)))

    @property
    def forward_height(self) -> float:
        return LINE * len(self.forward) + 16.0

    @property
    def own_height(self) -> float:
        return self.forward_height + LINE * len(self.backward) + 14.0


def card_of(operator: Operator, chips: Sequence[Chip], far: Iterable[Line]) -> Card:
    """far: lines about links that are not drawn."""
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
    """module: the path that the card shows; the leaf's name goes on from it."""
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
    """The norm of a gradient, which stands out if it is NaN or infinite."""
    return Text(f"‖g‖ {norm:.3g}", "rg-orange" if math.isfinite(norm) else "rg-bad", 12.0, bold=True)


def listed(items: Sequence[object]) -> str:
    """1, 2, 3, and of many the first four and the last: 1, 2, 3, 4 … 40 (40 of them)."""
    if len(items) <= _MOST_NAMED:
        return ", ".join(map(str, items))
    return f"{', '.join(map(str, items[:4]))} … {items[-1]} ({len(items)} of them)"


def shortened(name: str) -> str:
    """A name in one line, without its middle if it is long."""
    name = display_name(name)
    half = _MOST_LETTERS // 2
    return name if len(name) <= _MOST_LETTERS else f"{name[:half]}…{name[-half:]}"
