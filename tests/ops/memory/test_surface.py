"""Methods for a tensor's memory and shape, and deprecated call forms: errors and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn

LEAF = rg.ones(2, 2, requires_grad=True)


def _result() -> rg.Tensor:
    return rg.ones(2, 2, requires_grad=True) * 1


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: LEAF.t_(), RuntimeError, r"t_: a leaf that requires a gradient cannot change in place; use x.t\("),
        (lambda: LEAF.resize_(4), RuntimeError, "resize_: input requires a gradient, which this method does"),
        (lambda: _result().set_(rg.ones(1)), RuntimeError, "set_: input requires a gradient"),
        (lambda: _result().apply_(abs), RuntimeError, "apply_: input requires a gradient"),
        (lambda: rg.ones(2).set_(rg.arange(2)), TypeError, "set_: source is int64, input is float32; use x.data"),
        (lambda: rg.ones(2).set_([1.0]), TypeError, "set_: source is list, needs a Tensor"),
        (lambda: rg.ones(2).resize_as_(2), TypeError, "resize_as_: other is int, needs a Tensor"),
        (lambda: rg.ones(2).map_(3, max), TypeError, "map_: tensor is int, needs a Tensor"),
        (lambda: rg.ones(2).fill_diagonal_(1), RuntimeError, r"fill_diagonal_: input.shape=\(2,\), needs two axes"),
        (lambda: rg.ones(2, 3, 2).fill_diagonal_(1), RuntimeError, "needs two axes, or more with equal extents"),
        (lambda: rg.ones(2).stride(1), IndexError, "stride: dim=1 is out of range"),
        (lambda: rg.ones(2).contiguous(rg.channels_last), RuntimeError, r"is for 4 axes; input.shape=\(2,\)"),
        (lambda: rg.ones(2).is_contiguous("C"), TypeError, "memory_format='C' must be a memory format"),
        (lambda: LEAF.view(rg.int32), RuntimeError, "view: bytes as int32 have no gradient"),
        (lambda: rg.ones(2).view("a"), TypeError, "must consist of ints"),
        (lambda: "a" in rg.ones(2), TypeError, "in: element is str, needs a number or a Tensor"),
        (lambda: rg.imag(rg.ones(2)), RuntimeError, "imag: input is real"),
        (lambda: rg.conj([1]), TypeError, "real: input is list, needs a Tensor"),
        (lambda: rg.empty_strided((2,), (1, 2)), ValueError, "must have the same length, with numbers of at least 0"),
        (lambda: rg.ones(2).new_zeros(2, device="cuda"), RuntimeError, "zeros: device='cuda', but there is one"),
        (lambda: rg.ones(2).new_tensor([1], out=rg.ones(1)), TypeError, "unexpected keyword argument 'out'"),
        (lambda: rg.ones(2).numpy(force=1), TypeError, "numpy: force=1"),
        (lambda: rg.ones(2).add(1, 2, 3), TypeError, "add: takes 2 operands, and its factor by name; got 4"),
        (lambda: rg.ones(2).add(rg.ones(2), rg.ones(2)), TypeError, "add: takes 2 operands, and its factor by name"),
        (lambda: rg.ones(2).add(2, rg.ones(2), alpha=3), TypeError, "add: takes 2 operands, and its factor by name"),
        (lambda: rg.addcmul(*[rg.ones(2)] * 4), TypeError, "addcmul: takes 3 operands, and its factor by name"),
        (lambda: rg.addmm(*[rg.ones(2, 2)] * 4), TypeError, "addmm: takes three Tensors, beta and alpha by name; got"),
        (lambda: rg.sum(rg.ones(2), dim=0, axis=0), TypeError, "sum: axis and dim are the same argument; give it once"),
        (lambda: rg.ones(2).cauchy_(0, 0), ValueError, "cauchy_: sigma=0.0 must be above 0"),
        (lambda: rg.ones(2).log_normal_(0, 0), ValueError, "log_normal_: std=0.0 must be above 0"),
        (lambda: rg.ones(2).geometric_(1), ValueError, r"geometric_: p=1 is a probability and must lie in \(0, 1\)"),
        (lambda: rg.arange(2).cauchy_(), TypeError, "cauchy_: input is int64"),
        (lambda: rg.autograd.grad(LEAF.sum(), LEAF, is_grads_batched=True), RuntimeError, "is not supported; call"),
        (lambda: LEAF.sum().backward(inputs=[]), ValueError, "backward: inputs is empty"),
        (lambda: LEAF.sum().backward(inputs=rg.ones(1)), RuntimeError, r"backward: inputs\[0\] does not require"),
        (lambda: setattr(nn.Linear(1, 1), "weight", rg.ones(1, 1)), TypeError, "cannot assign Tensor as parameter"),
        (lambda: setattr(LEAF, "grad", np.ones((2, 2))), TypeError, "grad: expected a Tensor or None, got ndarray"),
        (lambda: setattr(LEAF, "data", np.ones((2, 2))), TypeError, "data: expected a Tensor, got ndarray"),
    ],
)
def test_what_is_refused(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_changes_of_shape_follow_gradients_and_refuse_stale_ones() -> None:
    x = rg.randn(2, 3, requires_grad=True)
    g = rg.randn(3, 2)
    y = x * 1
    assert y.t_() is y and y.shape == (3, 2)
    y.backward(g)
    assert x.grad is not None and np.array_equal(x.grad.array, g.array.T)
    with rg.no_grad():
        x.t_()
    assert x.shape == (3, 2) and x.is_leaf
    base = rg.zeros(2, 3)
    view = base[0]
    base.t_()
    view.fill_(7)  # it still uses the same memory
    assert base.tolist() == [[7, 0]] * 3


CHANGES: list[Callable[[rg.Tensor], rg.Tensor]] = [
    lambda x: x.t_(),
    lambda x: x.unsqueeze_(1),
    lambda x: x.transpose_(0, 1).unsqueeze_(0),
    lambda x: x.squeeze_(),
]


@pytest.mark.parametrize("place", ["base", "view", "row"])
@pytest.mark.parametrize("has_history", [False, True])
@pytest.mark.parametrize("changed", ["base", "view", "row"])
@pytest.mark.parametrize("change", CHANGES, ids=["t", "unsqueeze", "transpose", "squeeze"])
def test_a_change_of_shape_keeps_views_linked(
    change: Callable[[rg.Tensor], rg.Tensor], changed: str, has_history: bool, place: str
) -> None:
    """All that share its memory get the history of a change; compared with the same made of new tensors."""
    rng = np.random.default_rng(0)
    values, weights = rng.standard_normal((2, 3)), [rng.standard_normal(size) for size in ((2, 3), (2, 2), (1, 3))]
    parts = {"base": np.s_[:, :], "view": np.s_[:, 1:], "row": np.s_[1:, :]}
    doubled = np.ones((2, 3))
    doubled[parts[place]] = 2
    factor, x = rg.tensor(2.0, dtype=rg.float64, requires_grad=True), rg.tensor(values, requires_grad=True)
    base = x * 1.0 if has_history else (x * 1.0).detach()
    tensors = {"base": base, "view": base[:, 1:], "row": base[1:, :]}
    assert change(tensors[changed]) is tensors[changed]
    tensors[place].mul_(factor)
    loss, wanted_x, wanted_factor = rg.tensor(0.0), np.zeros((2, 3)), 0.0
    for (name, tensor), w in zip(tensors.items(), weights, strict=True):
        expected = rg.tensor((values * doubled)[parts[name]])
        np.testing.assert_array_equal(tensor.array, (change(expected) if name == changed else expected).array)
        loss = loss + (tensor * (change(rg.tensor(w.copy())) if name == changed else rg.tensor(w))).sum()
        wanted_x[parts[name]] += w * doubled[parts[name]]
        wanted_factor += (w * (values * (doubled - 1))[parts[name]]).sum()
    loss.backward()
    assert factor.grad is not None and factor.grad.item() == pytest.approx(wanted_factor)
    if has_history:
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.array, wanted_x)


def test_a_view_made_in_no_grad_stays_one_when_its_shape_changes() -> None:
    base = _result()
    with rg.no_grad():
        row = base[0]
    row.unsqueeze_(0)
    with pytest.raises(RuntimeError, match="x is a view that was made while nothing was recorded"):
        row.mul_(rg.ones(1, requires_grad=True))


def test_resizing_keeps_elements() -> None:
    x = rg.arange(6).reshape(2, 3)
    y = x.view(6)
    x.resize_(3)
    x[0] = 9
    assert x.tolist() == [9, 1, 2] and y.tolist() == [9, 1, 2, 3, 4, 5]  # smaller: the same memory
    x.resize_(2, 2)
    assert x.reshape(4)[:3].tolist() == [9, 1, 2]
    z = rg.zeros(2).set_(rg.ones(3))
    assert z.tolist() == [1, 1, 1] and rg.ones(2).set_().shape == (0,)


def test_filling_the_diagonal_stops_gradients_there() -> None:
    x = rg.ones(3, 3, requires_grad=True)
    g = rg.randn(3, 3)
    (x * 1).fill_diagonal_(4.0).backward(g)
    wanted = g.array.copy()
    np.fill_diagonal(wanted, 0)
    assert x.grad is not None and np.array_equal(x.grad.array, wanted)


def test_new_in_place_forms_follow_gradients() -> None:
    for name, args in (("cumsum_", (0,)), ("addmm_", (rg.randn(3, 2), rg.randn(2, 3))), ("divide_", (2.0,))):
        w = rg.randn(3, 3)
        found = []
        for method in (name, name[:-1]):
            x = rg.ones(3, 3, requires_grad=True)
            getattr(x * 1, method)(*args).backward(w)
            found.append(x.grad)
        assert np.array_equal(found[0].array, found[1].array)
    assert rg.ones(2).eq_(1).dtype == rg.float32


def test_storages() -> None:
    x = rg.arange(6).reshape(2, 3)
    with pytest.warns(UserWarning, match="TypedStorage is deprecated"):
        typed = x[1].storage()
    assert len(typed) == 6 and typed[4] == 4 and typed.tolist() == [0, 1, 2, 3, 4, 5] and typed.nbytes() == 48
    untyped = x.untyped_storage()
    assert untyped == x.t().untyped_storage() and untyped.size() == 48 and untyped.element_size() == 1
    assert {untyped: 1}[x[1].untyped_storage()] == 1 and untyped != typed and untyped.device == rg.device("cpu")


def test_random_in_place_forms() -> None:
    rg.manual_seed(0)
    x = rg.zeros(20000, dtype=rg.float64)
    assert abs(x.cauchy_(3, 2).median().item() - 3) < 0.1
    assert abs(x.log_normal_(1, 0.5).log().mean().item() - 1) < 0.02
    assert abs(x.geometric_(0.25).mean().item() - 4) < 0.1 and x.min().item() == 1
    assert rg.zeros(3, dtype=rg.int64).geometric_(0.5).dtype == rg.int64
    assert rg.full((2000,), 0.3).bernoulli().mean().item() == pytest.approx(0.3, abs=0.05)
    assert rg.tensor([0.0, 1.0]).multinomial(1).tolist() == [1]


def test_older_forms_warn() -> None:
    x = rg.ones(2)
    for call in (lambda: x.add(2, x), lambda: rg.addcmul(x, 3, x, x), lambda: rg.addmv(2, x, rg.eye(2), x)):
        with pytest.warns(UserWarning, match="This overload of add.* is deprecated") as caught:
            call()
        assert caught[0].filename == __file__


def test_what_is_the_tensor_itself() -> None:
    x = rg.ones(2, 2)
    for same in (x.real, x.conj(), x.resolve_conj(), x.share_memory_(), x.contiguous(rg.preserve_format), rg.real(x)):
        assert same is x
    assert not x.is_shared() and not x.is_conj() and nn.Linear(1, 1).share_memory() is not None


def test_only_inputs() -> None:
    with pytest.warns(FutureWarning, match="only_inputs argument is deprecated"):
        (g,) = rg.autograd.grad((LEAF * 3).sum(), LEAF, only_inputs=False)
    assert g is not None and (g.array == 3).all()
    (g,) = rg.autograd.grad((LEAF * 3).sum(), LEAF, None, None, False, True)
    assert g is not None


def test_more_factories() -> None:
    with pytest.warns(UserWarning, match="range is deprecated"):
        assert rg.range(1, 2, 0.5).tolist() == [1, 1.5, 2]
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="range: step=0 does not lead from start=0"):
        rg.range(3, step=0)
    assert rg.scalar_tensor(3).dtype == rg.float32 and rg.scalar_tensor(3, dtype=rg.int64).shape == ()
    memory = bytearray(np.arange(4, dtype=np.int32).tobytes())
    x = rg.frombuffer(memory, dtype=rg.int32, offset=4, count=2)
    memory[4] = 9
    assert x.tolist() == [9, 2] and rg.get_device(x) == -1
    assert not rg.is_inference(x) and rg.detach(LEAF).requires_grad is False
    other = np.from_dlpack(x)
    assert other.ctypes.data == x.data_ptr() and rg.from_dlpack(np.ones(2)).dtype == rg.float64
    y = rg.ones(1, 2, 2, 2).clone(memory_format=rg.channels_last)
    assert y.stride() == (8, 1, 4, 2) and y.clone().stride() == y.stride()


def test_truth_values_are_not_shifted() -> None:
    mask = rg.tensor([True, False])
    for shift in (rg.bitwise_left_shift, rg.bitwise_right_shift):
        with pytest.raises(TypeError, match="input and other are bool, needs integers; convert"):
            shift(mask, mask)
        assert shift(mask.long(), mask).dtype == rg.int64
