"""Collectives, messages, and what is sent in them."""
