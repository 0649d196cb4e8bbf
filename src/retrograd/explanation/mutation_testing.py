"""Mutation testing of a backward: broken kernels and formulas, and the gradcheck outcome of each.

The functions that ran in the backward but not in the forward are mutated: each mutation changes one expression in one
of them. Mutations that change no gradient of the given arrays are omitted.

The source of the kernel is changed, compiled and substituted for the kernel during one backward. The entries marked as
wrong on the page are therefore those that a programmer with this bug would see.
"""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from ..engine.backward_pass import grad
from ..engine.gradcheck import gradcheck
from ..engine.tensor import Tensor
from ..formulas import FUSED
from ..formulas.losses import LOSSES
from ..formulas.registry import Together
from ..kernel_set import instead, use_kernels
from ..kernels.textbook import loss as textbook_loss
from ..kernels.textbook.pointwise import on_arrays
from .gradient_differences import diagnosis, differing
from .measurements import Arrays, Call, gradients, jacobians, numbers
from .source_map import part_of
from .tracing import traced

__all__ = ["Change", "Bug", "MOST", "Mutation", "Outcome", "as_dicts", "changes", "mutations", "outcomes"]


# ---- Mutations of one expression of a backward ----------------------------------------------------------------------

_TRANSPOSES = ("swapaxes", "transpose")
_Wrong = Iterator[tuple[str, str, ast.AST]]  # the kind of mutation, the reason, and the replacement of a node


class Change(NamedTuple):
    """A replacement of one node of a function's tree, identified by its number in the order of ``ast.walk``."""

    kind: str
    about: str
    number: int
    replacement: ast.AST


def changes(written: ast.FunctionDef, upstream: str) -> Iterator[Change]:
    """Yield the mutations of a function, node by node."""
    numbers = {id(node): number for number, node in enumerate(ast.walk(written))}
    hidden = _hidden(written)
    for node in ast.walk(written):
        if id(node) in hidden:
            continue
        for kind, about, replacement in _wrong(node, upstream):
            yield Change(kind, about, numbers[id(node)], replacement)


def _hidden(written: ast.FunctionDef) -> set[int]:
    """Return nodes that are not arithmetic of gradients: annotations, decorators, conditions of branches, indices."""
    excluded: list[ast.AST] = [written.args, *written.decorator_list]
    for node in ast.walk(written):
        if isinstance(node, (ast.If, ast.IfExp)):
            excluded.append(node.test)
        elif isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
            excluded.append(node.slice)
        elif isinstance(node, ast.For):
            excluded.append(node.iter)
    return {id(inside) for node in excluded for inside in ast.walk(node)}


def _wrong(node: ast.AST, upstream: str) -> _Wrong:
    """Yield the mutations of a node: the kind, the reason, and the wrong replacement."""
    if isinstance(node, ast.BinOp):
        yield from _wrong_operation(node, upstream)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield "wrong sign", "the derivative has a minus here", node.operand
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        about = "gradients that come back from several places are added up"
        yield "overwrite, do not add", about, ast.Assign([node.target], node.value, lineno=node.lineno)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and len(node.value.args) == 3:
        if ast.unparse(node.value.func) == "np.add.at":
            array, index, value = node.value.args
            about = "gradients that come back from several places are added up"
            target = ast.Subscript(array, index, ast.Store())
            yield "overwrite, do not add", about, ast.Assign([target], value, lineno=node.lineno)
    elif isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
        yield "forget a transpose", "the gradient goes back through the transposed matrix", node.value
    elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        yield from _wrong_slice(node)
    elif isinstance(node, ast.Call):
        yield from _wrong_call(node, upstream)


def _wrong_operation(node: ast.BinOp, upstream: str) -> _Wrong:
    if isinstance(node.op, ast.Mult):
        for lost, kept in ((node.left, node.right), (node.right, node.left)):
            if isinstance(lost, ast.Name) and lost.id == upstream:
                about = "the chain rule multiplies by the upstream gradient"
                yield "forget gy", about, kept
            else:
                text = ast.unparse(lost)
                name = f"forget {text}" if len(text) <= 24 else "forget a factor"
                yield name, f"the derivative has the factor {text}", kept
    elif isinstance(node.op, ast.Div):
        text = ast.unparse(node.right)
        yield "forget to divide", f"the derivative is divided by {text}", node.left
    elif isinstance(node.op, ast.MatMult):
        about = "the matrix product sums over another axis"
        transposed = ast.Attribute(node.right, "T", ast.Load())
        yield "one transpose too many", about, ast.BinOp(node.left, node.op, transposed)
    elif isinstance(node.op, (ast.Add, ast.Sub)):
        other = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        yield "wrong sign", f"the sign of {_brief(node.right)}", ast.BinOp(node.left, other, node.right)
        yield "forget a term", f"the gradient has the term {_brief(node.right)}", node.left


