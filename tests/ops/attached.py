"""Writes engine/attached.pyi, the stub of Tensor for type checkers; run it after changing methods."""

from __future__ import annotations

import inspect
from pathlib import Path

import retrograd
from retrograd.engine.methods import METHODS as ENGINE
from retrograd.ops.methods import METHODS

FILE = Path(retrograd.__file__).parent / "engine" / "attached.pyi"
# methods that do not return a Tensor
RETURNS = {
    **dict.fromkeys(("__iadd__", "__isub__", "__imul__", "__itruediv__"), "Self"),
    "__iter__": "Iterator[Tensor]",
    "__setitem__": "None",
    "__eq__": "Any",
    "__ne__": "Any",
    **dict.fromkeys(("device", "layout"), "Any"),
}


def text() -> str:
    """Return the text of the stub, with one line per method."""
    head, mark, _ = FILE.read_text(encoding="utf-8").partition("    __slots__ = ()\n\n")
    lines = []
    for name, method in ENGINE.items():
        lines.append(f"    def {name}({_parameters(name, method)}) -> {_returns(method)}: ...")
    for name, method in METHODS.items():
        if isinstance(method, property):
            returns = RETURNS.get(name) or ("builtins.bool" if name.startswith("is_") else "Tensor")
            noted = "  # noqa: N802" * name[-1].isupper()
            lines += ["    @property", f"    def {name}(self) -> {returns}: ...{noted}"]
            continue
        returns = RETURNS.get(name) or ("Tensor" if _returns(method) == "Tensor" else "Any")
        line = f"    def {name}({_parameters(name, method)}) -> {returns}: ..."
        lines.append(line)
    return head + mark + "\n".join(lines) + "\n"


def _returns(method: object) -> str:
    return str(inspect.signature(method).return_annotation)


def _parameters(name: str, method: object) -> str:
    parts, keyword_only = ["self"], False
    for p in list(inspect.signature(method).parameters.values())[1:]:
        if name.startswith("__") and p.default is not p.empty:
            continue  # Python calls an operator method with its operands only
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            parts.append("*")
            keyword_only = True
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        keyword_only = keyword_only or star == "*"
        kind = p.annotation if name in ENGINE else "object" if name in ("__eq__", "__ne__") else "Any"
        parts.append(f"{star}{p.name}: {kind}" + ("" if p.default is p.empty else f" = {p.default!r}"))
    return ", ".join(parts)


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
