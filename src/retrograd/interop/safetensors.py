"""Import and export of safetensors files, single or sharded with an index.

Source: the format's description, https://huggingface.co/docs/safetensors: eight bytes with the length of a JSON header,
the header (dtype, shape and offsets of each tensor, and a map of strings), and the data.

    model.safetensors.index.json   {"metadata": {"total_size": bytes}, "weight_map": {name: file, ...}}

Source: https://huggingface.co/docs/transformers/big_models.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from .._files.atomic import write_atomically
from .._files.formats import other_format
from .._files.state import brief, checked_bools, reason
from .._files.untrusted import STRICT_JSON, as_path, open_untrusted, read_untrusted
from ..arrays import shared
from ..engine.arguments import kind_name
from ..engine.dtype import ALLOWED
from ..engine.tensor import Tensor
from ..nn.module import Module
from ..nn.module_state import IncompatibleKeys
from ..nn.parameter import is_lazy
from ..ops.signatures import advised
from .dtypes import bfloat16_numbers, widened

__all__ = [
    "SafetensorsError",
    "load_model",
    "load_safetensors",
    "load_sharded",
    "load_sharded_model",
    "safetensors_metadata",
    "save_safetensors",
]


# ---- safetensors files, through the safetensors package, with PyTorch's keys ----------------------------------------

_MOST = 64 * 1024**3  # bytes in a file
_MOST_HEADER = 100_000_000  # the limit of the safetensors library
_DIGEST = "retrograd.sha256"  # a metadata key of files we write
_MISSING = 'safetensors is not installed: pip install "retrograd[safetensors]"'


class SafetensorsError(ValueError):
    """A file does not hold usable weights or could not be written; the message says which file and why."""


def _bfloat16(data: bytes) -> np.ndarray:
    return bfloat16_numbers(np.frombuffer(data, "<u2"))


def _bools(data: bytes) -> np.ndarray:
    return checked_bools("it", np.frombuffer(data, np.bool_)).copy()


def _numbers(stored: str, converted: str) -> Callable[[bytes], np.ndarray]:
    return lambda data: np.frombuffer(data, stored).astype(converted)


_INTEGERS = ("I", 8), ("I", 4), ("I", 2), ("I", 1), ("U", 4), ("U", 2), ("U", 1)
_NAMES = "F64", "F32", "I64", "I32", "U8", "BOOL"

# dtype in the file -> a reader
_READ: dict[str, Callable[[bytes], np.ndarray]] = {
    "F64": _numbers("<f8", "f8"),
    "F32": _numbers("<f4", "f4"),
    "F16": _numbers("<f2", "f2"),
    "BF16": _bfloat16,
    "BOOL": _bools,
    **{f"{kind}{8 * size}": _numbers(f"<{kind.lower()}{size}", f"{kind.lower()}{size}") for kind, size in _INTEGERS},
}
_WRITTEN = {np.dtype(kind): name for kind, name in zip(("f8", "f4", "i8", "i4", "u1", "?"), _NAMES, strict=True)}


@advised
def save_safetensors(
    model_or_state_dict: Module | Mapping[str, Tensor | np.ndarray],
    path: str | Path,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write the state of a module, or named tensors, to a safetensors file, readable by safetensors.torch.

    The file is written atomically: an existing one is kept until the new one is complete.

    model_or_state_dict: a Module, whose ``state_dict()`` is written; or a dict of Tensors or arrays of the
        dtypes that a Tensor can have.
    metadata: strings to store in the file. A digest of the tensors is added, so that ``load_safetensors`` detects
        damage.

    Raises:
        ImportError: the safetensors package is not installed.
        TypeError: a key or value has another type, or a key or value of metadata is not a string.
        SafetensorsError: the file could not be written; an existing one is unchanged.
    """
    package = _package()
    state: Any = model_or_state_dict
    if isinstance(state, Module):
        state = state.state_dict()
    if not isinstance(state, Mapping):
        hint = "; the model comes first: save_safetensors(model, path)" if isinstance(state, (str, Path)) else ""
        raise TypeError(f"save_safetensors: expected a Module or a dict of Tensors, got {kind_name(state)}{hint}")
    arrays = {}
    for key, value in state.items():
        array = shared(value.array, "a tensor to write") if isinstance(value, Tensor) else value
        if not isinstance(key, str) or not isinstance(array, np.ndarray):
            raise TypeError(f"save_safetensors: {key!r} is {kind_name(value)}; expected str keys and Tensors or arrays")
        if array.dtype not in ALLOWED:
            raise TypeError(f"save_safetensors: {key!r} is {array.dtype}; expected a dtype that a Tensor can have")
        arrays[key] = np.array(array, order="C")
    texts = dict(metadata or {})
    if not all(isinstance(text, str) for pair in texts.items() for text in pair):
        raise TypeError(f"save_safetensors: metadata={texts!r} must map str to str; use json.dumps for anything else")
    if "__metadata__" in arrays or _DIGEST in texts:
        raise SafetensorsError(f'save_safetensors: "__metadata__" and "{_DIGEST}" are names used by the file itself')
    content = package.numpy.save(arrays, {**texts, _DIGEST: _digest(arrays)})
    path = Path(path)
    try:
        write_atomically(path, lambda file: file.write(content))
    except OSError as error:
        raise SafetensorsError(str(error)) from error


