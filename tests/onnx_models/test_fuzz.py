"""Broken models give an error or a result, in a separate process with a memory limit."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx")
TESTS = Path(__file__).resolve().parents[1]


def run(seed: int, count: int) -> None:
    program = [sys.executable, "-m", "onnx_models.fuzz", str(seed), str(count)]
    done = subprocess.run(program, cwd=TESTS, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_hundred_broken_models() -> None:
    run(1, 100)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_broken_models(seed: int) -> None:
    run(seed, 2000)
