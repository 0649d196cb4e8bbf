"""Python's own ``multiprocessing`` under PyTorch's path; tensors are copied to other processes."""

from __future__ import annotations

import multiprocessing
from multiprocessing import *  # noqa: F403

from .absent import attach_to_module

__all__ = list(multiprocessing.__all__)

attach_to_module(__name__)
