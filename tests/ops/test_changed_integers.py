"""Indices, labels and masks that the user overwrites through NumPy between forward and backward have no effect.

The gradients are those of the values that forward read. (tests/guard does the same for every operator of the tables,
with numbers that are not valid indices.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd
from ops.battery import away_from_kinks, numbers
from retrograd.engine.tensor import Tensor
from retrograd.nn import functional as F  # noqa: N812

INDEX, ROWS, MASK = np.array([3, 0, 3, 2]), np.array([[1, 0, 2], [3, 3, 0]]), np.array([True, False, True, False, True])
LABELS, MANY = np.array([2, 0, 4, 1]), np.array([[3, 0, -1, 1, 2], [4, 1, 2, 0, 3], [-1, 0, 1, 2, 3], [0, 1, -1, 0, 0]])
CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    # arguments
    "gather": (lambda x, i: retrograd.gather(x, 0, i), (ROWS,)),
    "take_along_dim": (lambda x, i: retrograd.take_along_dim(x, i, 0), (ROWS[:1, :1],)),
    "take": (retrograd.take, (ROWS,)),
    "index_select": (lambda x, i: retrograd.index_select(x, 0, i), (INDEX,)),
    "x[index]": (lambda x, i: x[i, 1:], (INDEX,)),
    "x[:, mask]": (lambda x, m: x[:, m], (MASK,)),
    "scatter": (lambda x, i: retrograd.scatter(x, 0, i, x * 2), (ROWS,)),
    "scatter_reduce": (lambda x, i: retrograd.scatter_reduce(x, 0, i, x * 2, "amax"), (ROWS,)),
    "index_add": (lambda x, i: retrograd.index_add(x, 0, i, x * 2), (INDEX,)),
    "index_put": (lambda x, i: retrograd.index_put(x, (i,), x * 2), (INDEX,)),
    "x[index] = y": (lambda x, i: (lambda y: (y.__setitem__(i, x * 2), y)[1])(x * 1), (INDEX,)),
    "masked_fill": (lambda x, m: retrograd.masked_fill(x, m, 2.0), (MASK,)),
    "masked_fill_": (lambda x, m: (x * 1).masked_fill_(m, 2.0), (MASK,)),
    "where": (lambda x, m: retrograd.where(m, x, x * 3), (MASK,)),
    "embedding": (lambda x, i: F.embedding(i, x), (ROWS,)),
    "embedding_bag": (
        lambda x, i, o: F.embedding_bag(i, x, o, include_last_offset=True),
        (INDEX, np.array([0, 1, 4])),
    ),
    "cross_entropy": (F.cross_entropy, (LABELS,)),
    "nll_loss": (F.nll_loss, (LABELS,)),
    "multi_margin_loss": (F.multi_margin_loss, (LABELS,)),
    "multilabel_margin_loss": (F.multilabel_margin_loss, (MANY,)),
    "ctc_loss": (
        lambda x, t, n, m: F.ctc_loss(x.reshape(4, 1, 5), t, n, m, reduction="sum"),
        (np.array([[1, 3, 2]]), np.array([4]), np.array([3])),
    ),
    "max_unpool1d": (lambda x, i: F.max_unpool1d(x[None], i[None], 2), (np.arange(20).reshape(4, 5) % 7,)),
    "attention": (
        lambda x, m: F.scaled_dot_product_attention(x, x, x, m),
        (np.array([[1, 1, 0, 1], [0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 1, 1]], np.bool_),),
    ),
    # results
    "max": (lambda x: retrograd.max(x, 1), ()),
    "min": (lambda x: retrograd.min(x, 0, True), ()),
    "topk": (lambda x: retrograd.topk(x, 2), ()),
    "sort": (lambda x: retrograd.sort(x, 0), ()),
    "kthvalue": (lambda x: retrograd.kthvalue(x, 2), ()),
    "median": (lambda x: retrograd.median(x, 1), ()),
    "mode": (lambda x: retrograd.mode(x, 0, True), ()),
    "cummax": (lambda x: retrograd.cummax(x, 1), ()),
    "max_pool1d": (lambda x: F.max_pool1d(x[None], 2, 1, return_indices=True), ()),
    "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x[None], 2, return_indices=True), ()),
}


@pytest.mark.pairwise
@pytest.mark.parametrize("again", [False, True], ids=["fused", "differentiable"])
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_what_forward_saw(name: str, again: bool) -> None:
    function, arrays = CASES[name]
    found = []
    for change in (False, True):
        x = Tensor(away_from_kinks(4, 5), requires_grad=True)
        given = [Tensor(array.copy()) for array in arrays]
        result = function(x, *given)
        outputs = result if isinstance(result, tuple) else (result,)
        for tensor in (*given, *outputs) if change else ():
            if tensor.dtype.kind in "ib":
                tensor.numpy()[...] = ~tensor.numpy() if tensor.dtype == np.bool_ else (tensor.numpy() == 0)
        upstream = Tensor(numbers(*outputs[0].shape))
        (g,) = retrograd.autograd.grad(outputs[0], x, upstream, create_graph=again)
        found.append(g.detach().numpy())
    assert found[0].any()
    np.testing.assert_array_equal(found[1], found[0])


def test_index_of_the_user_stays_as_it_is() -> None:

    index = np.array([-1, 0])
    y = retrograd.tensor([1.0, 2.0])[Tensor(index)]
    assert y.tolist() == [2.0, 1.0]
    assert index.tolist() == [-1, 0]


def test_additive_attention_mask_that_was_changed_in_place_is_refused() -> None:
    x, mask = Tensor(numbers(1, 1, 4, 5), requires_grad=True), Tensor(numbers(4, 4))
    y = F.scaled_dot_product_attention(x, x, x, mask)
    mask.add_(1.0)
    with pytest.raises(RuntimeError, match="changed by add_"):
        y.sum().backward()
