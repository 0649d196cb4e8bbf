"""Weights in and out, in the formats of others."""

from .safetensors import SafetensorsError, load_model, load_safetensors, safetensors_metadata, save_safetensors

__all__ = ["SafetensorsError", "load_model", "load_safetensors", "safetensors_metadata", "save_safetensors"]
