"""The predefined rules compared with their formulas in NumPy."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import Tensor, nn, override_backward, rules, without_backward_rules
from retrograd.autograd import grad
from retrograd.kernel_set import use_kernels
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name

# exact zeros, limits, values next to them, large ones
X = np.array([-30.0, -2.0, -1.0000001, -1.0, -0.9999999, -0.5, -0.04, -0.0, 0.0, 1e-300, 0.04, 0.3, 1.0, 1.5, 30.0])
G = np.random.default_rng(2).standard_normal(X.shape)


def tensor(value: Any, requires_grad: bool = False) -> Tensor:
    return retrograd.tensor(np.asarray(value), requires_grad=requires_grad)


def under(rule: Any, operator: Any = retrograd.sign, x: np.ndarray = X, g: np.ndarray = G) -> np.ndarray:
    """Return the gradient of x under a rule."""
    leaf = tensor(x, True)
    with override_backward(operator, rule):
        y = operator(leaf)
    return grad(y, leaf, tensor(g))[0].numpy()


def swish(x: np.ndarray, beta: float) -> np.ndarray:
    """Return the derivative in the form of the paper."""
    z = beta * x
    return beta * (2 - z * np.tanh(z / 2)) / (1 + np.cosh(z))


POINTWISE = [
    ("identity", lambda x: np.ones_like(x)),
    ("clipped", lambda x: np.where((x >= -1) & (x <= 1), 1.0, 0.0)),
    (rules.Clipped(0.5), lambda x: np.where((x >= -0.5) & (x <= 0.5), 1.0, 0.0)),
    ("polynomial", lambda x: np.where((x > -1) & (x < 0), 2 + 2 * x, np.where((x >= 0) & (x < 1), 2 - 2 * x, 0))),
    ("swish_sign", lambda x: swish(x, 5.0)),
    (rules.SwishSign(beta=2.0), lambda x: swish(x, 2.0)),
    ("fast_sigmoid", lambda x: 1 / (1 + 25 * np.abs(x)) ** 2),
    (rules.FastSigmoid(3.0), lambda x: 1 / (1 + 3 * np.abs(x)) ** 2),
    ("arctan", lambda x: 1 / (1 + (25 * x) ** 2)),
    ("triangle", lambda x: np.maximum(0, 1 - 25 * np.abs(x))),
    (rules.Triangle(0.5), lambda x: np.maximum(0, 1 - np.abs(x) / 2)),
]


@pytest.mark.parametrize(("rule", "slope"), POINTWISE, ids=[str(rule) for rule, _ in POINTWISE])
def test_pointwise_rules(rule: Any, slope: Any) -> None:
    np.testing.assert_allclose(under(rule), G * slope(X), rtol=1e-12, atol=1e-300)
    single = under(rule, x=X.astype(np.float32), g=G.astype(np.float32))
    np.testing.assert_allclose(single, (G * slope(X)).astype(np.float32), rtol=2e-5, atol=1e-6)


def test_guided_backpropagation() -> None:
    expected = np.where((G > 0) & (X > 0), G, 0)
    np.testing.assert_array_equal(under("guided", F.relu), expected)


def test_reversal() -> None:
    t = np.tanh(X)
    np.testing.assert_allclose(under("reversal", retrograd.tanh), -G * (1 - t * t), atol=1e-15)
    layer = nn.Identity()
    layer.backward_rule = rules.Reversal(0.25)
    leaf = tensor(X, True)
    np.testing.assert_array_equal(grad(layer(leaf), leaf, tensor(G))[0].numpy(), -0.25 * G)


def linear(rule: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the gradients of x, w and b under a rule, and the true ones."""
    rng = np.random.default_rng(4)
    x, w, b, g = (rng.standard_normal(shape) for shape in ((5, 3), (4, 3), (4,), (5, 4)))
    tensors = [tensor(value, True) for value in (x, w, b)]
    with override_backward(F.linear, rule):
        y = F.linear(*tensors)
    return [each.numpy() for each in grad(y, tensors, tensor(g))], [g @ w, g.T @ x, g.sum(0)]


