"""load: reading of PyTorch's zip and legacy .pt files.

PyTorch stores records uncompressed, so a record takes as many bytes as the file has for it and a compression bomb is
impossible. Nothing is extracted; a record's name is a key, not a path.

Source: caffe2/serialize/inline_container.h of PyTorch; APPNOTE.TXT of PKWARE.

A legacy file has five pickles (a magic number, the version, the machine, the object, the keys of its storages), then
for each key the count of its numbers in 8 bytes, and the numbers.

Source: _legacy_save and _legacy_load of torch/serialization.py.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from mmap import ACCESS_COPY, mmap
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..._files.formats import other_format
from ..._files.state import brief, reason
from ..._files.terminal import display_name
from ..._files.untrusted import open_untrusted
from ...engine.arguments import kind_name
from ...ops.argument_checks import as_truth
from ...ops.device import as_device, device
from ...ops.signatures import advised
from .objects import DTYPES, Name, PTFileError, Refused, Storage, bytes_of
from .unpickler import Machine

__all__ = ["load"]


# ---- Checks of `map_location`: the CPU is the only device, and everything is loaded to it ---------------------------


class StoredNumbers:
    """A storage on the CPU, as passed to a function given as map_location."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes_ = nbytes

    def nbytes(self) -> int:
        return self.nbytes_

    def cpu(self) -> StoredNumbers:
        return self

    def cuda(self, *args: Any, **kwargs: Any) -> StoredNumbers:
        """Raises:
        RuntimeError: there is no such device.
        """
        raise RuntimeError("load: map_location moves a storage to CUDA, but there is one device, the CPU; use 'cpu'")


def checked_location(map_location: Any) -> Callable[[str, int], None]:
    """Return a check of a storage's target device, given its original device and its bytes.

    Raises:
        TypeError: map_location is not a device, a string, a function or a dict.
        RuntimeError: it names an unavailable device.
    """
    if map_location is None:
        return lambda location, nbytes: None
    if isinstance(map_location, Mapping):
        targets = dict(map_location)

        def follow(location: str, nbytes: int) -> None:
            if location in targets:
                as_device("load: map_location", targets[location])

        return follow
    if callable(map_location):

        def ask(location: str, nbytes: int) -> None:
            storage = StoredNumbers(nbytes)
            moved = map_location(storage, location)
            if moved is not None and moved is not storage:
                raise TypeError(
                    f"load: map_location returned {type(moved).__name__}, expected the storage it was given, or None"
                )

        return ask
    if not isinstance(map_location, (str, device)):
        kind = type(map_location).__name__
        raise TypeError(f"load: map_location is {kind}; it must be a device, its name, a function or a dict")
    as_device("load: map_location", map_location)
    return lambda location, nbytes: None


# ---- The zip container of a .pt file, whose directory is checked before anything is read ----------------------------

_LOCAL = 30  # bytes of a local header before the name
_MOST_PICKLE = 2**30


