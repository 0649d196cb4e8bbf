"""Element-wise operators: arithmetic, comparisons, rounding, powers, activations and user-defined formulas."""
