"""Random tensors, sampling and dropout."""
