"""Memory filled with values that no result may show: NaN, and integers that are not valid indices."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from retrograd.kernels.compiled.machine import scratch

_KEPT = 1 << 18  # elements of each type; larger ones come from np.empty


def spoil(array: np.ndarray) -> np.ndarray:
    kind = array.dtype.kind
    if kind in "fiu":
        array.fill(np.nan if kind == "f" else min(1 << 40, np.iinfo(array.dtype).max))
    return array


class _Kept(dict[str, np.ndarray]):
    """The cached kernel memory of a thread, filled with garbage before each use."""

    def get(self, dtype: str, default: Any = None) -> Any:
        return spoil(self[dtype]) if dtype in self else default


class _Nothing(dict[Any, Any]):
    """A cache without entries, so that the memory of a thread is divided again in each call."""

    def get(self, key: Any, default: Any = None) -> Any:
        return default


def fill_memory_with_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill the arrays of ``np.empty`` and ``np.empty_like`` with garbage, and those that kernels cache."""

    def spoilt(make: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        return lambda *arguments, **options: spoil(make(*arguments, **options))

    kept = _Kept({dtype: np.empty(_KEPT, dtype) for dtype in "fdq"})
    monkeypatch.setattr(scratch, "_kept", SimpleNamespace(arrays=kept, pieces=_Nothing()))
    for name in ("empty", "empty_like"):
        monkeypatch.setattr(np, name, spoilt(getattr(np, name)))
