"""Random numbers: dropout."""
