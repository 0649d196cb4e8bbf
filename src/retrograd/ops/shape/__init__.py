"""Operators that move elements and compute nothing: shapes, joins, padding, windows, broadcasting."""
