"""Loading and launching of compiled kernels: threads, forks, wrong arguments."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from retrograd.geometry import conv_window
from retrograd.kernels import conv, launch, relu


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = launch.get_num_threads()
    yield
    launch.set_num_threads(before)


def _array(n: int = 300_000) -> np.ndarray:
    return np.random.default_rng(0).normal(size=n).astype(np.float32)


@pytest.mark.parametrize("count", [1, 2, 5, 67])
def test_every_number_of_threads_gives_the_same(count: int) -> None:
    launch.set_num_threads(count)
    assert launch.get_num_threads() == count
    x = _array()
    for _ in range(20):
        np.testing.assert_array_equal(relu(x), np.maximum(x, 0))


@pytest.mark.parametrize("count", [0, -1, 1.5, "2", None, True, 1025, 100_000, 10**30])
def test_wrong_number_of_threads(count: object) -> None:
    with pytest.raises(ValueError, match="set_num_threads: count must be an integer from 1 to 1024, got"):
        launch.set_num_threads(count)  # type: ignore[arg-type]


def test_launches_from_several_python_threads() -> None:
    launch.set_num_threads(2)
    x = _array()
    expected = np.maximum(x, 0)
    wrong: list[str] = []

    def work() -> None:
        for _ in range(30):
            if not np.array_equal(relu(x), expected):
                wrong.append(threading.current_thread().name)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_thread_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """The launch says so; the next one starts those that are missing, and no number twice."""
    start = threading.Thread.start

    def fail(thread: threading.Thread) -> None:
        if thread.name == "retrograd-2":
            raise RuntimeError("can't start new thread")
        start(thread)

    x = _array()
    launch.set_num_threads(1)
    launch.set_num_threads(3)
    monkeypatch.setattr(threading.Thread, "start", fail)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        relu(x)
    monkeypatch.undo()
    np.testing.assert_array_equal(relu(x), np.maximum(x, 0))
    names = [thread.name for thread in threading.enumerate() if thread.name.startswith("retrograd-")]
    assert sorted(names) == ["retrograd-1", "retrograd-2"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_threads_of_its_own() -> None:
    code = """
import os, numpy as np
from retrograd.kernels import relu, set_num_threads
set_num_threads(2)
x = np.random.default_rng(0).normal(size=300_000).astype(np.float32)
relu(x)
child = os.fork()
right = np.array_equal(relu(x), np.maximum(x, 0))
if child == 0:
    os._exit(0 if right else 1)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert right and status == 0, (right, status)
"""
    subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", code], check=True, timeout=120)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_any_thread_of_a_forked_child_can_load_kernels() -> None:
    code = """
import os, threading, numpy as np
from retrograd.kernels import relu, sqrt
x = np.ones(10, np.float32)
relu(x)
child = os.fork()
if child == 0:
    thread = threading.Thread(target=lambda: sqrt(x) is not None and os._exit(0), daemon=True)
    thread.start()
    thread.join(60)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", code], check=True, timeout=120)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, np.float32(3)), "expected tasks and 5 arguments"),
        ((1, np.float32(3), np.zeros(1), 1, 1, 1), "expected an ndarray, got another object"),
        ((1, None, np.zeros(1), 1, 1, 1), "expected an ndarray, got another object"),
        (("one", _array(1), _array(1), 1, 1, 1), "cannot be interpreted as an integer"),
        ((1, _array(1), np.zeros(1), 1, 1, 1), r"expected: \(tasks, float32, float32, int, int, int\)"),
        ((1, _array(1), np.zeros(1, ">f4"), 1, 1, 1), "add_partials_f: an array has another dtype than expected"),
        ((1, np.zeros(1, np.int64), _array(1), 1, 1, 1), "an array has another dtype than expected"),
    ],
)
def test_wrong_arguments_of_a_launch(arguments: tuple[object, ...], message: str) -> None:
    add_partials = launch.Kernel("convolution.add_partials")["f"]
    with pytest.raises(TypeError, match=message):
        add_partials(*arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("elementwise.mul", (_array(8),), "expected tasks and 4 arguments"),
        ("elementwise.mul", (_array(8), _array(8), 1.0), "expected tasks and 4 arguments"),
        ("elementwise.mul", (_array(8), [1.0]), "expected an ndarray, got another object"),
        ("elementwise.scale", (_array(8), "two"), "must be real number, not str"),
        ("elementwise.mul", (np.zeros(8), np.zeros(8)), "elementwise_mul_f: an array has another dtype than expected"),
        ("elementwise.mul", (_array(8), np.zeros(8)), "an array has another dtype than expected"),
        ("elementwise.scale", (np.zeros(8, ">f4"), 2.0), "an array has another dtype than expected"),
    ],
)
def test_wrong_arguments_of_an_elementwise_launch(name: str, arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        launch.Kernel(name)["f"](*arguments)


def test_a_dtype_that_is_another_object_is_the_same_dtype() -> None:
    named = np.dtype("f4", metadata={"unit": "m"})
    assert named is not np.dtype("f4")
    x = np.ones(8, named)
    np.testing.assert_array_equal(launch.Kernel("elementwise.scale")["f"](x, 2.0), np.full(8, 2.0))


def test_an_elementwise_launch_makes_its_result() -> None:
    mul = launch.Kernel("elementwise.mul")["f"]
    x, y = np.asfortranarray(_array(60_000).reshape(200, 300)), np.asfortranarray(_array(60_000).reshape(200, 300) + 1)
    z = mul(x, y)
    np.testing.assert_array_equal(z, x * y)
    assert z.flags.f_contiguous and z.flags.owndata and not np.shares_memory(z, x)
    for first, second in ((x, y[:, :200]), (x, y.ravel()), (x, np.ascontiguousarray(y))):
        assert mul(first, second) is None  # not the same places in memory
    assert mul(x[::2], y[::2]) is None  # gaps
    long_steps = np.lib.stride_tricks.as_strided(x, (200, 1), (4, 4096))
    np.testing.assert_array_equal(mul(long_steps, long_steps), long_steps**2)  # the step of one element is no matter


def test_an_elementwise_launch_leaks_nothing() -> None:
    mul, x, other = launch.Kernel("elementwise.mul")["f"], _array(64), _array(32)
    before = sys.getrefcount(x), sys.getrefcount(None)
    for _ in range(1000):
        mul(x, x)
        mul(x, other)
    assert sys.getrefcount(x) == before[0]
    result = weakref.ref(mul(x, x))
    assert result() is None  # nobody else holds it
    assert abs(sys.getrefcount(None) - before[1]) < 500


def test_threads_from_the_environment() -> None:
    code = "from retrograd.kernels import get_num_threads; print(get_num_threads())"
    environment = {**os.environ, "RETROGRAD_NUM_THREADS": "3"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "3"
    for wrong in ("many", "1025", "9" * 5000, "²"):
        environment["RETROGRAD_NUM_THREADS"] = wrong
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert f"RETROGRAD_NUM_THREADS must be an integer from 1 to 1024, got '{wrong}'" in done.stderr


def test_one_task_and_many_give_the_same_bits() -> None:
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(4, 20, 17, 17)).astype("f"), rng.normal(size=(33, 20, 3, 3)).astype("f")
    window = conv_window((17, 17), (3, 3), 1, 1, 1, 1)
    results = []
    for count in (1, 2, 3):
        launch.set_num_threads(count)
        results.append(conv(x, w, None, window))
    assert all(np.array_equal(results[0], other) for other in results[1:])
