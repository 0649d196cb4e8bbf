"""Names and import paths for scripts written for PyTorch; ``imports.PATHS`` lists the paths."""
