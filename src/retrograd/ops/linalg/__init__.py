"""Linear algebra: decompositions, solving, determinants and functions of matrices."""
