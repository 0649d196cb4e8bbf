"""Backward rules in difficult cases: tensors inside a call, object lifetimes, and in-place changes after the call."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import Tensor, nn, override_backward, rules, without_backward_rules
from retrograd.autograd import Function, grad
from retrograd.engine.grad_mode import thread
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name

RNG = np.random.default_rng(18)


def leaf(*shape: int) -> Tensor:
    return retrograd.tensor(RNG.standard_normal(shape), requires_grad=True)


def doubled(true, *g):
    found = true(*g)
    return tuple([None if each is None else each * 2.0 for each in found]) if isinstance(found, tuple) else found * 2.0


def elsewhere(true, *g):
    """A rule that computes the true backward by running the call again."""
    return true.at(*true.inputs)(*g)


def layer_of(function: Callable[..., Any], rule: Any = None) -> Any:
    class Layer(nn.Module):
        def forward(self, *args: Any) -> Any:
            return function(*args)

    layer = Layer()
    layer.backward_rule = rule
    return layer


def is_close(found: Tensor | None, expected: Any) -> None:
    assert found is not None
    np.testing.assert_allclose(found.array, expected, rtol=1e-12, atol=1e-12)


@pytest.fixture
def no_gc() -> Iterator[None]:
    """Disable the garbage collector, so that reference cycles are not freed."""
    gc.disable()
    yield
    gc.enable()


# ---- another run of the call ---------------------------------------------------------------------------------------


def test_another_run_has_the_rules_within_the_call() -> None:
    x = leaf(3, 4)
    model = nn.Sequential(nn.Tanh(), nn.ReLU())
    model.backward_rule = elsewhere
    with override_backward(F.relu, lambda g: g * 7.0):
        y = model(x)
    is_close(grad(y.sum(), x)[0], 7 * (1 - np.tanh(x.array) ** 2))
    with override_backward(retrograd.tanh, doubled), override_backward(F.relu, elsewhere):
        y = F.relu(x.tanh())
    is_close(grad(y.sum(), x)[0], 2 * (1 - np.tanh(x.array) ** 2) * (x.array > 0))


def test_another_run_has_the_parameters_of_the_call() -> None:
    """Parameters may have been replaced since the call, for example by functional_call."""
    layer, x = nn.Linear(3, 2).double(), leaf(4, 3)
    layer.backward_rule = elsewhere
    y, w = layer(x), layer.weight
    layer.weight = other = nn.Parameter(leaf(2, 3))
    gx, gw = grad(y.sum(), (x, w))
    is_close(gx, np.ones((4, 2)) @ w.array)
    is_close(gw, np.ones((2, 4)) @ x.array)
    assert layer.weight is other


def test_another_run_that_fails_leaves_the_layer() -> None:
    class Layer(nn.Module):
        fails = False

        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(leaf(3))

        def forward(self, x):
            if self.fails:
                raise ZeroDivisionError
            return x * self.w

    layer = Layer()
    layer.backward_rule = lambda true, g: true.at(*[each * 2.0 for each in true.inputs])(g)
    y, w = layer(leaf(3)), layer.w
    layer.fails = True
    with pytest.raises(ZeroDivisionError):
        y.sum().backward()
    assert layer.w is w


def test_another_run_where_some_results_have_a_gradient() -> None:
    cell, x = nn.LSTMCell(3, 4).double(), leaf(2, 3)
    expected = [grad(cell(x)[place].sum(), x)[0].array for place in (0, 1)]
    cell.backward_rule = elsewhere
    for place in (0, 1):
        is_close(grad(cell(x)[place].sum(), x)[0], expected[place])
    with override_backward(retrograd.split, elsewhere):
        parts = retrograd.split(x, 1, 1)
    is_close(grad(parts[2].sum(), x)[0], [[0, 0, 1]] * 2)
    kept: list[Tensor] = []
    leaky = layer_of(lambda x: kept.append(x.tanh()) or kept[0] * 2.0, elsewhere)
    y = leaky(x)
    with pytest.raises(RuntimeError, match="Layer: at cannot tell which results of another run have a gradient in"):
        (y.sum() + kept[0].sum()).backward()


# ---- tensors inside a call -------------------------------------------------------------------------------------------


def test_gradients_come_in_the_order_of_the_results() -> None:
    """They do not come in the order of computation."""
    seen: list[list[float]] = []

    def both(x):
        h = x.tanh()
        return h * 2.0, h

    layer = layer_of(both, lambda true, *g: seen.append([float(each.sum()) for each in g]) or true(*g))
    retrograd.autograd.backward(layer(leaf(2)), [retrograd.full((2,), n, dtype=retrograd.float64) for n in (1.0, 3.0)])
    assert seen == [[2.0, 6.0]]


def test_gradients_of_tensors_inside() -> None:
    """The rule's true backward passes through them, so retain_grad and grad see their gradients."""
    kept: list[Tensor] = []

    def inner(x):
        kept[:] = [x.tanh()]
        kept[0].retain_grad()
        return kept[0] * 3.0

    layer, x = layer_of(inner, lambda true, g: true(g * 2.0)), leaf(3)
    nested = nn.Sequential(layer)
    nested.backward_rule = lambda true, g: (true(g * 5.0), true(g * 5.0))[1]
    for model, expected in ((layer, 6), (nested, 30)):
        y = model(x)
        y.retain_grad()
        y.sum().backward(retain_graph=True)
        is_close(kept[0].grad, [expected] * 3)
        is_close(y.grad, [1] * 3)
        is_close(grad(y.sum(), kept[0], retain_graph=True)[0], [expected] * 3)
        gh, gx = grad(y.sum(), (kept[0], x))
        is_close(gh, [expected] * 3)
        is_close(gx, expected * (1 - np.tanh(x.array) ** 2))
    layer.backward_rule = lambda g: g
    y = layer(x)
    with pytest.raises(RuntimeError, match=r"\(made within Layer, whose backward is the rule <lambda>, or unused\)"):
        grad(y.sum(), kept[0])


