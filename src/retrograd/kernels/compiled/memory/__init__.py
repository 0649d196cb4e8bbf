"""How arrays lie in memory: order of axes, copies, packing for the micro-kernels."""
