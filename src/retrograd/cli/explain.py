"""``retrograd explain``: opens a page about an operator's gradient. ``retrograd where``: lists its source locations."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .output import UsageError, complain, option, options_set, say

if TYPE_CHECKING:
    from ..explanation.operators.operator import Operator

__all__ = ["add_command"]


def add_command(commands: Any) -> None:
    explain = commands.add_parser(
        "explain",
        help="show a gradient, every entry as the sum of its terms",
        description="Open a page in the browser that shows the gradients of an operator term by term: conv2d, linear, "
        "lstm, batch_norm, gelu, ..., a function of your own, or the layers of a trained run. The page is served to "
        "this machine only, until Ctrl-C; --html writes it to one file, which needs neither server nor network.",
    )
    explain.add_argument(
        "operator",
        nargs="?",
        default="conv2d",
        metavar="OPERATOR",
        help="the operator's name, module:name, or the folder of a run, such as runs/digits (conv2d)",
    )
    explain.add_argument("--list", action="store_true", help="print the names of all operators")
    explain.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting, such as stride=2; may be repeated"
    )
    explain.add_argument("--html", type=Path, metavar="FILE", help="write the page to FILE")
    explain.add_argument(
        "--megabytes",
        type=float,
        metavar="N",
        help="maximum size of FILE in MB; results of other settings are included while they fit (0.6); 0: none",
    )
    explain.add_argument("--samples", type=int, metavar="N", help="for a run: number of held-out samples (8)")
    explain.add_argument("--images", type=Path, metavar="DIR", help="for an image run: the folder of its images")
    explain.add_argument(
        "--held-out-images", type=Path, metavar="DIR", help="for an image run with this option: the same folder"
    )
    explain.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="serve at this address (127.0.0.1)")
    explain.add_argument("--port", type=int, default=0, metavar="N", help="serve at this port (a free one)")
    explain.add_argument("--no-browser", action="store_true", help="print the link without opening a browser")
    explain.set_defaults(run=_explain)

    where = commands.add_parser(
        "where",
        help="list the places in the source where an operator is computed",
        description="Print file and line of every function that computes an operator or a layer, forward and backward: "
        "the function that users call, its Function, its kernels in plain NumPy, and the compiled code.",
    )
    where.add_argument("operator", metavar="OPERATOR", help="its name, such as conv2d, softmax, LSTM")
    where.add_argument(
        "--steps",
        action="store_true",
        help="run the example of retrograd explain too, and list its kernel calls and the launches of each",
    )
    where.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="with --steps: a setting of the example, such as stride=2; may be repeated",
    )
    where.set_defaults(run=_where)


def _where(arguments: argparse.Namespace) -> int:
    from ..explanation.operators import find
    from ..explanation.source_map import listed, source_map

    if arguments.set and not arguments.steps:
        raise UsageError(f"--set {arguments.set[0]} is for the example of --steps; add --steps")
    try:
        say(source_map(arguments.operator))
        if arguments.steps:
            operator = find(arguments.operator)
            explanation = operator.with_settings(_settings(arguments.set, operator))
            say("\n".join(["", explanation.case.source, *listed(explanation.steps())]))
    except ValueError as error:
        raise UsageError(str(error).replace("source_map:", "where:").replace("explain:", "where --steps:")) from None
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    from ..explanation.operators import find, names
    from ..explanation.operators.function import from_module

    if arguments.list:
        say("\n".join(names()))
        return 0
    if not 0 <= arguments.port < 65536:
        raise UsageError(f"--port {arguments.port} must be from 0 to 65535")
    run = _run_of(arguments.operator)
    if run is not None:
        return _explain_run(arguments, run)
    if arguments.megabytes is not None and not (arguments.html and 0 <= arguments.megabytes <= 1000):
        raise UsageError(f"--megabytes {arguments.megabytes:g} goes with --html, and must be from 0 to 1000")
    for name, value in options_set(arguments, ("samples", "images", "held_out_images")).items():
        raise UsageError(f"{option(name, value)} is for the folder of a run; leave it out")
    try:
        own = ":" in arguments.operator
        operator = from_module(arguments.operator) if own else find(arguments.operator)
        settings = _settings(arguments.set, operator)
        explanation = operator.with_settings(settings) if settings or arguments.html else None
    except ValueError as error:
        raise UsageError(str(error)) from None
    if arguments.html is not None:
        assert explanation is not None
        if arguments.megabytes != 0:
            say("computing other settings too, for the same file; --megabytes 0 leaves them out")
        return _write(arguments.html, explanation, arguments.megabytes)
    return _serve(arguments, operator, settings)


def _run_of(word: str) -> Path | None:
    """Return the folder or checkpoint of a run if the word names one; None if it names an operator."""
    path = Path(word)
    is_path = path.suffix == ".npz" or "/" in word or os.sep in word or (path / "checkpoint.npz").exists()
    return path if is_path else None


def _explain_run(arguments: argparse.Namespace, run: Path) -> int:
    """Show the layers of a run's network, as they ran on held-out samples."""
    from ..explanation.explain import explain
    from ..train import CheckpointError, TrainingError
    from ..train.held_out import held_out

    samples = 8 if arguments.samples is None else arguments.samples
    if not 1 <= samples <= 1024:
        raise UsageError(f"--samples {samples} must be from 1 to 1024")
    if arguments.held_out_images is not None and arguments.images is None:
        raise UsageError("--held-out-images needs --images DIR, the folder that the run was trained on")
    if arguments.set:
        raise UsageError("--set is for an operator; leave it out with a run")
    if arguments.megabytes is not None:
        raise UsageError("--megabytes is for an operator; leave it out with a run")
    try:
        model, batch, loss = held_out(run, samples, arguments.images, arguments.held_out_images)
    except (CheckpointError, TrainingError, RuntimeError, ImportError) as error:
        return complain(str(error), 1)
    explanation = explain(model, batch, loss)
    if arguments.html is not None:
        return _write(arguments.html, explanation)
    return _show(explanation, arguments)


def _settings(given: list[str], operator: Operator) -> dict[str, int | float | str]:
    """Return the settings given on the command line, converted to the types of their defaults."""
    kinds = {setting.name: type(setting.value) for setting in operator.settings}
    found: dict[str, int | float | str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise UsageError(f"--set {each!r} must be NAME=VALUE, such as stride=2")
        try:
            found[name] = kinds.get(name, str)(value)
        except ValueError:
            raise UsageError(f"--set {each!r}: {name} must be a whole number") from None
    return found


def _write(path: Path, explanation: Any, megabytes: float | None = None) -> int:
    try:
        explanation.save(path, *([] if megabytes is None else [int(megabytes * 1e6)]))
    except OSError as error:
        return complain(str(error), 1)
    say(f"{path}: open it in a browser")
    return 0


def _serve(arguments: argparse.Namespace, operator: Operator, settings: dict[str, int | float | str]) -> int:
    from urllib.parse import urlencode

    return _show(operator, arguments, f"#{urlencode({'operator': operator.name, **settings})}")


def _show(subject: Any, arguments: argparse.Namespace, place: str = "") -> int:
    from ..explanation.html_page import show

    try:
        show(subject, arguments.host, arguments.port, not arguments.no_browser, place, say)
    except ImportError as error:
        return complain(f"{error} with --html", 1)
    except OSError as error:
        return complain(f"{arguments.host}:{arguments.port} cannot be used: {error.strerror or error}", 1)
    return 0
