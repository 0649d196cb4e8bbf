"""Threads that share leaves: concurrent backward passes lose no gradient."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from retrograd import Tensor
from retrograd.engine.grad_mode import process


@pytest.fixture(autouse=True)
def _short_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(count: int, work: Callable[[int], object]) -> None:
    """Run work(0), work(1), ... in separate threads that start at the same time."""
    gate, errors = threading.Barrier(count), []

    def run(number: int) -> None:
        gate.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("threads", [2, 8])
def test_gradients_add_up(threads: int, create_graph: bool) -> None:
    each = 150 if create_graph else 600
    w = Tensor(np.zeros(3), requires_grad=True)
    slopes = np.random.default_rng(0).integers(1, 9, (threads, 3)).astype(np.float64)

    def work(number: int) -> None:
        for _ in range(each):
            (w * Tensor(slopes[number])).sum().backward(create_graph=create_graph)

    together(threads, work)
    np.testing.assert_array_equal(w.grad.array, each * slopes.sum(0))


def test_a_failed_delivery_lets_others_go_on() -> None:
    w, spoilt = Tensor(np.zeros(3), requires_grad=True), Tensor(np.zeros(3), requires_grad=True)
    y = spoilt * 2
    y.backward(Tensor(np.ones(3)))
    spoilt.grad.array = np.zeros(4)
    with pytest.raises(RuntimeError, match="cannot add a gradient"):
        (spoilt * 2).sum().backward()
    together(2, lambda number: (w * 1.0).sum().backward())
    np.testing.assert_array_equal(w.grad.array, np.full(3, 2.0))


def test_changes_in_place_are_seen_by_every_thread() -> None:
    def work(number: int) -> None:
        for _ in range(200):
            x = Tensor(np.ones(2), requires_grad=True)
            h = x * 1
            y = h * h
            h.add_(1.0)
            with pytest.raises(RuntimeError, match="was changed in place"):
                y.sum().backward()

    together(4, work)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_does_not_wait_for_a_thread_that_it_lacks() -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with process.lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        w = Tensor(np.zeros(3), requires_grad=True)
        helper = threading.Thread(target=lambda: (w * 2).sum().backward(), daemon=True)
        helper.start()
        helper.join(60)
        os._exit(0 if w.grad is not None else 1)
    status = os.waitpid(child, 0)[1]
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
