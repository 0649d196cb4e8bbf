"""Elements and lines picked by index; sparse matrices."""
