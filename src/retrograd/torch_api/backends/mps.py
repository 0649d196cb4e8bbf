"""``torch.backends.mps``: there is no GPU."""


def is_available() -> bool:
    """False."""
    return False


def is_built() -> bool:
    """False."""
    return False
