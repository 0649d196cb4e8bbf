"""Atomic file writes: after any failure, and with concurrent writers, the file is the earlier or the new one."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from disk import Disk, after_power_cut
from retrograd._files import atomic
from retrograd._files.atomic import UnconfirmedError, write_atomically

OLD, NEW = b"the earlier one" * 50, b"the new one, which is longer" * 100


def _write(file) -> None:
    """Write as zipfile does: seek back to fill in a header."""
    file.write(bytes(10) + NEW[10:900])
    file.seek(0)
    file.write(NEW[:10])
    file.seek(0, os.SEEK_END)
    for start in range(900, len(NEW), 400):
        file.write(NEW[start : start + 400])


@pytest.fixture(params=["there", "new", "new folders"])
def path(request, tmp_path: Path) -> Path:
    path = tmp_path / ("a/b/file" if request.param == "new folders" else "file")
    if request.param == "there":
        path.write_bytes(OLD)
    return path


def _old(path: Path) -> bytes | None:
    return OLD if path.exists() else None


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def _calls(path: Path, tmp_path: Path, monkeypatch) -> list:
    disk = Disk(tmp_path)
    with disk.watched(monkeypatch, atomic):
        write_atomically(path, _write)
    return disk.calls


def test_the_new_one_is_there(path, tmp_path, monkeypatch):
    names = [call[0] for call in _calls(path, tmp_path, monkeypatch)]
    assert _content(path) == NEW and _left(tmp_path) == ["file"]
    assert names[-3:] == ["fsync", "replace", "fsync"] and names.count("write") > 3


def test_every_call_can_fail(path, tmp_path, monkeypatch):
    """Each create, write, fsync, rename and mkdir fails with a disk error, and with Ctrl-C."""
    old = _old(path)
    for error in (OSError(errno.ENOSPC, "No space"), OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()):
        number = 0
        while True:
            if old is None:
                path.unlink(missing_ok=True)
                for folder in (path.parent, path.parent.parent)[: len(path.relative_to(tmp_path).parts) - 1]:
                    folder.rmdir() if folder.exists() else None
            else:
                path.write_bytes(old)
            disk = Disk(tmp_path)
            disk.fail, disk.error = number, error
            try:
                with disk.watched(monkeypatch, atomic):
                    write_atomically(path, _write)
            except UnconfirmedError as raised:
                assert _content(path) == NEW and raised.errno == error.errno
                assert f"{path} was written, but the disk did not confirm it" in str(raised)
            except (OSError, KeyboardInterrupt) as raised:
                moved = error.__class__ is KeyboardInterrupt and disk.calls and disk.calls[-1][0] == "replace"
                assert _content(path) == (NEW if moved else old)
                if isinstance(error, OSError):
                    kept = ", the earlier one is unchanged: " if old else ": "
                    assert raised.errno == error.errno and f"{path} was not written{kept}" in str(raised)
                else:
                    assert raised is error
            else:
                assert disk.fail is not None  # there were fewer calls
                break
            assert _left(tmp_path) in ([], ["file"])
            number += 1
        assert number > 8


def test_power_cut_at_any_moment(path, tmp_path, monkeypatch):
    old, before = _old(path), path.stat().st_ino if path.exists() else 0
    calls = _calls(path, tmp_path, monkeypatch)
    found = [after_power_cut(tmp_path, path, old, before, calls[:done]) for done in range(len(calls) + 1)]
    assert all(each <= {old, NEW} for each in found)
    assert found[0] == {old} and found[-1] == {NEW}  # what was written stays


@pytest.mark.parametrize("unsafe", ["file", "folder", "no move"])
def test_the_disk_notices_a_missing_step(unsafe, tmp_path, monkeypatch):
    """The model of the disk detects the damage if one of the steps is left out."""
    path = tmp_path / "file"
    path.write_bytes(OLD)
    before = path.stat().st_ino
    calls = _calls(path, tmp_path, monkeypatch)
    if unsafe == "no move":
        calls = [("write", before, 0, NEW), ("fsync", before)]
    else:
        (*rest,) = (number for number, call in enumerate(calls) if call[0] == "fsync")
        del calls[rest[0 if unsafe == "file" else -1]]
    found = [after_power_cut(tmp_path, path, OLD, before, calls[:done]) for done in range(len(calls) + 1)]
    assert not all(each <= {OLD, NEW} for each in found) or found[-1] != {NEW}
    assert (found[-1] == {OLD, NEW}) == (unsafe == "folder")


def test_folder_that_cannot_be_made_safe(path, monkeypatch):
    """Some file systems do not support fsync of a folder, and some folders cannot be read."""
    sync = os.fsync
    for number in (errno.EINVAL, errno.EACCES):

        def fsync(handle: int, number: int = number) -> None:
            if os.path.isdir(f"/proc/self/fd/{handle}") or os.fstat(handle).st_mode & 0o040000:
                raise OSError(number, os.strerror(number))
            sync(handle)

        monkeypatch.setattr(os, "fsync", fsync)
        write_atomically(path, _write)
        assert _content(path) == NEW


# ---- concurrent writers ----------------------------------------------------------------------------------------------


def _is_random(monkeypatch, *names: str) -> None:
    """Make the next temporary files have these names."""
    urandom, coming = os.urandom, [bytes.fromhex(name) for name in names]
    monkeypatch.setattr(os, "urandom", lambda size: coming.pop(0) if coming else urandom(size))


def test_planted_names_are_not_followed(tmp_path, monkeypatch):
    path, victim = tmp_path / "file", tmp_path / "victim"
    victim.write_bytes(b"precious")
    for name in ("file.tmp", "file.tmp~", ".file.tmp"):
        (tmp_path / name).symlink_to(victim)
    write_atomically(path, _write)
    planted = tmp_path / f".retrograd-{'00' * 8}.tmp"  # even if it was guessed
    planted.symlink_to(victim)
    _is_random(monkeypatch, "00" * 8)
    with pytest.raises(FileExistsError):
        write_atomically(path, _write)
    assert victim.read_bytes() == b"precious" and path.read_bytes() == NEW
    path.unlink()
    path.symlink_to(victim)
    write_atomically(path, _write)  # the link is replaced, not its target
    assert victim.read_bytes() == b"precious" and not path.is_symlink()


def test_a_writer_within_a_writer(tmp_path):
    """The last rename wins; neither writer sees or removes the other's temporary file."""
    path = tmp_path / "file"

    def outer(file) -> None:
        file.write(NEW[:100])
        write_atomically(path, lambda inner: inner.write(OLD))
        assert path.read_bytes() == OLD and len(_left(tmp_path)) == 2
        file.write(NEW[100:])

    write_atomically(path, outer)
    assert path.read_bytes() == NEW and _left(tmp_path) == ["file"]


