"""Matrix products, einsum, distances, attention."""
