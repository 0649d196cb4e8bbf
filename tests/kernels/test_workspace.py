"""The limit of temporary memory in the compiled set: allocations, the chosen form, and the same bits."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from comparison import bits
from kernels.convolutions import by_loops, check_trio, operands, trio
from retrograd import kernels
from retrograd.kernels.compiled.convolution import algorithm
from retrograd.kernels.compiled.machine import scratch
from retrograd.specs.convolution_options import Options
from retrograd.specs.geometry import Window, conv_window
from strategies import Case, Source

TABLES = 64 << 10  # bytes that are not counted: tables and Python objects
JOBS = "conv", "conv_input_grad", "conv_weight_grad"
# a geometry for every form: batch, channels, window
CASES = {
    "winograd": Case(conv_window((30, 31), 3, 1, 1), 4, 40, 48, True),
    "winograd in space": Case(conv_window((5, 14, 15), 3, 1, 1), 2, 32, 40, True),
    "winograd, shared": Case(conv_window((12, 12), 3, 1, 1), 2, 130, 130, False),
    "direct": Case(conv_window((20, 21), 5, 2, 2), 4, 40, 48, True),
    "direct, large weights": Case(conv_window((9, 9), 3, 2, 1), 2, 160, 200, False),
    "groups": Case(conv_window((20, 21), 3, 1, 1, 1, 2), 4, 40, 48, True),
    "pointwise": Case(conv_window((20, 21), 1), 8, 64, 96, False),
    "pointwise, rows 512 bytes apart": Case(conv_window((12, 13), 1), 4, 128, 112, False),
    "depthwise": Case(conv_window((40, 41), 3, 1, 1, 1, 64), 4, 64, 64, True),
    "narrow": Case(conv_window((60, 60), 7, 2, 3), 2, 3, 48, False),
    "fold": Case(conv_window((40, 40), 4, 2, 1), 2, 3, 48, False),
    "planar": Case(conv_window((40, 41), 3, 1, 1), 2, 24, 3, True),
}


def limited(case: Case, limit: int | None) -> Case:
    return replace(case, options=case.options._replace(workspace=limit))


def shape_of(case: Case) -> tuple[Window, Options, int, int, int, str]:
    return case.window, case.options, case.batch, case.inputs, case.outputs, "f"


def memory_of(case: Case) -> list[int]:
    return [found.memory for found in algorithm.passages(*shape_of(case)).values()]


def least_of(case: Case) -> int:
    """The smallest limit that is accepted, from the error message."""
    with pytest.raises(ValueError, match=r"workspace=0 bytes is too little .* take at least \d+ bytes") as refusal:
        algorithm.choose("conv", *shape_of(limited(case, 0)))
    return int(str(refusal.value).partition("take at least ")[2].split()[0])


def peaks(case: Case, arrays: Any) -> list[int]:
    """Bytes of NumPy's allocations beyond the result, of the three kernels; what scratch.py kept is forgotten."""
    x, w, g = arrays
    found = []
    jobs = (kernels.conv, (x, w, None)), (kernels.conv_input_grad, (g, w, None)), (kernels.conv_weight_grad, (x, g))
    for kernel, given in jobs:
        kernel(*given, case.window, case.options)  # plans and machine code
        scratch._kept.arrays.clear()
        tracemalloc.start()
        try:
            result = kernel(*given, case.window, case.options)
            found.append(tracemalloc.get_traced_memory()[1] - result.nbytes)
        finally:
            tracemalloc.stop()
    return found


def arrays_of(case: Case) -> Any:
    """As the library makes them: activations channels-last, weights in the order (*R, I, O)."""
    rng = np.random.default_rng(0)
    arrays = operands(case, Source(rng, np.float32, ("channels_last",)))
    axes = (*range(2, arrays[1].ndim), 1, 0)
    back = np.argsort(axes)
    return arrays[0], np.ascontiguousarray(arrays[1].transpose(axes)).transpose(back), arrays[2]


