"""Gradients clipped by norm and by value, and parameters as one vector."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from retrograd import get_num_threads, nn, set_num_threads
from retrograd.engine.tensor import Tensor
from retrograd.kernel_set import use_kernels
from retrograd.nn.parameter import Parameter, empty_weight
from retrograd.nn.utils import clip_grad_norm_, clip_grad_value_, parameters_to_vector, vector_to_parameters


@pytest.fixture(params=["compiled", "textbook"], autouse=True)
def kernel_set(request: pytest.FixtureRequest) -> Any:
    with use_kernels(request.param):
        yield request.param


def with_gradients(*dtypes: type, seed: int = 0) -> tuple[list[Parameter], list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    parameters = [Parameter(np.zeros(shape, dtype)) for dtype in dtypes for shape in ((4, 3), (5,), (), (0, 2))]
    for parameter in parameters:
        parameter.grad = Tensor(rng.normal(size=parameter.shape).astype(parameter.dtype))
    return parameters, [p.grad.array.astype(np.float64) for p in parameters]  # type: ignore[union-attr]


@pytest.mark.parametrize("dtypes", [(np.float64,), (np.float32,), (np.float32, np.float64)], ids=str)
@pytest.mark.parametrize("order", [1, 1.5, 2, 2.0, 3, math.inf])
def test_norm(order: float, dtypes: tuple[type, ...]) -> None:
    for factor in (0.3, 3.0):
        parameters, before = with_gradients(*dtypes)
        numbers = [abs(float(value)) for array in before for value in array.ravel()]
        norm = max(numbers) if order == math.inf else math.fsum(value**order for value in numbers) ** (1 / order)
        kept = [p.grad.array for p in parameters]  # type: ignore[union-attr]
        found = clip_grad_norm_((p for p in parameters), factor * norm, norm_type=order)
        assert found.shape == () and found.dtype == max(map(np.dtype, dtypes), key=lambda dtype: dtype.itemsize)
        rtol = 1e-5 if np.float32 in dtypes else 1e-12
        np.testing.assert_allclose(found.item(), norm, rtol=rtol)
        scale = min(1.0, factor * norm / (norm + 1e-6))
        for parameter, array, old in zip(parameters, kept, before, strict=True):
            assert parameter.grad is not None and parameter.grad.array is array
            np.testing.assert_allclose(array, old * scale, rtol=rtol)
            if factor > 1:
                np.testing.assert_array_equal(array, old)


def test_one_parameter_none_and_no_gradient() -> None:
    parameter = Parameter(np.zeros(2))
    assert clip_grad_norm_([], 1.0).item() == 0
    assert clip_grad_norm_([parameter], 1.0).item() == 0
    parameter.grad = Tensor(np.array([3.0, 4.0]))
    assert clip_grad_norm_(parameter, 1.0).item() == 5
    np.testing.assert_allclose(parameter.grad.array, [0.6, 0.8], rtol=1e-6)


def test_a_gradient_that_two_share_is_cut_once_and_read_only_memory_is_left_alone() -> None:
    a, b = Parameter(np.zeros(2)), Parameter(np.zeros(2))
    a.grad = b.grad = Tensor(np.array([3.0, 4.0]))
    assert clip_grad_norm_([a, b], 1.0).item() == 5
    np.testing.assert_allclose(a.grad.array, [0.6, 0.8], rtol=1e-6)
    a.grad = Tensor(np.broadcast_to(np.array(4.0), 2))
    clip_grad_value_([a], 1.0)
    np.testing.assert_array_equal(a.grad.array, [1, 1])


@pytest.mark.parametrize(("value", "message"), [(np.nan, "is nan"), (np.inf, "is inf")])
def test_a_norm_that_is_not_finite(value: float, message: str) -> None:
    parameters, _ = with_gradients(np.float64)
    gradient = parameters[0].grad
    assert gradient is not None
    gradient.array[1, 1] = value
    before = gradient.array.copy()
    with pytest.raises(RuntimeError, match=f"clip_grad_norm_: the norm of the gradients {message}; .*nonfinite=False"):
        clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
    np.testing.assert_array_equal(gradient.array, before)
    np.testing.assert_equal(clip_grad_norm_(parameters, 1.0).item(), value)
    expected = np.where(np.isinf(before), np.nan, 0.0) if np.isinf(value) else np.full_like(before, np.nan)
    np.testing.assert_array_equal(gradient.array, expected)


def test_value() -> None:
    parameters, before = with_gradients(np.float32, np.float64)
    gradient = parameters[0].grad
    assert gradient is not None
    gradient.array[0] = np.nan, np.inf, -np.inf
    before[0][0] = np.nan, np.inf, -np.inf
    clip_grad_value_(parameters, 0.5)
    for parameter, old in zip(parameters, before, strict=True):
        assert parameter.grad is not None
        np.testing.assert_array_equal(parameter.grad.array, np.clip(old, -0.5, 0.5).astype(parameter.dtype))


def test_same_bits_on_every_number_of_threads() -> None:
    rng = np.random.default_rng(0)
    parameters = [Parameter(np.zeros(n, np.float32)) for n in (100_003, 5, 70_000)]
    threads, found = get_num_threads(), []
    try:
        for count in (1, 2, 3):
            set_num_threads(count)
            rng = np.random.default_rng(0)
            for parameter in parameters:
                parameter.grad = Tensor(rng.normal(size=parameter.shape).astype(np.float32))
            norm = clip_grad_norm_(parameters, 1.0)
            found.append([norm.array.tobytes(), *(p.grad.array.tobytes() for p in parameters)])  # type: ignore[union-attr]
    finally:
        set_num_threads(threads)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda p: clip_grad_norm_(p, -1), ValueError, "clip_grad_norm_: max_norm=-1 must be a number"),
        (lambda p: clip_grad_norm_(p, "1"), ValueError, "clip_grad_norm_: max_norm='1' must be a number"),
        (lambda p: clip_grad_norm_(p, 1, 0), ValueError, "clip_grad_norm_: norm_type=0 must be a number"),
        (lambda p: clip_grad_norm_([p, 3], 1), TypeError, r"clip_grad_norm_: parameters\[1\] is int, exp"),
        (lambda p: clip_grad_value_(p, -1), ValueError, "clip_grad_value_: clip_value=-1 must be a number"),
        (lambda p: clip_grad_value_([None], 1), TypeError, r"clip_grad_value_: parameters\[0\] is NoneType"),
        (lambda p: parameters_to_vector([]), ValueError, "parameters_to_vector: parameters is empty"),
        (lambda p: parameters_to_vector([p, 1]), TypeError, r"parameters_to_vector: parameters\[1\] must be a Tensor"),
        (
            lambda p: parameters_to_vector([p, Parameter(np.ones(1, np.float32))]),
            ValueError,
            "the dtypes float32 and float64; convert them to one",
        ),
        (lambda p: vector_to_parameters([1.0], [p]), TypeError, "vector_to_parameters: vec must be a Tensor, got list"),
        (lambda p: vector_to_parameters(Tensor(np.ones(3)), [p]), ValueError, r"vec has shape \(3,\), .* be \(2,\)"),
    ],
)
def test_refusals(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call(Parameter(np.ones(2)))


def test_vector_and_back() -> None:
    weight = empty_weight((3, 2, 2))
    weight.array[...] = np.arange(12).reshape(3, 2, 2)
    bias = Parameter(np.array([20.0, 21.0], np.float32))
    array = weight.array
    vector = parameters_to_vector([weight, bias])
    np.testing.assert_array_equal(vector.array, [*range(12), 20, 21])
    vector_to_parameters(Tensor(vector.array * 2), (p for p in (weight, bias)))
    assert weight.array is array
    np.testing.assert_array_equal(weight.array.ravel(), 2 * np.arange(12))
    np.testing.assert_array_equal(bias.array, [40, 42])
    np.testing.assert_array_equal(vector.array, [*range(12), 20, 21])
    assert nn.utils.clip_grad_norm_ is clip_grad_norm_


def test_norm_and_clipping_apart() -> None:
    values = [np.array([3.0, 0.0]), np.array([[4.0]])]
    parameters = [nn.Parameter(np.zeros_like(v)) for v in values]
    for parameter, value in zip(parameters, values, strict=True):
        parameter.grad = Tensor(value.copy())
    norm = nn.utils.get_total_norm([p.grad for p in parameters], foreach=False)
    assert norm.item() == 5.0
    nn.utils.clip_grads_with_norm_(parameters, 1.0, norm)
    for parameter, value in zip(parameters, values, strict=True):
        np.testing.assert_allclose(parameter.grad.array, value / 5.0, rtol=1e-6)
    with pytest.warns(FutureWarning, match="nn.utils.clip_grad_norm is now deprecated in favor of clip_grad_norm_"):
        nn.utils.clip_grad_norm(parameters, 0.1)
    with pytest.raises(TypeError, match=r"get_total_norm: tensors\[1\] is int, expected a Tensor"):
        nn.utils.get_total_norm([parameters[0], 1])
    with pytest.raises(ValueError, match="get_total_norm: norm_type=0 must be a number above 0"):
        nn.utils.get_total_norm(parameters, 0)
    with pytest.raises(ValueError, match="clip_grads_with_norm_: max_norm=-1 must be a number of at least 0"):
        nn.utils.clip_grads_with_norm_(parameters, -1, norm)
