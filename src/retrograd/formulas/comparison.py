"""Comparisons and tests: truth values, which have no gradient."""

from __future__ import annotations

from .primitive import Operand, Truth, absolute
from .table import formula

_INFINITY = float("inf")


@formula
def eq(x: Operand, y: Operand) -> Truth:
    """x == y"""
    return x == y


@formula
def ne(x: Operand, y: Operand) -> Truth:
    """x != y"""
    return x != y


@formula
def lt(x: Operand, y: Operand) -> Truth:
    """x < y"""
    return x < y


@formula
def le(x: Operand, y: Operand) -> Truth:
    """x <= y"""
    return x <= y


@formula
def isnan(x: Operand) -> Truth:
    """True where x is NaN."""
    return x != x


@formula
def isinf(x: Operand) -> Truth:
    """True where x is inf or -inf."""
    return absolute(x) == _INFINITY


@formula
def isfinite(x: Operand) -> Truth:
    """True where x is finite: neither NaN nor infinite."""
    return absolute(x) < _INFINITY
