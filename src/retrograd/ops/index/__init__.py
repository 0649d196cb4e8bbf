"""Elements chosen by index, mask or order; embedding, search, sparse matrices."""
