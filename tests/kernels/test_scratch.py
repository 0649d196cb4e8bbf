"""Memory that kernels keep from call to call: its old contents reach no result."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import naive
from comparison import assert_sums
from kernels.garbage import fill_memory_with_garbage
from retrograd import kernels
from retrograd.kernels.compiled.machine import scratch
from retrograd.specs.geometry import conv_window
from strategies import DTYPES


@pytest.fixture
def full_of_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    fill_memory_with_garbage(monkeypatch)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("inputs", "outputs", "width", "kernel", "stride", "pad", "groups"),
    [
        (1, 6, 28, 5, 1, 2, 1),
        (6, 16, 14, 5, 1, 0, 1),
        (3, 20, 17, 3, 2, 1, 1),
        (32, 40, 9, 3, 1, 1, 1),
        (24, 24, 11, 3, 1, 1, 3),
        (17, 17, 13, 3, 1, 1, 17),
        (300, 300, 5, 3, 1, 1, 1),
        (70, 90, 8, 1, 1, 0, 1),
    ],
)
def test_convolution(
    full_of_garbage: None,
    dtype: type,
    inputs: int,
    outputs: int,
    width: int,
    kernel: int,
    stride: int,
    pad: int,
    groups: int,
) -> None:
    rng = np.random.default_rng(width)
    window = conv_window((3, width), (1, kernel), (1, stride), ((0, 0), (pad, pad)), (1, 1), groups)
    x = rng.standard_normal((2, inputs, 3, width)).astype(dtype)
    w = rng.standard_normal((outputs, inputs // groups, 1, kernel)).astype(dtype)
    g = rng.standard_normal((2, outputs, *window.output)).astype(dtype)
    geometry = window.stride, window.padding, window.dilation
    y = naive.conv(x, w, None, *geometry, groups)
    gx = naive.conv_input_grad(g, w, None, window.input, *geometry, groups)
    gw = naive.conv_weight_grad(x, g, window.kernel, *geometry, groups)
    assert_sums(kernels.conv(x, w, None, window), y, kernel * inputs)
    assert_sums(kernels.conv_input_grad(g, w, None, window), gx, kernel * outputs)
    assert_sums(kernels.conv_weight_grad(x, g, window), gw, 6 * width)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 7, 3), (100, 130, 90), (60, 800, 33)])
def test_matmul(full_of_garbage: None, shape: tuple[int, int, int], dtype: type) -> None:
    rows, depth, columns = shape
    rng = np.random.default_rng(rows)
    a = rng.standard_normal((rows, depth)).astype(dtype)
    b = rng.standard_normal((depth, columns)).astype(dtype)
    expected = a.astype(np.float64) @ b
    assert_sums(kernels.matmul(a, b), expected, depth)
    assert_sums(kernels.matmul(np.asfortranarray(a), np.asfortranarray(b)), expected, depth)


def test_one_piece_serves_many_calls() -> None:
    first: Any = scratch.per_thread(100, "f")
    assert first.size >= 100 * kernels.get_num_threads()
    assert scratch.per_thread(50, "f") is first
    assert scratch.per_thread(first.size + 1, "f").size > first.size
    assert scratch.per_thread(10, "d").dtype == np.float64


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another malloc")
@pytest.mark.parametrize("channels", [64, 192, 600])  # 6, 18 and 58 MiB
def test_freed_arrays_leave_their_pages(channels: int) -> None:
    """A step that frees and makes the same arrays again must not fetch every page from the system again."""
    program = f"""
import resource
import numpy as np
import retrograd.kernels.compiled as kernels

x = np.ones((8, {channels}, 56, 56), np.float32)
faults = []
for _ in range(12):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    z = kernels.relu(kernels.relu(x))
    del z
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(min(faults))
"""
    assert int(_output(program)) < 100  # small arrays have 1,568 pages each; large ones may have huge pages


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another malloc")
def test_freed_memory_is_returned_on_demand() -> None:
    program = """
import numpy as np
from retrograd.arrays import return_freed_memory

def resident():
    return int(open("/proc/self/statm").read().split()[1])

arrays = [np.ones(1 << 22, np.float32) for _ in range(8)]
last = arrays.pop()  # above the others, so that the heap does not become smaller by itself
del arrays[:]
kept = resident()
return_freed_memory()
print(kept - resident())
"""
    assert int(_output(program)) > 7 * 4000  # 7 arrays of 4,096 pages


def _output(program: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout


def test_parts_of_what_is_kept() -> None:
    """Arrays are on separate cache lines, and belong to the memory that is currently cached."""
    scratch.forget()
    before = scratch.carved("f", 5, 0, 70)
    assert [part.size for part in before] == [16, 0, 80]
    places = [part.__array_interface__["data"][0] for part in before]
    assert places[2] == places[0] + 64 and not np.shares_memory(before[0], before[2])
    again = scratch.carved("f", 5, 0, 70)
    assert all(one is other for one, other in zip(before, again, strict=True))
    kept = scratch.shared(1 << 16, "f")
    after = scratch.carved("f", 5, 0, 70)
    assert all(np.shares_memory(part, kept) for part in after if part.size)
    assert not any(np.shares_memory(part, kept) for part in before)
    for count in range(1000):  # of many shapes only some are remembered
        scratch.carved("f", count, 3)
    large = scratch.carved("f", 1 << 22)[0]
    assert not np.shares_memory(large, scratch.carved("f", 1 << 22)[0])
