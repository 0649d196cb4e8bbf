"""Exceptions of communication between processes."""

from __future__ import annotations

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "WorkerLostError"]


class DistError(RuntimeError):
    """A collective could not be completed, or the processes disagree about it."""


class DistBackendError(DistError):
    """MPI is missing, or reports an error."""


class DistNetworkError(DistError):
    """A process did not take part in time."""


class WorkerLostError(DistError):
    """A process has died while others wait for it."""
