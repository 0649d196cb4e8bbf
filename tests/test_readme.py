"""Everything in README.md runs: each command of a ``sh`` block, each ``pycon`` session, each ``python`` program."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from data.drawn import draw_folder

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
COMMANDS = [line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines() if line.strip()]
SESSIONS = [text for kind, text in BLOCKS if kind == "pycon"]
PROGRAMS = [text for kind, text in BLOCKS if kind == "python"]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
TARGETS = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
RETROGRAD = [sys.executable, "-m", "retrograd"]  # is the same, whether or not the script is on the path


def test_every_block_is_of_a_kind_that_runs() -> None:
    assert {kind for kind, _ in BLOCKS} <= {"sh", "pycon", "python"}
    assert COMMANDS and SESSIONS and PROGRAMS


def test_first_screen() -> None:
    """One sentence, how to install it, the page, the picture of speed, and a gradient that is opened and changed."""
    first, rest = README.split("\n## ", 1)
    title, sentence, install, page, _, speed = first.split("\n\n")[:6]
    assert title == "# retrograd"
    assert sentence.count(". ") == 0 and sentence.endswith(".")
    assert install.startswith("```sh\npip install ") and install.count("\n") == 2
    paths = [path for text in (page, speed) for path in re.findall(r"^!\[[^]]{40,}\]\((.*)\)$", text)]
    assert paths == ["docs/static/explain.png", "docs/static/speed.svg"]  # see test_picture.py
    assert all((ROOT / path).stat().st_size < 120_000 for path in paths)  # readme_picture.py draws the first
    assert first.index(SESSIONS[0]) < first.index(SESSIONS[1])
    assert "conv2d" in SESSIONS[0] and "backward_source" in SESSIONS[0] and "override_backward" in SESSIONS[1]
    assert first.count("\n") <= 60
    assert rest.startswith("What it is not")


def _build_on_each_other(earlier: str, later: str) -> bool:
    """Whether one command needs what another leaves in its folder (train, then resume)."""
    before, words = (shlex.split(line, comments=True) for line in (earlier, later))
    return before[:2] == ["retrograd", "train"] and any(word.startswith("runs/") and word in words for word in before)


# what a later one builds on runs before that one
LAST = [
    command
    for n, command in enumerate(COMMANDS)
    if not any(_build_on_each_other(command, later) for later in COMMANDS[n + 1 :])
]


@pytest.mark.parametrize("command", LAST)
def test_command(command: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    words = shlex.split(command, comments=True)
    if words[0] == "make":
        assert words[1] in TARGETS, f"the Makefile has no target {words[1]!r}"
        return
    if words[0] == "pip":
        assert words[1] == "install"
        path, _, extras = words[2].rstrip("]").partition("[")
        assert path == "." and set(filter(None, extras.split(","))) <= set(EXTRAS)
        return
    assert words[0] == "retrograd", f"no way to run {command!r}"
    if words[1] == "launch":
        return  # test_several_processes_print_the_same
    if "--workers" in words:
        request.getfixturevalue("mpi")
    draw_folder(tmp_path / "photos", 6, ("cat", "dog"))  # any folder of class folders
    for line in COMMANDS[: COMMANDS.index(command)]:
        if _build_on_each_other(line, command):
            _run([*RETROGRAD, *shlex.split(line, comments=True)[1:]], tmp_path)
    _run([*RETROGRAD, *words[1:]], tmp_path)


def _run(command: list[str], folder: Path) -> str:
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert run.returncode == 0, f"{command} ended with {run.returncode}:\n{run.stdout}\n{run.stderr}"
    return run.stdout


@pytest.mark.usefixtures("mpi")
def test_several_processes_print_the_same(tmp_path: Path) -> None:
    """The program of "Many machines", by its command and by itself: what it prints has every digit of two numbers."""
    (command,) = (shlex.split(line, comments=True) for line in COMMANDS if line.startswith("retrograd launch"))
    (program,) = (text for text in PROGRAMS if "init_process_group" in text)
    (tmp_path / command[-1]).write_text(program, encoding="utf-8")
    alone = _run([sys.executable, command[-1]], tmp_path)
    assert re.fullmatch(r"loss \d\.\d{8,}, a weight -?\d\.\d{8,}\S*\n", alone), alone
    assert _run([*RETROGRAD, *command[1:]], tmp_path) == alone


@pytest.mark.parametrize("index", range(len(SESSIONS)))
def test_session(index: int) -> None:
    # a session goes on with the names of those before it
    names: dict[str, object] = {}
    for number, text in enumerate(SESSIONS[: index + 1]):
        test = doctest.DocTestParser().get_doctest(text, names, f"README session {number + 1}", "README.md", 0)
        runner = doctest.DocTestRunner(verbose=False)
        report: list[str] = []
        runner.run(test, out=report.append, clear_globs=False)
        names = test.globs
        assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize("index", range(len(PROGRAMS)))
def test_program(index: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(PROGRAMS[index], f"README program {index + 1}", "exec"), {"__name__": "__main__"})
