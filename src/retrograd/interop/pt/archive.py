"""The zip container of a .pt file: what its directory says, checked before anything is read.

PyTorch stores records as they are, so a record takes as many bytes as the file has for it: there is no compression to
blow up. Nothing is extracted; a record's name is a key and no path.

Source: caffe2/serialize/inline_container.h of PyTorch; APPNOTE.TXT of PKWARE.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from mmap import mmap
from typing import BinaryIO

import numpy as np

from ..._files.state import brief, reason
from .refusal import Refused

__all__ = ["Archive"]

_LOCAL = 30  # bytes of a local header before the name
_MOST_PICKLE = 2**30


class Archive:
    """The records of a zip file, by their names within the archive's folder.

    mapped: the file in memory, of which records then are views, without reading them and without their checksums.

    Raises:
        Refused: it is no archive of PyTorch, or damaged.
    """

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
            raise Refused(f"its zip container was cut off or damaged: {reason(error)}") from error
        pickles = [member.filename for member in members if member.filename.endswith("/data.pkl")]
        if any(member.filename.endswith("/constants.pkl") for member in members):
            raise Refused("it is a program of TorchScript; save model.state_dict() in PyTorch instead")
        if len(pickles) != 1:
            raise Refused(f"it is a zip file with {len(pickles)} records data.pkl, expected 1")
        folder = pickles[0].removesuffix("data.pkl")
        self.places: dict[str, tuple[int, int, int]] = {}  # name -> start, bytes, checksum
        end = 0
        for member in sorted(members, key=lambda member: member.header_offset):
            name = member.filename
            what = f"its record {brief(name)}"
            if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
                raise Refused(
                    f"{what} is compressed; PyTorch stores records as they are, so pack the file anew "
                    "without compression"
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
                raise Refused(f"{what} is there twice")
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
        """The bytes of a record, writable.

        Raises:
            Refused: there is none, or it is damaged.
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
        """The bytes of a short record: a pickle, a word.

        Raises: as ``record``; and if it is long.
        """
        if name in self.places and self.places[name][1] > _MOST_PICKLE:
            raise Refused(f"its record {brief(name)} has {self.places[name][1]:,} bytes, the limit is {_MOST_PICKLE:,}")
        return self.record(name).tobytes()
