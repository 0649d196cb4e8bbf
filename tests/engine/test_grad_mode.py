"""no_grad, enable_grad, set_grad_enabled."""

from __future__ import annotations

import contextlib
import random
import signal
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from engine.functions import Exp, leaf
from retrograd import Tensor
from retrograd.engine import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)


def test_context_managers_nest_and_restore() -> None:
    assert is_grad_enabled()
    with no_grad():
        assert not is_grad_enabled()
        assert not Exp.apply(leaf(1)).requires_grad
        with enable_grad():
            assert is_grad_enabled()
            assert Exp.apply(leaf(1)).requires_grad
        assert not is_grad_enabled()
    assert is_grad_enabled()


def test_restored_after_an_error() -> None:
    with pytest.raises(ValueError, match="x"), no_grad():
        raise ValueError("x")
    assert is_grad_enabled()


def test_one_object_entered_twice() -> None:
    off = no_grad()
    with off, enable_grad(), off:
        assert not is_grad_enabled()
    assert is_grad_enabled()


@pytest.mark.parametrize("decorate", [no_grad, no_grad()])
def test_decorators(decorate: object) -> None:
    def look(a: int, b: int = 2) -> tuple[bool, int]:
        """Its text."""
        return is_grad_enabled(), a + b

    wrapped = decorate(look)  # type: ignore[operator]
    assert wrapped(1, b=3) == (False, 4)
    assert is_grad_enabled() and wrapped.__doc__ == "Its text." and wrapped.__name__ == "look"


def test_decorated_method_and_recursion() -> None:
    class Model:
        @no_grad()
        def depth(self, n: int) -> list[bool]:
            return [is_grad_enabled(), *(self.depth(n - 1) if n else [])]

        @enable_grad()
        def on(self) -> bool:
            return is_grad_enabled()

    with no_grad():
        assert Model().on()
    assert Model().depth(2) == [False] * 3
    assert is_grad_enabled()


def test_decorated_generator_does_not_leak_to_its_caller() -> None:
    @no_grad()
    def steps() -> Iterator[bool]:
        try:
            for _ in range(3):
                received = yield is_grad_enabled()
                assert received in (None, "sent")
        finally:
            closed.append(is_grad_enabled())

    closed: list[bool] = []
    generator = steps()
    for inside in generator:
        assert not inside and is_grad_enabled()
    other = steps()
    next(other)
    assert other.send("sent") is False  # type: ignore[attr-defined]
    other.close()  # type: ignore[attr-defined]
    assert is_grad_enabled() and closed == [False, False]

    @no_grad()
    def catches() -> Iterator[object]:
        try:
            yield 1
        except KeyError:
            yield is_grad_enabled()

    third = catches()
    next(third)
    assert third.throw(KeyError("k")) is False  # type: ignore[attr-defined]


def test_coroutines_are_refused() -> None:
    async def work() -> None: ...

    with pytest.raises(TypeError, match="no_grad: .*work is asynchronous; use `with`"):
        no_grad()(work)


def test_set_grad_enabled() -> None:
    with set_grad_enabled(False):
        assert not is_grad_enabled()
        with set_grad_enabled(True):
            assert is_grad_enabled()
    assert is_grad_enabled()
    setting = set_grad_enabled(False)
    assert not is_grad_enabled()
    with setting:
        with setting:
            assert not is_grad_enabled()
        assert not is_grad_enabled()
    assert is_grad_enabled()

    @set_grad_enabled(False)
    def look() -> bool:
        return is_grad_enabled()

    assert is_grad_enabled() and look() is False
    with pytest.raises(TypeError, match="enabled is 1, expected True or False"):
        set_grad_enabled(1)  # type: ignore[arg-type]


def test_each_thread_has_its_own_flag() -> None:
    seen = []
    with no_grad():
        thread = threading.Thread(target=lambda: seen.append(is_grad_enabled()))
        thread.start()
        thread.join()
        assert not is_grad_enabled()
    assert seen == [True]


def test_one_object_in_several_threads() -> None:
    scope, inside, leave = no_grad(), threading.Barrier(3), threading.Barrier(3)
    found: list[tuple[bool, bool]] = []

    def work() -> None:
        with scope:
            inside.wait()
            off = not is_grad_enabled()
            leave.wait()
        found.append((off, is_grad_enabled()))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    inside.wait()
    assert is_grad_enabled()
    leave.wait()
    for thread in threads:
        thread.join()
    assert found == [(True, True)] * 2


def test_an_exit_stack_leaves_as_a_with_statement_does() -> None:
    with contextlib.ExitStack() as stack:
        stack.enter_context(no_grad())
        stack.enter_context(inference_mode())
        stack.enter_context(set_grad_enabled(False))
        assert not is_grad_enabled() and is_inference_mode_enabled()
    assert is_grad_enabled() and not is_inference_mode_enabled()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no timer here")
@pytest.mark.parametrize("scope", [no_grad, enable_grad, inference_mode])
def test_an_interrupt_at_any_moment_leaves_the_flags_as_they_were(scope: Any) -> None:
    """KeyboardInterrupt may be raised between any two instructions, also while a with statement ends.

    (`set_grad_enabled` sets the flag before its with statement begins, as in PyTorch.)
    """
    x = Tensor(np.ones(2), requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda leaf: None)  # backward runs the hook inside its own with statement

    def work() -> None:
        (x * x).sum().backward()
        with scope():
            x + x

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    work()  # compiles the kernels first
    before, draw = signal.signal(signal.SIGALRM, interrupt), random.Random(0)
    try:
        for _ in range(400):
            try:
                signal.setitimer(signal.ITIMER_REAL, draw.uniform(2e-5, 3e-4))
                while True:
                    work()
            except KeyboardInterrupt:
                assert is_grad_enabled() and not is_inference_mode_enabled()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
