"""Kernels that are found by the layouts of their arrays and by their options."""

from __future__ import annotations

import sys
import tracemalloc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from retrograd.kernel_set import kernels, use_kernels
from retrograd.kernels.compiled import pointwise
from retrograd.kernels.compiled.machine import launch, numpy_abi
from retrograd.kernels.compiled.machine.plan_tracing import Planned
from retrograd.kernels.compiled.machine.prepared import RESULT, Argument, FromPlans, Prepared, prepared
from retrograd.kernels.compiled.reduction import unless_finite
from retrograd.specs.convolution_options import AUTO
from retrograd.specs.geometry import conv_window, pool_window


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = launch.get_num_threads()
    yield
    launch.set_num_threads(before)


# ---- Launches that a function remembers itself ----------------------------------------------------------------------


class _Products:
    """x * y by a prepared launch; ``calls`` counts those of unknown layouts, which compute a wrong sign to be told."""

    def __init__(self) -> None:
        self.calls = 0
        self.prepared = Prepared(self.other)

    def other(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        self.calls += 1
        mul = launch.Kernel("pointwise.mul")[x.dtype.char]
        first, second = Argument(0), Argument(1)
        tasks = -(-x.size // 8192)
        self.prepared.remember((x, y), mul, tasks, x.shape, (first, second, RESULT, x.size))
        return -(x * y)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shape", [(7,), (1, 1), (3, 5), (60, 700), (2, 1, 3, 1, 2)])
def test_a_prepared_launch(shape: tuple[int, ...], threads: int) -> None:
    launch.set_num_threads(threads)
    products, rng = _Products(), np.random.default_rng(0)
    x, y = rng.normal(size=shape).astype("f"), rng.normal(size=shape).astype("f")
    np.testing.assert_array_equal(products.prepared.run(x, y), -(x * y))
    for first, second in ((x, y), (y, x), (x, x), (x.copy(), y.copy())):
        z = products.prepared.run(first, second)
        np.testing.assert_array_equal(z, first * second)
        assert z.flags.c_contiguous and z.flags.owndata and z.shape == shape and z.dtype == np.float32
    assert products.calls == 1


def test_other_layouts_are_not_taken_for_prepared_ones() -> None:
    products, x = _Products(), np.arange(1.0, 13.0, dtype="f").reshape(3, 4)
    products.prepared.run(x, x)
    wide = np.zeros((3, 8), "f")
    others = [x.ravel(), x.reshape(4, 3), x.reshape(3, 4, 1), x.astype("d"), np.asfortranarray(x), wide[:, ::2], x[:2]]
    for known, other in enumerate(others, 1):
        assert products.calls == known
        np.testing.assert_array_equal(products.prepared.run(other, other), -(other * other))
    integers = np.arange(12, dtype=np.int32).reshape(3, 4)  # the strides of float32
    with pytest.raises(TypeError, match="no kernel computes in int32"):
        products.prepared.run(integers, integers)
    for wrong in ((x,), (), (x, x, x)):
        with pytest.raises(TypeError, match="argument"):
            products.prepared.run(*wrong)
    with pytest.raises(AttributeError, match="dtype"):
        products.prepared.run([1.0], [2.0])
    np.testing.assert_array_equal(products.prepared.run(x, x), x * x)


def test_a_full_table_of_prepared_launches_forgets_old_ones() -> None:
    products = _Products()
    count, most = 3000, 4 * 512
    for n in range(1, count + 1):
        products.prepared.run(x := np.full(n, 2.0, "f"), x)
    assert products.calls == count and len(products.prepared._kept) < most
    for n in range(1, count + 1):
        x = np.full(n, 2.0, "f")
        assert abs(products.prepared.run(x, x)[-1]) == 4
    x = np.full(count, 3.0, "f")
    np.testing.assert_array_equal(products.prepared.run(x, x), np.full(count, 9.0, "f"))  # the newest is there


def test_a_prepared_launch_leaks_nothing() -> None:
    products, x = _Products(), np.random.default_rng(0).normal(size=64).astype(np.float32)
    products.prepared.run(x, x)
    (owner,) = products.prepared._kept.values()
    before = sys.getrefcount(x), sys.getrefcount(owner)
    for _ in range(1000):
        products.prepared.run(x, x)
    assert (sys.getrefcount(x), sys.getrefcount(owner)) == before
    result = weakref.ref(products.prepared.run(x, x))
    assert result() is None  # nobody else holds it


@pytest.mark.parametrize("shape", [(), (3, 5)])
def test_a_prepared_launch_of_several_results(shape: tuple[int, ...]) -> None:
    """They are a tuple of new arrays, which nobody else holds."""
    g, x, y = (np.asarray(np.random.default_rng(seed).normal(size=shape), "f") for seed in range(3))
    pointwise.KERNELS["mul_grad"](g, x, y, True, True)  # prepares it
    before = [sys.getrefcount(each) for each in (g, x, y)]
    for _ in range(100):
        results = pointwise.KERNELS["mul_grad"](g, x, y, True, True)
    assert type(results) is tuple and sys.getrefcount(results) == 2
    for result, expected in zip(results, (g * y, g * x), strict=True):
        np.testing.assert_array_equal(result, expected)
        assert result.flags.owndata and result.flags.writeable
    assert [sys.getrefcount(each) for each in (g, x, y)] == before
    held = [weakref.ref(each) for each in results]
    del results, result
    assert [each() for each in held] == [None, None]
    only = pointwise.KERNELS["mul_grad"](g, x, y, False, True)
    assert only[0] is None
    np.testing.assert_array_equal(only[1], g * x)


@pytest.mark.parametrize(
    "shapes", [((3, 5), (5,)), ((3, 5), (3, 1)), ((1,), (7,)), ((2, 1, 5), (3, 1)), ((0, 3), (3,))]
)
@pytest.mark.parametrize(("name", "exact"), [("add", np.add), ("mul", np.multiply), ("lt", np.less)])
def test_prepared_broadcasts(name: str, exact: np.ufunc, shapes: tuple[tuple[int, ...], ...]) -> None:
    """The first call with some layouts prepares the others; arrays that must be copied are not mistaken for these."""
    run = pointwise.KERNELS[name]
    x, y = (np.asarray(np.random.default_rng(at).normal(size=shape), "f") for at, shape in enumerate(shapes))
    for first, second in ((x, y), (x, y), (x.copy(), y.copy()), (y, x), (y, x), (x.astype("d"), y.astype("d")), (x, y)):
        found = run(first, second)
        np.testing.assert_array_equal(found, exact(first, second))
        assert found.dtype == exact(first, second).dtype
    wide = np.stack([x, x], -1)[..., 0]
    for _ in range(2):
        np.testing.assert_array_equal(run(wide, y), exact(x, y))


def test_without_known_fields_nothing_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_abi, "fault", lambda: "planted")
    products, x = _Products(), np.random.default_rng(0).normal(size=64).astype(np.float32)
    for calls in (1, 2):
        np.testing.assert_array_equal(products.prepared.run(x, x), -(x * x))
        assert products.calls == calls and not products.prepared._kept


# ---- Kernels that are prepared from their plans ---------------------------------------------------------------------

_MUL, _ADD = launch.Kernel("pointwise.mul"), launch.Kernel("pointwise.add")


class _Counted:
    """A prepared kernel, with the number of calls of its Python function that did not only make a plan."""

    def __init__(self, function: Any) -> None:
        self.calls = 0

        def counted(*given: Any) -> Any:
            self.calls += type(given[0]) is not Planned
            return function(*given)

        self.run = prepared(counted).direct.run  # type: ignore[attr-defined]


def _random(*shape: int, dtype: str = "f", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def _scaled(x: np.ndarray, factor: float, power: int = 1, name: str = "", last: Any = None) -> np.ndarray:
    """factor x to the power 1, 2 or 3, and the same with the sign of a name, in several launches."""
    start = np.empty_like(x)
    start[...] = factor
    for _ in range(power):
        y = np.empty_like(x)
        _MUL[x.dtype.char](-(-x.size // 8192), start, x, y, x.size)
        start = y
    return start


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (0, 4), (2, 3, 4)])
def test_a_kernel_is_prepared_after_some_calls(shape: tuple[int, ...], dtype: str) -> None:
    """Its launches then run in order on new arrays, with the same bits, for any elements."""
    kernel = _Counted(_scaled)
    for seed in range(9):
        x = np.asarray(_random(*shape, dtype=dtype, seed=seed))
        y = kernel.run(x, 0.5, 3)
        np.testing.assert_array_equal(y, _scaled(x, 0.5, 3))
        assert y.dtype == x.dtype and y.flags.writeable
    assert kernel.calls < 6 or not x.size
    transposed = _random(4, 3, dtype=dtype).T
    for _ in range(9):
        y = kernel.run(transposed, 0.5, 3)
        np.testing.assert_array_equal(y, _scaled(transposed, 0.5, 3))
        assert y.strides == transposed.strides
    assert kernel.calls < 15


def test_options_are_told_apart() -> None:
    """1, 1.0 and True are different options, as are 0.0 and -0.0; equal ones need not be identical."""
    kernel, x = _Counted(_scaled), _random(5)
    given: list[tuple[Any, ...]] = [
        *((0.0,), (-0.0,), (2.0,), (3.0,), (float("nan"),), (2.0, 1), (2.0, True), (2.0, 2)),
        *((2.0, 2, "a"), (2.0, 2, "b"), (2.0, 2, "a", None), (2.0, 2, "a", 1), (2.0, 2, "a", 1.0), (2.0, 2, "a", True)),
        *(
            (2.0, 2, "a", ()),
            (2.0, 2, "a", (1,)),
            (2.0, 2, "a", (1, 2)),
            (2.0, 2, "a", (1, 2.0)),
            (2.0, 2, "a", ("b",)),
        ),
    ]
    for _ in range(9):
        for options in given:
            y = kernel.run(x, *options)
            np.testing.assert_array_equal(y, expected := _scaled(x, *options))
            assert (np.signbit(y) == np.signbit(expected)).all()
    known = kernel.calls
    assert known <= 6 * len(given)
    for _ in range(9):
        kernel.run(x, float("2.5") - 0.5, int("2"), "".join(["a"]), (int("1"), float("2")))
    assert kernel.calls == known
    number = int("9" * 40)
    for _ in range(9):  # more than 64 bits
        kernel.run(x, 2.0, 1, "a", number)
        kernel.run(x, 2.0, 1, "a", number + 1)
    assert kernel.calls - known <= 10


def test_tuples_of_arrays() -> None:
    """Which arguments are tuples counts as well as what is in them."""

    def joined(*given: Any) -> np.ndarray:
        leaves = [each for value in given for each in (value if isinstance(value, tuple) else (value,))]
        model = next(each for each in leaves if isinstance(each, np.ndarray))
        y = np.empty_like(model)
        y[...] = sum(2.0**at for at, value in enumerate(given) if isinstance(value, tuple))
        for each in leaves:
            if isinstance(each, np.ndarray):
                z = np.empty_like(y)
                _ADD[y.dtype.char](1, y, each, z, y.size)
                y = z
        return y

    kernel = _Counted(joined)
    a, b, c = (_random(6, seed=seed) for seed in range(3))
    ways: list[tuple[Any, ...]] = [
        *((a, b, c), ((a, b), c), (a, (b, c)), ((a, b, c),), ((a,), b, c), ((a,), (b,), (c,)), ((), (a, b), c)),
        *((a, b), ((a, b),), ((a, 1.0, None), b), (tuple([a] * 100), b)),
    ]
    for _ in range(9):
        for way in ways:
            np.testing.assert_array_equal(kernel.run(*way), joined(*way))


def test_what_is_not_prepared() -> None:
    """Large arrays, results that are views of arguments, unhashable options, objects that compare by value."""

    def result(x: np.ndarray, option: Any) -> Any:
        return x[1:] if option == "view" else _scaled(x, 2.0)

    kernel = _Counted(result)
    small, large = _random(8), _random(300_000)
    cases = [(small, "view"), (small, [1]), (small, {}), (small, object()), (large, 1)]
    for number, (x, option) in enumerate(cases):
        for _ in range(9):
            y = kernel.run(x, option)
            np.testing.assert_array_equal(y, result(x, option))
        assert kernel.calls == 9 * (number + 1)
    with pytest.raises(TypeError, match="argument"):
        kernel.run(small)
    with pytest.raises(TypeError, match="keyword"):
        kernel.run(x=small, option=1)


def test_entries_hold_no_memory() -> None:
    """They keep the layouts of results and of scratch memory."""
    kernel, x = FromPlans(lambda x: _scaled(_scaled(x, 2.0), 3.0)), _random(200_000)
    kernel.run(x)  # machine code
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(9):
            np.testing.assert_array_equal(kernel.run(x), x * np.float32(2) * np.float32(3))
        assert tracemalloc.get_traced_memory()[0] - before < x.nbytes // 4
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (0, 4)])
def test_a_kernel_that_changes_an_argument(shape: tuple[int, ...], dtype: str) -> None:
    for seed in range(9):
        y, x = _random(*shape, dtype=dtype, seed=seed), _random(*shape, dtype=dtype, seed=seed + 100)
        expected, before = y + x, sys.getrefcount(y)
        assert kernels.accumulate(y, x) is None
        np.testing.assert_array_equal(y, expected)
        assert sys.getrefcount(y) == before
        kernels.accumulate(y, y)
        np.testing.assert_array_equal(y, expected + expected)


