"""Discrete Fourier transforms of pairs of real numbers, on NumPy."""
