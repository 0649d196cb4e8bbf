"""Element-wise operators and activations."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as peer

import retrograd
import retrograd.nn.functional as ours
from peers.compare import assert_agree, assert_close, distinct, normal, uniform
from retrograd.engine.operator import OPERATORS

ANY = (
    *(
        "abs",
        "sign",
        "ceil",
        "floor",
        "trunc",
        "round",
        "frac",
        "relu",
        "exp",
        "exp2",
        "expm1",
        "sigmoid",
        "erf",
        "erfc",
    ),
    *("sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "asinh", "square", "neg", "nan_to_num", "sgn", "absolute"),
)
POSITIVE = ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal")
UNIT = ("asin", "acos", "atanh", "logit")
TWO = ("maximum", "minimum", "fmax", "fmin", "atan2", "hypot", "logaddexp", "xlogy", "pow", "fmod", "remainder")
TRUTH = ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "isclose")
ACTIVATIONS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("silu", "mish", "gelu", "softplus", "logsigmoid", "softsign", "tanhshrink", "elu", "selu"), ()),
    **dict.fromkeys(("relu6", "hardtanh", "hardswish", "hardshrink", "softshrink", "leaky_relu", "glu", "celu"), ()),
    "rrelu": (0.1, 0.3),
    "threshold": (0.3, -7.0),
    "softmin": (1,),
}
SPAN = np.concatenate([np.linspace(-110, 110, 5001), np.logspace(-37, 37, 2001), -np.logspace(-37, 37, 2001)])
SPECIAL = np.array([0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, np.inf, -np.inf, np.nan])
# PyTorch keeps some constants of float64 functions in float32
ROUNDED = {"celu": 1e-6, "selu": 1e-6, "elu": 1e-6}


@pytest.mark.parametrize("name", (*ANY, *POSITIVE, *UNIT))
def test_unary(name: str) -> None:
    x = (
        uniform(0.1, 0.9, 3, 4)
        if name in UNIT
        else uniform(0.2, 3, 3, 4)
        if name in POSITIVE
        else distinct(3, 4) + 0.06
    )
    assert_agree(getattr(retrograd, name), getattr(torch, name), x, second=name != "sgn")  # theirs has none


NAMED = {*ANY, *POSITIVE, *UNIT, *TWO, *TRUTH, *ACTIVATIONS}
REGISTERED = [each for each in OPERATORS if each.domains and each.name not in NAMED]


@pytest.mark.parametrize("operator", REGISTERED, ids=lambda each: each.name)
def test_what_is_registered_with_domains(operator: Any) -> None:
    """Operands from the domains, and numbers other than the defaults, where PyTorch has the operator."""
    theirs = getattr(torch, operator.name, None) or getattr(peer, operator.name, None)
    if theirs is None:
        pytest.skip("PyTorch has no operator of this name")
    operands = [uniform(*domain, 3, 4, seed=seed) for seed, domain in enumerate(operator.domains)]
    numbers = {name: value * 1.25 for name, value in operator.numbers.items()}
    second = operator.name != "copysign"  # theirs has none
    assert_agree(partial(operator.function, **numbers), partial(theirs, **numbers), *operands, second=second)


# their sinh and cosh overflow too early in float32
@pytest.mark.parametrize("name", sorted({*ANY, *POSITIVE, "asin", "acos", "atanh", "acosh"} - {"sinh", "cosh"}))
def test_values_over_the_whole_range(name: str) -> None:
    for dtype in (np.float32, np.float64):
        x = np.concatenate([SPAN, SPECIAL]).astype(dtype)
        mine, yours = getattr(retrograd, name)(retrograd.tensor(x)), getattr(torch, name)(torch.tensor(x))
        fine = np.isfinite(yours.numpy())
        np.testing.assert_allclose(
            mine.numpy()[fine], yours.numpy()[fine], rtol=2e-6 if dtype == np.float32 else 1e-14, atol=1e-37
        )
        np.testing.assert_array_equal(mine.numpy()[~fine], yours.numpy()[~fine])


@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize("shapes", [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1, 5), (4, 1))], ids=str)
def test_binary(name: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    x, y = uniform(0.3, 5, *shapes[0]), uniform(0.5, 2, *shapes[1], seed=1)
    assert_agree(getattr(retrograd, name), getattr(torch, name), x, y)


@pytest.mark.parametrize("name", (*TWO, *TRUTH))
def test_values_of_special_numbers(name: str) -> None:
    a, b = (side.ravel().copy() for side in np.meshgrid(SPECIAL, SPECIAL))
    for dtype in (np.float32, np.float64):
        x, y = a.astype(dtype), b.astype(dtype)
        mine = getattr(retrograd, name)(retrograd.tensor(x), retrograd.tensor(y))
        assert_close(mine, getattr(torch, name)(torch.tensor(x), torch.tensor(y)), name)


def _valued(function: Any) -> Any:
    return lambda *operands: function(*operands, value=0.3)


def test_three_operands() -> None:
    x, y, z = normal(3, 4), normal(3, 4, seed=1), uniform(0.5, 2, 3, 4, seed=2)
    mask = normal(3, 4, seed=3) > 0
    assert_agree(_valued(retrograd.addcmul), _valued(torch.addcmul), x, y, z)
    assert_agree(_valued(retrograd.addcdiv), _valued(torch.addcdiv), x, y, z)
    assert_agree(retrograd.lerp, torch.lerp, x, y, z)
    assert_agree(retrograd.clamp, torch.clamp, x, y - 1, z)
    assert_agree(
        lambda a, b: retrograd.where(retrograd.tensor(mask), a, b),
        lambda a, b: torch.where(torch.tensor(mask), a, b),
        x,
        y,
    )


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name: str) -> None:
    arguments, x = ACTIVATIONS[name], distinct(4, 6) + 0.06
    tolerance = ROUNDED.get(name)
    assert_agree(
        lambda x: getattr(ours, name)(x, *arguments),
        lambda x: getattr(peer, name)(x, *arguments),
        x,
        tolerance=tolerance,
    )
    assert_agree(
        lambda x: getattr(ours, name)(x, *arguments),
        lambda x: getattr(peer, name)(x, *arguments),
        x.astype(np.float32),
        second=False,
        tolerance=1e-5,
    )


def test_activations_with_options() -> None:
    x = distinct(2, 3, 4) + 0.06
    assert_agree(lambda x: ours.gelu(x, "tanh"), lambda x: peer.gelu(x, approximate="tanh"), x)
    assert_agree(lambda x: ours.softplus(x, 2.0, 0.5), lambda x: peer.softplus(x, 2.0, 0.5), x)
    assert_agree(lambda x: ours.glu(x[:, :2], 1), lambda x: peer.glu(x[:, :2], 1), x)
    assert_agree(ours.hardsigmoid, peer.hardsigmoid, x, second=False, tolerance=1e-6)
    for weight in (uniform(0.1, 0.5, 3), uniform(0.1, 0.5, 1)):
        assert_agree(ours.prelu, peer.prelu, x, weight)


@pytest.mark.parametrize(
    "name", ["ReLU", "LeakyReLU", "ELU", "GELU", "Hardtanh", "Softplus", "Threshold", "PReLU", "GLU"]
)
def test_layers_print_as_theirs(name: str) -> None:
    arguments = {"Threshold": (0.1, 2), "PReLU": (3,)}.get(name, ())
    assert repr(getattr(retrograd.nn, name)(*arguments)) == repr(getattr(torch.nn, name)(*arguments))
