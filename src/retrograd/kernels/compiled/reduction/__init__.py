"""Sums, products, extremes, moments and scans along axes, and their gradients."""
