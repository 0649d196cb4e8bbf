"""Sizes, offsets and indices far beyond any array: each call returns a result or raises a clear error.

NumPy itself is not safe with some of them, so the calls are made in a child process with limits on memory and time.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.nn import functional
from retrograd.nn.utils.rnn import PackedSequence

LONG = 2**63
INTS = (-1, 0, 1, 7, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**40, 2**62, LONG - 1, -LONG, LONG, 10**30, -(10**30))
OTHERS = (float("nan"), float("inf"), 1.5, True, "3", np.int64(3), np.int64(LONG - 1), np.int64(-LONG))
CLEAR = (ValueError, IndexError, TypeError, MemoryError)


def x(*shape: int) -> Any:
    return rg.tensor(np.arange(np.prod(shape), dtype=np.float64).reshape(shape) + 1, requires_grad=True)


def indices(value: Any) -> Any:
    if type(value) is not int or not -LONG <= value < LONG:
        raise TypeError("no int64")
    return rg.tensor([0, value])


def offsets(value: Any) -> Any:
    """Return offsets from 0 to 2 whose differences modulo 2**64 are all nonnegative."""
    return rg.tensor([0, indices(value).tolist()[1], -LONG, -1, 2])


CALLS: dict[str, Callable[[Any], Any]] = {
    "bincount": lambda n: rg.bincount(indices(n)),
    "bincount, weights": lambda n: rg.bincount(indices(n), x(2).detach()),
    "bincount, minlength": lambda n: rg.bincount(rg.tensor([0, 3]), minlength=n),
    "histc": lambda n: rg.histc(x(3), n),
    "diagonal": lambda n: rg.diagonal(x(3, 5), n),
    "diagonal of nothing": lambda n: rg.diagonal(x(0, 5), n),
    "diag": lambda n: rg.diag(x(3, 5), n),
    "diag of a vector": lambda n: rg.diag(x(3), n),
    "diagflat": lambda n: rg.diagflat(x(3), n),
    "diag_embed": lambda n: rg.diag_embed(x(3, 2), n),
    "tril": lambda n: rg.tril(x(3, 5), n),
    "triu": lambda n: rg.triu(x(2, 3, 5), n),
    "tril_indices": lambda n: rg.tril_indices(3, 4, n),
    "triu_indices": lambda n: rg.triu_indices(3, 4, n),
    "tensor_split": lambda n: rg.tensor_split(x(3, 5), n),
    "tensor_split, places": lambda n: rg.tensor_split(x(3, 5), (n,)),
    "chunk": lambda n: rg.chunk(x(3, 5), n),
    "chunk of nothing": lambda n: rg.chunk(x(0, 5), n),
    "split": lambda n: rg.split(x(3, 5), n),
    "unfold": lambda n: x(3, 5).unfold(1, n, 1),
    "unfold, step": lambda n: x(3, 5).unfold(1, 2, n),
    "narrow, start": lambda n: rg.narrow(x(3, 5), 0, n, 1),
    "narrow, length": lambda n: rg.narrow(x(3, 5), 0, 1, n),
    "select": lambda n: rg.select(x(3, 5), 0, n),
    "slice": lambda n: x(3, 5)[n:],
    "slice, step": lambda n: x(3, 5)[::n],
    "index_select": lambda n: rg.index_select(x(3, 5), 0, indices(n)),
    "take": lambda n: rg.take(x(3, 5), indices(n)),
    "roll": lambda n: rg.roll(x(3, 5), n, 1),
    "rot90": lambda n: rg.rot90(x(3, 5), n),
    "repeat": lambda n: x(3).repeat(n, n),
    "repeat_interleave": lambda n: rg.repeat_interleave(x(3), n),
    "repeat_interleave, sum": lambda n: rg.repeat_interleave(x(3), rg.tensor([*indices(n).tolist()[1:] * 2, 3])),
    "repeat_interleave, product": lambda n: rg.repeat_interleave(x(4), rg.tensor(indices(n).tolist()[1:])),
    "embedding_bag, offsets": lambda n: functional.embedding_bag(rg.tensor([0, 1]), x(3, 2), offsets(n)),
    "ctc_loss, lengths": lambda n: functional.ctc_loss(
        x(4, 3, 3), rg.tensor([1]), rg.tensor([4, 4, 4]), rg.tensor([*indices(n).tolist()[1:] * 2, 3])
    ),
    "PackedSequence": lambda n: PackedSequence(x(1, 2), rg.tensor([*indices(n).tolist()[1:] * 4, 1])),
    "arange": lambda n: rg.arange(n),
    "arange, start": lambda n: rg.arange(n, 10),
    "expand": lambda n: x(1, 1).expand(n, n),
    "reshape": lambda n: x(3, 0).reshape(n, 0),
    "zeros": lambda n: rg.zeros(n, n),
    "zeros of nothing": lambda n: rg.zeros(n, n, 0),
    "eye": lambda n: rg.eye(n, 3),
    "randperm": lambda n: rg.randperm(n),
    "one_hot": lambda n: functional.one_hot(indices(n)),
    "one_hot, classes": lambda n: functional.one_hot(rg.tensor([0, 1]), n),
    "pad": lambda n: functional.pad(x(1, 3, 5), (n, n)),
    "max_pool1d": lambda n: functional.max_pool1d(x(1, 3, 8), n, 1, n // 2 if type(n) is int else 0),
    "max_pool1d, stride": lambda n: functional.max_pool1d(x(1, 3, 8), 2, n),
    "conv1d, stride": lambda n: functional.conv1d(x(1, 3, 8), x(2, 3, 2), None, n),
    "conv1d, padding": lambda n: functional.conv1d(x(1, 3, 8), x(2, 3, 2), None, 1, n),
    "conv1d, dilation": lambda n: functional.conv1d(x(1, 3, 8), x(2, 3, 2), None, 1, 0, n),
    "unfold of images": lambda n: functional.unfold(x(1, 2, 4, 4), 2, 1, 0, n),
    "pixel_shuffle": lambda n: functional.pixel_shuffle(x(1, 4, 4, 4), n),
    "sum": lambda n: rg.sum(x(3, 5), n),
    "topk": lambda n: rg.topk(x(3, 5), n),
    "multinomial": lambda n: rg.multinomial(x(3).detach(), n, True),
}
GRAVE = (
    "bincount",
    "bincount, weights",
    "diagonal",
    "diag",
    "tril",
    "unfold, step",
    "tensor_split",
    "conv1d, stride",
    "repeat_interleave, sum",
    "repeat_interleave, product",
    "embedding_bag, offsets",
    "ctc_loss, lengths",
    "PackedSequence",
)
SMALL_MEMORY = 3 << 30  # bytes; a larger allocation in the child raises MemoryError


def run(kernel_set: str, *names: str) -> None:
    """Run in the child process: print the name of every call before making it."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (SMALL_MEMORY, SMALL_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    rg.use_kernels(kernel_set)
    for name, value in product(names, (*INTS, *OTHERS)):
        print(name, repr(value), flush=True)
        try:
            results = CALLS[name](value)
            for y in results if isinstance(results, tuple) else (results,):
                if y.numel() < 10**6:
                    assert isinstance(repr(y), str)
                    if y.requires_grad:
                        y.sum().backward()
        except CLEAR as error:
            assert str(error), "no message"


