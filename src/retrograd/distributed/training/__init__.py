"""Training steps that all processes do together."""
