"""Sparse matrices of values that may require gradients."""