def _wrong_slice(node: ast.Subscript) -> _Wrong:
    piece = node.slice
    assert isinstance(piece, ast.Slice)
    one = ast.Constant(1)
    if piece.lower is None and piece.step is None and piece.upper is not None and ast.unparse(piece.upper) == "-1":
        yield "one step off", "each entry belongs to the previous one", _sliced(node, ast.Slice(one, None, None))
    elif piece.upper is None and piece.step is None and piece.lower is not None and ast.unparse(piece.lower) == "1":
        minus = ast.UnaryOp(ast.USub(), one)
        yield "one step off", "each entry belongs to the next one", _sliced(node, ast.Slice(None, minus, None))
    elif piece.step is not None and ast.unparse(piece.step) != "-1":
        near = ast.Slice(piece.lower, piece.upper, None)
        yield "drop the stride", "neighboring entries are this far apart", _sliced(node, near)


def _sliced(node: ast.Subscript, piece: ast.Slice) -> ast.Subscript:
    return ast.Subscript(node.value, piece, node.ctx)


def _wrong_call(node: ast.Call, upstream: str) -> _Wrong:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    inside = node.func.value if isinstance(node.func, ast.Attribute) else None
    if name in _TRANSPOSES and inside is not None:
        yield "forget a transpose", "the gradient goes back through the transposed matrix", inside
    elif name == "sum" and inside is not None and not _is_module(inside):
        keep = any(each.arg == "keepdims" for each in node.keywords)
        if not keep:
            first = ast.Subscript(inside, ast.Constant(0), ast.Load())
            yield "keep one sample", "the gradient is a sum over all samples", first
        yield "forget the sum", "the gradient is a sum over all entries that were used", inside
    elif name == "mean" and inside is not None and not _is_module(inside):
        about = "a mean gives each entry an equal share"
        summed = ast.Attribute(inside, "sum", ast.Load())
        yield "sum instead of mean", about, ast.Call(summed, node.args, node.keywords)
    elif name == "where" and len(node.args) == 3:
        condition = _brief(node.args[0])
        yield "forget the condition", f"where {condition} does not hold, another gradient is declared", node.args[1]
        yield "forget the condition", f"where {condition} holds, another gradient is declared", node.args[2]
        swapped = [node.args[0], node.args[2], node.args[1]]
        yield "swap the branches", f"each branch belongs to one case of {condition}", ast.Call(node.func, swapped, [])
    elif name == "apply" and any(getattr(each, "id", "") == upstream for each in node.args):
        yield from _wrong_apply(node, inside, upstream)


def _wrong_apply(node: ast.Call, inside: ast.AST | None, upstream: str) -> _Wrong:
    """Yield the mutations of a call of a differentiable operator in the backward."""
    if isinstance(inside, ast.Name) and inside.id == "Sum":
        first = ast.Subscript(node.args[0], ast.Constant(0), ast.Load())
        yield "keep one sample", "the gradient is a sum over all samples", first
    ones = ast.parse(f"{upstream} * 0 + 1", mode="eval").body
    others = [ones if getattr(each, "id", "") == upstream else each for each in node.args]
    about = "the chain rule multiplies by the upstream gradient"
    yield "forget gy", about, ast.Call(node.func, others, node.keywords)


