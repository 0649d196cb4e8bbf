"""Scaled dot-product attention in blocks."""
