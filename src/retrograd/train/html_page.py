"""Building blocks of report pages: HTML templates, tables, curves and images."""

from __future__ import annotations

import base64
import io
import logging
import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from importlib import resources
from importlib.util import find_spec
from string import Template
from typing import Any

import numpy as np

from .diagnostics import LayerTime

__all__ = [
    "Page",
    "PicturesMissing",
    "advice",
    "bars_table",
    "color",
    "curves",
    "definitions",
    "diverging",
    "facts_tiles",
    "filled",
    "forecasts",
    "gray",
    "has_pictures",
    "png_uri",
    "times_table",
]


# ---- Pictures for a self-contained page: curves as inline SVG, pixels as PNG in a data URI --------------------------

# placeholder colors for Matplotlib, replaced by CSS variables, which follow light and dark mode
_THEME = {"#010101": "var(--ink)", "#020202": "var(--muted)", "#030303": "var(--line)"}
_SERIES = {"#040404": "var(--first)", "#050505": "var(--second)", "#060606": "var(--third)", "#070707": "var(--fourth)"}


class PicturesMissing(RuntimeError):  # noqa: N818  a missing package, not an error
    """Matplotlib is not installed."""

    def __init__(self) -> None:
        super().__init__('the curves need Matplotlib, which is not installed: pip install "retrograd[train]"')


def has_pictures() -> bool:
    """Return whether Matplotlib is installed, without importing it."""
    return find_spec("matplotlib") is not None


def curves(
    title: str, lines: Mapping[str, Sequence[float]], percent: bool = False, level: tuple[str, float] | None = None
) -> str:
    """Draw an ``<svg>`` with a line (at most four) per entry over the epochs, in the page's colors and fonts.

    level: the name and height of a dashed line to compare with.

    Raises:
        PicturesMissing: Matplotlib is not installed.
    """
    with _axes(title, (5.2, 3.1)) as (axes, ticker):
        for (name, values), color in zip(lines.items(), _SERIES, strict=False):
            epochs = range(1, len(values) + 1)
            axes.plot(epochs, values, color=color, linewidth=2, marker="o", markersize=3, label=name)
        if level is not None:
            axes.axhline(level[1], color=list(_THEME)[1], linewidth=1.5, linestyle=(0, (4, 3)), label=level[0])
        axes.set_xlabel("epoch", color=list(_THEME)[1])
        axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True, min_n_ticks=1))
        if percent:
            axes.yaxis.set_major_formatter(ticker.PercentFormatter(1.0))
        else:
            axes.set_ylim(bottom=0)
        return _svg(axes, title)


def forecasts(
    title: str, values: Sequence[float], pieces: Mapping[str, Sequence[tuple[int, Sequence[float]]]], label: Any
) -> str:
    """Draw an ``<svg>`` of a series, overlaid with forecasts: for each name, pieces (first position, values).

    label: returns the text below the axis for a position.

    Raises:
        PicturesMissing: Matplotlib is not installed.
    """
    ink, muted, _ = _THEME
    with _axes(title, (10.4, 3.4)) as (axes, ticker):
        axes.plot(range(len(values)), values, color=muted, linewidth=1.2, label="the series")
        for (name, parts), color in zip(pieces.items(), _SERIES, strict=False):
            for number, (first, part) in enumerate(parts):
                places = range(first, first + len(part))
                axes.plot(places, part, color=color, linewidth=2, label="" if number else name)
        axes.set_xlim(0, len(values) - 1)
        axes.xaxis.set_major_locator(ticker.MaxNLocator(8, integer=True))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda place, _: label(int(place))))
        return _svg(axes, title)


