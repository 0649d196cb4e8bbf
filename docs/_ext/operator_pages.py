"""The operator pages, one for each file that defines operators: an example, then formulas, gradients and sources."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docstrings
import public_names

import retrograd
from retrograd.autograd import Function
from retrograd.explanation.backward_source import gradient_of

DOCS = Path(__file__).resolve().parents[1]
SOURCES = Path(retrograd.__file__).resolve().parent
FOLDER = DOCS / "reference" / "operators"
_NAMESPACES = [
    f"retrograd.{path}" for path in ("nn.functional", "nn.grad", "linalg", "special", "fft", "signal.windows")
]


@functools.cache
def families() -> dict[str, dict[str, Callable[..., Any]]]:
    """Return name of a page -> the operators on it by their paths: those that one file defines."""
    found: dict[str, dict[str, Callable[..., Any]]] = {}
    for path, thing in public_names.public().items():
        package, _, name = path.rpartition(".")
        here = package in _NAMESPACES or (package == "retrograd" and name in retrograd.ops.__all__)
        if here and path in public_names.entries():
            operator = inspect.unwrap(thing) if callable(thing) else thing
            *folder, file = public_names.file_of(path).split(".")
            if (inspect.isfunction(operator) or inspect.isclass(operator)) and "torch_api" not in folder:
                page = f"{folder[-1]}_{file}" if file == "plan" or folder[-1:] == ["loss"] else file
                found.setdefault(page, {})[path] = operator
    return {page: dict(sorted(found[page].items(), key=lambda each: last(each[0]))) for page in sorted(found)}


def last(path: str) -> str:
    return path.rpartition(".")[2]


def functions_behind(thing: Any, seen: set[Any]) -> Iterator[type[Function]]:
    """Yield the Function classes that a public function applies, and those that their backward applies."""
    if thing in seen or not getattr(thing, "__module__", "").startswith("retrograd"):
        return
    seen.add(thing)
    is_operator = inspect.isclass(thing) and issubclass(thing, Function)
    if is_operator:
        yield thing
    if hasattr(thing, "formulas"):
        return
    if hasattr(thing, "function"):  # a user's formula
        yield from functions_behind(thing.function, seen)
        return
    globals_ = vars(inspect.getmodule(thing))
    tree = ast.parse(textwrap.dedent(inspect.getsource(thing)))
    for name in dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name)):
        other = globals_.get(name)
        if inspect.isclass(other) and issubclass(other, Function) and other is not Function:
            # what another file defines is on that file's page, unless the function only wraps it
            if other.__module__ == thing.__module__ or not is_operator:
                yield from functions_behind(other, seen)
        elif inspect.isfunction(other) and not is_operator and name.startswith("_"):
            yield from functions_behind(other, seen)


def sources(operator: Any, shown: set[Any]) -> list[tuple[str, str]]:
    """Return (file, name) of the classes and formulas whose source an entry includes, and add them to ``shown``.

    These are the Functions of the operator's own file and their bases; without any, the Functions that it applies.
    """
    found = list(functions_behind(operator, shown))
    own = [function for function in found if function.__module__ == operator.__module__]
    bases = {base for function in own for base in function.__mro__[1:] if issubclass(base, Function)} - shown
    shown |= bases
    functions = [*(own or found), *sorted(bases - {Function}, key=lambda base: base.__name__)]
    texts = [text for function in functions for text in getattr(function, "formulas", (function,))]
    return [
        (Path(inspect.getfile(each)).resolve().relative_to(SOURCES.parent).as_posix(), each.__qualname__)
        for each in texts
    ]


def example(page: str) -> Path:
    """Return the path of the session that an operator page shows."""
    return DOCS / "examples" / f"{page}.pycon"


def page_text(page: str, entries: str) -> str:
    """Return a page in Markdown: the module's docstring, its example, and the entries of its operators."""
    module = inspect.getmodule(next(iter(families()[page].values())))
    title = page.replace("_", ": ", 1) if page.startswith("loss_") else page
    title = title.removeprefix("loss: ").replace("_", " ") + (" losses" if page.startswith("loss_") else "")
    parts = [f"# {title[0].upper()}{title[1:]}", (inspect.getdoc(module) or "").replace("``", "`")]
    if example(page).exists():
        sessions = example(page).read_text(encoding="utf-8").strip().split("\n\n")
        # what is between the sessions is prose
        parts += [f"```pycon\n{each}\n```" if each.startswith(">>>") else each.replace("``", "`") for each in sessions]
    return "\n\n".join([*parts, entries]) + "\n"


def write_pages(texts: dict[str, str]) -> None:
    """Write reference/operators/*.md; a page whose family is gone is removed, an unchanged page is not touched."""
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.md"):
        if path.stem not in texts:
            path.unlink()
    for page, text in texts.items():
        path = FOLDER / f"{page}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


# ---------------------------------------------------------------- what follows the docstring of an entry


def more(path: str, thing: Any, shown: set[Any]) -> list[str]:
    """Return reStructuredText for the entry of a public name: its other names, gradients, and sources."""
    lines: list[str] = []
    others = public_names.entries().get(path, [])
    if others:
        names = ", ".join(f"``{name.removeprefix('retrograd.')}``" for name in others)
        lines += [f"**Also:** {names}", ""]
    operator = getattr(inspect.unwrap(thing), "operator", None) if callable(thing) else None
    rows = [
        (f"``{name}``: " if name else "") + docstrings.gradient(text)
        for function in getattr(operator, "functions", ())
        for name, text in gradient_of(function)
    ]
    if rows:
        lines += ["**Gradient,** where g is that of the result:", "", *(f"- {row}" for row in dict.fromkeys(rows)), ""]
    if any(path in names for names in families().values()) and (found := sources(inspect.unwrap(thing), shown)):
        lines += [f".. dropdown:: Source: {', '.join(name for _, name in found)}", ""]
        for file, name in found:
            included = f".. literalinclude:: /../src/{file}"
            lines += [f"   {included}", f"      :pyobject: {name}", f"      :caption: {file}", ""]
    return lines
