"""``torch.backends.mkldnn``: reports that it is not used; products and convolutions run the library's own kernels."""


def is_available() -> bool:
    """False."""
    return False
