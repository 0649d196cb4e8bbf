"""Reductions along axes: sums, statistics, norms, extremes, scans."""
