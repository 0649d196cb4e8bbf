"""API fuzzer: random arguments for every public function, method and layer. ``python -m tests.fuzz --help``."""
