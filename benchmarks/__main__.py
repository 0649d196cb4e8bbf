"""``python -m benchmarks``: run the suites, print each row as it is measured, write the results and their summary."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import retrograd

from . import libraries, machine, picture, report, scaling_page
from .harness import Effort, Result
from .suites import (
    convolution_memory,
    distributed,
    errors,
    memory,
    recurrent_memory,
    search,
    startup,
)
from .turns import Plan, measure

TIMED = (
    *("convolution", "networks", "matmul", "lowbit", "layers", "losses", "optimizers", "overhead", "attention"),
    *("recurrent", "lowbit training", "poolings", "pointwise", "moves", "normalizations", "reductions", "rules"),
    *("exchange", "shapes"),
)
SUITES = (*TIMED, "errors", "memory", "startup", "search", "distributed")
# Suites of many operators at three sizes, with hundreds of rows. They are measured in fewer rounds and, by default,
# only with two threads and without torch.compile.
BROAD = (
    *("losses", "attention", "poolings", "pointwise", "moves", "normalizations", "reductions", "optimizers"),
    "overhead",
)

DRAWN = ("shapes",)  # suites whose rows are drawn by a seed


def main() -> int:
    arguments = _parser().parse_args()
    if arguments.plot:
        report.write(picture.HERE)
        picture.draw()
        print(f"written to {picture.HERE / 'RESULTS.md'} and {picture.PICTURE}")
        return 0
    retrograd.use_kernels(arguments.kernels)
    effort = Effort.quick() if arguments.quick else Effort()
    chosen = arguments.only or list(TIMED if arguments.level else SUITES)
    if arguments.level:
        if unknown := [suite for suite in chosen if suite not in TIMED]:
            raise SystemExit(f"--level is only for suites whose two processes take turns, not for {', '.join(unknown)}")
        machine.restrict(arguments.level)
    results: list[Result] = []
    failures: list[str] = []
    facts = machine.describe()
    if os.getloadavg()[0] > 0.5:
        print("this machine is busy: the figures, especially those of two threads, are unreliable", file=sys.stderr)
    start = time.perf_counter()
    for suite in chosen:
        for threads in _threads(suite, arguments.threads):
            try:
                for result in _suite(suite, threads, effort, arguments):
                    result = replace(result, level=arguments.level)
                    results.append(result)
                    print(report.line(result), flush=True)
            except Exception:
                # continue with the other suites; the exit status reports the failure
                failures.append(f"{suite}, {threads} threads" if threads else suite)
                print(f"{failures[-1]}: stopped by an error", file=sys.stderr)
                traceback.print_exc()
    print(f"\n{report.targets(results)}\n{time.perf_counter() - start:.0f} s")
    folder = arguments.output
    if folder is None and not arguments.quick and (arguments.keep or not arguments.only):
        folder = picture.HERE
    if folder is not None:
        adds = arguments.keep or arguments.level  # keep the rows of other suites and levels
        rows = report.merged(folder, results, facts["processor"], arguments.level) if adds else results
        report.save(folder, facts, rows, failures)
        print(f"written to {folder / 'RESULTS.md'}")
        if folder == picture.HERE:
            picture.draw()
            if not any(failure.startswith("distributed") for failure in failures):
                scaling_page.write()
    return 1 if failures else 0


def _suite(name: str, threads: int | None, effort: Effort, arguments: argparse.Namespace) -> Iterator[Result]:
    if name == "startup":
        yield from startup.results(effort)
        return
    if name == "search":
        yield from search.results(effort, arguments.quick)
        return
    if name == "distributed":
        yield from distributed.results(effort, arguments.quick)
        return
    if name == "errors":  # errors do not depend on the number of threads
        libraries.set_threads(1)
        yield from errors.results(arguments.quick)
        return
    assert threads is not None
    if name == "memory":
        yield from memory.results(threads, effort)
        if threads == _threads(name, arguments.threads)[-1]:  # these rows are measured only once
            yield from convolution_memory.results(threads, arguments.quick)
            yield from recurrent_memory.results(threads, arguments.quick)
        return
    if name in (*BROAD, *DRAWN):
        effort = replace(effort, rounds=min(effort.rounds, 5))
    compile = arguments.compile == "all" or (arguments.compile == "some" and name not in BROAD)
    found = []
    suite = f"benchmarks.suites.{name.replace(' ', '_')}"
    seed = arguments.seed if name in DRAWN else None
    for result in measure(Plan(suite, threads, arguments.quick, compile, arguments.kernels, seed), effort):
        found.append(result)
        yield result
    if summaries := None if arguments.quick else getattr(import_module(suite), "summaries", None):
        yield from summaries(found, threads, arguments.level)


def _threads(suite: str, requested: list[int] | None) -> list[int | None]:
    """Return the numbers of threads with which a suite is measured."""
    if suite in ("startup", "search", "errors", "distributed"):
        return [None]
    if requested is not None:
        return [*requested]
    counts = [n for n in (1, 2) if n <= (os.cpu_count() or 1)]
    return [*counts[-1:]] if suite in BROAD else [*counts]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="retrograd beside PyTorch, row by row.")
    parser.add_argument("--threads", type=int, nargs="+", help="default: 1 and 2; 2 for the suites of many operators")
    parser.add_argument("--only", nargs="+", choices=SUITES, help="run only these suites, and write no files")
    parser.add_argument(
        "--keep", action="store_true", help="with --only: write the files, and keep the rows of other suites"
    )
    parser.add_argument(
        "--level",
        choices=tuple(machine.LEVELS),
        default="",
        help="restrict both libraries to these instructions; the results become further columns of the tables",
    )
    parser.add_argument("--quick", action="store_true", help="few rows and rounds, as a smoke test; writes no files")
    parser.add_argument("--seed", type=int, default=0, help="draws other shapes in the suite of drawn shapes")
    parser.add_argument("--kernels", choices=("compiled", "textbook"), default="compiled")
    parser.add_argument(
        "--compile",
        choices=("none", "some", "all"),
        default="some",
        help="measure torch.compile: never, except in the suites of many operators, or always (takes hours)",
    )
    parser.add_argument(
        "--plot", action="store_true", help="measure nothing: write RESULTS.md and README's picture from results.json"
    )
    parser.add_argument("--output", type=Path, help="folder for results.json and RESULTS.md, even of partial runs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