def test_a_prepared_kernel_leaks_nothing() -> None:
    kernel, x, number = _Counted(_scaled), _random(8), 12345.75
    for _ in range(9):
        kernel.run(x, number, 2)
    options = "an option", 2**70
    for _ in range(9):
        kernel.run(x, number, 2, *options)
    before = [sys.getrefcount(each) for each in (x, number, *options)]
    for _ in range(1000):
        kernel.run(x, number, 2)
        kernel.run(x, number, 2, *options)
    assert [sys.getrefcount(each) for each in (x, number, *options)] == before
    result = weakref.ref(kernel.run(x, number, 2))
    assert result() is None


@pytest.mark.parametrize("dtype", ["f", "d"])
def test_a_number_that_must_be_finite(dtype: str) -> None:
    """Where it is not, the Python function computes the result; nothing else holds what the launches made."""

    def function(x: np.ndarray, factor: float) -> np.ndarray:
        y = _scaled(x, factor, 2)
        unless_finite(y, _fill, y)
        return y

    kernel = _Counted(function)
    x = _random(5, dtype=dtype)
    for _ in range(9):
        np.testing.assert_array_equal(kernel.run(x, 3.0), _scaled(x, 3.0, 2))
    known = kernel.calls
    assert known < 6
    before = sys.getrefcount(x)
    for number, value in enumerate((np.inf, -np.inf, np.nan, np.finfo(x.dtype).max), 1):
        wrong = x.copy()
        wrong[3] = value
        for _ in range(50):
            y = kernel.run(wrong, 3.0)
            np.testing.assert_array_equal(y, np.full(5, -1.0))
        assert kernel.calls == known + 50 * number and sys.getrefcount(wrong) == 2
        np.testing.assert_array_equal(kernel.run(x, 3.0), _scaled(x, 3.0, 2))
    assert kernel.calls == known + 200 and sys.getrefcount(x) == before


