"""Matrix products against the oracle."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from comparison import FORMULAS, assert_close, assert_equal, assert_sums, clamped, run
from kernels.sets import textbook_at_night
from retrograd.formulas import POINTWISE
from retrograd.kernel_set import kernels
from retrograd.kernels.compiled import thin_product
from retrograd.kernels.compiled.machine.launch import get_num_threads, set_num_threads
from retrograd.kernels.compiled.machine.microkernel import registers
from retrograd.kernels.compiled.machine.prepared import Prepared
from strategies import CHANNELS, DTYPES, LAYOUTS, Source, broadcastable, examples, many_examples, numbers, sources

matmul = import_module("retrograd.kernels.compiled.matmul")  # the package has a function of that name
extents = st.one_of(st.integers(0, 30), st.sampled_from(CHANNELS))


@st.composite
def products(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of two operands; leading axes broadcast, any extent may be 0."""
    a, b = draw(st.one_of(st.just(((), ())), broadcastable().map(lambda pair: (pair[0][-3:], pair[1][-3:]))))
    a, b = (tuple(min(extent, 3) for extent in lead) for lead in (a, b))
    M, K, N = draw(extents), draw(extents), draw(extents)
    while M * K * 3 ** max(len(a), len(b)) > 6000:
        M = M // 2
    return (*a, M, K), (*b, K, N)


def check(kernels: Any, source: Source, a: tuple[int, ...], b: tuple[int, ...], bias: bool = False) -> None:
    x, y, z = source.arrays(a, b, b[-1:])
    c = run(kernels.matmul, x, y, z) if bias else run(kernels.matmul, x, y)
    assert_sums(c, naive.matmul(x, y, z if bias else None), a[-1] + 1)
    (residual,) = source.arrays(c.shape)
    for low, high, added in ((0.0, np.inf, None), (-0.25, 0.5, residual), (-np.inf, np.inf, residual)):
        found = run(kernels.matmul_clamp, x, y, z if bias else None, added, low, high)
        assert_equal(found, clamped(c, added, low, high))
        formula, numbers = FORMULAS[source.rng.integers(len(FORMULAS))]
        then = POINTWISE[formula], numbers
        followed = run(kernels.matmul_clamp, x, y, z if bias else None, added, low, high, *then)
        assert_equal(followed, getattr(kernels, formula)(found, *numbers))


@examples(60)
@given(operands=products(), source=sources, bias=st.booleans())
def test_matmul(kernel_set: Any, operands: tuple[Any, Any], source: Source, bias: bool) -> None:
    check(kernel_set, source, *operands, bias)


@pytest.mark.nightly
@many_examples(2000)
@given(operands=products(), source=sources, bias=st.booleans())
def test_matmul_nightly(kernel_set: Any, operands: tuple[Any, Any], source: Source, bias: bool) -> None:
    check(kernel_set, source, *operands, bias)