@contextmanager
def _axes(title: str, size: tuple[float, float]) -> Iterator[tuple[Any, Any]]:
    """Provide empty axes in the page's colors, and matplotlib.ticker."""
    with _quiet():
        yield from _new_axes(title, size)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Matplotlib's log unless the user has configured it.

    It reports a cache folder that cannot be written, for instance without a home folder, and the search for fonts.
    """
    log = logging.getLogger("matplotlib")
    if log.level or log.handlers:
        yield
        return
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(logging.NOTSET)


def _new_axes(title: str, size: tuple[float, float]) -> Iterator[tuple[Any, Any]]:
    try:
        import matplotlib
        from matplotlib import ticker
        from matplotlib.figure import Figure
    except ImportError:
        raise PicturesMissing from None
    ink, muted, grid = _THEME
    options: Any = {"svg.fonttype": "none", "svg.hashsalt": title, "font.family": "DejaVu Sans", "font.size": 10}
    with matplotlib.rc_context(options):
        figure = Figure(figsize=size, layout="constrained")
        figure.patch.set_alpha(0)
        axes: Any = figure.add_subplot()
        axes.patch.set_alpha(0)
        axes.set_title(title, color=ink, loc="left", fontsize=11, fontweight="bold")
        axes.grid(axis="y", color=grid, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.tick_params(colors=muted, length=0)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color(grid)
        yield axes, ticker


def _svg(axes: Any, title: str) -> str:
    axes.legend(frameon=False, labelcolor=next(iter(_THEME)))
    buffer = io.StringIO()
    axes.figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return _inline(buffer.getvalue(), title)


def _inline(document: str, title: str) -> str:
    """Return the ``<svg>`` element of an SVG document, at full width, in the page's colors and font."""
    svg = document[document.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    head, body = svg.split(">", 1)
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)
    body = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, sans-serif", body)
    for color, variable in (_THEME | _SERIES).items():
        body = body.replace(color, variable)
    prefix = re.sub(r"\W+", "-", title.lower())  # two figures in a page must not share ids
    body = re.sub(r'\bid="', f'id="{prefix}-', body)
    body = re.sub(r'(href="#|url\(#)', rf"\1{prefix}-", body)
    return f'{head} role="img" aria-label="{escape(title)}">{body}'


def png_uri(pixels: np.ndarray) -> str:
    """Encode uint8 pixels as a ``data:`` URI: (H, W) gray, (H, W, 3) in color or (H, W, 4) with opacity.

    Source: PNG specification, https://www.w3.org/TR/png/: signature, IHDR, IDAT, IEND, filter 0 in every line.
    """
    height, width = pixels.shape[:2]
    lines = np.ascontiguousarray(pixels, np.uint8).reshape(height, -1)
    raw = np.concatenate([np.zeros((height, 1), np.uint8), lines], axis=1).tobytes()
    header = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[lines.shape[1] // width], 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(raw, 9)), (b"IEND", b"")
    content = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )
    return "data:image/png;base64," + base64.b64encode(content).decode()


def gray(image: np.ndarray) -> np.ndarray:
    """Convert an image (C, H, W) to gray pixels: channels averaged, the smallest value white, the largest black."""
    plane = image.mean(0)
    low, high = float(plane.min()), float(plane.max())
    return np.round(255 * (1 - (plane - low) / ((high - low) or 1.0))).astype(np.uint8)


def color(image: np.ndarray) -> np.ndarray:
    """Convert an image (3, H, W) with values from 0 to 1 to pixels (H, W, 3)."""
    return np.round(255 * np.clip(np.moveaxis(image, 0, -1), 0, 1)).astype(np.uint8)


def diverging(values: np.ndarray, limit: float) -> np.ndarray:
    """Convert values (H, W) to pixels: blue above 0, orange below, more opaque toward ``limit``; 0 is transparent."""
    pixels = np.empty((*values.shape, 4), np.uint8)
    pixels[values >= 0, :3] = (37, 99, 235)
    pixels[values < 0, :3] = (234, 88, 12)
    pixels[..., 3] = np.round(255 * np.clip(np.abs(values) / (limit or 1.0), 0, 1))
    return pixels


# ---- The parts of a report, and HTML shared by the pages of all tasks -----------------------------------------------


