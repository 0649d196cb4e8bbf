"""Speed and memory of retrograd, measured side by side with PyTorch: ``python -m benchmarks``."""