def in_child(seconds: int, kernel_set: str, *names: str) -> None:
    code = "import sys; from ops.test_extreme_integers import run; run(*sys.argv[1:])"
    path = [entry for entry in sys.path if entry]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {code}", kernel_set, *names],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, f"at {done.stdout.splitlines()[-1:]}: {done.returncode}, {done.stderr[-600:]}"


@pytest.mark.skipif(sys.platform != "linux", reason="the bound on memory is kept on Linux")
def test_the_gravest(kernel_set: str) -> None:
    in_child(120, kernel_set, *GRAVE)


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="the bound on memory is kept on Linux")
@pytest.mark.parametrize("name", CALLS)
def test_every_one(name: str, kernel_set: str) -> None:
    in_child(120, kernel_set, name)


@pytest.mark.parametrize("offset", [-(10**30), -(2**31), -9, 9, 2**31, 10**30])
def test_an_offset_beside_the_matrix_is_one_just_beside_it(offset: int) -> None:
    near = max(-20, min(offset, 20))
    a = np.arange(15.0).reshape(3, 5)
    assert rg.diagonal(rg.tensor(a), offset).shape == np.diagonal(a, near).shape == (0,)
    np.testing.assert_array_equal(rg.tril(rg.tensor(a), offset).numpy(), np.tril(a, near))
    np.testing.assert_array_equal(rg.triu(rg.tensor(a), offset).numpy(), np.triu(a, near))
    np.testing.assert_array_equal(rg.tril_indices(3, 5, offset).numpy(), np.array(np.tril_indices(3, near, 5)))
    np.testing.assert_array_equal(rg.triu_indices(3, 5, offset).numpy(), np.array(np.triu_indices(3, near, 5)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rg.bincount(rg.tensor([0, LONG - 1])), "input contains 9223372036854775807, which is too"),
        (lambda: rg.bincount(rg.tensor([0]), minlength=LONG), "bincount: minlength=9223372036854775808 must be an int"),
        (lambda: rg.histc(x(3), LONG - 1), "histc: bins=9223372036854775807 must be an int from 1 to"),
        (lambda: rg.arange(LONG - 1), "arange: from start=0 to end=9223372036854775807 by step=1 is too long for"),
        (lambda: rg.arange(-LONG, 0), "arange: from start=-9223372036854775808 to end=0 by step=1 is too long for"),
        (lambda: rg.randperm(LONG - 1), "randperm: n=9223372036854775807 must be below"),
        (lambda: functional.one_hot(rg.tensor([1]), LONG - 1), "one_hot: num_classes=9223372036854775807 is too large"),
        (lambda: rg.repeat_interleave(x(4), 2**62), r"repeats=4611686018427387904 make 1.84e\+19 slices: too many"),
        (lambda: rg.repeat_interleave(x(3), rg.tensor([LONG - 1, LONG - 1, 3])), "slices: too many"),
        (lambda: functional.embedding_bag(rg.tensor([0, 1]), x(3, 2), offsets(LONG - 1)), "begins with 0 and grows to"),
        (lambda: PackedSequence(x(1, 2), rg.tensor([2**62] * 4 + [1])), "adds up to 18446744073709551617 rows"),
        (lambda: rg.combinations(rg.arange(10**6), 5 * 10**5), "combinations: the choices of r=500000 among 1000000"),
        (lambda: rg.combinations(rg.arange(3), 2**62, True), "are too many for any memory"),
        (lambda: rg.tensor_split(x(3), 2**31), "indices_or_sections=2147483648 must be at most 1048576"),
        (lambda: rg.chunk(x(0), 2**31), "chunk: chunks=2147483648 empty pieces are too many; at most 1048576"),
        (lambda: functional.conv1d(x(1, 3, 8), x(2, 3, 2), None, 2**62), r"stride=4\d+ must be at most 2\*\*40"),
    ],
)
def test_what_no_memory_holds_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rg.diagonal(x(3, 5), 1.5), "diagonal: offset=1.5 must be an int"),
        (lambda: rg.diag(x(3, 5), "1"), "diag: diagonal='1' must be an int"),
        (lambda: rg.diag_embed(x(3), None), "diag_embed: offset=None must be an int"),
        (lambda: rg.tril(x(3, 5), 1.5), "tril: diagonal=1.5 must be an int"),
        (lambda: rg.triu_indices(3, 5, 1.5), "triu_indices: offset=1.5 must be an int"),
        (lambda: x(3, 5).unfold(1, 2.0, 1), "unfold: size=2.0 and step=1 must be ints"),
    ],
)
def test_what_is_no_int_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


