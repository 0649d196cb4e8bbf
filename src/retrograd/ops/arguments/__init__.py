"""Argument handling: checks, errors for calls that do not fit a signature, and alternative forms of calls."""
