"""Matrix products, einsum, distances and attention."""
