"""``retrograd train``: starts or resumes a run of a task, and writes its report."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .output import UsageError, as_typed, complain, option, options_for, options_set, say, use_threads
from .workers import check_launched, check_workers, is_worker, join_workers, launched, same_folder, start_workers

if TYPE_CHECKING:
    from ..train import Progress, Settings, Task, Trainer
    from ..train.lock import RunLock

__all__ = ["add_command"]

_RUNS = Path("runs")
_OPTIONS = ("epochs", "batch_size", "lr", "schedule", "seed", "kernels")  # fields of Settings
_IMAGE_OPTIONS = ("size", "channels", "held_out", "flip", "regularize")  # fields of ImageOptions
_SERIES_OPTIONS = ("column", "period", "horizon")  # fields of SeriesOptions
_TASKS = ("digits", "mnist5k", "text", "series")
_DATA_OPTIONS = {  # data options of each task
    "--images": ("size", "channels", "held_out", "flip", "regularize", "held_out_images"),
    "the task text": ("text",),
    "the task series": ("csv", "column", "period", "horizon"),
}


def add_command(commands: Any) -> None:
    train = commands.add_parser(
        "train",
        help="train a network and write a report about it",
        description="Train a convolutional network: on the handwritten digits in the package (digits), on 5,000 "
        "images of MNIST (mnist5k), or on your own (--images); or a recurrent one: on a text (text), or on a series of "
        "numbers (series). Ctrl-C stops after the current step; --resume continues the run, and the final "
        "weights are bitwise the same. --resume --epochs N, with more epochs than before, trains on.",
    )
    train.add_argument("task", nargs="?", metavar="TASK", help="digits, mnist5k, text or series")
    train.add_argument("--images", type=Path, metavar="DIR", help="train on the PNG and JPEG files in DIR/CLASS/")
    add = train.add_argument_group("training").add_argument
    add(
        "--epochs",
        type=int,
        metavar="N",
        help="passes over the data (digits and series 20, text 10; others 30, 60 below 1,000 of --images)",
    )
    add(
        "--batch-size",
        type=int,
        metavar="N",
        help="samples per step (64; 16 for text; 32 for --images, 16 below 1,000)",
    )
    add("--lr", type=float, metavar="X", help="Adam's highest learning rate (0.003; 0.002 for --images)")
    add(
        "--schedule",
        choices=("cosine", "constant"),
        help="the learning rate falls to 0 along half a cosine, or is constant; only with a constant one, an extended "
        "run has the bits of one that was as long from the start (cosine)",
    )
    add("--seed", type=int, metavar="N", help="seed of all random numbers (0)")
    add("--kernels", choices=("compiled", "textbook"), help="fast kernels, or plain NumPy (compiled)")
    add("--threads", type=int, metavar="N", help="threads of the compiled kernels; the result does not depend on them")
    add("--output", type=Path, metavar="DIR", help="folder for checkpoint and report (a new one in runs/)")
    add("--checkpoint-every", type=int, metavar="STEPS", help="steps between checkpoints (one epoch)")
    add("--gradients-every", type=int, metavar="STEPS", help="measure gradients every STEPS steps (never)")
    add(
        "--workers",
        type=int,
        metavar="N",
        help="processes that train together: the same result for any N from 1 on, but another one than without this "
        "option; faster only if a step takes long, as with --batch-size 512",
    )
    add("--max-restarts", type=int, default=0, metavar="N", help="restart failed --workers at most N times (0)")
    add("--resume", action="store_true", help="resume from the checkpoint in --output, or of the latest run")
    add = train.add_argument_group("with --images").add_argument
    add("--size", type=int, metavar="PIXELS", help="images are cropped to a square and resized to this, 8 to 256 (64)")
    add("--channels", type=int, choices=(1, 3), help="3 for color, 1 for grayscale (3)")
    add("--held-out", type=float, metavar="SHARE", help="share of each class to hold out for testing (0.2)")
    add("--held-out-images", type=Path, metavar="DIR", help="test on the images in DIR/CLASS/ instead")
    add(
        "--no-flip",
        dest="flip",
        action="store_false",
        default=None,
        help="do not mirror images at random, for example letters",
    )
    add(
        "--regularize",
        choices=("light", "strong"),
        help="measures against overfitting: light shifts the images; strong also rotates, scales and brightens them, "
        "and decays the weights of a smaller network (strong below 1,000 images to train on)",
    )
    add = train.add_argument_group("with text").add_argument
    add("--text", type=Path, metavar="FILE", help="a UTF-8 text file (the text of Python's help())")
    add = train.add_argument_group("with series").add_argument
    add("--csv", type=Path, metavar="FILE", help="a CSV file whose first line names its columns (sunspots)")
    add("--column", metavar="NAME", help="the column of --csv")
    add("--period", type=int, metavar="N", help="number of values after which the series repeats (detected)")
    add("--horizon", type=int, metavar="N", help="number of values to forecast at once (12)")
    train.set_defaults(run=_train)


def _train(arguments: argparse.Namespace) -> int:
    from ..train import CheckpointError

    name = _task_name(arguments)
    _check_data_options(arguments)
    _check_output(arguments)
    if is_worker():
        return _train_as_worker(arguments, name)
    if launched() > 1:
        return _train_with_others(arguments, name)
    if arguments.workers is None and arguments.max_restarts:
        raise UsageError("--max-restarts is for --workers; leave it out")
    if arguments.workers is not None:
        check_workers(arguments.workers)
    try:
        lock = _output(arguments, name)
    except CheckpointError as error:
        return complain(str(error), 1)
    with lock:
        if arguments.workers is not None:
            return start_workers(arguments, arguments.argv, lock.folder)
        return _train_in(lock, lock.folder, arguments, name, None)


def _task_name(arguments: argparse.Namespace) -> str:
    tasks = f"{', '.join(_TASKS[:-1])} or {_TASKS[-1]}"
    task = arguments.task
    if task is not None and task not in _TASKS:
        hint = ""
        if Path(task).is_dir():
            hint = f"; to train on the pictures in this folder, write --images {shlex.quote(task)}"
        elif Path(task).is_file():
            words = "series --csv" if task.lower().endswith(".csv") else "text --text"
            hint = f"; to train on this file, write {words} {shlex.quote(task)}"
        raise UsageError(f"TASK {task!r} must be {tasks}{hint}")
    if (task is None) == (arguments.images is None):
        hint = ""
        if task is None and arguments.resume:
            hint = "; --resume goes at the end of the command that started the run"
        elif task is None and arguments.csv is not None:
            hint = "; --csv needs the task series"
        elif task is None and arguments.text is not None:
            hint = "; --text needs the task text"
        raise UsageError(f"pass one TASK ({tasks}), or --images DIR{hint}")
    return task or "images"


def _check_output(arguments: argparse.Namespace) -> None:
    """Check that the run is not written among the images, where its files would be taken for a class."""
    for name in ("images", "held_out_images"):
        folder = getattr(arguments, name)
        if folder is None or arguments.output is None:
            continue
        output = arguments.output.resolve()
        if folder.resolve() in (output, *output.parents):
            raise UsageError(f"--output {arguments.output} is in the folder of {option(name, folder)}; choose another")


def _train_as_worker(arguments: argparse.Namespace, name: str) -> int:
    """Train with the other processes; restarted processes continue from the checkpoint."""
    from ..distributed.errors import DistError
    from ..train.trainer import CHECKPOINT

    try:
        workers = join_workers()
        if int(os.environ.get("RETROGRAD_RESTART", 0)) and (arguments.output / CHECKPOINT).exists():
            arguments.resume = True
        return _train_in(None, arguments.output, arguments, name, workers)
    except DistError as error:
        return complain(str(error), 1)


def _train_with_others(arguments: argparse.Namespace, name: str) -> int:
    """Train with the other processes of this command, started by srun or mpiexec."""
    from ..distributed import mpi
    from ..distributed.errors import DistError
    from ..train import CheckpointError

    check_launched(arguments, launched())
    try:
        workers = join_workers()
        lock, folder = same_folder(arguments.argv, lambda: _output(arguments, name))
        if folder is None:
            return 1  # the first process reports why
    except (CheckpointError, DistError) as error:
        return complain(str(error), 1)
    arguments.workers = launched()
    code = 2
    try:
        with lock or nullcontext():
            code = _train_in(lock, folder, arguments, name, workers)
    except DistError as error:
        code = complain(str(error), 1)
    finally:
        mpi.record_exit_code(code)
    return code


def _train_in(lock: RunLock | None, output: Path, arguments: argparse.Namespace, name: str, workers: Any) -> int:
    """Train in a folder, with the other processes if there are any."""
    from ..train import CheckpointError, Progress, Stopped, Trainer, TrainingError, make_progress
    from ..train.html_page import has_pictures

    files = options_set(arguments, ("images", "held_out_images", "text", "csv"))
    words = [f"{option(key, path)} {shlex.quote(str(path))}" for key, path in files.items()]
    data = " ".join([*([name] if arguments.task else []), *words])
    if arguments.csv is not None:
        data += f" --column {shlex.quote(arguments.column)}"
    count = "" if arguments.workers is None else f" --workers {arguments.workers}"
    command = f"retrograd train {data}{count} --resume --output {shlex.quote(str(output))}"
    silent = workers is not None and not workers.is_first
    progress = Progress() if silent else make_progress()
    trainer: Trainer | None = None
    try:
        saved = _saved(arguments, name, output)
        settings = _settings(arguments, name, saved, output)
        _set_threads(arguments, settings)
        task = _seeded_task(arguments, name, settings, saved, progress)
        if saved is None:
            settings = dataclasses.replace(settings, **_unless_chosen(arguments, task.defaults))
        try:
            trainer = Trainer(
                task, settings, output, arguments.checkpoint_every, progress, lock, arguments.gradients_every, workers
            )
        except ValueError as error:
            raise UsageError(as_typed(error, arguments)) from None
        if arguments.resume:
            trainer.load_checkpoint()
        progress.unit = task.samples
        _say_start(trainer, progress, saved)
        trainer.run(report=not silent and has_pictures())
        shares = [] if workers is None else workers.shares()
        return 0 if silent else _finish(trainer, command, shares)
    except (TrainingError, CheckpointError) as error:
        if trainer is not None and trainer.monitor is not None and trainer.monitor.statistics is not None:
            progress.say(f"the gradients when they were last measured:\n{trainer.monitor.statistics}")
        return complain(str(error), 1)
    except Stopped as stop:
        if silent:
            return stop.exit_code
        return complain(f"{stop}. Continue with: {command}", stop.exit_code)
    except KeyboardInterrupt:
        if trainer is None or not trainer.path.exists():
            raise
        return complain(f"interrupted; {trainer.path} holds the last checkpoint. Continue with: {command}", 130)
    finally:
        if trainer is not None and trainer.report_compilation is not None:
            trainer.report_compilation.stop()


def _output(arguments: argparse.Namespace, name: str) -> RunLock:
    """Return the lock of the run's folder: --output, or the latest run to resume, or a new folder.

    A checkpoint is never overwritten by another run.
    """
    from ..train.lock import RunLock
    from ..train.trainer import CHECKPOINT

    if arguments.output is not None:
        output: Path = arguments.output
        if arguments.resume and not (output / CHECKPOINT).exists():
            raise UsageError(f"{output} holds no checkpoint to resume; leave out --resume to start a run there")
        lock = RunLock(output)
        if not arguments.resume and (output / CHECKPOINT).exists():
            lock.close()
            raise UsageError(
                f"{output} holds the checkpoint of another run; continue it with --resume, or choose another --output"
            )
        return lock
    if arguments.resume:
        runs = sorted(_RUNS.glob(f"{name}*/{CHECKPOINT}"), key=lambda path: path.stat().st_mtime)
        if not runs:
            raise UsageError(f"there is no run in {_RUNS.absolute()} to resume; name its folder with --output")
        return RunLock(runs[-1].parent)
    number = 1
    while (new := _lock_if_new(_RUNS / (name if number == 1 else f"{name}-{number}"))) is None:
        number += 1
    return new


def _lock_if_new(output: Path) -> RunLock | None:
    """Return the lock of a folder, or None if it contains a run, finished or not."""
    from ..train.lock import InUseError, RunLock
    from ..train.trainer import CHECKPOINT

    if (output / CHECKPOINT).exists():
        return None
    try:
        lock = RunLock(output)
    except InUseError:
        return None
    if (output / CHECKPOINT).exists():  # a run has just ended and written it
        lock.close()
        return None
    return lock


def _saved(arguments: argparse.Namespace, name: str, output: Path) -> dict[str, Any] | None:
    """Return the checkpoint's state when resuming; it must be of this task."""
    from .._files.state import brief, same
    from ..train import CheckpointError, load_checkpoint
    from ..train.trainer import CHECKPOINT

    if not arguments.resume:
        return None
    path = output / CHECKPOINT
    state = load_checkpoint(path)
    if not same(state.get("task"), name):
        task = brief(state.get("task"))
        raise CheckpointError(f"{path} does not fit this command: it is of the task {task}, not {name!r}")
    return state


