"""The command ``retrograd``: train, warmup, info.

Heavy imports happen inside the commands, so that ``--help`` and mistakes in the arguments are answered at once.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .train import Progress, Settings, Trainer

__all__ = ["main"]

_RUNS = Path("runs")
_OPTIONS = ("epochs", "batch_size", "lr", "seed", "kernels")  # what Settings holds


class UsageError(Exception):
    """Arguments that do not make sense, alone or together."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 done, 1 failed, 2 wrong arguments, 130 interrupted."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except UsageError as error:
        return _complain(f"{error}", 2)
    except KeyboardInterrupt:
        return _complain("interrupted", 130)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="retrograd", description="Deep learning whose backward passes can be read.")
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    train = commands.add_parser("train", help="train a network and write a report about it")
    tasks = train.add_subparsers(title="tasks", metavar="TASK", required=True)
    digits = tasks.add_parser(
        "digits",
        help="a small convolutional network on the handwritten digits in the package",
        description="Train a small convolutional network on the handwritten digits in the package. Ctrl-C stops after "
        "the step under way; --resume goes on, to the same weights, bit for bit.",
    )
    add = digits.add_argument
    add("--epochs", type=int, metavar="N", help="how often every image is seen (20)")
    add("--batch-size", type=int, metavar="N", help="images per step (64)")
    add("--lr", type=float, metavar="X", help="Adam's learning rate at the first step, falling to 0 (0.003)")
    add("--seed", type=int, metavar="N", help="start of all random numbers (0)")
    add("--kernels", choices=("compiled", "textbook"), help="fast kernels, or plain NumPy (compiled)")
    add("--threads", type=int, metavar="N", help="threads of the compiled kernels; the result does not depend on them")
    add("--output", type=Path, metavar="DIR", help="folder for checkpoint and report (a new one below runs/)")
    add("--checkpoint-every", type=int, metavar="STEPS", help="steps between checkpoints (one epoch)")
    add("--resume", action="store_true", help="go on from the checkpoint in --output, or in the latest run")
    digits.set_defaults(run=_train_digits)

    warmup = commands.add_parser("warmup", help="compile all kernels now instead of when they are first used")
    warmup.add_argument("--dtype", choices=("float32", "float64"), help="only the kernels of this type (both)")
    warmup.set_defaults(run=_warmup)

    info = commands.add_parser("info", help="show versions, CPU, threads and the compile cache")
    info.set_defaults(run=_info)
    return parser


# ---- train -------------------------------------------------------------------------------------------------------


def _train_digits(arguments: argparse.Namespace) -> int:
    from .train import CheckpointError, Stopped, Trainer, TrainingError, make_progress

    output = _output(arguments, "digits")
    command = f"retrograd train digits --resume --output {shlex.quote(str(output))}"
    progress = make_progress()
    trainer: Trainer | None = None
    try:
        settings = _settings(arguments, output)
        _use(arguments, settings)
        task = _seeded_task(settings)
        try:
            trainer = Trainer(task, settings, output, arguments.checkpoint_every, progress)
        except ValueError as error:
            raise UsageError(str(error)) from None
        if arguments.resume:
            trainer.load_checkpoint()
        _introduce(trainer, progress)
        trainer.run()
        return _finish(trainer, command)
    except (TrainingError, CheckpointError) as error:
        return _complain(str(error), 1)
    except Stopped as stop:
        return _complain(f"{stop}. Go on with: {command}", stop.exit_code)
    except KeyboardInterrupt:
        if trainer is None or not trainer.path.exists():
            raise
        return _complain(f"interrupted; {trainer.path} holds the last checkpoint. Go on with: {command}", 130)


def _output(arguments: argparse.Namespace, name: str) -> Path:
    """The run's folder: as asked for, else the latest one to resume, else a new one. A checkpoint is never overwritten
    by another run."""
    from .train.trainer import CHECKPOINT

    if arguments.output is not None:
        output: Path = arguments.output
        exists = (output / CHECKPOINT).exists()
        if arguments.resume and not exists:
            raise UsageError(f"{output} holds no checkpoint to resume; leave out --resume to start a run there")
        if exists and not arguments.resume:
            raise UsageError(
                f"{output} holds the checkpoint of another run; go on with it by --resume, or choose another --output"
            )
        return output
    runs = sorted(_RUNS.glob(f"{name}*/{CHECKPOINT}"), key=lambda path: path.stat().st_mtime)
    if arguments.resume:
        if not runs:
            raise UsageError(f"there is no run below {_RUNS.absolute()} to resume; name its folder with --output")
        return runs[-1].parent
    number, output = 1, _RUNS / name
    while (output / CHECKPOINT).exists():
        number += 1
        output = _RUNS / f"{name}-{number}"
    return output


