"""Frozen descriptions of an operation: what operators and kernels are told besides their arrays."""
