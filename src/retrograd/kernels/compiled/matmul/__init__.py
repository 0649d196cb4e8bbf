"""Matrix products and distances of all pairs of rows."""