def _settings(arguments: argparse.Namespace, output: Path) -> Settings:
    """The settings: those of the checkpoint when resuming, else the options and the defaults."""
    from .train import CheckpointError, Settings, load_checkpoint
    from .train.trainer import CHECKPOINT

    given = {name: getattr(arguments, name) for name in _OPTIONS if getattr(arguments, name) is not None}
    if not arguments.resume:
        try:
            return Settings(**given)
        except ValueError as error:
            raise UsageError(str(error)) from None
    path = output / CHECKPOINT
    state = load_checkpoint(path)
    try:
        saved = Settings.from_dict(state["settings"])
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"{path} does not fit this command: {error}") from error
    for name, value in given.items():
        if value != getattr(saved, name):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{option} {value} differs from the checkpoint's {getattr(saved, name)}; a resumed run keeps its "
                f"settings: leave out {option}, or start a new run without --resume"
            )
    return saved


def _use(arguments: argparse.Namespace, settings: Settings) -> None:
    if arguments.threads is None:
        return
    if settings.kernels != "compiled":
        raise UsageError("--threads is for the compiled kernels; leave it out with --kernels textbook")
    from .kernels.launch import set_num_threads

    try:
        set_num_threads(arguments.threads)
    except ValueError as error:
        raise UsageError(f"--threads: {error}") from None


def _seeded_task(settings: Settings) -> Any:
    from .ops.kernel_set import use_kernels
    from .ops.random import manual_seed
    from .train import TrainingError
    from .train.digits import digits_task

    manual_seed(settings.seed)
    try:
        with use_kernels(settings.kernels):
            return digits_task()
    except RuntimeError as error:
        raise TrainingError(str(error)) from error


def _introduce(trainer: Trainer, progress: Progress) -> None:
    settings, task = trainer.settings, trainer.task
    if trainer.finished:
        progress.say(f"{trainer.path} holds a finished run")
    elif trainer.steps:
        progress.say(f"going on after step {trainer.steps} of {trainer.path}")
    else:
        progress.say(
            f"training on {len(task.train):,} images, {len(task.held_out):,} held out; seed {settings.seed}, "
            f"{settings.kernels} kernels; output in {trainer.output}"
        )


def _finish(trainer: Trainer, command: str) -> int:
    """Say how it went and write the report; a report that cannot be made does not undo the training."""
    from .train.pictures import PicturesMissing
    from .train.report import ReportError, write_report

    last, total = trainer.history[-1], len(trainer.task.held_out)
    right = round(last["held_out_accuracy"] * total)
    print(f"held-out accuracy {last['held_out_accuracy']:.2%} ({right} of {total}) after {trainer.epoch} epochs")
    print(f"checkpoint  {trainer.path}")
    try:
        print(f"report      {write_report(trainer)}", flush=True)
    except PicturesMissing as missing:
        sys.stdout.flush()
        return _complain(f"there is no report: {missing}; then {command} writes it", 0)
    except ReportError as error:
        sys.stdout.flush()
        return _complain(str(error), 1)
    return 0


# ---- warmup, info ------------------------------------------------------------------------------------------------


def _warmup(arguments: argparse.Namespace) -> int:
    from .kernels import cache, warmup

    start = perf_counter()
    live = sys.stderr.isatty()
    done = 0

    def show(name: str) -> None:
        nonlocal done
        done += 1
        if live:
            print(f"\r\033[K{done:3d}  {name}", end="", file=sys.stderr, flush=True)

    count = warmup({"float32": "f", "float64": "d"}.get(arguments.dtype, "fd"), show)
    if live:
        print("\r\033[K", end="", file=sys.stderr)
    print(f"{count} kernels ready after {perf_counter() - start:.1f} s, in {cache.folder()}")
    return 0


def _info(arguments: argparse.Namespace) -> int:
    import textwrap

    from .kernels import cache
    from .kernels.target import cpu
    from .train.environment import machine, versions

    features = " ".join(name[1:] for name in cpu()[1].split(",") if name.startswith("+"))
    rows = {
        **versions(),
        **machine(),
        "CPU features": features or f"those of {cpu()[0]}",
        "Cache folder": str(cache.folder()),
        "Cache size": f"{cache.size() / 1e6:.1f} MB",
    }
    width = max(map(len, rows)) + 2
    for name, value in rows.items():
        print(textwrap.fill(value, 100, initial_indent=name.ljust(width), subsequent_indent=" " * width) or name)
    return 0


def _version() -> str:
    from . import __version__

    return f"retrograd {__version__}"


def _complain(message: str, code: int) -> int:
    print(f"retrograd: {message}", file=sys.stderr, flush=True)
    return code
