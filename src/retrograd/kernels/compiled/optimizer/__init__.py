"""The optimizers' updates, all parameters in one launch."""
