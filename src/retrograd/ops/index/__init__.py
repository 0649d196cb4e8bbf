"""Indexing: elements selected by index, mask or order, embedding, search."""
