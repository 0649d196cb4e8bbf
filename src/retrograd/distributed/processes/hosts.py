"""Machines that processes are started on, and which of them answer."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

__all__ = ["Host", "answering", "as_hosts"]

_LIMIT = 10.0  # seconds to answer


class Host(NamedTuple):
    """A machine, and how many processes it takes."""

    name: str
    slots: int

    def __str__(self) -> str:
        return f"{self.name}:{self.slots}"


def as_hosts(text: str) -> list[Host]:
    """The machines of ``"a:4,b:4"``; one that says no number takes one process.

    Raises:
        ValueError: a name is missing or stands twice, or a number is not positive.
    """
    found = []
    for word in text.split(","):
        name, colon, slots = word.strip().partition(":")
        if not name or (colon and not (slots.isdecimal() and int(slots))):
            raise ValueError(f"launch: hosts={text!r}: {word!r} must be NAME or NAME:PROCESSES")
        found.append(Host(name, int(slots or 1)))
    if len({host.name for host in found}) < len(found):
        raise ValueError(f"launch: hosts={text!r} names a machine twice; give it once, with the sum")
    return found


def answering(hosts: Sequence[Host], agent: str) -> list[Host]:
    """Those on which `agent` can run a command. This machine is taken to answer."""
    with ThreadPoolExecutor(len(hosts)) as pool:
        found = pool.map(lambda host: _answers(host.name, agent), hosts)
        return [host for host, answers in zip(hosts, found, strict=True) if answers]


def _answers(name: str, agent: str) -> bool:
    here = socket.gethostname()
    if name in ("localhost", "127.0.0.1", here, here.partition(".")[0]):
        return True
    nowhere = subprocess.DEVNULL
    try:
        ended = subprocess.run(
            [*agent.split(), name, "true"], stdin=nowhere, stdout=nowhere, stderr=nowhere, timeout=_LIMIT, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0
