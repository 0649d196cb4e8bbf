"""Import of weights from NumPy .npz files, without pickle and with sizes checked before memory is allocated."""

from __future__ import annotations

import ast
import math
import re
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .._files.formats import other_format
from .._files.state import brief, checked_bools, reason
from .._files.untrusted import as_path, open_untrusted
from ..engine.arguments import kind_name
from ..engine.tensor import Tensor
from ..nn.module import Module
from ..nn.module_state import IncompatibleKeys
from .dtypes import widened
from .layer_matching import WeightsFileError

__all__ = ["NpzFileError", "load_npz", "load_npz_weights"]

_MOST = 64 * 1024**3  # bytes in a file, and in its arrays
_RATIO = 1100  # the highest compression ratio of deflate
_DTYPE = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248])")


class NpzFileError(WeightsFileError):
    """An .npz file is damaged or does not fit the model; the message names the file and the location."""


def load_npz(path: str | Path) -> dict[str, Tensor]:
    """Return the arrays of an .npz file, written by numpy.savez or savez_compressed, by name.

    Numbers of a dtype that no Tensor has are widened without loss.

    Raises:
        NpzFileError: the file has another format, is truncated or modified, or contains arrays of objects, text or
            complex numbers.
    """
    return {name: Tensor(array) for name, array in _read(as_path("load_npz_weights", "path", path)).items()}


def load_npz_weights(
    model: Module, path: str | Path, strict: bool = True, names: Mapping[str, str] | None = None
) -> IncompatibleKeys:
    """Copy the arrays of an .npz file, which has the names and layouts of state_dict(), into a model.

    names: {name in the file: our key}, where these differ.
    strict: False leaves parameters missing from the file unchanged and ignores unknown ones; shapes must still match.
    Returns ``(missing_keys, unexpected_keys)``.

    Raises:
        TypeError: model is not a Module.
        NpzFileError: the file cannot be read, or its arrays do not fit; the model is unchanged.
    """
    if not isinstance(model, Module):
        raise TypeError(f"load_npz_weights: model is {kind_name(model)}, expected a Module")
    arrays = _read(as_path("load_npz_weights", "path", path))
    unknown = [name for name in names or () if name not in arrays]
    if unknown:
        raise NpzFileError(f"{path}: names has {brief(unknown)}, the file {brief(list(arrays))}")
    state = {(names or {}).get(name, name): array for name, array in arrays.items()}
    if len(state) != len(arrays):
        raise NpzFileError(f"{path}: names gives two arrays the same key")
    try:
        return model.load_state_dict(state, strict)
    except RuntimeError as error:
        raise NpzFileError(f"{path} does not fit the model. {error}") from error


def _read(path: Path) -> dict[str, np.ndarray]:
    try:
        with open_untrusted(path, _MOST) as file:
            what = other_format(file, "npz")
            if what:
                raise NpzFileError(f"{path} is not an .npz file with weights: {what}")
            archive = zipfile.ZipFile(file)
            return _members(path, archive, path.stat().st_size)
    except OSError as error:
        raise NpzFileError(f"{path} cannot be read: {error.strerror or error}") from error
    except (
        zipfile.BadZipFile,
        NotImplementedError,
        RuntimeError,
        EOFError,
        zlib.error,
        UnicodeError,
        OverflowError,
        IndexError,
    ) as error:
        raise NpzFileError(f"{path} is not an .npz file, or was cut off or damaged: {reason(error)}") from error
    except ValueError as error:
        if isinstance(error, NpzFileError):
            raise
        raise NpzFileError(f"{path} is not an .npz file, or was cut off or damaged: {reason(error)}") from error


def _members(path: Path, archive: zipfile.ZipFile, size: int) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    total = 0
    for info in archive.infolist():
        what = f"{path}: {brief(info.filename)}"
        name = info.filename.removesuffix(".npy")
        total += info.file_size
        if name == info.filename or name in arrays:
            raise NpzFileError(f"{what} is not an array, or occurs twice")
        if total > min(_MOST, _RATIO * size):
            raise NpzFileError(f"{what} unpacks to more than such a file can hold")
        with archive.open(info) as member:
            content = member.read(info.file_size)
        arrays[name] = _array(what, content)
    return arrays


def _array(what: str, content: bytes) -> np.ndarray:
    """Decode the array of an .npy file. Source: numpy.lib.format."""
    if content[:6] != b"\x93NUMPY" or content[6:8] not in (b"\x01\x00", b"\x02\x00", b"\x03\x00"):
        raise NpzFileError(f"{what} is not a NumPy array")
    width = 2 if content[6] == 1 else 4
    length = int.from_bytes(content[8 : 8 + width], "little")
    start = 8 + width + length
    if length > 10_000 or start > len(content):
        raise NpzFileError(f"{what} has a header of {length:,} bytes")
    try:
        text = content[8 + width : start].decode("latin1" if content[6] < 3 else "utf-8")
        header: Any = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise NpzFileError(f"{what} has a damaged header") from error
    if not isinstance(header, dict) or header.keys() != {"descr", "fortran_order", "shape"}:
        raise NpzFileError(f"{what} has a header without descr, fortran_order and shape")
    descr, shape, fortran = header["descr"], header["shape"], header["fortran_order"]
    if not isinstance(descr, str) or not _DTYPE.fullmatch(descr):
        raise NpzFileError(f"{what} has the dtype {brief(descr)}; integers, floats and bools are read")
    sizes = isinstance(shape, tuple) and len(shape) <= 32 and all(type(n) is int and 0 <= n < 2**62 for n in shape)
    if not sizes or type(fortran) is not bool:
        raise NpzFileError(f"{what} has the shape {brief(shape)}")
    dtype = np.dtype(descr)
    if math.prod(shape) * dtype.itemsize != len(content) - start:
        raise NpzFileError(f"{what} of shape {shape} and dtype {descr} has {len(content) - start:,} bytes")
    array = np.frombuffer(content, dtype, offset=start).reshape(shape, order="F" if fortran else "C")
    try:
        return widened(checked_bools("it", array.astype(dtype.newbyteorder("="))))
    except ValueError as error:
        raise NpzFileError(f"{what}: {error}") from error