WHOLE, FLOAT, MASK = rg.tensor([1, 2]), rg.tensor([1.0, 2.0]), rg.tensor([True, False])
OPERANDS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "add": (lambda x, n: x + n, "add: other"),
    "add, number first": (lambda x, n: n + x, "add: input"),
    "add, in place": (lambda x, n: x.clone().add_(n), "(add|add_): other"),
    "add, alpha": (lambda x, n: rg.add(x, x, alpha=n), "add: alpha"),
    "sub, number first": (lambda x, n: n - x, "sub: input"),
    "mul": (lambda x, n: x * n, "mul: other"),
    "div": (lambda x, n: x / n, "div: other"),
    "floor_divide": (lambda x, n: x // n, "floor_divide: other"),
    "pow": (lambda x, n: x**n, "pow: exponent"),
    "pow, number first": (lambda x, n: n**x, "pow: input"),
    "maximum": (lambda x, n: rg.maximum(x, n), "maximum: other"),
    "clamp, min": (lambda x, n: rg.clamp(x, n), "clamp: min"),
    "clamp, max": (lambda x, n: x.clamp_max(n), "clamp: max"),
    "where": (lambda x, n: rg.where(x > 1, x, n), "where: other"),
    "where, number first": (lambda x, n: rg.where(x > 1, n, x), "where: input"),
    "full_like": (lambda x, n: rg.full_like(x, n), "full_like: fill_value"),
    "full": (lambda x, n: rg.full((2,), n, dtype=x.dtype), "full: fill_value"),
    "fill_": (lambda x, n: x.clone().fill_(n), "fill_: value"),
    "masked_fill": (lambda x, n: rg.masked_fill(x, x > 1, n), "masked_fill: value"),
    "index_fill": (lambda x, n: rg.index_fill(x, 0, rg.tensor([0]), n), "index_fill: value"),
    "scatter": (lambda x, n: rg.scatter(x, 0, rg.tensor([0]), n), "scatter: src"),
    "setitem": (lambda x, n: x.clone().__setitem__(0, n), "setitem: value"),
    "pad": (lambda x, n: functional.pad(x, (1, 0), value=n), "pad: value"),
    "addcmul": (lambda x, n: rg.addcmul(x, x, x, value=n), "addcmul: value"),
    "linspace": (lambda x, n: rg.linspace(0, n, 3, dtype=x.dtype), "linspace: end"),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_numbers_beyond_the_type_are_refused_by_name(name: str) -> None:
    call, start = OPERANDS[name]
    for number in (LONG, -LONG - 1, 2**70, 10**400):
        shown = number if number < 10**400 else "<int of 1329 bits>"
        with pytest.raises(ValueError, match=f"^{start}={shown} does not fit int64; convert the integers with"):
            call(WHOLE, number)
    with pytest.raises(ValueError, match=f"^{start}=<int of 16610 bits> is larger than any floating-point number; use"):
        call(FLOAT, 10**5000)


def test_numbers_beyond_int64_beside_floats_and_in_comparisons() -> None:
    assert (FLOAT + 2**70).tolist() == [2.0**70] * 2
    assert rg.clamp(FLOAT, 2**70).tolist() == rg.full((2,), 2**70, dtype=rg.float32).tolist() == [2.0**70] * 2
    assert rg.where(FLOAT > 1, 0.5, 2**70).tolist() == [2.0**70, 0.5]
    for x in (WHOLE, FLOAT, MASK):
        assert (x < 2**70).tolist() == (x > -(2**70)).tolist() == (x != 2**70).tolist() == [True, True]
    assert (WHOLE < 10**400).tolist() == [True, True]
    with pytest.raises(ValueError, match="lt: other=<int of 1329 bits> is larger than any floating-point number"):
        FLOAT < 10**400  # noqa: B015
    with pytest.raises(ValueError, match=f"full: fill_value={LONG} does not fit int64"):
        rg.full((2,), LONG)
    with pytest.raises(ValueError, match="where: input=1180591620717411303424 does not fit int64"):
        rg.where(MASK, 2**70, 1)
    with pytest.raises(ValueError, match="masked_fill: value=nan does not fit int64"):
        rg.masked_fill(WHOLE, MASK, float("nan"))
    with pytest.raises(ValueError, match=f"arange: start={LONG} does not fit int64"):
        rg.arange(LONG, LONG + 2)


@pytest.mark.parametrize("number", [LONG - 1, -LONG, np.int64(LONG - 1), np.int64(-LONG), np.uint64(LONG - 1)])
def test_the_outermost_of_int64_are_taken(number: Any) -> None:
    assert rg.full((1,), number, dtype=rg.int64).item() == (WHOLE * 0 + number)[0].item() == int(number)
    assert rg.clamp(WHOLE, number, number).tolist() == [int(number)] * 2


def test_a_step_behind_the_only_window_is_allowed() -> None:
    v = x(3, 5)
    y = v.unfold(1, 4, 10**30)
    assert y.shape == (3, 1, 4)
    y.sum().backward()
    np.testing.assert_array_equal(v.grad.numpy(), np.tile([1.0, 1, 1, 1, 0], (3, 1)))  # type: ignore[union-attr]
