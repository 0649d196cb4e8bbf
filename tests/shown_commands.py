"""Runs the commands that README.md and the pages of docs/ show in ``sh`` blocks."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
TARGETS = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
RETROGRAD = [sys.executable, "-m", "retrograd"]  # works whether or not the script is on the path


def blocks(text: str) -> list[tuple[str, str]]:
    """Return (language, source) of each code block."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[str]:
    """Return the lines of the ``sh`` blocks."""
    return [line for kind, code in blocks(text) if kind == "sh" for line in code.splitlines() if line.strip()]


def last_of_each_chain(shown: list[str]) -> list[str]:
    """Return the commands except those that a later command depends on: these run before it."""
    return [each for n, each in enumerate(shown) if not any(_builds_on(each, later) for later in shown[n + 1 :])]


def _builds_on(earlier: str, later: str) -> bool:
    """Return whether a command needs the output files of an earlier one, as resuming needs training."""
    before, words = (shlex.split(line, comments=True) for line in (earlier, later))
    if before[:3] == ["retrograd", "sample", "photos"]:
        return any(word.split("/")[0] == "photos" for word in words)
    return before[:2] == ["retrograd", "train"] and any(word.startswith("runs/") and word in words for word in before)


def needs_mpi(command: str) -> bool:
    return "--workers" in shlex.split(command, comments=True)


def check(command: str, shown: list[str], folder: Path) -> None:
    """Run a command in a folder, after those of ``shown`` that it depends on; of make and pip, only check names."""
    words = shlex.split(command, comments=True)
    if words[0] == "make":
        assert words[1] in TARGETS, f"the Makefile has no target {words[1]!r}"
        return
    if words[0] == "pip":
        assert words[1] == "install"
        package, _, extras = words[2].rstrip("]").partition("[")
        assert package in (".", "retrograd") and set(filter(None, extras.split(","))) <= set(EXTRAS)
        return
    assert words[0] == "retrograd", f"no way to run {command!r}"
    if words[1] == "launch":
        return  # needs a program: test_several_processes_print_the_same in test_docs.py
    for line in shown[: shown.index(command)]:
        if _builds_on(line, command):
            run([*RETROGRAD, *shlex.split(line, comments=True)[1:]], folder)
    serves = words[1] == "explain" and not {"--html", "--list"} & set(words)
    run([*RETROGRAD, *words[1:], *(["--html", "page.html"] if serves else [])], folder)


def run(command: list[str], folder: Path) -> str:
    """Run a command with warnings as errors, and return its output."""
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert ended.returncode == 0, f"{command} ended with {ended.returncode}:\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout
