"""``torch.backends.mkldnn``: products and convolutions are the library's own kernels."""


def is_available() -> bool:
    """False."""
    return False
