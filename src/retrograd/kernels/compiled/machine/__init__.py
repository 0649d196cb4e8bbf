"""What all kernels use: the compiler, the cache of machine code, launching, threads, micro-kernels, vectors."""
