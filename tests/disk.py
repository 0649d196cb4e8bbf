"""A fake disk for tests of writing: records requests, fails on demand, and models what a power cut can leave."""

from __future__ import annotations

import builtins
import io
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Call = tuple[Any, ...]  # (name, operands...); a file or folder is identified by its number


class Disk:
    """While ``watched``, intercepts every call that changes or syncs something below ``root``.

    calls: the calls so far, in order.
    fail: the number of the call that fails with ``error``; a failing write is half done. Later calls succeed.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls: list[Call] = []
        self.fail: int | None = None
        self.error: BaseException = OSError()

    def note(self, *call: Any, half: Callable[[], object] | None = None) -> None:
        number, self.fail = self.fail, None if self.fail == 0 else self.fail and self.fail - 1
        if number == 0:
            if half:
                half()
            raise self.error
        self.calls.append(call)

    @contextmanager
    def watched(self, monkeypatch: Any, module: Any) -> Iterator[None]:
        """Intercept the calls of a block; ``module``: the one whose ``open`` creates the files."""
        real = {name: getattr(os, name) for name in ("fsync", "replace", "unlink", "mkdir", "rmdir")}

        def inside(path: Any) -> bool:
            return self.root in Path(path).parents

        def entry(name: str, path: Any, *more: Any, **options: Any) -> None:
            """Record and run a call that changes a directory entry."""
            if inside(path):
                path = Path(path)
                folder = path.parent.stat().st_ino
                missing = name in ("unlink", "rmdir", "replace") and not path.exists()
                if not missing and not (name == "mkdir" and (path.exists() or not path.parent.exists())):
                    self.note(name, folder, path.name, *(Path(other).name for other in more if name == "replace"))
                real[name](path, *more, **options)
                if name == "mkdir":
                    self.calls[-1] += (path.stat().st_ino,)
            else:
                real[name](path, *more, **options)

        def fsync(handle: int) -> None:
            self.note("fsync", os.fstat(handle).st_ino)
            real["fsync"](handle)

        def open(path: Any, mode: str = "r", *more: Any, **options: Any) -> Any:
            if not inside(path) or not set(mode) & set("wxa+"):
                return builtins.open(path, mode, *more, **options)
            self.note("create", Path(path).parent.stat().st_ino, Path(path).name)
            raw = _File(path, mode.replace("b", ""), self)
            self.calls[-1] += (os.fstat(raw.fileno()).st_ino,)
            return io.BufferedWriter(raw, 512)

        with monkeypatch.context() as patch:
            for name in ("replace", "unlink", "mkdir", "rmdir"):
                patch.setattr(os, name, lambda *a, name=name, **o: entry(name, *a, **o))
            patch.setattr(os, "fsync", fsync)
            patch.setattr(module, "open", open, raising=False)
            yield


class _File(io.FileIO):
    def __init__(self, path: Any, mode: str, disk: Disk) -> None:
        super().__init__(path, mode)
        self._disk = disk

    def write(self, data: Any) -> int:
        content, place, write = bytes(data), self.tell(), super().write
        number = os.fstat(self.fileno()).st_ino
        self._disk.note("write", number, place, content, half=lambda: write(content[: len(content) // 2]))
        return write(content)


def after_power_cut(root: Path, path: Path, old: bytes | None, before: int, calls: list[Call]) -> set[bytes | None]:
    """Return the possible contents of ``path`` after a power failure that follows ``calls``; None means no file.

    root: a folder that was synced at the beginning, with the file ``path`` of content ``old`` and number ``before``, if
        there was one.

    Changes that were not synced may or may not have reached the disk: directory entries in any combination, and any
    part of the data written to a file, with zeros in place of the rest.
    """
    top = root.stat().st_ino
    names: dict[int, dict[str, int]] = {top: {}}
    files: dict[int, list[bytes]] = {}
    waiting_names: dict[int, list[Call]] = {}
    waiting_writes: dict[int, list[Call]] = {}
    content: dict[int, bytes] = {}
    if old is not None:
        names[top][path.name], content[before] = before, old
    for call in calls:
        name, number = call[:2]
        if name == "write":
            waiting_writes.setdefault(number, []).append(call)
        elif name == "fsync" and number in names:
            for change in waiting_names.pop(number, []):
                _rename(names[number], change)
        elif name == "fsync":
            content[number] = _written(content.get(number, b""), waiting_writes.pop(number, []))
        else:
            waiting_names.setdefault(number, []).append(call)
            if name == "create":
                content[call[3]] = b""
            elif name == "mkdir":
                names[call[3]] = {}
    for number, was in content.items():
        writes = waiting_writes.get(number, [])
        files[number] = [was, *(_written(was, writes[:count]) for count in range(1, len(writes) + 1))]
        files[number] += [_written(was, writes[:place] + writes[place + 1 :]) for place in range(len(writes))]
        for one in files[number][1:]:
            files[number] += [one[: len(one) // 2], bytes(len(one)), one[:-1] + b"\xff"]
    found: set[bytes | None] = set()
    folders = sorted(names)
    for chosen in itertools.product(*(_subsets(waiting_names.get(folder, [])) for folder in folders)):
        there = {folder: dict(names[folder]) for folder in folders}
        for folder, changes in zip(folders, chosen, strict=True):
            for change in changes:
                _rename(there[folder], change)
        number = top
        for part in path.relative_to(root).parts:
            number = there.get(number, {}).get(part, 0)
        found.update(files.get(number, [None]))
    return found


def _subsets(changes: list[Call]) -> list[tuple[Call, ...]]:
    return [some for count in range(len(changes) + 1) for some in itertools.combinations(changes, count)]


def _rename(names: dict[str, int], change: Call) -> None:
    name, _, what, *more = change
    if name in ("create", "mkdir"):
        names[what] = more[0]
    elif name == "replace" and what in names:
        names[more[0]] = names.pop(what)
    else:
        names.pop(what, None)


def _written(content: bytes, writes: list[Call]) -> bytes:
    for _, _, place, data in writes:
        content = content.ljust(place, b"\0")
        content = content[:place] + data + content[place + len(data) :]
    return content
