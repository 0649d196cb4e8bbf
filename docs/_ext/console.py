"""Runs the ``console`` blocks of a page: commands after ``$``, each followed by the standard output that it writes."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys

_COMMAND = re.compile(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_NUMBER = re.compile(r"\d+(,\d{3})*(\.\d+)?")
_PROGRAMS = {"retrograd": [sys.executable, "-m", "retrograd"], "python": [sys.executable]}
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def without_numbers(text: str) -> str:
    """Return a text with 0 in place of every number, to compare outputs whose numbers may differ."""
    return _NUMBER.sub("0", text)


def run_console(code: str, where: str, measured: list[tuple[str, str]]) -> list[str]:
    """Run the commands of a block in the current folder and return the failures.

    Numbers may differ from those of the page, and ``...`` stands for any text. To ``measured`` it appends each command
    with the shown output, and with that of this run.
    """
    faults = []
    for command, shown in _COMMAND.findall(code):
        name, *arguments = shlex.split(command, comments=True)
        if name not in _PROGRAMS:
            return [f"{where}: {name!r} is not one of the commands that a page can run: {', '.join(_PROGRAMS)}"]
        environment = {**os.environ, "PYTHONWARNINGS": "error", "COLUMNS": "80"}
        ended = subprocess.run(
            [*_PROGRAMS[name], *arguments], env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        if ended.returncode:
            return [f"{where}: {command} ended with {ended.returncode}\n{ended.stdout}{ended.stderr}"]
        want, got = map(without_numbers, (shown, ended.stdout))
        if not doctest.OutputChecker().check_output(want, got, _FLAGS):
            faults.append(f"{where}: {command} printed\n{ended.stdout}instead of\n{shown}")
        else:
            measured.append((f"$ {command}\n{shown}", f"$ {command}\n{ended.stdout}"))
    return faults
