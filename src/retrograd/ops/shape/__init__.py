"""Operators that only move elements: reshaping, joining, splitting, padding, windows and broadcasting."""
