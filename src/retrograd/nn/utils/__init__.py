"""Gradients of every sample of a batch."""

from .per_sample import per_sample_gradients, register_per_sample_rule

__all__ = ["per_sample_gradients", "register_per_sample_rule"]
