"""``retrograd launch``: runs a script in several processes."""

from __future__ import annotations

import argparse
from typing import Any

from .output import UsageError, as_typed, complain

__all__ = ["add_command"]


def add_command(commands: Any) -> None:
    launch = commands.add_parser(
        "launch",
        help="run a script in several processes with MPI",
        description="Run a script in several processes: mpiexec with the flags it needs, and the environment that "
        "scripts for torchrun read. The script calls retrograd.distributed.init_process_group().",
    )
    launch.add_argument("-n", "--workers", type=int, metavar="N", help="number of processes")
    launch.add_argument(
        "--hosts",
        metavar="A:4,B:4",
        help="machines, each with its number of processes; machines that do not answer are skipped",
    )
    launch.add_argument("--agent", metavar="COMMAND", help="the command that runs commands on another machine (ssh)")
    launch.add_argument(
        "--max-restarts", type=int, default=0, metavar="N", help="restart a failed job at most N times (0)"
    )
    launch.add_argument("--mpi", action="append", default=[], metavar="OPTION", help="an option for mpiexec itself")
    launch.add_argument("-m", "--module", action="store_true", help="SCRIPT is the name of a module")
    launch.add_argument("script", metavar="SCRIPT", help="the script")
    launch.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")
    launch.set_defaults(run=_launch)


def _launch(arguments: argparse.Namespace) -> int:
    from ..distributed.errors import DistBackendError
    from ..distributed.launcher import AGENT, as_hosts, launch

    if arguments.agent and not arguments.hosts:
        raise UsageError("--agent is for --hosts; leave it out")
    try:
        return launch(
            arguments.workers,
            [*(["-m"] if arguments.module else []), arguments.script, *arguments.arguments],
            restarts=arguments.max_restarts,
            options=[word for option in arguments.mpi for word in option.split()],
            hosts=as_hosts(arguments.hosts) if arguments.hosts is not None else (),
            agent=arguments.agent or AGENT,
            say=lambda text: complain(text, 0),
        )
    except ValueError as error:
        words = {"restarts": "--max-restarts", "script": "SCRIPT"}
        raise UsageError(as_typed(error, arguments, words).removeprefix("launch: ")) from None
    except DistBackendError as error:
        return complain(str(error), 1)
