"""Output of the commands: usage errors, messages, and guarded standard streams."""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from signal import SIGPIPE
from typing import Any, NoReturn

from .._files.terminal import printable

__all__ = [
    "OutputError",
    "Parser",
    "UsageError",
    "as_typed",
    "complain",
    "guarded",
    "option",
    "options_for",
    "options_set",
    "say",
    "use_threads",
]


# ---- Usage errors, and output on stdout and stderr ------------------------------------------------------------------


class UsageError(Exception):
    """Invalid arguments, or an invalid combination of arguments."""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are UsageErrors, in one line, in the words of the other messages."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(_reworded(message, self.prog))


_REWORDED = (  # argparse's messages
    (r"argument (\S+): invalid int value: (.*)", r"\1 \2 must be a whole number"),
    (r"argument (\S+): invalid float value: (.*)", r"\1 \2 must be a number"),
    (r"argument (\S+): expected .*argument.*", r"\1 needs a value"),
    (r"argument (\S+): not allowed with argument (\S+)", r"\2 and \1 exclude each other; leave one out"),
    (r"argument (\S+): (.*)", r"\1: \2"),
    (r"ambiguous option: (.*) could match (.*)", r"\1 could be \2; write it in full"),
    (r"the following arguments are required: ([^,]*).*", r"\1 is missing"),
)


def _reworded(message: str, program: str) -> str:
    choice = re.fullmatch(r"argument (\S+): invalid choice: (.*?) \(choose from (.*)\)", message, re.DOTALL)
    if choice is not None:
        *names, last = choice[3].replace("'", "").split(", ")
        return f"{choice[1]} {choice[2]} must be {', '.join(names)} or {last}"
    for pattern, words in _REWORDED:
        if re.fullmatch(pattern, message, re.DOTALL):
            message = re.sub(pattern, words, message, flags=re.DOTALL)
            break
    return message if ";" in message else f"{message}; see {program} --help"


def complain(message: str, code: int) -> int:
    """Print a line on stderr and return the exit code."""
    print(printable(f"retrograd: {message}"), file=sys.stderr, flush=True)
    return code


def say(text: str) -> None:
    """Print a part of the command's result on stdout; control characters in names and text are escaped."""
    print(printable(text), flush=True)


def options_set(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Return the options set by the user."""
    return {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}


def option(name: str, value: Any) -> str:
    """Format an option as it is written on the command line."""
    return f"--no-{name}" if value is False else f"--{name.replace('_', '-')}"


def options_for(kind: str, arguments: argparse.Namespace, kinds: Mapping[str, Collection[str]], why: str = "") -> Any:
    """Return the options set by the user as a dict: those of this kind of use.

    kinds: the names of the options of each kind. why: the clause of the message before the advice.

    Raises:
        UsageError: an option is for other kinds only.
    """
    own = kinds.get(kind, ())
    for other, names in kinds.items():
        for name, value in options_set(arguments, [name for name in names if name not in own]).items():
            raise UsageError(f"{option(name, value)} is for {other}; {why}leave it out")
    return options_set(arguments, tuple(own))


def as_typed(error: Exception, arguments: argparse.Namespace, words: Mapping[str, str] | None = None) -> str:
    """Return the message of an error with the option as it is typed: "batch_size=0 must" as "--batch-size 0 must".

    arguments: of the command; other names, such as those of columns, stay as they are.
    words: what to write for names that are not options.
    """
    found = re.match(r"(?:[\w.]+: )?([a-z][a-z_-]*)=(\S+)", str(error))
    if found is None or found[1].replace("-", "_") not in {*vars(arguments), *(words or {})}:
        return str(error)
    value = found[2]
    with suppress(ValueError):
        value = value if value.lstrip("-").isdigit() else f"{float(value):g}"
    return f"{(words or {}).get(found[1], option(found[1], None))} {value}{str(error)[found.end() :]}"


def use_threads(count: int | None) -> None:
    """Use this many threads for the compiled kernels, if a number is given.

    Raises:
        UsageError: it is out of range.
    """
    if count is None:
        return
    from ..kernels.compiled.machine.launch import MOST_THREADS, set_num_threads

    if not 1 <= count <= MOST_THREADS:
        raise UsageError(f"--threads {count} must be from 1 to {MOST_THREADS}")
    set_num_threads(count)


# ---- Standard streams of a command: write errors end it without a traceback -----------------------------------------


class OutputError(Exception):
    """The result of the command could not be written; the message says why."""


def guarded(run: Callable[[], int]) -> int:
    """Return the exit code of ``run``, with its streams guarded.

    If the reader closes the pipe, as in ``| head``, the command exits silently with the status of SIGPIPE. If the
    result cannot be written, as on a full disk, it prints a line on stderr and exits with 1. Failed writes to stderr
    are ignored.
    """
    with ExitStack() as stack:
        for name, guard in (("stderr", _StderrGuard), ("stdout", _StdoutGuard)):
            stack.enter_context(_replaced(name, guard))
        try:
            try:
                code = run()
            finally:  # also after --help, which raises SystemExit
                sys.stdout.flush()
        except BrokenPipeError:
            code = 128 + SIGPIPE
        except OutputError as error:
            with suppress(BrokenPipeError):
                print(f"retrograd: {error}", file=sys.stderr, flush=True)
            code = 1
    return code


class _Guard:
    """A stream whose write errors are handled in one place."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._pipe_is_closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._handled():
            try:
                self._stream.write(text)
            except UnicodeEncodeError:  # the encoding lacks some characters
                encoding = self._stream.encoding
                self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def flush(self) -> None:
        if self._pipe_is_closed:  # argparse ignores its own write errors
            raise BrokenPipeError
        with self._handled():
            self._stream.flush()

    @contextmanager
    def _handled(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self._pipe_is_closed = True
            raise
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        raise NotImplementedError


class _StdoutGuard(_Guard):
    def _failed(self, error: OSError) -> None:
        raise OutputError(f"the output cannot be written: {error.strerror or error}") from None


class _StderrGuard(_Guard):
    def _failed(self, error: OSError) -> None:
        """Ignore the error: there is nowhere to report it."""


@contextmanager
def _replaced(name: str, guard: type[_Guard]) -> Iterator[None]:
    before = getattr(sys, name)
    stream = io.StringIO() if before is None else before  # None: the stream was closed when Python started
    setattr(sys, name, guard(stream))
    try:
        yield
    finally:
        setattr(sys, name, before)
        _discard_unwritten(stream)


def _discard_unwritten(stream: Any) -> None:
    """Discard unwritten output. Otherwise Python would try to flush it at exit and report an error."""
    try:
        stream.flush()
    except OSError:
        with suppress(OSError, io.UnsupportedOperation):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
    except ValueError:  # the stream is closed
        pass