@pytest.mark.parametrize("keeps", [False, True])
def test_a_layer_that_differentiates(keeps: bool) -> None:
    """A rule does not change the layer's forward, and it runs once."""
    runs = []

    def force(x):
        h = x * x
        (f,) = grad((h * x).sum(), x, create_graph=True)
        return f * h if keeps else f

    def rule(true, g):
        runs.append(1)
        return doubled(true, g)

    x, layer = leaf(3), layer_of(force, rule)
    with override_backward(retrograd.sum, lambda true, g: true(g)):
        y = layer(x)
    is_close(y, (3 * x.array**2) * (x.array**2 if keeps else 1))
    is_close(grad(y.sum(), x)[0], 24 * x.array**3 if keeps else 12 * x.array)
    assert runs == [1]
    outside = leaf(3)
    with override_backward(retrograd.tanh, lambda g: g * 5.0):
        z = outside.tanh()
    found = layer_of(lambda x: x * grad(z.sum(), outside)[0], doubled)(x)
    is_close(found, x.array * 5)  # the rule of the earlier graph


def test_a_forward_that_is_not_differentiable() -> None:
    x = leaf(4)
    layer = layer_of(lambda x: retrograd.tensor(np.round(x.array)), lambda g, x: g * x)
    is_close(layer(x), np.round(x.array))
    is_close(grad(layer(x).sum(), x)[0], x.array)
    layer.backward_rule = lambda true, g: true(g)
    assert grad(layer(x).sum(), x, allow_unused=True) == (None,)
    assert not layer(x.detach()).requires_grad
    with retrograd.no_grad():
        assert not layer(x).requires_grad
    carried = layer_of(lambda x: (x * 2.0, x.detach()), lambda g: g * 5.0)(x)
    assert [each.requires_grad for each in carried] == [True, False]  # as for truncated backpropagation


def test_an_input_that_only_the_rule_reads() -> None:
    x, w = leaf(4, 3), leaf(2, 3)
    layer = layer_of(lambda x, w: F.linear(x.detach().sign(), w), lambda g, x, w: (g @ w, None))
    is_close(grad(layer(x * 2.0, w).sum(), x)[0], 2 * np.ones((4, 2)) @ w.array)
    outer = nn.Sequential(layer_of(lambda x: layer(x, w)))
    outer.backward_rule = doubled
    is_close(grad(outer(x).sum(), x)[0], 2 * np.ones((4, 2)) @ w.array)
    y = outer(x)
    with without_backward_rules():
        assert grad(y.sum(), x, allow_unused=True) == (None,)


def test_lazy_layers() -> None:
    """Their parameters have no shape before the call that a rule is for."""
    x = retrograd.randn(4, 3)
    alone, inner = nn.LazyLinear(2), nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True), nn.LazyLinear(2))
    for model, lazy, rule in ((alone, alone, doubled), (inner, inner[2], doubled), (nn.LazyLinear(2), None, elsewhere)):
        model.backward_rule = rule
        y, layer = model(x), lazy or model
        gw, gb = grad(y.sum(), (layer.weight, layer.bias))
        is_close(gb, [4 if rule is elsewhere else 8] * 2)
        assert gw.shape == (2, 3)