def test_limits_of_gradients() -> None:
    found, true = linear(rules.ClippedValue(0.3))
    for one, other in zip(found, true, strict=True):
        np.testing.assert_allclose(one, np.clip(other, -0.3, 0.3), rtol=1e-12)
    found, true = linear(rules.ClippedNorm(3.0))
    norms = [np.sqrt((each * each).sum()) for each in true]
    assert min(norms) < 3 < max(norms)
    for one, other, norm in zip(found, true, norms, strict=True):
        np.testing.assert_allclose(one, other * min(1, 3 / norm), rtol=1e-12)


def test_noise() -> None:
    """The noise is normal, has the given standard deviation, is seeded, and differs for each gradient."""
    x, g = np.zeros(40_000), np.zeros(40_000)
    retrograd.manual_seed(1)
    first, second = under(rules.Noise(0.5), retrograd.tanh, x, g), under(rules.Noise(0.5), retrograd.tanh, x, g)
    retrograd.manual_seed(1)
    np.testing.assert_array_equal(under(rules.Noise(0.5), retrograd.tanh, x, g), first)
    assert abs(first.mean()) < 0.01
    assert abs(first.std() - 0.5) < 0.01
    assert abs((first * second).mean()) < 0.01
    found, true = linear(rules.Noise(1e-6))
    for one, other in zip(found, true, strict=True):
        assert 0 < np.abs(one - other).max() < 1e-5


def test_rounded_gradients() -> None:
    """bfloat16: 8 significant bits, ties to even; k bits: a uniform grid."""
    one = 1 + np.array([0, 1, 2, 3, 4, 5]) / 256  # every second one lies between two numbers
    values = np.array([*one, *-one, 3e38, 3.3961775e38, np.inf, -np.inf, np.nan, 0.0, 1e-45, -1e-40])
    expected = [1, 1, 1 + 2 / 256, 1 + 4 / 256, 1 + 4 / 256, 1 + 4 / 256]
    found = under("bfloat16", retrograd.neg, values, -values.astype(np.float32).astype(np.float64))
    np.testing.assert_array_equal(found[:12], [*expected, *[-each for each in expected]])
    assert np.isposinf(found[13])  # the largest bfloat16 is smaller
    assert abs(found[12] / 3e38 - 1) < 2**-8
    np.testing.assert_array_equal(found[14:18], [np.inf, -np.inf, np.nan, 0])
    found, true = linear(rules.Rounded(bits=4))
    for one_, other in zip(found, true, strict=True):
        step = np.abs(other).max() / 7
        np.testing.assert_allclose(one_, np.rint(other / step) * step, rtol=1e-12, atol=1e-12)
        assert len(np.unique(np.rint(one_ / step))) <= 15
    np.testing.assert_array_equal(under(rules.Rounded(8), retrograd.tanh, np.zeros(3), np.zeros(3)), np.zeros(3))


@pytest.mark.parametrize("rule", [rules.FeedbackAlignment(seed=3), "sign_symmetric", "feedback_alignment"])
def test_feedback(rule: Any) -> None:
    """The gradient of x is computed with another weight; those of w and b are the true ones."""
    seed = {"feedback_alignment": 0}.get(str(rule), 3)
    rng = np.random.default_rng(5)
    cases = [
        (F.linear, (5, 3), (4, 3), 4, {}),
        (F.conv2d, (2, 4, 6, 7), (6, 2, 3, 3), 6, {"stride": 2, "padding": 1, "groups": 2}),
        (F.conv_transpose1d, (2, 4, 5), (4, 3, 3), 3, {"stride": 2}),
    ]
    for operator, x_shape, w_shape, channels, options in cases:
        x, w, b = tensor(rng.standard_normal(x_shape), True), tensor(rng.standard_normal(w_shape), True), None
        b = tensor(rng.standard_normal(channels), True)
        if rule == "sign_symmetric":
            other = np.sign(w.array) * np.abs(w.array).mean()
        else:
            drawn = np.random.default_rng((seed, *w_shape)).standard_normal(w_shape)
            other = drawn / np.sqrt(np.prod(w_shape[1:]))
        with override_backward(operator, rule):
            y = operator(x, w, b, **options)
        g = tensor(rng.standard_normal(y.shape))
        elsewhere = tensor(other, True)
        (gx,) = grad(operator(x, elsewhere, b, **options), x, g)
        true = grad(operator(x, w, b, **options), (x, w, b), g)
        for one, expected in zip(grad(y, (x, w, b), g), (gx, *true[1:]), strict=True):
            np.testing.assert_allclose(one.numpy(), expected.numpy(), rtol=1e-11, atol=1e-12)
    with pytest.raises(TypeError, match="tanh: the rule .* is for calls with an input and a weight"):
        under(rule, retrograd.tanh)


