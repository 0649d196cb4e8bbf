"""In-place operators: values as in NumPy with shared memory, gradients by differences of the same NumPy program."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from ops.sets import textbook_at_night
from retrograd.autograd import grad, no_grad
from retrograd.engine import Function, View, modify
from retrograd.engine.tensor import Tensor, wrap

CHANGED = "was changed in place after it had been saved"


def leaf(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng(seed).uniform(0.5, 1.5, shape), requires_grad=True)


def constant(*shape: int, seed: int = 7) -> Tensor:
    return Tensor(np.random.default_rng(seed).uniform(0.5, 1.5, shape))


# ---- random programs ---------------------------------------------------------------------------------------

VIEWS: list[Callable[[Any], Any]] = [
    lambda a: a[0, ...],
    lambda a: a[..., 1:],
    lambda a: a[-1:],
    lambda a: a.transpose(0, -1) if isinstance(a, Tensor) else a.swapaxes(0, -1),
    lambda a: a.unsqueeze(0) if isinstance(a, Tensor) else a[None],
    lambda a: a[:1].reshape(-1) if len(a.shape) < 3 else a[..., ::2],  # a view for any memory order
]


def _sigmoid(a: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-a))


# (in place on a Tensor, in place on an array); b broadcasts against a
CHANGES: list[tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = [
    (lambda a, b: a.mul_(b), lambda a, b: np.multiply(a, b, out=a)),
    (lambda a, b: a.add_(b), lambda a, b: np.add(a, b, out=a)),
    (lambda a, b: a.sub_(b), lambda a, b: np.subtract(a, b, out=a)),
    (lambda a, b: a.div_(b * b + 1.0), lambda a, b: np.divide(a, b * b + 1.0, out=a)),
    (lambda a, b: a.copy_(b), lambda a, b: np.copyto(a, b)),
    (lambda a, b: a.mul_(0.5), lambda a, b: np.multiply(a, 0.5, out=a)),
    (lambda a, b: a.sigmoid_(), lambda a, b: np.copyto(a, _sigmoid(a))),
    (lambda a, b: a.tanh_(), lambda a, b: np.tanh(a, out=a)),
    (lambda a, b: a.neg_(), lambda a, b: np.negative(a, out=a)),
    (lambda a, b: a.zero_(), lambda a, b: a.fill(0)),
    (lambda a, b: a.fill_(0.25), lambda a, b: a.fill(0.25)),
    (lambda a, b: a.mul_(a[..., :1]), lambda a, b: np.multiply(a, a[..., :1].copy(), out=a)),
]
RESULTS: list[tuple[Callable[[Any], Any], Callable[[Any], Any]]] = [
    (lambda a: a * a, lambda a: a * a),
    (lambda a: a.sigmoid(), _sigmoid),
    (lambda a: a * 2.0, lambda a: a * 2.0),
    (lambda a: a.clone(), lambda a: a.copy()),
]


def program(seed: int, x: Any, w: Any) -> Any:
    """Run the same random program on Tensors or arrays, and return one number."""
    rng = np.random.default_rng(seed)
    tensors = isinstance(x, Tensor)
    side = 0 if tensors else 1
    pool = [x * 1.0, w * 1.0]
    if rng.random() < 0.3:  # memory that starts without a history
        pool.append(Tensor(np.ones((3, 4))) if tensors else np.ones((3, 4)))
    for _ in range(rng.integers(4, 10)):
        a = pool[rng.integers(len(pool))]
        kind = rng.integers(3)
        if kind == 0:
            view, number = rng.integers(len(VIEWS)), len(a.shape)
            if number and all(a.shape):
                pool.append(VIEWS[view](a))
        elif kind == 1:
            pool.append(RESULTS[rng.integers(len(RESULTS))][side](a))
        else:
            change = CHANGES[rng.integers(len(CHANGES))][side]
            fitting = [b for b in pool if not b.shape or b.shape == a.shape or b.shape == a.shape[-1:]]
            b = fitting[rng.integers(len(fitting))]
            if len(a.shape):
                change(a, b if tensors else b.copy())
    total = 0.0
    for a in pool:
        weight = rng.uniform(0.5, 1.5, a.shape)
        total = total + ((a * wrap(np.asarray(weight))).sum() if tensors else float((a * weight).sum()))
    return total


def difference(f: Callable[[], float], array: np.ndarray, direction: np.ndarray, eps: float) -> float:
    """Return the derivative of f along a direction of ``array``, which f reads."""
    start = array.copy()
    array[...] = start + eps * direction
    high = f()
    array[...] = start - eps * direction
    low = f()
    array[...] = start
    return (high - low) / (2 * eps)


@pytest.mark.parametrize("block", range(5))
def test_random_programs(block: int) -> None:
    """Results are right, or an error names both lines; most programs do not fail."""
    refused = 0
    for seed in range(100 * block, 100 * block + 100):
        x, w = leaf(3, 4, seed=seed), leaf(3, 4, seed=seed + 5000)
        y = program(seed, x, w)
        assert y.item() == pytest.approx(program(seed, x.array, w.array), rel=1e-12)
        try:
            gx, gw = grad(y, (x, w), allow_unused=True)
        except RuntimeError as error:
            assert CHANGED in str(error) and str(error).count("test_inplace.py:") == 2, str(error)
            refused += 1
            continue
        for t, g in ((x, gx), (w, gw)):
            v = np.random.default_rng(seed).uniform(-1, 1, t.shape)
            expected = difference(lambda x=x, w=w, seed=seed: program(seed, x.array, w.array), t.array, v, 1e-6)
            actual = 0.0 if g is None else float((g.array * v).sum())
            assert actual == pytest.approx(expected, rel=2e-6, abs=1e-6), f"seed {seed}"
    assert refused < 50


@pytest.mark.parametrize("seed", range(12))
def test_second_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    v = rng.uniform(-1, 1, (3, 4))
    x, w = leaf(3, 4, seed=seed), leaf(3, 4, seed=seed + 50)

    def slope(x: Tensor) -> Tensor | None:
        y = program(seed, x, w)
        (g,) = grad(y, x, create_graph=True, allow_unused=True)
        return g

    try:
        g = slope(x)
        second = None if g is None or not g.requires_grad else grad((g * wrap(v)).sum(), x, allow_unused=True)[0]
    except RuntimeError as error:
        assert CHANGED in str(error)
        return

    def directional() -> float:
        g = slope(Tensor(x.array.copy(), requires_grad=True))
        return 0.0 if g is None else float((g.array * v).sum())

    u = rng.uniform(-1, 1, x.shape)
    expected = difference(directional, x.array, u, 1e-5)
    actual = 0.0 if second is None else float((second.array * u).sum())
    assert actual == pytest.approx(expected, rel=1e-5, abs=1e-6)


# ---- one by one --------------------------------------------------------------------------------------------


def test_the_same_tensor_comes_back() -> None:
    x = constant(2, 3)
    memory, numbers = x.array, x.array.copy()
    for y in (x.add_(1.0), x.mul_(x), x.exp_(), x.zero_(), x.fill_(3), x.copy_(constant(3)), x.neg_(), x.relu_()):
        assert y is x and x.array is memory
    z = x
    z += 2
    z *= constant(3)
    z -= 1
    z /= 4.0
    assert z is x and x.array is memory and not (x.array == numbers).all()


@pytest.mark.parametrize("name", ["exp", "log", "neg", "relu", "sigmoid", "sqrt", "tanh"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unary_is_the_operator_with_its_gradient(name: str, dtype: Any) -> None:
    x = Tensor(np.random.default_rng(1).uniform(0.2, 2, (3, 5)).astype(dtype), requires_grad=True)
    g = Tensor(np.random.default_rng(2).standard_normal((3, 5)).astype(dtype))
    expected = getattr(x, name)()
    y = x * 1.0
    getattr(y, f"{name}_")()
    np.testing.assert_array_equal(y.array, expected.array)
    np.testing.assert_array_equal(grad(y, x, g)[0].array, grad(expected, x, g)[0].array)


def test_values_without_history_equal_those_with() -> None:
    for name in ("add_", "sub_", "mul_", "div_"):
        for other in (constant(4), 1.5, constant()):
            x, y = constant(3, 4), leaf(3, 4, seed=7) * 1.0
            getattr(x, name)(other)
            getattr(y, name)(other)
            np.testing.assert_array_equal(x.array, y.array)


def test_both_lines_are_named() -> None:
    x, w = leaf(3), leaf(3, seed=1)
    y = x * 1.0
    z = y * w  # saved here
    y.add_(1.0)  # changed here
    with pytest.raises(RuntimeError) as caught:
        z.sum().backward()
    text = str(caught.value)
    assert text.startswith("Mul: a tensor that its backward needs, float64 of shape (3,), " + CHANGED)
    assert re.search(r"saved by Mul at .*test_inplace\.py:\d+: z = y \* w  # saved here\n", text)
    assert re.search(r"changed by add_ at .*test_inplace\.py:\d+: y\.add_\(1\.0\)  # changed here\n", text)
    assert x.grad is None and w.grad is None


def test_the_line_is_the_users_even_in_a_module() -> None:
    model = rg.nn.Sequential(rg.nn.Linear(2, 2), rg.nn.Sequential(rg.nn.Sigmoid()))
    y = model(rg.ones(1, 2))  # the model runs here
    y += 1.0
    with pytest.raises(RuntimeError, match=r"saved by Sigmoid at .*: y = model\(rg.ones\(1, 2\)\)  # the model runs"):
        y.sum().backward()


def test_what_no_backward_needs_may_change() -> None:
    x = leaf(3)
    y = x * 2.0 + 1.0
    y += 1.0
    y *= 3.0
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.array, [6, 6, 6])


def test_a_change_before_saving_is_no_change() -> None:
    x, w = leaf(3), constant(3)
    w += 1.0
    y = x * w
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.array, w.array)


def test_detached_tensors_share_the_count() -> None:
    x = leaf(3)
    y = x * 1.0
    z = y * y
    y.detach().zero_()
    with pytest.raises(RuntimeError, match=f"(?s){CHANGED}.*changed by zero_"):
        z.sum().backward()


def test_saved_arrays_are_watched_too() -> None:
    x = leaf(3)
    y = x.relu()  # saves the array of its output
    y.neg_()
    with pytest.raises(RuntimeError, match=f"(?s)Relu.*{CHANGED}.*changed by neg_"):
        y.sum().backward()


def test_the_result_of_an_in_place_operator_may_be_what_it_saves() -> None:
    x = leaf(4)
    y = x * 1.0
    y.exp_().mul_(y)
    y.add_(1.0)
    np.testing.assert_allclose(grad(y.sum(), x)[0].array, 2 * np.exp(2 * x.array))


def test_a_leaf_is_refused() -> None:
    x = leaf(3)
    for change in (lambda: x.add_(1.0), lambda: x[:2].zero_(), lambda: x.reshape(3, 1).mul_(2.0)):
        with pytest.raises(RuntimeError, match="(a|a view of a) leaf that requires a gradient cannot change while"):
            change()
    with no_grad():
        x[:2].zero_()
        x.add_(1.0)
    assert x.is_leaf and x.array[0] == 1


def test_an_optimizer_step_is_seen() -> None:
    x, w = constant(3), leaf(3)
    y = (x * w * w).sum()
    y.backward(retain_graph=True)
    rg.optim.SGD([w], lr=0.1).step()
    with pytest.raises(RuntimeError, match=r"(?s)was changed in place.*changed by SGD.step at .*rg.optim.SGD\(\[w\]"):
        y.backward()


def test_views_know_their_base() -> None:
    x = leaf(3, 4)
    a = x * 1.0
    row, column, flat = a[0], a[:, 1], a.reshape(-1)
    row.mul_(10.0)
    np.testing.assert_array_equal(a.array[0], x.array[0] * 10)
    expected = np.ones((3, 4))
    expected[0] = 10
    for y in (a, flat):
        np.testing.assert_array_equal(grad(y.sum(), x, retain_graph=True)[0].array, expected)
    of_column = np.where([0, 1, 0, 0], expected, 0)
    np.testing.assert_array_equal(grad(column.sum(), x, retain_graph=True)[0].array, of_column)
    a.zero_()
    assert not grad((row.sum() + column.sum() + flat.sum()), x)[0].array.any()


def test_a_constant_base_learns_of_its_history() -> None:
    w = leaf(2)
    buffer = rg.zeros(3, 2).double()
    for i in range(3):
        buffer[i].copy_(w * float(i + 1))
    assert buffer.requires_grad
    np.testing.assert_array_equal(grad(buffer.sum(), w)[0].array, [6, 6])


def test_a_single_element_is_a_view() -> None:
    x = rg.zeros(2, 2)
    x[0, 1].fill_(5)
    x[1][0].add_(2.0)
    assert x.tolist() == [[0, 5], [2, 0]]


def test_a_copying_reshape_is_no_view() -> None:
    x = leaf(2, 3)
    y = (x * 1.0).T.reshape(-1)
    y.mul_(3.0)
    np.testing.assert_array_equal(grad(y.sum(), x)[0].array, np.full((2, 3), 3.0))


def test_channels_last_base() -> None:
    x = Tensor(np.random.default_rng(0).standard_normal((2, 4, 4, 3)).transpose(0, 3, 1, 2), requires_grad=True)
    y = x * 1.0
    y.permute(0, 2, 3, 1).reshape(-1)[3:].mul_(2.0)
    g = constant(2, 3, 4, 4)
    expected = g.array.copy().transpose(0, 2, 3, 1).reshape(-1)
    expected[3:] *= 2
    actual = grad(y, x, g)[0].array.transpose(0, 2, 3, 1).reshape(-1)
    np.testing.assert_array_equal(actual, expected)


def test_retain_grad_moves_on_with_the_tensor() -> None:
    x = leaf(2)
    y = x * 1.0
    y.retain_grad()
    y.mul_(3.0)
    (y * 5.0).sum().backward()
    assert y.grad.tolist() == [5, 5] and x.grad.tolist() == [15, 15]


def test_a_hook_stays_with_the_old_values() -> None:
    x, seen = leaf(2), []
    y = x * 1.0
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.mul_(3.0)
    y.sum().backward()
    assert seen == [[3, 3]]


def test_types_are_converted_within_a_kind() -> None:
    x, y = rg.ones(2), leaf(2)
    x += y  # float64 into float32
    assert x.dtype == np.float32
    np.testing.assert_array_equal(grad(x.sum(), y)[0].array, [1, 1])
    n = rg.arange(3)
    n += 2
    n *= n
    assert n.dtype == np.int64 and n.tolist() == [4, 9, 16]
    n.copy_(rg.tensor([1.7, -1.7, 0.2]))
    assert n.tolist() == [1, -1, 0]
    with pytest.raises(TypeError, match=re.escape("/=: the result is float32, which input of int64 cannot hold")):
        n /= 2


def test_messages() -> None:
    w, x = leaf(2), constant(2)
    with pytest.raises(RuntimeError, match=re.escape("-=: a leaf that requires a gradient cannot change while")):
        w -= 1.0
    with no_grad(), pytest.raises(ValueError, match=re.escape("+=: the result is float64 of shape (3, 2), x is")):
        w += Tensor(np.zeros((3, 1)))
    with pytest.raises(RuntimeError, match=r"zero_: several elements of x, .* share one memory location .*clone"):
        x.expand(3, 2).zero_()
    fixed = np.ones(2)
    fixed.flags.writeable = False
    with pytest.raises(RuntimeError, match="mul_: the memory of x is read-only"):
        Tensor(fixed).mul_(2.0)
    base = w * 1.0
    with no_grad():
        view = base[:1]
    with pytest.raises(RuntimeError, match="mul_: x is a view that was made while nothing was recorded"):
        view.mul_(w[:1])
    with pytest.raises(RuntimeError, match="mul_: x is a view that was made while nothing was recorded"):
        view.mul_(2.0)  # its base has a history
    with no_grad():
        view.mul_(2.0)
        part = constant(2)[:1]
    part.mul_(2.0)
    a = constant(2)
    part = a[:1].requires_grad_()
    with pytest.raises(RuntimeError, match="another view of this memory was made a leaf that requires a gradient"):
        a.mul_(w)
    assert part.is_leaf
    with pytest.raises(TypeError, match="fill_: value is a tensor of shape"):
        x.fill_(constant(2))
    with pytest.raises(TypeError, match="fill_: value is list"):
        x.fill_([1])
    with pytest.raises(TypeError, match="copy_: src is ndarray"):
        x.copy_(np.ones(2))
    with pytest.raises(ValueError, match=re.escape("copy_: src.shape=(3,) does not broadcast to input.shape=(2,)")):
        x.copy_(constant(3))


def test_a_failed_change_changes_nothing() -> None:
    x = leaf(2) * 1.0
    before, history = x.array.copy(), x.grad_fn
    for wrong in (constant(3), "text"):
        with pytest.raises((TypeError, ValueError)):
            x.add_(wrong)
    np.testing.assert_array_equal(x.array, before)
    assert x.grad_fn is history


def test_modify_with_an_operator_of_ones_own() -> None:
    class Cube(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return wrap(x.array**3)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return g * 3.0 * x * x

    x = leaf(3)
    y = x * 1.0
    assert modify(y, "cube_", Cube.apply) is y
    y += 1.0
    np.testing.assert_allclose(grad(y.sum(), x)[0].array, 3 * x.array**2)


def test_a_view_of_ones_own_with_two_outputs() -> None:
    class Halves(View):
        @staticmethod
        def forward(ctx: Any, x: Tensor, at: int) -> Any:
            ctx.shape = x.shape
            return wrap(x.array[:at]), wrap(x.array[at:])

        @staticmethod
        def backward(ctx: Any, first: Tensor, second: Tensor) -> Any:
            return wrap(np.concatenate([first.array, second.array])), None

    x = leaf(4)
    y = x * 1.0
    first, second = Halves.apply(y, 1)
    second.mul_(4.0)
    first.mul_(3.0)
    np.testing.assert_array_equal(grad(y.sum(), x, retain_graph=True)[0].array, [3, 4, 4, 4])
    np.testing.assert_array_equal(grad(second.sum(), x)[0].array, [0, 4, 4, 4])


def test_detach_in_place() -> None:
    x = leaf(2)
    y = x * x
    z = y * y
    y.detach_()
    assert y.is_leaf and not y.requires_grad and y.grad_fn is None
    z.sum().backward(retain_graph=True)  # first derivatives need only the numbers
    np.testing.assert_allclose(x.grad.array, 4 * x.array**3)
    with pytest.raises(RuntimeError, match="(?s)a second derivative needs the history.*changed by detach_ at"):
        grad(z.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="detach_: the tensor is a view"):
        (x * 1.0)[:1].detach_()


@textbook_at_night
def test_views_of_views_of_views() -> None:
    """More nested views than Python's recursion limit; all of them see changes of the base and of the last view."""
    x = leaf(3)
    base = x * 1.0
    first = view = base[:]
    for _ in range(2_500):
        view = view[:]
    view.mul_(2.0)
    base.mul_(3.0)
    for seen in (base, first, view):
        np.testing.assert_allclose(grad((seen * seen).sum(), x, retain_graph=True)[0].array, 72 * x.array, rtol=1e-14)


