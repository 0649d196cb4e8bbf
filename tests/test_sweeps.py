"""The example sweeps, which need the extra ``sweeps``; ``make sweeps`` runs them."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"


@pytest.mark.sweeps
@pytest.mark.parametrize(("name", "package"), [("sweep_optuna", "optuna"), ("sweep_ray", "ray")])
def test_a_sweep_finds_a_good_network_and_prunes_bad_ones(name: str, package: str) -> None:
    assert find_spec(package), f"{package} is not installed: pip install 'retrograd[sweeps]'"
    line = [sys.executable, f"{name}.py", "--trials", "10", "--workers", "2", "--epochs", "4"]
    ended = subprocess.run(line, cwd=FOLDER, capture_output=True, text=True, timeout=570, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = re.search(r"10 trials, (\d+) of them (?:pruned|stopped early); the best: \{", ended.stdout)
    assert found and 0 < int(found[1]) < 10, ended.stdout
    result = re.search(r"result: accuracy ([0-9.]+)", ended.stdout)
    assert result and float(result[1]) > 0.9, ended.stdout
