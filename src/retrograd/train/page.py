"""The parts of a report, and the HTML shared by the pages of all tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from string import Template
from typing import Any

from .profile import LayerTime

__all__ = ["Page", "bars_table", "definitions", "facts_tiles", "filled", "times_table"]


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
    """The template of this name in the package's files/, filled in; $css is the style of all pages."""
    return Template(_text(package, name)).substitute({"css": _text(__package__, "page.css"), **parts})


def _text(package: str, name: str) -> str:
    return resources.files(package).joinpath("files", name).read_text(encoding="utf-8")


def facts_tiles(facts: Mapping[str, str]) -> str:
    return "".join(f"<div><b>{escape(value)}</b><span>{escape(name)}</span></div>" for name, value in facts.items())


def definitions(values: Mapping[str, Any]) -> str:
    items = (f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in values.items())
    return f"<dl>{''.join(items)}</dl>"


def times_table(rows: Sequence[LayerTime], pages: Mapping[str, str]) -> str:
    """A row for each layer; pages: by path, where its gradients are taken apart."""
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
    """A row for each value: its name, the value, and a bar of proportional length."""
    longest = max(values.values()) or 1.0
    lines = "".join(
        f'<tr><td>{escape(name)}</td><td class="n">{form.format(value)}</td>'
        f'<td><div class="bar"><i class="f" style="width:{100 * value / longest:.1f}%"></i></div></td></tr>'
        for name, value in values.items()
    )
    return f'<table class="times"><tr><th></th><th class="n">{escape(unit)}</th><th></th></tr>{lines}</table>'