def test_a_view_of_a_view_among_others() -> None:
    x = leaf(4)
    base = x * 1.0
    upper, lower = base[2:], base[:3]
    part, last = lower[1:], upper[1:]
    part.mul_(Tensor(np.array([3.0, 5.0])))  # x0, 3 x1, 5 x2, x3
    upper[:1].mul_(2.0)
    for seen, factors in ((base, [1, 3, 10, 1]), (lower, [1, 3, 10, 0]), (part, [0, 3, 10, 0]), (last, [0, 0, 0, 1])):
        np.testing.assert_array_equal(grad(seen.sum(), x, retain_graph=True)[0].array, factors)


@pytest.mark.parametrize("changed", ["base", "view", "view of it", "other"])
def test_the_gradient_of_a_view_is_that_of_its_uses_after_a_change(changed: str) -> None:
    x = leaf(4)
    tensors = {"base": x * 1.0}
    tensors["view"] = tensors["base"][:3]
    tensors["view of it"] = tensors["view"][1:]
    tensors["other"] = tensors["base"][2:]
    unused = tensors["view"][:1]
    before = (tensors["view"] * 100).sum()
    tensors[changed].mul_(2.0)
    rng = np.random.default_rng(2)
    weights = {name: rng.normal(size=tensor.shape) for name, tensor in tensors.items()}
    loss = before
    for name, tensor in tensors.items():
        loss = loss + (tensor * rg.tensor(weights[name])).sum()
    wanted = {name: weight.copy() for name, weight in weights.items()}
    wanted["base"][:3] += weights["view"]
    wanted["base"][1:3] += weights["view of it"]
    wanted["base"][2:] += weights["other"]
    factors = {"base": [2, 2, 2, 2], "view": [2, 2, 2, 1], "view of it": [1, 2, 2, 1], "other": [1, 1, 2, 2]}[changed]
    wanted["x"] = wanted["base"] * factors + [100, 100, 100, 0]
    asked = {**tensors, "x": x}
    for (name, tensor), found in zip(asked.items(), grad(loss, [*asked.values()], retain_graph=True), strict=True):
        np.testing.assert_allclose(found.array, wanted[name], err_msg=name)
        np.testing.assert_allclose(grad(loss, tensor, retain_graph=True)[0].array, wanted[name], err_msg=name)
    assert grad(loss, unused, allow_unused=True) == (None,)