@pytest.mark.parametrize("dtype", DTYPES)
def test_row_and_column_counts(kernel_set: Any, dtype: type) -> None:
    """Every number of rows up to 30 with every second number of columns across the vector widths."""
    source = Source(np.random.default_rng(0), dtype, ("contiguous",))
    for rows in range(1, 31):
        for columns in CHANNELS[rows % 2 :: 2]:
            check(kernel_set, source, (rows, 3), (3, columns), bias=columns % 2 == 0)


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("first", ["contiguous", "fortran", "every_other", "reversed", "inside", "expanded"])
@pytest.mark.parametrize("second", ["contiguous", "fortran", "every_other", "reversed", "inside", "expanded"])
def test_layouts(kernel_set: Any, first: str, second: str, dtype: type) -> None:
    source = Source(np.random.default_rng(0), dtype, (first, second, "every_other"))
    check(kernel_set, source, (7, 19), (19, 33), bias=True)
    check(kernel_set, source, (2, 9, 5), (2, 5, 6))
    check(kernel_set, source, (1, 20), (20, 1), bias=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrices_times_one(dtype: type) -> None:
    """One product of all rows where these are equally far apart."""
    rng = np.random.default_rng(0)
    b = rng.standard_normal((40, 33)).astype(dtype)
    x = rng.standard_normal((3, 4, 10, 40)).astype(dtype)
    inside = np.zeros((4, 10, 48), dtype)[..., :40]
    inside[...] = x[0]
    columns, lines = x[0].swapaxes(0, 1)[:, :1], x[0, :1].swapaxes(0, 1)
    of_one = ((columns, True), (lines, True), (np.lib.stride_tricks.as_strided(columns, strides=(160, 8, 4)), True))
    for a, one in ((x, True), (x[:, 1], False), (x[0, :, ::2], True), (x[::-1], False), (inside, True), *of_one):
        shape, strides = matmul._joined_rows(a.shape, a.strides)
        assert (len(shape) == 2) == one and np.prod(shape) == a.size
        c = matmul.matmul(a, b)
        expected = matmul.matmul(np.ascontiguousarray(a).reshape(-1, 40), b).reshape(c.shape)
        if one:
            assert_equal(c, expected)
        else:
            assert_sums(c, naive.matmul(a, b), 41)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("shape", [(20, 35, 50, 211), (7, 3, 5, 4), (30, 9, 64, 300), (2, 90, 65, 3)])
def test_rows_of_matrices_in_another_order(shape: tuple[int, int, int, int], layout: str, dtype: type) -> None:
    """As batch-first recurrent layers give them: the rows are copied where one product of all of them is faster."""
    rng, (N, M, K, C) = np.random.default_rng(0), shape
    a = rng.standard_normal((M, N, K)).astype(dtype).swapaxes(0, 1)
    b, bias = np.asarray(rng.standard_normal((K, C)), dtype, layout), rng.standard_normal(C).astype(dtype)
    c = matmul.matmul(a, b, bias)
    assert_sums(c, naive.matmul(a, b, bias), K + 1)
    if min(N, M, C) > 5:
        assert_equal(c, matmul.matmul(a.reshape(-1, K), b, bias).reshape(c.shape))


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_one_row_or_column(kernel_set: Any, layout: str) -> None:
    """Vectors as matrices, as batch 1 gives them."""
    source = Source(np.random.default_rng(0), np.float32, (layout,))
    for K in (1, 17, 70):
        for N in (1, 3, 8, 17, 33, 70):
            check(kernel_set, source, (1, K), (K, N), bias=True)
            check(kernel_set, source, (N, K), (K, 1))
            check(kernel_set, source, (N, 1), (1, K))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layouts", [("C", "C"), ("C", "F"), ("F", "C"), ("F", "F")])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.15, 0.6])
def test_mostly_zeros(share: float, layouts: tuple[str, str], dtype: type) -> None:
    """Zeros of A are left out if they are many; with a sum, a clamp and a formula the bits are those of the parts."""
    rng = np.random.default_rng(0)
    M, K, N = 133, 603, 331
    a = np.asarray(rng.standard_normal((M, K)) * (rng.random((M, K)) < share), dtype, layouts[0])
    b = np.asarray(rng.standard_normal((K, N)), dtype, layouts[1])
    bias, residual = (rng.standard_normal(shape).astype(dtype) for shape in (N, (M, N)))
    call = matmul._call(a.shape, a.strides, b.shape, b.strides, a.itemsize, True)
    if call.launch is None:  # a copy of A is read
        copy, _ = matmul._readable(a, b)
        call = matmul._call(copy.shape, copy.strides, b.shape, b.strides, a.itemsize, True)
    assert call.words[matmul.MATMUL.sparse_tasks] > 0
    c = matmul.matmul(a, b, bias)
    more = np.float64 if dtype is np.float32 else np.longdouble
    error = np.abs(c - (a.astype(more) @ b.astype(more) + bias))
    size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64) + np.abs(bias)
    assert (error <= 8 * np.finfo(dtype).eps * size).all()
    assert_equal(matmul.matmul_clamp(a, b, bias, residual, -0.5, 3.0), clamped(c, residual, -0.5, 3.0))
    formula, numbers = FORMULAS[0]
    followed = matmul.matmul_clamp(a, b, bias, None, 0.0, np.inf, POINTWISE[formula], numbers)
    assert_equal(followed, getattr(kernels, formula)(clamped(c, None, 0.0, np.inf), *numbers))
    threads = get_num_threads()
    try:
        set_num_threads(3 - min(threads, 2))
        assert_equal(matmul.matmul(a, b, bias), c)
    finally:
        set_num_threads(threads)


