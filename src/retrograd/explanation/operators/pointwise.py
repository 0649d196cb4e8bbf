"""Elementwise functions: gx is gy times the slope, a formula in the backward."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from ...engine.backward_rules import override_backward
from ...engine.operator import OPERATORS as ALL
from ...engine.tensor import Tensor
from ...nn import functional as F  # noqa: N812  PyTorch's name
from ...ops import special
from ...ops.pointwise import arithmetic, exponential, piecewise, rounding
from ...rules import spike
from ..explanation import Case, Setting
from ..measurements import Arrays, Curve
from .function import jacobian_case
from .operator import Operator, arguments, call_text

__all__ = ["OPERATORS", "SHAPE", "between"]

SHAPE = (
    Setting("rows", 3, (1, 2, 3, 4), "rows of the input"),
    Setting("columns", 4, (1, 2, 3, 4, 6), "columns of the input"),
)
_WIDE, _POSITIVE, _UNIT = (-4.0, 4.0), (0.25, 4.0), (-0.875, 0.875)


class _Row(NamedTuple):
    """A function of x and of numbers.

    domain: of the example and of the curve
    rules: names of the backwards that can be chosen; the first is the function's own
    """

    function: Any
    settings: tuple[Setting, ...] = ()
    domain: tuple[float, float] = _WIDE
    rules: tuple[str, ...] = ()
    exact: bool = True


def between(low: float, high: float, shape: tuple[int, ...], seed: int = 1) -> np.ndarray:
    """Return float32 numbers between low and high: odd multiples of 1/32, which avoid kinks at round numbers."""
    sixteenths = np.random.default_rng(seed).integers(round(low * 16), round(high * 16), shape)
    return ((sixteenths + 0.5) / 16).astype(np.float32)


def _number(name: str, value: float, choices: tuple[float, ...], about: str) -> Setting:
    return Setting(name, value, choices, about)


def _around(value: float) -> tuple[float, ...]:
    return (value / 2, value, 2 * value) if value else (-1.0, 0.0, 1.0)


_ALPHA = _number("alpha", 1.0, (0.25, 0.5, 1.0, 2.0), "minus the limit for x toward −∞")
_LAMBD = _number("lambd", 0.5, (0.0, 0.25, 0.5, 1.0, 2.0), "half the width of the interval that becomes 0")
_STRAIGHT = ("its own", "identity", "clipped", "polynomial", "swish_sign")
_TABLE = {
    **{
        name: _Row(getattr(F, name))
        for name in (
            "relu",
            "relu6",
            "silu",
            "mish",
            "softsign",
            "tanhshrink",
            "logsigmoid",
            "selu",
            "hardsigmoid",
            "hardswish",
        )
    },
    "gelu": _Row(
        F.gelu, (Setting("approximate", "none", ("none", "tanh"), "computed with erf, or approximated with tanh"),)
    ),
    "softplus": _Row(
        F.softplus,
        (
            _number("beta", 1.0, (0.5, 1.0, 2.0, 4.0), "how sharp the bend is"),
            _number("threshold", 20.0, (1.0, 2.0, 20.0), "beta x above which y is x"),
        ),
    ),
    "elu": _Row(F.elu, (_ALPHA,)),
    "celu": _Row(F.celu, (_ALPHA,)),
    "leaky_relu": _Row(
        F.leaky_relu, (_number("negative_slope", 0.01, (0.01, 0.1, 0.25, 1.0), "the slope for negative x"),)
    ),
    "rrelu": _Row(F.rrelu),
    "hardshrink": _Row(F.hardshrink, (_LAMBD,)),
    "softshrink": _Row(F.softshrink, (_LAMBD,)),
    "hardtanh": _Row(
        F.hardtanh,
        (
            _number("min_val", -1.0, (-3.0, -2.0, -1.0, 0.0), "the smallest result"),
            _number("max_val", 1.0, (1.0, 2.0, 3.0), "the largest result"),
        ),
    ),
    "threshold": _Row(
        F.threshold,
        (
            _number("threshold", 1.0, (-1.0, 0.0, 1.0), "the largest x for which the result is value"),
            _number("value", 0.0, (-1.0, 0.0, 2.0), "the result up to the threshold"),
        ),
    ),
    "abs": _Row(rounding.abs),
    "sign": _Row(rounding.sign, rules=_STRAIGHT),
    "ceil": _Row(rounding.ceil, rules=_STRAIGHT),
    "floor": _Row(rounding.floor, rules=_STRAIGHT),
    "trunc": _Row(rounding.trunc, rules=_STRAIGHT),
    "round": _Row(rounding.round, (Setting("decimals", 0, (0, 1), "digits after the decimal point"),), rules=_STRAIGHT),
    "frac": _Row(rounding.frac),
    "square": _Row(exponential.square),
    "pow": _Row(exponential.pow, (_number("exponent", 3.0, (-1.0, 0.5, 1.5, 2.0, 3.0), "the exponent"),), _POSITIVE),
    "neg": _Row(arithmetic.neg),
    "clamp": _Row(
        piecewise.clamp,
        (
            _number("min", -1.0, (-3.0, -2.0, -1.0, 0.0), "the smallest result"),
            _number("max", 2.0, (1.0, 2.0, 3.0), "the largest result"),
        ),
    ),
    "nan_to_num": _Row(piecewise.nan_to_num),
    "logit": _Row(
        exponential.logit, (_number("eps", 0.125, (0.125, 0.25), "x is clamped to [eps, 1 - eps]"),), (0.0, 1.0)
    ),
    "lgamma": _Row(special.lgamma, domain=_POSITIVE),
    "digamma": _Row(special.digamma, domain=_POSITIVE),
    "erfinv": _Row(special.erfinv, domain=_UNIT),
    "i0": _Row(special.i0),
    "spike": _Row(spike, rules=("fast_sigmoid", "arctan", "triangle"), exact=False),
    **{
        each.name: _Row(
            each.function,
            tuple(_number(name, value, _around(value), f"{name}, a number") for name, value in each.numbers.items()),
            _WIDE if each.domains == ((-2.0, 2.0),) else each.domains[0],
        )
        for each in ALL
        if len(each.domains) == 1
    },
}


def _operator(name: str, row: _Row) -> Operator:
    settings = row.settings
    if row.rules:
        about = "the backward: the function's own, or a rule that replaces it"
        settings = (*settings, Setting("rule", row.rules[0], row.rules, about))
    settings = (*settings, *SHAPE)

    def example(options: Mapping[str, Any]) -> Arrays:
        return {"x": between(*row.domain, (options["rows"], options["columns"]))}

    def case(inputs: Arrays, options: Mapping[str, Any]) -> Case:
        return _case(name, row, settings, inputs, options)

    return Operator(name, ("x",), (), settings, example, case)


def _case(name: str, row: _Row, settings: tuple[Setting, ...], inputs: Arrays, options: Mapping[str, Any]) -> Case:
    defaults: dict[str, Any] = {setting.name: setting.value for setting in row.settings}
    given = arguments(name, options, defaults | ({"rule": row.rules[0]} if row.rules else {}), settings)
    rule = given.pop("rule", None)
    replaced = rule if rule is not None and rule != row.rules[0] else None

    def call(x: Tensor) -> Tensor:
        with override_backward(row.function, replaced) if replaced and x.requires_grad else nullcontext():
            return row.function(x, **given)

    parameters = inspect.signature(row.function).parameters
    named = {key: value for key, value in given.items() if value != parameters[key].default}
    place = "F" if getattr(F, name, None) is row.function else "rg.rules" if row.function is spike else "rg"
    source = call_text(f"{place}.{name}", inputs, named)
    if replaced:
        source = f"rg.override_backward({place}.{name}, {replaced!r})(lambda x: {source})(x)"
    exact = row.exact and not replaced
    slope = (
        "the factor by which the rule multiplies gy, in place of the derivative"
        if not exact
        else "the derivative of y at x"
    )
    about = {"x": "the input"}
    curve = Curve(call, *_drawn(row.domain, inputs["x"]))
    return jacobian_case(name, call, inputs, source, exact, about, curve, slope, pointwise=True)


def _drawn(domain: tuple[float, float], x: np.ndarray) -> tuple[float, float]:
    """Return the range of the curve; it includes x if the function is defined everywhere."""
    if domain != _WIDE or not x.size or not np.isfinite(x).all():
        return domain
    return min(domain[0], float(x.min())), max(domain[1], float(x.max()))


OPERATORS = {name: _operator(name, row) for name, row in _TABLE.items()}
