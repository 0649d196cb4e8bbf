"""Quantizers of low-bit networks, and the gradients declared for them.

The derivative of a step function is 0 almost everywhere. Such a network is trained with a pseudo-gradient: the gradient
of another function, declared instead. A straight-through estimator passes g unchanged wherever x is not clipped.

Every sign here is binary: +1 at 0 and at -0. NaN propagates.
"""

from __future__ import annotations

from .arithmetic import constant_grad
from .primitive import Operand, absolute, exp2, floor, log2, nearest, sigmoid, sign, tanh, where
from .registry import formula, gradients, same_grad

_LOG_2 = 0.6931471805599453


# ------------------------------------------------------------------------------------------------------------ one bit


@formula
def binary_sign(x: Operand) -> Operand:
    """1 where x >= 0, also at -0, and -1 below; NaN propagates"""
    return where(x < 0.0, -1.0, where(x >= 0.0, 1.0, x))


@formula
def clipped_grad(g: Operand, x: Operand) -> Operand:
    """g where -1 <= x <= 1, 0 elsewhere: the gradient of hardtanh

    Source: I. Hubara et al., "Binarized Neural Networks", 2016 (arXiv:1602.02830).
    """
    return where(absolute(x) <= 1.0, g, 0.0)


@formula
def polynomial_grad(g: Operand, x: Operand) -> Operand:
    """g (2 - 2 |x|) where -1 < x < 1, 0 elsewhere: the gradient of 2 x - x |x|, which is closer to the sign

    Source: Z. Liu et al., "Bi-Real Net", 2018 (arXiv:1808.00278).
    """
    a = absolute(x)
    return where(a < 1.0, g * (2.0 - 2.0 * where(a < 1.0, a, 1.0)), 0.0)


@formula
def swish_sign(x: Operand, beta: float) -> Operand:
    """binary_sign(x); beta is a parameter of its gradient"""
    return binary_sign(x)


@formula
def swish_sign_grad(g: Operand, x: Operand, beta: float) -> Operand:
    """g beta (2 - z tanh(z / 2)) / (1 + cosh(z)) with z = beta x

    That is the gradient of 2 s (1 + z (1 - s)) - 1 with s = sigmoid(z). It is the same for -z; s here is
    sigmoid(-|z|), so that tanh(|z| / 2) = 1 - 2 s and 1 / (1 + cosh(z)) = 2 s (1 - s).

    Source: S. Darabi et al., "BNN+: Improved Binary Network Training", 2018 (arXiv:1812.11800).
    """
    z = absolute(x * beta)
    s = sigmoid(-z)
    return g * (2.0 * beta * s * (1.0 - s) * (2.0 - z * (1.0 - 2.0 * s)))


@formula
def scaled_sign(x: Operand, y: Operand) -> Operand:
    """y binary_sign(x); y is a scale"""
    return where(x < 0.0, -y, where(x >= 0.0, y, x))


@formula
def scaled_sign_grad(x: Operand, g: Operand, y: Operand) -> Operand:
    """g y where -1 <= x <= 1, 0 elsewhere: the scale is constant"""
    return where(absolute(x) <= 1.0, g * y, 0.0)


@formula
def mean_scaled_sign_grad(x: Operand, g: Operand, y: Operand, z: Operand) -> Operand:
    """``scaled_sign_grad``, and the gradient through y = mean |x|: z sign(x), z the mean of g binary_sign(x)

    Source: M. Rastegari et al., "XNOR-Net", 2016 (arXiv:1603.05279), whose equation has g instead of z.
    """
    return scaled_sign_grad(x, g, y) + z * sign(x)


@formula
def random_sign(x: Operand, y: Operand) -> Operand:
    """1 with probability (x + 1) / 2, clipped to [0, 1], else -1; y is uniform in [0, 1); NaN propagates

    Source: M. Courbariaux et al., "BinaryConnect", 2015 (arXiv:1511.00363).
    """
    return -binary_sign(y - (x * 0.5 + 0.5))


def random_sign_grad_x(g: Operand, x: Operand) -> Operand:
    """``clipped_grad``"""
    return clipped_grad(g, x)


gradients("sign_identity", same_grad)
gradients("sign_clipped", clipped_grad)
gradients("sign_polynomial", polynomial_grad)
gradients("random_sign", random_sign_grad_x, constant_grad)


# ------------------------------------------------------------------------------------------------------- three values


