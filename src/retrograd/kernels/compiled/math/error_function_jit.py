# mypy: ignore-errors
"""erf, erfc and the normal distribution of a register; the polynomials are minimax fits (Remez).

erf and erfc are within 4 units in the last place.

erfc(a) = exp(-a^2) F(t) / (1 + 2 a), with F a polynomial of t = (a - c) / (a + c).
Source: M. Shepherd and J. Laframboise, "Chebyshev Approximation of (1 + 2x)exp(x^2)erfc x in 0 <= x < inf", 1981.
"""

from __future__ import annotations

from typing import Any

from ..machine.compiler import helper
from ..machine.simd import absolute, copy_sign, fma, select
from .elementary_jit import by_type, exp_negative, number
from .polynomial_jit import polynomial

# erf(x) / x - 1 in terms of x^2, up to 1
_near = polynomial(
    (0.1283791657, -0.3761262582, 0.1128358515, -0.02685381208, 0.005188327955, -0.0008010195956, 7.853868897e-5),
    (
        0.128379167095512566, -0.376126389031835195, 0.112837916709441847, -0.026866170643111471,
        0.00522397760611858198, -0.000854832592932214787, 0.000120552935771806942, -0.0000149247123081085722,
        1.64471316532949896e-6, -1.62063144272966457e-7, 1.37109834314744991e-8, -7.77947436260785824e-10,
    ),
)  # fmt: skip
# log(erfc(a)) in terms of a - 2 or a - 3, from 1 on
_far = polynomial(
    (-5.364941054, -4.418159358, -0.9237530702, -0.01648727084, 0.00354368374, -0.000712723823, 0.0001855719946),
    (
        -10.7203630419811308, -6.30375368900393521, -0.957394218804049642, -0.00741189178829880834,
        0.00135331049467533205, -0.000245692056484541241, 0.0000430816790444569023, -7.1158717310463979e-6,
        1.06909492347691692e-6, -1.3588631594830756e-7, 1.20759559259578859e-8, 9.18474718648578501e-10,
        -7.83907446419078262e-10, -6.31481964833685605e-11, -1.33009057379461397e-10, 2.74720672176935447e-11,
        2.44457400055486793e-11, 8.59152920986052516e-12, 1.03905921774878649e-12,
    ),
)  # fmt: skip
_middle = number(2.0, 3.0)
_one_from = number(4.0, 6.0)  # erf rounds to 1
_scaled = polynomial(
    (
        1.276978393, -0.09276398024, -0.1660314252, 0.1640553378, -0.05420417796, -0.00805980491, 0.00863095378,
        0.00131306577, -0.001228853071, -0.0003997111214,
    ),
    (
        1.23299511862555251, -0.139621116840562845, 0.0153796521026202741, 0.0680970542547321863,
        -0.101039066036330044, 0.0937328349969552086, -0.0663303658119125366, 0.0371675155601595635,
        -0.0161977340560236064, 0.00503196977444969719, -0.000757773353394775358, -0.000199255595172837678,
        0.000150622258981003742, -0.0000244029168745696167, -0.000011224744558386102, 5.71745117492611948e-6,
        3.01156187290627241e-7, -8.34743483306340519e-7, 6.29890272929025114e-8, 1.15171731985838425e-7,
        -7.88053349945367313e-9, -1.36623087506494711e-8, -1.79881425050827266e-9,
    ),
)  # fmt: skip
_center = number(2.0, 4.0)
_nothing_from = number(10.2, 27.3)  # erfc rounds to 0


@helper
def erf(x: Any) -> Any:
    """x + x P(x^2) up to 1, then 1 - exp(log(erfc(x)))"""
    a = absolute(x)
    s = select(a < 1.0, a * a, 1.0)
    b = select(a > _one_from(x), _one_from(x), select(a < 1.0, 1.0, a))
    far = 1.0 - exp_negative(_far(b - _middle(x)))
    return copy_sign(select(a < 1.0, fma(a, _near(s), a), far), x)


@helper
def erfc(x: Any) -> Any:
    a = absolute(x)
    small = a < 0.5
    z = select(small, x, 0.0)
    a = select(a > _nothing_from(x), _nothing_from(x), a)
    t = (a - _center(x)) / (a + _center(x))
    s = a * a
    lost = fma(a, a, -s)
    e = exp_negative(-s)
    y = fma(e, -lost, e) * (_scaled(t) / (a * 2.0 + 1.0))
    return select(small, 1.0 - fma(z, _near(z * z), z), select(x < 0.0, 2.0 - y, y))


# log(1 - normal(a)) in terms of a, up to 5.66, where 1 - normal(a) is 2^-27
_log_tail = polynomial(
    (
        -0.6931471739, -0.7978850393, -0.3183045087, -0.03635775349, 0.004825321596, -6.433065302e-06, -0.0001916436274,
        5.260681273e-05, -7.575757546e-06, 5.964282778e-07, -2.016384261e-08,
    ),
    (0.0,),
)  # fmt: skip


def _normal32(x: Any) -> Any:
    a = absolute(x)
    far = a > 5.66
    tail = select(far, 0.0, exp_negative(_log_tail(select(far, 5.66, a))))
    return select(x < 0.0, tail, 1.0 - tail)


def _normal64(x: Any) -> Any:
    return erf(x * 0.7071067811865476) * 0.5 + 0.5


# (1 + erf(x / sqrt(2))) / 2, the cumulative normal distribution; within 2^-24 in float32
normal = by_type(_normal32, _normal64)
