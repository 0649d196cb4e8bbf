"""Formulas as docstrings write them, ``y = x / (1 + |x|)``, as MathML, which browsers show without any script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Any

_TOKEN = re.compile(r"(\s*)(\d+(?:\.\d+)?(?:e-?\d+)?|[A-Za-z]\w*'*|\*\*|//|<=|>=|==|!=|[-+*/=<>@()\[\],|])")
_RELATIONS = {"=": "=", "==": "=", "<": "&lt;", ">": "&gt;", "<=": "≤", ">=": "≥", "!=": "≠"}
_FUNCTION_NAMES = """
    exp log log1p expm1 sqrt sin cos tan sinh cosh tanh atan erf abs sign sigmoid softmax softplus relu max min sum
    mean floor ceil round sech
"""
_FUNCTIONS = set(_FUNCTION_NAMES.split())
# words between which no product is meant
_PROSE_WORDS = """
    a all an and are as at be by each for from in is its it may no not of on or over that the then this to which
    with
"""
_PROSE = set(_PROSE_WORDS.split())


class _NoFormulaError(ValueError):
    """The text is not a formula."""


def mathml(text: str) -> str | None:
    """Return a formula as a MathML element, or None if the text is not a formula."""
    try:
        parser = _Parser(text)
        found = parser.relation()
        if parser.kind():
            return None
    except _NoFormulaError:
        return None
    return f"<math>{found}</math>"


class _Parser:
    """Recursive descent; products may be written without a sign, as in ``g y``."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[bool, str]] = []
        end = 0
        while end < len(text.rstrip()):
            match = _TOKEN.match(text, end)
            if match is None:
                raise _NoFormulaError(text)
            self.tokens.append((bool(match[1]), match[2]))
            end = match.end()
        self.at, self.bars = 0, 0

    def kind(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.kind()
        if not token or (expected and token != expected):
            raise _NoFormulaError(token)
        self.at += 1
        return token

    def relation(self) -> str:
        parts = [self.sum()]
        while self.kind() in _RELATIONS:
            parts += [f"<mo>{_RELATIONS[self.take()]}</mo>", self.sum()]
        return _row(parts)

    def sum(self) -> str:
        parts = [self.product()]
        while self.kind() in ("+", "-"):
            parts += [f"<mo>{self.take().replace('-', '−')}</mo>", self.product()]
        return _row(parts)

    def product(self) -> str:
        left = [self.unary()]
        while True:
            kind = self.kind()
            if kind == "/":
                self.take()
                left = [f"<mfrac>{_bare(_row(left))}{_bare(self.unary())}</mfrac>"]
            elif kind in ("*", "@", "//"):
                self.take()
                left += [f"<mo>{'⋅' if kind == '*' else kind}</mo>", self.unary()]
            elif re.match(r"\w|\(", kind) or (kind == "|" and not self.bars):
                if kind == "(" and not self.tokens[self.at][0]:
                    raise _NoFormulaError(kind)
                left += ["<mspace width='0.17em'/>", self.unary()]
            else:
                return _row(left)

    def unary(self) -> str:
        if self.kind() == "-":
            self.take()
            return _row(["<mo form='prefix'>−</mo>", self.unary()])
        base = self.postfix()
        if self.kind() == "**":
            self.take()
            return f"<msup>{base}{_bare(self.unary())}</msup>"
        return base

    def postfix(self) -> str:
        token = self.take()
        if token == "(":
            return _parenthesized(self.inside(")"))
        if token == "|":
            self.bars += 1
            inner = self.relation()
            self.bars -= 1
            self.take("|")
            return f"<mrow><mo>|</mo>{inner}<mo>|</mo></mrow>"
        if not re.match(r"\w", token):
            raise _NoFormulaError(token)
        if token[0].isdigit():
            return f"<mn>{token}</mn>"
        name = _name(token)
        while self.kind() in ("(", "[") and not self.tokens[self.at][0]:
            if self.take() == "[":
                name = f"<msub>{name}<mrow>{self.inside(']')}</mrow></msub>"
            else:
                inner = self.inside(")")
                name = f"<msqrt>{inner}</msqrt>" if token == "sqrt" else _row([name, _parenthesized(inner)])
        return name

    def inside(self, end: str) -> str:
        parts = [self.relation()]
        while self.kind() == ",":
            self.take()
            parts += ["<mo>,</mo>", self.relation()]
        self.take(end)
        return _row(parts)


def _row(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"<mrow>{''.join(parts)}</mrow>"


def _parenthesized(inner: str) -> str:
    stretched = "" if "<mfrac>" in inner else " stretchy='false'"
    return f"<mrow><mo{stretched}>(</mo>{inner}<mo{stretched}>)</mo></mrow>"


def _bare(element: str) -> str:
    """Return an element without the parentheses around it, which a fraction or an exponent does not need."""
    match = re.fullmatch(r"<mrow><mo[^>]*>\(</mo>(.*)<mo[^>]*>\)</mo></mrow>", element)
    closed = match and all(depth >= 0 for depth in _depths(match[1]))
    return f"<mrow>{match[1]}</mrow>" if match and closed else element


def _depths(text: str) -> Iterator[int]:
    depth = 0
    for bracket in re.findall(r"<mo[^>]*>([()])</mo>", text):
        depth += 1 if bracket == "(" else -1
        yield depth


def _name(token: str) -> str:
    base, _, index = token.partition("_")
    if len(base) == 1 and index:
        return f"<msub><mi>{base}</mi><mi>{index}</mi></msub>"
    return f"<mi>{escape(token)}</mi>"


def clauses(text: str) -> list[str] | None:
    """Return the formulas of a text and, at odd places, the words between them; None if it is prose."""
    parts = re.split(r"(, (?![^(\[]*[)\]])| where | elsewhere\b|; )", text)
    found = [part for part in parts[::2] if part]
    prose = any(word in _PROSE for part in found for word in part.split())
    return parts if not prose and all(map(mathml, found)) else None


# ---------------------------------------------------------------- formulas within prose

_OPERAND = r"-?(?:\d+(?:\.\d+)?|[A-Za-z]\w*'*)"
_START = re.compile(rf"(?<![\w.`'/-])(?={_OPERAND}|[(|-])")
_OPERATOR = re.compile(r" (?:[-+*/=<>@]|\*\*|//|<=|>=|==|!=) |\*\*")
_WORD = re.compile(r"[a-z]{3,}")


def typeset(text: str, longest: int) -> str:
    """Return a line of prose with its formulas of at most ``longest`` characters as MathML, for Markdown."""
    parts, last = [], 0
    for start, end in spans(text):
        if end - start > longest:
            continue
        parts += [text[last:start].replace("*", "\\*"), mathml(text[start:end]) or ""]
        last = end
    return "".join([*parts, text[last:].replace("*", "\\*")])


def spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the formulas in a line of prose: operands joined by signs, and calls of known functions."""
    end = 0
    for match in _START.finditer(text):
        if match.start() < end:
            continue
        start, stop, joined = match.start(), _operand(text, match.start()), 0
        while stop:
            sign = _OPERATOR.match(text, stop)
            after = sign.end() if sign else stop + 1 if text[:stop].endswith("sum") else 0  # "sum x[n, r]"
            further = _operand(text, after) if after else 0
            if not further:
                break
            stop, joined = further, joined + 1
        if stop and _is_formula(text[start:stop], joined):
            yield start, stop
            end = stop


def _operand(text: str, start: int) -> int:
    """Return where an operand ends: a number, a name, a call, or something in brackets; 0 if there is none."""
    match = re.compile(_OPERAND).match(text, start)
    end = match.end() if match else start + (text[start : start + 1] == "-")
    while end < len(text) and (text[end] in "([" or (text[end] == "|" and not match and end == start)):
        closing = text.find("|", end + 1) if text[end] == "|" else _closing(text, end)
        if closing < 0:
            return 0
        end = closing + 1
        match = match or re.match("", "")
    return end if match else 0


def _closing(text: str, start: int) -> int:
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] in "([") - (text[place] in ")]")
        if depth == 0:
            return place
    return -1


def _is_formula(text: str, joined: int) -> bool:
    called = re.match(r"-?(\w+)\(", text)
    if not joined and not (called and called[1] in _FUNCTIONS):
        return False
    words = [word for word in _WORD.findall(text) if word not in _FUNCTIONS]
    # two words with a dash between them are prose
    dashed = joined == 1 and " - " in text and len(words) >= 2 and "(" not in text
    return not dashed and mathml(text) is not None


def _role(name: str, raw: str, text: str, line: int, inliner: Any, *_: Any, **__: Any) -> tuple[list[Any], list[Any]]:
    from docutils import nodes

    found = mathml(text)
    return [nodes.literal(raw, text) if found is None else nodes.raw(raw, found, format="html")], []


def setup(app: Any) -> dict[str, bool]:
    app.add_role("formula", _role)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
