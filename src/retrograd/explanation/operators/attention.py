"""Attention: each result is a mean of the values, weighted by how well a query fits the keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...nn import functional as F  # noqa: N812  PyTorch's name
from ..explanation import Array, Case, Setting
from ..measurements import Arrays
from ..products import Equations
from .gradient_bugs import ATTENTION
from .operator import VALUES, Operator, arguments, call_text, differing, draw, leading, switch
from .softmax import softmax_of

__all__ = ["OPERATORS"]

_NAME = "scaled_dot_product_attention"
_SETTINGS = (
    Setting("batch", 1, (1, 2), "samples, or heads"),
    Setting("queries", 3, (1, 2, 3, 4), "positions of the queries"),
    Setting("keys", 3, (1, 2, 3, 4), "positions of the keys and values"),
    Setting("features", 2, (1, 2, 4), "numbers in each query and key"),
    switch("is_causal", False, "a query sees only the keys up to its own position"),
    Setting("attn_mask", "none", ("none", "bool", "float"), "which keys a query sees, or what is added to the scores"),
    VALUES,
)
_TEXTS = (
    "s = scale * q * k",
    "a = s + attn_mask",
    "y = p * v",
    "gv = p * gy",
    "gp = gy * v",
    "dot = gp * p",
    "gs = p * gp - p * dot",
    "gattn_mask = gs",
    "gq = scale * gs * k",
    "gk = scale * gs * q",
)


def _example(options: Mapping[str, Any]) -> Arrays:
    N, L, S, E, values = (options[name] for name in ("batch", "queries", "keys", "features", "values"))
    found = {"q": draw((N, L, E), values, 1), "k": draw((N, S, E), values, 2), "v": draw((N, S, E), values, 3)}
    if options["attn_mask"] == "float":
        return found | {"attn_mask": draw((L, S), values, 5)}
    if options["attn_mask"] == "bool":  # all queries see the first key
        return found | {"attn_mask": (np.arange(S) == 0) | (draw((L, S), values, 5) > 0)}
    return found


def _case(inputs: Arrays, options: Mapping[str, Any]) -> Case:
    q, k, v = (inputs[each] for each in "qkv")
    defaults = {"is_causal": False, "scale": None}
    given = arguments(_NAME, options, defaults, _SETTINGS)
    if not q.shape[:-2] == k.shape[:-2] == v.shape[:-2]:
        raise ValueError(
            f"explain: {_NAME} can be explained only for equal leading axes; these are "
            f"{q.shape[:-2]}, {k.shape[:-2]} and {v.shape[:-2]}"
        )
    scale = 1 / np.sqrt(q.shape[-1]) if given["scale"] is None else given["scale"]
    lead = leading(q.ndim - 2)
    axes = {"q": f"{lead}le", "k": f"{lead}se", "v": f"{lead}sd", "s": f"{lead}ls", "y": f"{lead}ld", "dot": f"{lead}l"}
    axes["p"] = axes["s"]
    extents = dict(zip(f"{lead}le", q.shape, strict=True)) | {"s": k.shape[-2], "d": v.shape[-1]}
    mask = inputs.get("attn_mask")
    adds = mask is not None and mask.dtype.kind == "f"
    if mask is not None:
        axes["attn_mask"] = _axes_of_mask(mask.shape, axes["s"], extents)
    if adds:
        assert mask is not None
        axes |= {"a": axes["s"], "gattn_mask": axes["attn_mask"]}
        # axes along which the mask is broadcast get separate letters
        extents |= {letter: 1 for letter in axes["attn_mask"] if letter not in extents}
    axes |= {f"g{each}": axes[each] for each in "qkvspy"}
    equations = Equations(
        _TEXTS,
        axes if adds else {each: axes[each] for each in axes if each != "attn_mask"},
        extents,
        {"scale": float(scale)},
    )

    def inner(arrays: Arrays) -> dict[str, Array]:
        q, k, v, gy = (arrays[each].astype(np.float64) for each in ("q", "k", "v", "gy"))
        s = scale * q @ k.swapaxes(-1, -2)
        scores = s + arrays["attn_mask"].astype(np.float64) if adds else s
        if given["is_causal"]:
            scores = np.where(np.tri(*s.shape[-2:]) > 0, scores, -np.inf)
        elif mask is not None and not adds:
            scores = np.where(mask, scores, -np.inf)
        sees = (scores > -np.inf).any(-1, keepdims=True)
        p = np.where(sees, softmax_of(np.where(sees, scores, 0.0), -1)[0], 0.0)
        gp = gy @ v.swapaxes(-1, -2)
        dot = (gp * p).sum(-1)
        hidden = scores is not s
        found = {
            "s": (s, "the scores: how well each query fits each key" + ", before the mask" * hidden),
            "a": (scores, "the scores with the mask added"),
            "p": (p, "softmax of the scores of each query: the weight of each value in its result"),
            "gp": (gp, "how much the loss grows with each entry of p"),
            "dot": (dot, "the sum of gp · p: what all scores of a query lose together, since p adds up to 1"),
            "gs": (p * (gp - dot[..., np.newaxis]), "how much the loss grows with each score"),
        }
        return {
            each: Array(values, axes[each], "inner", about) for each, (values, about) in found.items() if each in axes
        }

    operands = {each: inputs[each] for each in _TENSORS if each in inputs}
    about = {
        "q": "the queries",
        "k": "the keys",
        "v": "the values",
        "attn_mask": "what is added to the scores" if adds else "which keys a query sees: 1 yes, 0 no",
    }
    return Case(
        name=_NAME,
        call=lambda q, k, v, attn_mask=None: F.scaled_dot_product_attention(q, k, v, attn_mask, **given),
        inputs={each: Array(array, axes[each], "input", about[each]) for each, array in operands.items()},
        output=(axes["y"], "the result: for each query a mean of the values"),
        sums=lambda arrays: equations.sums,
        formulas=equations.formulas,
        source=call_text(f"F.{_NAME}", operands, differing(given, defaults)),
        inner=inner,
        bugs=ATTENTION,
    )


def _axes_of_mask(shape: tuple[int, ...], scores: str, extents: Mapping[str, int]) -> str:
    """Return the letters of the mask's axes: those of the scores, counted from the last axis, and others if broadcast.

    Raises:
        ValueError: the shape does not fit.
    """
    letters = scores[len(scores) - len(shape) :] if len(shape) <= len(scores) else ""
    fits = [extent in (1, extents[letter]) for extent, letter in zip(shape, letters, strict=False)]
    if len(letters) != len(shape) or not all(fits):
        expected = ", ".join(str(extents[letter]) for letter in scores)
        raise ValueError(
            f"explain: attn_mask has the shape {shape}, which does not broadcast to the scores ({expected})"
        )
    return "".join(
        letter if extent == extents[letter] else "abcfghij"[place]
        for place, (extent, letter) in enumerate(zip(shape, letters, strict=True))
    )


_TENSORS = ("q", "k", "v", "attn_mask")
OPERATORS = {_NAME: Operator(_NAME, _TENSORS[:3], _TENSORS[3:], _SETTINGS, _example, _case)}
