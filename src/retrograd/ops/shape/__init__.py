"""Operators that only move elements: shapes, joins, padding, windows, broadcasting."""