class Archive:
    """The records of a zip file, by name within the archive's folder.

    mapped: the file in memory. Records are then views of it; they are not read and their checksums are not verified.

    Raises:
        Refused: the file is not a PyTorch archive, or is damaged.
    """

    file: BinaryIO
    mapped: mmap | None

    def __init__(self, file: BinaryIO, size: int, mapped: mmap | None = None) -> None:
        self.file, self.mapped = file, mapped
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                start = archive.start_dir
        except (
            zipfile.BadZipFile,
            NotImplementedError,
            ValueError,
            OverflowError,
            EOFError,
            struct.error,
            UnicodeError,
            IndexError,
        ) as error:
            raise Refused(other_format(file) or f"it was cut off or damaged: {reason(error)}") from error
        pickles = [member.filename for member in members if member.filename.endswith("/data.pkl")]
        if any(member.filename.endswith("/constants.pkl") for member in members):
            raise Refused("it is a program of TorchScript; save model.state_dict() in PyTorch instead")
        if not pickles:
            raise Refused(other_format(file) or _NO_FILE)
        if len(pickles) > 1:
            raise Refused(f"it has {len(pickles)} records data.pkl, expected 1")
        folder = pickles[0].removesuffix("data.pkl")
        self.places: dict[str, tuple[int, int, int]] = {}  # name -> start, bytes, checksum
        end = 0
        for member in sorted(members, key=lambda member: member.header_offset):
            name = member.filename
            what = f"its record {brief(name)}"
            if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
                raise Refused(
                    f"{what} is compressed; PyTorch stores records as they are, so repack the file without compression"
                )
            if member.flag_bits & 1:
                raise Refused(f"{what} is encrypted")
            if member.header_offset < end:
                raise Refused(f"{what} overlaps another one")
            first = self._data_of(what, member)
            end = first + member.file_size
            if end > min(start, size):
                raise Refused(f"{what} of {member.file_size:,} bytes leaves the file")
            short = name.removeprefix(folder)
            if not name.startswith(folder):
                continue
            if short in self.places:
                raise Refused(f"{what} occurs twice")
            self.places[short] = first, member.file_size, member.CRC

    def _data_of(self, what: str, member: zipfile.ZipInfo) -> int:
        """Return the offset of a record's bytes in the file, after checking its header."""
        if member.header_offset < 0:
            raise Refused(f"{what} begins before the file")
        self.file.seek(member.header_offset)
        header = self.file.read(_LOCAL)
        if len(header) < _LOCAL or header[:4] != b"PK\x03\x04":
            raise Refused(f"{what} has no header")
        name, extra = struct.unpack("<HH", header[26:30])
        if self.file.read(name) != member.orig_filename.encode("utf-8" if member.flag_bits & 0x800 else "cp437"):
            raise Refused(f"{what} has another name in its header")
        return int(member.header_offset + _LOCAL + name + extra)

    def record(self, name: str) -> np.ndarray:
        """Return the bytes of a record, writable.

        Raises:
            Refused: the record does not exist or is damaged.
        """
        if name not in self.places:
            raise Refused(f"it has no record {brief(name)}")
        first, size, checksum = self.places[name]
        if self.mapped is not None:
            data = np.frombuffer(self.mapped, np.uint8, size, first) if size else np.empty(0, np.uint8)
            return data.copy() if first % 16 else data
        data = np.empty(size, np.uint8)
        self.file.seek(first)
        if self.file.readinto(data) != size:  # type: ignore[attr-defined]
            raise Refused(f"its record {brief(name)} was cut off")
        if zlib.crc32(data.data) != checksum:
            raise Refused(f"its record {brief(name)} was damaged (its checksum differs)")
        return data

    def text(self, name: str) -> bytes:
        """Return the bytes of a short record, such as a pickle or a word.

        Raises: as ``record``; and if the record is too long.
        """
        if name in self.places and self.places[name][1] > _MOST_PICKLE:
            raise Refused(f"its record {brief(name)} has {self.places[name][1]:,} bytes, the limit is {_MOST_PICKLE:,}")
        return self.record(name).tobytes()


# ---- The legacy format before PyTorch 1.6, still written by _use_new_zipfile_serialization=False --------------------

_MAGIC, _VERSION = 0x1950A86A20F9469CFC6C, 1001
_NO_FILE = "it is not a file of torch.save, or was damaged"
_Check = Callable[[str, int], None]


def read_legacy(file: BinaryIO, size: int, check: _Check, encoding: str, budget: int) -> Any:
    """Read the object of a legacy file; the file position is then behind the object.

    Raises:
        Refused: the file is not in this format, or is damaged.
    """
    file.seek(0)
    content = file.read(size)
    place = 0

    def pickled(persistent: Callable[[Any], Any]) -> Any:
        nonlocal place
        machine = Machine(content, place, persistent, encoding, budget)
        value = machine.whole()
        place = machine.place
        return value

    try:
        magic = pickled(_no_storage)
    except Refused as refusal:
        if content[257:262] == b"ustar":
            raise Refused(
                "it has PyTorch's format before 0.2, a tar file; load and save it in a newer version"
            ) from None
        raise Refused(other_format(content, "torch") or f"{_NO_FILE} ({refusal})") from None
    if magic != _MAGIC:
        raise Refused(other_format(content) or _NO_FILE)
    version = pickled(_no_storage)
    if type(version) is not int or version != _VERSION:
        raise Refused(f"its format has the version {brief(version)}, expected {_VERSION}")
    machine_info = pickled(_no_storage)
    big_endian = isinstance(machine_info, dict) and machine_info.get("little_endian") is False
    begin = place
    dtypes: dict[str, tuple[str, str]] = {}
    pickled(lambda saved: _declared(saved, dtypes))  # lists the storages, whose data come after the pickles
    keys = pickled(_no_storage)
    if not isinstance(keys, list) or set(map(str, keys)) != dtypes.keys() or len(keys) != len(dtypes):
        raise Refused("its list of storages does not match its object")
    storages: dict[str, Storage] = {}
    for key in keys:
        dtype, location = dtypes[key]
        width = bytes_of(dtype)
        count = int.from_bytes(content[place : place + 8], "big" if big_endian else "little")
        place += 8
        if place > size or count * width > size - place:
            raise Refused(f"its storage {brief(key)} of {count:,} numbers was cut off")
        data = np.frombuffer(content, np.uint8, count * width, place).copy() if count else np.empty(0, np.uint8)
        place += count * width
        check(location, data.size)
        storages[key] = Storage(data, dtype, big_endian)
    found = Machine(content, begin, lambda saved: _filled_storage(saved, storages), encoding, budget).whole()
    file.seek(place)
    return found


def _no_storage(saved: Any) -> Any:
    raise Refused("its header requests a storage")


