"""Where tensors are and how they lie in memory."""