def test_results_in_a_dict_of_another_kind() -> None:
    x = leaf(3)
    found = layer_of(lambda x: OrderedDict(a=x, b=x * 2.0), doubled)(x)
    assert type(found) is OrderedDict
    is_close(grad(found["a"].sum(), x)[0], [2] * 3)


# ---- in-place changes ----------------------------------------------------------------------------------------------


class Increment(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.array += 1.0
        return x

    @staticmethod
    def backward(ctx, g):
        return g


IN_PLACE = [
    (F.relu_, F.relu_),
    (Increment, Increment.apply),
    (None, nn.ReLU(inplace=True)),
    (None, layer_of(lambda x: x.mul_(3.0))),
]


@pytest.mark.parametrize(("operator", "call"), IN_PLACE)
def test_operators_in_place(operator: Any, call: Any, no_gc: None) -> None:
    """The gradient flows to the tensor's old state; dropped objects are freed immediately."""
    z = leaf(3)
    rule = lambda g: g * 5.0  # noqa: E731
    x = z * 1.0
    if operator is None:
        call.backward_rule = rule
        y = call(x)
    else:
        with override_backward(operator, rule):
            y = call(x)
    assert y is x or y.array is x.array
    is_close(grad((y * 1.0).sum(), z, retain_graph=True)[0], [5] * 3)
    is_alive = weakref.ref(x.array)
    del x, y
    assert is_alive() is None


VIEWS = [
    lambda z: nn.Unflatten(0, (2, 3)),
    lambda z: nn.Sequential(nn.Identity()),
    lambda z: layer_of(lambda x: x[1:]),
]


@pytest.mark.parametrize("make", VIEWS)
def test_a_view_made_by_a_rule(make: Any) -> None:
    """Changing its base raises, since the view's new history would bypass the rule; changing the view keeps it."""
    x = leaf(6)
    z, layer = x * 1.0, make(x)
    layer.backward_rule = doubled
    v = layer(z)
    message = r"mul_: another view of this memory was made by \w+, whose backward the rule doubled replaces, so it"
    with pytest.raises(RuntimeError, match=message):
        z.mul_(3.0)
    np.testing.assert_array_equal(z.array, x.array)
    v.mul_(3.0)
    is_close(grad(v.sum(), x, retain_graph=True)[0], [6 if n >= 6 - v.array.size else 0 for n in range(6)])
    is_close(grad(z[5], x)[0], [0, 0, 0, 0, 0, 6])


def test_views_within_a_layer() -> None:
    def change(x):
        z = x * 1.0
        v = z[1:]
        z.mul_(3.0)
        return v

    x = leaf(3)
    is_close(grad(layer_of(change, doubled)(x).sum(), x)[0], [0, 6, 6])


# ---- object lifetimes ----------------------------------------------------------------------------------------------


def test_nothing_is_kept_after_backward(no_gc: None) -> None:
    kept: list[Any] = []
    model = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Tanh(), nn.Linear(4, 2))).double()
    model.backward_rule = model[1].backward_rule = model[1][1].backward_rule = doubled
    for layer in model.modules():
        layer.register_forward_hook(lambda layer, args, y: kept.append(weakref.ref(y.array)))
    loss = model(leaf(5, 3)).sum()
    loss.backward()
    assert [each() for each in kept] == [None] * 5


def test_a_scope_keeps_nothing_of_its_calls(no_gc: None) -> None:
    alive = []

    def step() -> None:
        x = leaf(3, 3)
        alive.append(weakref.ref(x))
        F.cosine_similarity(x, leaf(3, 3)).sum().backward()

    step()  # where kernels are compiled, exceptions inside of Numba keep the frames of the call until a collection
    with override_backward(F.cosine_similarity, doubled):
        step()
        assert alive[-1]() is None
    F.relu(leaf(2)).sum().backward()
    held = retrograd.zeros(1)
    with override_backward(F.relu, lambda ctx, g, held=held: g):
        F.relu(leaf(2)).sum().backward()
    is_alive = weakref.ref(held)
    del held
    assert is_alive() is None


def test_a_call_knows_its_nodes() -> None:
    """The sweep then need not search all pending nodes, which would take quadratic time in a recurrence with rules."""
    with override_backward(F.cosine_similarity, doubled):
        nodes = [F.cosine_similarity(leaf(2, 3), leaf(2, 3)).grad_fn for _ in range(3)]
    orders = [node.region.orders for node in nodes]
    assert [node.order for node in nodes] == [each[-1] for each in orders]
    assert len(set(sum(orders, []))) == 3 * len(orders[0]) > 3


