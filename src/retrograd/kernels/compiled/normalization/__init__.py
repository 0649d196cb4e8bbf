"""Batch, layer, group and RMS norms; softmax."""
