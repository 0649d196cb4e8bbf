"""What all kernels stand on: the compiler, the cache of machine code, launching, threads, micro-kernels, vectors."""
