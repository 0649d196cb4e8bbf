"""load: the object of a file that torch.save wrote, or ``retrograd.save``."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from mmap import ACCESS_COPY, mmap
from pathlib import Path
from typing import Any, BinaryIO

from ..._files.state import brief
from ..._files.terminal import display_name
from ..._files.untrusted import open_outside
from ...ops.arguments.checks import as_truth
from .archive import Archive
from .legacy import read_legacy
from .location import checked_location
from .machine import Machine
from .refusal import PTFileError, Refused
from .storage import DTYPES, Storage, bytes_of
from .values import Name

__all__ = ["load"]

_MOST = 2**40  # bytes of a file, and never more than the memory
_SPARE = 64 * 1024**2  # bytes that the calls of a pickle may copy beyond eight times the file's
_OTHERS = (
    (b"\x89HDF\r\n\x1a\n", "it is an HDF5 file; retrograd.interop.load_keras_weights reads those of Keras"),
    (b"\x93NUMPY", "it is a NumPy array; numpy.load reads it"),
    (b"\x1f\x8b", "it is compressed by gzip; unpack it first"),
    (b"GGUF", "it is a GGUF file, which is not read"),
)


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = True,
    mmap: bool | None = None,
    encoding: str = "utf-8",
) -> Any:
    """The object in a file of torch.save (of any PyTorch since 0.4) or ``retrograd.save``.

    Nothing in the file is executed. It may hold tensors, parameters, numbers, strings, bytes, None, lists, tuples,
    sets, dicts, OrderedDicts, Counters, defaultdicts of plain types, argparse.Namespaces, dtypes, devices, sizes, and
    arrays and numbers of NumPy. Tensors that shared memory share it again. Numbers of a dtype that no Tensor has are
    widened without loss: bfloat16 to float32, uint16, uint32 and uint64 to int64. Tensors keep the attributes that
    users had set, unless a name means something else here.

    f: a path, or an open binary file or BytesIO, read from its position on.
    map_location: a device, its name, a function or a dict, as in PyTorch; tensors of every device load to the CPU,
        and one that names another device is an error.
    pickle_module: None; files are read by no pickle module.
    weights_only: True or False, which mean the same: what True refuses in PyTorch is refused in any case.
    mmap: True maps a file of the zip form into memory instead of reading it; changes do not reach the file.
    encoding: of the strings of Python 2; "bytes" leaves them as bytes.

    Raises:
        OSError: the file cannot be opened.
        PTFileError: it is damaged, no such file, or holds what is not read; the message names it, and the place.
        TypeError, ValueError: an argument is of another kind.
        RuntimeError: map_location names another device than the CPU.
    """
    if pickle_module is not None:
        raise TypeError("load: pickle_module must be None: files are read by rules that execute nothing")
    for name, value in (("weights_only", weights_only), ("mmap", mmap)):
        if value is not None:
            as_truth("load", name, value)
    if encoding not in ("utf-8", "ascii", "latin1", "bytes", "ASCII"):
        raise ValueError(f"load: encoding={brief(encoding)} must be 'utf-8', 'ascii', 'latin1' or 'bytes'")
    check = checked_location(map_location)
    if isinstance(f, (str, os.PathLike)):
        path = Path(f)
        with open_outside(path, _MOST) as file:
            return _named(display_name(path), lambda: _read(file, check, encoding, bool(mmap)))
    if mmap:
        raise ValueError("load: mmap=True needs a path; an open file is read")
    if not hasattr(f, "read"):
        raise TypeError(f"load: f is {type(f).__name__}; expected a path or an open binary file")
    stream, behind = _copied(f)
    found = _named(display_name(str(getattr(f, "name", "the file"))), lambda: _read(stream, check, encoding, False))
    behind(stream)
    return found


def _named(name: str, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Refused as refusal:
        raise PTFileError(f"{name} cannot be loaded: {refusal}") from refusal.__cause__


def _copied(f: Any) -> tuple[io.BytesIO, Callable[[io.BytesIO], None]]:
    """The rest of an open file, and what puts the file behind the object that was read from it."""
    start = f.tell() if hasattr(f, "tell") and hasattr(f, "seek") else None
    content = f.read()
    if not isinstance(content, (bytes, bytearray)):
        raise TypeError("load: f is open as text; open it in the mode 'rb'")

    def behind(stream: io.BytesIO) -> None:
        if start is not None:
            f.seek(start + stream.tell())

    return io.BytesIO(content), behind


def _read(file: BinaryIO, check: Callable[[str, int], None], encoding: str, mapping: bool) -> Any:
    file.seek(0, os.SEEK_END)
    size = file.tell()
    file.seek(0)
    head = file.read(64)
    budget = 8 * size + _SPARE
    if head[:4] == b"PK\x03\x04":
        mapped = mmap(file.fileno(), 0, access=ACCESS_COPY) if mapping else None
        found = _read_archive(Archive(file, size, mapped), check, encoding, budget)
        file.seek(0, os.SEEK_END)
        return found
    for magic, what in _OTHERS:
        if head.startswith(magic):
            raise Refused(what)
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < size:
        raise Refused("it is a safetensors file; retrograd.interop.load_safetensors reads it")
    if not head:
        raise Refused("it is empty")
    if mapping:
        raise Refused("mmap=True needs the zip form; leave it out")
    return read_legacy(file, size, check, encoding, budget)


def _read_archive(archive: Archive, check: Callable[[str, int], None], encoding: str, budget: int) -> Any:
    order = archive.text("byteorder") if "byteorder" in archive.places else b"little"
    if order not in (b"little", b"big"):
        raise Refused(f"its record 'byteorder' is {brief(order)}")
    storages: dict[str, Storage] = {}
    places: list[tuple[str, int]] = []

    def persistent(saved: Any) -> Storage:
        if not isinstance(saved, tuple) or len(saved) != 5 or saved[0] not in ("storage", b"storage"):
            raise Refused("its pickle asks for something that is no storage")
        kind, key, location, count = saved[1:]
        if type(kind) is not Name or kind.text not in DTYPES or type(key) is not str or type(count) is not int:
            raise Refused("its pickle asks for a storage without a class, a key or a size")
        dtype = DTYPES[kind.text]
        if key not in storages:
            data = archive.record(f"data/{key}")
            width = bytes_of(dtype)
            if data.size != count * width:
                raise Refused(
                    f"its record 'data/{brief(key)[1:-1]}' has {data.size:,} bytes, the object asks for "
                    f"{count:,} numbers of {width}"
                )
            places.append((str(location), data.size))
            storages[key] = Storage(data, dtype, order == b"big")
        if storages[key].dtype != dtype:
            raise Refused(f"its storage {brief(key)} is of two dtypes")
        return storages[key]

    found = Machine(archive.text("data.pkl"), 0, persistent, encoding, budget).whole()
    for location, nbytes in places:
        check(location, nbytes)
    return found
