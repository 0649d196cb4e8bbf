"""The packages and what they import, drawn as boxes and arrows in an SVG picture for the page on the architecture."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import retrograd
from retrograd.kernel_set import _PACKAGES

_SOURCES = Path(retrograd.__file__).parent
_SPLIT = {"kernels"}  # packages whose subpackages are boxes of their own
# PyTorch's import paths and messages for missing names, which every package may use
_SHARED = ("torch_api.imports", "torch_api.missing", "torch_api.earlier_paths", "torch_api.elastic")
_WIDTH, _HEIGHT, _GAP, _ROW = 112, 34, 18, 84  # of a box, between boxes, and between rows


@cache
def imports() -> dict[str, set[str]]:
    """Return the packages that each package imports, in functions too where that closes no circle."""
    found: dict[str, set[str]] = defaultdict(set)
    later: set[tuple[str, str]] = {("kernel_set", path.partition(".")[2]) for path in _PACKAGES.values()}
    for path in sorted(_SOURCES.rglob("*.py")):
        parts = list(path.relative_to(_SOURCES).with_suffix("").parts)
        package = _package(parts)
        if package in ("__init__", "__main__", "kernels"):
            continue
        found[package] |= set()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found[package] |= set(_targets(tree.body, parts[:-1])) - {package}
        later |= {(package, target) for target in _targets(_statements(tree), parts[:-1])}
    graph = {package: targets & {*found} for package, targets in found.items()}
    for package, target in sorted(later):
        if target in graph and target != package and package not in _reached(graph, target):
            graph[package].add(target)
    return graph


def _targets(nodes: Iterable[ast.AST], folder: list[str]) -> Iterator[str]:
    for module in _imported(nodes, folder):
        if not ".".join(module).startswith(_SHARED):
            yield _package(module)


def _package(parts: list[str]) -> str:
    if parts[0] in _SPLIT and len(parts) > 1 and parts[1] != "__init__":
        return f"{parts[0]}.{parts[1]}"
    return parts[0]


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield every statement in a node; unlike ``ast.walk``, without the ten times as many parts of expressions."""
    for field in ("body", "orelse", "handlers", "finalbody", "cases"):
        for each in getattr(node, field, ()):
            yield each
            yield from _statements(each)


def _imported(nodes: Iterable[ast.AST], folder: list[str]) -> Iterator[list[str]]:
    """Yield the path below the package of every module that these statements import."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.level:
            start = folder[: len(folder) - node.level + 1]
            module = [*start, *(node.module.split(".") if node.module else [])]
            for name in [] if len(module) > 1 else node.names:
                yield [*module, name.name]
            if len(module) > 1:
                yield module


def reduced(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the graph without the arrows that follow from others."""
    below = {package: _reached(graph, package) for package in graph}
    return {
        package: {each for each in targets if not any(each in below[other] for other in targets - {each})}
        for package, targets in graph.items()
    }


def _reached(graph: dict[str, set[str]], package: str, path: tuple[str, ...] = ()) -> set[str]:
    if package in path:
        raise ValueError(f"packages import each other: {' -> '.join([*path, package])}")
    return {each for target in graph[package] for each in (target, *_reached(graph, target, (*path, package)))}


def chains(graph: dict[str, set[str]]) -> tuple[list[list[str]], list[list[str]]]:
    """Return the rows, in which every arrow points down, and each arrow as the points that it runs through.

    An arrow over several rows has a place of its own in those between, so that it passes beside the boxes.
    """
    depth: dict[str, int] = {}

    def place(package: str) -> int:
        if package not in depth:
            depth[package] = 1 + max((place(each) for each in graph[package]), default=-1)
        return depth[package]

    for package in sorted(graph):
        place(package)
    layers: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for package, level in depth.items():
        layers[-1 - level].append(package)
    arrows = []
    for package, targets in sorted(graph.items()):
        for target in sorted(targets):
            between = [f"{package}>{target}>{level}" for level in range(depth[package] - 1, depth[target], -1)]
            for level, point in zip(range(depth[package] - 1, depth[target], -1), between, strict=True):
                layers[-1 - level].append(point)
            arrows.append([package, *between, target])
    for _ in range(24):  # each point moves towards those it is joined to
        at = {point: (index + 0.5) / len(layer) for layer in layers for index, point in enumerate(layer)}
        joined: dict[str, list[float]] = defaultdict(list)
        for arrow in arrows:
            for one, other in pairwise(arrow):
                joined[one].append(at[other])
                joined[other].append(at[one])
        for layer in layers:
            layer.sort(key=lambda each: sum(joined[each]) / len(joined[each]) if joined[each] else 0.5)
    return layers, arrows


def svg() -> str:
    """Return the picture; it takes its colors from the page."""
    layers, arrows = chains(reduced(imports()))
    sizes = {point: _GAP if ">" in point else _WIDTH for layer in layers for point in layer}
    widths = [sum(sizes[point] + _GAP for point in layer) + _GAP for layer in layers]
    middle: dict[str, tuple[float, float]] = {}
    for index, (layer, width) in enumerate(zip(layers, widths, strict=True)):
        x = (max(widths) - width) / 2
        for point in layer:
            middle[point] = x + _GAP + sizes[point] / 2, 10 + index * _ROW + _HEIGHT / 2
            x += sizes[point] + _GAP
    height = (len(layers) - 1) * _ROW + _HEIGHT + 20
    title = "The packages of retrograd; an arrow leads from a package to one that it imports"
    lines = [f'<svg class="imports" viewBox="0 0 {max(widths)} {height}" role="img" aria-label="{title}">']
    lines.append('<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"')
    lines.append(' orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>')
    for arrow in arrows:
        words = f"<title>{arrow[0]} imports {arrow[-1]}</title>"
        lines.append(f'<path class="arrow" d="{_curve(arrow, middle)}" marker-end="url(#tip)">{words}</path>')
    for point, (x, y) in middle.items():
        if ">" not in point:
            box = f'x="{x - _WIDTH / 2:.0f}" y="{y - _HEIGHT / 2:.0f}" width="{_WIDTH}" height="{_HEIGHT}"'
            lines.append(
                f'<rect {box} rx="6"/><text x="{x:.0f}" y="{y + 5:.0f}">{point.removeprefix("kernels.")}</text>'
            )
    return "\n".join([*lines, "</svg>"])


def _curve(arrow: list[str], middle: dict[str, tuple[float, float]]) -> str:
    """Return the path of an arrow, from the lower edge of a box, through its points, to the upper edge of another."""
    path = ""
    for one, other in pairwise(arrow):
        (x, y), (to_x, to_y) = middle[one], middle[other]
        y, to_y = y + _HEIGHT / 2, to_y - _HEIGHT / 2
        half = (y + to_y) / 2
        path += f"{'L' if path else 'M'}{x:.0f} {y:.0f}C{x:.0f} {half:.0f} {to_x:.0f} {half:.0f} {to_x:.0f} {to_y:.0f}"
    return path
