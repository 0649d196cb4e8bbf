"""The installed files, and the cost of an import."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path

import pytest

import retrograd

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
HEAVY = (
    "numba",
    "llvmlite",
    "torch",
    "matplotlib",
    "tqdm",
    "scipy",
    "sklearn",
    "pandas",
    "PIL",
    "safetensors",
    "mlxtend",
    "mpi4py",
    "retrograd.distributed",
)


def _names(requirements: list[str]) -> list[str]:
    return sorted(requirement.split(">")[0].split("=")[0].split("[")[0].strip() for requirement in requirements)


def test_the_library_needs_numpy_and_numba_and_nothing_else() -> None:
    assert _names(PROJECT["project"]["dependencies"]) == ["numba", "numpy"]


@pytest.mark.parametrize(
    ("extra", "packages"),
    [
        ("data", ["mlxtend"]),
        ("images", ["pillow"]),
        ("safetensors", ["safetensors"]),
        ("train", ["matplotlib", "tqdm"]),
    ],
)
def test_each_extra_is_for_one_thing_and_the_tests_have_all(extra: str, packages: list[str]) -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert _names(extras[extra]) == packages
    (own,) = (requirement for requirement in extras["test"] if requirement.startswith("retrograd["))
    assert extra in own[len("retrograd[") : -1].split(",")


def test_dependencies_are_declared_in_one_place() -> None:
    others = [*ROOT.glob("requirements*.txt"), ROOT / "setup.py", ROOT / "setup.cfg", ROOT / "environment.yml"]
    assert not [path.name for path in others if path.exists()]


def test_version_is_the_same_everywhere() -> None:
    version = PROJECT["project"]["version"]
    assert retrograd.__version__ == version
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_console_script_exists() -> None:
    module, _, function = PROJECT["project"]["scripts"]["retrograd"].partition(":")
    assert importlib.util.find_spec(module) is not None
    assert callable(getattr(importlib.import_module(module), function))


def test_data_and_types_come_with_the_package() -> None:
    package = resources.files("retrograd")
    data = ("digits.csv.gz", "sunspots.csv.gz", "ATTRIBUTION.txt")
    for name in ("py.typed", "torch_api/pytorch_names.txt", *(f"data/files/{file}" for file in data)):
        assert package.joinpath(name).is_file(), name


def test_everything_public_is_there() -> None:
    missing = [name for name in retrograd.__all__ if not hasattr(retrograd, name)]
    assert not missing
    assert retrograd.__all__ == sorted(retrograd.__all__)


_IMPORT = """
import json, sys, time
made = []

def heard(event, arguments):
    place = sys._getframe(1).f_code.co_filename if event == "compile" else ""
    if "retrograd" in place:
        made.append(place)

sys.addaudithook(heard)
start = time.perf_counter()
import {module}
seconds = time.perf_counter() - start
print(json.dumps([seconds, [name for name in {heavy!r} if name in sys.modules], made]))
"""


MODULES = ["retrograd", "retrograd.nn", "retrograd.optim", "retrograd.utils.data", "retrograd.interop", "retrograd.cli"]


@pytest.mark.parametrize("module", ["retrograd", ", ".join(MODULES)], ids=["alone", "all"])
def test_import_is_light(module: str) -> None:
    code = _IMPORT.format(module=module, heavy=HEAVY)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, loaded, made = json.loads(run.stdout)
    print(f"import {module}: {seconds:.3f} s")
    assert loaded == []
    assert made == []  # no code is generated at import
