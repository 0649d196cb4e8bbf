"""``Tensor.data``: a Tensor on the same memory without history; ``x.data = other`` replaces the memory."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import Tensor
from retrograd.autograd import grad, inference_mode, no_grad
from retrograd.engine.aliasing import views_of
from retrograd.nn.parameter import UninitializedBuffer, UninitializedParameter


def leaf(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng((seed, *shape)).standard_normal(shape), requires_grad=True)


def array(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def same(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual.detach().array, expected, rtol=1e-12)


# ---- reading -----------------------------------------------------------------------------------------------


def test_it_shares_the_memory_both_ways() -> None:
    x = leaf(3)
    d = x.data
    d.mul_(2)
    np.testing.assert_array_equal(x.array, d.array)
    with no_grad():
        x.add_(1)
    np.testing.assert_array_equal(x.array, d.array)
    assert d.array is x.array


def test_it_has_no_history() -> None:
    x = leaf(3)
    for tensor in (x, x * 2, (x * 2)[0:2]):
        d = tensor.data
        assert type(d) is Tensor and d is not tensor
        assert d.is_leaf and not d.requires_grad and d.grad is None and d.grad_fn is None
        assert tensor.requires_grad


def test_of_a_parameter_it_is_an_ordinary_tensor() -> None:
    assert type(rg.nn.Parameter(np.ones(2, np.float32)).data) is Tensor


def test_a_change_through_it_is_seen_by_a_backward() -> None:
    """It raises, as for detach(); PyTorch would use the new values here."""
    x = leaf(3)
    y = x * x
    x.data.mul_(2)
    with pytest.raises(RuntimeError, match=r"Mul: a tensor that its backward needs.* was changed in place"):
        y.sum().backward()


def test_a_change_beside_what_was_saved_is_none() -> None:
    """Columns are filled one after the other, each computed from the previous ones, as in a Runge-Kutta step."""
    table, weights = Tensor(np.zeros((3, 4))), [leaf(3), leaf(3), leaf(3)]
    table.data[:, 0] = Tensor(np.arange(3.0) + 1)
    sums = []
    for column, weight in enumerate(weights):
        sums.append(table[:, : column + 1] * weight.reshape(3, 1))
        table.data[:, column + 1] = Tensor(np.arange(3.0) + column + 2)
    filled = table.array.copy()
    sum(s.sum() for s in sums).backward()
    for column, weight in enumerate(weights):
        same(weight.grad, filled[:, : column + 1].sum(1))


def test_a_change_of_a_part_names_the_operator_that_touched_what_was_saved() -> None:
    x, w = Tensor(np.ones(12)), leaf(4)
    y = x[::3] * w
    x.data[1::3].mul_(2)
    x.data[3:4].add_(1)
    x.data[2::3].exp_()
    with pytest.raises(RuntimeError, match=r"Mul: .* was changed in place after .*\n.*\n.* changed by add_ at"):
        y.sum().backward()


@pytest.mark.parametrize("touched", [False, True])
def test_many_changes_of_parts(touched: bool) -> None:
    """Beyond a limit, partial changes are merged into one change of the whole array."""
    x, w = Tensor(np.ones(200)), leaf(1)
    for place in range(100):
        x.data[place : place + 1].add_(1)
    y = x[100:] * w  # computed after the changes
    for place in range(100 if touched else 20):
        x.data[place : place + 1].add_(1)
    if touched:
        with pytest.raises(RuntimeError, match="changed in place"):
            y.sum().backward()
    else:
        y.sum().backward()
        same(w.grad, np.full(1, 100.0))


def test_a_change_of_all_of_it_outlasts_later_changes_of_parts() -> None:
    x, w = Tensor(np.ones(4)), leaf(2)
    y = x[:2] * w
    x.data.mul_(2)
    x.data[2:].add_(1)
    z = x[:2] * w
    x.data[3:].add_(1)
    z.sum().backward()
    same(w.grad, np.full(2, 2.0))
    with pytest.raises(RuntimeError, match="changed by mul_ at"):
        y.sum().backward()


# ---- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (np.zeros(3), TypeError, r"data: expected a Tensor, got ndarray; wrap it: Tensor\(array\)"),
        ([0.0] * 3, TypeError, "data: expected a Tensor, got list"),
        (0.0, TypeError, "data: expected a Tensor, got float"),
        (None, TypeError, "data: expected a Tensor, got NoneType"),
        (Tensor(np.zeros(3, np.float32)), TypeError, r"data: expected float64 .*, got float32; .*value.to\(tensor"),
        (Tensor(np.zeros(3, np.int64)), TypeError, "data: expected float64 .*, got int64"),
    ],
)
def test_what_does_not_fit_is_refused(value: Any, error: type[Exception], message: str) -> None:
    x = leaf(3)
    v, before = x[0:2], x.array
    with pytest.raises(error, match=message):
        x.data = value
    assert x.array is before and views_of(x) == [v]


@pytest.mark.parametrize("shape", [(4,), (1, 3), ()])
def test_a_result_keeps_its_shape(shape: tuple[int, ...]) -> None:
    x = leaf(3)
    y = x * 2
    before = y.array
    with pytest.raises(ValueError, match=r"data: expected shape \(3,\) .*, got .*: only a leaf can get another one"):
        y.data = Tensor(np.zeros(shape))
    assert y.array is before


@pytest.mark.parametrize("shape", [(4,), (1, 3), (), (2, 5)])
def test_a_leaf_gets_another_shape(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    x, g = leaf(3), random.standard_normal(shape)
    old, view, earlier = x.array, x[0:2], (x * 2).sum()
    x.data = Tensor(random.standard_normal(shape))
    assert x.shape == shape and x.requires_grad and view.array.base is old
    (x * x).backward(Tensor(g))
    same(x.grad, 2 * x.array * g)
    with pytest.raises(RuntimeError, match="if another array was assigned to it after forward, run forward again"):
        earlier.backward()
    x.data = Tensor(np.ones(7))
    with pytest.raises(RuntimeError, match="set its grad to None"):
        x.sum().backward()
    x.grad = None
    x.sum().backward()
    same(x.grad, np.ones(7))


def test_pruning_and_growing_a_trained_layer() -> None:
    """Changing a trained network, with gradients of the old shape, after a backward, and with optimizer states."""
    layer, x = rg.nn.Linear(3, 4).double(), array(5, 3)
    optimizer = rg.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    layer(Tensor(x)).sum().backward()
    optimizer.step()
    w, b = layer.weight.array.copy(), layer.bias.array.copy()
    layer.weight.data, layer.bias.data = layer.weight.data[:2], layer.bias.data[:2]
    assert layer.weight.grad.shape == (4, 3) and isinstance(layer.weight, rg.nn.Parameter)
    same(layer(Tensor(x)), x @ w[:2].T + b[:2])
    for step in (optimizer.step, layer(Tensor(x)).sum().backward):
        with pytest.raises(RuntimeError, match=r"\(2, 3\) .*grad.* \(4, 3\).*set (its )?grad to None"):
            step()
    layer.weight.grad = layer.weight.grad[:2]  # pruned as well
    optimizer.zero_grad()
    g = array(5, 2)
    layer(Tensor(x)).backward(Tensor(g))
    same(layer.weight.grad, g.T @ x)
    with pytest.raises(RuntimeError, match="its momentum_buffer has .*; create a new optimizer"):
        optimizer.step()
    rg.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9).step()
    same(layer.weight, w[:2] - 0.1 * g.T @ x)
    layer.weight.data = rg.cat([layer.weight.data, Tensor(np.zeros((3, 3)))])
    layer.bias.data = rg.cat([layer.bias.data, Tensor(np.ones(3))])
    same(layer(Tensor(x))[:, 2:], np.ones((5, 3)))
    assert layer.state_dict()["weight"].shape == (5, 3)


@pytest.mark.parametrize("owner", ["module", "optimizer"])
def test_zeroing_a_gradient_of_the_old_shape(owner: str) -> None:
    layer = rg.nn.Linear(3, 4)
    layer(rg.ones(1, 3)).sum().backward()
    for parameter in layer.parameters():
        parameter.data = parameter.data[1:]
    (layer if owner == "module" else rg.optim.SGD(layer.parameters(), lr=0.1)).zero_grad(set_to_none=False)
    assert layer.weight.grad.shape == (3, 3) and not layer.weight.grad.array.any()
    layer(rg.ones(1, 3)).sum().backward()
    np.testing.assert_array_equal(layer.weight.grad.array, np.ones((3, 3)))


def test_pruning_buffers() -> None:
    norm, x = rg.nn.BatchNorm1d(4).double(), array(6, 4)
    norm(Tensor(x))
    kept = [0, 2]
    for name in ("weight", "bias", "running_mean", "running_var"):
        tensor = getattr(norm, name)
        tensor.data, tensor.grad = tensor.data[kept], None
    norm.num_features = 2
    norm.eval()
    scale = np.sqrt(0.9 + 0.1 * x.var(0, ddof=1)[kept] + norm.eps)
    same(norm(Tensor(x[:, kept])), (x[:, kept] - 0.1 * x.mean(0)[kept]) / scale)
    assert norm.state_dict()["running_mean"].shape == (2,)


@pytest.mark.parametrize("kind", [UninitializedParameter, UninitializedBuffer])
def test_a_lazy_parameter_has_none(kind: Any) -> None:
    p = kind()
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
        _ = p.data
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
        p.data = Tensor(np.zeros(3, np.float32))
    x = Tensor(np.zeros(0, np.float32))
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
        x.data = p
    p.materialize((2, 3))
    p.data = Tensor(np.ones((2, 3), np.float32))
    assert type(p) is kind.becomes and p.array.all()


# ---- earlier calls -----------------------------------------------------------------------------------------


def test_an_earlier_call_uses_the_old_values() -> None:
    x = leaf(4)
    a, b = x.array.copy(), array(4)
    y = x * x
    x.data = Tensor(b)
    z = x * x
    same(x, b)
    same(grad(y, x, Tensor(np.ones(4)))[0], 2 * a)
    same(grad(z, x, Tensor(np.ones(4)))[0], 2 * b)


def test_changes_of_the_new_memory_do_not_reach_an_earlier_call() -> None:
    x = leaf(4)
    a = x.array.copy()
    y = (x * x).sum()
    x.data = Tensor(array(4))
    x.data.zero_()
    y.backward()
    same(x.grad, 2 * a)


def test_changes_of_the_old_memory_are_refused_as_ever() -> None:
    x = leaf(4)
    old = x.data
    y = (x * x).sum()
    x.data = Tensor(array(4))
    old.zero_()
    with pytest.raises(RuntimeError, match=r"was changed in place after it had been saved.\n.*\n  changed by zero_"):
        y.backward()


def test_second_derivatives_flow_to_the_tensor() -> None:
    x = leaf(3)
    a, v = x.array.copy(), array(3, seed=5)
    y = (x * x * x).sum()
    x.data = Tensor(array(3))
    (g,) = grad(y, x, create_graph=True)
    same(g, 3 * a**2)
    same(grad(g, x, Tensor(v))[0], 6 * a * v)


def test_history_and_gradient_stay() -> None:
    x = leaf(3)
    (x * 2).sum().backward()
    y = x * 3
    y.retain_grad()
    node = y.grad_fn
    x.data, y.data = Tensor(array(3)), Tensor(array(3, seed=2))
    assert x.requires_grad and x.is_leaf and y.grad_fn is node and y.retains_grad
    same(x.grad, [2.0, 2.0, 2.0])
    (y * y).sum().backward()
    same(y.grad, 2 * array(3, seed=2))
    same(x.grad, 2 + 6 * array(3, seed=2))


# ---- views -------------------------------------------------------------------------------------------------
# b is 1 x; x is 1, 2, 3, 4 wherever it is a vector.


def base() -> tuple[Tensor, Tensor]:
    x = Tensor(np.array([1.0, 2.0, 3.0, 4.0]), requires_grad=True)
    return x, x * 1


def test_a_view_no_longer_follows() -> None:
    x, b = base()
    v = b[0:2]
    b.data = Tensor(np.zeros(4))
    b.mul_(5)
    b.add_(1)
    same(v, [1, 2])
    v.mul_(3)
    same(v, [3, 6])
    same(b, [1, 1, 1, 1])


def test_a_change_of_the_base_is_not_in_the_history_of_an_old_view() -> None:
    x, b = base()
    v = b[0:2]
    b.data = Tensor(np.zeros(4))
    b.mul_(5)
    (v * v).sum().backward(retain_graph=True)  # x[0]**2 + x[1]**2
    same(x.grad, [2, 4, 0, 0])
    x.grad = None
    b.backward(Tensor(np.array([1.0, 2.0, 3.0, 4.0])))
    same(x.grad, [5, 10, 15, 20])


def test_a_change_of_an_old_view_is_not_in_the_history_of_the_base() -> None:
    x, b = base()
    v = b[0:2]
    b.data = Tensor(np.zeros(4))
    v.mul_(3)
    b.backward(Tensor(np.array([1.0, 2.0, 3.0, 4.0])), retain_graph=True)
    same(x.grad, [1, 2, 3, 4])
    x.grad = None
    (v * v).sum().backward()  # (3 x[0])**2 + (3 x[1])**2
    same(x.grad, [18, 36, 0, 0])


def test_old_views_still_follow_each_other() -> None:
    x, b = base()
    v, w = b[0:3], b[1:4]
    b.data = Tensor(np.zeros(4))
    v.mul_(3)
    same(w, [6, 9, 4])
    (w * w).sum().backward()  # (3 x[1])**2 + (3 x[2])**2 + x[3]**2
    same(x.grad, [0, 36, 54, 8])


def test_new_views_of_an_old_view_belong_to_it() -> None:
    x, b = base()
    v = b[0:3]
    b.data = Tensor(np.zeros(4))
    w = v[1:]
    w.mul_(3)
    same(v, [1, 6, 9])
    same(b, [0, 0, 0, 0])
    (v * v).sum().backward()
    same(x.grad, [2, 36, 54, 0])


def test_new_views_of_the_base_follow_it() -> None:
    x, b = base()
    old = b[0:2]
    b.data = Tensor(np.array([10.0, 20.0, 30.0, 40.0]))
    v = b[0:2]
    b.mul_(2)
    same(v, [20, 40])
    same(old, [1, 2])
    (v * v).sum().backward()  # b is 20 and 40 and depends on x with slope 2
    same(x.grad, [80, 160, 0, 0])


def test_a_view_itself_may_leave() -> None:
    """b has the view v, and v the view w. If v gets other data, w and b still share their memory."""
    x, b = base()
    v = b[0:3]
    w = v[1:]
    v.data = Tensor(np.zeros(3))
    b.mul_(2)
    same(w, [4, 6])
    same(v, [0, 0, 0])
    w.mul_(5)
    same(b, [2, 20, 30, 8])
    b.backward(Tensor(np.ones(4)), retain_graph=True)
    same(x.grad, [2, 10, 10, 2])
    x.grad = None
    v.add_(1)
    (v * 7).sum().backward()
    same(x.grad, [7, 7, 7, 0])


def test_a_view_that_was_changed_may_leave_before_the_backward() -> None:
    x, b = base()
    v = b[0:3]
    v[1:].mul_(5)
    y = b * 1
    v.data = Tensor(np.zeros(3))
    y.backward(Tensor(np.ones(4)))
    same(x.grad, [1, 5, 5, 1])


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_new_memory_may_have_another_order_of_axes(order: Any) -> None:
    x = leaf(2, 3)
    b = x * 1
    b.view(6).mul_(3)
    y = b * 1
    b.data = Tensor(np.zeros((2, 3), order=order))
    g = array(2, 3)
    y.backward(Tensor(g))
    same(x.grad, 3 * g)


@pytest.mark.parametrize("again", [lambda b: b.data, lambda b: b.data[:], lambda b: b.data.view(2, 2).view(4)])
def test_the_same_memory_in_another_tensor_leaves_the_views_as_they_are(again: Callable[[Tensor], Tensor]) -> None:
    x, b = base()
    v = b[0:2]
    b.data = again(b)
    b.mul_(3)
    same(v, [3, 6])
    (v * v).sum().backward()
    same(x.grad, [18, 36, 0, 0])


def test_views_of_a_base_without_gradient() -> None:
    b = Tensor(np.array([1.0, 2.0, 3.0, 4.0]))
    v, w, p = b[0:2], b[1:3], leaf(2)
    b.data = Tensor(np.zeros(4))
    v.mul_(p)
    assert not b.requires_grad and w.requires_grad
    w.sum().backward()  # 2 p[1] + 3
    same(p.grad, [0, 2])


def test_a_view_of_a_leaf_remains_one() -> None:
    x, _ = base()
    v = x[0:2]
    x.data = Tensor(np.zeros(4))
    with pytest.raises(RuntimeError, match="mul_: a view of a leaf that requires a gradient cannot change"):
        v.mul_(2)
    with no_grad():
        v.mul_(2)
    same(v, [2, 4])
    same(x, [0, 0, 0, 0])
    (v * v).sum().backward()  # 2 v, and v is a part of x
    same(x.grad, [4, 8, 0, 0])


def test_a_view_made_under_no_grad_becomes_an_ordinary_tensor() -> None:
    x, p = leaf(4), leaf(2)
    with no_grad():
        v = x[0:2]
    with pytest.raises(RuntimeError, match="mul_: x is a view that was made while nothing was recorded"):
        v.mul_(p)
    v.data = Tensor(np.array([5.0, 6.0]))
    v.mul_(p)
    v.sum().backward()
    same(p.grad, [5, 6])


def test_nothing_is_kept_alive() -> None:
    """The old memory is freed with the last view of it."""
    x, b = base()
    v = b[0:2]
    old = weakref.ref(b.array)
    b.data = Tensor(np.zeros(4))
    assert views_of(b) == [] and old() is not None
    del v
    gc.collect()
    assert old() is None


# ---- idioms ------------------------------------------------------------------------------------------------


def test_a_step_by_hand() -> None:
    p = leaf(3)
    a, memory = p.array.copy(), p.array
    (p * p).sum().backward()
    p.data -= 0.1 * p.grad.data
    same(p, a - 0.2 * a)
    assert p.array is memory and p.is_leaf and p.requires_grad


def test_copying_into_it() -> None:
    p, other = leaf(3), array(3)
    memory = p.array
    p.data.copy_(Tensor(other))
    p.data[0] = 7
    assert p.array is memory and p.requires_grad
    same(p, [7, *other[1:]])


def test_binary_weights() -> None:
    """BinaryConnect: the forward uses sign(w), the optimizer step updates w."""
    w, x = leaf(3), array(3)
    real = w.data
    a = real.array.copy()
    w.data = rg.sign(w.data)
    (w * w * Tensor(x)).sum().backward()
    same(w.grad, 2 * np.sign(a) * x)
    w.data = real
    w.data -= 0.5 * w.grad.data
    same(w, a - np.sign(a) * x)


def test_exchange() -> None:
    x, y = leaf(3), leaf(3, seed=1)
    a, b = x.array, y.array
    x.data, y.data = y.data, x.data
    assert x.array is b and y.array is a
    x.data = x
    assert x.array is b


def test_a_result_in_the_middle() -> None:
    """y = 2x is used with its own values, then with other values."""
    x = leaf(3)
    a, b = x.array.copy(), array(3)
    y = x * 2
    first = (y * y).sum()
    y.data = Tensor(b)
    second = (y * y).sum()
    (first + second).backward()
    same(x.grad, 4 * (2 * a) + 4 * b)


def test_integers_and_bools() -> None:
    for old, new in ((np.arange(3), np.arange(3) * 2), (np.zeros(3, bool), np.ones(3, bool))):
        x = Tensor(old)
        x.data = Tensor(new)
        assert x.array is new


# ---- modules, optimizers and hooks that refer to the tensor ------------------------------------------------


def test_modules_and_their_state_see_the_new_memory() -> None:
    layer = rg.nn.Linear(3, 2)
    w, x = array(2, 3).astype(np.float32), array(4, 3).astype(np.float32)
    layer.weight.data = Tensor(w)
    layer.bias.data = Tensor(np.zeros(2, np.float32))
    np.testing.assert_allclose(layer(Tensor(x)).detach().array, x @ w.T, rtol=1e-5)
    np.testing.assert_array_equal(layer.state_dict()["weight"], w)
    twice = 2 * w
    layer.load_state_dict({"weight": twice, "bias": np.ones(2, np.float32)})
    np.testing.assert_array_equal(layer.weight.data.array, twice)
    np.testing.assert_array_equal(w, twice)  # the array that was assigned


@pytest.mark.parametrize("make", [lambda p: rg.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: rg.optim.Adam(p, lr=0.1)])
def test_optimizers_step_in_the_new_memory(make: Any) -> None:
    """Replacing the data between two steps shifts the result by the difference, and changes nothing else."""
    a, moved = array(3), array(3, seed=4)
    g, h = array(3, seed=2), array(3, seed=3)
    results = []
    for exchange in (False, True):
        p = rg.nn.Parameter(a.copy())
        optimizer = make([p])
        p.grad = Tensor(g.copy())
        optimizer.step()
        old = p.data
        after = old.array.copy()
        if exchange:
            p.data = Tensor(moved.copy())
        p.grad = Tensor(h.copy())
        optimizer.step()
        results.append(p.array - (moved if exchange else after))
        if exchange:
            np.testing.assert_array_equal(old.array, after)
    np.testing.assert_allclose(results[1], results[0], rtol=1e-9, atol=1e-12)


def test_hooks_stay() -> None:
    x, seen = leaf(3), []
    x.register_hook(lambda g: seen.append(g.array.copy()))
    x.data = Tensor(array(3))
    (x * x).sum().backward()
    np.testing.assert_allclose(seen[0], 2 * array(3))


# ---- inference_mode ----------------------------------------------------------------------------------------


def test_in_inference_mode() -> None:
    p, b = leaf(3), array(3)
    with inference_mode():
        assert not p.data.is_inference()
        p.data = Tensor(b) * 2
    assert not p.is_inference() and p.requires_grad
    (p * p).sum().backward()
    same(p.grad, 4 * b)


def test_of_an_inference_tensor() -> None:
    with inference_mode():
        x = Tensor(np.zeros(3))
    assert x.data.is_inference()
    x.data = Tensor(np.ones(3))
    assert x.is_inference() and x.data.is_inference()
    with pytest.raises(RuntimeError, match="made in inference_mode"):
        x.data.add_(1)
