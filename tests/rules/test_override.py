"""override_backward and backward_rule: affected calls, and the arguments and results of rules."""

from __future__ import annotations

import copy
import threading
import warnings
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import Tensor, nn, override_backward, register_backward_rule
from retrograd.autograd import Function, grad, gradcheck, gradgradcheck, set_detect_anomaly
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name
from retrograd.utils.checkpoint import checkpoint

RNG = np.random.default_rng(1)


def leaf(*shape: int) -> Tensor:
    return retrograd.tensor(RNG.standard_normal(shape), requires_grad=True)


def constant(*shape: int) -> Tensor:
    return retrograd.tensor(RNG.standard_normal(shape))


def doubled(true, *g):
    """A rule that returns twice the true gradients."""
    found = true(*g)
    return tuple([None if each is None else each * 2.0 for each in found]) if isinstance(found, tuple) else found * 2.0


def gradients(y: Tensor, *inputs: Tensor, g: Tensor | None = None, **options: Any) -> list[np.ndarray]:
    upstream = retrograd.tensor(np.random.default_rng(5).standard_normal(y.shape)) if g is None else g
    return [each.array for each in grad(y, inputs, upstream, **options)]


def is_close(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


# ---- the three forms -------------------------------------------------------------------------------------------------


def test_a_rule_gets_the_true_backward() -> None:
    x, w, b = leaf(2, 3, 5, 5), leaf(4, 3, 3, 3), leaf(4)

    def rule(true, g):
        assert true.name == "conv2d"
        assert [each is own for each, own in zip(true.inputs, (x, w, b), strict=True)] == [True] * 3
        gx, gw, gb = true(g)
        return gx, gw * 3.0, -gb

    with override_backward(F.conv2d, rule):
        y = F.conv2d(x, weight=w, bias=b, padding=1)
    gx, gw, gb = gradients(F.conv2d(x, w, b, padding=1), x, w, b)
    is_close(gradients(y, x, w, b), [gx, gw * 3, -gb])


def test_a_rule_may_be_the_source_of_the_operator() -> None:
    """The rule is the printed backward with one changed line."""
    x, w, b = leaf(2, 3, 5, 5), leaf(4, 3, 3, 3), leaf(4)
    source = retrograd.backward_source(F.conv2d(x, w, b)).replace("@staticmethod\n", "").replace(" -> Gradients", "")
    assert "return gx, gw, gb, None, None" in source
    from retrograd.ops.convolution import convolution as module

    names: dict[str, Any] = dict(vars(module))
    exec("from __future__ import annotations\n" + source.replace("return gx, gw,", "return gx * 2.0, gw,"), names)
    for call in (lambda: F.conv2d(x, w, b), lambda: F.conv2d(x[0], w, b)):  # the second one reshapes as well
        with override_backward(F.conv2d, names["backward"]):
            y = call()
        gx, gw, gb = gradients(call(), x, w, b)
        is_close(gradients(y, x, w, b), [gx * 2, gw, gb])


def test_a_rule_of_the_gradient_and_the_arguments() -> None:
    x = leaf(3, 4)
    with override_backward(F.relu, lambda g, x: g * x):
        y = F.relu(x)
    with override_backward(F.relu, lambda g: g):
        z = F.relu(x)
    g = constant(3, 4)
    is_close(gradients(y, x, g=g) + gradients(z, x, g=g), [g.array * x.array, g.array])


def test_a_formula_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    @retrograd.formula
    def clipped(g, x):
        return retrograd.where(abs(x) <= 1.0, g, 0.0)

    calls = []
    apply = clipped.function.apply
    monkeypatch.setattr(clipped.function, "apply", lambda *args: calls.append(1) or apply(*args))
    x, g = leaf(50), constant(50)
    with override_backward(retrograd.sign, clipped):
        y = retrograd.sign(x)
    is_close(gradients(y, x, g=g), [np.where(abs(x.array) <= 1, g.array, 0)])
    assert calls == [1]


def test_the_true_backward_elsewhere() -> None:
    """Feedback alignment: the gradient of x is computed with other weights."""
    x, w, other = leaf(2, 3, 7), leaf(4, 3, 3), constant(4, 3, 3)

    def rule(true, g):
        _, gw = true(g)
        return true.at(x, other)(g)[0], gw

    with override_backward(F.conv1d, rule):
        y = F.conv1d(x, w, stride=2)
    gx, _ = gradients(F.conv1d(x, other.requires_grad_(), stride=2), x, other)
    _, gw = gradients(F.conv1d(x, w, stride=2), x, w)
    is_close(gradients(y, x, w), [gx, gw])


# ---- which calls ---------------------------------------------------------------------------------------------------


def test_every_name_of_an_operator() -> None:
    """The rule applies to a function, a method and a Python operator, in a layer and in another operator."""
    x, w = leaf(2, 3, 6, 6), leaf(3, 3)
    layer = nn.Conv2d(3, 2, 3, dtype="float64")
    calls = [
        (F.relu, lambda: x.relu()),
        (F.relu, lambda: nn.ReLU()(x)),
        (retrograd.add, lambda: x + 1.5),
        (retrograd.mul, lambda: x * w[0, 0]),
        (retrograd.matmul, lambda: w @ w),
        (F.linear, lambda: nn.Linear(6, 2, dtype="float64")(x)),
        (F.conv2d, lambda: layer(x)),
        (F.max_pool2d, lambda: nn.MaxPool2d(2)(x)),
        (F.batch_norm, lambda: nn.BatchNorm2d(3, dtype="float64")(x)),
        (retrograd.sigmoid, lambda: nn.Sigmoid()(x)),
        (retrograd.exp, lambda: x.exp()),
        (retrograd.tanh, lambda: F.tanhshrink(x) if "tanh" in F.tanhshrink.__code__.co_names else x.tanh()),
    ]
    for operator, call in calls:
        retrograd.manual_seed(3)
        plain = call()
        retrograd.manual_seed(3)
        with override_backward(operator, doubled):
            y = call()
        source = w if operator is retrograd.matmul else x
        is_close(gradients(y, source), [2 * each for each in gradients(plain, source)])


def test_a_rule_holds_for_one_operator_only() -> None:
    """conv1d and conv2d are one Function, sum and mean share kernels."""
    x, w = leaf(2, 3, 6), leaf(2, 3, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with override_backward(F.conv2d, doubled), override_backward(retrograd.mean, doubled):
            y = F.conv1d(x, w).sum()
    is_close(gradients(y, x, w), gradients(F.conv1d(x, w).sum(), x, w))


def test_scopes_nest_and_end() -> None:
    x = leaf(4)
    with override_backward(F.relu, lambda g: g * 2.0):
        first = F.relu(x)
        with override_backward(F.relu, lambda g: g * 3.0), override_backward(retrograd.tanh, lambda g: g * 5.0):
            second = F.relu(x).tanh()
        third = F.relu(x)
    last = F.relu(x)
    g = constant(4)
    expected = [2 * g.array, 15 * g.array, 2 * g.array, np.where(x.array > 0, g.array, 0)]
    is_close([gradients(y, x, g=g)[0] for y in (first, second, third, last)], expected)


def test_an_error_ends_the_scope() -> None:
    x = leaf(4)
    with pytest.raises(ZeroDivisionError), override_backward(F.relu, doubled):
        raise ZeroDivisionError
    is_close(gradients(F.relu(x), x, g=constant(4) * 0), [np.zeros(4)])
    assert nn.ReLU().backward_rules() == {}


def test_other_threads_are_not_affected() -> None:
    x = leaf(4)
    found: list[Tensor] = []
    with override_backward(F.relu, lambda g: g * 7.0):
        thread = threading.Thread(target=lambda: found.append(F.relu(x)))
        thread.start()
        thread.join()
        found.append(F.relu(x))
    g = constant(4)
    is_close([gradients(y, x, g=g)[0] for y in found], [np.where(x.array > 0, g.array, 0), 7 * g.array])


def test_a_function_and_a_formula_of_the_user() -> None:
    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3.0 * x * x * g

    @retrograd.formula
    def square(x):
        return x * x

    x, g = leaf(5), constant(5)
    for operator, call in ((Cube, Cube.apply), (Cube.apply, Cube.apply), (square, square)):
        with override_backward(operator, lambda g: -g):
            y = call(x)
        is_close(gradients(y, x, g=g), [-g.array])


def test_a_rule_in_a_rule() -> None:
    """With an override inside a layer with a rule, or nested layers with rules, both rules run, inner one first."""
    order = []

    def noted(name, factor):
        def rule(true, g):
            order.append(name)
            found = true(g * factor)
            order.append(f"{name} ends")
            return found

        return rule

    model = nn.Sequential(nn.Tanh(), nn.Sequential(nn.ReLU(), nn.Identity()))
    model.backward_rule = noted("model", 2.0)
    model[1].backward_rule = noted("inner", 3.0)
    model[1][1].backward_rule = noted("identity", 5.0)
    x, g = leaf(6), constant(6)
    with override_backward(F.relu, noted("relu", 7.0)):
        y = model(x)
    plain = F.relu(x.tanh())
    is_close(gradients(y, x, g=g), [210 * each for each in gradients(plain, x, g=g)])
    assert order == ["model", "inner", "identity", "identity ends", "relu", "relu ends", "inner ends", "model ends"]


# ---- layers -------------------------------------------------------------------------------------------------------


def test_a_layer_has_a_rule() -> None:
    layer = nn.Linear(4, 3, dtype="float64")
    x = leaf(2, 4)

    def rule(true, g):
        gx, gw, gb = true(g)
        return gx * 2.0, gw * 3.0, gb * 5.0

    expected = gradients(layer(x), x, layer.weight, layer.bias)
    layer.backward_rule = rule
    assert layer.backward_rule is rule
    assert repr(layer) == "Linear(in_features=4, out_features=3, bias=True, backward_rule=rule)"
    times = [each * n for each, n in zip(expected, (2, 3, 5), strict=True)]
    is_close(gradients(layer(x), x, layer.weight, layer.bias), times)
    layer.backward_rule = None
    assert "rule" not in repr(layer)
    is_close(gradients(layer(x), x, layer.weight, layer.bias), expected)


def test_a_rule_is_configuration() -> None:
    """Copies keep the rule, the state_dict does not contain it, and the model's repr lists it."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.ReLU()))
    state = model.state_dict()
    model[1][0].backward_rule = doubled
    model[1].backward_rule = "test: negated"
    assert [*model.state_dict()] == [*state]
    copied = copy.deepcopy(model)
    assert copied.backward_rules() == {"1": "test: negated", "1.0": "doubled"}
    with override_backward(F.conv2d, doubled), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert copied[1].backward_rules() == {"": "test: negated", "0": "doubled", "conv2d": "doubled"}
        F.conv2d(leaf(1, 1, 3, 3), leaf(1, 1, 3, 3))
    x = retrograd.randn(2, 3, requires_grad=True)
    is_close(gradients(copied(x), x, g=retrograd.ones(2, 3)), gradients(model(x), x, g=retrograd.ones(2, 3)))
    assert "(0): ReLU(backward_rule=doubled)" in repr(model)
    assert repr(model[1]).splitlines()[1].strip() == "backward_rule=test: negated"


register_backward_rule("test: negated", lambda g: -g)


def test_a_user_layer_reads_other_tensors() -> None:
    """These tensors come after the arguments and parameters."""
    other = leaf(3)

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(leaf(3))

        def forward(self, x):
            return x * self.weight * other

    layer, x, g = Scaled(), leaf(3), constant(3)
    found = gradients(layer(x), x, layer.weight, other, g=g)
    layer.backward_rule = lambda true, g: tuple([each * n for n, each in enumerate(true(g), 2)])
    is_close(gradients(layer(x), x, layer.weight, other, g=g), [each * n for n, each in enumerate(found, 2)])
    layer.backward_rule = lambda true, g: true(g)[:2]
    with pytest.raises(RuntimeError, match=r"Scaled: the rule <lambda> returned 2 gradients, expected 3, one for each"):
        layer(x).sum().backward()


# ---- every path --------------------------------------------------------------------------------------------------


def test_create_graph() -> None:
    """The second derivative is the derivative of the rule: here of 3 x^2, for the operator x^3."""
    x = leaf(4)

    def rule(g, x):
        return g * x.tanh()

    def call(x):
        with override_backward(F.relu, rule):
            return F.relu(x)

    (first,) = grad(call(x), x, retrograd.ones_like(x), create_graph=True)
    is_close([first.array], [np.tanh(x.array)])
    is_close(gradients(first, x, g=constant(4) * 0 + 1.0), [1 - np.tanh(x.array) ** 2])
    w = leaf(2, 3, 3, 3)
    picture = leaf(1, 3, 5, 5)

    def true_one(true, *g):
        return true(*g)

    def convolved(x, w):
        with override_backward(F.conv2d, true_one):
            return F.conv2d(x, w).tanh()

    assert gradcheck(convolved, (picture, w))
    assert gradgradcheck(convolved, (picture, w))

    def moved(x, w):  # the true backward of the same call with other tensors is differentiable, too
        with override_backward(F.conv2d, lambda true, g: true.at(*[each * 1.0 for each in true.inputs])(g)):
            return F.conv2d(x, w)

    assert gradgradcheck(moved, (picture, w))


@pytest.mark.parametrize("create_graph", [False, True])
def test_fused_paths(create_graph: bool) -> None:
    """Recurrent layers and norms have a fused backward kernel, which the true backward in a rule still uses."""
    layers = [(nn.LSTM(3, 4, num_layers=2), (5, 2, 3)), (nn.BatchNorm1d(3), (6, 3)), (nn.GRUCell(3, 4), (2, 3))]
    for layer, shape in layers:
        layer = layer.double()
        x = leaf(*shape)

        def call(layer=layer, x=x):
            found = layer(x)
            return found[0] if isinstance(found, tuple) else found

        inputs = (x, *layer.parameters())
        expected = gradients(call(), *inputs, create_graph=create_graph)
        layer.backward_rule = doubled
        is_close(gradients(call(), *inputs, create_graph=create_graph), [2 * each for each in expected])


def test_several_results() -> None:
    """A rule gets one gradient for each result that received one."""
    layer, x = nn.LSTM(3, 4).double(), leaf(5, 2, 3)
    counts = []

    def rule(true, *g):
        counts.append(len(g))
        return true(*g)

    y, (h, c) = layer(x)
    first = gradients(y.sum() + (h * c).sum(), x)
    layer.backward_rule = rule
    y, (h, c) = layer(x)
    is_close(gradients(y.sum() + (h * c).sum(), x), first)
    y, _ = layer(x)
    y.sum().backward()
    assert counts == [3, 1]


@pytest.mark.parametrize("by_layer", [True, False])
def test_checkpointing(by_layer: bool) -> None:
    layer, x = nn.Linear(4, 4, dtype="float64"), leaf(3, 4)
    expected = gradients(layer(x).tanh(), x)
    if by_layer:
        layer.backward_rule = doubled
        y = checkpoint(lambda x: layer(x).tanh(), x)
    else:
        with override_backward(F.linear, doubled):
            y = checkpoint(lambda x: layer(x).tanh(), x)
    is_close(gradients(y, x), [2 * each for each in expected])


@pytest.mark.parametrize("by_layer", [True, False])
def test_per_sample_gradients(by_layer: bool) -> None:
    """The rule is applied to each sample separately: here it clips the norm of the weight gradient."""
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    x = constant(5, 4)

    def rule(true, g):
        gx, gw, gb = true(g)
        return gx, gw / (gw * gw).sum().sqrt(), gb

    def losses():
        if by_layer:
            return (model(x) ** 2).sum(1)
        with override_backward(F.linear, rule):
            return (model(x) ** 2).sum(1)

    if by_layer:
        model[0].backward_rule = model[2].backward_rule = rule
    found = retrograd.per_sample_gradients(model, losses)
    for n in range(5):
        with override_backward(F.linear, rule):
            loss = (nn.Sequential(*[copy.copy(each) for each in model])(x[n : n + 1]) ** 2).sum()
        expected = gradients(loss, *model.parameters(), g=retrograd.tensor(1.0, dtype=retrograd.float64))
        is_close([rows.numpy()[n] for rows in found.values()], expected)


def test_per_sample_gradients_of_a_container_and_a_recurrent_layer() -> None:
    x = constant(3, 4, 2)
    inner = nn.Sequential(nn.LSTM(2, 3, batch_first=True), nn.Identity()).double()

    class First(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = inner[0]

        def forward(self, x):
            return self.lstm(x)[0].sum((1, 2))

    model = First()
    plain = retrograd.per_sample_gradients(model, lambda: model(x))
    for module in (model, model.lstm):
        module.backward_rule = doubled
        rows = retrograd.per_sample_gradients(model, lambda: model(x))
        module.backward_rule = None
        is_close([each.numpy() for each in rows.values()], [2 * each.numpy() for each in plain.values()])
    norm = nn.Sequential(nn.BatchNorm1d(4)).double()
    norm.backward_rule = doubled
    with pytest.raises(ValueError, match="has a backward rule, so it is run for each sample .*, but it normalizes"):
        retrograd.per_sample_gradients(norm, lambda: norm(constant(3, 4)).sum(1))


def test_hooks_and_retained_gradients() -> None:
    """The hook of a result runs once, before the rule; hooks inside the call run in its true backward."""
    seen: list[str] = []
    x = leaf(4)
    x.register_hook(lambda g: seen.append("x"))
    z = x * 1.0
    z.register_hook(lambda g: seen.append("z"))

    class Inner(nn.Module):
        def forward(self, x):
            self.h = x.tanh()
            self.h.register_hook(lambda g: seen.append("h"))
            return self.h * 2.0

    layer = Inner()
    layer.backward_rule = lambda true, g: seen.append("rule") or true(g)
    y = layer(z)
    y.register_hook(lambda g: seen.append("y"))
    y.retain_grad()
    y.sum().backward()
    assert seen == ["y", "rule", "h", "z", "x"]
    is_close([y.grad.numpy()], [np.ones(4)])
    layer.register_full_backward_hook(lambda module, gx, gy: seen.append("module"))
    layer(x).sum().backward()
    assert seen[5:] == ["rule", "h", "module", "x"]


def test_a_rule_gets_all_gradients() -> None:
    """The true backward also returns gradients that were not requested, and None for inputs that require none."""
    x, w, b = leaf(2, 3), leaf(4, 3), constant(4)
    found = []
    with override_backward(F.linear, lambda true, g: found.append(true(g)) or found[0]):
        y = F.linear(x, w, b)
    assert grad(y.sum(), x)[0].shape == (2, 3)
    assert found[0][1].shape == (4, 3)
    assert found[0][2] is None


def test_a_second_backward() -> None:
    x = leaf(3)
    with override_backward(F.relu, lambda g, x: g * x):
        y = F.relu(x)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="relu: the inputs of the rule <lambda> were freed by an earlier backward"):
        y.sum().backward()


def test_a_change_in_place_is_noticed() -> None:
    x = leaf(3) * 1.0
    with override_backward(F.relu, lambda g, x: g * x):
        y = F.relu(x)
    x.add_(1.0)
    with pytest.raises(RuntimeError, match="a tensor that its backward needs, float64 .* was changed in place"):
        y.sum().backward()


def test_anomaly_detection_sees_what_a_rule_makes() -> None:
    x = leaf(3)
    with set_detect_anomaly(True):
        with override_backward(F.relu, lambda g: g * float("nan")):
            y = F.relu(x)
        with pytest.raises(RuntimeError, match="ReluBackward: the gradient of argument 0 contains NaN"):
            y.sum().backward()


def test_in_place_operators() -> None:
    x, g = leaf(4), constant(4)
    with override_backward(F.relu_, lambda g: g * 3.0):
        y = F.relu_(x * 1.0)
    is_close(gradients(y, x, g=g), [3 * g.array])


@pytest.mark.parametrize(
    ("operator", "change", "other"),
    [
        (Tensor.mul_, lambda y: y.mul_(3.0), lambda y: y.add_(3.0)),
        (Tensor.exp_, lambda y: y.exp_(), lambda y: y.tanh_()),
        (Tensor.__imul__, lambda y: y.__imul__(3.0), lambda y: y.mul_(3.0)),
    ],
)
def test_a_rule_of_one_in_place_method_holds_for_no_other(operator: Any, change: Any, other: Any) -> None:
    for call, factor in ((change, 2.0), (other, 1.0)):
        x = leaf(3, 4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a rule without effect on the other one
            with override_backward(operator, doubled):
                ruled = call(x * 1.0)
        (true,) = gradients(call(x * 1.0), x)
        (gx,) = gradients(ruled, x)
        assert np.array_equal(gx, factor * true)


def test_what_is_shown() -> None:
    x = leaf(3)
    with override_backward(F.relu, doubled):
        y = F.relu(x)
    assert y.grad_fn.rule == "doubled"
    assert "twice the true gradients" in retrograd.backward_source(y)
    assert F.relu(x).grad_fn.rule is None


# ---- refusals ----------------------------------------------------------------------------------------------------

BAD_RULES = [
    (3, TypeError, r"the rule is 3; expected a function of \(ctx, g\), \(true, g\) or \(g, x, ...\), or the name of"),
    (nn.ReLU, TypeError, "expected a function of"),
    (lambda: None, ValueError, r"the rule <lambda> must take the arguments \(ctx, g\), \(true, g\) or \(g, ...\)"),
    (lambda ctx: None, ValueError, "must take the arguments"),
    (lambda *, g: None, ValueError, "must take the arguments"),
    ("clipp", ValueError, "there is no rule named 'clipp'; the registered ones are: .*; add one with"),
]


@pytest.mark.parametrize(("rule", "error", "message"), BAD_RULES)
def test_what_is_no_rule(rule: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"override_backward: .*{message}"):
        override_backward(F.relu, rule)
    layer = nn.ReLU()
    with pytest.raises(error, match=f"ReLU.backward_rule: .*{message}"):
        layer.backward_rule = rule
    assert layer.backward_rule is None


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (nn.ReLU(), "got the layer ReLU: set its backward_rule"),
        (lambda x: x, "for the backward of a function of your own put it into a Module and set its backward_rule"),
        ("relu", "got 'relu', expected an operator"),
        (np.sin, "expected an operator of this package"),
    ],
)
def test_what_is_no_operator(operator: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        override_backward(operator, doubled)


BAD_RESULTS = [
    (
        lambda true, g: true(g)[0],
        RuntimeError,
        r"linear: the rule <lambda> returned 1 gradient, expected 2, one for "
        r"each Tensor of the call: float64 of shape \(2, 3\), float64 of shape \(4, 3\)",
    ),
    (lambda true, g: (*true(g), g), RuntimeError, "returned 3 gradients, expected 2"),
    (
        lambda true, g: true(g)[::-1],
        RuntimeError,
        r"returned float64 of shape \(4, 3\) as gradient 0, expected "
        r"float64 of shape \(2, 3\) like the Tensor itself",
    ),
    (lambda true, g: [each.float() for each in true(g)], RuntimeError, "returned float32 of shape .* expected float64"),
    (lambda true, g: [each.array for each in true(g)], TypeError, "returned ndarray as gradient 0, expected a"),
    (lambda true, g: true(g[0]), RuntimeError, r"passed float64 of shape \(4,\) to the true backward, expected"),
    (lambda true, g: true(g, g), RuntimeError, "passed 2 gradients to the true backward, expected 1: one for each"),
    (lambda true, g: true.at(g)(g), TypeError, "linear: at takes 2 tensors, one for each of inputs; got 1"),
    (lambda true, g: None, TypeError, r"linear: the rule <lambda> returned None, .*; it may lack a return.*a None for"),
    (lambda g, x, w, b: g, TypeError, "the rule <lambda> takes 4 arguments; there are 1 gradient and 2 Tensors"),
]


@pytest.mark.parametrize(("rule", "error", "message"), BAD_RESULTS)
def test_what_a_rule_must_not_return(rule: Any, error: type[Exception], message: str) -> None:
    x, w = leaf(2, 3), leaf(4, 3)
    with override_backward(F.linear, rule):
        y = F.linear(x, w)
    with pytest.raises(error, match=message):
        y.sum().backward()
    assert x.grad is None
    assert w.grad is None


def test_a_rule_without_a_return() -> None:
    x = leaf(3)
    for rule in (lambda g, x: None, lambda true, g: None):
        with override_backward(retrograd.tanh, rule):
            y = x.tanh()
        with pytest.raises(TypeError, match=r"returned None, .* may lack a return.* return \(None,\)"):
            y.sum().backward()
    with override_backward(retrograd.tanh, lambda g, x: (None,)):
        x.tanh().sum().backward()
    assert x.grad is None


def test_an_error_in_a_rule_names_the_rule_and_what_it_returns() -> None:
    def two(true: Any, g: Tensor) -> Any:
        gx, gw = true(g)
        return gx, gw

    layer = nn.Linear(3, 2)
    layer.backward_rule = two
    with pytest.raises(ValueError, match="too many values to unpack") as caught:
        layer(leaf(4, 3).float()).sum().backward()
    assert caught.value.__notes__[0] == (
        "raised in the rule two of Linear, which gets 1 gradient and returns one for each Tensor of the call: float32 "
        "of shape (4, 3), float32 of shape (2, 3), float32 of shape (2,)"
    )


def test_a_rule_must_not_change_g() -> None:
    x, z, g = leaf(3), leaf(3), constant(3)
    for rule in (lambda g, x: g.mul_(5.0), lambda true, g: true(g.clamp_(-0.1, 0.1)), lambda g, x: g[:1].zero_() + g):
        with override_backward(retrograd.tanh, rule):
            y = x.tanh() + z  # the two addends get the same gradient
        with pytest.raises(
            RuntimeError, match=r"changed the gradient g in place[\s\S]*changed by \w+_ at [\s\S]*g = g \* 2"
        ):
            y.backward(g.clone())
    with override_backward(retrograd.tanh, lambda true, g: true(g.clone().mul_(5.0)).mul_(2.0)):
        y = x.tanh()
    is_close(gradients(y, x, g=g), [10.0 * g.array * (1.0 - np.tanh(x.array) ** 2)])


@pytest.mark.parametrize("rule", [lambda x, g: g, lambda v: 1.0 / (1.0 + v * v), lambda t, g: t(g)])
def test_a_rule_takes_the_gradient_first(rule: Any) -> None:
    with pytest.raises(ValueError, match=r"the rule <lambda> has the parameters \(.*\), expected the gradient first: "):
        nn.Tanh().backward_rule = rule
    with pytest.raises(TypeError, match=r"the class type \(make an instance"):
        nn.Tanh().backward_rule = type


def test_a_call_of_several_functions_has_no_ctx() -> None:
    x, y = leaf(3, 4), leaf(3, 4)
    with override_backward(F.cosine_similarity, lambda ctx, g: g):
        z = F.cosine_similarity(x, y)
    message = r"and this call recorded .*Sqrt.*; write the rule <lambda> as \(true"
    with pytest.raises(TypeError, match=message):
        z.sum().backward()


def test_a_scope_without_a_call_warns() -> None:
    x = leaf(3)
    y = F.relu(x)
    with pytest.warns(UserWarning, match="no call of relu was recorded inside, so the rule doubled has no effect"):  # noqa: SIM117
        with override_backward(F.relu, doubled):
            y.sum().backward()


@pytest.mark.parametrize("operator", [F.relu, F.relu.operator.functions[0]])
def test_the_warning_shows_the_line_of_the_user(operator: Any) -> None:
    with pytest.warns(UserWarning, match="no call of") as caught, override_backward(operator, doubled):
        pass
    assert caught[0].filename == __file__


def test_a_layer_that_overrides_is_silent_in_evaluation() -> None:
    """A scope within the forward of a layer records nothing under no_grad, as in the evaluation of ``fit``."""

    class Doubled(nn.Module):
        def forward(self, x):
            with override_backward(F.relu, doubled):
                return F.relu(x)

    with retrograd.no_grad():
        assert Doubled()(leaf(3)).shape == (3,)  # warnings are errors


def test_the_registry() -> None:
    def rule(g):
        return g

    register_backward_rule("test: rule", rule)
    register_backward_rule("test: rule", rule)  # the same one again
    with pytest.raises(ValueError, match="the name 'test: rule' is taken by rule"):
        register_backward_rule("test: rule", doubled)
    with pytest.raises(TypeError, match="name is '', expected a str that is not empty"):
        register_backward_rule("", rule)
    with pytest.raises(TypeError, match="register_backward_rule: the rule is None"):
        register_backward_rule("test: none", None)
    layer = nn.ReLU()
    layer.backward_rule = "test: rule"
    assert repr(layer) == "ReLU(backward_rule=test: rule)"


# ---- a rule on a part of a fused operator ----------------------------------------------------------------------------

LABELS, CLASSES = retrograd.tensor([0, 1, -100, 2]), retrograd.tensor([1.0, 2.0, 0.5, 1.5], dtype="float64")


@pytest.mark.parametrize(
    ("part", "make"),
    [
        (retrograd.sigmoid, lambda: nn.LSTM(3, 4, dtype="float64")),
        (retrograd.tanh, lambda: nn.LSTM(3, 4, 2, bidirectional=True, dtype="float64")),
        (retrograd.sigmoid, lambda: nn.GRU(3, 4, dtype="float64")),
        (F.linear, lambda: nn.GRU(3, 4, dtype="float64")),
        (retrograd.relu, lambda: nn.RNN(3, 4, nonlinearity="relu", dtype="float64")),
        (F.softmax, lambda: lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True)),
        (retrograd.matmul, lambda: lambda x: F.scaled_dot_product_attention(x, x, x)),
        (F.log_softmax, lambda: lambda x: F.cross_entropy(x[:, 0], LABELS, CLASSES[:3], label_smoothing=0.1)),
        (F.nll_loss, lambda: lambda x: F.cross_entropy(x[:, 0], LABELS.clamp(0, 2), ignore_index=1)),
        (retrograd.mean, lambda: lambda x: F.layer_norm(x, (3,), CLASSES[:3], CLASSES[1:])),
        (retrograd.rsqrt, lambda: lambda x: F.rms_norm(x, (3,), CLASSES[:3])),
    ],
)
def test_it_makes_the_operator_run_in_its_parts(part: Any, make: Any) -> None:
    """With the true backward as the rule, the gradient is unchanged; with a doubled one it changes."""
    retrograd.manual_seed(1)
    run = make()
    x = leaf(4, 2, 3)
    calls: list[int] = []

    def counted(true: Any, *g: Tensor) -> Any:
        calls.append(len(g))
        return true(*g)

    def gradient(rule: Any = None) -> tuple[np.ndarray, np.ndarray]:
        with override_backward(part, rule) if rule is not None else nullcontext():
            y = run(x)
        y = y[0] if isinstance(y, tuple) else y
        return y.array, gradients(y, x)[0]

    (plain, true), (y, gx) = gradient(), gradient(counted)
    np.testing.assert_allclose(y, plain, 1e-12, 1e-12)
    np.testing.assert_allclose(gx, true, 1e-11, 1e-12)
    assert calls and np.abs(gradient(doubled)[1] - true).max() > 1e-3


def test_a_query_without_keys_gets_0_under_a_rule() -> None:
    x, mask = leaf(3, 4), retrograd.tensor([[True, False, True], [False, False, False], [True, True, True]])
    with override_backward(F.softmax, doubled):
        y = F.scaled_dot_product_attention(x, x, x, mask)
    assert (y.array[1] == 0).all() and np.isfinite(gradients(y, x)[0]).all()