def _fill(y: np.ndarray) -> None:
    y[...] = -1.0


@pytest.mark.parametrize(("channels", "extent", "taps"), [((1, 6), 12, 5), ((6, 4), 8, 3), ((4, 8), 7, 1)])
def test_prepared_convolutions(channels: tuple[int, int], extent: int, taps: int) -> None:
    """As by their Python functions, also with infinite and NaN elements."""
    window = conv_window((extent, extent), (taps, taps))
    x, w = _random(2, channels[0], extent, extent), _random(channels[1], channels[0], taps, taps)
    g = _random(2, channels[1], *window.output)
    w_inf, x_nan = w.copy(), x.copy()
    w_inf[1, 0, 0, 0], x_nan[1, 0, 0, 0] = np.inf, np.nan
    calls = {"conv": [(x, w), (x, w_inf)], "conv_input_grad": [(g, w), (g, w_inf)]}
    for name, operands in calls.items():
        for _ in range(9):
            for arrays in operands:
                expected = kernels.found(name)(*arrays, None, window, AUTO)
                _same(getattr(kernels, name)(*arrays, None, window, AUTO), expected)
    for _ in range(9):
        for seen in (x, x_nan):
            expected = kernels.found("conv_weight_grad")(seen, g, window, AUTO)
            _same(kernels.conv_weight_grad(seen, g, window, AUTO), expected)