def _settings(arguments: argparse.Namespace, name: str, saved: dict[str, Any] | None, output: Path) -> Settings:
    """Return the settings: those of the checkpoint when resuming, otherwise the options and the defaults."""
    from ..train import CheckpointError, Settings
    from ..train.image_classification import DEFAULTS
    from ..train.trainer import CHECKPOINT

    chosen = options_set(arguments, _OPTIONS)
    if saved is None:
        try:
            return dataclasses.replace(DEFAULTS[name], **chosen)
        except ValueError as error:
            raise UsageError(as_typed(error, arguments)) from None
    try:
        settings = Settings.from_dict(saved["settings"])
    except (KeyError, ValueError) as error:
        raise CheckpointError(f"{output / CHECKPOINT} does not fit this command: {error}") from error
    epochs = chosen.pop("epochs", settings.epochs)
    _check_same(chosen, settings)
    if epochs < settings.epochs:
        raise UsageError(
            f"--epochs {epochs} is fewer than the {settings.epochs} of the run to resume; pass more to extend it, or "
            "leave it out"
        )
    try:
        return dataclasses.replace(settings, epochs=epochs)
    except ValueError as error:
        raise UsageError(as_typed(error, arguments)) from None


def _unless_chosen(arguments: argparse.Namespace, defaults: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in defaults.items() if getattr(arguments, name) is None}


