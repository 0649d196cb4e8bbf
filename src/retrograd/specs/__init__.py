"""Frozen descriptions of operations: the parameters that operators and kernels take besides their arrays."""