def test_what_killed_writers_left_is_removed(tmp_path):
    code = """
import os, signal, sys
from pathlib import Path
from retrograd._files.atomic import write_atomically
write_atomically(Path(sys.argv[1]), lambda file: (file.write(b"half"), file.flush(), os.kill(os.getpid(), 9)))
"""
    path = tmp_path / "file"
    path.write_bytes(OLD)
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == -9
        assert len(_left(tmp_path)) == 2 and path.read_bytes() == OLD
    (tmp_path / "mine.tmp").write_bytes(b"another's")
    (tmp_path / ".retrograd-folder.tmp").mkdir()
    os.mkfifo(tmp_path / ".retrograd-pipe.tmp")
    write_atomically(path, _write)
    assert _left(tmp_path) == ["file", "mine.tmp"] and path.read_bytes() == NEW
    assert (tmp_path / ".retrograd-pipe.tmp").exists()


def test_file_that_is_swept_before_it_is_locked(tmp_path, monkeypatch):
    path, lock, done = tmp_path / "file", atomic.lock, []

    def late(handle: int) -> bool:
        if len(done) < 2:
            done.append(next(tmp_path.glob(".retrograd-*.tmp")))
            done[-1].unlink()
            return (
                len(done) == 2 or bool(lock(handle)) and False
            )  # removed; or locked by another process that is about to remove it
        return lock(handle)

    monkeypatch.setattr(atomic, "lock", late)
    write_atomically(path, _write)
    assert path.read_bytes() == NEW and len(done) == 2 and _left(tmp_path) == ["file"]


def test_file_system_without_locks(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def none(handle: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    (tmp_path / ".retrograd-0.tmp").write_bytes(b"perhaps another's")
    write_atomically(tmp_path / "file", _write)
    assert _left(tmp_path) == [".retrograd-0.tmp", "file"]  # it is unknown whether its writer is alive
    monkeypatch.setattr(atomic, "fcntl", None)
    write_atomically(tmp_path / "file", _write)
    assert _left(tmp_path) == [".retrograd-0.tmp", "file"]


def test_the_message_names_the_file_the_reason_and_the_way_out(tmp_path):
    """Every failure has the type and errno of the system's error, and a message about the file, not a temporary one."""
    (tmp_path / "file").write_bytes(b"")
    cases = [
        (tmp_path, IsADirectoryError, "it is a folder; give the name of a file"),
        (tmp_path / "file/new/page.html", NotADirectoryError, f"{tmp_path / 'file'} is a file, not a folder; choose"),
        (tmp_path / ("x" * 300), OSError, "its name is too long; choose a shorter one"),
    ]
    if Path("/proc/self").exists():
        cases.append((Path("/proc/page.html"), OSError, "/proc accepts no new files; choose another folder"))
    for path, kind, reason in cases:
        with pytest.raises(kind) as caught:
            write_atomically(path, _write)
        assert caught.value.errno is not None and "tmp~" not in str(caught.value)
        assert str(caught.value).startswith(f"{path} was not written: {reason}")
    assert _left(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("number", "kind", "reason"),
    [
        (errno.EACCES, PermissionError, "you have no permission to create files in"),
        (errno.EROFS, OSError, "is read-only; choose another folder"),
        (errno.EIO, OSError, "Input/output error"),
    ],
)
def test_reasons_of_a_disk(number, kind, reason, tmp_path, monkeypatch):
    def refuse(folder: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(atomic, "_create_temporary", refuse)
    with pytest.raises(kind, match=reason) as caught:
        write_atomically(tmp_path / "file", _write)
    assert caught.value.errno == number


def test_permissions_are_the_users(tmp_path):
    mask = os.umask(0o027)
    try:
        write_atomically(tmp_path / "file", _write)
    finally:
        os.umask(mask)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
