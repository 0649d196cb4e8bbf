"""The examples: the smallest one runs, and in the nightly tests all reach the results that they state."""

from __future__ import annotations

import ast
import importlib
import inspect
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import retrograd as rg

FOLDER = Path(__file__).parents[1] / "examples"
HELPERS = {"data", "compare"}
SWEEPS = {"trial", "sweep_optuna", "sweep_ray"}  # tests/test_sweeps.py runs them
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in HELPERS | SWEEPS)
SMALLEST = {
    "linear_regression": {"epochs": 20},
    "gcn": {"epochs": 2},
    "spirals_mlp": {"steps": 2},
    "vae": {"epochs": 1},
    "ppo_reach": {"updates": 1},
    "actor_critic_cartpole": {"episodes": 2},
    "dqn_cartpole": {"steps": 600},
}


@pytest.fixture(autouse=True)
def at_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Resolve imports as for a script in that folder, and restore the number of threads afterwards."""
    threads = rg.get_num_threads()
    monkeypatch.syspath_prepend(str(FOLDER))
    saved = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in HELPERS}
    yield
    for name in [*NAMES, *HELPERS]:
        sys.modules.pop(name, None)
    sys.modules.update(saved)
    rg.set_num_threads(threads)


def loaded(name: str) -> ModuleType:
    return importlib.import_module(name)


def test_there_are_twenty() -> None:
    assert len(NAMES) == 20
    assert set(loaded("compare").FIGURES) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_one_line_names_the_library(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    tree = ast.parse(text)
    documentation = ast.get_docstring(tree)
    assert documentation and any(character.isdigit() for character in documentation.splitlines()[0] + documentation)
    assert "``import torch`` in place of the import of retrograd" in documentation
    assert [line for line in text.splitlines()[len(documentation.splitlines()) :] if "retrograd" in line] == [
        "import retrograd as torch"
    ]
    assert len(text.splitlines()) < 120
    assert "import torch\n" in loaded("compare").with_peer(name)


def test_data_needs_neither_library() -> None:
    imported = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(ast.parse((FOLDER / "data.py").read_text(encoding="utf-8")))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    assert not {name.partition(".")[0] for name in imported} & {"retrograd", "torch"}


@pytest.mark.parametrize("name", SMALLEST)
def test_smallest(name: str) -> None:
    """It has the same result if it is compiled."""
    label, value = loaded(name).main(**SMALLEST[name], threads=1)
    assert label and math.isfinite(value)
    assert loaded(name).main(**SMALLEST[name], threads=1, compiled=True) == (label, value)


@pytest.mark.parametrize("name", NAMES)
def test_an_option_compiles(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """By one line; compare.py measures how many times as fast that is."""
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    _, *lines = text.split("\n    if compiled:\n")
    assert len(lines) == 1 and "torch.compile" in lines[0].splitlines()[0]
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
    with pytest.raises(SystemExit):
        loaded("data").run(loaded(name).main)
    assert "--compiled" in capsys.readouterr().out


def test_the_table_says_what_compiling_gains() -> None:
    runs = {
        library: [{"seconds": seconds, "result": "accuracy 0.5"}]
        for library, seconds in (("retrograd", "3.0"), ("compiled", "2.0"), ("torch", "6.0"))
    }
    compare = loaded("compare")
    cells = compare.row("gcn", runs).split(" | ")
    assert cells[-2:] == ["2.00", "1.50 |"]
    assert {line.count("|") for line in compare.HEAD} == {len(cells) + 1}


def test_command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["linear_regression.py", "--epochs", "20", "--threads", "1"])
    loaded("data").run(loaded("linear_regression").main)
    *_, seconds, result = capsys.readouterr().out.splitlines()
    assert seconds.startswith("seconds: ")
    label, value = result.removeprefix("result: ").rsplit(" ", 1)
    assert label == "largest error of a coefficient"
    assert loaded("compare").reached("linear_regression", float(value))
    assert not loaded("compare").reached("linear_regression", 0.1)


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_stated_figure(name: str) -> None:
    module = loaded(name)
    assert "threads" in inspect.signature(module.main).parameters
    _, value = module.main(threads=2)
    assert loaded("compare").reached(name, value), value
