"""Cases of attention. Masks of numbers have gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Case, case
from .numbers import Given

_SEEN = Given(np.array([[1, 0, 1, 1, 0], [1, 1, 0, 1, 1], [0, 1, 1, 0, 1]], bool))


def _attention(name: str, *inputs: Any, **options: Any) -> Case:
    return case(f"attention_{name}", "Attention", *inputs, opset=23, **options)


_Q, _K, _V = (2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4)

CASES = [
    _attention("4d", _Q, _K, _V),
    _attention("4d_values_of_another_size", _Q, _K, (2, 2, 5, 3)),
    _attention("scale", _Q, _K, _V, scale=0.75),
    _attention("causal", (1, 2, 4, 3), (1, 2, 4, 3), (1, 2, 4, 3), is_causal=1),
    _attention("mask", _Q, _K, _V, (3, 5)),
    _attention("mask_of_each_head", _Q, _K, _V, (2, 2, 3, 5)),
    _attention("boolean_mask", _Q, _K, _V, _SEEN),
    _attention("grouped_queries", (1, 4, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4)),
    _attention("grouped_queries_causal_scale", (1, 4, 4, 2), (1, 2, 4, 2), (1, 2, 4, 2), is_causal=1, scale=0.5),
    _attention("softcap", _Q, _K, _V, softcap=2.0),
    _attention("3d", (2, 3, 6), (2, 4, 6), (2, 4, 8), q_num_heads=2, kv_num_heads=2),
    _attention("3d_grouped_queries", (1, 3, 8), (1, 4, 4), (1, 4, 4), q_num_heads=4, kv_num_heads=2),
    _attention("past_keys", (1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4), None, (1, 2, 2, 4), (1, 2, 2, 4), outputs=3),
]
