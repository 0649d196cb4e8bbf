"""Programs of launches that run again and again, compared with the launches one by one."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from retrograd.kernels.compiled.machine import launch
from retrograd.kernels.compiled.machine.launch import kernel
from retrograd.kernels.compiled.machine.program import Program
from retrograd.kernels.compiled.memory.layout import tasks

_ADD, _SCALE = kernel("pointwise.add"), kernel("pointwise.scale")


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = launch.get_num_threads()
    yield
    launch.set_num_threads(before)


def _array(seed: int, size: int = 70_001) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=size).astype(np.float32)


def _add(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Any:
    return _ADD["f"], (tasks(x.size), x, y, z, x.size), None


def _scale(x: np.ndarray, factor: float, y: np.ndarray) -> Any:
    return _SCALE["f"], (tasks(x.size), x, y, x.size, factor), None


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("count", [1, 2, 64, 65, 150])
def test_launches_run_in_their_order(count: int, threads: int) -> None:
    launch.set_num_threads(threads)
    x, sums = _array(0), np.zeros(70_001, "f")
    wanted = sums.copy()
    calls = []
    for at in range(count):
        calls.append(_add(sums, x, sums) if at % 2 else _scale(sums, -1.5, sums))
        wanted = wanted + x if at % 2 else (wanted * np.float32(-1.5)).astype("f")
    program = Program(calls)
    program.run()
    np.testing.assert_array_equal(sums, wanted)
    assert program.calls == calls


def test_another_call_between_launches() -> None:
    x, y, z = _array(0), np.zeros(70_001, "f"), np.zeros(70_001, "f")
    seen: list[float] = []
    between = lambda array: seen.append(float(array[3]))  # noqa: E731
    program = Program([_scale(x, 2.0, y), _scale(y, 2.0, z), (between, (z,), None), _add(y, z, y), _add(y, z, z)])
    for _ in range(2):
        program.run()
    np.testing.assert_array_equal(z, (x * 2 + x * 4) + x * 4)
    assert seen == [float(x[3]) * 4] * 2


def test_a_replaced_array_is_used_from_then_on() -> None:
    x, y, z = _array(0), _array(1), np.zeros(70_001, "f")
    first, last = np.zeros_like(z), np.zeros_like(z)
    read: list[np.ndarray] = []
    program = Program([_add(x, y, z), _scale(z, 3.0, first), (read.append, (x,), None), _scale(first, 1.0, last)])
    program.replace(0, 1, other := _array(2))
    program.replace(1, 2, second := np.zeros_like(z))
    program.replace(2, 0, other)
    program.replace(3, 1, second)
    program.run()
    np.testing.assert_array_equal(second, (other + y) * np.float32(3))
    np.testing.assert_array_equal(last, second)
    assert read[0] is other and not first.any()
    program.replace(0, 1, x)
    program.run()
    np.testing.assert_array_equal(second, (x + y) * np.float32(3))


@pytest.mark.parametrize("value", [1.0, np.nan, -np.inf])
def test_a_call_is_skipped_if_its_number_is_finite(value: float) -> None:
    number, x, y = np.array([value], "f"), _array(0), np.zeros(70_001, "f")
    function, arguments, _ = _scale(x, 2.0, y)
    Program([_scale(x, 4.0, y), (function, arguments, number), _scale(x, 1.0, _array(3))]).run()
    np.testing.assert_array_equal(y, x * (4 if np.isfinite(value) else 2))


def test_other_python_threads_run_meanwhile_and_signals_arrive_between_programs() -> None:
    x = _array(0, 1 << 20)
    program, done, late = Program([_add(x, x, np.empty_like(x))] * 3000), threading.Event(), []

    def interrupt() -> None:
        time.sleep(0.02)
        late.append(done.is_set())
        signal.raise_signal(signal.SIGINT)

    other = threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a shell's background jobs
    try:
        other.start()
        with pytest.raises(KeyboardInterrupt):
            program.run()
            done.set()
            other.join()
        other.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert late == [False]


def test_through_ctypes_every_launch_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch.numpy_abi, "fault", lambda: "planted")
    add, x = kernel("pointwise.add")["f"], _array(0)
    y = np.zeros_like(x)
    program = Program([(add, (tasks(x.size), x, x, y, x.size), None)] * 2)
    program.run()
    np.testing.assert_array_equal(y, x + x)
    assert len(program.calls) == 2
