"""Gradients that are cut, gradients of every sample of a batch, and parameters as one vector."""

from .clip_grad import clip_grad_norm_, clip_grad_value_
from .convert_parameters import parameters_to_vector, vector_to_parameters
from .per_sample import per_sample_gradients, register_per_sample_rule

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "parameters_to_vector",
    "per_sample_gradients",
    "register_per_sample_rule",
    "vector_to_parameters",
]
