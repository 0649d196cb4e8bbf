"""Weights in several safetensors files and an index of them, as HuggingFace stores large models.

    model.safetensors.index.json   {"metadata": {"total_size": bytes}, "weight_map": {name: file, ...}}

Source: https://huggingface.co/docs/transformers/big_models.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._files.state import brief, reason
from .._files.untrusted import STRICT_JSON, as_path, read_outside
from ..engine.tensor import Tensor
from ..nn.module import Module
from ..nn.module_state import IncompatibleKeys
from .safetensors import SafetensorsError, add_tied, load_safetensors

__all__ = ["load_sharded", "load_sharded_model"]

_MOST = 256 * 1024**2  # bytes of an index
_INDEX = "model.safetensors.index.json"


def load_sharded(path: str | Path) -> dict[str, Tensor]:
    """The tensors of all files of an index by name, in the index's order.

    path: the index, or the folder with model.safetensors.index.json in it.

    Raises:
        ImportError: the safetensors package is not installed.
        SafetensorsError: the index or a file of it cannot be used, names a file outside of its folder, or a tensor that
            is not in its file.
    """
    place = as_path("load_sharded", "path", path)
    index = place / _INDEX if place.is_dir() else place
    files = _files(index)
    tensors = {name: tensor for file in dict.fromkeys(files.values()) for name, tensor in _tensors(index, file, files)}
    return {name: tensors[name] for name in files}


def load_sharded_model(model: Module, path: str | Path, strict: bool = True) -> IncompatibleKeys:
    """Copy the tensors of an index into the parameters and buffers of a model.

    Tensors that the model has under several keys, such as tied weights, may be in the files under one of them.

    strict: False leaves parameters missing from the files unchanged and ignores unknown ones; shapes must still fit.
    Returns ``(missing_keys, unexpected_keys)``.

    Raises:
        ImportError: the safetensors package is not installed.
        TypeError: model is no Module.
        SafetensorsError: the files cannot be used, or their tensors do not fit; nothing is changed.
    """
    if not isinstance(model, Module):
        raise TypeError(f"load_sharded_model: model is {type(model).__name__}, expected a Module")
    state = load_sharded(path)
    add_tied(model, state)
    try:
        return model.load_state_dict(state, strict)
    except RuntimeError as error:
        raise SafetensorsError(f"{path} does not fit the model. {error}") from error


def _files(index: Path) -> dict[str, str]:
    """The file of each tensor."""
    try:
        found: Any = json.loads(read_outside(index, _MOST).decode(), **STRICT_JSON)
    except OSError as error:
        raise SafetensorsError(f"{index} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise SafetensorsError(f"{index} is no index, or was damaged: {reason(error)}") from error
    files = found.get("weight_map") if isinstance(found, dict) else None
    if not isinstance(files, dict) or not files:
        raise SafetensorsError(f"{index} is no index: it has no weight_map")
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
