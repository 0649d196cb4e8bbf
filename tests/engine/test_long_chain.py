"""Graphs of many nodes: neither the backward pass nor the deletion of the graph may recurse.

In a thread with a small stack, 10,000 nodes are enough to detect recursion, and anywhere for recursion in Python. The
nightly tests use 100,000.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine.functions import Add, Identity, leaf
from retrograd.engine import Function, Node, Tensor, grad, wrap

SHORT, LONG = 10_000, 100_000
# A sixteenth of the main thread's. CPython 3.13 overflows it by itself: it nests up to 10,000 destructors of arbitrary
# objects, while other versions nest 50 or check the stack.
STACK = (2048 if sys.version_info[:2] == (3, 13) else 512) * 1024
LENGTHS = pytest.mark.parametrize("length", [SHORT, pytest.param(LONG, marks=pytest.mark.nightly)])


class Link(Function):
    """A step that saves its input and its output."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = wrap(x.array + 1)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g


def chain(x: Tensor, length: int) -> Tensor:
    y = x
    for _ in range(length):
        y = Link.apply(y)
    return y


@LENGTHS
def test_grad_finds_its_way(length: int) -> None:
    x = leaf(0)
    (g,) = grad(chain(x, length), x)
    assert g is not None and g.item() == 1


def test_second_derivative() -> None:
    class Square(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return wrap(x.array * 1)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return Link.apply(g)

    x = leaf(0)
    y = x
    for _ in range(SHORT):
        y = Square.apply(y)
    v = leaf(1)
    (g,) = grad(y, x, v, create_graph=True)
    (gv,) = grad(g, v)
    assert gv is not None and gv.item() == 1


def drop(y: list[Tensor]) -> None:
    y.clear()


def drop_after_backward(y: list[Tensor]) -> None:
    y[0].backward()
    y.clear()


def collect_as_a_cycle(y: list[Any]) -> None:
    cycle: list[Any] = [y.pop()]
    cycle.append(cycle)
    del cycle
    gc.collect()


@pytest.mark.parametrize(("in_thread", "length"), [(True, SHORT), pytest.param(False, LONG, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("end", [drop, drop_after_backward, collect_as_a_cycle])
def test_destruction(end: Callable[[list[Tensor]], None], in_thread: bool, length: int) -> None:
    def run() -> None:
        x = leaf(0)
        y = [chain(x, length)]
        assert isinstance(y[0].grad_fn, Node)
        nodes.append(weakref.ref(y[0].grad_fn))
        end(y)
        if end is drop_after_backward:
            assert x.grad is not None and x.grad.item() == 1
        finished.append(True)

    finished: list[bool] = []
    nodes: list[weakref.ref[Node]] = []
    if in_thread:
        before = threading.stack_size(STACK)
        try:
            thread = threading.Thread(target=run)
            thread.start()
        finally:
            threading.stack_size(before)
        thread.join()
    else:
        run()
    assert finished and nodes[0]() is None


def test_wide_graph() -> None:
    x = leaf(1)
    branches = [Identity.apply(x) for _ in range(20_000)]
    while len(branches) > 1:
        branches = [Add.apply(a, b) for a, b in zip(branches[::2], branches[1::2], strict=False)] + (
            [branches[-1]] if len(branches) % 2 else []
        )
    branches[0].backward()
    np.testing.assert_array_equal(x.grad, [20_000])
