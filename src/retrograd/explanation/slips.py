"""Common mistakes in one expression of a backward: a factor, a sign, a transpose, a sum, a condition."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Change", "changes"]

_TRANSPOSES = ("swapaxes", "transpose")
_Wrong = Iterator[tuple[str, str, ast.AST]]  # the kind of mistake, why it is one, and what stands in place of a node


class Change(NamedTuple):
    """One node of a function's tree, by its number in the order of ``ast.walk``, and what stands in its place."""

    kind: str
    about: str
    number: int
    replacement: ast.AST


def changes(written: ast.FunctionDef, upstream: str) -> Iterator[Change]:
    """Yield the common mistakes in a function, node by node."""
    numbers = {id(node): number for number, node in enumerate(ast.walk(written))}
    hidden = _hidden(written)
    for node in ast.walk(written):
        if id(node) in hidden:
            continue
        for kind, about, replacement in _wrong(node, upstream):
            yield Change(kind, about, numbers[id(node)], replacement)


def _hidden(written: ast.FunctionDef) -> set[int]:
    """Nodes that are no arithmetic of gradients: annotations, decorators, conditions of branches, indices."""
    outside: list[ast.AST] = [written.args, *written.decorator_list]
    for node in ast.walk(written):
        if isinstance(node, (ast.If, ast.IfExp)):
            outside.append(node.test)
        elif isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
            outside.append(node.slice)
        elif isinstance(node, ast.For):
            outside.append(node.iter)
    return {id(inside) for node in outside for inside in ast.walk(node)}


def _wrong(node: ast.AST, upstream: str) -> _Wrong:
    """Yield the common mistakes at a node: the kind, the reason, and the wrong replacement."""
    if isinstance(node, ast.BinOp):
        yield from _wrong_operation(node, upstream)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield "wrong sign", "the derivative has a minus here", node.operand
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        about = "what comes back from several places is added up"
        yield "overwrite, do not add", about, ast.Assign([node.target], node.value, lineno=node.lineno)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and len(node.value.args) == 3:
        if ast.unparse(node.value.func) == "np.add.at":
            array, index, value = node.value.args
            about = "what comes back from several places is added up"
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
                about = "the chain rule multiplies by the gradient that comes from above"
                yield "forget gy", about, kept
            else:
                text = ast.unparse(lost)
                name = f"forget {text}" if len(text) <= 24 else "forget a factor"
                yield name, f"the derivative has the factor {text}", kept
    elif isinstance(node.op, ast.Div):
        text = ast.unparse(node.right)
        yield "forget to divide", f"the derivative is divided by {text}", node.left
    elif isinstance(node.op, ast.MatMult):
        about = "the product of matrices has its sum over another axis"
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
        yield "one step off", "each one goes with the one before", _sliced(node, ast.Slice(one, None, None))
    elif piece.upper is None and piece.step is None and piece.lower is not None and ast.unparse(piece.lower) == "1":
        minus = ast.UnaryOp(ast.USub(), one)
        yield "one step off", "each one goes with the one behind", _sliced(node, ast.Slice(None, minus, None))
    elif piece.step is not None and ast.unparse(piece.step) != "-1":
        near = ast.Slice(piece.lower, piece.upper, None)
        yield "drop the stride", "neighbours are this far apart", _sliced(node, near)


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
            yield "keep one sample", "the gradient is a sum over all of them", first
        yield "forget the sum", "the gradient is a sum over all that was reached", inside
    elif name == "mean" and inside is not None and not _is_module(inside):
        about = "a mean gives each one an equal share"
        summed = ast.Attribute(inside, "sum", ast.Load())
        yield "take the sum for the mean", about, ast.Call(summed, node.args, node.keywords)
    elif name == "where" and len(node.args) == 3:
        condition = _brief(node.args[0])
        yield "forget the condition", f"where {condition} does not hold, another gradient is declared", node.args[1]
        yield "forget the condition", f"where {condition} holds, another gradient is declared", node.args[2]
        swapped = [node.args[0], node.args[2], node.args[1]]
        yield "swap the branches", f"it matters where {condition} holds", ast.Call(node.func, swapped, [])
    elif name == "apply" and any(getattr(each, "id", "") == upstream for each in node.args):
        yield from _wrong_apply(node, inside, upstream)


def _wrong_apply(node: ast.Call, inside: ast.AST | None, upstream: str) -> _Wrong:
    """Of a differentiable operator that the backward is made of."""
    if isinstance(inside, ast.Name) and inside.id == "Sum":
        first = ast.Subscript(node.args[0], ast.Constant(0), ast.Load())
        yield "keep one sample", "the gradient is a sum over all of them", first
    ones = ast.parse(f"{upstream} * 0 + 1", mode="eval").body
    others = [ones if getattr(each, "id", "") == upstream else each for each in node.args]
    about = "the chain rule multiplies by the gradient that comes from above"
    yield "forget gy", about, ast.Call(node.func, others, node.keywords)


def _is_module(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("np", "math")


def _brief(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 60 else f"{text[:57]}..."