@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_zero_times_infinity(value: float, layout: str) -> None:
    """Zeros of A count where B is not finite, and elements of A that are not finite count everywhere."""
    rng = np.random.default_rng(0)
    a = np.asarray(rng.standard_normal((150, 600)) * (rng.random((150, 600)) < 0.05), np.float32, layout)
    b = rng.standard_normal((600, 300), np.float32)
    a[7, 599], b[570, 299], b[3, 131] = value, value, value
    with np.errstate(invalid="ignore"):
        expected = a.astype(np.float64) @ b.astype(np.float64)
    c = matmul.matmul(a, b)
    for kind in (np.isnan, np.isposinf, np.isneginf):
        assert_equal(kind(c), kind(expected))
    assert np.isnan(c[:, 299]).sum() >= 140 and np.isfinite(c[:, 5]).sum() == 149


def test_zeros_in_one_half() -> None:
    """A sample says how many zeros there are; wherever they are, the product is that of the matrix."""
    rng = np.random.default_rng(0)
    b = rng.standard_normal((300, 256), np.float32)
    for rows, columns in ((slice(100), slice(None)), (slice(None), slice(250)), (slice(3, None, 9), slice(None))):
        a = rng.standard_normal((200, 300), np.float32)
        a[rows, columns] = 0
        np.testing.assert_allclose(matmul.matmul(a, b), a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)


@textbook_at_night
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layouts", [("contiguous", "fortran"), ("fortran", "contiguous")])
@pytest.mark.parametrize(
    ("M", "K", "N"),
    [(65, 700, 90), (200, 130, 257), (3, 1500, 520), (300, 2, 300), (70, 1700, 330), (512, 300, 130)],
)
def test_larger_than_one_block(kernel_set: Any, M: int, K: int, N: int, layouts: tuple[str, str], dtype: type) -> None:
    """The columns of the last transposed operand are a power of 2 apart, which share few sets of the cache."""
    source = Source(np.random.default_rng(0), dtype, layouts)
    check(kernel_set, source, (M, K), (K, N), bias=True)


@textbook_at_night
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("second", ["contiguous", "fortran"])
@pytest.mark.parametrize(("M", "K", "N"), [(550, 202, 2), (131, 600, 3), (1001, 64, 5)])
def test_few_columns_of_a_transposed_matrix(kernel_set: Any, M: int, K: int, N: int, second: str, dtype: type) -> None:
    """As the gradient of a weight with few outputs: the rows of the transposed product are whole vectors."""
    check(kernel_set, Source(np.random.default_rng(0), dtype, ("fortran", second)), (M, K), (K, N))