def _check_same(chosen: dict[str, Any], saved: Any) -> None:
    """Check that the options of a resumed run equal those it started with."""
    for name, value in chosen.items():
        if value != getattr(saved, name):
            flag = option(name, value)
            text = flag if value is False else f"{flag} {value:g}" if isinstance(value, float) else f"{flag} {value}"
            raise UsageError(
                f"{text} differs from the checkpoint's {getattr(saved, name)}; a resumed run keeps its "
                f"settings: leave out {flag}, or start a new run without --resume"
            )


def _set_threads(arguments: argparse.Namespace, settings: Settings) -> None:
    if arguments.threads is not None and settings.kernels != "compiled":
        raise UsageError("--threads is for the compiled kernels; leave it out with --kernels textbook")
    use_threads(arguments.threads)


def _check_data_options(arguments: argparse.Namespace) -> None:
    """Check that data options are used only with their task."""
    options_for(f"the task {arguments.task}" if arguments.task else "--images", arguments, _DATA_OPTIONS)
    if arguments.held_out is not None and arguments.held_out_images is not None:
        raise UsageError("--held-out and --held-out-images exclude each other; leave one out")
    if arguments.column is not None and arguments.csv is None:
        raise UsageError("--column is for --csv FILE; pass both, or neither for the sunspots")
    if arguments.csv is not None and arguments.column is None:
        raise UsageError(f"--csv needs --column NAME{_columns(arguments.csv)}")