@dataclass(frozen=True)
class Page:
    """The parts of a report that a task fills in.

    headline: the figure in the title.
    subtitle: the amount of data and training.
    facts: figures by name, in large print.
    curves: HTML of one or more ``<div>`` side by side, below the facts.
    body: HTML of the rest.
    style: CSS for this kind of page only.
    """

    headline: str
    subtitle: str
    facts: Mapping[str, str]
    curves: str
    body: str
    style: str = ""


def filled(name: str, package: str = __package__, **parts: str) -> str:
    """Fill in the template of this name in the package's files/; $css is the style of all pages."""
    return Template(_text(package, name)).substitute({"css": _text(__package__, "page.css"), **parts})


def _text(package: str, name: str) -> str:
    return resources.files(package).joinpath("files", name).read_text(encoding="utf-8")


def facts_tiles(facts: Mapping[str, str]) -> str:
    return "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in facts.items())


def advice(text: str) -> str:
    """Return a sentence as HTML, with the options of the command that it names as code."""
    return re.sub(r"--[a-z-]+( strong)?", r'<code style="white-space: nowrap">\g<0></code>', escape(text)) + "."


def definitions(values: Mapping[str, Any]) -> str:
    items = (f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in values.items())
    return f"<dl>{''.join(items)}</dl>"


def times_table(rows: Sequence[LayerTime], pages: Mapping[str, str]) -> str:
    """Tabulate the times, a row for each layer; pages: the page with the gradients of a layer, by path."""
    longest = max(row.forward + row.backward for row in rows) or 1.0
    lines = []
    for row in rows:
        name, _, arguments = row.layer.partition("(")
        operators = ", ".join(f"{name} {1e3 * seconds:.3f}" for name, seconds in row.operators.items())
        bars = "".join(
            f'<i class="{kind}" style="width:{100 * seconds / longest:.1f}%"></i>'
            for kind, seconds in (("f", row.forward), ("b", row.backward))
        )
        lines.append(
            f"<tr><td>{_linked(f'{row.path} {name}'.strip(), pages.get(row.path))}"
            f'<small class="wide">{escape(arguments.removesuffix(")"))}</small></td>'
            f'<td class="wide">{"×".join(map(str, row.output))}</td>'
            f'<td class="n wide">{f"{row.parameters:,}" if row.parameters else ""}</td>'
            f'<td class="n">{1e3 * row.forward:.3f}</td>'
            f'<td class="n" title="{escape(operators)}">{1e3 * row.backward:.3f}</td>'
            f'<td><div class="bar">{bars}</div></td></tr>'
        )
    forward, backward = sum(row.forward for row in rows), sum(row.backward for row in rows)
    lines.append(
        '<tr><td><b>together</b></td><td class="wide"></td><td class="wide"></td>'
        f'<td class="n"><b>{1e3 * forward:.3f}</b></td><td class="n"><b>{1e3 * backward:.3f}</b></td><td></td></tr>'
    )
    head = (
        '<tr><th>layer</th><th class="wide">output</th><th class="n wide">parameters</th>'
        '<th class="n">forward</th><th class="n">backward</th><th></th></tr>'
    )
    return f'<table class="times">{head}{"".join(lines)}</table>'


def _linked(text: str, page: str | None) -> str:
    return escape(text) if page is None else f'<a href="{escape(page)}">{escape(text)}</a>'


def bars_table(values: Mapping[str, float], form: str, unit: str) -> str:
    """Tabulate values, a row for each: its name, the value, and a bar of proportional length."""
    longest = max(values.values()) or 1.0
    lines = "".join(
        f'<tr><td>{escape(name)}</td><td class="n">{form.format(value)}</td>'
        f'<td><div class="bar"><i class="f" style="width:{100 * value / longest:.1f}%"></i></div></td></tr>'
        for name, value in values.items()
    )
    return f'<table class="times"><tr><th></th><th class="n">{escape(unit)}</th><th></th></tr>{lines}</table>'
