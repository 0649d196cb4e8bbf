"""Attention: each result is a mean of the values, weighted by how well a query fits the keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...nn import functional as F  # noqa: N812  PyTorch's name
from ..explanation import Array, Case, Setting
from ..measure import Arrays
from .equations import Equations
from .example import VALUES, draw
from .mistakes import ATTENTION
from .operator import Operator, arguments, call_text, differing, leading, switch
from .softmax import softmax_of

__all__ = ["OPERATORS"]

_NAME = "scaled_dot_product_attention"
_SETTINGS = (
    Setting("batch", 1, (1, 2), "samples, or heads"),
    Setting("queries", 3, (1, 2, 3, 4), "positions that ask"),
    Setting("keys", 3, (1, 2, 3, 4), "positions that are asked"),
    Setting("features", 2, (1, 2, 4), "numbers of each query and key"),
    switch("is_causal", False, "a query sees only the keys up to its own position"),
    VALUES,
)
_TEXTS = (
    "s = scale * q * k",
    "y = p * v",
    "gv = p * gy",
    "gp = gy * v",
    "dot = gp * p",
    "gs = p * gp - p * dot",
    "gq = scale * gs * k",
    "gk = scale * gs * q",
)


def _example(options: Mapping[str, Any]) -> Arrays:
    N, L, S, E, values = (options[name] for name in ("batch", "queries", "keys", "features", "values"))
    return {"q": draw((N, L, E), values, 1), "k": draw((N, S, E), values, 2), "v": draw((N, S, E), values, 3)}


def _case(inputs: Arrays, options: Mapping[str, Any]) -> Case:
    q, k, v = (inputs[each] for each in "qkv")
    defaults = {"is_causal": False, "scale": None}
    given = arguments(_NAME, options, defaults, _SETTINGS)
    if not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        raise ValueError(f"explain: {_NAME} is taken apart for equal leading axes; these are "
                         f"{q.shape[:-2]}, {k.shape[:-2]} and {v.shape[:-2]}")  # fmt: skip
    scale = 1 / np.sqrt(q.shape[-1]) if given["scale"] is None else given["scale"]
    lead = leading(q.ndim - 2)
    axes = {"q": f"{lead}le", "k": f"{lead}se", "v": f"{lead}sd", "s": f"{lead}ls", "y": f"{lead}ld", "dot": f"{lead}l"}
    axes["p"] = axes["s"]
    axes |= {f"g{each}": axes[each] for each in "qkvspy"}
    extents = dict(zip(f"{lead}le", q.shape, strict=True)) | {"s": k.shape[-2], "d": v.shape[-1]}
    equations = Equations(_TEXTS, axes, extents, {"scale": float(scale)})

    def inner(arrays: Arrays) -> dict[str, Array]:
        q, k, v, gy = (arrays[each].astype(np.float64) for each in ("q", "k", "v", "gy"))
        s = scale * q @ k.swapaxes(-1, -2)
        seen = np.tri(*s.shape[-2:]) > 0 if given["is_causal"] else np.ones(s.shape[-2:], bool)
        p, _, _ = softmax_of(np.where(seen, s, -np.inf), -1)
        gp = gy @ v.swapaxes(-1, -2)
        dot = (gp * p).sum(-1)
        found = {
            "s": (s, "the scores: how well each query fits each key" + ", before the mask" * given["is_causal"]),
            "p": (p, "softmax of the scores of each query: how much it takes of each value"),
            "gp": (gp, "how much the loss grows with each entry of p"),
            "dot": (dot, "the sum of gp · p: what all scores of a query lose together, since p adds up to 1"),
            "gs": (p * (gp - dot[..., np.newaxis]), "how much the loss grows with each score"),
        }
        return {each: Array(values, axes[each], "inner", about) for each, (values, about) in found.items()}

    about = {"q": "the queries", "k": "the keys", "v": "the values"}
    return Case(
        name=_NAME,
        call=lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **given),
        inputs={each: Array(inputs[each], axes[each], "input", about[each]) for each in "qkv"},
        output=(axes["y"], "the result: for each query a mean of the values"),
        sums=lambda arrays: equations.sums,
        formulas=equations.formulas,
        source=call_text(f"F.{_NAME}", inputs, differing(given, defaults)),
        inner=inner,
        faults=ATTENTION,
    )


OPERATORS = {_NAME: Operator(_NAME, ("q", "k", "v"), (), _SETTINGS, _example, _case)}