def test_direct_feedback_alignment() -> None:
    """Each hidden layer gets the error of the last layer through its own matrix, times the slope of its activation."""
    rng = np.random.default_rng(6)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    rule = rules.DirectFeedbackAlignment(seed=7)
    model[2].backward_rule, model[4].backward_rule = rule, rule.last
    model = copy.deepcopy(model)  # the copies of the layers share a copy of the rule
    x, g = rng.standard_normal((6, 3)), rng.standard_normal((6, 2))
    model(tensor(x)).backward(tensor(g))
    (w1, b1), (w2, b2), _ = [(layer.weight.array, layer.bias.array) for layer in (model[0], model[2], model[4])]
    h1 = np.tanh(x @ w1.T + b1)
    h2 = np.tanh(h1 @ w2.T + b2)
    matrices = [np.random.default_rng((7, 2, n)).standard_normal((2, n)) / np.sqrt(2) for n in (5, 4)]
    d1, d2 = (g @ matrix * (1 - h * h) for matrix, h in zip(matrices, (h1, h2), strict=True))
    for layer, d, below in ((model[0], d1, x), (model[2], d2, h1), (model[4], g, h2)):
        np.testing.assert_allclose(layer.weight.grad.numpy(), d.T @ below, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(layer.bias.grad.numpy(), d.sum(0), rtol=1e-11, atol=1e-12)
    alone = nn.Linear(3, 2)
    alone.backward_rule = rules.DirectFeedbackAlignment()
    with pytest.raises(RuntimeError, match="has no gradient of the last layer for this batch; give the last"):
        alone(retrograd.randn(2, 3, requires_grad=True)).sum().backward()


def test_the_true_gradient_for_comparison() -> None:
    """The true gradients of a network with rules, from the same recorded graph."""
    x = tensor(X, True)
    with override_backward(retrograd.tanh, "reversal"), override_backward(F.relu, lambda ctx, g: g * 2.0):
        y = F.relu(x.tanh())
    with without_backward_rules():
        (true,) = grad(y, x, tensor(G), retain_graph=True)
    (ruled,) = grad(y, x, tensor(G), retain_graph=True)
    with without_backward_rules():
        (again,) = grad(y, x, tensor(G))
    slope = 1 - np.tanh(X) ** 2
    np.testing.assert_allclose(true.numpy(), G * (X > 0) * slope, atol=1e-14)
    np.testing.assert_allclose(ruled.numpy(), -2 * G * slope, atol=1e-14)
    np.testing.assert_array_equal(again.numpy(), true.numpy())


# ---- spikes ------------------------------------------------------------------------------------------------------


def neuron(x: np.ndarray, g: np.ndarray, decay: float, reset: str, slope: float = 2.0) -> tuple[Any, Any, float]:
    """Return the spikes of a neuron with threshold 0.7, and the gradients of x and decay; resets are constant."""
    v, before, kept, fired, potentials = np.zeros(x.shape[1]), [], [], [], []
    for row in x:
        before.append(v)
        v = decay * v + row
        potentials.append(v)
        fired.append((v >= 0.7).astype(float))
        kept.append(np.ones_like(v) if reset == "subtract" else 1 - fired[-1])
        v = v - 0.7 * fired[-1] if reset == "subtract" else v * (1 - fired[-1])
    gx, gv, gdecay = np.zeros_like(x), np.zeros(x.shape[1]), 0.0
    for t in reversed(range(len(x))):
        gx[t] = gv * kept[t] + g[t] / (1 + (slope * (potentials[t] - 0.7)) ** 2)
        gdecay += float((gx[t] * before[t]).sum())
        gv = gx[t] * decay
    return np.array(fired), gx, gdecay


def over_time(cell: Any, x: Tensor, g: np.ndarray) -> tuple[np.ndarray, Tensor]:
    """Return the spikes of all steps, and their sum weighted by g."""
    v, loss, spikes = None, retrograd.zeros((), dtype=retrograd.float64), []
    for step, weights in zip(x, g, strict=True):
        s, v = cell(step, v)
        spikes.append(s.detach().numpy())
        loss = loss + (s * tensor(weights)).sum()
    return np.array(spikes), loss


@pytest.mark.parametrize("reset", ["subtract", "zero"])
def test_a_leaky_neuron(reset: str) -> None:
    """Its equations step by step, and the gradient through time, in which the reset is constant."""
    rng = np.random.default_rng(8)
    inputs, upstream = rng.standard_normal((6, 5)) + 0.5, rng.standard_normal((6, 5))
    cell = rules.LIFCell(decay=0.8, threshold=0.7, reset=reset, surrogate=rules.Arctan(2.0))
    assert not list(cell.parameters()) and not cell.state_dict()
    x = tensor(inputs, True)
    spikes, loss = over_time(cell, x, upstream)
    fired, expected, _ = neuron(inputs, upstream, 0.8, reset)
    assert 0 < np.mean(spikes) < 1
    np.testing.assert_array_equal(spikes, fired)
    loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kernel_set", ["compiled", "textbook"])
@pytest.mark.parametrize("reset", ["subtract", "zero"])
def test_a_learned_decay(reset: str, kernel_set: str) -> None:
    """Spikes and first derivatives are those of the oracle, and second derivatives its central differences."""
    rng = np.random.default_rng(9)
    inputs, upstream, u = (rng.standard_normal((6, 5)) + offset for offset in (0.5, 0.0, 0.0))
    options: dict[str, Any] = {"reset": reset, "surrogate": rules.Arctan(2.0)}
    cell = rules.LIFCell(decay=0.8, threshold=0.7, learn_decay=True, dtype=retrograd.float64, **options)
    assert list(cell.state_dict()) == ["decay_logit"] and abs(cell.decay.item() - 0.8) < 1e-15
    assert f"decay=0.8, threshold=0.7, reset={reset!r}, learn_decay=True\n" in repr(cell)

    def expected(x: np.ndarray, logit: float) -> tuple[Any, Any, float]:
        decay = 1 / (1 + np.exp(-logit))
        fired, gx, gdecay = neuron(x, upstream, decay, reset)
        return fired, gx, gdecay * decay * (1 - decay)

    with use_kernels(kernel_set):
        x, logit = tensor(inputs, True), cell.decay_logit
        spikes, loss = over_time(cell, x, upstream)
        gx, glogit = grad(loss, (x, logit), create_graph=True)
        second = grad((gx * tensor(u)).sum() + 0.3 * glogit, (x, logit))
    fired, true_gx, true_glogit = expected(inputs, np.log(4.0))
    assert 0 < fired.mean() < 1
    np.testing.assert_array_equal(spikes, fired)
    np.testing.assert_allclose(gx.detach().numpy(), true_gx, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(glogit.item(), true_glogit, rtol=1e-11)

    def probe(x: np.ndarray, logit: float) -> float:
        _, gx, glogit = expected(x, logit)
        return float((gx * u).sum() + 0.3 * glogit)

    eps = 1e-5
    each = np.eye(inputs.size).reshape(-1, *inputs.shape) * eps
    slopes = [(probe(inputs + d, np.log(4.0)) - probe(inputs - d, np.log(4.0))) / (2 * eps) for d in each]
    np.testing.assert_allclose(second[0].numpy().ravel(), slopes, rtol=1e-6, atol=1e-8)
    slope = (probe(inputs, np.log(4.0) + eps) - probe(inputs, np.log(4.0) - eps)) / (2 * eps)
    np.testing.assert_allclose(second[1].item(), slope, rtol=1e-6)


def test_a_neuron_over_a_sequence() -> None:
    x = tensor(np.random.default_rng(12).standard_normal((7, 3, 2)) + 0.5)
    cell = rules.LIFCell(decay=0.7)
    spikes, v = nn.Unroll(cell)(x, lengths=[7, 2, 5])
    state = None
    for t, step in enumerate(x):
        s, state = cell(step, state)
        np.testing.assert_array_equal(spikes[t, 0].numpy(), s[0].numpy())
        np.testing.assert_array_equal(spikes[t, 1].numpy(), s[1].numpy() * (t < 2))
    assert 0 < spikes.mean().item() < 1
    np.testing.assert_array_equal(v[0].numpy(), state[0].numpy())


def test_the_decay_can_be_set() -> None:
    fixed, learned = rules.LIFCell(decay=0.5), rules.LIFCell(decay=0.5, learn_decay=True)
    logit = learned.decay_logit
    for cell in (fixed, learned):
        cell.decay = 0.25
        assert abs(float(cell.decay) - 0.25) < 1e-7
    assert learned.decay_logit is logit
    with pytest.raises(ValueError, match="decay=2 must be a number from 0 to 1"):
        fixed.decay = 2


def test_gradcheck_of_a_learned_decay() -> None:
    """Against the integral of the surrogate, with the spikes' effect on the potential held constant."""
    cell = rules.LIFCell(decay=0.6, learn_decay=True, surrogate=rules.Arctan(3.0), dtype=retrograd.float64)
    x = tensor(np.random.default_rng(10).standard_normal((5, 3)) + 0.4, True)

    def spikes(x: Tensor, logit: Tensor) -> Tensor:
        assert logit is cell.decay_logit
        v, outputs = None, []
        for step in x:
            s, v = cell(step, v)
            outputs.append(s)
        return retrograd.stack(outputs)

    def surrogate(x: Tensor, logit: Tensor) -> Tensor:
        v, outputs = 0.0, []
        for step in x:
            v = v * logit.sigmoid() + step
            outputs.append((3.0 * (v - 1.0)).atan() / 3.0)
            v = v - (v >= 1.0).detach()
        return retrograd.stack(outputs)

    assert retrograd.autograd.gradcheck(spikes, (x, cell.decay_logit), surrogate=surrogate)


def test_a_decay_is_learned() -> None:
    """From potentials without spikes, gradient descent finds the decay that made them; it stays between 0 and 1."""
    x = tensor(np.random.default_rng(11).uniform(-0.2, 0.2, (20, 8)))
    teacher, student = rules.LIFCell(decay=0.4), rules.LIFCell(decay=0.95, learn_decay=True, dtype=retrograd.float64)

    def potentials(cell: Any) -> Tensor:
        v, kept = None, []
        for step in x:
            _, v = cell(step, v)
            kept.append(v)
        return retrograd.stack(kept)

    target, optimizer = potentials(teacher), retrograd.optim.Adam(student.parameters(), lr=0.1)
    for _ in range(300):
        optimizer.zero_grad()
        F.mse_loss(potentials(student), target).backward()
        optimizer.step()
    assert abs(student.decay.item() - 0.4) < 1e-3
    before = student.decay_logit.item()
    optimizer = retrograd.optim.SGD(student.parameters(), lr=0.1)
    optimizer.zero_grad()
    loss = potentials(student).sum()
    loss.backward()
    optimizer.step()
    assert np.isfinite(student.decay_logit.item()) and student.decay_logit.item() != before
    assert potentials(student).sum().item() < loss.item()


def test_a_spike() -> None:
    np.testing.assert_array_equal(rules.spike(tensor(X)).numpy(), (X >= 0).astype(float))
    x = tensor(X, True)
    expected = G / (1 + 25 * np.abs(X)) ** 2
    np.testing.assert_allclose(grad(rules.spike(x), x, tensor(G))[0].numpy(), expected, rtol=1e-12)
    assert np.isnan(rules.spike(tensor([np.nan])).numpy()).all()
    with pytest.raises(TypeError, match="spike: "):
        rules.spike(tensor([1, 2]))


# ---- options and names ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rules.Clipped(0.0), "Clipped: limit=0.0 must be a number above 0"),
        (lambda: rules.Clipped(True), "Clipped: limit=True must be a number above 0"),
        (lambda: rules.SwishSign(float("nan")), "SwishSign: beta=nan must be"),
        (lambda: rules.Reversal(-1.0), "Reversal: scale=-1.0 must be"),
        (lambda: rules.Noise(0), "Noise: std=0 must be"),
        (lambda: rules.ClippedNorm("1"), "ClippedNorm: limit='1' must be"),
        (lambda: rules.ClippedValue(float("inf")), "ClippedValue: limit=inf must be"),
        (lambda: rules.Rounded(1), "Rounded: bits=1 must be an int from 2 to 16"),
        (lambda: rules.Rounded(4.0), "Rounded: bits=4.0 must be an int from 2 to 16"),
        (lambda: rules.FeedbackAlignment(-1), "FeedbackAlignment: seed=-1 must be an int from 0"),
        (lambda: rules.DirectFeedbackAlignment(seed=1.5), "DirectFeedbackAlignment: seed=1.5 must be"),
        (lambda: rules.Arctan(0.0), "Arctan: slope=0.0 must be"),
        (lambda: rules.LIFCell(decay=1.5), "LIFCell: decay=1.5 must be a number from 0 to 1"),
        (
            lambda: rules.LIFCell(decay=1, learn_decay=True),
            "LIFCell: decay=1 must be between 0 and 1 for learn_decay=T",
        ),
        (
            lambda: rules.LIFCell(decay=1 - 1e-9, learn_decay=True),
            "LIFCell: decay=0.999999999 must be between 0 and 1 .*, and not round to 0 or 1 in float32",
        ),
        (lambda: rules.LIFCell(decay=1e-60, learn_decay=True), "and not round to 0 or 1 in float32"),
        (
            lambda: rules.LIFCell(dtype=retrograd.float64),
            "LIFCell: dtype=float64 is that of a learned decay; pass learn_decay=True or no dtype",
        ),
        (lambda: rules.LIFCell(threshold=0), "LIFCell: threshold=0 must be a number above 0"),
        (lambda: rules.LIFCell(reset="none"), 'LIFCell: reset=\'none\' must be "subtract" or "zero"'),
        (lambda: rules.LIFCell(surrogate="swish"), "there is no rule named 'swish'"),
    ],
)
def test_wrong_options(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_wrong_types_of_a_neuron() -> None:
    with pytest.raises(TypeError, match="LIFCell: learn_decay=1.5 must be True or False"):
        rules.LIFCell(learn_decay=1.5)
    for is_learned in (False, True):
        with pytest.raises(TypeError, match="dtype=int64, but layers compute in float32 or float64"):
            rules.LIFCell(learn_decay=is_learned, dtype=retrograd.int64)


def test_a_refused_decay_changes_nothing() -> None:
    for cell in (rules.LIFCell(decay=0.5), rules.LIFCell(decay=0.5, learn_decay=True)):
        for value in (1, 2.0, True) if cell.decay_logit is not None else (2.0, True):
            with pytest.raises(ValueError, match=f"LIFCell: decay={value!r} must be"):
                cell.decay = value
        assert float(cell.decay) == cell._decay == 0.5


def test_a_neuron_takes_numpy_numbers() -> None:
    cell = rules.LIFCell(decay=np.float32(0.25), threshold=np.int64(2))
    assert (cell.decay, cell.threshold) == (0.25, 2.0)


def test_names() -> None:
    layer = nn.Tanh()
    layer.backward_rule = rules.Clipped()
    assert repr(layer) == "Tanh(backward_rule=Clipped())"
    layer.backward_rule = rules.Clipped(limit=2.0)
    assert repr(layer) == "Tanh(backward_rule=Clipped(limit=2.0))"
    layer.backward_rule = rules.DirectFeedbackAlignment(3).last
    assert repr(layer) == "Tanh(backward_rule=DirectFeedbackAlignment(seed=3).last)"
    assert rules.Clipped(2.0) == rules.Clipped(2.0) != rules.Clipped()


def test_each_is_short() -> None:
    """A rule is short enough to copy: at most 15 lines without its docstring."""
    import ast
    import inspect

    for name in rules.__all__:
        if name == "LIFCell":
            continue
        tree = ast.parse(inspect.getsource(getattr(rules, name))).body[0]
        assert isinstance(tree, (ast.FunctionDef, ast.ClassDef))
        assert ast.get_docstring(tree)
        lines = inspect.getsource(getattr(rules, name)).splitlines()[tree.body[0].end_lineno :]
        assert len([line for line in lines if line]) <= 15, name
