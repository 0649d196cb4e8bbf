"""``torch.backends.mps``: reports that no GPU is available."""


def is_available() -> bool:
    """False."""
    return False


def is_built() -> bool:
    """False."""
    return False
