"""``record``, the decorator that torchrun scripts put on their main function.

In PyTorch it is in ``torch.distributed.elastic.multiprocessing.errors``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["record"]

F = TypeVar("F", bound=Callable[..., Any])
multiprocessing = errors = sys.modules[__name__]  # for use by attributes, without an import of that path


def record(fn: F, error_handler: Any = None) -> F:
    """Return fn unchanged: each process prints the traceback of its own error, so there is nothing to record.

    Raises:
        ValueError: an error_handler is given, which would not be called.
    """
    if error_handler is not None:
        raise ValueError(
            f"record: error_handler={error_handler!r}: each process prints the traceback of its own error; leave it out"
        )
    return fn
