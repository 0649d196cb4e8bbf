"""Runs lines of code in forked children, with time and memory limits, and classifies the outcomes."""

from __future__ import annotations

import ast
import json
import os
import random
import re
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import retrograd as rg

from .draw import draw_call
from .targets import Target, targets
from .values import namespace_of

BATCH = 40  # calls of a child
MEMORY = 3 << 30  # bytes that a child may add
FAULTS = ("HANG", "CRASH", "INTERNAL")
# raised by Python or NumPy where the code has gone wrong; as arguments of a raise statement they are messages
_INTERNAL = (
    AttributeError,
    OverflowError,
    RecursionError,
    SystemError,
    NameError,
    KeyError,
    AssertionError,
    UnicodeError,
    BufferError,
    StopIteration,
)
_PACKAGE = str(Path(rg.__file__).parent)
_BINDING = re.compile(r"(\S+)\(\) (got|missing|takes|multiple)")


@dataclass(frozen=True)
class Finding:
    """One outcome. ``where`` is the place in the package that it came from; ``code`` repeats it."""

    kind: str  # "OK", "REFUSED", or what is wrong
    target: str
    code: str
    text: str = ""
    where: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.where or self.target}\n    {self.code}\n    {self.text[:300]}"


def run_drawn(calls: int, seed: int, limit: float = 20.0, pattern: str = "", peer: bool = True) -> Iterator[Finding]:
    """The outcomes of ``calls`` drawn calls; ``pattern`` chooses targets by their code."""
    found = [target for target in targets() if re.search(pattern, target.code)]
    rng = random.Random(seed)
    drawn: list[Target] = []
    while len(drawn) < calls:
        drawn += rng.sample(found, min(len(found), calls - len(drawn)))
    jobs = [(target, draw_call(target, rng)) for target in drawn]
    for start in range(0, calls, BATCH):
        batch = jobs[start : start + BATCH]
        shared = [job for job in batch if not job[0].sets]
        yield from run_lines(shared, limit, peer)
        for job in batch:
            if job[0].sets:
                yield from run_lines([job], limit, peer)


def run_lines(jobs: list[tuple[Target, str]], limit: float = 20.0, peer: bool = True) -> Iterator[Finding]:
    """The outcome of each line; a child that hangs or dies is replaced, and goes on with the next line."""
    while jobs:
        done = 0
        for finding in _child(jobs, limit, peer):
            done += 1
            yield finding
        jobs = jobs[done:]


def _child(jobs: list[tuple[Target, str]], limit: float, peer: bool) -> Iterator[Finding]:
    """The findings of one child, which ends with its first hang or crash."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _work(jobs, writing, peer)
    os.close(writing)
    done = 0
    ended = False
    with os.fdopen(reading, "rb") as pipe:
        while done < len(jobs):
            ready, _, _ = select.select([pipe], [], [], limit)
            line = pipe.readline() if ready else b""
            if line.endswith(b"\n"):
                done += 1
                yield Finding(**json.loads(line))
                continue
            if not ready:
                os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            ended = True
            target, code = jobs[done]
            if not ready:
                yield Finding("HANG", target.code, code, f"no result within {limit:g} s")
            else:
                yield Finding("CRASH", target.code, code, f"the process ended with status {status}")
            break
    if not ended:
        os.waitpid(pid, 0)


def _work(jobs: Iterable[tuple[Target, str]], writing: int, peer: bool) -> None:
    """What a child does: never returns."""
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for target, code in jobs:
            finding = outcome(target, code, peer)
            os.write(writing, json.dumps(asdict(finding)).encode() + b"\n")
    os._exit(0)


def outcome(target: Target, code: str, peer: bool = True) -> Finding:
    """Runs one line in this process."""
    leaves: list[Any] = []
    names = namespace_of(rg, lambda x: x.requires_grad_(), leaves)
    warned: list[str] = []
    try:
        compiled = compile(code, "<drawn>", "eval")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.showwarning = lambda message, *_: warned.append(str(message))  # type: ignore[assignment]
            warnings.filterwarnings("always", category=RuntimeWarning)
            result = eval(compiled, names)
    except MemoryError:
        return Finding("REFUSED", target.code, code, "MemoryError")
    except BaseException as error:  # SystemExit too
        return _judged(target, code, error)
    if peer:
        from . import peer as comparison

        difference = comparison.difference(code, result, leaves)
        if difference:
            kind, text = difference
            return Finding(f"DIFFERS {kind}", target.code, code, text, target.code)
    if warned:
        return Finding("WARNED", target.code, code, warned[0], target.code)
    return Finding("OK", target.code, code)


def _judged(target: Target, code: str, error: BaseException) -> Finding:
    """Which class an exception belongs to, by the place that raised it and by what it says."""
    frames = traceback.extract_tb(error.__traceback__)
    text = f"{type(error).__name__}: {_first_line(error)}"
    ours = [frame for frame in frames if frame.filename.startswith(_PACKAGE)]
    innermost = frames[-1]
    if not ours:  # raised by the line itself
        binding = _BINDING.match(str(error))
        known = (target.name, target.called, "__init__", "__new__", "__call__")
        wrong = target.kind == "function" and binding and binding[1].rpartition(".")[2] not in known
        kind = "BINDING" if wrong and innermost.filename == "<drawn>" else "REFUSED"
        return Finding(kind, target.code, code, text, target.code)
    last = ours[-1]
    where = f"{last.filename.removeprefix(_PACKAGE).lstrip('/')}:{last.name}:{last.lineno} {type(error).__name__}"
    if not isinstance(error, Exception):
        return Finding("INTERNAL", target.code, code, text, where)
    if innermost is last and last.lineno in _raising(last.filename):
        return Finding("REFUSED", target.code, code, text)
    if innermost.filename.endswith(("fuzz/values.py", "fuzz/run.py")) or innermost.filename == "<drawn>":
        return Finding("REFUSED", target.code, code, text)  # raised by a callable of the line
    if isinstance(error, _INTERNAL):
        return Finding("INTERNAL", target.code, code, text, where)
    message = str(error)
    binding = _BINDING.match(message)
    if binding and isinstance(error, TypeError):
        if binding[1].endswith("<lambda>") and "lambda" in code:  # a callable of the line
            return Finding("REFUSED", target.code, code, text)
        named = binding[1].rpartition(".")[2] in (target.name, target.called)
        return Finding("REFUSED" if named else "BINDING", target.code, code, text, where)
    if any(
        re.search(rf"\b{re.escape(name)}\b", message)
        for name in (target.name, target.called, *target.signature.parameters)
        if name
    ):
        return Finding("REFUSED", target.code, code, text)
    return Finding("LEAK", target.code, code, text, where)


def _first_line(error: BaseException) -> str:
    try:
        return str(error).partition("\n")[0][:300]
    except Exception as failed:
        return f"<str() raises {type(failed).__name__}>"


@cache
def _raising(path: str) -> frozenset[int]:
    """The lines of raise statements in a file."""
    if not Path(path).is_file():
        return frozenset()
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    return frozenset(
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    )


def report(findings: Iterable[Finding], write: Callable[[str], Any] = print) -> dict[str, int]:
    """Write the findings grouped by place, the worst first, and return how many there are of each kind."""
    counts: dict[str, int] = {}
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        counts[finding.kind] = counts.get(finding.kind, 0) + 1
        if finding.kind not in ("OK", "REFUSED"):
            groups.setdefault((finding.kind, finding.where or finding.target), []).append(finding)
    order = [*FAULTS, "BINDING", "LEAK"]

    def rank(item: tuple[tuple[str, str], list[Finding]]) -> tuple[int, str, int]:
        (kind, _), found = item
        return order.index(kind) if kind in order else len(order), kind, -len(found)

    for (kind, where), found in sorted(groups.items(), key=rank):
        functions = sorted({finding.target for finding in found})
        write(f"{kind} x{len(found)} {where} ({', '.join(functions[:6])})")
        write(f"    {found[0].code}")
        write(f"    {found[0].text}")
    return counts


def warm() -> None:
    """Imports and small calls, so that children inherit them."""
    x = rg.tensor(np.ones((2, 3), np.float32)).requires_grad_()
    (x.exp() + x.sum()).sum().backward()
    rg.matmul(x.detach(), x.detach().T)
    targets()
    sys.setrecursionlimit(1000)
    time.sleep(0)
