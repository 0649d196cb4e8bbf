"""Products of low-bit operands: bits, bytes and fixed-point numbers instead of floating-point ones."""
