"""Quantizers of low-bit networks: step functions, and the pseudo-gradients declared for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ... import lowbit
from ...engine.tensor import Tensor
from ...lowbit.quantizer import Quantizer
from ..explanation import Case, Setting
from ..measurements import Arrays, Curve
from .function import jacobian_case
from .operator import Operator, arguments, call_text, switch
from .pointwise import SHAPE, between

__all__ = ["OPERATORS"]

_BITS = Setting("bits", 2, (1, 2, 3, 4, 8), "bits of each number")
_OF = Setting("of", "weights", ("weights", "activations"), "what is quantized; the formulas differ")
_SLOPE = "the declared slope, in place of the derivative, which is 0 nearly everywhere"


class _Row(NamedTuple):
    """One kind of quantizer.

    settings: its options; domain: of the example and of the curve
    """

    settings: tuple[Setting, ...] = ()
    domain: tuple[float, float] = (-1.5, 1.5)


_SHIFT = (Setting("bits", 3, (2, 3, 4, 5, 6), "a sign and the bits of the exponent"),)
_TABLE = {
    "Sign": _Row(
        (
            Setting(
                "gradient",
                "clipped",
                ("clipped", "identity", "polynomial", "swish"),
                "the pseudo-gradient that is declared",
            ),
        )
    ),
    "BinaryConnect": _Row(),
    "BWN": _Row(),
    "XNOR": _Row((_OF,)),
    "BiReal": _Row((_OF,)),
    "TWN": _Row(),
    "DeepShiftQ": _Row(
        (
            *_SHIFT,
            Setting("shifts", 1, (1, 2, 3), "powers of two that are added"),
            switch("positive_only", False, "only exponents of 0 and above: shifts to the left"),
        )
    ),
    "DeepShiftPS": _Row(_SHIFT, (-3.5, 0.5)),
    "Fixed": _Row(
        (
            Setting("integer_bits", 2, (1, 2, 3, 4), "the sign and the bits before the binary point"),
            Setting("fraction_bits", 1, (0, 1, 2, 3), "bits after the binary point"),
        ),
        (-2.5, 2.5),
    ),
    "DoReFa": _Row((_BITS, _OF)),
    "PACT": _Row((_BITS, Setting("alpha", 2.0, (0.5, 1.0, 2.0), "the largest result, which is learned")), (-1.0, 3.0)),
    "LSQ": _Row((Setting("bits", 2, (2, 3, 4, 8), "bits of each number"), _OF)),
    "Int8": _Row((_OF,)),
}


def _operator(name: str, row: _Row) -> Operator:
    kind = getattr(lowbit, name)
    settings = (*row.settings, *SHAPE)
    names = ("shift", "sign") if name == "DeepShiftPS" else ("x",)

    def example(options: Mapping[str, Any]) -> Arrays:
        shape = options["rows"], options["columns"]
        if len(names) == 1:
            return {"x": between(*row.domain, shape)}
        return {"shift": between(*row.domain, shape), "sign": between(-1.0, 1.0, shape, 2)}

    def case(inputs: Arrays, options: Mapping[str, Any]) -> Case:
        defaults = {setting.name: setting.value for setting in row.settings}
        given = arguments(name, options, defaults, settings)
        of_weights = given.pop("of", "weights") == "weights" and kind.for_weights
        quantizer = kind(**given)
        own = _own(quantizer, of_weights, inputs[names[0]])
        learned = {each: inputs.get(each, tensor.array) for each, tensor in own.items() if tensor.requires_grad}
        call = _call(quantizer, of_weights, own, [*names[1:], *learned])
        short = f"{call_text(f'lowbit.{name}', {}, given)}.{'weight' if of_weights else 'activation'}"
        program = f"{short}({_arguments(quantizer, of_weights, inputs, own, learned)})"
        about = {"x": "the weights" if of_weights else "the input", **_ABOUT}
        curve = Curve(lambda x: call(x, *_fixed_arguments(names, learned, x)), *row.domain)
        return jacobian_case(
            name,
            call,
            inputs | learned,
            f"{short}({', '.join(inputs)})",
            False,
            about,
            curve,
            _SLOPE,
            program,
            "from retrograd import lowbit\n",
        )

    return Operator(name, names, _LEARNED.get(name, ()), settings, example, case)


_LEARNED = {"PACT": ("alpha",), "LSQ": ("step",)}
_ABOUT = {
    "alpha": "the largest result, which is learned",
    "step": "the distance between two levels, which is learned",
    "shift": "the exponents before they are rounded, which are learned",
    "sign": "the signs before they are rounded, which are learned",
}


def _own(quantizer: Quantizer, of_weights: bool, x: np.ndarray) -> dict[str, Tensor]:
    """Return the tensors that a layer keeps for the quantizer, from its first x; none if they replace the weights."""
    if quantizer.replaces_weight:
        return {}
    if of_weights:
        return quantizer.own_of_weight(x)
    own = quantizer.own_of_activation(x.dtype)
    quantizer.observe(x, own)
    return own


def _call(quantizer: Quantizer, of_weights: bool, own: dict[str, Tensor], names: list[str]) -> Callable[..., Tensor]:
    """Return the quantizer as a function of its input and of its learned parameters."""

    def call(x: Tensor, *given: Tensor) -> Tensor:
        now = own | dict(zip(names, given, strict=True))
        if quantizer.replaces_weight:
            return quantizer.weight(None, (), {"shift": x} | now, False)
        if of_weights:
            return quantizer.weight(x, tuple(range(1, x.ndim)), now, False)
        return quantizer.activation(x, now)

    return call


def _arguments(quantizer: Quantizer, of_weights: bool, inputs: Arrays, own: dict[str, Tensor], learned: Arrays) -> str:
    """Return the arguments of the quantizer's method, as Python source."""
    names = [*learned, *inputs] if quantizer.replaces_weight else [*learned]
    kept = {each: each if each in learned else f"rg.tensor({tensor.array})" for each, tensor in own.items()}
    text = ", ".join(f"{each!r}: {value}" for each, value in (kept | {each: each for each in names}).items())
    if not of_weights:
        return f"x, {{{text}}}"
    x = "None" if quantizer.replaces_weight else "x"
    return f"{x}, {tuple(range(1, next(iter(inputs.values())).ndim))}, {{{text}}}, False"


def _fixed_arguments(names: tuple[str, ...], learned: Arrays, x: Tensor) -> list[Tensor]:
    """Return the fixed arguments for the curve of the first input: a sign of 1, if any, and the learned parameters."""
    others = [Tensor(np.ones_like(x.array)) for _ in names[1:]]
    return others + [Tensor(array.astype(x.array.dtype)) for array in learned.values()]


OPERATORS = {name: _operator(name, row) for name, row in _TABLE.items()}
