"""Packages above the kernels call no NumPy function: kernels compute, and ``arrays`` creates and reads arrays."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import retrograd

PACKAGE = Path(retrograd.__file__).parent
# functions of dtypes, shapes and numbers, and constants
HARMLESS = {
    *("dtype", "errstate", "result_type", "iinfo", "finfo", "can_cast", "promote_types", "issubdtype", "isscalar"),
    *("ndim", "shape", "broadcast_shapes", "float32", "float64", "int64", "bool_", "generic", "lib"),
}
ROOMS = ("ops", "nn", "lowbit", "engine", "optim", "rules", "distributions")
# files that compute on the host, from copies of elements, for output to the user
ON_THE_HOST = {
    "engine/gradcheck.py": "draws where gradients are checked",
    "engine/gradcheck_diagnosis.py": "looks for the cause of a wrong gradient",
    "engine/anomaly.py": "says where the first NaN is",
    "engine/printing.py": "prints elements",
}
# (file, NumPy function) -> why it is allowed
EXCEPTIONS = {
    ("ops/product/einsum.py", "einsum_path"): "orders products by shapes; it reads no element",
    ("nn/recording_state.py", "random.get_state"): "random numbers of NumPy that a user draws",
    ("nn/recording_state.py", "random.set_state"): "the same",
}


def calls(text: str) -> list[str]:
    """Return the NumPy functions that source code calls."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            module, *name = ast.unparse(node.func).split(".")
            if module == "np" and name[0].isidentifier() and name[0] not in HARMLESS:
                found.append(".".join(name))
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_arrays_are_computed_with_by_kernels(room: str) -> None:
    found = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in (PACKAGE / room).rglob("*.py")
        for name in calls(path.read_text(encoding="utf-8"))
    }
    extra = {each for each in found if each[0] not in ON_THE_HOST} - EXCEPTIONS.keys()
    assert not extra, f"make kernels of these, or use arrays/: {sorted(extra)}"


def test_no_exception_is_out_of_date() -> None:
    for file in ON_THE_HOST:
        assert calls((PACKAGE / file).read_text(encoding="utf-8")), file
    for file, name in EXCEPTIONS:
        assert name in calls((PACKAGE / file).read_text(encoding="utf-8")), file


READS = {"item", "tolist", "any", "all", "__bool__", "__float__", "__int__"}


def unnamed_reads(text: str) -> list[str]:
    """Return where source code reads elements of a tensor's array directly instead of through arrays/host.py."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            function, arguments = node.func, node.args
            if isinstance(function, ast.Attribute) and function.attr in READS:
                read = function.value
            elif isinstance(function, ast.Name) and function.id in ("bool", "float", "int") and arguments:
                read = arguments[0]
            else:
                continue
            if isinstance(read, ast.Attribute) and read.attr == "array":
                found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_values_are_read_by_name(room: str) -> None:
    found = {
        (path.relative_to(PACKAGE).as_posix(), read)
        for path in (PACKAGE / room).rglob("*.py")
        for read in unnamed_reads(path.read_text(encoding="utf-8"))
    }
    assert not {each for each in found if each[0] not in ON_THE_HOST}


def test_what_is_read() -> None:
    text = "x.array.item(); float(y.array); x.array.sum(); int(3); number(x.array, 'why'); x.array.any()"
    assert unnamed_reads(text) == ["x.array.item()", "float(y.array)", "x.array.any()"]


def test_what_counts() -> None:
    text = "np.where(a, b, np.float32(1)); x.sum(); np.linalg.inv(a); np.dtype('f'); np.abs(x).sum()"
    assert calls(text) == ["where", "linalg.inv", "abs"]
