"""Operators of every element: all formulas, arithmetic, piecewise functions, activations with weights."""