@pytest.mark.parametrize("early", [True, False])
def test_a_changed_view_retains_the_gradient_of_its_uses(early: bool) -> None:
    base = leaf(4) * 1.0
    view = base[:2]
    if early:
        view.retain_grad()
    view.mul_(2.0)
    view.retain_grad()
    ((base * 5.0).sum() + (view * 3.0).sum()).backward()
    np.testing.assert_array_equal(view.grad.array, [3, 3])


INTEGERS, TRUTH = np.array([7, -3, 12, 5]), np.array([True, False, True, False])


@pytest.mark.parametrize(
    ("sign", "array", "other"),
    [
        *((sign, INTEGERS, np.array([3, 6, -5, 2])) for sign in ("&=", "|=", "^=", "%=", "//=", "+=", "-=", "*=")),
        *((sign, TRUTH, np.array([True, True, False, False])) for sign in ("&=", "|=", "^=")),
        *((sign, np.array([0.5, -2.0, 3.0]), np.array([2.0, 3.0, -1.5])) for sign in ("%=", "//=", "/=")),
        ("**=", np.array([0.5, 2.0, 3.0]), np.array([2.0, 3.0, -1.5])),
        ("**=", INTEGERS, np.array([2, 3, 0, 1])),
    ],
    ids=str,
)
def test_augmented_assignment_changes_in_place(sign: str, array: np.ndarray, other: np.ndarray) -> None:
    for operand in (other, other[0].item()):
        x = Tensor(array.copy())
        names = {"x": x, "y": Tensor(operand) if isinstance(operand, np.ndarray) else operand}
        memory = x.array
        exec(f"x {sign} y", names)
        expected = eval(f"a {sign[:-1]} b", {"a": array, "b": operand})
        assert names["x"] is x and x.array is memory
        np.testing.assert_allclose(x.array, expected)


