"""Gradients of all processes: shards, the fixed tree, and the exchange during the backward."""
