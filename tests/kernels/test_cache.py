"""The compile cache: its code is executed, so it must be complete and our own."""

from __future__ import annotations

import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from retrograd.kernels.compiled.machine import cache, launch
from retrograd.kernels.compiled.machine.launch import Kernel
from retrograd.kernels.compiled.machine.object_file import is_sound

_USE = """
import numpy as np
from retrograd.kernels.compiled import relu, sqrt
x = np.array([-1, 4], np.float32)
assert relu(x).tolist() == [0, 4] and sqrt(x[1:]).tolist() == [2]
"""


def _run(folder: Path, code: str = _USE, **more: str) -> str:
    environment = {**os.environ, "RETROGRAD_CACHE_DIR": str(folder), **more}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], Path]]:
    """A function: the cache folder that is used if ``RETROGRAD_CACHE_DIR`` is the given folder."""
    (tmp_path / "tmp").mkdir(mode=0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))

    def of(folder: Path) -> Path:
        monkeypatch.setenv("RETROGRAD_CACHE_DIR", str(folder))
        cache._place.cache_clear()
        return cache._place()

    yield of
    cache._place.cache_clear()


@pytest.fixture
def own(tmp_path: Path, place: Callable[[Path], Path]) -> Path:
    return place(tmp_path / "cache")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder with the kernels that ``_USE`` runs."""
    folder = tmp_path_factory.mktemp("compiled")
    assert "compiling kernels for this CPU" in _run(folder)
    return folder


@pytest.fixture
def filled(compiled: Path, tmp_path: Path) -> Path:
    """A copy of it in ``tmp_path``."""
    shutil.copytree(compiled, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_it_is_used_and_repaired(filled: Path, tmp_path: Path) -> None:
    assert _run(tmp_path) == ""
    one, other = (next(tmp_path.rglob(name)) for name in ("pointwise_relu_f", "pointwise_sqrt_f"))
    content = bytearray(other.read_bytes())
    content[-50] ^= 1
    damaged = {one: one.read_bytes()[:-100], other: bytes(content)}
    for path, body in damaged.items():
        path.write_bytes(body)
    assert "compiling kernels" in _run(tmp_path)
    assert all(path.read_bytes() != body for path, body in damaged.items())  # both were noticed
    assert _run(tmp_path) == ""  # everything was found


def test_folder_that_cannot_be_written(compiled: Path, tmp_path: Path) -> None:
    temporary = tmp_path / f"retrograd-{os.geteuid()}"
    shutil.copytree(compiled, temporary)
    temporary.chmod(0o700)
    next(temporary.rglob("pointwise_relu_f")).unlink()
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert f"kept in {temporary})" in _run(blocked, TMPDIR=str(tmp_path))  # the one for temporary files
    assert _run(blocked, TMPDIR=str(tmp_path)) == ""


def test_user_without_a_home(place: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    place(tmp_path)
    for name in ("RETROGRAD_CACHE_DIR", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "expanduser", none)
    cache._place.cache_clear()
    assert cache.folder().parent == tmp_path / "tmp"


EDITED = "kernels/compiled/machine/simd/arithmetic.py", "kernels/compiled/convolution/direct.py", "formulas/__init__.py"


@pytest.mark.parametrize("edited", EDITED)
def test_key_depends_on_the_sources(edited: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = Path(cache.__file__).parents[3]
    for room in ("kernels", "formulas"):
        shutil.copytree(package / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    before = cache.key()
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "kernels" / "compiled" / "machine" / "cache.py"))
    cache.key.cache_clear()
    try:
        assert cache.key() == before
        with open(tmp_path / edited, "a") as file:
            file.write("# edited\n")
        cache.key.cache_clear()
        assert cache.key() != before
    finally:
        cache.key.cache_clear()


def test_key_depends_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache.key()
    cache.key.cache_clear()
    monkeypatch.setattr(cache, "cpu", lambda: ("another", "+features"))
    try:
        assert cache.key() != before
    finally:
        cache.key.cache_clear()


# ---- Other users ---------------------------------------------------------------------------------------------------


def test_its_folders_are_for_this_user_alone(own: Path, tmp_path: Path) -> None:
    assert own == tmp_path / "cache" / cache.key() and cache.folder() == own.parent
    cache.write("kernel", b"code")
    assert [path.stat().st_mode & 0o777 for path in (own.parent, own, own / "kernel")] == [0o700, 0o700, 0o600]
    assert cache.read("kernel") == b"code"


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o720, 0o1777])
@pytest.mark.parametrize("folder", ["", "key"])
def test_folder_that_others_can_write(place: Callable[[Path], Path], tmp_path: Path, capsys, mode, folder) -> None:
    chosen = tmp_path / "cache"
    refused = place(chosen)
    cache.write("kernel", b"another user's")
    (refused if folder else chosen).chmod(mode)
    used = place(chosen)
    assert used.parent.parent == tmp_path / "tmp" and cache.read("kernel") is None
    err = capsys.readouterr().err
    assert "the cache folder is not used: " in err and f"kept in {used.parent} instead" in err and "chmod go-w" in err
    (refused if folder else chosen).chmod(0o700)
    assert place(chosen) == refused and capsys.readouterr().err == ""


def test_way_that_others_can_write(place: Callable[[Path], Path], tmp_path: Path, capsys) -> None:
    above = tmp_path / "above"
    above.mkdir()
    above.chmod(0o777)
    assert tmp_path / "tmp" in place(above / "cache").parents
    assert f"not used: others may write to {above}" in capsys.readouterr().err
    (tmp_path / "link").symlink_to(above)  # a link of our own leads there
    assert tmp_path / "tmp" in place(tmp_path / "link" / "cache").parents
    above.chmod(0o1777)  # as /tmp: others cannot move what is ours
    assert place(above / "cache") == above / "cache" / cache.key()
    (tmp_path / "short").symlink_to("above/../above")
    assert place(tmp_path / "short" / "cache").samefile(above / "cache" / cache.key())


def test_group_of_one_user_is_no_stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grp, pwd = pytest.importorskip("grp"), pytest.importorskip("pwd")
    path = tmp_path / "home" / "cache" / "key"
    path.mkdir(parents=True)
    (tmp_path / "home").chmod(0o775)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: pwd.struct_passwd(("ann", "x", uid, 7, "", "/", "/")))
    for name, members, fault in (("ann", [], ""), ("ann", ["ann", "bob"], "others may"), ("staff", [], "others may")):
        monkeypatch.setattr(grp, "getgrgid", lambda gid, it=(name, members): grp.struct_group((it[0], "x", gid, it[1])))
        assert fault in cache.tampering_risk(path) and bool(fault) == bool(cache.tampering_risk(path))


def test_folder_and_files_of_another_user(
    place: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    used = place(tmp_path / "cache")
    cache.write("kernel", b"another user's")
    with monkeypatch.context() as patch:
        stranger = os.geteuid() + 1
        patch.setattr(os, "geteuid", lambda: stranger)
        assert cache.read("kernel") is None
        assert "belongs to another user" in cache.tampering_risk(used)
        place(tmp_path / "cache")
        assert "belongs to another user" in capsys.readouterr().err and cache.read("kernel") is None


def test_link_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may lead to a folder of our own, with files that came from elsewhere."""
    path = tmp_path / "cache" / "key"
    path.mkdir(parents=True)
    link = tmp_path / "link"
    link.symlink_to(path.parent)
    assert cache.tampering_risk(link / "key") == ""
    lstat = os.lstat
    foreign = os.stat_result([*lstat(link)[:4], 12345, *lstat(link)[5:]])
    monkeypatch.setattr(os, "lstat", lambda each: foreign if each == link else lstat(each))
    assert cache.tampering_risk(link / "key") == f"{link} belongs to another user"
    monkeypatch.undo()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(OSError, match="symbolic links"):
        cache.tampering_risk(tmp_path / "loop" / "key")