def _fields(saved: Any) -> tuple[str, str, str, Any]:
    """Return (key, dtype, location, view) of a persistent id."""
    if not isinstance(saved, tuple) or not saved or saved[0] not in ("storage", b"storage"):
        if isinstance(saved, tuple) and saved and saved[0] in ("module", b"module"):
            raise Refused("it contains a whole model; save model.state_dict() in PyTorch instead")
        raise Refused("its pickle requests something other than a storage")
    if len(saved) != 6 or type(saved[1]) is not Name or saved[1].text not in DTYPES:
        raise Refused("its pickle requests a storage without a class")
    _, kind, key, location, count, view = saved
    if type(key) not in (str, bytes) or type(count) is not int:
        raise Refused("its pickle requests a storage without a key or a size")
    name = key.decode("latin1") if isinstance(key, bytes) else key
    return name, DTYPES[kind.text], str(location), view


def _declared(saved: Any, dtypes: dict[str, tuple[str, str]]) -> Storage:
    """Return a storage without numbers, for the first pass."""
    key, dtype, location, view = _fields(saved)
    if dtypes.setdefault(key, (dtype, location))[0] != dtype:
        raise Refused(f"its storage {brief(key)} is of two dtypes")
    return Storage(None, dtype)


def _filled_storage(saved: Any, storages: dict[str, Storage]) -> Storage:
    key, dtype, _, view = _fields(saved)
    storage = storages[key]
    if view is None:
        return storage
    if not isinstance(view, tuple) or len(view) != 3 or not all(type(n) is int and 0 <= n < 2**62 for n in view[1:]):
        raise Refused(f"its storage {brief(key)} has a view without a place")
    _, offset, count = view
    width = bytes_of(dtype)
    return storage.part(offset * width, count * width)


# ---- load: the object in a file of torch.save or `retrograd.save` ---------------------------------------------------

_MOST = 2**40  # bytes in a file, and never more than the memory
_SPARE = 64 * 1024**2  # bytes that a pickle's calls may copy beyond eight times the file size


@advised
def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = True,
    mmap: bool | None = None,
    encoding: str = "utf-8",
) -> Any:
    """Load the object in a file of torch.save (of any PyTorch since 0.4) or ``retrograd.save``.

    Nothing in the file is executed. The file may contain tensors, parameters, numbers, strings, bytes, None, lists,
    tuples, sets, dicts, OrderedDicts, Counters, defaultdicts of plain types, argparse.Namespaces, dtypes, devices,
    sizes, and NumPy arrays and numbers. Tensors that shared memory share it again. Numbers of a dtype that no Tensor
    has are widened without loss: bfloat16 to float32; uint16, uint32 and uint64 to int64. Tensors keep the attributes
    that users had set, unless a name has another meaning here.

    f: a path, or an open binary file or BytesIO, read from its current position.
    map_location: a device, its name, a function or a dict, as in PyTorch. Tensors from every device load to the CPU; it
        is an error to name another target device.
    pickle_module: must be None; no pickle module is used.
    weights_only: True and False mean the same: what True refuses in PyTorch is always refused.
    mmap: True maps a zip file into memory instead of reading it; changes are not written to the file.
    encoding: of Python 2 strings; "bytes" leaves them as bytes.

    Raises:
        OSError: the file cannot be opened.
        PTFileError: the file is damaged, has another format, or contains something unsupported; the message names the
            location.
        TypeError, ValueError: an argument is invalid.
        RuntimeError: map_location names a device other than the CPU.
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
        with open_untrusted(path, _MOST) as file:
            return _named(display_name(path), lambda: _read(file, check, encoding, bool(mmap)))
    if mmap:
        raise ValueError("load: mmap=True needs a path; an open file is read")
    if not hasattr(f, "read"):
        raise TypeError(f"load: f is {kind_name(f)}; expected a path or an open binary file")
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
    """Return the rest of an open file, and a function that moves the file position behind the object read from it."""
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
    if mapping:
        raise Refused("mmap=True needs the zip format; leave it out")
    return read_legacy(file, size, check, encoding, budget)


def _read_archive(archive: Archive, check: Callable[[str, int], None], encoding: str, budget: int) -> Any:
    order = archive.text("byteorder") if "byteorder" in archive.places else b"little"
    if order not in (b"little", b"big"):
        raise Refused(f"its record 'byteorder' is {brief(order)}")
    storages: dict[str, Storage] = {}
    places: list[tuple[str, int]] = []

    def persistent(saved: Any) -> Storage:
        if not isinstance(saved, tuple) or len(saved) != 5 or saved[0] not in ("storage", b"storage"):
            raise Refused("its pickle requests something other than a storage")
        kind, key, location, count = saved[1:]
        if type(kind) is not Name or kind.text not in DTYPES or type(key) is not str or type(count) is not int:
            raise Refused("its pickle requests a storage without a class, a key or a size")
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