def _columns(path: Path) -> str:
    """Describe the columns of a CSV file, for a message."""
    from ..data.series import SeriesError, columns_of

    try:
        return f"; the columns of {path} are {columns_of(path)}"
    except SeriesError as error:
        return f"; {error}"


def _seeded_task(
    arguments: argparse.Namespace, name: str, settings: Settings, saved: dict[str, Any] | None, progress: Progress
) -> Task:
    from ..kernel_set import use_kernels
    from ..ops.random.random import manual_seed
    from ..train import TrainingError

    make = {"digits": _digits, "mnist5k": _mnist5k, "images": _images, "text": _text, "series": _series}[name]
    manual_seed(settings.seed)
    try:
        with use_kernels(settings.kernels):
            return make(arguments, settings, saved, progress)
    except TrainingError as error:
        raise TrainingError(as_typed(error, arguments)) from error
    except (ImportError, RuntimeError) as error:
        raise TrainingError(str(error)) from error


def _digits(arguments: argparse.Namespace, settings: Settings, saved: Any, progress: Progress) -> Task:
    from ..train.image_classification import digits_task

    return digits_task()


def _mnist5k(arguments: argparse.Namespace, settings: Settings, saved: Any, progress: Progress) -> Task:
    from ..train.image_classification import mnist5k_task

    return mnist5k_task()


