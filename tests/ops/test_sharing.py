"""Results that share memory with an input: exactly those that PyTorch documents as views.

If a result shared memory without being declared a View, an in-place change would reach the input.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import retrograd
from conformance.table import Op, normal
from conformance.test_conformance import OPERATORS
from retrograd import Tensor
from retrograd.nn import functional
from retrograd.testing.function_call import Call, outputs_of

VIEWS = {
    *("atleast_1d", "atleast_2d", "atleast_3d", "linalg.diagonal", "split_with_sizes", "unsafe_chunk"),
    *("unsafe_split", "unsafe_split_with_sizes"),
    *("broadcast_tensors", "broadcast_to", "chunk", "contiguous", "diagonal", "einsum", "expand", "expand_as"),
    *("flatten", "getitem", "hsplit", "meshgrid", "moveaxis", "movedim", "narrow", "permute", "positive", "ravel"),
    *("reshape", "reshape_as", "select", "split", "squeeze", "swapaxes", "swapdims", "t", "tensor_split"),
    *("transpose", "unbind", "unflatten", "unfold: along an axis", "unsqueeze", "view_as", "vsplit", "dsplit"),
}
REPEATED = {"broadcast_tensors", "broadcast_to", "expand", "expand_as", "meshgrid", "unfold: along an axis"}

X, IMAGES, LINE = normal(3, 4), normal(2, 3, 4, 4), normal(6)
NUMBER = np.array(7)
# calls that change nothing or move nothing, for which a view would suffice
COPIES: dict[str, tuple[np.ndarray, Callable[[Tensor], Tensor]]] = {
    "flip": (X, lambda x: retrograd.flip(x, 1)),
    "flip along no axis": (X, lambda x: retrograd.flip(x, ())),
    "fliplr": (X, retrograd.fliplr),
    "flipud": (X, retrograd.flipud),
    **{f"rot90 by {k}": (X, lambda x, k=k: retrograd.rot90(x, k)) for k in range(4)},  # type: ignore[misc]
    "diag": (X, retrograd.diag),
    "repeat": (X, lambda x: retrograd.repeat(x, 1, 1)),
    "tile": (X, lambda x: retrograd.tile(x, 1)),
    "diff": (X, lambda x: retrograd.diff(x, 0)),
    "ravel of every other": (LINE, lambda x: retrograd.ravel(x[::2])),
    "ravel of a column": (X, lambda x: retrograd.ravel(x[:, :1])),
    "ravel of what is repeated": (LINE, lambda x: retrograd.ravel(x[:1].expand(3))),
    "unfold by 1": (IMAGES, lambda x: functional.unfold(x, 1)),
    "unfold by 1 without batch": (IMAGES[0], lambda x: functional.unfold(x, 1)),
    "unfold by 1, padded": (IMAGES, lambda x: functional.unfold(x, 1, padding=1)),
    "unfold of one window": (IMAGES, lambda x: functional.unfold(x, 4)),
    "fold by 1": (IMAGES.reshape(2, 3, 16), lambda x: functional.fold(x, (4, 4), 1)),
    "div, rounded": (NUMBER, lambda x: retrograd.div(x, 2, rounding_mode="trunc")),
    **{
        f"pad by 0, {mode}": (IMAGES, lambda x, mode=mode: functional.pad(x, (0, 0, 0, 0), mode))  # type: ignore[misc]
        for mode in ("constant", "reflect", "replicate", "circular")
    },
    "pad, cut off": (IMAGES, lambda x: functional.pad(x, (-1, 0))),
    "interpolate to its size": (IMAGES, lambda x: functional.interpolate(x, (4, 4))),
    "average of one": (IMAGES, lambda x: functional.avg_pool2d(x, 1)),
    "pixel_shuffle by 1": (IMAGES, lambda x: functional.pixel_shuffle(x, 1)),
    "roll by 0": (X, lambda x: retrograd.roll(x, 0)),
    "repeat_interleave by 1": (X, lambda x: retrograd.repeat_interleave(x, 1, 0)),
    "cat of one": (X, lambda x: retrograd.cat([x])),
    "sum of one": (X[:1], lambda x: retrograd.sum(x, 0)),
    "cumsum of one": (X[:1], lambda x: retrograd.cumsum(x, 0)),
    "integers, already round": (np.arange(4), retrograd.round),
    "index": (X, lambda x: x[retrograd.tensor([0, 1, 2])]),
}


@pytest.mark.parametrize("entry", OPERATORS, ids=lambda entry: entry.name)
def test_only_views_share_memory_and_results_can_be_written_to(entry: Op) -> None:
    options = {key: entry.options[key] for key in ("random",) if key in entry.options}
    call = Call(entry.function, entry.args, entry.options.get("kwargs") or {}, **options)
    given = [Tensor(array.copy(order="K")) for array in call.arrays]
    name = entry.name.partition(":")[0]
    try:
        outputs = outputs_of(call.with_values(given))
    except TypeError:  # the result is not a Tensor
        return
    for y in outputs:
        assert type(y.array) is np.ndarray
        shared = any(np.shares_memory(y.array, x.array) for x in given)
        if name in VIEWS or entry.name in VIEWS:
            assert not shared or any(y is x for x in given) or getattr(y, "_view", None) is not None
        else:
            assert not shared, f"{entry.name} shows the memory of its input; is it a view in PyTorch?"
        if name not in REPEATED and entry.name not in REPEATED:
            assert y.array.flags.writeable


@pytest.mark.parametrize("name", COPIES)
def test_copies_where_a_view_would_do(name: str) -> None:
    array, function = COPIES[name]
    x = Tensor(array.copy())
    y = function(x)
    assert y.array.flags.writeable and not np.shares_memory(y.array, x.array)
    y += 1
    np.testing.assert_array_equal(x.array, array)


def test_ravel_of_a_line_is_a_view() -> None:
    x = Tensor(X.copy())
    retrograd.ravel(x).zero_()
    assert not x.array.any()


def test_windows_along_an_axis_follow_a_change_of_their_base() -> None:
    leaf = retrograd.tensor(LINE, requires_grad=True)
    x = leaf * 1
    y = x.unfold(0, 3, 2)
    x *= 5
    upstream = normal(2, 3, seed=1)
    (gx,) = retrograd.autograd.grad(y, leaf, Tensor(upstream))
    expected = np.zeros(6)
    for k, row in enumerate(upstream):
        expected[2 * k : 2 * k + 3] += 5 * row
    np.testing.assert_allclose(y.array, [5 * LINE[:3], 5 * LINE[2:5]])
    np.testing.assert_allclose(gx.array, expected)


def test_what_repeats_nothing_can_be_written_to() -> None:
    for expand in (
        lambda x: x.expand(1, 1, 3, 4),
        lambda x: retrograd.broadcast_to(x, (1, 3, 4)),
        lambda x: retrograd.broadcast_tensors(x, x[:1, :1].reshape(1, 1, 1))[0],
    ):
        x = Tensor(X.copy())
        expand(x).zero_()
        assert not x.array.any()
    number = Tensor(NUMBER.copy())
    number.expand(1, 1).zero_()
    assert not number.array
