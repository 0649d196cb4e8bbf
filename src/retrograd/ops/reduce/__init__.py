"""Reductions and scans along axes: sums, statistics, norms, extremes, cumulative operators."""
