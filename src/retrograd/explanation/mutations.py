"""Mistakes that are derived from the text of a backward: a factor, a sign, a transpose, a sum or a condition is lost.

What ran in the backward and not in the forward is its text. Each mistake changes one expression of a function of it.
Those that change no gradient of the given arrays are no mistakes there, and are left out.
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from ..engine.backward_pass import grad
from ..engine.tensor import Tensor
from ..formulas import FUSED
from ..formulas.losses import LOSSES
from ..formulas.table import Together
from ..kernel_set import instead, use_kernels
from ..kernels.textbook import loss as textbook_loss
from ..kernels.textbook.pointwise import on_arrays
from .measure import Arrays, Call, gradients
from .slips import changes
from .trace import traced
from .where import part_of

__all__ = ["MOST", "Mutation", "mutations"]

MOST = 6  # mistakes of one operator
_TRIED = 80


@dataclass(frozen=True)
class Mutation:
    """A mistake in one statement of a function that the backward runs.

    kernel: the function's name; before, after: the statement; code: that of the function with the mistake
    callers: formulas that call it and ran, too
    """

    name: str
    about: str
    kernel: str
    before: str
    after: str
    function: FunctionType
    code: CodeType
    callers: tuple[FunctionType, ...] = ()

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The textbook set with the mistake."""
        with use_kernels("textbook"):
            if part_of(self.function.__code__.co_filename) == "formulas" or hasattr(self.function, "digest"):
                with self._formula():
                    yield
                return
            before = self.function.__code__
            self.function.__code__ = self.code
            try:
                yield
            finally:
                self.function.__code__ = before

    @contextmanager
    def _formula(self) -> Iterator[None]:
        """A formula is not changed itself: the compiled set is made of it, too. Its kernel is, for the time being."""
        broken = _copied(self.function, self.code, self.function.__globals__)
        fused = {}  # gradients of several operands that one kernel computes
        for key, each in FUSED.items():
            if isinstance(each, Together) and self.function in each.parts:
                fused[key] = Together(key, tuple([broken if one is self.function else one for one in each.parts]))
        name = getattr(self.function, "kernel", self.function.__name__)
        loss = {
            key: one._replace(gradients=tuple([broken if part is self.function else part for part in one.gradients]))
            for key, one in LOSSES.items()
            if self.function in one.gradients
        }
        if loss:
            name = "element_loss_grad"
            kernel = inspect.unwrap(textbook_loss.element_loss_grad)
            names = {**kernel.__globals__, "LOSSES": {**LOSSES, **loss}}
            planted: Any = FunctionType(kernel.__code__, names, name, kernel.__defaults__)
        else:
            planted = on_arrays(broken)
        places = {name: planted} | {key: on_arrays(each) for key, each in fused.items()}
        for each in self.callers:
            names = {**each.__globals__, self.function.__name__: broken}
            places[getattr(each, "kernel", each.__name__)] = on_arrays(_copied(each, each.__code__, names))
        with instead(places):
            yield


def _copied(function: FunctionType, code: CodeType, names: dict[str, Any]) -> FunctionType:
    """A function of another code or with other names around it."""
    copied = FunctionType(code, names, function.__name__, function.__defaults__)
    copied.__dict__.update(function.__dict__)
    copied.__annotations__ = function.__annotations__
    return copied


def mutations(
    call: Call, inputs: Arrays, gy: np.ndarray, most: int = MOST, known: Mapping[str, Arrays] | None = None
) -> list[Mutation]:
    """Mistakes in the backward of an operator that change its gradients of these inputs, of different kinds first.

    inputs: in float64
    known: mistakes that are there already, by name, with the gradients that they make
    """
    known = known or {}
    right = gradients(call, inputs, gy, "textbook")
    found: list[Mutation] = []
    seen: list[Arrays] = [right, *(right | each for each in known.values())]
    functions = _functions(call, inputs, gy)
    for each in _in_turn([[*_of(function, functions)] for function in functions])[:_TRIED]:
        if len(found) == most:
            break
        try:
            with each.in_place(), np.errstate(all="ignore"):
                wrong = gradients(call, inputs, gy, "textbook")
        except Exception:  # a text that cannot run shows no wrong entries
            continue
        if any(_same(wrong, other) for other in seen):
            continue
        seen.append(wrong)
        found.append(each)
    return _named(found, [*known])


def _same(a: Arrays, b: Arrays) -> bool:
    return all(np.allclose(a[name], b[name], equal_nan=True) for name in a)


def _in_turn(groups: list[list[Mutation]]) -> list[Mutation]:
    """The first of each kind, then the second of each, in the order of the functions."""
    kinds: dict[str, list[Mutation]] = {}
    for each in (each for group in groups for each in group):
        kinds.setdefault(each.name, []).append(each)
    longest = max(map(len, kinds.values()), default=0)
    return [each[turn] for turn in range(longest) for each in kinds.values() if turn < len(each)]


