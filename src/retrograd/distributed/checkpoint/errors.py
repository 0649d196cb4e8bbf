"""The exception for checkpoints in several files."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import DistError


class CheckpointException(DistError):  # noqa: N818  PyTorch's name
    """A checkpoint could not be written or cannot be used; the message says which file, which rule, and which rank.

    ``failures`` has the message of each rank that failed, where ranks are told apart.
    """

    def __init__(self, message: str, failures: Mapping[int, str] | None = None) -> None:
        super().__init__(message)
        self.failures = dict(failures or {})
