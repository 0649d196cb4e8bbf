"""Defects of DeepShift's code, and problems that its users reported: one test each.

The defects are in that project's Functions, layers and issues; each test states the property of ``retrograd.lowbit``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import naive
import retrograd
from retrograd import Tensor, lowbit, nn, optim
from retrograd.interop import load_safetensors, save_safetensors


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


SHIFTS: list[Any] = [lowbit.DeepShiftQ, lowbit.DeepShiftPS]
KINDS: list[Any] = [
    (lambda **q: lowbit.Linear(4, 3, **q), (5, 4)),
    (lambda **q: lowbit.Conv1d(4, 3, 2, **q), (2, 4, 6)),
    (lambda **q: lowbit.Conv2d(4, 3, 2, **q), (2, 4, 5, 6)),
    (lambda **q: lowbit.Conv3d(4, 3, 2, **q), (2, 4, 3, 4, 3)),
    (lambda **q: lowbit.ConvTranspose2d(4, 3, 2, **q), (2, 4, 3, 4)),
]


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_every_function_can_train(kind: int, shift: Any) -> None:
    """In DeepShift, backward returned fewer gradients than forward took arguments; bias=None was dereferenced."""
    make, shape = KINDS[kind]
    for bias in (True, False):
        layer = make(weight=shift(), activation=lowbit.Fixed(), bias=bias)
        optimizer = optim.SGD(layer.parameters(), lr=0.1)
        before = [p.array.copy() for p in layer.parameters()]
        (layer(Tensor(numbers(*shape).astype(np.float32))) ** 2.0).sum().backward()
        optimizer.step()
        for parameter, old in zip(layer.parameters(), before, strict=True):
            assert np.isfinite(parameter.array).all() and not np.array_equal(parameter.array, old)


@pytest.mark.parametrize("shift", SHIFTS)
def test_options_reach_the_arithmetic(shift: Any) -> None:
    """DeepShift shifted arguments by one (rounding=16), misspelled a default, and read a flag as a string."""
    w = Tensor(numbers(40, 30))
    outcomes: list[np.ndarray] = []
    options: tuple[dict[str, Any], ...] = (
        {},
        {"bits": 3},
        {"shifts": 2},
        {"positive_only": True},
        {"rounding": "stochastic"},
    )
    for each in options:
        quantizer = shift(**each)
        own = quantizer.own_of_weight(w.array)
        outcomes.append(quantizer.weight(w, (1,), own, True).array)
    for place, one in enumerate(outcomes):
        for other in outcomes[:place]:
            assert not np.array_equal(one, other)
    for wrong in (16, False, "determinstic"):
        with pytest.raises(ValueError, match=r"rounding=.* must be one of 'deterministic', 'stochastic'"):
            shift(rounding=wrong)


def test_padding_of_the_axes_dilation_and_groups() -> None:
    """DeepShift's kernel padded (H, H, W, W) instead of (W, W, H, H), and ignored dilation and groups."""
    layer = lowbit.Conv2d(
        4, 6, (2, 3), padding=(2, 0), dilation=(1, 2), groups=2, weight=lowbit.DeepShiftQ(), dtype=np.float64
    )
    x = numbers(2, 4, 3, 8)
    expected = naive.conv(x, layer.quantized().array, layer.bias.array, (1, 1), ((2, 2), (0, 0)), (1, 2), 2)
    np.testing.assert_allclose(layer(Tensor(x)).array, expected, 1e-12, 1e-12)


def test_a_sign_of_zero_is_no_plus() -> None:
    """DeepShift's kernel treated weights with sign 0 as positive."""
    layer = lowbit.Linear(3, 1, bias=False, weight=lowbit.DeepShiftPS())
    layer.weight_shift.array[...], layer.weight_sign.array[...] = 0.0, [[0.4, -0.4, 0.0]]
    assert layer(Tensor(np.ones((1, 3), np.float32))).item() == 0


def test_one_integer_bit() -> None:
    """DeepShift returned sign(x) - 1; the correct range is [-1, 1)."""
    x = Tensor(np.array([-2.0, -1.0, -0.3, 0.0, 0.3, 2.0]))
    y = lowbit.Fixed(integer_bits=1, fraction_bits=2).activation(x, {}).array
    np.testing.assert_array_equal(y, [-1, -1, -0.5, 0, 0.25, 0.75])


