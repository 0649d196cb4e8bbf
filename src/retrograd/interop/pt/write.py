"""save: tensors and plain containers in torch.save's zip format, readable by torch.load(weights_only=True)."""

from __future__ import annotations

import io
import os
import re
import struct
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..._files.atomic import write_atomically
from ..._files.state import brief
from ...arrays import shared
from ...engine.arguments import kind_name
from ...engine.call_site import warn_user
from ...nn.module import Module
from ...ops.signatures import advised
from .pickler import Pickler

__all__ = ["save"]

_ALIGNMENT = 64  # of the numbers in the file, so that they can be memory-mapped


@advised
def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write tensors, numbers, strings, bytes, None, and lists, tuples, sets and dicts of them, as torch.save does.

    ``load`` reads the file, and so does torch.load(weights_only=True). If it contains frozensets, defaultdicts,
    argparse.Namespaces or NumPy arrays, PyTorch needs weights_only=False. Tensors that share memory share it in the
    file. NumPy numbers become Python numbers. A Module is written as its state_dict, with a warning: a file without
    code cannot restore a whole model. Attributes set on a tensor are written with it.

    f: a path, whose existing file is kept until the new one is complete, or an open binary file.
    pickle_module: must be None; no pickle module is used.
    pickle_protocol: 2 to 5; the file always has protocol 2, which every reader supports.

    Raises:
        TypeError: obj contains something else; the message names the location. Or f is neither a path nor a file.
        ValueError: a container contains itself, or containers are nested too deep; or an option has an invalid value.
        FileNotFoundError: the folder of f does not exist.
        OSError: the file could not be written; an existing one is unchanged.
    """
    if pickle_module is not None:
        raise TypeError("save: pickle_module must be None: files are written by rules of our own")
    if isinstance(pickle_protocol, bool) or pickle_protocol not in (2, 3, 4, 5):
        raise ValueError(f"save: pickle_protocol={brief(pickle_protocol)} must be 2, 3, 4 or 5")
    if _use_new_zipfile_serialization is not True:
        raise ValueError(
            "save: _use_new_zipfile_serialization must be True: the zip format, which PyTorch reads since "
            "1.6, is the only one that is written"
        )
    if isinstance(obj, Module):
        warn_user(
            f"save: of the {type(obj).__name__} its state_dict() is written, since a file without code cannot restore "
            "a whole model; load it by model.load_state_dict(retrograd.load(path)) into a new one"
        )
        obj = obj.state_dict()
    pickler = Pickler()
    content = pickler.pickled(obj)
    for storage in pickler.storages:
        shared(storage, "a tensor to write")
    if not isinstance(f, (str, os.PathLike)):
        if not hasattr(f, "write") or isinstance(f, io.TextIOBase):
            swapped = isinstance(obj, (str, os.PathLike))
            order = "save(obj, f): the object comes first" if swapped else "expected a path or an open binary file"
            raise TypeError(f"save: f is {kind_name(f)}; {order}")
        _write(f, "archive", content, pickler.storages)
        return
    path = Path(os.path.realpath(f))  # replaces the target of a link, not the link
    if path.exists() and not path.is_file() and not path.is_dir():  # a device or a pipe is written directly
        with open(path, "wb") as file:
            _write(file, "archive", content, pickler.storages)
        return
    if not path.parent.is_dir():
        folder = str(Path(f).parent)
        raise FileNotFoundError(f"save: the folder {folder} does not exist; create it first: os.makedirs({folder!r})")
    write_atomically(path, lambda file: _write(file, path.stem or "archive", content, pickler.storages))


def _write(file: BinaryIO, name: str, content: bytes, storages: list[np.ndarray]) -> None:
    name = re.sub(r"[^!-.0-\[\]-~]", "_", name)
    with zipfile.ZipFile(file, "w", allowZip64=True) as archive:
        _record(archive, file, f"{name}/data.pkl", content)
        _record(archive, file, f"{name}/byteorder", b"little")
        for key, numbers in enumerate(storages):
            _record(archive, file, f"{name}/data/{key}", numbers)
        _record(archive, file, f"{name}/version", b"3\n")


def _record(archive: zipfile.ZipFile, file: BinaryIO, name: str, content: bytes | np.ndarray) -> None:
    """Write an uncompressed record with its data aligned to 64 bytes by an extra field that readers skip."""
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # a fixed date: the same object gives the same file
    size = len(content) if isinstance(content, bytes) else content.nbytes
    info.file_size = size
    large = size >= 2**31
    behind = archive.start_dir + 30 + len(name) + 4 + 20 * large
    padding = -behind % _ALIGNMENT
    info.extra = struct.pack("<HH", 0x4246, padding) + bytes(padding)
    with archive.open(info, "w", force_zip64=large) as record:
        record.write(content if isinstance(content, bytes) else content.data.cast("B") if size else b"")
