"""Names and import paths that exist because scripts written for PyTorch use them; ``imports.PATHS`` is their table."""