@formula
def ternary(x: Operand, y: Operand, z: Operand) -> Operand:
    """z where x > y, -z where x < -y, 0 between; y is a threshold, z a scale; NaN propagates

    The gradient to x is g, that to y and z is 0.

    Source: F. Li et al., "Ternary Weight Networks", 2016 (arXiv:1605.04711).
    """
    return where(x > y, z, where(x < -y, -z, where(x == x, 0.0, x)))


gradients("ternary", same_grad, constant_grad, constant_grad)


# ------------------------------------------------------------------------------------------------------ powers of two


def _power(x: Operand, exponent: Operand, low: float, high: float) -> Operand:
    """2**exponent, clipped to [2**low, 2**high], with the sign of x; 2**low where x is 0"""
    p = where(exponent < low, low, where(exponent > high, high, exponent))
    size = exp2(where(x == 0.0, low, p))
    return where(x < 0.0, -size, size)


def _log2(x: Operand) -> Operand:
    """log2(|x|), and 0 at 0 instead of -inf"""
    return log2(where(x == 0.0, 1.0, absolute(x)))


@formula
def power_of_two(x: Operand, low: float, high: float) -> Operand:
    """The power of two nearest to |x| on a logarithmic scale, from 2**low to 2**high, with the sign of x

    The exponent is log2(|x|) rounded to the nearest integer, halves to even. Smaller |x|, and 0, become 2**low: zero is
    not a level. NaN propagates. The gradient is g.

    Source: M. Elhoushi et al., "DeepShift: Towards Multiplication-Less Neural Networks", 2019 (arXiv:1905.13298).
    """
    return _power(x, nearest(_log2(x)), low, high)


@formula
def random_power_of_two(x: Operand, y: Operand, low: float, high: float) -> Operand:
    """``power_of_two`` with stochastic rounding: floor(log2(|x|)), or one more with the fraction as its probability

    y is uniform in [0, 1). Powers of two do not change. The gradient to x is g.
    """
    return _power(x, random_round(_log2(x), y), low, high)


@formula
def random_round(x: Operand, y: Operand) -> Operand:
    """floor(x), or one more with the probability x - floor(x); y is uniform in [0, 1); the gradient to x is g"""
    n = floor(x)
    return where(y < x - n, n + 1.0, n)


@formula
def power_of_two_or_zero(x: Operand, low: float, high: float) -> Operand:
    """``power_of_two``, and 0 where the exponent would be below low; the gradient is g"""
    return where(x == 0.0, 0.0, where(nearest(_log2(x)) < low, 0.0, power_of_two(x, low, high)))


@formula
def random_power_of_two_or_zero(x: Operand, y: Operand, low: float, high: float) -> Operand:
    """``random_power_of_two``, and 0 where the exponent would be below low; the gradient to x is g"""
    p = random_round(_log2(x), y)
    return where(x == 0.0, 0.0, where(p < low, 0.0, _power(x, p, low, high)))


@formula
def shift_sign(x: Operand, y: Operand, low: float, high: float) -> Operand:
    """2**p s with p the rounded x, clipped to [low, high], and s the sign of the rounded y: -1, 0 or 1

    Halves are rounded to even: y = 0.5 gives s = 0.

    Source: DeepShift-PS in M. Elhoushi et al., "DeepShift", 2019 (arXiv:1905.13298).
    """
    p = nearest(x)
    return exp2(where(p < low, low, where(p > high, high, p))) * sign(nearest(y))


def shift_sign_grad_x(g: Operand, x: Operand, y: Operand, low: float, high: float) -> Operand:
    """g log(2) shift_sign(x, y): the gradient passes through rounding unchanged"""
    return g * (_LOG_2 * shift_sign(x, y, low, high))


gradients("power_of_two", same_grad)
gradients("random_power_of_two", same_grad, constant_grad)
gradients("power_of_two_or_zero", same_grad)
gradients("random_power_of_two_or_zero", same_grad, constant_grad)
gradients("random_round", same_grad, constant_grad)
gradients("shift_sign", shift_sign_grad_x, same_grad)  # the sign's gradient is not multiplied by 2**p, as in the source


# ------------------------------------------------------------------------------------------------------ uniform levels


@formula
def fixed_point(x: Operand, scale: float, low: float, high: float) -> Operand:
    """floor(scale x) / scale, clipped to [low, high]

    Source: M. Elhoushi et al., "DeepShift", 2019 (arXiv:1905.13298).
    """
    y = floor(x * scale) / scale
    y = where(y < low, low, y)
    return where(y > high, high, y)