@pytest.mark.parametrize("plant", ["open", "link", "file"])
def test_planted_temporary_folder(place: Callable[[Path], Path], tmp_path: Path, capsys, plant: str) -> None:
    """Other users can guess its name, and create it first."""
    (tmp_path / "file").write_text("where no folder can be")
    planted = place(tmp_path / "file").parent
    cache.write("kernel", b"another user's")
    if plant == "open":
        planted.chmod(0o777)
    else:
        planted.rename(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").chmod(0o777)
        planted.symlink_to(tmp_path / "elsewhere") if plant == "link" else planted.write_text("")
    used = place(tmp_path / "file")
    assert used.parent.parent == tmp_path / "tmp" and used.parent != planted and used.parent.stat().st_mode & 0o77 == 0
    assert ("the cache folder is not used" in capsys.readouterr().err) == (plant != "file")
    assert cache.read("kernel") is None


def test_private_folder_is_shared_with_helpers_and_removed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("where no folder can be")
    (tmp_path / f"retrograd-{os.geteuid()}").write_text("nor here")
    code = """
from retrograd.kernels.compiled.machine import cache, precompile
precompile._start().communicate("pointwise.sqrt f\\n")
assert cache.read("pointwise_sqrt_f")
"""
    _run(tmp_path / "file", code, TMPDIR=str(tmp_path))
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("plant", ["others", "group", "link", "pipe", "folder"])
def test_file_that_is_not_ours_alone(own: Path, plant: str) -> None:
    path, elsewhere = own / "kernel", own / "elsewhere"
    cache.write("kernel", b"code")
    if plant in ("others", "group"):
        path.chmod(0o606 if plant == "others" else 0o660)
    else:
        path.rename(elsewhere)
        {"link": lambda: path.symlink_to(elsewhere), "pipe": lambda: os.mkfifo(path), "folder": path.mkdir}[plant]()
    before = elsewhere.read_bytes() if elsewhere.exists() else b""
    assert cache.read("kernel") is None
    cache.write("kernel", b"compiled again")
    assert plant == "folder" or (cache.read("kernel") == b"compiled again" and path.stat().st_mode & 0o777 == 0o600)
    assert not before or elsewhere.read_bytes() == before


def test_killed_writers_leave_nothing_for_long(own: Path) -> None:
    old, young = own / "old.tmp", own / "young.tmp"
    for path in (old, young):
        path.write_bytes(b"half a fi")
    os.utime(old, (time.time() - 4000,) * 2)
    cache._sweep.cache_clear()
    cache.write("kernel", b"code")
    assert {path.name for path in own.iterdir()} == {"kernel", "young.tmp"}


# ---- content -------------------------------------------------------------------------------------------------------


def test_file_of_another_kernel_or_key_is_damage(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write("kernel", b"code")
    (own / "other").write_bytes((own / "kernel").read_bytes())
    assert cache.read("other") is None
    monkeypatch.setattr(cache, "key", lambda: "f" * 16)
    assert cache.read("kernel") is None


@pytest.fixture(scope="module")
def code() -> bytes:
    """An object file with a table of constants, a function from outside, and relocations."""
    return _code(Kernel("pointwise.power"), "f")


def _code(kernel: Kernel, dtype: str) -> bytes:
    """The object file that ``make test`` has compiled, else a new one."""
    return (cache.read(kernel.symbol(dtype)) or kernel.compile(dtype)).partition(b"\n")[2]


_SYMBOL = "pointwise_power_f"


def test_what_was_compiled_is_sound(code: bytes) -> None:
    launch.Kernel("pointwise.sqrt")["f"]  # names from outside are known once there is an engine
    assert is_sound(code, _SYMBOL) and not is_sound(code, "elementwise_powe") and not is_sound(code, "memset")
    for path in (
        "pointwise.exp",
        "pointwise.pow",
        "pooling.avg_pool",
        "convolution.planar.weight_grad",
    ):
        handle = Kernel(path)
        assert is_sound(_code(handle, "d"), handle.symbol("d"))


def test_what_is_cut_off_is_not_sound(code: bytes) -> None:
    assert not any(is_sound(code[:length], _SYMBOL) for length in range(0, len(code), 7))
    assert not is_sound(random.Random(0).randbytes(4000), _SYMBOL)
    assert not is_sound(code[:64] + bytes(len(code) - 64), _SYMBOL)


_IR = """
@table = internal constant [4 x double] [double 1.0, double 2.0, double 3.5, double 7.0]
declare double @sin(double)
define double @kernel(i64 %i) {
  %p = getelementptr [4 x double], ptr @table, i64 0, i64 %i
  %x = load double, ptr %p
  %y = call double @sin(double %x)
  ret double %y
}
"""


@pytest.mark.parametrize(
    ("triple", "system", "machine"),
    [
        ("aarch64-unknown-linux-gnu", "linux", "aarch64"),
        ("x86_64-unknown-linux-gnu", "linux", "x86_64"),
        ("arm64-apple-darwin", "darwin", "arm64"),
        ("x86_64-apple-darwin", "darwin", "x86_64"),
    ],
)
def test_other_systems(monkeypatch: pytest.MonkeyPatch, triple: str, system: str, machine: str) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(_IR)
    module.triple = triple
    target = llvm.Target.from_triple(triple)
    code = target.create_target_machine(opt=3, reloc="default", codemodel="jitdefault").emit_object(module)
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(llvm, "address_of_symbol", lambda name: 1 if name == "sin" else None)
    assert is_sound(code, "kernel") and not is_sound(code, "sin")
    assert not any(is_sound(code[:length], "kernel") for length in range(len(code)))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64" if machine != "x86_64" else "arm64")
    assert not is_sound(code, "kernel")
    monkeypatch.setattr(sys, "platform", "win32")
    assert is_sound(code, "kernel") and not is_sound(b"", "kernel")  # not looked into


@pytest.mark.usefixtures("filled")
def test_malformed_object_with_a_right_digest_is_compiled_again(tmp_path: Path) -> None:
    """LLVM would end the process."""
    plant = """
from retrograd.kernels.compiled.machine import cache
broken = {
    "pointwise_relu_f": lambda code: code[:60] + b"\\xff" + code[61:],
    "pointwise_sqrt_f": lambda code: code[:-1],
    "pool_launch": lambda code: bytes(range(256)) * 9,
}
for name, damage in broken.items():
    note, line, code = cache.read(name).partition(b"\\n")
    cache.write(name, note + line + damage(code))
"""
    _run(tmp_path, plant)
    assert "compiling kernels" in _run(tmp_path)
    assert _run(tmp_path) == ""


_MUTATE = """
import os, random, sys
from retrograd.kernels.compiled.machine import cache, launch
from retrograd.kernels.compiled.machine.object_file import is_sound
seed, count = map(int, sys.argv[1:])
paths = "pointwise.power", "pointwise.exp", "matmul.multiply", "memory.moves.copy"
kernels = [launch.Kernel(path) for path in paths]
contents = [(kernel.symbol("f"), cache.read(kernel.symbol("f")) or kernel.compile("f")) for kernel in kernels]
objects = [(name, content.partition(b"\\n")[2]) for name, content in contents]
engine, random, accepted = launch._Engine(), random.Random(seed), 0
for name, code in objects:
    engine.add(code, name)
for _ in range(count):
    name, code = random.choice(objects)
    mutated, kind = bytearray(code), random.randrange(4)
    place = random.randrange([len(code), 64, 1400, len(code)][kind]) % len(code)
    if kind == 0:
        del mutated[place:]
    elif kind == 1:
        mutated[place] = random.randrange(256)
    elif kind == 2:
        mutated[-1 - place] ^= 1 << random.randrange(8)
    else:
        piece = random.randbytes(random.randrange(1, 17))
        mutated[place : place + len(piece)] = piece
    if is_sound(bytes(mutated), name):
        accepted += 1
        if not (child := os.fork()):
            os._exit(0 if engine.add(bytes(mutated), name) else 1)
        assert os.waitpid(child, 0)[1] == 0, (name, kind, place)
assert count // 4 < accepted < count, accepted  # damage in machine code and constants cannot be detected
"""


@pytest.mark.skipif(sys.platform != "linux", reason="forks, and knows ELF")
@pytest.mark.parametrize("count", [200, pytest.param(20_000, marks=pytest.mark.nightly)])
def test_what_is_found_sound_does_not_end_the_process(count: int) -> None:
    command = [sys.executable, "-c", _MUTATE, "1", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stderr
