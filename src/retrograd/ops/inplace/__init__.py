"""Operators that change a tensor in place."""
