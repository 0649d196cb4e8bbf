"""Checks of an object file from the cache before it is handed to LLVM.

LLVM's linker ends the process ("LLVM ERROR", or a null pointer) if a file is malformed, and offers no check. So
everything that it relies on is checked here: the tables, what they point to, and the external names. Machine code
itself cannot be checked; ``cache`` ensures that it is ours.

Source: System V Application Binary Interface, "Object Files"; Apple, <mach-o/loader.h>.
"""

from __future__ import annotations

import platform
import struct
import sys

import llvmlite.binding as llvm

_LARGEST = 2**24  # bytes of memory that a file may request beyond its own size

# ELF
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QIIq")
_SYMBOLS, _STRINGS, _RELOCATIONS, _EMPTY = 2, 3, 4, 8  # types of sections
_TYPES = {1, _SYMBOLS, _STRINGS, _RELOCATIONS, _EMPTY, 0x70000001}  # these, contents, unwind tables
_NOWHERE, _ABSOLUTE, _COMMON = 0, 0xFFF1, 0xFFF2  # special section numbers of symbols
_LOADED_CODE, _FLAGS = 0x6, 0x100003F7  # section flags: machine code; all allowed (not thread-local or compressed)
_WEAK, _LAST_TYPE, _GLOBAL_FUNCTION = 2, 5, 0x12
_MACHINES = {"x86_64": 62, "AMD64": 62, "aarch64": 183, "arm64": 183, "ppc64le": 21, "riscv64": 243}
_KINDS = {62: {1, 2, 4, 9, 10, 11, 24, 25, 26, 27, 29, 41, 42}}  # of relocations, those that LLVM writes and links

# Mach-O
_MACH_HEADER = struct.Struct("<8I")
_MACH_SEGMENT = struct.Struct("<2I16s4Q4I")
_MACH_SECTION = struct.Struct("<16s16s2Q8I")
_MACH_SYMBOLS = struct.Struct("<6I")
_MACH_SYMBOL = struct.Struct("<IBBHQ")
_MACH_MACHINES = {"x86_64": 0x01000007, "arm64": 0x0100000C}


def is_sound(code: bytes, symbol: str) -> bool:
    """Whether ``code`` is a complete object file for this machine that defines the function ``symbol``."""
    if sys.platform == "win32":  # COFF is not checked
        return bool(code)
    try:
        return (_mach if sys.platform == "darwin" else _elf)(code, symbol.encode())
    except (struct.error, IndexError, ValueError):  # a table is out of bounds
        return False


def _elf(code: bytes, symbol: bytes) -> bool:
    magic, kind, machine, *_, start, _, _, _, _, size, count, names = _HEADER.unpack_from(code)
    if magic[:7] != b"\x7fELF\2\1\1" or kind != 1 or machine != _MACHINES.get(platform.machine(), machine):
        return False
    if size != _SECTION.size or not count or start + count * size != len(code):  # the table of sections comes last
        return False
    sections = list(_SECTION.iter_unpack(code[start:]))
    name_table = _strings(code, sections[names])
    for name, kind, flags, address, offset, size, _, _, alignment, _ in sections[1:]:
        if name >= len(name_table) or flags & ~_FLAGS or address or not _is_alignment(alignment):
            return False
        if kind not in _TYPES:
            return False
        if size > _LARGEST or (kind != _EMPTY and offset + size > start):
            return False
    tables = [section for section in sections if section[1] == _SYMBOLS]
    if len(tables) != 1 or not _has_symbol(code, tables[0], sections, symbol):
        return False
    count = tables[0][5] // _SYMBOL.size
    return all(_is_linked(code, machine, each, sections, count) for each in sections if each[1] == _RELOCATIONS)


def _is_alignment(number: int) -> bool:
    return 0 < number <= 4096 and not number & (number - 1)


