"""Runs the examples alternately with retrograd and PyTorch, each in its own process, and writes the table in README.md.

    python examples/compare.py [--repeat 3] [--threads 2] [--only gan vae] [--write]

The time is that of an example's ``main``, without imports, and the minimum of all runs. Before it is timed, every
example runs once with retrograd, to compile its kernels. The last column is from runs of retrograd with and without
``--compiled``. ``--write`` writes the measured rows into README.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).parent
LINE, PEER = "import retrograd as torch", "import torch"
BEGIN, END = "<!-- table: python examples/compare.py --write -->", "<!-- end of the table -->"
HEAD = (
    "| example | result | stated | retrograd | PyTorch | seconds | PyTorch's | times as fast | gain by --compiled |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
)

# example -> the result that it should reach with either library, and whether higher is better
FIGURES: dict[str, tuple[float, bool]] = {
    "linear_regression": (0.01, False),
    "spirals_mlp": (0.99, True),
    "digits_cnn": (0.97, True),
    "lenet_mnist5k": (0.96, True),
    "resnet_mnist5k": (0.95, True),
    "autoencoder": (0.02, False),
    "vae": (-25.0, True),
    "gan": (1.5, False),
    "wgan_gp": (8, True),
    "char_lstm": (2.6, False),
    "char_gpt": (3.0, False),
    "seq2seq": (0.9, True),
    "gru_classifier": (0.95, True),
    "sunspots_lstm": (0.95, False),
    "dqn_cartpole": (120, True),
    "actor_critic_cartpole": (100, True),
    "ppo_reach": (0.1, False),
    "unet_shapes": (0.75, True),
    "gcn": (0.9, True),
    "siamese": (0.9, True),
}


def reached(name: str, value: float) -> bool:
    """Return whether the value is at least as good as the stated value of the example."""
    figure, more = FIGURES[name]
    return value >= figure if more else value <= figure


def with_peer(name: str) -> str:
    """Return the source of an example with its import line changed to PyTorch."""
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    if text.count(f"\n{LINE}\n") != 1:
        raise ValueError(f"{name}.py: the line {LINE!r} must occur in it exactly once")
    return text.replace(f"\n{LINE}\n", f"\n{PEER}\n")


def measured(name: str, library: str, options: list[str]) -> dict[str, str]:
    """Run an example; return the "seconds" and the "result" that it prints. library: "compiled" is also retrograd."""
    with tempfile.TemporaryDirectory() as folder:
        path = FOLDER / f"{name}.py"
        if library == "torch":
            path = Path(folder, path.name)
            path.write_text(with_peer(name), encoding="utf-8")
        if library == "compiled":
            options = [*options, "--compiled"]
        paths = [str(FOLDER), os.environ.get("PYTHONPATH", "")]
        done = subprocess.run(
            [sys.executable, str(path), *options],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{name} with {library}: {done.stderr[-2000:]}")
    return dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)


def row(name: str, runs: dict[str, list[dict[str, str]]]) -> str:
    """Return the table row.

    Its last cells say how many times as fast as PyTorch retrograd was, and how many times as fast if compiled.
    """
    seconds = {library: min(float(run["seconds"]) for run in several) for library, several in runs.items()}
    label, ours = runs["retrograd"][0]["result"].rsplit(" ", 1)
    theirs = runs["torch"][0]["result"].rsplit(" ", 1)[1]
    ratio = seconds["torch"] / seconds["retrograd"]
    cells = (
        f"[{name}]({name}.py)",
        label,
        f"{FIGURES[name][0]:g}",
        f"{float(ours):.4g}",
        f"{float(theirs):.4g}",
        f"{seconds['retrograd']:.1f}",
        f"{seconds['torch']:.1f}",
        f"{ratio:.2f}",
        f"{seconds['retrograd'] / seconds['compiled']:.2f}",
    )
    return f"| {' | '.join(cells)} |"


def write(rows: dict[str, str], about: str) -> None:
    """Write the table into README.md; rows that were not measured keep their values."""
    page = FOLDER / "README.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    table, _, after = rest.partition(END)
    known = {line[3:].partition("]")[0]: line for line in table.splitlines() if line.startswith("| [")}
    rows = {name: line for name in FIGURES if (line := (known | rows).get(name))}
    speed, again = (
        math.exp(sum([math.log(float(line.split("|")[column])) for line in rows.values()]) / len(rows))
        for column in (-3, -2)
    )
    means = f"\nGeometric means of the last columns: {speed:.2f} and {again:.2f}."
    lines = [BEGIN, *HEAD, *rows.values(), f"{means} {about}", END]
    page.write_text(before + "\n".join(lines) + after, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=FIGURES, default=list(FIGURES))
    parser.add_argument("--write", action="store_true", help="write the table into README.md")
    chosen = parser.parse_args()
    options = ["--threads", str(chosen.threads)]
    rows = {}
    for name in chosen.only:
        measured(name, "retrograd", options)
        runs: dict[str, list[dict[str, str]]] = {"retrograd": [], "compiled": [], "torch": []}
        for turn in range(chosen.repeat):
            for library in list(runs)[:: 1 if turn % 2 else -1]:
                runs[library].append(measured(name, library, options))
        rows[name] = row(name, runs)
        print(rows[name], flush=True)
        print(json.dumps({name: runs}), file=sys.stderr)
    if chosen.write:
        write(
            rows,
            f"PyTorch {version('torch')}, Python {platform.python_version()}, {chosen.threads} threads, the least time "
            f"of {chosen.repeat} runs in turns.",
        )


if __name__ == "__main__":
    main()