@pytest.mark.parametrize("rounding", ["deterministic", "stochastic"])
@pytest.mark.parametrize("shifts", [1, 2, 4])
@pytest.mark.parametrize("shift", SHIFTS)
def test_weights_that_are_zero_or_powers_of_two(shift: Any, shifts: int, rounding: str) -> None:
    """DeepShift could not represent 0: its logarithm was NaN, also in the second shift of a zero remainder."""
    w = np.array([0.0, -0.0, 1.0, -0.5, 2.0**-14, 1e-30, -1e-30, 0.75])
    quantizer = shift(shifts=shifts, rounding=rounding)
    own = quantizer.own_of_weight(w)
    y = quantizer.weight(Tensor(w), (0,), own, False).array
    tiny = 0.0 if quantizer.has_zero else 2.0**-15
    np.testing.assert_array_equal(y[:-1], [tiny, tiny, 1, -0.5, 2.0**-14, tiny, -tiny])
    assert y[-1] == (0.75 if shifts > 1 else 1.0)
    assert np.isfinite(quantizer.weight(Tensor(w), (0,), own, True).array).all()


def test_inputs_of_any_number_of_axes_and_a_rounded_bias() -> None:
    """DeepShift's linear layer accepted only two axes and did not round its bias."""
    layer = lowbit.Linear(4, 3, weight=lowbit.DeepShiftQ(), activation=lowbit.Fixed(4, 2), dtype=np.float64)
    layer.bias.array[...] = [0.3, -0.3, 100.0]
    for shape in ((4,), (2, 4), (2, 3, 5, 4)):
        x = numbers(*shape)
        expected = (np.floor(4 * x) / 4).clip(-8, 7.75) @ layer.quantized().array.T + [0.25, -0.5, 7.75]
        np.testing.assert_allclose(layer(Tensor(x)).array, expected, 1e-12, 1e-12)


@pytest.mark.parametrize("shift", SHIFTS)
def test_forward_modifies_nothing(shift: Any) -> None:
    """DeepShift's forward clamped the weights and rounded the bias and the input in place."""
    layer = lowbit.Linear(4, 3, weight=shift(), activation=lowbit.Fixed(2, 1))
    for parameter in layer.parameters():
        parameter.array[...] = numbers(*parameter.shape) * 3
    x = numbers(5, 4).astype(np.float32) * 3
    before = [x.copy(), *(p.array.copy() for p in layer.parameters())]
    layer(Tensor(x, requires_grad=True)).sum().backward()
    for now, old in zip([x, *(p.array for p in layer.parameters())], before, strict=True):
        np.testing.assert_array_equal(now, old)


@pytest.mark.parametrize("shift", SHIFTS)
def test_a_saved_model_answers_as_before(shift: Any, tmp_path: Any) -> None:
    """In DeepShift, the accuracy fell from 98 % to 10 % after saving and loading (issue 13)."""

    def make() -> nn.Sequential:
        return nn.Sequential(
            lowbit.Conv2d(1, 3, 3, weight=shift(), activation=lowbit.Int8()),
            nn.Flatten(),
            lowbit.Linear(27, 4, weight=shift(shifts=2), activation=lowbit.LSQ(4)),
        )

    model, x = make(), Tensor(numbers(6, 1, 5, 5).astype(np.float32))
    model(x)
    y = model.eval()(x).array
    save_safetensors(model.state_dict(), tmp_path / "model.safetensors")
    other = make().eval()
    other.load_state_dict(load_safetensors(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(other(x).array, y)


def test_shifts_to_the_left() -> None:
    """Users of DeepShift requested exponents from 0 upward (issue 17)."""
    for shift in SHIFTS:
        quantizer = shift(bits=3, positive_only=True)
        assert quantizer.exponents == (0, 3 - quantizer.has_zero)
        w = np.array([0.9, 3.1, -4.2, 900.0])
        y = quantizer.weight(Tensor(w), (0,), quantizer.own_of_weight(w), True).array
        np.testing.assert_array_equal(y, [1, 4, -4, 2.0 ** quantizer.exponents[1]])


def test_wide_activations_are_exact_in_float64() -> None:
    """16 bits before and 16 after the binary point; DeepShift lost them in half precision (issue 15)."""
    retrograd.manual_seed(0)
    x = np.array([12345.000030517578125, -32768.5, 40000.0, 2.0**-16, 2.0**-17])
    y = lowbit.Fixed().activation(Tensor(x), {}).array
    np.testing.assert_array_equal(y, [12345 + 2.0**-15, -32768, 32768 - 2.0**-16, 2.0**-16, 0])