def test_few_columns_are_turned_where_that_pays() -> None:
    def turned(M: int, K: int, N: int, biased: bool, *batch: int) -> bool:
        steps = [tuple(4 * size for _ in batch) for size in (M * K, K * N)]
        a, b = ((*batch, M, K), (*steps[0], 4, 4 * M)), ((*batch, K, N), (*steps[1], 4 * N, 4))
        return bool(matmul._call(*a, *b, 4, biased).turned)

    for batch in ((), (8,)):
        assert turned(550, 202, 2, False, *batch) and not turned(550, 202, 2, True, *batch)
        assert not turned(550, 202, 40, False, *batch)
    assert not turned(64, 64, 3, False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lead", [((3,), (3,)), ((2, 2), (2, 1)), ((2, 1), (1, 3))])
@pytest.mark.parametrize("transposed", [False, True])
def test_few_columns_of_transposed_matrices(lead: Any, transposed: bool, dtype: type) -> None:
    rng = np.random.default_rng(0)
    a, b = laid_out(rng, (*lead[0], 301, 70), dtype, True), laid_out(rng, (*lead[1], 70, 3), dtype, transposed)
    assert matmul._call(a.shape, a.strides, b.shape, b.strides, a.itemsize, False).turned
    c = run(matmul.matmul, a, b)
    assert c.flags.c_contiguous
    assert_sums(c, naive.matmul(a, b, None), 70)
    residual = numbers(rng, c.shape, dtype)
    assert_equal(run(matmul.matmul_clamp, a, b, None, residual, -0.5, 3.0), clamped(c, residual, -0.5, 3.0))


@pytest.mark.parametrize(("M", "K", "N"), [(7, 900, 5), (8, 5000, 8), (2, 3, 2), (8, 400, 2)])
def test_few_rows_and_few_columns_of_transposed_matrices(M: int, K: int, N: int) -> None:
    """The product and the transposed one are narrow: neither is turned into the other forever."""
    rng = np.random.default_rng(0)
    a, b = numbers(rng, (K, M), np.float32).T, numbers(rng, (N, K), np.float32).T
    for x, y in ((a, b), (a, np.ascontiguousarray(b)), (b.T, a.T)):
        assert_sums(run(matmul.matmul, x, y), naive.matmul(x, y, None), K)


def test_columns_are_copied_where_that_pays() -> None:
    def copied(M: int, K: int, N: int, batch: tuple[int, ...] = (), gap: int = 0) -> bool:
        a_strides = (*(4 * M * K for _ in batch), 4, 4 * (M + gap))
        call = matmul._call(
            (*batch, M, K), a_strides, (*batch, K, N), (*(4 * K * N for _ in batch), 4 * N, 4), 4, False
        )
        return call.launch is None and not call.turned

    for batch in ((), (8,)):
        assert copied(36, 900, 500, batch) == (registers() == 16)
        assert not copied(36, 900, 20, batch) and not copied(3, 900, 500, batch)
    assert not copied(36, 900, 500, gap=1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lead", [(), (3,), (2, 2)])
def test_matrices_whose_columns_are_copied(lead: tuple[int, ...], dtype: type) -> None:
    rng = np.random.default_rng(0)
    a = numbers(rng, (*lead, 310, 37), dtype).swapaxes(-1, -2)
    b, bias = numbers(rng, (*lead, 310, 502), dtype), numbers(rng, (502,), dtype)
    assert_sums(run(matmul.matmul, a, b), naive.matmul(a, b, None), 310)
    assert_sums(run(matmul.matmul, a, b, bias), naive.matmul(a, b, bias), 311)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("N", [16, 31, 33, 40])
@pytest.mark.parametrize("K", [600, 601, 602, 603])
def test_copies_of_contiguous_rows(K: int, N: int, dtype: type) -> None:
    """Panels whose rows fill their vectors and others; rows are copied four at a time. Exact sums of whole numbers."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 10, shape).astype(dtype) for shape in ((97, K), (K, N)))
    assert_equal(run(matmul.matmul, a, b), naive.matmul(a, b, None))


def laid_out(rng: np.random.Generator, shape: tuple[int, ...], dtype: type, transposed: bool) -> np.ndarray:
    x = numbers(rng, shape if not transposed else (*shape[:-2], shape[-1], shape[-2]), dtype)
    return x.swapaxes(-1, -2) if transposed else x


# thin in one extent or two, above and below a vector, longer than a block of a sum
THIN = [
    (1, 9, 1),
    (5, 3, 5),
    (2, 300, 7),
    (9, 4, 33),
    (3, 1, 70),
    (1, 2100, 18),
    (26, 2, 3),
    (7, 33, 16),
    (13, 150, 49),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("M", "K", "N"), THIN)
def test_every_plan_of_a_thin_product(M: int, K: int, N: int, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice among them is a question of speed alone; NaN in one row and one column stays in these."""
    rng = np.random.default_rng(0)
    steps = {False: (N, 1), True: (1, K)}
    for first, second, lead in [(False, False, ()), (True, False, ()), (False, True, ()), (False, True, (3,))]:
        choices = [*thin_product._choices(M, N, K, first and K > 1, *steps[second], np.dtype(dtype).char)]
        assert choices
        some = [choices[i] for i in {*rng.integers(0, len(choices), 3), len(choices) - 1}]
        a, b = laid_out(rng, (*lead, M, K), dtype, first), laid_out(rng, (*lead, K, N), dtype, second)
        bias = numbers(rng, (N,), dtype)
        wrong_a, wrong_b = a.copy(), b.copy()
        wrong_a[..., M // 2, K // 2] = np.nan
        wrong_b[..., K // 3, N - 1] = np.inf
        for choice in some:
            monkeypatch.setattr(thin_product, "choose", lambda *_, choice=choice: choice._replace(cycles=0.0))
            matmul._call.cache_clear()
            monkeypatch.setattr(matmul, "_products", Prepared(matmul._multiplied))
            assert_sums(run(matmul.matmul, a, b, bias), naive.matmul(a, b, bias), K + 1)
            assert_close(run(matmul.matmul, wrong_a, b), naive.matmul(wrong_a, b), 1e-4)
            assert_close(run(matmul.matmul, a, wrong_b), naive.matmul(a, wrong_b), 1e-4)
    matmul._call.cache_clear()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lead", [(), (3,)])
def test_dot_products_that_prefetch(lead: tuple[int, ...], dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if B did not stay in L2; its rows, and the matrices, are also some way apart."""
    rng, char = np.random.default_rng(0), np.dtype(dtype).char
    monkeypatch.setattr(thin_product, "_L2_SHARE", 0)
    for M, K, N, gap in [(9, 37, 11, 0), (5, 130, 18, 3), (17, 300, 33, 7), (6, 2, 40, 0)]:
        choices = [c for c in thin_product._choices(M, N, K, False, 1, K + gap, char) if c.kernel == "dots"]
        a, b = numbers(rng, (*lead, M, K), dtype), numbers(rng, (*lead, N, K + gap), dtype)[..., :K].swapaxes(-1, -2)
        for choice in choices:
            monkeypatch.setattr(thin_product, "choose", lambda *_, choice=choice: choice._replace(cycles=0.0))
            matmul._call.cache_clear()
            monkeypatch.setattr(matmul, "_products", Prepared(matmul._multiplied))
            words = matmul._call(a.shape, a.strides, b.shape, b.strides, a.itemsize, False).words
            assert (words[thin_product.DOTS.ahead] > 0) == (choice.rows < M)
            assert_sums(run(matmul.matmul, a, b), naive.matmul(a, b, None), K)
    matmul._call.cache_clear()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lead", [(), (2,)])
@pytest.mark.parametrize(("K", "N"), [(1, 5), (3, 64), (70, 4099), (131, 8203), (64, 300)])
def test_a_row_times_a_large_matrix(
    K: int, N: int, lead: tuple[int, ...], dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of terms, four rows at a time and the rest, and pieces as long as the sums that stay in L1."""
    choice = thin_product.Choice(0.0, "lines", 1, 16, 1)
    monkeypatch.setattr(thin_product, "choose", lambda *_: choice)
    matmul._call.cache_clear()
    monkeypatch.setattr(matmul, "_products", Prepared(matmul._multiplied))
    source = Source(np.random.default_rng(0), dtype, ("contiguous",))
    check(kernels, source, (*lead, 1, K), (*lead, K, N), bias=True)
    check(kernels, source, (*lead, 1, K), (*lead, K, N))
    a, b = source.arrays((*lead, K, 2), (*lead, K, 2 * N))
    wrong = b.copy()
    wrong[..., K // 2, N // 3] = np.nan
    for y in (b, wrong):  # rows some way apart; NaN stays in its column
        x, y = a[..., :1].swapaxes(-1, -2), y[..., :N]
        assert_close(run(matmul.matmul, x, y), naive.matmul(x, y), 1e-4)
    matmul._call.cache_clear()


@pytest.mark.parametrize(
    ("M", "K", "N", "batch"),
    [(1, 1900, 1700, 1), (5000, 3, 260, 1), (9000, 40, 5, 1), (1, 40, 1500, 70), (3, 999, 2, 90)],
)
def test_bits_of_thin_products_do_not_depend_on_threads(M: int, K: int, N: int, batch: int) -> None:
    rng = np.random.default_rng(0)
    a, b = numbers(rng, (batch, M, K), np.float32), numbers(rng, (batch, K, N), np.float32)
    before = get_num_threads()
    try:
        set_num_threads(1)
        one = matmul.matmul(a, b)
        set_num_threads(3)
        assert_equal(matmul.matmul(a, b), one)
    finally:
        set_num_threads(before)


def test_a_product_with_itself_is_not_taken_for_one_of_two() -> None:
    rng = np.random.default_rng(0)
    a, b = numbers(rng, (9, 9), np.float32), numbers(rng, (9, 9), np.float32)
    for x, y in ((a, a), (a, b), (b, a), (b.T, b), (b, a.T)):
        for _ in range(2):
            assert_sums(matmul.matmul(x, y), naive.matmul(x, y, None), 10)
            assert_sums(matmul.matmul(x, y, b[3]), naive.matmul(x, y, b[3]), 10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("K", [1, 3, 8, 13, 16, 37])
def test_packing_of_a_transposed_matrix(K: int, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number of columns, and of terms, in the last register; whole numbers, whose sums are exact."""
    monkeypatch.setattr(thin_product, "choose", lambda *_: None)
    matmul._call.cache_clear()
    monkeypatch.setattr(matmul, "_products", Prepared(matmul._multiplied))
    rng = np.random.default_rng(0)
    for N in range(1, 36):
        a, b = (rng.integers(-9, 10, shape).astype(dtype) for shape in ((3, K), (N, K)))
        assert_equal(run(matmul.matmul, a, b.T), naive.matmul(a, b.T, None))
    matmul._call.cache_clear()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((0, 3), (3, 4)),
        ((2, 3), (3, 0)),
        ((2, 0), (0, 4)),
        ((0, 0), (0, 0)),
        ((5, 0, 3), (3, 4)),
        ((0, 2, 3), (1, 3, 4)),
        ((4, 1, 2, 0), (3, 0, 5)),
    ],
)
def test_zero_extents(kernel_set: Any, a: tuple[int, ...], b: tuple[int, ...], dtype: type) -> None:
    """A sum of no terms is 0, and the bias is still added."""
    x, y, bias = np.ones(a, dtype), np.ones(b, dtype), np.arange(b[-1], dtype=dtype)
    assert_equal(run(kernel_set.matmul, x, y), naive.matmul(x, y))
    assert_equal(run(kernel_set.matmul, x, y, bias), naive.matmul(x, y, bias))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_inf(kernel_set: Any, value: float, dtype: type) -> None:
    """They reach their row or column and nothing else."""
    rng = np.random.default_rng(0)
    for M, K, N in [(7, 5, 19), (1, 33, 3), (16, 16, 16)]:
        a, b = numbers(rng, (M, K), dtype), numbers(rng, (K, N), dtype)
        a[M // 2, K // 3] = value
        assert_close(run(kernel_set.matmul, a, b), naive.matmul(a, b), 1e-5)
        a, b = numbers(rng, (M, K), dtype), numbers(rng, (K, N), dtype)
        b[K - 1, N - 1] = value
        assert_close(run(kernel_set.matmul, a, b), naive.matmul(a, b), 1e-5)


def test_adjoint(kernel_set: Any) -> None:
    """<a b, g> = <a, g b^T> = <b, a^T g>"""
    rng = np.random.default_rng(0)
    a, b, g = rng.normal(size=(2, 9, 33)), rng.normal(size=(2, 33, 17)), rng.normal(size=(2, 9, 17))
    form = np.vdot(kernel_set.matmul(a, b), g)
    assert np.vdot(a, kernel_set.matmul(g, b.swapaxes(1, 2))) == pytest.approx(form, rel=1e-12)
    assert np.vdot(b, kernel_set.matmul(a.swapaxes(1, 2), g)) == pytest.approx(form, rel=1e-12)