def _has_symbol(code: bytes, table: tuple[int, ...], sections: list[tuple[int, ...]], symbol: bytes) -> bool:
    """Whether the symbols are valid, and one of them is the function ``symbol``."""
    _, _, _, _, offset, size, link, _, _, entry = table
    names, found = _strings(code, sections[link]), False
    if entry != _SYMBOL.size or size % entry:
        return False
    for at, info, _, where, value, length in _SYMBOL.iter_unpack(code[offset : offset + size]):
        name = names[at : names.index(b"\0", at)]
        if info >> 4 > _WEAK or info & 15 > _LAST_TYPE:
            return False
        if where == _COMMON:
            if not _is_alignment(value) or length > _LARGEST:
                return False
        elif where == _NOWHERE:
            if info and not _is_known(name):
                return False
        elif where != _ABSOLUTE:
            place = sections[where]
            if value + length > place[5]:
                return False
            found |= name == symbol and info == _GLOBAL_FUNCTION and place[2] & _LOADED_CODE == _LOADED_CODE
    return found


def _strings(code: bytes, section: tuple[int, ...]) -> bytes:
    """The contents of a table of names."""
    _, kind, _, _, offset, size, *_ = section
    table = code[offset : offset + size]
    if kind != _STRINGS or len(table) != size or not table.endswith(b"\0"):
        raise ValueError("no table of names")
    return table


def _is_known(name: bytes) -> bool:
    """Whether an external name can be resolved."""
    return name == b"_GLOBAL_OFFSET_TABLE_" or llvm.address_of_symbol(name.decode("ascii")) is not None


def _is_linked(
    code: bytes, machine: int, section: tuple[int, ...], sections: list[tuple[int, ...]], symbols: int
) -> bool:
    """Whether a section of relocations has only supported ones."""
    _, _, _, _, offset, size, link, target, _, entry = section
    if entry != _RELOCATION.size or size % entry or sections[link][1] != _SYMBOLS or sections[target][1] == _EMPTY:
        return False
    for at, kind, name, _ in _RELOCATION.iter_unpack(code[offset : offset + size]):
        width = 8 if machine == 62 and kind in (1, 24) else 4
        if at + width > sections[target][5] or name >= symbols or kind not in _KINDS.get(machine, (kind,)):
            return False
    return True


def _mach(code: bytes, symbol: bytes) -> bool:
    magic, machine, _, kind, count, size, _, _ = _MACH_HEADER.unpack_from(code)
    if magic != 0xFEEDFACF or kind != 1 or machine != _MACH_MACHINES.get(platform.machine(), machine):
        return False
    at, end, defined = _MACH_HEADER.size, _MACH_HEADER.size + size, False
    if end > len(code):
        return False
    for _ in range(count):
        command, length = struct.unpack_from("<2I", code, at)
        if length < 8 or at + length > end:
            return False
        if command == 0x19:
            if _MACH_SEGMENT.size + _MACH_SEGMENT.unpack_from(code, at)[9] * _MACH_SECTION.size != length:
                return False
            for section in _MACH_SECTION.iter_unpack(code[at + _MACH_SEGMENT.size : at + length]):
                _, _, _, extent, offset, alignment, relocations, number, flags, *_ = section
                brought = 0 if flags & 0xFF in (1, 12) else extent  # else filled with zeros
                if offset + brought > len(code) or relocations + 8 * number > len(code) or alignment > 12:
                    return False
                if extent > brought + _LARGEST:
                    return False
        elif command == 2:
            _, _, offset, number, names, extent = _MACH_SYMBOLS.unpack_from(code, at)
            table = code[names : names + extent]
            entries = code[offset : offset + number * _MACH_SYMBOL.size]
            if len(table) != extent or len(entries) != number * _MACH_SYMBOL.size or not table.endswith(b"\0"):
                return False
            for name, info, where, _, _ in _MACH_SYMBOL.iter_unpack(entries):
                word = table[name : table.index(b"\0", name)]
                defined |= word == b"_" + symbol and info & 0xE == 0xE and where > 0
        at += length
    return at == end and defined
