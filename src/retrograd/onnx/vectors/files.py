"""Writing cases as folders: model.onnx, data.json, and test_data_set_0 with the inputs and the outputs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ..package import onnx
from .case import Case
from .model import vector

_TOLERANCE = {"rtol": 1e-7, "atol": 1e-9}  # of a computation in float64; ONNX's runner reads it


def write(folder: str | os.PathLike[str], cases: Iterable[Case]) -> int:
    """Write a folder for each case into a folder that is new or empty; returns the bytes of all files.

    A case is there with all of its files, or not at all: it gets its name when they are written.

    Raises:
        FileExistsError: it is not empty, or no folder. OSError: it cannot be written. ImportError: the package onnx is
            not installed.
    """
    onnx()
    folder = Path(folder)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise FileExistsError(f"{folder} is {'not empty' if folder.is_dir() else 'no folder'}; name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    size = 0
    for case in cases:
        files = contents(case)
        unfinished = folder / f".{case.folder}.tmp"
        try:
            for name, content in files.items():
                path = unfinished / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            os.replace(unfinished, folder / case.folder)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        size += sum(map(len, files.values()))
    return size


def contents(case: Case) -> dict[str, bytes]:
    """The files of a case, by their paths in its folder."""
    found = vector(case)
    files = {"model.onnx": _bytes(found.model), "data.json": f"{json.dumps(_TOLERANCE)}\n".encode()}
    for kind, arrays in (("input", found.inputs), ("output", found.outputs)):
        for place, (name, array) in enumerate(arrays.items()):
            files[f"test_data_set_0/{kind}_{place}.pb"] = _bytes(_tensor(array, name))
    return files


def _tensor(array: np.ndarray, name: str) -> Any:
    return onnx().numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def _bytes(proto: Any) -> bytes:
    return bytes(proto.SerializeToString(deterministic=True))