@pytest.mark.parametrize("threads", [1, 3])
def test_prepared_convolutions_with_large_scratch_memory(threads: int) -> None:
    launch.set_num_threads(threads)
    window = conv_window((21, 17), (3, 3), (1, 1), 1)
    x, w, g = _random(3, 40, 21, 17), _random(33, 40, 3, 3), _random(3, 33, *window.output)
    calls = {"conv": (x, w, None), "conv_input_grad": (g, w, None), "conv_weight_grad": (x, g)}
    for name, given in calls.items():
        for _ in range(7):
            _same(getattr(kernels, name)(*given, window, AUTO), kernels.found(name)(*given, window, AUTO))


def _same(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(found, expected)
    assert found.squeeze().strides == expected.squeeze().strides  # of axes with several elements


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize(
    ("name", "exact"), [("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide)]
)
def test_arithmetic_in_place(name: str, exact: np.ufunc, dtype: str) -> None:
    """The operand may overlap the result, as in NumPy, and the result may have any strides."""
    memory, other = _random(9, 8, dtype=dtype), _random(4, 1, dtype=dtype, seed=1)
    number = np.asarray(0.3, dtype)
    cases: list[Any] = [
        (lambda m: (m[1:, 0], m[:-1, 0])),
        (lambda m: (m[:4], m[1:5])),
        (lambda m: (m[:4, ::2], other)),
        (lambda m: (m[:4].T, number)),
        (lambda m: (m[::-1], m)),
        (lambda m: (m, m)),
        (lambda m: (m[:0], number)),
        (lambda m: (m[2, 3, ...], number)),
    ]
    for pair in cases:
        for _ in range(9):
            expected, found = memory.copy(), memory.copy()
            y, x = pair(expected)
            exact(y, x.copy(), out=y)
            kernels.arithmetic(*pair(found), name)
            np.testing.assert_array_equal(found, expected)


def test_scratch_memory_for_more_threads() -> None:
    """What was prepared for one thread has no memory for others, so it is forgotten when their number changes."""
    launch.set_num_threads(2)  # forgets what other tests have prepared
    q = _random(2, 6, 40, 8)
    expected = None
    for threads in (1, 4, 2, 1):
        launch.set_num_threads(threads)
        for _ in range(9):
            y, _ = kernels.attention(q, q, q, None, 0.5, True)
            expected = y if expected is None else expected
            np.testing.assert_array_equal(y, expected)
        prepared_of = kernels.found("attention").direct
        (owner,) = prepared_of._kept.values()
        assert len(owner[3]) == 1  # its launches
        scratch = [each.nbytes for each in owner[1] if each.dtype == np.uint8]
        assert all(size % threads == 0 for size in scratch) and scratch


def test_flags_after_the_last_array_are_left_out() -> None:
    """Calls with numbers and with flags are found again, whether a result is not needed or all are."""
    calls = 0

    def both(x: np.ndarray, factor: float, first: bool, second: bool) -> tuple[Any, Any]:
        nonlocal calls
        calls += type(x) is not Planned
        return _scaled(x, factor), _scaled(x, factor + 1.0)

    run, x = FromPlans(both, True).run, _random(5)
    for flags in ((True, True), (False, True), (True, False)):
        for _ in range(9):
            for found, expected in zip(run(x, 2.0, *flags), (x * 2, x * 3), strict=True):
                np.testing.assert_array_equal(found, expected.astype("f"))
    assert calls <= 15


_LAYOUTS = [(2, 3, 4), (1, 7, 1), (5, 2, 1)]
_CALLS: dict[str, Any] = {
    "sum": lambda x: [(x, (1,), False), (x, (0, 2), True)],
    "mean": lambda x: [(x, (0, 1, 2), False), (x, (2,), True)],
    "prod": lambda x: [(x, (1,), False)],
    "amax": lambda x: [(x, (0,), True), (x, (1, 2), False)],
    "amin": lambda x: [(x, (0,), False)],
    "norm": lambda x: [(x, 1, (1,), False), (x, 2, (0, 2), True)],
    "max": lambda x: [(x, 1), (x, 0)],
    "cumsum": lambda x: [(x, 1, False), (x, 1, True)],
    "softmax": lambda x: [(x, 1), (x, 2)],
    "log_softmax_grad": lambda x: [(x, -(x**2), 1)],
    "ties": lambda x: [(x.min(1, keepdims=True), x, x.max(1, keepdims=True))],
    "element_loss": lambda x: [
        ("squared_error", (x, x[::-1].copy()), (), 0.25),
        ("squared_error", (x, x * 2), (), None),
    ],
    "moments": lambda x: [(x, (1,), 0.5), (x, (0, 2), 1.0)],  # results in one array
    "batch_norm": lambda x: [(x, np.ones_like(x[0, :, 0]), np.ones_like(x[0, :, 0]), 0.1)],
    "max_pool_values": lambda x: [(x, pool_window(x.shape[2:], 1))],  # scratch for each thread
    "max_pool": lambda x: [(x, pool_window(x.shape[2:], x.shape[2]))],
    "element_loss_grad": lambda x: [("squared_error", 0, np.asarray(x.sum()), (x, x * 2), (), 0.25)],
}


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("name", [*_CALLS])
def test_prepared_kernels_compute_the_same(name: str, dtype: str) -> None:
    """With the bits of the first call, for other elements in each call, and as the textbook kernel computes it."""

    def as_tuple(found: Any) -> tuple[np.ndarray, ...]:
        return found if isinstance(found, tuple) else (found,)

    for shape in _LAYOUTS:
        for order in ("C", "F"):
            for seed in range(7):
                x = np.asarray(_random(*shape, dtype=dtype, seed=seed), order=order)
                for given in _CALLS[name](x):
                    found = as_tuple(getattr(kernels, name)(*given))
                    with use_kernels("textbook"):
                        expected = as_tuple(getattr(kernels, name)(*given))
                    for y, exact in zip(found, expected, strict=True):
                        np.testing.assert_allclose(y, exact, rtol=1e-5 if dtype == "f" else 1e-12, atol=1e-6)
                        assert y.dtype == exact.dtype and y.shape == exact.shape
