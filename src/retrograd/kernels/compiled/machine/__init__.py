"""Infrastructure of all kernels: the compiler, the machine-code cache, launching, threads, micro-kernels, vectors."""
