"""grad_req, and ownership: no stored gradient shares its array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.functions import Add, Exp, Identity, Mul, Spread, Sum, Transpose, leaf
from retrograd.engine import Function, Tensor, backward, grad, wrap


def array(tensor: Tensor | None) -> np.ndarray:
    assert tensor is not None
    return tensor.array


# ---- grad_req: a list of cases -----------------------------------------------------------------------------


def two_layers(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    return Sum.apply(Mul.apply(Exp.apply(Mul.apply(x, w)), Add.apply(v, w)))


@pytest.mark.parametrize("previous", [None, (10.0, 20.0)])
@pytest.mark.parametrize("request_", ["add", "write", "null"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_gradient_requests(which: int, request_: str, previous: tuple[float, ...] | None) -> None:
    def leaves() -> list[Tensor]:
        return [leaf(0.1, 0.2), leaf(0.3, -0.4), leaf(2, 3)]

    plain = leaves()
    two_layers(*plain).backward()
    tested = leaves()
    if previous is not None:
        tested[which].grad = Tensor(np.array(previous))
    tested[which].grad_req = request_
    two_layers(*tested).backward()
    for position, (got, expected) in enumerate(zip(tested, plain, strict=True)):
        if position != which:
            np.testing.assert_array_equal(array(got.grad), array(expected.grad))
        elif request_ == "null":
            assert (got.grad is None) if previous is None else (array(got.grad).tolist() == list(previous))
        elif request_ == "write" or previous is None:
            np.testing.assert_array_equal(array(got.grad), array(expected.grad))
        else:
            np.testing.assert_array_equal(array(got.grad), np.array(previous) + array(expected.grad))


def test_null_takes_no_part() -> None:
    x, w = leaf(2), leaf(3)
    w.grad_req = "null"
    y = Mul.apply(x, w)
    assert y.grad_fn.needs_input_grad == (True, False) and w.requires_grad
    assert not Exp.apply(w).requires_grad
    y.backward()
    assert array(x.grad).tolist() == [3]
    with pytest.raises(RuntimeError, match='grad_req is "null"'):
        grad(Mul.apply(x, w), w)


def test_null_set_after_the_forward() -> None:
    x, w = leaf(2), leaf(3)
    y = Mul.apply(x, w)
    w.grad_req = "null"
    y.backward(retain_graph=True)
    assert w.grad is None and array(x.grad).tolist() == [3]
    assert grad(y, w, allow_unused=True) == (None,)


def test_write_with_the_leaf_used_twice() -> None:
    x = leaf(2)
    x.grad_req = "write"
    for _ in range(3):
        Mul.apply(x, x).backward()
        assert array(x.grad).tolist() == [4]


def test_unknown_request() -> None:
    with pytest.raises(ValueError, match='\'sub\'.*"add", "write" or "null"'):
        leaf(1).grad_req = "sub"


def test_a_leaf_gets_its_gradient_once_per_sweep() -> None:
    x = leaf(2)
    seen = []

    class Peek(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return wrap(x.array.copy())

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            seen.append(x.grad)
            return g

    Add.apply(x, Peek.apply(Add.apply(x, Peek.apply(x)))).backward()
    assert seen == [None, None] and array(x.grad).tolist() == [3]


# ---- ownership ---------------------------------------------------------------------------------------------


def distinct(*tensors: Tensor | np.ndarray | None) -> bool:
    arrays = [item.array if isinstance(item, Tensor) else item for item in tensors if item is not None]
    return not any(np.shares_memory(a, b) for k, a in enumerate(arrays) for b in arrays[:k])


def test_two_leaves_never_share_a_gradient() -> None:
    x, y, upstream = leaf(1, 2), leaf(3, 4), Tensor(np.ones(2))
    z = Add.apply(x, y)
    z.backward(upstream)
    assert distinct(x.grad, y.grad, upstream)


def test_upstream_gradient_is_not_shared() -> None:
    array_ = np.ones(2)
    x = leaf(1, 2)
    Identity.apply(x).backward(Tensor(array_))
    assert distinct(x.grad, array_)
    x.grad = None
    x.backward(Tensor(array_))
    assert distinct(x.grad, array_)


def test_grad_hands_the_upstream_gradient_on() -> None:
    upstream, x = Tensor(np.ones(2)), leaf(1, 2)
    y = Identity.apply(x)
    for gradient in grad(y, [y, x, x], upstream):
        assert gradient is not upstream and gradient is not None and array(gradient) is array(upstream)
    assert distinct(*grad(y, x, upstream, create_graph=True), upstream)


def test_grad_hands_views_of_the_upstream_gradient_on() -> None:
    upstream, x = Tensor(np.arange(6.0).reshape(2, 3)), Tensor(np.ones((3, 2)), requires_grad=True)
    (gradient,) = grad(Transpose.apply(x), x, upstream)
    assert np.shares_memory(array(gradient), array(upstream))
    np.testing.assert_array_equal(array(gradient), array(upstream).T)
    assert distinct(*grad(Transpose.apply(x), x, upstream, create_graph=True), upstream)
    Transpose.apply(x).backward(upstream)
    assert distinct(x.grad, upstream)


def test_grad_hands_no_other_views_on() -> None:
    """Views that repeat elements, and arrays elsewhere in the memory of the upstream gradient, are copied."""

    class Saved(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return wrap(x.array.copy())

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return wrap(x.array[:])

    for both in (np.ones((2, 3)), np.ones((3, 2)).T):
        x = Tensor(both[0], requires_grad=True)
        (gradient,) = grad(Saved.apply(x), x, Tensor(both[1]))
        assert distinct(gradient, both)
    number = np.ones(())
    (gradient,) = grad(Sum.apply(x), x, Tensor(number))
    assert distinct(gradient, number) and array(gradient).flags.writeable


def test_views_of_the_upstream_gradient_are_not_shared() -> None:
    upstream = np.ones((2, 3))
    x, y = Tensor(np.ones((3, 2)), requires_grad=True), Tensor(np.ones((3, 2)), requires_grad=True)
    backward([Transpose.apply(x), Transpose.apply(y)], [Tensor(upstream), Tensor(upstream)])
    assert distinct(x.grad, y.grad, upstream)


def test_a_broadcast_gradient_becomes_an_array_of_its_own() -> None:
    x = Tensor(np.ones((3, 4)), requires_grad=True)
    Sum.apply(x).backward()
    Sum.apply(x).backward()
    assert array(x.grad).tolist() == [[2.0] * 4] * 3
    assert array(x.grad).flags.writeable and 0 not in array(x.grad).strides


def test_a_gradient_that_shows_an_element_several_times_becomes_an_array_of_its_own() -> None:
    class Repeated(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return wrap(x.array.copy())

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            repeated: np.ndarray = np.ndarray((2,), g.array.dtype, np.ones(1), 0, (0,))
            return wrap(repeated)  # writeable

    x = leaf(1, 2)
    Repeated.apply(x).backward(Tensor(np.ones(2)))
    Mul.apply(x, x).backward(Tensor(np.ones(2)))
    assert array(x.grad).tolist() == [3, 5]


def test_a_saved_tensor_returned_as_gradient_is_not_shared() -> None:
    class Forgetful(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            ctx.save_for_backward(x, y)
            return wrap(x.array * y.array)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> tuple[Tensor, ...]:
            x, y = ctx.saved_tensors
            return wrap(y.array), x

    x, y = leaf(1, 2), leaf(3, 4)
    Forgetful.apply(x, y).backward(Tensor(np.ones(2)))
    assert distinct(x.grad, y.grad, x, y)


def test_a_gradient_that_backward_keeps_is_not_shared() -> None:
    kept = []

    class Keeper(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, how: str) -> Tensor:
            ctx.how = how
            return wrap(x.array.copy())

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
            fresh = np.zeros((2, 2))
            fresh[...] = g.array
            result = wrap(fresh.T if ctx.how == "view" else fresh[:2] if ctx.how == "slice" else fresh)
            kept.append({"tensor": result, "array": fresh}.get(ctx.how, fresh))
            return result, None

    for how in ("tensor", "array", "view", "slice"):
        x = Tensor(np.ones((2, 2)), requires_grad=True)
        Keeper.apply(x, how).backward(Tensor(np.ones((2, 2))))
        assert distinct(x.grad, kept.pop())


def test_a_fresh_gradient_is_not_copied() -> None:
    addresses = []

    class Fresh(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, view: bool) -> Tensor:
            ctx.view = view
            return wrap(x.array.copy())

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
            fresh = np.zeros((2, 3)).T if ctx.view else np.zeros((3, 2))
            addresses.append(fresh.__array_interface__["data"][0])
            return wrap(fresh), None

    for view in (False, True):
        x = Tensor(np.ones((3, 2)), requires_grad=True)
        Fresh.apply(x, view).backward(Tensor(np.ones((3, 2))))
        assert array(x.grad).__array_interface__["data"][0] == addresses.pop()
        (g,) = grad(Fresh.apply(x, view), x, Tensor(np.ones((3, 2))))
        assert array(g).__array_interface__["data"][0] == addresses.pop()


def test_adding_happens_in_place_only_where_nobody_else_looks() -> None:
    x = leaf(1, 2)
    Mul.apply(x, x).backward(Tensor(np.ones(2)))
    address = array(x.grad).__array_interface__["data"][0]
    Mul.apply(x, x).backward(Tensor(np.ones(2)))
    assert array(x.grad).__array_interface__["data"][0] == address
    for keep in (lambda: x.grad, lambda: array(x.grad), lambda: array(x.grad)[:1]):
        held = keep()
        before = np.array(held.array if isinstance(held, Tensor) else held)
        Mul.apply(x, x).backward(Tensor(np.ones(2)))
        np.testing.assert_array_equal(held.array if isinstance(held, Tensor) else held, before)
    assert array(x.grad).tolist() == [10, 20]


def test_a_users_array_as_grad_is_not_written_to() -> None:
    mine = np.array([5.0, 6.0])
    x = leaf(1, 2)
    x.grad = Tensor(mine)
    Mul.apply(x, x).backward(Tensor(np.ones(2)))
    assert mine.tolist() == [5, 6] and array(x.grad).tolist() == [7, 10]
    shared = np.zeros((2, 2))
    x.grad = Tensor(shared[0])
    Mul.apply(x, x).backward(Tensor(np.ones(2)))
    assert not shared.any()


def test_read_only_grad() -> None:
    x = leaf(1, 2)
    fixed = np.ones(2)
    fixed.flags.writeable = False
    x.grad = Tensor(fixed)
    del fixed
    Mul.apply(x, x).backward(Tensor(np.ones(2)))
    assert array(x.grad).tolist() == [3, 5]


def test_sums_inside_the_sweep_leave_gradients_alone() -> None:
    """Of three contributions, the second creates a buffer, the third is added to it, and none of them changes."""
    parts = [np.array([float(10**k)]) for k in range(3)]

    class Give(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, part: np.ndarray) -> Tensor:
            ctx.part = part
            return wrap(x.array.copy())

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
            return wrap(ctx.part), None

    for inner in (False, True):
        x = leaf(1)
        base = Identity.apply(x) if inner else x
        first, second, third = (Give.apply(base, part) for part in parts)
        Add.apply(Add.apply(first, second), third).backward()
        assert array(x.grad).tolist() == [111]
        assert [part.tolist() for part in parts] == [[1], [10], [100]]


def test_grad_that_no_longer_fits() -> None:
    x, y = leaf(1, 2), leaf(3, 4)
    y.grad = Tensor(np.ones(2))
    y.array = np.array(1.0)
    z = Spread.apply(y, (2,))
    with pytest.raises(RuntimeError, match=r"shape \(\) to a grad of float64 and shape \(2,\).*set its grad to None"):
        Mul.apply(z, x).backward(Tensor(np.ones(2)))
    assert x.grad is None


def test_gradients_with_history_are_not_shared_either() -> None:
    x, y = leaf(1, 2), leaf(3, 4)
    v = leaf(5, 6)
    backward(Add.apply(x, y), v, create_graph=True)
    assert distinct(x.grad, y.grad, v)
    assert x.grad is not None and x.grad.requires_grad
    assert array(grad(Sum.apply(x.grad), v)[0]).tolist() == [1, 1]


@pytest.mark.parametrize("what", ["argument", "output"])
def test_history_stays_out_of_grad_without_create_graph(what: str) -> None:
    """A backward that returns a saved tensor itself, with its history."""

    class Forgetful(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            y = wrap(x.array * 2)
            ctx.save_for_backward(x if what == "argument" else y)
            return y

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return ctx.saved_tensors[0]

    x = leaf(1, 2)
    Forgetful.apply(x).backward(Tensor(np.ones(2)))
    assert x.grad is not None and not x.grad.requires_grad and x.grad.is_leaf and distinct(x, x.grad)
    (g,) = grad(Forgetful.apply(Identity.apply(x)), x, Tensor(np.ones(2)))
    assert g is not None and not g.requires_grad and g.is_leaf


def test_a_leaf_as_upstream_gradient_stays_differentiable() -> None:
    x, v = leaf(1, 2), leaf(3, 4)
    for gradient in (
        grad(x, x, v, create_graph=True)[0],
        grad(Identity.apply(x), x, v, create_graph=True)[0],
    ):
        assert gradient is not None and gradient is not v and distinct(gradient, v)
        assert array(grad(Sum.apply(gradient), v)[0]).tolist() == [1, 1]