@advised
def load_safetensors(path: str | Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file by name, in dtypes that a Tensor can have.

    Numbers of a dtype that no Tensor has are widened without loss: bfloat16 to float32, uint16 and uint32 to int64.

    Raises:
        ImportError: the safetensors package is not installed.
        SafetensorsError: the file does not exist; it has another format, or is truncated or modified; or a tensor has a
            dtype that a Tensor cannot have.
    """
    return _read(as_path("load_safetensors", "path", path))[0]


def safetensors_metadata(path: str | Path) -> dict[str, str]:
    """Return the metadata strings of a safetensors file.

    Raises: as ``load_safetensors``.
    """
    metadata = _read(as_path("safetensors_metadata", "path", path))[1]
    metadata.pop(_DIGEST, None)
    return metadata


@advised
def load_model(model: Module, filename: str | Path, strict: bool = True) -> IncompatibleKeys:
    """Copy the tensors of a safetensors file into the parameters and buffers of ``model``.

    Tensors that the model has under several keys, such as tied weights, may be stored under any one of them.

    strict: False leaves parameters missing from the file unchanged and ignores unknown ones; shapes must still match.
    Returns ``(missing_keys, unexpected_keys)``.

    Raises:
        ImportError: the safetensors package is not installed.
        SafetensorsError: the file cannot be read, or its tensors do not fit; the model is unchanged.
    """
    state = load_safetensors(filename)
    add_tied(model, state)
    try:
        return model.load_state_dict(state, strict)
    except RuntimeError as error:
        raise SafetensorsError(f"{filename} does not fit the model. {error}") from error


def add_tied(model: Module, state: dict[str, Tensor]) -> None:
    """Add to ``state`` the missing keys of tensors that it has under another key of ``model``."""
    tied: dict[Any, list[str]] = {}
    for key, value in model.state_dict(keep_vars=True).items():
        if isinstance(value, Tensor) and not is_lazy(value):
            array = value.array
            same = (array.__array_interface__["data"][0], array.shape, array.strides) if array.size else id(value)
            tied.setdefault(same, []).append(key)
    for keys in tied.values():
        stored = [key for key in keys if key in state]
        for key in keys if stored else ():
            state.setdefault(key, state[stored[0]])


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    arrays, metadata = read_arrays(path)
    return {key: Tensor(widened(array)) for key, array in arrays.items()}, metadata


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the arrays of a safetensors file, with bfloat16 as float32, and its metadata.

    Raises: as ``load_safetensors``.
    """
    package = _package()
    try:
        with open_untrusted(path, _MOST) as file:
            size = os.fstat(file.fileno()).st_size
            text = file.read(8)
            length = int.from_bytes(text, "little")
            if len(text) < 8 or length > min(size - 8, _MOST_HEADER):
                what = other_format(file, "safetensors")
                damage = f", or was cut off or damaged: its header should have {length:,} bytes"
                raise SafetensorsError(f"{path} is not a safetensors file{f': {what}' if what else damage}")
            content = text + file.read(size - 8)
    except OSError as error:
        raise SafetensorsError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        entries = dict(package.deserialize(content))
        header = json.loads(content[8 : 8 + length].decode(), **STRICT_JSON)
    except (package.SafetensorError, ValueError, RecursionError) as error:
        raise SafetensorsError(
            f"{path} is not a safetensors file, or was cut off or damaged: {reason(error)}"
        ) from error
    arrays = {key: _array(path, key, entries[key]) for key in header if key in entries}  # in file order
    metadata = header.get("__metadata__") or {}
    if _DIGEST in metadata and metadata[_DIGEST] != _digest(arrays):
        raise SafetensorsError(f"{path} was changed after it was written (SHA-256 differs); get it again")
    return arrays, metadata


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], texts: Mapping[str, str]) -> None:
    """Write arrays of float32, float64, int64, int32, uint8 or bool, and strings, with a digest.

    float32 numbers that bfloat16 represents exactly are stored as bfloat16.

    Raises:
        SafetensorsError: the file could not be written; an existing one is unchanged.
    """
    header: dict[str, Any] = {"__metadata__": {**texts, _DIGEST: _digest(arrays)}}
    parts: list[bytes] = []
    place = 0
    # the largest elements first: each tensor then begins at a multiple of its element size, as the format requires
    for name, array in sorted(arrays.items(), key=lambda pair: (-pair[1].itemsize, _is_bfloat16(pair[1]), pair[0])):
        kind = "BF16" if _is_bfloat16(array) else _WRITTEN[array.dtype]
        words = np.ascontiguousarray(array).view(np.uint32) >> 16 if kind == "BF16" else array
        data = np.ascontiguousarray(words, "<u2" if kind == "BF16" else array.dtype.newbyteorder("<")).tobytes()
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [place, place + len(data)]}
        place += len(data)
        parts.append(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    try:
        write_atomically(path, lambda file: file.write(b"".join([len(text).to_bytes(8, "little"), text, *parts])))
    except OSError as error:
        raise SafetensorsError(str(error)) from error


def _is_bfloat16(array: np.ndarray) -> bool:
    return array.dtype == np.float32 and not (np.ascontiguousarray(array).view(np.uint32) & 0xFFFF).any()


def _array(path: Path, key: str, entry: Mapping[str, Any]) -> np.ndarray:
    read = _READ.get(entry["dtype"])
    if read is None:
        raise SafetensorsError(
            f"{path}: {brief(key)} is {entry['dtype']}, which a Tensor cannot hold; convert it to float32 first"
        )
    try:
        return read(entry["data"]).reshape(entry["shape"])
    except (ValueError, OverflowError) as error:
        where = f"{path}: {brief(key)}"
        raise SafetensorsError(f"{where} cannot be read as {brief(entry['shape'])}: {reason(error)}") from error


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode("utf-8", "surrogatepass"))
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _package() -> ModuleType:
    try:
        import safetensors
        import safetensors.numpy
    except ImportError:
        raise ImportError(_MISSING) from None
    return safetensors


