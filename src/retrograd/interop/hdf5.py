"""HDF5 files from outside, through pyfive, a reader in Python: no file can crash the process.

pyfive trusts the sizes and places in a file. So it reads through a file object with a budget, which ends loops, and a
data set is read only if its numbers fit into the file.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["HDF5Error", "hdf5_arrays"]

_MISSING = 'pyfive is not installed: pip install "retrograd[keras]"'
_MOST_OBJECTS, _MOST_DEPTH = 50_000, 20
_READS = 2_000_000  # calls
_NAMES = "layer_names", "weight_names"


class HDF5Error(Exception):
    """Why an HDF5 file is not read."""


class _Bounded(io.BytesIO):
    """A file object that stops a reader that goes round in circles."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self._most = len(content)
        self._bytes, self._reads = 64 * len(content) + 2**24, _READS

    def read(self, count: int | None = -1) -> bytes:
        data = super().read(self._most if count is None or count < 0 else min(count, self._most))
        self._reads -= 1
        self._bytes -= len(data)
        if self._reads < 0 or self._bytes < 0:
            raise HDF5Error("its parts refer to each other in circles")
        return data


def hdf5_arrays(content: bytes) -> tuple[dict[str, np.ndarray], dict[str, list[str]]]:
    """The arrays of numbers by their paths, and of groups that have them the attributes that name layers and weights.

    Raises:
        ImportError: pyfive is not installed.
        HDF5Error: the content is damaged, or not read.
    """
    package = _package()
    arrays: dict[str, np.ndarray] = {}
    texts: dict[str, list[str]] = {}
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            with package.File(_Bounded(content)) as file:
                for path, item, is_group in _objects(package, file):
                    if is_group:
                        for name in _NAMES:
                            found = _names(item, name)
                            if found is not None:
                                texts[f"{path}@{name}"] = found
                    else:
                        arrays[path] = _numbers(path, item, len(content))
    except HDF5Error:
        raise
    except Exception as error:  # whatever a damaged file leads pyfive to
        raise HDF5Error(f"it was cut off or damaged: {type(error).__name__}: {str(error)[:200]}") from error
    return arrays, texts


def _objects(package: ModuleType, file: Any) -> Iterator[tuple[str, Any, bool]]:
    """(path, group or data set, whether it is a group) of all in the file, each path once."""
    left: list[tuple[str, Any]] = [("", file)]
    count = 0
    while left:
        path, group = left.pop()
        yield path, group, True
        children = []
        for name in group:
            count += 1
            below = f"{path}/{name}" if path else str(name)
            if count > _MOST_OBJECTS or below.count("/") > _MOST_DEPTH:
                raise HDF5Error("it has too many objects, or they are nested too deep")
            item = group[name]
            if isinstance(item, package.Group):
                children.append((below, item))
            elif isinstance(item, package.Dataset):
                yield below, item, False
        left += children[::-1]


def _numbers(path: str, item: Any, most: int) -> np.ndarray:
    shape, dtype = tuple(item.shape), item.dtype
    if not isinstance(dtype, np.dtype) or dtype.kind not in "biuf" or dtype.itemsize > 8:
        return np.empty(0, np.float32)  # text and the like is no weight
    if len(shape) > 32 or math.prod(shape) * dtype.itemsize > most:
        raise HDF5Error(f"{path[:100]!r} of shape {shape} has more numbers than the file")
    array = np.asarray(item[...])
    if array.shape != shape:
        raise HDF5Error(f"{path[:100]!r} has the shape {array.shape} instead of {shape}")
    return array.astype(array.dtype.newbyteorder("="))


def _names(group: Any, name: str) -> list[str] | None:
    """An attribute with names, which h5py cuts into several if it is long."""
    attributes = group.attrs
    parts = [name] if name in attributes else [f"{name}{n}" for n in range(1000) if f"{name}{n}" in attributes]
    if not parts:
        return None
    values = [value for part in parts for value in np.asarray(attributes[part]).ravel().tolist()]
    return [value.decode("utf-8") if isinstance(value, bytes) else str(value) for value in values if value != 0.0]


def _package() -> ModuleType:
    try:
        import pyfive
    except ImportError:
        raise ImportError(_MISSING) from None
    return pyfive
