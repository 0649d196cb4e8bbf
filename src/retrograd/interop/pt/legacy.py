"""The form of .pt files before PyTorch 1.6, which torch.save(_use_new_zipfile_serialization=False) still writes.

Five pickles (a magic number, the version, the machine, the object, the keys of its storages), then for each key the
count of its numbers in 8 bytes and the numbers.

Source: _legacy_save and _legacy_load of torch/serialization.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from ..._files.state import brief
from .machine import Machine
from .refusal import Refused
from .storage import DTYPES, Storage, bytes_of
from .values import Name

__all__ = ["read_legacy"]

_MAGIC, _VERSION = 0x1950A86A20F9469CFC6C, 1001
_NO_FILE = "it is no file of torch.save, or was damaged"
_Check = Callable[[str, int], None]


def read_legacy(file: BinaryIO, size: int, check: _Check, encoding: str, budget: int) -> Any:
    """The object of such a file, which is then behind it.

    Raises:
        Refused: it is none, or damaged.
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
            raise Refused("it has PyTorch's form before 0.2, a tar file; load and save it in a newer one") from None
        raise Refused(f"{_NO_FILE}: {refusal}") from None
    if magic != _MAGIC:
        what = "it is a plain pickle" if content[:1] == b"\x80" else _NO_FILE
        raise Refused(f"{what}; only what torch.save wrote is read")
    version = pickled(_no_storage)
    if type(version) is not int or version != _VERSION:
        raise Refused(f"its form has the version {brief(version)}, expected {_VERSION}")
    machine_info = pickled(_no_storage)
    big_endian = isinstance(machine_info, dict) and machine_info.get("little_endian") is False
    begin = place
    dtypes: dict[str, tuple[str, str]] = {}
    pickled(lambda saved: _declared(saved, dtypes))  # says which storages there are; they stand behind it
    keys = pickled(_no_storage)
    if not isinstance(keys, list) or set(map(str, keys)) != dtypes.keys() or len(keys) != len(dtypes):
        raise Refused("its list of storages is not that of its object")
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
    found = Machine(content, begin, lambda saved: _found(saved, storages), encoding, budget).whole()
    file.seek(place)
    return found


def _no_storage(saved: Any) -> Any:
    raise Refused("its head asks for a storage")


def _fields(saved: Any) -> tuple[str, str, str, Any]:
    """(key, dtype, location, view) of a persistent id."""
    if not isinstance(saved, tuple) or not saved or saved[0] not in ("storage", b"storage"):
        if isinstance(saved, tuple) and saved and saved[0] in ("module", b"module"):
            raise Refused("it holds a whole model; save model.state_dict() in PyTorch instead")
        raise Refused("its pickle asks for something that is no storage")
    if len(saved) != 6 or type(saved[1]) is not Name or saved[1].text not in DTYPES:
        raise Refused("its pickle asks for a storage without a class")
    _, kind, key, location, count, view = saved
    if type(key) not in (str, bytes) or type(count) is not int:
        raise Refused("its pickle asks for a storage without a key or a size")
    name = key.decode("latin1") if isinstance(key, bytes) else key
    return name, DTYPES[kind.text], str(location), view


def _declared(saved: Any, dtypes: dict[str, tuple[str, str]]) -> Storage:
    """A storage without numbers, in the first reading."""
    key, dtype, location, view = _fields(saved)
    if dtypes.setdefault(key, (dtype, location))[0] != dtype:
        raise Refused(f"its storage {brief(key)} is of two dtypes")
    return Storage(None, dtype)


def _found(saved: Any, storages: dict[str, Storage]) -> Storage:
    key, dtype, _, view = _fields(saved)
    storage = storages[key]
    if view is None:
        return storage
    if not isinstance(view, tuple) or len(view) != 3 or not all(type(n) is int and 0 <= n < 2**62 for n in view[1:]):
        raise Refused(f"its storage {brief(key)} has a view without a place")
    _, offset, count = view
    width = bytes_of(dtype)
    return storage.part(offset * width, count * width)
