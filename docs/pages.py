"""Generator of the operator pages, and of the benchmark tables that other pages quote.

Also a Sphinx extension that runs the code of every page. Code that fails, or prints something other than the page
shows, fails the build. Only ``setup`` needs Sphinx; tests/test_docs.py uses the rest.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import functools
import importlib
import inspect
import re
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import console
import gradient_table
import migration

import retrograd
from benchmarks import report
from retrograd.autograd import Function

DOCS = Path(__file__).resolve().parent
SOURCES = Path(retrograd.__file__).resolve().parent
OPERATORS = DOCS / "reference" / "operators"
PACKAGES = ("retrograd.ops", "retrograd.nn.functional", "retrograd.nn.grad")
_RESULTS = DOCS.parent / "benchmarks"
_QUOTE = re.compile(r"^<!-- results: (.+) -->$", re.MULTILINE)
_EVERY_ROW = "<!-- results -->"
_EMBEDDED = re.compile(r'<iframe src="(?:\.\./)+explain/(\w+)\.html"')
_FILE = re.compile(r"# (\w+\.py)\n")  # the first line of a program that is written to a file, for a command
_BLOCK = re.compile(r"^```([^`\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def families() -> dict[str, dict[str, Callable[..., Any]]]:
    """Return name of a page -> the public operators on it: those that one file defines."""
    found: dict[str, dict[str, Callable[..., Any]]] = {}
    for package in map(importlib.import_module, PACKAGES):
        for name in package.__all__:
            thing = inspect.unwrap(getattr(package, name))
            if inspect.isfunction(thing) or inspect.isclass(thing):
                *folder, file = thing.__module__.split(".")[1:]
                page = f"{folder[-1]}_{file}" if file == "plan" or folder[-1:] == ["loss"] else file
                found.setdefault(page, {})[name] = thing
    return {page: dict(sorted(found[page].items())) for page in sorted(found)}


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


def example(page: str) -> Path:
    """Return the path of the session that the page of a family shows."""
    return DOCS / "examples" / f"{page}.pycon"


def family_page(page: str, operators: dict[str, Callable[..., Any]]) -> str:
    """Return the page in Markdown: an example, then each operator's signature, docstring and Functions, by include."""
    module = inspect.getmodule(next(iter(operators.values())))
    title = page.replace("_", ": ", 1).replace("_", " ")
    parts = [f"# {title[0].upper()}{title[1:]}", inspect.getdoc(module) or ""]
    if example(page).exists():
        parts.append(f"```pycon\n{example(page).read_text(encoding='utf-8')}```")
    shown: set[Any] = set()
    for name, operator in operators.items():
        parts.append(f"## {name}\n\n```python\n{_signature(name, operator)}\n```")
        parts.append(f"```text\n{inspect.getdoc(operator)}\n```")
        for function in _shown(operator, shown):
            for text in getattr(function, "formulas", (function,)):
                path = Path(inspect.getfile(text)).resolve().relative_to(SOURCES.parent)
                parts.append(
                    f"```{{literalinclude}} ../../../src/{path}\n:pyobject: {text.__qualname__}\n:caption: {path}\n```"
                )
    return "\n\n".join(parts) + "\n"


def _shown(operator: Any, shown: set[Any]) -> list[type[Function]]:
    """Return the Functions of the operator's own file and their bases; without any, the Functions that it applies."""
    found = list(functions_behind(operator, shown))
    own = [function for function in found if function.__module__ == operator.__module__]
    bases = {base for function in own for base in function.__mro__[1:] if issubclass(base, Function)} - shown
    shown |= bases
    return [*(own or found), *sorted(bases - {Function}, key=lambda base: base.__name__)]


def _signature(name: str, operator: Callable[..., Any]) -> str:
    try:
        text = f"{name}{inspect.signature(operator)}"
    except ValueError:  # a class without a signature
        return name
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)  # annotations are strings
    return text if len(text) < 80 else re.sub(r"(?<=\(|,) ?(?=\*|\w+: )", "\n    ", text).replace(") -> ", "\n) -> ")


def write_pages() -> None:
    """Write reference/operators/*.md; a page whose family is gone is removed, an unchanged page is not touched."""
    OPERATORS.mkdir(exist_ok=True)
    required = {f"{page}.md": family_page(page, operators) for page, operators in families().items()}
    required["every_operator.md"] = gradient_table.text()
    for path in OPERATORS.glob("*.md"):
        if path.name not in required:
            path.unlink()
    for file, text in required.items():
        path = OPERATORS / file
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


