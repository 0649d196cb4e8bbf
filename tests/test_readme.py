"""README.md is short, links to every part of docs/, and all its code runs: commands, sessions and programs."""

from __future__ import annotations

import doctest
import json
import re
from pathlib import Path
from typing import Any

import pytest

from shown_commands import ROOT, blocks, check, commands, last_of_each_chain

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = blocks(README)
COMMANDS = commands(README)
SESSIONS = [text for kind, text in BLOCKS if kind == "pycon"]
PROGRAMS = [text for kind, text in BLOCKS if kind == "python"]


def test_every_block_is_of_a_kind_that_runs() -> None:
    assert {kind for kind, _ in BLOCKS} <= {"sh", "pycon", "python", "py"}  # tests/peers runs "py", which needs PyTorch
    assert COMMANDS and SESSIONS and PROGRAMS


def test_the_sections() -> None:
    """One sentence, installation, picture, inspecting and changing a gradient, a PyTorch script, speed, and links."""
    title, sentence, install, page = README.split("\n\n")[:4]
    assert title == "# retrograd"
    assert sentence.count(". ") == 0 and sentence.endswith(".")
    assert install.startswith("```sh\npip install ") and install.count("\n") == 2
    assert page.endswith("](docs/static/explain.png)")
    paths = re.findall(r"^!\[[^]]{40,}\]\((.*)\)$", README, re.MULTILINE)
    assert paths == ["docs/static/explain.png", "docs/static/speed.svg"]  # see test_picture.py
    assert all((ROOT / path).stat().st_size < 120_000 for path in paths)  # readme_picture.py draws the first
    sections = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL))
    read, change, script, speed, documentation, limits = sections.values()
    assert "conv2d" in read and "backward_source" in read and "override_backward" in change
    assert "import retrograd as torch" in script and "speed.svg" in speed
    assert "docs/tutorials/getting_started.md" in documentation and "GPU" in limits
    assert README.count("\n") <= 130


def rows_of(threads: int) -> dict[tuple[str, str], Any]:
    results = json.loads((ROOT / "benchmarks/results.json").read_text(encoding="utf-8"))["results"]
    return {(row["group"], row["name"]): row for row in results if row["threads"] == threads and not row["level"]}


def test_the_times_of_a_network_are_those_of_the_last_benchmark() -> None:
    row = rows_of(1)["networks: inference", "MobileNetV2, batch 1, 96×96"]
    others = row["theirs"]
    ours, theirs, compiled, frozen = (
        f"{1e3 * seconds:.1f}"
        for seconds in (
            row["ours"],
            min(others["contiguous"], others["channels-last"]),
            others["retrograd, compiled"],
            others["retrograd, frozen"],
        )
    )
    sentence = f"MobileNetV2 at 96×96 takes {ours} ms on a core (PyTorch {theirs}), [compiled]"
    assert sentence in README and f" {compiled}, frozen {frozen}.\n" in README


def test_the_times_of_sequences_are_those_of_the_last_benchmark() -> None:
    rows = rows_of(2)
    lengths = rows["recurrent lengths", "LSTM lengths (50, 32, 128, 128)"]
    padded = rows["recurrent training", "LSTM (50, 32, 128, 128)"]
    ours, packed, full = (
        f"{1e3 * seconds:.1f} ms"
        for seconds in (lengths["ours"], lengths["theirs"]["PackedSequence"], padded["theirs"]["PyTorch"])
    )
    sentence = f"takes {ours} on two cores; PyTorch takes {packed} with packed sequences and {full} with padded ones"
    assert sentence in " ".join(README.split())


def test_links_lead_to_files_and_to_every_part() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert all((ROOT / link).is_file() for link in links)
    parts = {f"docs/{part}/index.md" for part in ("tutorials", "how_to", "understanding", "reference", "contributing")}
    assert parts <= set(links), f"link to {sorted(parts - set(links))} in the section Documentation"


@pytest.mark.parametrize("command", last_of_each_chain(COMMANDS))
def test_command(command: str, tmp_path: Path) -> None:
    check(command, COMMANDS, tmp_path)


@pytest.mark.parametrize("index", range(len(SESSIONS)))
def test_session(index: int) -> None:
    # a session continues with the names defined by the previous ones
    names: dict[str, object] = {}
    for number, text in enumerate(SESSIONS[: index + 1]):
        test = doctest.DocTestParser().get_doctest(text, names, f"README session {number + 1}", "README.md", 0)
        runner = doctest.DocTestRunner(verbose=False)
        report: list[str] = []
        runner.run(test, out=report.append, clear_globs=False)
        names = test.globs
        assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize("index", range(len(PROGRAMS)))
def test_program(index: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(PROGRAMS[index], f"README program {index + 1}", "exec"), {"__name__": "__main__"})
