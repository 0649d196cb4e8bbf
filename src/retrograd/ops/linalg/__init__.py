"""Linear algebra: decompositions, linear equations, determinants, matrix functions."""