def _images(arguments: argparse.Namespace, settings: Settings, saved: Any, progress: Progress) -> Task:
    from ..train.image_classification import ImageOptions, images_task

    options = _data_options(ImageOptions, arguments, _IMAGE_OPTIONS, saved)
    task, skipped = images_task(arguments.images, arguments.held_out_images, options, settings.seed)
    if skipped:
        progress.say(f"not used: {skipped}")
    if saved is None and task.weight_decay and options.regularize is None:
        defaults = _unless_chosen(arguments, task.defaults).items()
        chosen = "".join(f", {option(name, value)} {value}" for name, value in defaults)
        progress.say(f"few images ({len(task.train):,}), so the defaults are --regularize strong{chosen}")
    return task


def _text(arguments: argparse.Namespace, settings: Settings, saved: Any, progress: Progress) -> Task:
    from ..train.language_modeling import text_task

    return text_task(arguments.text, settings.batch_size)


def _series(arguments: argparse.Namespace, settings: Settings, saved: Any, progress: Progress) -> Task:
    from ..data.series import uneven_steps
    from ..train.forecasting import SeriesOptions, series_task

    task = series_task(arguments.csv, _data_options(SeriesOptions, arguments, _SERIES_OPTIONS, saved))
    if uneven := uneven_steps(task.series):
        progress.say(uneven)
    return task


def _data_options(kind: Any, arguments: argparse.Namespace, names: Sequence[str], saved: Any) -> Any:
    """Return the options of this kind: those of the checkpoint when resuming, otherwise the user's."""
    from ..train import CheckpointError

    chosen = options_set(arguments, names)
    if saved is None:
        try:
            return kind(**chosen)
        except ValueError as error:
            raise UsageError(as_typed(error, arguments)) from None
    try:
        stored = {"regularize": "light", **saved["options"]}  # earlier checkpoints lack it
        options = kind(**{name: stored[name] for name in names})
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the checkpoint does not fit this command: {error}") from error
    _check_same(chosen, options)
    return options


def _say_start(trainer: Trainer, progress: Progress, saved: dict[str, Any] | None) -> None:
    settings, task = trainer.settings, trainer.task
    before = settings.epochs if saved is None else saved["settings"]["epochs"]
    if before < settings.epochs:
        progress.say(
            f"training on after step {trainer.steps} of {trainer.path}, to epoch {settings.epochs} instead of "
            f"{before}, from a learning rate of {trainer.next_lr():.3g}"
        )
    elif trainer.finished:
        progress.say(f"{trainer.path} holds a finished run; --epochs N, more than {settings.epochs}, trains on")
    elif trainer.steps:
        progress.say(f"resuming after step {trainer.steps} of {trainer.path}")
    else:
        progress.say(
            f"training on {len(task.train):,} {task.samples}, {len(task.held_out):,} held out; seed {settings.seed}, "
            f"{settings.kernels} kernels; output in {trainer.output}"
        )


def _finish(trainer: Trainer, command: str, shares: Sequence[dict[str, Any]]) -> int:
    """Print the result and write the report. A report that lacks a package is skipped, with exit code 0.

    shares: what each worker did, for the report.
    """
    from ..train.gradients import gradients_text, rows_of
    from ..train.html_page import PicturesMissing
    from ..train.report import ReportError, write_report

    say(trainer.task.result(trainer))
    if trainer.monitor is not None:
        rows = rows_of(trainer.history[-1], trainer.model)
        say(f"gradients, means of the last epoch\n{gradients_text(rows)}")
    say(f"checkpoint  {trainer.path}")
    try:
        say(f"report      {write_report(trainer, shares)}")
    except PicturesMissing as missing:
        return complain(f"no report was written: {missing}; then {command} writes it", 0)
    except ReportError as error:
        return complain(str(error), 1)
    return 0
