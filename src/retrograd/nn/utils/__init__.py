"""Gradient clipping, per-sample gradients, parameters as one vector, parametrizations and packed sequences."""

from typing import TYPE_CHECKING, Any

from ...torch_api.missing import attach_to_module
from ..init import skip_init
from . import clip_grad, fusion, parametrizations, parametrize, prune, rnn
from .clip_grad import *
from .convert_parameters import parameters_to_vector, vector_to_parameters
from .fusion import *
from .spectral_norm import remove_spectral_norm, spectral_norm
from .weight_norm import remove_weight_norm, weight_norm

if TYPE_CHECKING:
    from .per_sample import per_sample_gradients, register_per_sample_rule

__all__ = [
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "per_sample_gradients",
    "prune",
    "register_per_sample_rule",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "vector_to_parameters",
    "weight_norm",
    *clip_grad.__all__,
    *fusion.__all__,
]


def _per_sample() -> Any:
    from . import per_sample

    return per_sample


attach_to_module(
    __name__,
    {  # loaded on first use
        "per_sample_gradients": lambda: _per_sample().per_sample_gradients,
        "register_per_sample_rule": lambda: _per_sample().register_per_sample_rule,
    },
)