def _named(found: list[Mutation], taken: list[str]) -> list[Mutation]:
    """Each with a name of its own: behind one that several have, the gradient that is assigned to, or a number."""
    several = {each.name for each in found if [*taken, *(one.name for one in found)].count(each.name) > 1}
    named: list[Mutation] = []
    for each in found:
        target = re.match(r"(g\w+) = ", each.before) if each.name in several else None
        name = f"{each.name} in {target[1]}" if target else each.name
        count = [*taken, *(re.sub(r" \(\d+\)$", "", one.name) for one in named)].count(name)
        named.append(replace(each, name=f"{name} ({count + 1})" if count else name))
    return named


# ---- what ran


def _functions(call: Call, inputs: Arrays, gy: np.ndarray) -> list[FunctionType]:
    """The functions that ran in the backward and not in the forward, the operator's own first."""
    with use_kernels("textbook"):
        tensors = [Tensor(array.copy(), requires_grad=array.dtype.kind == "f") for array in inputs.values()]
        y, forward = _ran(lambda: call(*tensors))
        if not y.requires_grad:
            return []
        wanted = [tensor for tensor in tensors if tensor.requires_grad]
        upstream = Tensor(gy.astype(y.array.dtype))
        _, backward = _ran(lambda: grad(y, wanted, upstream, allow_unused=True))
    codes = [code for code in backward if code not in forward]
    own = getattr(y.grad_fn.function.backward if y.grad_fn is not None else None, "__wrapped__", None)
    found = [own if own is not None and own.__code__ is code else _function(code) for code in codes]
    return [each for each in found if each is not None]


def _ran(call: Callable[[], Any]) -> tuple[Any, list[CodeType]]:
    """Return the result of a call, and the code that ran in it: of operators, textbook kernels, formulas, the user."""
    codes: list[CodeType] = []

    def note(code: CodeType) -> bool:
        if part_of(code.co_filename) in ("ops", "textbook", "formulas", ""):
            codes.append(code)
        return False

    return traced(call, note).result, codes


def _function(code: CodeType) -> FunctionType | None:
    """The function of a code, by its name; of ``ops`` and of the user only those of Functions."""
    passes = code.co_name in ("forward", "backward")
    if "<" in code.co_qualname or (part_of(code.co_filename) in ("ops", "") and not passes):
        return None
    for module in [*sys.modules.values()]:
        if getattr(module, "__file__", None) == code.co_filename:
            found: Any = module
            for name in code.co_qualname.split("."):
                found = getattr(found, name, None)
            found = inspect.unwrap(found) if callable(found) else None
            if getattr(found, "__code__", None) is code:
                function: FunctionType = found
                return function
    return None


# ---- what is changed


def _of(function: FunctionType, ran: list[FunctionType]) -> Iterator[Mutation]:
    """The mistakes in one of the functions that ran."""
    callers = tuple(
        [
            each
            for each in ran
            if part_of(each.__code__.co_filename) == "formulas"
            and function.__name__ in each.__code__.co_names
            and each.__globals__.get(function.__name__) is function
        ]
    )
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return
    (written,) = tree.body
    if not isinstance(written, ast.FunctionDef) or any(isinstance(node, ast.While) for node in ast.walk(written)):
        return
    parameters = [each.arg for each in written.args.args if each.arg != "ctx"]
    upstream = next((name for name in parameters if name.startswith(("g", "v"))), "g")
    for change in changes(written, upstream):
        broken = copy.deepcopy(tree)
        nodes = [*ast.walk(broken.body[0])]
        place = _statement(written, change.number)
        _put(broken, nodes[change.number], change.replacement)
        after = change.replacement if place == change.number else nodes[place]
        before_text, after_text = _line([*ast.walk(written)][place]), _line(after)
        try:
            text = compile(ast.fix_missing_locations(broken), f"<{function.__name__}>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue
        code = next(each for each in text.co_consts if isinstance(each, CodeType) and each.co_name == function.__name__)
        if len(code.co_freevars) == len(function.__code__.co_freevars):
            texts = change.kind, change.about, function.__name__, before_text, after_text
            yield Mutation(*texts, function, code, callers)


# ---- trees


def _put(tree: ast.AST, node: ast.AST, replacement: ast.AST) -> None:
    """Put another node in the place of one."""
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is node:
                setattr(parent, name, replacement)
                return
            if isinstance(value, list):
                for place, each in enumerate(value):
                    if each is node:
                        value[place] = replacement
                        return


def _statement(written: ast.AST, number: int) -> int:
    """The number of the innermost statement that a node is part of."""
    nodes = [*ast.walk(written)]
    wanted = nodes[number]
    return max(
        place
        for place, node in enumerate(nodes)
        if isinstance(node, ast.stmt) and any(each is wanted for each in ast.walk(node))
    )


def _line(statement: ast.AST) -> str:
    """A statement in one line; of one with a body its head."""
    return ast.unparse(statement).partition("\n")[0]
