"""``retrograd explain``: the page on which a gradient is taken apart, entry by entry."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .answers import UsageError, complain, say

if TYPE_CHECKING:
    from ..explanation.operators.operator import Operator

__all__ = ["add_command"]


def add_command(commands: Any) -> None:
    explain = commands.add_parser(
        "explain",
        help="see a gradient: every entry as the sum that it is",
        description="Open a page in the browser that takes the gradients of an operator apart: conv2d, linear, "
        "lstm, batch_norm, gelu, ... or a function of your own. The page is served to this machine only, "
        "until Ctrl-C; --html writes it to one file instead, which needs neither server nor network.",
    )
    explain.add_argument(
        "operator", nargs="?", default="conv2d", metavar="OPERATOR", help="its name, or module:name (conv2d)"
    )
    explain.add_argument("--list", action="store_true", help="print the names of all operators")
    explain.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting, such as stride=2; may be repeated"
    )
    explain.add_argument("--html", type=Path, metavar="FILE", help="write the page to FILE")
    explain.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="serve at this address (127.0.0.1)")
    explain.add_argument("--port", type=int, default=0, metavar="N", help="serve at this port (a free one)")
    explain.add_argument("--no-browser", action="store_true", help="print the link, and open no browser")
    explain.set_defaults(run=_explain)


def _explain(arguments: argparse.Namespace) -> int:
    from ..explanation.operators import find, names
    from ..explanation.operators.users import from_module

    if arguments.list:
        say("\n".join(names()))
        return 0
    if not 0 <= arguments.port < 65536:
        raise UsageError(f"--port {arguments.port} must be from 0 to 65535")
    try:
        own = ":" in arguments.operator
        operator = from_module(arguments.operator) if own else find(arguments.operator)
        settings = _settings(arguments.set, operator)
        explanation = operator.with_settings(settings) if settings or arguments.html else None
    except ValueError as error:
        raise UsageError(str(error)) from None
    if arguments.html is not None:
        assert explanation is not None
        return _write(arguments.html, explanation)
    return _serve(arguments, operator, settings)


def _settings(given: list[str], operator: Operator) -> dict[str, int | float | str]:
    """The settings of the command line, in the type of their defaults."""
    kinds = {setting.name: type(setting.value) for setting in operator.settings}
    found: dict[str, int | float | str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise UsageError(f"--set {each!r} must be NAME=VALUE, such as stride=2")
        try:
            found[name] = kinds.get(name, str)(value)
        except ValueError:
            raise UsageError(f"--set {each!r}: {name} is a whole number") from None
    return found


def _write(path: Path, explanation: Any) -> int:
    from ..atomic import why_not_written

    try:
        explanation.save(path)
    except OSError as error:
        return complain(why_not_written(path, error), 1)
    say(f"{path}: open it in a browser")
    return 0


def _serve(arguments: argparse.Namespace, operator: Operator, settings: dict[str, int | float | str]) -> int:
    from urllib.parse import urlencode

    return _show(operator, arguments, f"#{urlencode({'operator': operator.name, **settings})}")


def _show(subject: Any, arguments: argparse.Namespace, place: str = "") -> int:
    from ..explanation.showing import show

    try:
        show(subject, arguments.host, arguments.port, not arguments.no_browser, place, say)
    except ImportError as error:
        return complain(f"{error} with --html", 1)
    except OSError as error:
        return complain(f"{arguments.host}:{arguments.port} cannot be used: {error.strerror or error}", 1)
    return 0
