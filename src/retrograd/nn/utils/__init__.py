"""Gradient clipping, per-sample gradients, parameters as one vector, parametrizations and packed sequences."""

from ...absent import attach_to_module
from . import parametrizations, parametrize, rnn, tuples
from .clip_grad import clip_grad_norm_, clip_grad_value_
from .convert_parameters import parameters_to_vector, vector_to_parameters
from .per_sample import per_sample_gradients, register_per_sample_rule
from .weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "parameters_to_vector", "parametrizations", "parametrize",
    "per_sample_gradients", "register_per_sample_rule", "remove_weight_norm", "rnn", "tuples", "vector_to_parameters",
    "weight_norm",
]  # fmt: skip

attach_to_module(__name__)