# ---- Sharded safetensors files with an index, as Hugging Face stores large models -----------------------------------

_MOST_SHARD_INDEX = 256 * 1024**2  # bytes in an index
_INDEX = "model.safetensors.index.json"


def load_sharded(path: str | Path) -> dict[str, Tensor]:
    """Return the tensors of all files of an index by name, in the index's order.

    path: the index, or the folder that contains model.safetensors.index.json.

    Raises:
        ImportError: the safetensors package is not installed.
        SafetensorsError: the index or one of its files cannot be read, or the index names a file outside its folder, or
            a tensor that is not in its file.
    """
    place = as_path("load_sharded", "path", path)
    index = place / _INDEX if place.is_dir() else place
    files = _files(index)
    tensors = {name: tensor for file in dict.fromkeys(files.values()) for name, tensor in _tensors(index, file, files)}
    return {name: tensors[name] for name in files}


def load_sharded_model(model: Module, path: str | Path, strict: bool = True) -> IncompatibleKeys:
    """Copy the tensors of an index into the parameters and buffers of a model.

    Tensors that the model has under several keys, such as tied weights, may be stored under any one of them.

    strict: False leaves parameters missing from the files unchanged and ignores unknown ones; shapes must still match.
    Returns ``(missing_keys, unexpected_keys)``.

    Raises:
        ImportError: the safetensors package is not installed.
        TypeError: model is not a Module.
        SafetensorsError: the files cannot be read, or their tensors do not fit; the model is unchanged.
    """
    if not isinstance(model, Module):
        raise TypeError(f"load_sharded_model: model is {kind_name(model)}, expected a Module")
    state = load_sharded(path)
    add_tied(model, state)
    try:
        return model.load_state_dict(state, strict)
    except RuntimeError as error:
        raise SafetensorsError(f"{path} does not fit the model. {error}") from error


def _files(index: Path) -> dict[str, str]:
    """Return the file of each tensor."""
    try:
        found: Any = json.loads(read_untrusted(index, _MOST_SHARD_INDEX).decode(), **STRICT_JSON)
    except OSError as error:
        raise SafetensorsError(f"{index} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise SafetensorsError(f"{index} is not an index, or was damaged: {reason(error)}") from error
    files = found.get("weight_map") if isinstance(found, dict) else None
    if not isinstance(files, dict) or not files:
        raise SafetensorsError(f"{index} is not an index: it has no weight_map")
    for name, file in files.items():
        plain = isinstance(file, str) and file not in ("", "..") and Path(file).name == file and file.isprintable()
        if not plain or set(file) & set("\\:"):
            raise SafetensorsError(
                f"{index}: the file of {brief(name)}, {brief(file)}, is not the name of a file in "
                "the folder of the index"
            )
    return files


def _tensors(index: Path, file: str, files: dict[str, str]) -> Iterator[tuple[str, Tensor]]:
    tensors = load_safetensors(index.parent / file)
    for name in (name for name, place in files.items() if place == file):
        if name not in tensors:
            raise SafetensorsError(f"{index}: {brief(name)} is not in {file}, where it should be")
        yield name, tensors[name]