def test_augmented_assignment_has_the_gradient_of_its_operator() -> None:
    leaf = rg.tensor([0.5, 2.0, 3.0], dtype=np.float64, requires_grad=True)
    x = leaf * 1
    x **= 3
    x %= 2
    (gx,) = grad(x, leaf, rg.tensor([0.3, 0.7, -1.1], dtype=np.float64))
    np.testing.assert_allclose(gx.array, 3 * leaf.array**2 * [0.3, 0.7, -1.1])


def test_augmented_assignment_keeps_the_type() -> None:
    x = rg.tensor([7, -3])
    with pytest.raises(TypeError, match=r"//=: the result is float32, which input of int64 cannot hold"):
        x //= 2.5


@pytest.mark.parametrize("shape", [(3, 5), (70, 1000)], ids=str)  # below and above the size that threads share
@pytest.mark.parametrize("part", [(), (slice(None), slice(1, 4))], ids=["whole", "view"])
def test_relu_writes_into_its_input(shape: tuple[int, ...], part: Any) -> None:
    rng = np.random.default_rng(0)
    x = rg.tensor(rng.standard_normal(shape), requires_grad=True)
    z = x * 2.0
    memory = z.array
    target = z[part] if part else z
    y = target.relu_()
    wanted = x.array * 2
    wanted[part] = np.maximum(wanted[part], 0)
    assert y is target and z.array is memory and y.grad_fn is not None
    np.testing.assert_array_equal(memory, wanted)
    slope = np.full(shape, 2.0)
    slope[part] *= x.array[part] > 0
    upstream = rng.standard_normal(shape)
    g = rg.tensor(upstream, requires_grad=True)
    (gx,) = rg.autograd.grad(z, x, g, create_graph=True)
    np.testing.assert_array_equal(gx.array, upstream * slope)
    (gg,) = rg.autograd.grad(gx, g, rg.tensor(upstream))
    np.testing.assert_array_equal(gg.array, upstream * slope)


