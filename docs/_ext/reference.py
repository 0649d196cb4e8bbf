"""The text of the reference pages: directives of autodoc and autosummary for every public name, grouped by file.

A page in docs/reference names the modules that it covers, ``<!-- reference: retrograd.optim -->``, and gets their
entries in place of that line when it is built. ``<!-- reference: retrograd.nn: loss -->`` names some files of a module.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import operator_pages
import public_names

REFERENCE = Path(__file__).resolve().parents[1] / "reference"
MARKER = re.compile(r"^<!-- reference: (.+) -->$", re.MULTILINE)
_GROUPED_FROM = 12  # names on a page; fewer need no headings
_WORDS = {"swa": "SWA", "lbfgs": "LBFGS", "rnn": "RNN", "lu": "LU", "ctc": "CTC", "sgd": "SGD", "onnx": "ONNX"}
_WORDS |= {"amp": "Mixed precision", "inplace": "In place", "launch": "Threads", "read": "Reading files"}
_WORDS |= {"write": "Writing files", "packed": "Packed models", "steps": "Recorded steps"}
_WORDS |= {"rmsprop": "RMSprop", "pt": "PyTorch files", "dtype": "dtypes", "api": "API", "dtypes": "dtypes"}


def title(file: str) -> str:
    """Return the words of a file's name as a heading."""
    words = [_WORDS.get(word, word) for word in file.rpartition(".")[2].strip("_").split("_")]
    text = " ".join(words)
    return text[0].upper() + text[1:]


@functools.cache
def covered() -> dict[str, list[str]]:
    """Return the names that each page describes: operator pages by file, the others by module."""
    pages = {f"operators/{page}": list(names) for page, names in operator_pages.families().items()}
    for path in sorted(REFERENCE.glob("*.md")):
        found = [name for marker in MARKER.findall(path.read_text(encoding="utf-8")) for name in _names(marker)]
        if found:
            pages[path.stem] = found
    return pages


def completed(text: str) -> str:
    """Return a page with the entries of the modules that it names."""
    return MARKER.sub(lambda match: _tensor() if match[1] == "retrograd.Tensor" else _module(match[1]), text)


def _names(marker: str) -> list[str]:
    """Return the names that a marker asks for: of a module or a class, without those that have an operator page."""
    path, _, files = marker.partition(": ")
    own = {name for names in operator_pages.families().values() for name in names}
    found = [name for name in public_names.entries() if name.rpartition(".")[0] == path and name not in own]
    if files:
        found = [name for name in found if operator_pages.last(public_names.file_of(name)) in files.split()]
    if marker == "retrograd.Tensor":
        found.append(marker)
    return [name for name in found if path != "retrograd" or name != "retrograd.Tensor"]


def _module(marker: str) -> str:
    path, _, files = marker.partition(": ")
    names = _names(marker)
    module = public_names.namespaces()[path]
    # a module has one entry: on the page that covers the rest of its files
    declared = [] if files and "module" not in files.split() else [f".. py:module:: {path}", ""]
    parts = [] if files else [f"## {path}"]
    parts.append(block([*declared, ".. py:currentmodule:: None"]))
    parts += [] if files else [summary(module.__name__)]  # behind the block: it carries the anchor of the module
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups[public_names.file_of(name)].append(name)
    if len(groups) == 1 or len(names) < _GROUPED_FROM:
        return "\n\n".join([*parts, block([*table(names), *directives(names)])])
    order = files.split()
    for file, members in sorted(groups.items(), key=lambda each: _order(each[0], path, order)):
        heading = "Constants" if file == path else title(file)
        parts.append(f"{'##' if files else '###'} {heading}\n\n{summary(file)}")
        parts.append(block([*table(members), *directives(members)]))
    return "\n\n".join(parts)


def _order(file: str, path: str, files: list[str]) -> tuple[bool, int, str]:
    """Return a key that puts files in the order of the marker, otherwise by title, with constants at the end."""
    last = operator_pages.last(file)
    return file == path, files.index(last) if last in files else 0, title(file)


