"""``torch.backends.cudnn``: flags without effect for a library that is not used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """False."""
    return False


def version() -> None:
    """None."""
    return None


@contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> Iterator[None]:
    """A context manager without effect."""
    yield