# ---------------------------------------------------------------- quoted benchmark tables


def quoted(text: str) -> str:
    """Put tables of results.json into a page.

    ``<!-- results: GROUP -->`` becomes the table of a group, and ``<!-- results -->`` the tables of all groups.
    """
    text = _QUOTE.sub(lambda match: _tables().get(match[1], "Not measured yet."), text)
    return text.replace(_EVERY_ROW, report.every_row(*report.read(_RESULTS))) if _EVERY_ROW in text else text


@functools.cache
def _tables() -> dict[str, str]:
    return report.tables(report.read(_RESULTS)[1])


# ---------------------------------------------------------------- running the code of a page


def run_page(text: str, name: str) -> list[str]:
    """Run the ``pycon`` sessions and ``python`` programs of a page, in one namespace, and return the failures.

    They run in a temporary folder, so a page may write files. Output of a program is not compared. Code that cannot run
    on its own belongs in a block of another kind, such as ``text``. A program whose first line is ``# NAME.py`` is not
    run but written to that file, for the commands of ``console`` blocks; tests run the commands of ``sh`` blocks. In
    ``console`` blocks and behind ``# doctest: +MEASURED`` the numbers of the output may differ, and a build shows those
    of its own run.
    """
    return measured_page(text, name)[1]


def measured_page(text: str, name: str) -> tuple[str, list[str]]:
    """Run a page; return it with the measured numbers of this run, and the failures."""
    measured: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        faults = _run_blocks(text, name, measured)
    for before, after in measured:
        text = text.replace(before, after, 1)
    return text, faults


MEASURED = doctest.register_optionflag("MEASURED")
_NUMBER = re.compile(r"\d+(,\d{3})*(\.\d+)?")


class _Checker(doctest.OutputChecker):
    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if optionflags & MEASURED:
            want, got = (_NUMBER.sub("0", output) for output in (want, got))
        return super().check_output(want, got, optionflags)


class _Runner(doctest.DocTestRunner):
    """Appends each measured example to a list: its code with the shown output, and with that of the run."""

    def __init__(self, measured: list[tuple[str, str]]) -> None:
        super().__init__(_Checker(), verbose=False)
        self._measured = measured

    def report_success(self, out: Any, test: doctest.DocTest, example: doctest.Example, got: str) -> None:
        if MEASURED in example.options:
            last = example.source.splitlines(keepends=True)[-1]
            self._measured.append((last + example.want, last + got))


def _run_blocks(text: str, name: str, measured: list[tuple[str, str]]) -> list[str]:
    names: dict[str, Any] = {"__name__": "__main__"}
    faults: list[str] = []
    for number, (kind, code) in enumerate(_BLOCK.findall(text), 1):
        where = f"{name}, block {number}"
        if kind == "pycon":
            test = doctest.DocTestParser().get_doctest(code, names, where, name, 0)
            _Runner(measured).run(test, out=faults.append, clear_globs=False)
            names = test.globs
        elif kind == "console":
            faults += console.run_console(code, where, measured)
        elif kind == "python" and (file := _FILE.match(code)):
            Path(file[1]).write_text(code, encoding="utf-8")
        elif kind == "python" and not name.startswith("reference/operators/"):  # operator pages show signatures
            try:
                exec(compile(code, where, "exec"), names)
            except Exception as error:
                faults.append(f"{where}: {type(error).__name__}: {error}")
    return faults


def _complete(app: Any, page: str, source: list[str]) -> None:
    from sphinx.errors import ExtensionError

    source[0] = quoted(source[0].replace("<!-- coverage -->", migration.coverage()))
    source[0], faults = measured_page(source[0], page)
    if faults:
        raise ExtensionError("\n".join(faults))


def written() -> list[Path]:
    """Return the pages that are written by hand, in the folders of the five parts."""
    return sorted(path for path in DOCS.rglob("*.md") if path.parent != OPERATORS and "_build" not in path.parts)


def embedded() -> list[str]:
    """Return the operators whose standalone page is embedded in one of the pages."""
    texts = [path.read_text(encoding="utf-8") for path in written()]
    return sorted({name for text in texts for name in _EMBEDDED.findall(text)})


def write_explanations(folder: Path) -> None:
    """Write the standalone page of each embedded operator."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in embedded():
        retrograd.explain(name).save(folder / f"{name}.html")


def _explanations(app: Any, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        write_explanations(Path(app.outdir) / "explain")


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", lambda app: write_pages())
    app.connect("build-finished", _explanations)
    app.connect("source-read", _complete)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
