"""Special functions without a formula of elementary ones: computed in float64 by NumPy."""