@formula
def fixed_point_grad(g: Operand, x: Operand, scale: float, low: float, high: float) -> Operand:
    """g where x was not clipped, 0 elsewhere"""
    y = floor(x * scale) / scale
    return where((y >= low) & (y <= high), g, 0.0)


@formula
def uniform(x: Operand, y: Operand, low: float, high: float) -> Operand:
    """y q with q = x / y rounded to an integer, halves to even, and clipped to [low, high]; the step y is not learned

    Source: B. Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
    Inference", 2017 (arXiv:1712.05877).
    """
    q = nearest(x / y)
    q = where(q < low, low, q)
    return where(q > high, high, q) * y


@formula
def affine_levels(x: Operand, scale: float, inverse: float, low: float, high: float) -> Operand:
    """``uniform`` with a scalar step: scale times inverse x, rounded and clipped; inverse is 1 / scale"""
    q = nearest(x * inverse)
    q = where(q < low, low, q)
    return where(q > high, high, q) * scale


@formula
def affine_levels_grad(g: Operand, x: Operand, scale: float, inverse: float, low: float, high: float) -> Operand:
    """g where q was not clipped, 0 elsewhere"""
    q = nearest(x * inverse)
    return where((q >= low) & (q <= high), g, 0.0)


@formula
def learned_step(x: Operand, y: Operand, low: float, high: float, slope: float) -> Operand:
    """``uniform``, whose step y is learned; slope multiplies its gradient

    Source: S. K. Esser et al., "Learned Step Size Quantization", 2019 (arXiv:1902.08153).
    """
    return uniform(x, y, low, high)


def learned_step_grad_x(g: Operand, x: Operand, y: Operand, low: float, high: float) -> Operand:
    """g where low < x / y < high, 0 elsewhere"""
    v = x / y
    return where((v > low) & (v < high), g, 0.0)


def learned_step_grad_y(g: Operand, x: Operand, y: Operand, low: float, high: float, slope: float) -> Operand:
    """slope g times: low where x / y <= low, high where x / y >= high, else the rounding error q - x / y"""
    v = x / y
    return g * slope * where(v <= low, low, where(v >= high, high, nearest(v) - v))


@formula
def unit_levels(x: Operand, levels: float) -> Operand:
    """x clipped to [0, 1] and rounded to multiples of 1 / levels, halves to even

    Source: S. Zhou et al., "DoReFa-Net", 2016 (arXiv:1606.06160).
    """
    y = where(x < 0.0, 0.0, where(x > 1.0, 1.0, x))
    return nearest(y * levels) / levels


@formula
def unit_levels_grad(g: Operand, x: Operand) -> Operand:
    """g where 0 <= x <= 1, 0 elsewhere"""
    return where((x >= 0.0) & (x <= 1.0), g, 0.0)


@formula
def tanh_levels(x: Operand, y: Operand, levels: float) -> Operand:
    """2 unit_levels(tanh(x) / (2 y) + 1/2) - 1; y is the largest |tanh(x)|

    Source: S. Zhou et al., "DoReFa-Net", 2016 (arXiv:1606.06160).
    """
    return 2.0 * (nearest((tanh(x) / (2.0 * y) + 0.5) * levels) / levels) - 1.0


def tanh_levels_grad_x(g: Operand, x: Operand, y: Operand) -> Operand:
    """g (1 - tanh(x)**2) / y: the gradient passes through rounding unchanged, y is constant"""
    t = tanh(x)
    return g * ((1.0 - t * t) / y)


@formula
def pact(x: Operand, y: Operand, levels: float) -> Operand:
    """x clipped to [0, y] and rounded to multiples of y / levels; the limit y is learned

    Source: J. Choi et al., "PACT: Parameterized Clipping Activation", 2018 (arXiv:1805.06085).
    """
    z = where(x < 0.0, 0.0, where(x > y, y, x))
    return nearest(z * (levels / y)) * (y / levels)


def pact_grad_x(g: Operand, x: Operand, y: Operand) -> Operand:
    """g where 0 <= x < y, 0 elsewhere"""
    return where((x >= 0.0) & (x < y), g, 0.0)


def pact_grad_y(g: Operand, x: Operand, y: Operand) -> Operand:
    """g where x >= y, 0 elsewhere"""
    return where(x >= y, g, 0.0)


gradients("uniform", same_grad, constant_grad)  # for weights: their step is so large that nothing is clipped
gradients("learned_step", learned_step_grad_x, learned_step_grad_y)
gradients("tanh_levels", tanh_levels_grad_x, constant_grad)
gradients("pact", pact_grad_x, pact_grad_y)
