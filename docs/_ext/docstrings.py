"""Sphinx extension: turns the plain-text docstrings of the package into reStructuredText for autodoc and napoleon.

The docstrings are written to be read in a terminal: ``code`` in backticks, formulas as plain text, parameters as
``name: text`` lines, further blocks indented. Everything else is prose, so markup characters in it are escaped.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable
from typing import Any

import formulas

_SECTIONS = {"Args", "Raises", "Returns", "Yields", "Attributes", "Example", "Examples"}
_HEADER = re.compile(rf"({'|'.join(_SECTIONS)}):$")
_LEAD = re.compile(r"(Sources?|Raises|Returns|Shapes|See also): ")
_ITEM = re.compile(r"(\*{0,2}[A-Za-z_][\w.]*(?:(?:, | and )\*{0,2}[A-Za-z_][\w.]*)*): (.*)")
_EQUATION = re.compile(r"[\w\[\], ().*']+ (?:=|->) \S")
_COLUMNS = re.compile(r"(\S.*?)\s{3,}(\S.*)")
_CODE = re.compile(r"``(.+?)``|`([^`]+)`")


def inline(text: str) -> str:
    """Return a line of prose: code becomes a literal, a formula a formula, and everything else has no markup."""
    found = [(match.start(), match.end(), f"``{(match[1] or match[2]).strip()}``") for match in _CODE.finditer(text)]
    covered = {place for start, end, _ in found for place in range(start, end)}
    formulas_ = [(start, end) for start, end in formulas.spans(text) if not covered & {*range(start, end)}]
    found += [(start, end, f":formula:`{text[start:end]}`") for start, end in formulas_]
    line, last = "", 0
    for start, end, markup in sorted(found):
        line += _escaped(text[last:start])
        # inline markup begins behind a space or a bracket and ends before a space or punctuation
        begins, ends = (
            re.match(r"[\s(\[{<'\"/:-]|$", line[-1:]),
            re.match(r"[\s)\]}>'\"/:.,;!?-]|$", text[end : end + 1]),
        )
        line += ("" if begins else "\\ ") + markup + ("" if ends else "\\ ")
        last = end
    line += _escaped(text[last:])
    # "A. Vaswani" and "(1) x" would start a list
    return f"\\{line}" if re.match(r"(\w+[.)]|\(\w+\)|[-+•]|\.\.|>>>)(\s|$)", line) else line


def gradient(text: str) -> str:
    """Return the text of a gradient: formulas and conditions, or else prose."""
    parts = formulas.clauses(text)
    if parts is None:
        return inline(text)
    return "".join([f":formula:`{part}`" if part and not index % 2 else part for index, part in enumerate(parts)])


def _escaped(text: str) -> str:
    return re.sub(r"([\\*`|_])", r"\\\1", text)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _blocks(lines: list[str]) -> list[list[str]]:
    """Return the paragraphs, split at blank lines."""
    blocks: list[list[str]] = []
    for line in lines:
        if not line.strip():
            blocks.append([])
        elif blocks:
            blocks[-1].append(line)
        else:
            blocks = [[line]]
    return [block for block in blocks if block]


def _items(block: list[str]) -> list[tuple[str, list[str]]]:
    """Return the lines at the indentation of the first one, each with the deeper lines that follow it."""
    level = _indent(block[0])
    items: list[tuple[str, list[str]]] = []
    for line in block:
        if _indent(line) > level and items:
            items[-1][1].append(line[level:])
        else:
            items.append((line.strip(), []))
    return items


def _shift(lines: Iterable[str], by: int = 4) -> list[str]:
    return [" " * by + line if line else "" for line in lines]


def _dedented(lines: list[str]) -> list[str]:
    level = min((_indent(line) for line in lines if line.strip()), default=0)
    return [line[level:] for line in lines]


def _preformatted(lines: list[str]) -> list[str]:
    """Return a block of code, or of a formula or table whose line breaks matter."""
    lines = _dedented(lines)
    if (rows := _formulas(lines)) is not None:
        return ["", *rows, ""]
    language = "pycon" if lines[0].startswith(">>>") else "python" if _is_program(lines) else "text"
    kind = [":class: formula"] if language == "text" else []
    return ["", f".. code-block:: {language}", *_shift(kind, 3), "", *_shift(lines, 3), ""]


def _formulas(lines: list[str]) -> list[str] | None:
    """Return a block of formulas, each with an optional remark behind three spaces; None if it is something else."""
    rows = []
    for line in lines:
        formula, *remarks = re.split(r"\s{3,}", line.strip())
        if "=" not in formula or formulas.mathml(formula) is None:
            return None
        rows.append(f"   | :formula:`{formula}` {inline(' '.join(remarks))}".rstrip())
    return rows


def _is_program(lines: list[str]) -> bool:
    try:
        tree = ast.parse("\n".join(lines))
    except SyntaxError:
        return False
    statements = (ast.With, ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.For, ast.Expr)
    return any(isinstance(each, statements) for each in tree.body)


def _nested(children: list[str]) -> list[str]:
    """Return the block below a line that ends in a colon: a list of choices, of items, or preformatted lines."""
    children = _dedented(children)
    rows = [_COLUMNS.fullmatch(line) for line in children]
    if all(rows) and not any("=" in row[1] for row in rows if row):
        return ["", *(f"- ``{row[1]}``: {inline(row[2])}" for row in rows if row), ""]
    items = _items(children)
    if any(_ITEM.match(line) or re.match(r"\w+\(.*\): ", line) for line, _ in items):
        return [
            "",
            *(f"- {inline(' '.join([line, *(each.strip() for each in deeper)]))}" for line, deeper in items),
            "",
        ]
    if all(re.search(r"[.;:,]$|\w$", line) and len(line.split()) > 5 for line in children[:1]):
        return ["", inline(" ".join(line.strip() for line in children)), ""]
    return _preformatted(children)


def _described(text: str, children: list[str]) -> list[str]:
    """Return the text of an item with what is indented below it."""
    if children and text.endswith(":") and not text.endswith("::"):
        return [inline(text), *_nested(children)]
    return [inline(" ".join([text, *(line.strip() for line in children)]))]


def _fields(items: list[tuple[str, list[str]]]) -> list[str]:
    """Return the lines of a section for napoleon; a line that begins no item continues the one above."""
    lines: list[str] = []
    merged: list[tuple[str, list[str]]] = []
    for line, deeper in items:
        if _ITEM.match(line) or not merged:
            merged.append((line, list(deeper)))
        else:
            merged[-1][1].extend([line, *deeper])
    for line, deeper in merged:
        match = _ITEM.match(line)
        if match is None:
            lines += [inline(" ".join([line, *(each.strip() for each in deeper)])), ""]
            continue
        names = ", ".join(_escaped(name) for name in re.split(r", | and ", match[1]))
        first, *rest = _described(match[2], deeper)
        lines += [f"{names}: {first}", *_shift(rest)]
    return lines


def _paragraph(block: list[str], parameters: set[str]) -> list[str]:
    if _indent(block[0]) > 0 or block[0].startswith(">>>"):
        return _preformatted(block)
    items = _items(block)
    first = items[0][0]
    if header := _HEADER.match(first):
        # lines at the section's own level after its items are prose again
        body = _items(items[0][1]) if items[0][1] else []
        rest = [line for text, deeper in items[1:] for line in (text, *deeper)]
        if header[1] in ("Args", "Raises", "Attributes"):
            found = _fields(body)
        else:
            found = [inline(" ".join(each for line, deeper in body for each in (line, *(d.strip() for d in deeper))))]
        return [first, *_shift(found), "", *(_paragraph(rest, parameters) if rest else [])]
    match = _ITEM.match(first)
    if match and set(re.split(r", | and ", match[1].replace("*", ""))) <= parameters:
        return ["Args:", *_shift(_fields(items)), ""]
    return _prose(items)


def _prose(items: list[tuple[str, list[str]]]) -> list[str]:
    """Return a paragraph; a line that starts an equation after the end of a sentence stays a line of its own."""
    lines: list[str] = []
    segments: list[str] = []

    def flush() -> None:
        texts = [inline(text) for text in segments]
        texts = [f"**{lead[1]}:** {text[lead.end() :]}" if (lead := _LEAD.match(text)) else text for text in texts]
        lines.extend([*([f"| {text}" for text in texts] if len(texts) > 1 else texts), ""])
        segments.clear()

    for line, deeper in items:
        equation = _EQUATION.match(line)
        opens = equation or _LEAD.match(line) or _ITEM.match(line)
        after = segments and (segments[-1][-1] in ".;:)]" or (equation and _EQUATION.match(segments[-1])))
        if segments and not (opens and after):
            segments[-1] += f" {line}"
        else:
            segments.append(line)
        if deeper and line.endswith(":"):
            flush()
            lines += _nested(deeper)
        elif deeper:
            segments[-1] += " " + " ".join(each.strip() for each in deeper)
    if segments:
        flush()
    return lines


def restructured(docstring: str, parameters: set[str]) -> list[str]:
    """Return a docstring as lines of reStructuredText with Google's sections.

    parameters: the names in the signature; lines ``name: text`` about them become the section Args.
    """
    lines: list[str] = []
    for block in _blocks(docstring.split("\n")):
        found = _paragraph(block, parameters)
        if found[0] == "Args:" and "Args:" in lines and lines[-1] == "" and _last_section(lines) == "Args:":
            found = found[1:]
            while lines[-1] == "":
                lines.pop()
        lines += [*found, ""]
    return lines


def _last_section(lines: list[str]) -> str:
    return next((line for line in reversed(lines) if line and not line.startswith(" ")), "")


def parameters_of(thing: Any) -> set[str]:
    try:
        return set(inspect.signature(thing).parameters)
    except (TypeError, ValueError):
        return set()


def signature_of(thing: Any) -> tuple[str, str] | None:
    """Return the arguments and the result, with annotations as they are written."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return None
    if inspect.isclass(thing):
        signature = signature.replace(return_annotation=inspect.Signature.empty)
    else:
        names = list(signature.parameters.values())
        if names and names[0].name in ("self", "cls"):
            signature = signature.replace(parameters=names[1:])
    result = signature.return_annotation
    arguments = str(signature.replace(return_annotation=inspect.Signature.empty))
    arguments = re.sub(r"(: )'([^']*)'", r"\1\2", arguments)  # annotations are strings
    arguments = re.sub(r"<(?:function|class) '?([\w.]+\.)?(\w+)'?(?: at 0x\w+)?>", r"\2", arguments)
    if result is inspect.Signature.empty:
        return arguments, ""
    return arguments, result if isinstance(result, str) else inspect.formatannotation(result)


def _docstring(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    found = restructured("\n".join(lines).rstrip(), parameters_of(thing))
    # of an attribute, napoleon takes what precedes a colon in the first line for its type
    lines[:] = ["", *found] if what in ("attribute", "data", "property") else found


def _signature(app: Any, what: str, name: str, thing: Any, *_: Any) -> tuple[str, str] | None:
    return signature_of(thing) if what in ("function", "method", "class", "exception") else None


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", _docstring, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", _signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