def _is_module(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("np", "math")


def _brief(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else f"{text[:57]}..."


# ---- Mutations of the source of a backward --------------------------------------------------------------------------

MOST = 6  # bugs and mutations of one operator
_TRIED = 80


@dataclass(frozen=True)
class Mutation:
    """A mutation of one statement of a function that the backward runs.

    kernel: the function's name; before, after: the statement; code: of the mutated function
    callers: formulas that call it and also ran
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
        """Run the textbook kernels with this bug within the context."""
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
        """Replace the kernel of a formula, not the formula, which the compiled set also uses."""
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
    """Return a copy of a function with other code or other names in its scope."""
    copied = FunctionType(code, names, function.__name__, function.__defaults__)
    copied.__dict__.update(function.__dict__)
    copied.__annotations__ = function.__annotations__
    return copied


def mutations(
    call: Call, inputs: Arrays, gy: np.ndarray, most: int = MOST, known: Mapping[str, Arrays] | None = None
) -> list[Mutation]:
    """Return mutations of an operator's backward that change its gradients for these inputs, different kinds first.

    inputs: in float64
    known: the bugs that are already listed, by name, with the gradients that they give
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
        except Exception:  # code that cannot run shows no wrong entries
            continue
        if any(_same(wrong, other) for other in seen):
            continue
        seen.append(wrong)
        found.append(each)
    return _named(found, [*known])


def _same(a: Arrays, b: Arrays) -> bool:
    return all(np.allclose(a[name], b[name], equal_nan=True) for name in a)


def _in_turn(groups: list[list[Mutation]]) -> list[Mutation]:
    """Return the first mutation of each kind, then the second of each, in the order of the functions."""
    kinds: dict[str, list[Mutation]] = {}
    for each in (each for group in groups for each in group):
        kinds.setdefault(each.name, []).append(each)
    longest = max(map(len, kinds.values()), default=0)
    return [each[turn] for turn in range(longest) for each in kinds.values() if turn < len(each)]


def _named(found: list[Mutation], reserved: list[str]) -> list[Mutation]:
    """Make the names of mutations unique: append the name of the gradient that is assigned, or a number."""
    several = {each.name for each in found if [*reserved, *(one.name for one in found)].count(each.name) > 1}
    named: list[Mutation] = []
    for each in found:
        target = re.match(r"(g\w+) = ", each.before) if each.name in several else None
        name = f"{each.name} in {target[1]}" if target else each.name
        count = [*reserved, *(re.sub(r" \(\d+\)$", "", one.name) for one in named)].count(name)
        named.append(replace(each, name=f"{name} ({count + 1})" if count else name))
    return named


# ---- Recording of the functions that ran


def _functions(call: Call, inputs: Arrays, gy: np.ndarray) -> list[FunctionType]:
    """Return the functions that ran in the backward and not in the forward, the operator's own first."""
    with use_kernels("textbook"):
        tensors = [Tensor(array.copy(), requires_grad=array.dtype.kind == "f") for array in inputs.values()]
        y, forward = _ran(lambda: call(*tensors))
        if not y.requires_grad:
            return []
        differentiated = [tensor for tensor in tensors if tensor.requires_grad]
        upstream = Tensor(gy.astype(y.array.dtype))
        _, backward = _ran(lambda: grad(y, differentiated, upstream, allow_unused=True))
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
    """Return the function of a code object, by its name; from ``ops`` and from the user only those of Functions."""
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


# ---- Mutations of one function


def _of(function: FunctionType, ran: list[FunctionType]) -> Iterator[Mutation]:
    """Yield the mutations of one of the functions that ran."""
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
            module = compile(ast.fix_missing_locations(broken), f"<{function.__name__}>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue
        code = next(
            each for each in module.co_consts if isinstance(each, CodeType) and each.co_name == function.__name__
        )
        if len(code.co_freevars) == len(function.__code__.co_freevars):
            texts = change.kind, change.about, function.__name__, before_text, after_text
            yield Mutation(*texts, function, code, callers)


# ---- Syntax trees


def _put(tree: ast.AST, node: ast.AST, replacement: ast.AST) -> None:
    """Replace a node of a tree."""
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
    """Return the number of the innermost statement that contains a node."""
    nodes = [*ast.walk(written)]
    node = nodes[number]
    return max(
        place
        for place, each in enumerate(nodes)
        if isinstance(each, ast.stmt) and any(inner is node for inner in ast.walk(each))
    )


def _line(statement: ast.AST) -> str:
    """Return a statement in one line; for a statement with a body its header."""
    return ast.unparse(statement).partition("\n")[0]


# ---- Bugs planted in a backward, and their outcomes -----------------------------------------------------------------

_FEW = 3  # with fewer bugs, mutations are added
_LARGEST = 2000  # entries of all inputs; with more, gradcheck takes too long


@dataclass(frozen=True)
class Bug:
    """A common bug: one line of a textbook kernel, and its replacement.

    kernel: its name; module: the module of the textbook set that defines it
    before, after: the replaced source, which occurs once, and its replacement, which may call ``dataclasses.replace``
    function: the name of the function that contains the line, called by the kernel; by default the kernel itself
    """

    name: str
    about: str
    module: str
    kernel: str
    before: str
    after: str
    function: str = ""

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Run the textbook kernels with this bug within the context."""
        with use_kernels("textbook"), instead({self.kernel: self.planted()}):
            yield

    def planted(self) -> Callable[..., Any]:
        """Return the kernel with the bug.

        Raises:
            ValueError: the line does not occur in the source, or occurs more than once.
        """
        module = importlib.import_module(f"retrograd.kernels.textbook.{self.module}")
        place = self.function or self.kernel
        source = _source_of(module, place)
        if source.count(self.before) != 1:
            raise ValueError(f"Bug: {self.before!r} occurs {source.count(self.before)} times in {place}")
        home = importlib.import_module(inspect.unwrap(getattr(module, place)).__module__)
        broken = self._compiled(source.replace(self.before, self.after), place, vars(home) | {"replace": replace})
        if not self.function:
            return broken
        return self._compiled(_source_of(module, self.kernel), self.kernel, vars(module) | {self.function: broken})

    def _compiled(self, source: str, name: str, names: dict[str, Any]) -> Callable[..., Any]:
        """Compile a function from source, with these names in its scope."""
        exec(compile(source, f"<{name}: {self.name}>", "exec"), names)
        made: Callable[..., Any] = names[name]
        return made


def _source_of(module: ModuleType, name: str) -> str:
    return textwrap.dedent(inspect.getsource(inspect.unwrap(getattr(module, name))))


@dataclass
class Outcome:
    """The outcome of a bug or mutation: the wrong gradients, a description, and gradcheck's report; or an error.

    fault: the bug or mutation
    wrong: the gradients that differ from the correct ones, by name; empty if it has no effect
    marked: which of their entries are wrong
    diagnosis: how these arrays differ from the correct ones, a line for each
    report: what gradcheck prints; caught: whether gradcheck has a diagnosis of its own, of the Jacobian
    """

    fault: Bug | Mutation
    wrong: Arrays = field(default_factory=dict)
    marked: Arrays = field(default_factory=dict)
    diagnosis: str = ""
    report: str = ""
    caught: bool = False
    error: str = ""


def outcomes(bugs: Sequence[Bug], call: Call, inputs: Arrays, gy: np.ndarray, exact: bool = True) -> list[Outcome]:
    """Return the outcomes of the given bugs and, if there are fewer than three, of mutations of the backward.

    Only mutations that gradcheck diagnoses are returned. Everything runs in float64; large inputs give an empty list.
    exact: whether the declared gradient is the derivative; if not, gradcheck compares with the declared one
    """
    wide = {name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in inputs.items()}
    if sum(array.size for array in wide.values()) > _LARGEST:
        return []
    surrogate = None if exact else _linear(call, wide)
    found = [_outcome(bug, call, wide, gy, surrogate) for bug in bugs]
    if len(bugs) >= _FEW:
        return found
    more = mutations(call, wide, gy, MOST - len(bugs), {each.fault.name: each.wrong for each in found})
    derived = [_outcome(each, call, wide, gy, surrogate) for each in more]
    return [*found, *(each for each in derived if each.wrong and each.caught and not each.error)]


def _linear(call: Call, inputs: Arrays) -> Call:
    """Return the linear function of the inputs whose derivative is the gradient that the operator declares."""
    with use_kernels("textbook"):
        y, matrices = jacobians("the operator", call, inputs)

    def function(*tensors: Tensor) -> Tensor:
        values = {name: tensor.array.ravel() for name, tensor in zip(inputs, tensors, strict=True)}
        total = sum(matrix @ values[name] for name, matrix in matrices.items())
        return Tensor(np.reshape(np.asarray(total), y.array.shape))

    return function


def _outcome(bug: Bug | Mutation, call: Call, wide: Arrays, gy: np.ndarray, surrogate: Call | None = None) -> Outcome:
    """Run the operator's backward with the bug, and gradcheck on it."""
    found = Outcome(bug)
    right = gradients(call, wide, gy, "textbook")
    with bug.in_place(), np.errstate(all="ignore"):
        try:
            broken = gradients(call, wide, gy, "textbook")
            tensors = [Tensor(array, requires_grad=array.dtype.kind == "f") for array in wide.values()]
            report = gradcheck(call, tensors, raise_exception=False, check_layouts=False, surrogate=surrogate)
        except Exception as error:  # an error raised by a broken line is part of the answer
            found.error = f"{type(error).__name__}: {error}"
            return found
    found.marked = {name: differing(right[name], broken[name]) for name in right}
    found.marked = {name: marks for name, marks in found.marked.items() if marks.any()}
    found.wrong = {name: broken[name] for name in found.marked}
    found.diagnosis = diagnosis(right, found.wrong, gy, lambda other: gradients(call, wide, other, "textbook"))
    found.report = str(report)
    found.caught = any(each.diagnosis for each in report.faults)
    return found


def as_dicts(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return the outcomes as in the page's document, see document.py."""
    return [
        {
            "name": each.fault.name,
            "about": each.fault.about,
            "kernel": each.fault.kernel,
            "before": each.fault.before,
            "after": each.fault.after,
            "wrong": {name: numbers(array) for name, array in each.wrong.items()},
            "marked": {name: np.flatnonzero(marks).tolist() for name, marks in each.marked.items()},
            "report": each.report,
            "diagnosis": each.diagnosis,
            "error": each.error,
        }
        for each in outcomes
    ]
