from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import retrograd
from ops.battery import check, kernels_of_backward, numbers
from retrograd.engine.tensor import Tensor
from retrograd.ops.shape import shape as s

X = numbers(2, 3, 4)
LINEAR = {
    "reshape": (lambda x: x.reshape(4, 6), lambda a: a.reshape(4, 6)),
    "reshape -1": (lambda x: x.reshape((3, -1)), lambda a: a.reshape(3, -1)),
    "view": (lambda x: x.contiguous().view(24), lambda a: a.reshape(24)),
    "flatten": (lambda x: x.flatten(), lambda a: a.reshape(24)),
    "flatten 1": (lambda x: x.flatten(1), lambda a: a.reshape(2, 12)),
    "flatten 0 1": (lambda x: x.flatten(0, 1), lambda a: a.reshape(6, 4)),
    "permute": (lambda x: x.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "permute negative": (lambda x: x.permute((-1, 0, 1)), lambda a: a.transpose(2, 0, 1)),
    "transpose": (lambda x: x.transpose(0, -1), lambda a: a.swapaxes(0, 2)),
    "T": (lambda x: x.T, lambda a: a.T),
    "unsqueeze": (lambda x: x.unsqueeze(1), lambda a: a[:, None]),
    "unsqueeze last": (lambda x: x.unsqueeze(-1), lambda a: a[..., None]),
    "squeeze": (lambda x: x[:1].squeeze(0), lambda a: a[0]),
    "squeeze all": (lambda x: x[:1, :, 2:3].squeeze(), lambda a: a[0, :, 2]),
    "squeeze nothing": (lambda x: x.squeeze(1), lambda a: a),
    "clone": (lambda x: x.clone(), lambda a: a),
    "expand": (lambda x: x.unsqueeze(1).expand(5, -1, 2, 3, 4), lambda a: np.broadcast_to(a[:, None], (5, 2, 2, 3, 4))),
    "expand_as": (
        lambda x: x[:, :1].expand_as(Tensor(np.ones((2, 3, 4)))),
        lambda a: np.broadcast_to(a[:, :1], a.shape),
    ),
    "int": (lambda x: x[1], lambda a: a[1]),
    "ints": (lambda x: x[1, -1, 0], lambda a: a[1, -1, 0]),
    "slices": (lambda x: x[:, 1:, ::2], lambda a: a[:, 1:, ::2]),
    "backwards": (lambda x: x[::-1, 2:0:-1], lambda a: a[::-1, 2:0:-1]),
    "None and ...": (lambda x: x[None, ..., 1:3, None], lambda a: a[None, ..., 1:3, None]),
    "NumPy int": (lambda x: x[np.int64(1)], lambda a: a[1]),
    "Tensor int": (lambda x: x[Tensor(np.array(1)), 0], lambda a: a[1, 0]),
    "overlapping uses": (lambda x: x[0] + x[1] + x[0, :, :1], lambda a: a[0] + a[1] + a[0, :, :1]),
}


@pytest.mark.parametrize("name", LINEAR)
def test_linear(name: str) -> None:
    function, expected = LINEAR[name]
    check(function, (X,), expected, linear=True)


def test_views_share_memory() -> None:
    x = Tensor(X)
    for y in (x.reshape(6, 4), x.permute(2, 1, 0), x[1:], x.expand(2, 2, 3, 4), x.unsqueeze(0)):
        assert np.shares_memory(y.array, X)
    assert not np.shares_memory(x.clone().array, X)


def test_strides_survive() -> None:
    image = np.moveaxis(np.zeros((2, 5, 6, 3)), -1, 1)  # channels last in memory
    assert Tensor(image).clone().array.strides == image.strides
    assert Tensor(image).float().array.strides == tuple(n // 2 for n in image.strides)


def test_rows() -> None:
    x = Tensor(X, requires_grad=True)
    rows = list(x)
    assert len(rows) == 2
    rows[1].backward(Tensor(np.ones((3, 4))))
    np.testing.assert_array_equal(x.grad.array, np.stack([np.zeros((3, 4)), np.ones((3, 4))]))
    with pytest.raises(TypeError, match="iteration over a tensor without axes"):
        iter(x.sum())


def test_empty() -> None:
    x = Tensor(np.zeros((0, 3, 4)), requires_grad=True)
    y = x.flatten(1)
    assert y.shape == (0, 12) and x.flatten().shape == (0,) and x[:, 1].shape == (0, 4)
    y.backward(Tensor(np.zeros((0, 12))))
    assert x.grad.shape == (0, 3, 4)
    assert Tensor(np.array(1.0)).flatten().shape == (1,)


def test_no_kernel_runs() -> None:
    for function, _ in (LINEAR[n] for n in ("reshape", "permute", "slices", "clone")):
        assert kernels_of_backward(function, (X,), {0}) == []
    assert kernels_of_backward(LINEAR["expand"][0], (X,), {0}) == ["sum"]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: x.reshape(5, 5), ValueError, "24 elements of input.shape=(2, 3, 4) do not fit shape=(5, 5)"),
        (lambda x: x.reshape(4.0, 6), TypeError, "reshape: shape=(4.0, 6) must consist of ints"),
        (lambda x: x.unsqueeze(0.5), TypeError, "unsqueeze: dim=0.5 must be an int"),
        (lambda x: x.reshape(-1, 5), ValueError, "reshape: 24 elements"),
        (lambda x: x.permute(0, 1), ValueError, "permute: dims=(0, 1) must name each of the 3 axes"),
        (lambda x: x.permute(0, 1, 1), ValueError, "permute: dims=(0, 1, 1) must name each"),
        (lambda x: x.transpose(0, 3), IndexError, "transpose: dim1=3 is out of range; 3 axes allow -3 to 2"),
        (lambda x: x.squeeze(3), IndexError, "squeeze: dim=3 is out of range"),
        (lambda x: x.unsqueeze(-5), IndexError, "unsqueeze: dim=-5 is out of range; 4 axes allow -4 to 3"),
        (lambda x: x.flatten(2, 1), ValueError, "flatten: start_dim=2 is after end_dim=1"),
        (lambda x: x.flatten(3), IndexError, "flatten: start_dim=3 is out of range"),
        (lambda x: x.expand(2, 2, 4), ValueError, "input.shape=(2, 3, 4) does not broadcast to shape=(2, 2, 4)"),
        (lambda x: x.expand(3, 4), ValueError, "expand: input.shape=(2, 3, 4) does not broadcast to shape=(3, 4)"),
        (lambda x: x.expand(-1, 2, 3, 4), ValueError, "expand: input.shape=(2, 3, 4) does not broadcast"),
        (lambda x: x[2], IndexError, "getitem: input.shape=(2, 3, 4): index 2 is out of bounds"),
        (lambda x: x[0, 0, 0, 0], IndexError, "getitem: input.shape=(2, 3, 4): too many indices"),
        (lambda x: x.to("float17"), TypeError, "dtype='float17' is not an element type of a Tensor"),
        (lambda x: x.to("cuda"), RuntimeError, "device='cuda', but there is one device"),
    ],
)
def test_messages(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call(Tensor(np.ones((2, 3, 4))))


def test_casts() -> None:
    x = Tensor(np.array([1.5, -2.5, 0.0]), requires_grad=True)
    assert x.to("float64") is x and x.double() is x
    y = x.float()
    assert y.dtype == np.float32 and y.requires_grad
    y.backward(Tensor(np.float32([1, 2, 3])))
    assert x.grad.dtype == np.float64 and x.grad.array.tolist() == [1, 2, 3]
    assert x.long().array.tolist() == [1, -2, 0] and not x.long().requires_grad
    assert x.bool().array.tolist() == [True, True, False]
    assert x.to(float).dtype == np.float32 and x.to(int).dtype == np.int64 and x.to(np.bool_).dtype == np.bool_


_UNCHANGED: dict[str, Callable[[Tensor], Tensor]] = {
    "reshape": lambda x: s.reshape(x, 2, 3, 4),
    "view": lambda x: x.view(2, -1, 4),
    "view_as": lambda x: x.view_as(x),
    "unflatten": lambda x: x.unflatten(1, (3,)),
    "squeeze": lambda x: x.squeeze(),
    "squeeze one": lambda x: x.squeeze(0),
    "expand": lambda x: x.expand(2, 3, 4),
    "broadcast_tensors": lambda x: retrograd.broadcast_tensors(x, x)[0],
}


@pytest.mark.parametrize("name", _UNCHANGED)
def test_views_of_the_same_shape_are_tensors_of_their_own(name: str) -> None:
    """With a gradient, a hook and requires_grad of their own, and in the same memory."""
    same = _UNCHANGED[name]
    x = Tensor(X.copy(), requires_grad=True)
    base = x * 1
    view = same(base)
    view.register_hook(lambda g: g * 10)
    view.retain_grad()
    (view * 2 + base * 3).sum().backward()
    assert (view.grad.array == 20).all() and (x.grad.array == 23).all()
    plain = Tensor(X.T.copy().T)
    view = same(plain).requires_grad_()
    assert not plain.requires_grad and view.stride() == plain.stride()
    base = x * 1
    same(base).mul_(2)  # changes base, too
    (gradient,) = retrograd.autograd.grad(base.sum(), x)
    assert (gradient.array == 2).all() and (base.array == 2 * X).all()


_VIEWABLE: dict[str, Callable[[Tensor], Tensor]] = {  # of images, channels-last; PyTorch's tensors are in C order
    "result": lambda y: y.view(2, -1),
    "view of a view": lambda y: y.view(2, 6, -1).view(2, -1),
    "part of the batch": lambda y: y[1:].view(1, 72),
    "image": lambda y: y[0].view(-1),
    "some channels": lambda y: y[:, 1:3].view(2, -1),
    "new axis": lambda y: y.unsqueeze(1).view_as(retrograd.zeros(2, 72)),
    "chunk": lambda y: y.chunk(2)[1].view([72]),
}


@pytest.mark.parametrize("name", _VIEWABLE)
@pytest.mark.parametrize("recording", [True, False])
def test_view_of_images_as_of_tensors_in_c_order(name: str, recording: bool) -> None:
    images = retrograd.tensor(np.random.default_rng(3).normal(size=(2, 3, 4, 5)))
    weight = retrograd.tensor(np.random.default_rng(4).normal(size=(6, 3, 2, 2)), requires_grad=True)
    with retrograd.set_grad_enabled(recording):
        y = retrograd.nn.functional.conv2d(images, weight)
        expected = y.array.copy("C")
        np.testing.assert_array_equal(_VIEWABLE[name](y).array, _VIEWABLE[name](Tensor(expected)).array)


_NOT_VIEWABLE: dict[str, Callable[[Tensor], Tensor]] = {
    "transpose": lambda x: x.transpose(1, 2).view(2, -1),
    "permute": lambda x: x.permute(2, 0, 1).view(24),
    "part": lambda x: x[:, :, 1:].view(2, -1),
    "expand": lambda x: x[:, :, :1].expand(2, 3, 4).view(-1),
    "reversed axes": lambda x: x[0].t().view_as(retrograd.zeros(12)),
}


@pytest.mark.parametrize("name", _NOT_VIEWABLE)
@pytest.mark.parametrize("recording", [True, False])
def test_a_view_that_would_be_a_copy_is_an_error(name: str, recording: bool) -> None:
    with retrograd.set_grad_enabled(recording), pytest.raises(RuntimeError, match=r"strides .* use reshape, which"):
        _NOT_VIEWABLE[name](Tensor(X.copy()))
    other = retrograd.from_numpy(np.zeros((4, 12)))[:, ::5].detach()
    with pytest.raises(RuntimeError, match=r"view: .* of shape \(4, 3\) and strides \(12, 5\)"):
        other.view(12)
    assert other.view(2, 2, 3).shape == (2, 2, 3)
    assert Tensor(np.zeros((0, 3))).t().view(3, 5, 0).shape == (3, 5, 0)


def test_flatten_of_one_axis_is_x() -> None:
    x = Tensor(X)
    assert s.flatten(x, 1, 1) is x


def test_sum_to_a_size_that_does_not_broadcast() -> None:
    for shape, size in (((3,), (1, 1)), ((), (1,)), ((2, 3), (2, 2))):
        with pytest.raises(ValueError, match=r"sum_to_size: size=.* does not broadcast to input.shape="):
            Tensor(np.ones(shape)).sum_to_size(size)