def summary(file: str) -> str:
    """Return the first line of the docstring of a module, as Markdown."""
    text = (sys.modules[file].__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ")
    return text.replace("``", "`") if file != "retrograd" else ""


def block(lines: Iterable[str]) -> str:
    return "\n".join(["```{eval-rst}", *lines, "```"])


def table(names: list[str]) -> list[str]:
    """Return a table with a link and the first sentence for each name; a short list needs none."""
    described = [name for name in names if callable(public_names.public()[name])]
    if len(described) < 3:
        return []
    return [".. autosummary::", "   :nosignatures:", "", *(f"   ~{name}" for name in described), ""]


def directives(names: list[str]) -> list[str]:
    """Return the directive for each name, in alphabetical order."""
    return [line for name in sorted(names, key=str.lower) for line in _directive(name)]


def _directive(name: str) -> list[str]:
    thing = public_names.public()[name]
    if inspect.isclass(thing) and not thing.__module__.startswith("retrograd"):
        return [f".. py:class:: {name}", "", f"   The class ``{thing.__module__}.{thing.__qualname__}``.", ""]
    if inspect.isclass(thing):
        kind = "exception" if issubclass(thing, BaseException) else "class"
        return [f".. auto{kind}:: {name}", "   :members:", "   :exclude-members: extra_repr", ""]
    if inspect.isroutine(thing) and not isinstance(thing, property):
        return [f".. autofunction:: {name}", ""]
    text = " ".join((inspect.getdoc(thing) or "").split()) if type(thing).__module__.startswith("retrograd") else ""
    shown = re.sub(r" at 0x\w+", "", repr(thing))
    return (
        [f".. py:data:: {name}", f"   :value: {shown}", "", f"   {type(thing).__name__}", ""]
        if not text
        else [f".. py:data:: {name}", "", f"   {text.replace('*', chr(92) + '*')}", ""]
    )


# ---------------------------------------------------------------- Tensor


def _tensor() -> str:
    """Return the class, its own methods and attributes by file, and a table of the methods that are operators."""
    names = [name for name in public_names.entries() if name.startswith("retrograd.Tensor.")]
    parts = [block([".. autoclass:: retrograd.Tensor", ""])]
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        thing = public_names.public()[name]
        groups["" if not inspect.isroutine(thing) else public_names.file_of(name)].append(name)
    for file in sorted(groups, key=lambda each: (each != "", "engine" not in each, each)):
        heading = _HEADINGS.get(file) or title(file)
        kind = "method" if file else "attribute"
        lines = [f".. auto{kind}:: {name}\n" for name in sorted(groups[file])]
        parts.append(f"## {heading}\n\n{summary(file) if file else ''}\n\n{block(lines)}")
    return "\n\n".join([*parts, "## Methods that are operators\n\n" + _METHODS, *_method_table()])


_HEADINGS = {"": "Attributes", "retrograd.engine.tensor": "Basics", "retrograd.engine.methods": "Gradients"}
_METHODS = """These call the operator with the tensor as its first argument. Those that end in `_` write the result into
the tensor."""


def _method_table() -> list[str]:
    rows = ["| method | in place | operator |", "| --- | --- | --- |"]
    for entry, others in sorted(public_names.entries().items()):
        found = sorted(
            name.removeprefix("retrograd.Tensor.") for name in others if name.startswith("retrograd.Tensor.")
        )
        if found:
            plain, in_place = ([f"`{name}`" for name in found if name.endswith("_") == ends] for ends in (False, True))
            rows.append(f"| {', '.join(plain)} | {', '.join(in_place)} | {{py:obj}}`{entry}` |")
    return ["\n".join(rows)]


@functools.cache
def _last_names() -> Counter[str]:
    return Counter(map(operator_pages.last, public_names.entries()))


def unlink_ambiguous(app: Any, doctree: Any) -> None:
    """Keep ``int`` in a signature from linking to ``retrograd.int``, and names of two classes from linking to one."""
    from sphinx.addnodes import pending_xref  # here, since tests use this module without Sphinx

    for node in list(doctree.findall(pending_xref)):
        target = node.get("reftarget", "")
        if node.get("refdomain") == "py" and (target in vars(builtins) or _last_names()[target] > 1):
            node.replace_self(node.children)


def attach_aliases(app: Any, doctree: Any) -> None:
    """Let cross-references and the inventory find every other name of an object at its entry."""
    domain, page = app.env.get_domain("py"), app.env.docname
    for name, entry in list(domain.objects.items()):
        if entry.docname == page and not entry.aliased:
            for other in set(public_names.entries().get(name, ())) - set(domain.objects):
                domain.note_object(other, entry.objtype, entry.node_id, aliased=True)
