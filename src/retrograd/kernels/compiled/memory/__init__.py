"""Memory layout of arrays: the order of axes, copies, packing for the micro-kernels."""