@pytest.mark.parametrize("name", CASES)
def test_what_is_said_is_taken(name: str) -> None:
    """Without a limit, with the smallest, and with some between: never more memory than reported or than the limit."""
    case = CASES[name]
    arrays = arrays_of(case)
    free = memory_of(case)
    for peak, said in zip(peaks(case, arrays), free, strict=True):
        assert peak <= said + TABLES
    expected, least = by_loops(arrays, case.window), least_of(case) if max(free) else 0
    for limit in sorted({least, (least + max(free)) // 2, max(free)}):
        one = limited(case, limit)
        assert max(memory_of(one)) <= limit
        assert max(peaks(one, arrays)) <= limit + TABLES
        check_trio(one, arrays, trio(kernels, arrays, one.window, one.options), expected)


@pytest.mark.parametrize("name", CASES)
def test_the_same_form_makes_the_same_bits(name: str) -> None:
    case = CASES[name]
    arrays = arrays_of(case)
    direct = replace(case, options=Options("direct"))
    for free in (case, direct):
        most = max(memory_of(free))
        wanted = bits(trio(kernels, arrays, free.window, free.options))
        forms = [algorithm.choose(job, *shape_of(free)) for job in JOBS]
        for limit in range(0, most + 1, max(1, most // 6)):
            one = limited(free, limit)
            try:
                same = [algorithm.choose(job, *shape_of(one)) == form for job, form in zip(JOBS, forms, strict=True)]
            except ValueError:
                continue
            found = bits(trio(kernels, arrays, one.window, one.options))
            assert all(a == b for a, b, kept in zip(found, wanted, same, strict=True) if kept)


def test_another_form_is_taken() -> None:
    case = CASES["winograd"]
    taken = memory_of(case)
    assert [algorithm.choose(job, *shape_of(case)) for job in JOBS] == ["winograd"] * 3
    below = limited(case, taken[2] - 1)
    assert algorithm.choose("conv_weight_grad", *shape_of(below)) == "direct"
    assert algorithm.choose("conv", *shape_of(below)) == "winograd"
    narrow = CASES["narrow"]
    for case in (narrow, limited(narrow, max(memory_of(narrow)))):
        assert algorithm.choose("conv", *shape_of(case)) == "narrow"
    assert algorithm.choose("conv", *shape_of(limited(narrow, least_of(narrow)))) in ("narrow", "direct")


def test_partial_sums_one_after_another() -> None:
    """The least of a weight gradient is one of its partial sums, and adding them in their order makes the same bits."""
    many = Case(conv_window((60, 61), 3, 1, 1), 4, 40, 48, False)
    for case in (many, CASES["depthwise"], CASES["pointwise"]):
        case, window = replace(case, options=Options("direct")), case.window
        most, least = algorithm.temporary("direct", JOBS[2], window, *shape_of(case)[2:])
        one = window.taps * case.inputs // window.groups * case.outputs * 4  # bytes of a partial sum
        assert most - least > 2 * one
        x, _, g = arrays_of(case)
        wanted = bits(kernels.conv_weight_grad(x, g, window, case.options))
        floor = least_of(case)
        for limit in {floor, max(floor, least + one), max(floor, least + 2 * one + 1)}:
            assert bits(kernels.conv_weight_grad(x, g, window, Options("direct", limit))) == wanted


def test_forced_and_too_little() -> None:
    with pytest.raises(ValueError, match=r"conv: workspace=65536 bytes is too little for algorithm='winograd': .*MB\)"):
        algorithm.choose("conv", CASES["winograd"].window, Options("winograd", 1 << 16), 4, 40, 48, "f")


@pytest.mark.parametrize("name", ["winograd", "planar", "narrow", "fold", "direct", "depthwise"])
def test_bits_do_not_depend_on_threads(name: str) -> None:
    case = CASES[name]
    arrays, threads = arrays_of(case), kernels.get_num_threads()
    least, most = least_of(case), max(memory_of(case))
    for limit in (least, (least + most) // 2):
        found = []
        try:
            for count in (1, 2):
                kernels.set_num_threads(count)
                found.append(bits(trio(kernels, arrays, case.window, limited(case, limit).options)))
        finally:
            kernels.set_num_threads(threads)
        assert found[0] == found[1]


def test_numbers_that_are_none_within_the_limit() -> None:
    """A weight gradient that the form for few channels makes NaN is computed again, also within the limit."""
    case = CASES["planar"]
    x, w, g = arrays_of(case)
    x[0, 0, 0, 0] = np.inf
    wanted = bits(kernels.conv_weight_grad(x, g, case.window))
    limit = max(memory_of(case))
    one = limited(case, limit)
    assert bits(kernels.conv_weight_grad(x, g, one.window, one.options)) == wanted
    assert max(peaks(one, (x, w, g))) <= limit + TABLES
