"""Loading and launching of compiled kernels: threads, forks, wrong arguments."""

from __future__ import annotations

import ctypes
import importlib
import os
import subprocess
import sys
import threading
import tomllib
import weakref
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from retrograd import arange, use_kernels
from retrograd.kernels.compiled import conv, relu
from retrograd.kernels.compiled.machine import launch, numpy_abi, precompile
from retrograd.specs.geometry import conv_window


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = launch.get_num_threads()
    yield
    launch.set_num_threads(before)


@pytest.fixture(params=["machine code", "ctypes"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How kernels that are loaded in the test are launched: directly or through ctypes."""
    if request.param == "ctypes":
        monkeypatch.setattr(numpy_abi, "fault", lambda: "planted")
    return request.param


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
    """The launch raises an error; the next one starts the missing threads, and no thread twice."""
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
from retrograd.kernels.compiled import relu, set_num_threads
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
from retrograd.kernels.compiled import relu, sqrt
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


@pytest.mark.usefixtures("way")
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
    add_partials = launch.Kernel("convolution.direct.add_partials")["f"]
    with pytest.raises(TypeError, match=message):
        add_partials(*arguments)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("pointwise.mul", (_array(8),), "expected tasks and 4 arguments"),
        ("pointwise.mul", (_array(8), _array(8), 1.0), "expected tasks and 4 arguments"),
        ("pointwise.mul", (_array(8), [1.0]), "expected an ndarray, got another object"),
        ("pointwise.scale", (_array(8), "two"), "must be real number, not str"),
        (
            "pointwise.mul",
            (np.zeros(8), np.zeros(8)),
            "pointwise_mul_f: an array has another dtype than expected",
        ),
        ("pointwise.mul", (_array(8), np.zeros(8)), "an array has another dtype than expected"),
        ("pointwise.scale", (np.zeros(8, ">f4"), 2.0), "an array has another dtype than expected"),
    ],
)
def test_wrong_arguments_of_an_elementwise_launch(name: str, arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        launch.Kernel(name)["f"](*arguments)


@pytest.mark.usefixtures("way")
def test_a_dtype_that_is_another_object_is_the_same_dtype() -> None:
    named = np.dtype("f4", metadata={"unit": "m"})
    assert named is not np.dtype("f4")
    x = np.ones(8, named)
    np.testing.assert_array_equal(launch.Kernel("pointwise.scale")["f"](x, 2.0), np.full(8, 2.0))


@pytest.mark.usefixtures("way")
def test_an_elementwise_launch_makes_its_result() -> None:
    mul = launch.Kernel("pointwise.mul")["f"]
    x, y = np.asfortranarray(_array(60_000).reshape(200, 300)), np.asfortranarray(_array(60_000).reshape(200, 300) + 1)
    z = mul(x, y)
    np.testing.assert_array_equal(z, x * y)
    assert z.flags.f_contiguous and z.flags.owndata and not np.shares_memory(z, x)
    for first, second in ((x, y[:, :200]), (x, y.ravel()), (x, np.ascontiguousarray(y))):
        assert mul(first, second) is None  # not the same places in memory
    assert mul(x[::2], y[::2]) is None  # gaps
    long_steps = np.lib.stride_tricks.as_strided(x, (200, 1), (4, 4096))
    np.testing.assert_array_equal(mul(long_steps, long_steps), long_steps**2)  # the step of one element is no matter


@pytest.mark.usefixtures("way")
def test_an_elementwise_launch_leaks_nothing() -> None:
    mul, x, other = launch.Kernel("pointwise.mul")["f"], _array(64), _array(32)
    before = sys.getrefcount(x), sys.getrefcount(None)
    for _ in range(1000):
        mul(x, x)
        mul(x, other)
    assert sys.getrefcount(x) == before[0]
    result = weakref.ref(mul(x, x))
    assert result() is None  # nobody else holds it
    assert abs(sys.getrefcount(None) - before[1]) < 500


# ---- Maps: an element-wise kernel in both types


class _Product:
    """x * y by a map; ``others`` and ``declined`` list the calls of its Python functions, by shape."""

    def __init__(self) -> None:
        self.kernel = launch.Kernel("pointwise.mul")
        self.others: list[tuple[int, ...]] = []
        self.declined: list[tuple[int, ...]] = []
        self.map = launch.Map(self.kernel, self.other)
        self.map_and_rows = launch.Map(self.kernel, self.other, self)  # type: ignore[arg-type]

    def other(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        self.others.append(x.shape)
        found = self.kernel[x.dtype.char](x, y)
        return x * y if found is None else found

    def run(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        self.declined.append(x.shape)
        return x * y


@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (60, 700), (0, 3)])
def test_a_map_runs_the_kernel_of_each_type(shape: tuple[int, ...]) -> None:
    product, rng = _Product(), np.random.default_rng(0)
    for dtype in ("f", "d"):
        x, y = (np.asarray(rng.normal(size=shape), dtype) for _ in range(2))
        for _ in range(3):
            z = product.map.run(x, y)
            np.testing.assert_array_equal(z, x * y)
            assert z.dtype == dtype and z.shape == shape and z.flags.owndata
        np.testing.assert_array_equal(product.map.run(x.T, y.T), (x * y).T)
    assert product.others == [shape, shape]  # the first call of each type loads its kernel


def test_a_map_declines_other_layouts() -> None:
    product, x = _Product(), _array(12).reshape(3, 4)
    product.map_and_rows.run(x, x)
    for first, second in ((x, x[0]), (x[:, ::2], x[:, ::2]), (x, np.asfortranarray(x))):
        np.testing.assert_array_equal(product.map_and_rows.run(first, second), first * second)
        np.testing.assert_array_equal(product.map.run(first, second), first * second)
    assert product.declined == [(3, 4), (3, 2), (3, 4)]
    assert product.others == [(3, 4)] + [(3, 4), (3, 2), (3, 4)]
    integers = np.arange(12, dtype=np.int32).reshape(3, 4)
    with pytest.raises(TypeError, match="no kernel computes in int32"):
        product.map.run(integers, integers)
    with pytest.raises(TypeError, match="another dtype"):
        product.map.run(x, x.astype("d"))
    for wrong in ((x,), (), (x, x, x)):
        with pytest.raises(TypeError, match="argument"):
            product.map.run(*wrong)
    with pytest.raises(AttributeError, match="shape"):
        product.map.run([1.0], [2.0])
    np.testing.assert_array_equal(product.map.run(x, x), x * x)


def test_a_map_leaks_nothing() -> None:
    product, x, other = _Product(), _array(64), _array(32)[:, None]
    product.map.run(x, x)
    before = sys.getrefcount(x), sys.getrefcount(None)
    for _ in range(1000):
        product.map.run(x, x)
        product.map.run(x, other)
    assert sys.getrefcount(x) == before[0]
    result = weakref.ref(product.map.run(x, x))
    assert result() is None  # nobody else holds it
    assert abs(sys.getrefcount(None) - before[1]) < 500


def test_threads_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from retrograd.kernels.compiled import get_num_threads; print(get_num_threads())"
    environment = {**os.environ, "RETROGRAD_NUM_THREADS": "3"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "3"
    for wrong in ("many", "1025", "9" * 5000, "²"):
        monkeypatch.setenv("RETROGRAD_NUM_THREADS", wrong)
        with pytest.raises(ValueError, match=f"RETROGRAD_NUM_THREADS must be an integer from 1 to 1024, got '{wrong}'"):
            launch._default_threads()


@pytest.mark.parametrize(
    ("openmp", "threads"), [("1", 1), ("3", 3), ("3,2", 3), ("many", None), ("0", None), ("", None)]
)
def test_threads_from_openmps_variable(monkeypatch: pytest.MonkeyPatch, openmp: str, threads: int | None) -> None:
    """Joblib and others set it for their workers; unusable values are ignored, as by OpenMP."""
    monkeypatch.delenv("RETROGRAD_NUM_THREADS", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = launch._default_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", openmp)
    assert launch._default_threads() == (threads or cores)
    monkeypatch.setenv("RETROGRAD_NUM_THREADS", "5")
    assert launch._default_threads() == 5


def test_one_task_and_many_give_the_same_bits() -> None:
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(4, 20, 17, 17)).astype("f"), rng.normal(size=(33, 20, 3, 3)).astype("f")
    window = conv_window((17, 17), (3, 3), 1, 1, 1, 1)
    results = []
    for count in (1, 2, 3):
        launch.set_num_threads(count)
        results.append(conv(x, w, None, window))
    assert all(np.array_equal(results[0], other) for other in results[1:])


# ---- Changes in the internals of Python, NumPy or Numba


def test_what_is_installed_is_known() -> None:
    assert numpy_abi.fault() == ""


def _plant_other_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    words = numpy_abi._words
    monkeypatch.setattr(numpy_abi, "_words", lambda *place: words(*place)[::-1])


def _plant_other_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    words = numpy_abi._words
    monkeypatch.setattr(
        numpy_abi, "_words", lambda thing, *place: [0] if isinstance(thing, np.dtype) else words(thing, *place)
    )


@pytest.mark.parametrize(
    ("plant", "fault"),
    [
        (_plant_other_fields, "arrays have an unknown memory layout"),
        (_plant_other_dtypes, "arrays have an unknown memory layout"),
        (
            lambda patch: patch.setattr(numpy_abi, "_CORES", ("numpy.elsewhere",)),
            "NumPy's C interface is unknown",
        ),
        (lambda patch: patch.setattr(numpy_abi, "_CORES", ("numpy.linalg",)), "NumPy's C interface is unknown"),
        (lambda patch: patch.setattr(numpy_abi, "_INTERFACES", (0x03000000,)), "NumPy's C interface is unknown"),
    ],
    ids=["fields", "dtypes", "no module", "no table", "another table"],
)
def test_a_change_inside_numpy_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], plant: Callable[..., None], fault: str
) -> None:
    plant(monkeypatch)
    monkeypatch.setattr(numpy_abi, "fault", numpy_abi.fault.__wrapped__)
    launch._warn_slow.cache_clear()
    mul, x = launch.Kernel("pointwise.mul")["f"], _array(100)
    np.testing.assert_array_equal(mul(x, x), x * x)
    launch.Kernel("pointwise.sub")["f"]
    told = capsys.readouterr().err
    assert told.startswith(f"retrograd: {fault}") and told.count("\n") == 1  # once
    assert f"NumPy {np.__version__}): kernels are started through ctypes, with the same results" in told


def test_a_change_of_what_the_c_interface_makes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(prototype: object, order: int, dtype: object, subok: int) -> np.ndarray:
        return np.zeros((3, 5, 2), np.float32)  # as large, but its axes do not lie in the same order

    function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(other)
    monkeypatch.setattr(numpy_abi, "new_like", lambda: ctypes.cast(function, ctypes.c_void_p).value)
    assert numpy_abi.fault.__wrapped__() == "NumPy's C interface makes arrays with an unexpected layout"


_TRAIN = """
import retrograd as rg
from retrograd.kernels.compiled.machine import numpy_abi
numpy_abi._CORES = {cores}
rg.set_num_threads(2)
rg.manual_seed(0)
nn = rg.nn
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GELU(), nn.Flatten(), nn.LayerNorm(1152), nn.Linear(1152, 5))
optimizer = rg.optim.Adam(net.parameters())
x, labels = rg.randn(64, 3, 14, 14), rg.arange(64) % 5
for _ in range(3):
    loss = rg.nn.functional.cross_entropy(net(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print([float(p.array.sum(dtype="f8")).hex() for p in net.parameters()])
"""


def test_a_network_trains_through_ctypes_to_the_same_bits() -> None:
    def trained(cores: object) -> subprocess.CompletedProcess[str]:
        code = _TRAIN.format(cores=cores)
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)

    expected, found = trained(numpy_abi._CORES), trained(())
    assert found.stdout == expected.stdout and expected.stdout.count("0x") == 6
    assert "through ctypes" in found.stderr and "through ctypes" not in expected.stderr


def test_a_change_inside_numba_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the known versions and the workaround; the rest of the library runs on the textbook kernels."""
    from retrograd.kernels.compiled.machine import front_end

    launch.pool.compile()  # so that only the kernel is left to compile
    monkeypatch.delattr(front_end.ir_utils, "build_definitions")
    monkeypatch.setattr(launch.cache, "read", lambda name: None)
    message = (
        rf"could not compile pointwise_mul_f with Numba {version('numba')} and llvmlite .*"
        r"\(AttributeError: .*build_definitions.*"
        r"install a supported version of Numba, 0.63 to 0.68, or call retrograd.use_kernels\('textbook'\)"
    )
    handle = launch.Kernel("pointwise.mul")
    for act in (lambda: handle["f"], lambda: precompile.Compilation(["pointwise.mul"]).finish()):
        with pytest.raises(RuntimeError, match=message):
            act()
    with use_kernels("textbook"):
        assert arange(4).cumsum(0).tolist() == [0, 1, 3, 6]


def test_a_module_that_numba_has_no_longer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("numba.core.funcdesc")
    monkeypatch.setitem(sys.modules, "numba.core.funcdesc", None)
    monkeypatch.delattr("numba.core.funcdesc")
    for name in ("compiler", "front_end"):
        monkeypatch.delitem(sys.modules, f"retrograd.kernels.compiled.machine.{name}", raising=False)
    monkeypatch.setattr(launch.cache, "read", lambda name: None)
    with pytest.raises(RuntimeError, match=r"could not compile .*\(ModuleNotFoundError: .*supported version of Numba"):
        launch.Kernel("pointwise.mul")["f"]


def test_the_versions_of_numba_that_are_known() -> None:
    """The first is the one that pyproject.toml requires; the last is not older than the one installed."""
    project = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text(encoding="utf-8"))
    (needed,) = (text for text in project["project"]["dependencies"] if text.startswith("numba"))
    assert f">={launch.NUMBA[0]}" in needed

    def number(text: str) -> list[int]:
        return [int(part) for part in text.split(".")[:2]]

    assert number(version("numba")) <= number(launch.NUMBA[1])


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.bool_, np.float16])
def test_a_type_without_kernels_is_refused(dtype: type) -> None:
    from retrograd import kernels

    for name, call in (("sum", lambda x: kernels.sum(x, (0,), False)), ("exp", kernels.exp)):
        with pytest.raises(TypeError, match=rf"{name}.*: no kernel computes in {np.dtype(dtype)}; convert"):
            call(np.ones((40, 3), dtype))