def test_relu_in_place_is_noticed_by_those_who_saved_the_old_values() -> None:
    x = rg.tensor([-1.0, 2.0], requires_grad=True)
    y = x.sin()
    z = y * y
    y.relu_()
    with pytest.raises(RuntimeError, match="was changed in place after it had been saved"):
        z.sum().backward()
    with rg.no_grad():
        np.testing.assert_array_equal(rg.tensor([-1.0, 2.0, np.nan]).relu_().array, [0.0, 2.0, np.nan])


def test_a_result_of_another_shape_says_what_to_write() -> None:
    x, a, b = Tensor(np.ones(2)), Tensor(np.ones((2, 3, 2))), Tensor(np.ones((2, 2, 2)))
    message = r"addbmm_: the result is float64 of shape \(3, 2\), x is .* be equal: write x = x\.addbmm\(...\)"
    with pytest.raises(ValueError, match=message):
        x.addbmm_(a, b)
    with pytest.raises(ValueError, match=r"\+=: .* write x = x \+ y"):
        x += a
    assert x.shape == (2,) and x.addbmm(a, b).shape == (3, 2)


def test_infinite_gradients_are_added_without_a_warning() -> None:
    x = Tensor(np.array([1.0, 2.0, 3.0]), requires_grad=True)
    y = x * 1
    first, second = np.array([np.inf, 1e308, 0.5]), np.array([-np.inf, 1e308, 0.25])
    (y * Tensor(first) + y * Tensor(second)).backward(Tensor(np.array([1.0, 1.5, 2.0])))
    np.testing.assert_array_equal(x.grad.array, [np.nan, np.inf, 1.5])
    (x * 1).backward(Tensor(np.array([1.0, -np.inf, 1.0])))
    np.testing.assert_array_equal(x.grad.array, [np.nan, np.nan, 2.5])


def test_a_wider_result_is_rounded_to_the_type_of_the_tensor() -> None:
    """float_power computes in float64; in place, it stores float32, as ``add_`` of a float64 tensor does."""
    values = np.array([1.1, 2.3, 7.7], np.float32)
    x = Tensor(values.copy())
    x.float_power_(2.5)
    assert x.dtype == np.float32
    np.testing.assert_array_equal(x.array, (values.astype(np.float64) ** 2.5).astype(np.float32))
    with pytest.raises(TypeError, match="float_power_: the result is float64, which input of int64 cannot hold"):
        Tensor(np.array([1, 2])).float_power_(2)
