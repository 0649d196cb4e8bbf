"""Training in several processes, which is not here: ``torch.distributed`` for scripts that ask whether it is.

What needs other processes can be imported and raises a RuntimeError when it is called.
"""

from __future__ import annotations

from typing import Any, NoReturn

from .absent import attach_to_module

__all__ = [
    "ReduceOp", "all_gather", "all_reduce", "barrier", "broadcast", "destroy_process_group", "get_backend", "get_rank",
    "get_world_size", "init_process_group", "is_available", "is_initialized", "is_torchelastic_launched", "new_group",
    "reduce",
]  # fmt: skip

attach_to_module(__name__)


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_torchelastic_launched() -> bool:
    """False."""
    return False


class _Refused:
    """A function that needs other processes."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<retrograd.distributed.{self._name}, which is not here>"

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"distributed.{self._name}: training runs in one process, on all its threads; call this only if "
            "distributed.is_available()"
        )


class ReduceOp:
    """How ``all_reduce`` would combine: names only."""

    SUM, AVG, PRODUCT, MIN, MAX = "SUM", "AVG", "PRODUCT", "MIN", "MAX"


init_process_group, destroy_process_group = _Refused("init_process_group"), _Refused("destroy_process_group")
get_rank, get_world_size, get_backend = map(_Refused, ("get_rank", "get_world_size", "get_backend"))
all_reduce, all_gather, broadcast = map(_Refused, ("all_reduce", "all_gather", "broadcast"))
reduce, barrier, new_group = map(_Refused, ("reduce", "barrier", "new_group"))
