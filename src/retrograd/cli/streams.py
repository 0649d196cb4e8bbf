"""The standard streams of a command. One that cannot be written to ends the command without a traceback."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from signal import SIGPIPE
from typing import Any

__all__ = ["OutputError", "guarded"]


class OutputError(Exception):
    """The result of the command could not be written; the message says why."""


def guarded(run: Callable[[], int]) -> int:
    """The exit code of ``run``, with its streams guarded.

    Nobody reads what the command writes, as behind ``| head``: it ends at once and in silence, with the status of a
    program that SIGPIPE ended. The result cannot be written, as on a full disk: a line on stderr, and 1. What should go
    to stderr and cannot is lost, and the command goes on.
    """
    with ExitStack() as stack:
        for name, guard in (("stderr", _Notes), ("stdout", _Result)):
            stack.enter_context(_replaced(name, guard))
        try:
            try:
                code = run()
            finally:  # also after --help, which ends in SystemExit
                sys.stdout.flush()
        except BrokenPipeError:
            code = 128 + SIGPIPE
        except OutputError as error:
            with suppress(BrokenPipeError):
                print(f"retrograd: {error}", file=sys.stderr, flush=True)
            code = 1
    return code


class _Guard:
    """A stream whose errors are handled in one place."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._unread = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._handled():
            try:
                self._stream.write(text)
            except UnicodeEncodeError:  # a terminal that does not know all characters
                encoding = self._stream.encoding
                self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def flush(self) -> None:
        if self._unread:  # argparse passes over the error of its write
            raise BrokenPipeError
        with self._handled():
            self._stream.flush()

    @contextmanager
    def _handled(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self._unread = True
            raise
        except OSError as error:
            self._failed(error)

    def _failed(self, error: OSError) -> None:
        raise NotImplementedError


class _Result(_Guard):
    def _failed(self, error: OSError) -> None:
        raise OutputError(f"the output cannot be written: {error.strerror or error}") from None


class _Notes(_Guard):
    def _failed(self, error: OSError) -> None:
        """There is nobody to tell."""


@contextmanager
def _replaced(name: str, guard: type[_Guard]) -> Iterator[None]:
    before = getattr(sys, name)
    stream = io.StringIO() if before is None else before  # None: it was closed when Python started
    setattr(sys, name, guard(stream))
    try:
        yield
    finally:
        setattr(sys, name, before)
        _settle(stream)


def _settle(stream: Any) -> None:
    """Let what cannot be written go, or Python would try again when it ends, and complain."""
    try:
        stream.flush()
    except OSError:
        with suppress(OSError, io.UnsupportedOperation):
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, stream.fileno())
            os.close(nothing)
    except ValueError:  # it is closed
        pass
