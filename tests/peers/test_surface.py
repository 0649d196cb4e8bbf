"""Tensor features beyond operators: memory, older call forms, NumPy's names, in-place forms."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import retrograd
from peers.compare import assert_close

# m is (2, 3) of 0 to 5, s the square (2, 2), v (2,), c (2, 2, 2), i the integers of m
EXPRESSIONS = (
    # older forms
    *("s.clone().add_(2, s)", "lib.add(s, 2, s)", "s.sub(2, s)", "s.add(2, 3)", "s.clone().addmm_(2, 3, s, s)"),
    *("lib.addmm(2, s, 3, s, s)", "lib.addmm(2, s, s, s)", "s.addmm(2, s, s)", "s.clone().addcdiv_(2, s + 1, s + 1)"),
    *("s.addcmul(2, s, s)", "lib.addcmul(s, 2, s, s)", "lib.addmv(2, v, 3, s, v)", "s.clone().addr_(2, v, v)"),
    *("lib.baddbmm(2, c, c, c)", "s.clone().addbmm_(2, c, c)", "lib.addcdiv(s, 2, s, s + 1)"),
    # NumPy's names
    *("m.sum(axis=0)", "m.sum(0, keepdims=True)", "lib.mean(m, axis=1)", "m.max(axis=0)[0]", "m.argmax(axis=1)"),
    *("lib.cat([m, m], axis=1)", "lib.stack([m, m], axis=2)", "m[None].squeeze(axis=0)", "m.unsqueeze(axis=1)"),
    *("m.std(axis=1, keepdims=True)", "m.cumsum(axis=1)", "m.prod(axis=0)", "lib.softmax(m, axis=0)"),
    # memory
    *("m.stride()", "m.t().stride(0)", "m.t().stride(-1)", "m[1:, 1:].storage_offset()", "m.element_size()"),
    *("m.itemsize", "m.nbytes", "m.data_ptr() == m.view(6).data_ptr()", "m.is_set_to(m.view(2, 3))"),
    *("m.is_set_to(m[:1])",),
    *("m[:1].untyped_storage().nbytes()", "m.untyped_storage() == m[0].untyped_storage()", "m.nelement()"),
    *("m.ndimension()", "m.t().is_contiguous()", "c[None].is_contiguous(memory_format=lib.channels_last)"),
    *("c[None].contiguous(memory_format=lib.channels_last).stride()",),
    *("c[None].contiguous(memory_format=lib.channels_last)",),
    *("c[None].contiguous(memory_format=lib.channels_last).is_contiguous(memory_format=lib.channels_last)",),
    *("c[None].to(memory_format=lib.channels_last).is_contiguous()", "m.t().contiguous().stride()"),
    *("m.t().dim_order()",),
    *("lib.empty_strided((2, 3), (1, 2)).stride()", "m.new_empty_strided((2, 3), (1, 4)).stride()", "m.output_nr"),
    # types and new tensors
    *("m.new(2, 3).shape", "m.new([1, 2])", "m.new(m)", "i.new([1.5])", "m.new_tensor([1, 2])"),
    *("i.new_tensor([1.5])",),
    *("m.new_zeros((2, 3))", "m.new_zeros(2, 3)", "i.new_ones(2)", "m.new_ones(2, dtype=lib.int64)"),
    *("m.new_full((2,), 3)",),
    *("m.new_empty(2, 3).shape", "m.view(lib.int32)", "m.type()", "m.ne(0).byte()", "i.type_as(m)"),
    *("m.double().type()",),
    *("m.numpy(force=True)", "m.H", "c.mH", "m.real", "m.conj()", "lib.real(m)", "c.adjoint()", "lib.conj(m)"),
    *("m.is_conj()", "3 in m", "7 in m", "m.__contains__(2)", "m.__reversed__()", "m.sum_to_size(1, 3)"),
    # in place
    *("s.fill_diagonal_(5)", "m.fill_diagonal_(5)", "lib.ones(5, 2).fill_diagonal_(7, wrap=True)"),
    *("lib.ones(5, 2).fill_diagonal_(7)", "c.fill_diagonal_(7)", "m.resize_(3, 2)", "m.resize_(2)"),
    *("m.resize_(2, 4)[:1]",),
    *("m.resize_as_(v)", "m.set_(v)", "m.set_()", "m.apply_(lambda a: a + 1)", "m.map_(m, lambda a, b: a + b)"),
    *("m.t_()", "m.transpose_(0, 1)", "m.swapaxes_(0, 1)", "c.swapdims_(0, 2)", "m.unsqueeze_(1)"),
    *("m[None].squeeze_()",),
    *("m.cumsum_(1)", "m.cumprod_(0)", "i.cumsum_(0)", "m.eq_(3)", "m.lt_(3)", "m.logical_and_(m)"),
    *("m.logical_not_()",),
    *("m.divide_(2)", "m.multiply_(2)", "m.subtract_(2)", "m.negative_()", "m.true_divide_(3)", "v.addmv_(s, v + 1)"),
    *("c.clone().baddbmm_(c, c)", "i.ge_(2)", "s.clone().addmm_(s, s, beta=2)"),
)


def _names(lib: Any) -> dict[str, Any]:
    m = lib.arange(6.0).reshape(2, 3)
    return {
        "lib": lib,
        "m": m,
        "i": m.long(),
        "s": m[:, :2].clone(),
        "v": lib.arange(2.0),
        "c": lib.arange(8.0).reshape(2, 2, 2),
    }


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions(expression: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # PyTorch shows some of them once
        found, wanted = (eval(expression, _names(lib)) for lib in (retrograd, torch))
    if isinstance(wanted, torch.Tensor):
        assert_close(found, wanted, expression)
    elif isinstance(wanted, np.ndarray):
        np.testing.assert_array_equal(found, wanted)
    else:
        assert found == wanted


@pytest.mark.parametrize("name", ["t_", "unsqueeze_", "transpose_", "cumsum_", "squeeze_"])
def test_gradients_of_changes_of_shape(name: str) -> None:
    args = {"unsqueeze_": (1,), "transpose_": (0, 1), "cumsum_": (0,)}.get(name, ())
    found = []
    for lib in (retrograd, torch):
        x = lib.arange(3.0).reshape(1, 3).requires_grad_()
        y = getattr(x * 2, name)(*args)
        (y * y * lib.arange(3.0).reshape(y.shape)).sum().backward()
        found.append(x.grad)
    assert_close(*found, name)


@pytest.mark.filterwarnings("ignore:Using backward:UserWarning")  # with create_graph
def test_gradients_to_chosen_tensors() -> None:
    for create in (False, True):
        found = []
        for lib in (retrograd, torch):
            x, w = lib.ones(3, requires_grad=True), lib.full((3,), 2.0, requires_grad=True)
            w.grad = lib.ones(3)
            h = x * w
            (h * h * w).sum().backward(inputs=[w, h], create_graph=create, retain_graph=True)
            assert x.grad is None
            found.append((w.grad, h.grad))
            zero = lib.autograd.grad(h.sum(), [w, lib.ones(2, requires_grad=True)], materialize_grads=True)
            found[-1] += zero
        for ours, theirs in zip(*found, strict=True):
            assert_close(ours, theirs, "backward(inputs=)")
