"""Exceptions of distributed communication and checkpoints."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "WorkerLostError"]


# ---- Communication between processes --------------------------------------------------------------------------------


class DistError(RuntimeError):
    """A collective could not be completed, or the processes disagree about it."""


class DistBackendError(DistError):
    """MPI is missing, or reports an error."""


class DistNetworkError(DistError):
    """A process did not take part in a collective in time."""


class WorkerLostError(DistError):
    """A process has died while others were waiting for it."""


# ---- Distributed checkpoints ----------------------------------------------------------------------------------------


class CheckpointException(DistError):  # noqa: N818  PyTorch's name
    """A checkpoint could not be written or cannot be used; the message says which file, which rule, and which rank.

    ``failures`` maps each failed rank to its message, where ranks are distinguished.
    """

    def __init__(self, message: str, failures: Mapping[int, str] | None = None) -> None:
        super().__init__(message)
        self.failures: dict[int, str] = dict(failures or {})
