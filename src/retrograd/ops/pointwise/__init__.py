"""Operators of every element: arithmetic, comparisons, rounding, powers, activations, formulas of users."""