def test_copies() -> None:
    """Copies work, also of a rule that keeps state between backwards."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    rule = rules.DirectFeedbackAlignment(seed=2)
    model[0].backward_rule, model[2].backward_rule = rule, rule.last
    y = model(leaf(5, 3))
    (y * y).sum().backward(create_graph=True)
    assert rule.error is not None
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.backward_rules() == model.backward_rules()
        assert other[0].backward_rule == rule
        assert other[0].backward_rule is other[2].backward_rule.__self__
        assert other[0].backward_rule.error is None


# ---- scopes --------------------------------------------------------------------------------------------------------


def test_a_rule_without_a_hash() -> None:
    class Rule:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, ctx, g):
            return g * 3.0

    x = leaf(3)
    with override_backward(F.relu, Rule()):
        y = F.relu(x)
    is_close(grad(y.sum(), x)[0], [3] * 3)


def test_decorators() -> None:
    x = leaf(3)

    @override_backward(F.relu, lambda g: g * 2.0)
    def call():
        return F.relu(x)

    @override_backward(F.relu, lambda g: g * 3.0)
    def several():
        yield F.relu(x)
        yield F.relu(x)

    @without_backward_rules()
    def true():
        return grad(call().sum(), x)[0]

    is_close(grad(call().sum(), x)[0], [2] * 3)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "override_backward: no call")
        for y in several():
            assert F.relu(x).grad_fn.rule is None
            is_close(grad(y.sum(), x)[0], [3] * 3)
    is_close(true(), x.array > 0)
    assert thread.mode.rules is None
    assert not thread.mode.rules_disabled


def test_scopes_end_without_python() -> None:
    """KeyboardInterrupt may be raised before the first line of any function, so no Python code may run on exit."""
    for scope in (override_backward(F.relu, doubled), without_backward_rules()):
        assert not hasattr(type(scope).__exit__, "__code__")
        assert not hasattr(scope.close, "__code__")
    x = leaf(2)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt), override_backward(F.relu, doubled):
            F.relu(x)
            raise KeyboardInterrupt
        assert thread.mode.rules is None
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        with pytest.warns(UserWarning, match="no call of relu was recorded"), override_backward(F.relu, doubled):
            pass


def test_an_interrupt_in_a_rule() -> None:
    mode = thread.mode

    def state() -> list[Any]:
        return [getattr(mode, name) for name in type(mode).__slots__]

    def interrupt(*args):
        raise KeyboardInterrupt

    before, x = state(), leaf(3)
    ruled = layer_of(lambda x: x.tanh(), lambda true, g: interrupt())
    broken = layer_of(interrupt, doubled)
    for call in (lambda: ruled(x).sum().backward(), lambda: grad(ruled(x).sum(), x), lambda: broken(x)):
        with pytest.raises(KeyboardInterrupt):
            call()
        assert state() == before


# ---- refusals ------------------------------------------------------------------------------------------------------


def test_a_rule_that_would_never_hold() -> None:
    modules = nn.ModuleList([nn.Tanh()])
    with pytest.raises(TypeError, match="ModuleList.backward_rule: this module has no forward, so the rule would"):
        modules.backward_rule = "identity"
    with pytest.raises(TypeError, match="Layer: backward_rule is an attribute of each object and would not work as a"):

        class Layer(nn.Module):
            def backward_rule(self, true, g):  # type: ignore[override]
                return true(g)

    def several(x):
        yield x.tanh()

    with pytest.raises(TypeError, match="Layer: forward is a generator, which runs after the call, so the rule"):
        layer_of(several, doubled)(leaf(3))


def test_per_sample_gradients_of_a_part_of_a_layer_with_a_rule() -> None:
    part = nn.Linear(3, 2).double()
    model = nn.Sequential(part, nn.Tanh())
    model.backward_rule = doubled
    x = leaf(4, 3).detach()
    message = "per_sample_gradients: the module .* was called within Sequential, whose backward is the rule doubled; .*"
    with pytest.raises(ValueError, match=message + "pass a module that contains it"):
        retrograd.per_sample_gradients(part, lambda: model(x).sum(1))
    rows = retrograd.per_sample_gradients(model, lambda: model(x).sum(1))
    is_close(rows["0.bias"].sum(0), grad(model(x).sum(), part.bias)[0].array)
