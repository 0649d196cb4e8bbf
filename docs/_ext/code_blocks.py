"""Runs the code of a page: ``pycon`` sessions, ``python`` programs and ``console`` commands."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import tempfile
from pathlib import Path
from typing import Any

import console

_FILE = re.compile(r"# (\w+\.py)\n")  # the first line of a program that is written to a file, for a command
_BLOCK = re.compile(r"^```([^`\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(text: str, name: str) -> list[str]:
    """Run the ``pycon`` sessions and ``python`` programs of a page, in one namespace, and return the failures.

    They run in a temporary folder, so a page may write files. Output of a program is not compared. Code that cannot run
    on its own belongs in a block of another kind, such as ``text``. A program whose first line is ``# NAME.py`` is not
    run but written to that file, for the commands of ``console`` blocks; tests run the commands of ``sh`` blocks. In
    ``console`` blocks and behind ``# doctest: +MEASURED`` the numbers of the output may differ, and a build shows those
    of its own run.
    """
    return measured_page(text, name)[1]


def measured_page(text: str, name: str) -> tuple[str, list[str]]:
    """Run a page; return it with the measured numbers of this run, and the failures."""
    measured: list[tuple[str, str]] = []
    quiet = io.StringIO()
    silent = contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), silent[0], silent[1]:
        faults = run_blocks(text, name, measured)
    for before, after in measured:
        text = text.replace(before, after, 1)
    return text, faults


_MEASURED = doctest.register_optionflag("MEASURED")


class _Checker(doctest.OutputChecker):
    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if optionflags & _MEASURED:
            want, got = map(console.without_numbers, (want, got))
        return super().check_output(want, got, optionflags)


class _Runner(doctest.DocTestRunner):
    """Appends each measured example to a list: its code with the shown output, and with that of the run."""

    def __init__(self, measured: list[tuple[str, str]]) -> None:
        super().__init__(_Checker(), verbose=False)
        self._measured = measured

    def report_success(self, out: Any, test: doctest.DocTest, example: doctest.Example, got: str) -> None:
        if _MEASURED in example.options:
            last = example.source.splitlines(keepends=True)[-1]
            self._measured.append((last + example.want, last + got))


def run_blocks(text: str, name: str, measured: list[tuple[str, str]]) -> list[str]:
    names: dict[str, Any] = {"__name__": "__main__"}
    faults: list[str] = []
    for number, (kind, code) in enumerate(_BLOCK.findall(text), 1):
        where = f"{name}, block {number}"
        if kind == "pycon":
            test = doctest.DocTestParser().get_doctest(code, names, where, name, 0)
            _Runner(measured).run(test, out=faults.append, clear_globs=False)
            names = test.globs
        elif kind == "console":
            faults += console.run_console(code, where, measured)
        elif kind == "python" and (file := _FILE.match(code)):
            Path(file[1]).write_text(code, encoding="utf-8")
        elif kind == "python":
            try:
                exec(compile(code, where, "exec"), names)
            except Exception as error:
                faults.append(f"{where}: {type(error).__name__}: {error}")
    return faults
