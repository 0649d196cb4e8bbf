"""Rules copied from `backward_source`: an exact copy changes nothing; a changed copy takes effect."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.engine.operator import OPERATORS
from retrograd.kernel_set import instead, kernels
from retrograd.kernels import textbook
from retrograd.ops.normalization.layer_norm import norm_grad

F = nn.functional

RNG = np.random.default_rng(5)


def drawn(*shape: int, low: float = -2.0, high: float = 2.0) -> rg.Tensor:
    return rg.tensor(RNG.uniform(low, high, shape), requires_grad=True)


def gradients(run: Callable[[], Any], tensors: list[rg.Tensor]) -> list[Any]:
    for tensor in tensors:
        tensor.grad = None
    y = run()
    y.backward(rg.tensor(np.random.default_rng(7).standard_normal(y.shape)))
    return [None if tensor.grad is None else tensor.grad.numpy() for tensor in tensors]


def assert_same(operator: Any, text: Any, *args: Any, **options: Any) -> None:
    """Assert that the printed source, as a rule, gives the true gradients, and a changed copy other ones."""
    tensors = [each for each in args if isinstance(each, rg.Tensor) and each.requires_grad]
    expected = gradients(lambda: operator(*args, **options), tensors)
    found = gradients(lambda: with_rule(operator, text, args, options), tensors)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)
    changed = gradients(lambda: with_rule(operator, scaled(text), args, options), tensors)
    assert any(np.abs(one - other).max() > 1e-3 for one, other in zip(changed, expected, strict=True))


def with_rule(operator: Any, rule: Any, args: Any, options: Any) -> Any:
    with rg.override_backward(operator, rule):
        return operator(*args, **options)


def scaled(text: Any) -> Any:
    """Return a copy of a function whose results are multiplied by 3, plus 1."""
    parameters = ", ".join(inspect.signature(text).parameters)
    names: dict[str, Any] = {"text": text, "times": times}
    exec(f"def {text.__name__}({parameters}): return times(text({parameters}))", names)
    return names[text.__name__]


def times(result: Any) -> Any:
    if isinstance(result, (tuple, list)):
        return type(result)([times(each) for each in result])
    return None if result is None else result * 3 + 1


KERNELS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "softmax": lambda: (F.softmax, textbook.softmax_grad, drawn(3, 4), 1),
    "log_softmax": lambda: (F.log_softmax, textbook.log_softmax_grad, drawn(3, 4), 0),
    "logsumexp": lambda: (rg.logsumexp, textbook.logsumexp_grad, drawn(3, 4), (1,)),
    "cross_entropy": lambda: (F.cross_entropy, textbook.cross_entropy_grad, drawn(4, 3), rg.tensor([0, 2, 1, 1])),
    "nll_loss": lambda: (F.nll_loss, textbook.nll_loss_grad, drawn(4, 3), rg.tensor([0, 2, 1, 1])),
    "glu": lambda: (F.glu, textbook.glu_grad, drawn(3, 4), 1),
    "max_pool2d": lambda: (F.max_pool2d, textbook.max_pool_grad, drawn(2, 3, 5, 5), 2),
    "avg_pool2d": lambda: (F.avg_pool2d, textbook.avg_pool_grad, drawn(2, 3, 5, 5), 2),
    "conv2d, x": lambda: (F.conv2d, textbook.conv_input_grad, drawn(2, 3, 5, 5), drawn(4, 3, 2, 2), drawn(4)),
    "conv2d, w": lambda: (F.conv2d, textbook.conv_weight_grad, drawn(2, 3, 5, 5), drawn(4, 3, 2, 2), drawn(4)),
    "attention": lambda: (
        F.scaled_dot_product_attention,
        textbook.attention_grad,
        drawn(2, 3, 4),
        drawn(2, 5, 4),
        drawn(2, 5, 4),
    ),
    "layer_norm": lambda: (F.layer_norm, norm_grad, drawn(5, 4), (4,), drawn(4), drawn(4)),
    "group_norm": lambda: (F.group_norm, norm_grad, drawn(2, 4, 3), 2, drawn(4), drawn(4)),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_text_as_a_rule(name: str) -> None:
    assert_same(*KERNELS[name]())


def pointwise() -> Iterator[Any]:
    for operator in OPERATORS:
        for function in operator.functions if operator.domains else ():
            formulas = [text for text in getattr(function, "formulas", ()) if "_grad" in text.__name__]
            for text in formulas if hasattr(function, "backward_with") else ():
                yield pytest.param(operator, function, text, id=f"{operator.name}-{text.__name__}")


@pytest.mark.parametrize(("operator", "function", "text"), [*pointwise()])
def test_the_formula_of_a_gradient_as_a_rule(operator: Any, function: Any, text: Any) -> None:
    """The gradient of a pointwise operator, on Tensors, takes operands, result and numbers by name."""
    args = [drawn(3, 4, low=low, high=high) for low, high in operator.domains]
    try:
        assert_same(operator.function, text, *args)
    except TypeError as error:  # numbers without defaults
        assert "missing" in str(error)
        assert_same(operator.function, text, *args, 0.3)


def test_numbers_and_broadcasting() -> None:
    (text,) = [each for each in F.elu.operator.functions[0].formulas if "_grad" in each.__name__]
    assert_same(F.elu, text, drawn(3, 4), 0.7)
    for text in rg.hypot.operator.functions[0].formulas[1:]:
        assert_same(rg.hypot, text, drawn(3, 4), drawn(4))


def test_a_changed_copy() -> None:
    def sigmoid_grad(g: Any, y: Any) -> Any:
        return g * y  # the factor 1 - y is missing

    def softmax_grad(g: Any, y: Any, axis: int) -> Any:
        return g * y - axis

    x, g = drawn(3, 4), np.random.default_rng(7).standard_normal((3, 4))
    sigmoid = 1 / (1 + np.exp(-x.array))
    np.testing.assert_allclose(gradients(lambda: with_rule(rg.sigmoid, sigmoid_grad, (x,), {}), [x])[0], g * sigmoid)
    e = np.exp(x.array)
    found = gradients(lambda: with_rule(F.softmax, softmax_grad, (x, 1), {}), [x])[0]
    np.testing.assert_allclose(found, g * e / e.sum(1, keepdims=True) - 1)


def test_only_one_of_the_gradients_changes() -> None:
    x, w = drawn(2, 3, 5, 5), drawn(4, 3, 2, 2)
    true = gradients(lambda: F.conv2d(x, w), [x, w])
    found = gradients(lambda: with_rule(F.conv2d, scaled(textbook.conv_weight_grad), (x, w), {}), [x, w])
    np.testing.assert_allclose(found[0], true[0])
    np.testing.assert_allclose(found[1], 3 * true[1] + 1)


def test_a_formula_can_be_differentiated() -> None:
    (text,) = [each for each in rg.tanh.operator.functions[0].formulas if "_grad" in each.__name__]
    x = drawn(5)
    (true,) = rg.autograd.grad(rg.autograd.grad(rg.tanh(x).sum(), x, create_graph=True)[0].sum(), x)
    with rg.override_backward(rg.tanh, text):
        y = rg.tanh(x)
    (found,) = rg.autograd.grad(rg.autograd.grad(y.sum(), x, create_graph=True)[0].sum(), x)
    np.testing.assert_allclose(found.numpy(), true.numpy())


def test_arrays_cannot_be_differentiated() -> None:
    x = drawn(3, 4)
    y = with_rule(F.softmax, textbook.softmax_grad, (x, 1), {})
    with pytest.raises(TypeError, match=r"softmax: the rule softmax_grad takes arrays.*write it as \(ctx, g\) or"):
        rg.autograd.grad(y.sum(), x, create_graph=True)


def test_a_kernel_that_does_not_run() -> None:
    x = drawn(3, 4)
    y = with_rule(F.relu, textbook.softmax_grad, (x,), {})
    with pytest.raises(TypeError, match="relu: the rule softmax_grad has the name and parameters of a kernel that"):
        y.sum().backward()


def test_a_kernel_of_another_operator_takes_the_inputs() -> None:
    def neg(x: Any) -> Any:
        return -x

    x = drawn(4)
    (found,) = gradients(lambda: with_rule(rg.round, neg, (x,), {}), [x])
    np.testing.assert_allclose(found, -np.random.default_rng(7).standard_normal(4))


@pytest.mark.parametrize(("result", "name"), [(None, "NoneType"), (rg.ones(3, 4).double(), "Tensor")])
def test_what_is_no_array_is_refused(result: Any, name: str) -> None:
    def softmax_grad(g: Any, y: Any, axis: int) -> Any:
        return result

    y = with_rule(F.softmax, softmax_grad, (drawn(3, 4), 1), {})
    with pytest.raises(TypeError, match=f"softmax: the rule softmax_grad returned {name}, expected arrays, like the"):
        y.sum().backward()


def test_what_a_replacement_calls_is_the_kernel() -> None:
    x = rg.ones(2)
    with instead({"exp": lambda x: kernels.exp(x) * 2}) as entered:
        np.testing.assert_allclose(rg.exp(x).array, 2 * np.e, rtol=1e-6)
    assert entered.calls == 1


def test_other_parameters_mean_the_inputs() -> None:
    def sigmoid_grad(g: Any, x: Any) -> Any:
        return g * x

    x = drawn(4)
    (found,) = gradients(lambda: with_rule(rg.sigmoid, sigmoid_grad, (x,), {}), [x])
    np.testing.assert_allclose(found, np.random.default_rng(7).standard_normal(4) * x.array)


def test_a_layer() -> None:
    layer = nn.Softmax(1)
    layer.backward_rule = scaled(textbook.softmax_grad)
    x = drawn(3, 4)
    np.testing.assert_allclose(gradients(lambda: layer(x), [x])[0], 3 * gradients(lambda: F.softmax(x, 1), [x])[0] + 1)


def test_a_recurrent_layer_in_the_textbook_set() -> None:
    names = ", ".join(inspect.signature(textbook.recurrent_grad).parameters)
    text = f"def recurrent_grad({names}):\n gx, *rest = true({names})\n return 3 * gx, *rest"
    exec(text, defined := {"true": textbook.recurrent_grad})
    layer, x = nn.LSTM(3, 4).double(), drawn(5, 2, 3)
    with rg.use_kernels("textbook"):
        true = gradients(lambda: layer(x)[0], [x])[0]
        layer.backward_rule = defined["recurrent_grad"]
        found = gradients(lambda: layer(x)[0], [x])[0]
    np.testing.assert_allclose(found, 3 * true)


def test_other_threads_run_the_kernel() -> None:
    entered, leave = threading.Event(), threading.Event()

    def add(x: Any, y: Any) -> Any:
        return x - y

    def other() -> None:
        with instead({"add": add}):
            entered.set()
            leave.wait(10)
            found.append(kernels.add(a, a)[0])

    a, found = np.ones(3), []
    thread = threading.Thread(target=other)
    thread.start()
    entered.wait(10)
    assert kernels.add(a, a)[0] == 2
    with instead({"add": add}) as here:
        assert kernels.add(a, a)[0] == 0
        leave.set()
        thread.join()
        assert kernels.add(a, a)[0] == 0
    assert (found, here.calls, kernels.add(a, a)[0]) == ([0], 2, 2)
    assert "add" not in vars(kernels) or vars(kernels)["add"] is kernels.found("add").direct.run
