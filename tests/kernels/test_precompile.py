"""Compiling ahead in several processes: the cache that they fill, and failures of a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from retrograd.kernels.compiled import warmup
from retrograd.kernels.compiled.machine import cache, launch, precompile
from retrograd.kernels.compiled.machine.launch import Kernel
from retrograd.kernels.compiled.machine.plan import plan_of
from retrograd.kernels.compiled.machine.precompile import Compilation, compile_deferred, compiling_deferred

PATHS = (
    "pointwise.sqrt",
    "pointwise.add",
    "pointwise.scale",
    "pointwise.relu",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty compile cache, here and in helper processes; two threads."""
    begun: set[str] = set()
    monkeypatch.setenv("RETROGRAD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(precompile, "_WORTH_A_HELPER", 1)
    for module in (launch, precompile):
        monkeypatch.setattr(module, "begun", begun)  # what this process has compiled is in another cache
    before = launch.get_num_threads()
    launch.set_num_threads(2)
    cache._place.cache_clear()
    yield tmp_path / cache.key()
    cache._place.cache_clear()
    launch.set_num_threads(before)


@pytest.fixture
def helpers(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[str]]:
    """The helper processes that were started."""
    started: list[subprocess.Popen[str]] = []
    start = precompile._start

    def noted() -> subprocess.Popen[str]:
        started.append(start())
        return started[-1]

    monkeypatch.setattr(precompile, "_start", noted)
    return started


def _stored(folder: Path) -> set[str]:
    """The kernels in a cache folder, which also contains the functions of the thread pool."""
    return {path.name for path in folder.iterdir() if not path.name.startswith("pool_")}


def _symbols(dtypes: str, paths: tuple[str, ...] = PATHS) -> set[str]:
    return {Kernel(path).symbol(dtype) for path in paths for dtype in dtypes}


def test_all_are_compiled_and_only_once(folder: Path, helpers: list[subprocess.Popen[str]]) -> None:
    calls: list[tuple[int, int]] = []
    paths = PATHS[:2]
    Compilation(paths, "fd").finish(lambda *call: calls.append(call))
    assert _stored(folder) == _symbols("fd", paths)
    assert calls == [(calls[0][0], 4), *((done, 4) for done in range(calls[0][0] + 1, 5))]
    assert [helper.poll() is not None for helper in helpers] == [True]
    Compilation((), doubles=PATHS[2:3]).finish(lambda *call: None)
    assert _stored(folder) == _symbols("fd", paths) | _symbols("d", PATHS[2:3])
    again = Compilation(paths, "fd")
    again.finish(lambda *call: calls.append(call))
    assert len(helpers) == 1 and again.total == 0 and calls[-1] == (4, 4)


def test_helpers_compile_before_the_calling_process_does(
    folder: Path, helpers: list[subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    compilation = Compilation(PATHS)
    for thread in compilation._threads:
        thread.join(timeout=120)
    assert _stored(folder) == _symbols("f") and compilation.done == compilation.total == len(PATHS)
    monkeypatch.setattr(precompile, "_compile", None)
    compilation.finish()


def test_helper_process_compiles(folder: Path) -> None:
    helper = precompile._start()
    assert helper is not None
    answer, _ = helper.communicate("pointwise.sqrt f\npointwise.add f\n", timeout=120)
    assert (answer, helper.returncode) == ("pointwise.sqrt\npointwise.add\n", 0)
    assert _stored(folder) == {"pointwise_sqrt_f", "pointwise_add_f"}


@pytest.mark.parametrize("end", ["exit()", "import sys; sys.stdin.readline(); exit(1)"], ids=["at once", "at work"])
def test_helper_process_that_dies(folder: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    pipe = subprocess.PIPE
    monkeypatch.setattr(
        precompile, "_start", lambda: subprocess.Popen([sys.executable, "-c", end], stdin=pipe, stdout=pipe, text=True)
    )
    Compilation(PATHS).finish()
    missing = _symbols("f") - _stored(folder)
    assert len(missing) <= 1  # what it had taken
    for path in PATHS:
        Kernel(path)["f"]
    assert _stored(folder) >= _symbols("f")


def test_no_helper_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/python")
    Compilation(PATHS).finish()
    assert _stored(folder) == _symbols("f")
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert precompile._start() is None


def test_one_thread_starts_no_process(folder: Path, helpers: list[subprocess.Popen[str]]) -> None:
    launch.set_num_threads(1)
    Compilation(PATHS[:2]).finish()
    assert not helpers and len(_stored(folder)) == 2


@pytest.mark.usefixtures("folder")
def test_interrupt_ends_the_helper_processes(
    helpers: list[subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(kernel: Kernel, dtype: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(precompile, "_compile", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Compilation(PATHS).finish()
    assert [helper.poll() is not None for helper in helpers] == [True]


def test_warmup_loads_what_it_compiled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handles = [Kernel(path) for path in PATHS[:2]]
    monkeypatch.setattr(precompile, "registered", lambda: handles)
    assert warmup("f") == 2
    assert [list(handle) for handle in handles] == [["f"], ["f"]]
    assert _stored(folder) >= {"pointwise_sqrt_f", "pointwise_add_f"}


# ---- Plans of kernels that are not compiled --------------------------------------------------------------------------


def _scaled(handle: Kernel, x: np.ndarray, by: float) -> np.ndarray:
    y = np.empty_like(x)
    handle[x.dtype.char](2, x, y, x.size, by)
    return y


def test_a_plan_needs_no_machine_code(folder: Path) -> None:
    handle, x = Kernel("pointwise.scale"), np.linspace(-3, 2, 77, dtype=np.float32)
    plan = plan_of(_scaled, (handle, x, 1.5), {})
    assert not folder.exists() or not _stored(folder)
    assert not handle and plan.launches[0].name == "pointwise_scale_f"
    np.testing.assert_array_equal(plan.run(x), x * np.float32(1.5))
    assert _stored(folder) == {"pointwise_scale_f"} and list(handle) == ["f"]
    np.testing.assert_array_equal(plan.run(x, by=-2.0), x * np.float32(-2))  # the plan is still of the first kind
    assert plan_of(_scaled, (Kernel("pointwise.scale"), x, 1.5), {}).launches[0].function is not handle["f"]


def test_a_plan_of_a_missing_kernel_checks_its_arguments(folder: Path) -> None:
    handle = Kernel("pointwise.scale")
    with pytest.raises(TypeError, match="an array has another dtype"):
        plan_of(lambda x: handle["d"](1, x, np.empty_like(x), x.size, 1.0), (np.ones(3, np.float32),), {})
    with pytest.raises(TypeError, match="expected tasks and 4 arguments"):
        plan_of(lambda x: handle["f"](1, x, np.empty_like(x)), (np.ones(3, np.float32),), {})


def test_deferred_kernels_are_compiled_together(folder: Path, helpers: list[subprocess.Popen[str]]) -> None:
    x = np.ones(5, np.float32)
    plans = [plan_of(_scaled, (Kernel("pointwise.scale"), each, 2.0), {}) for each in (x, x.astype(np.float64))]
    compile_deferred(plans)
    assert len(helpers) == 1 and _stored(folder) == _symbols("fd", ("pointwise.scale",))
    compile_deferred(plans)
    assert len(helpers) == 1  # the cache has them


def test_helpers_compile_while_plans_are_made(folder: Path, helpers: list[subprocess.Popen[str]]) -> None:
    handle = Kernel("pointwise.scale")
    with compiling_deferred():
        assert len(helpers) == 1
        plan_of(_scaled, (handle, np.ones(5, np.float32), 3.0), {})
    assert _stored(folder) == {"pointwise_scale_f"} and helpers[0].poll() is not None
    assert not launch.waiting
    with compiling_deferred():
        plan_of(_scaled, (handle, np.ones(6, np.float32), 3.0), {})
    assert [helper.poll() is not None for helper in helpers] == [True, True]


def test_what_was_needed_at_once_is_not_compiled_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = Kernel("pointwise.scale")
    monkeypatch.setattr(precompile, "_start", lambda: None)
    with compiling_deferred():
        plan_of(_scaled, (handle, np.ones(5, np.float32), 3.0), {})
        handle.loaded("f")
        monkeypatch.setattr(precompile, "_compile", None)
    assert _stored(folder) == {"pointwise_scale_f"}


def test_few_kernels_start_no_process(
    folder: Path, helpers: list[subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precompile, "_WORTH_A_HELPER", 3)
    Compilation(PATHS[:3]).finish()
    assert not helpers and _stored(folder) == _symbols("f", PATHS[:3])
    Compilation(PATHS, "d").finish()
    assert len(helpers) == 1
