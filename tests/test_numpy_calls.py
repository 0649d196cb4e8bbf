"""Arrays are computed with by kernels. What still calls NumPy itself is counted here, and may only become less."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import retrograd

PACKAGE = Path(retrograd.__file__).parent
# of types, shapes and numbers, and constants
HARMLESS = {
    *("dtype", "errstate", "result_type", "iinfo", "finfo", "can_cast", "promote_types", "issubdtype", "isscalar"),
    *("ndim", "shape", "broadcast_shapes", "float32", "float64", "int64", "bool_", "generic", "lib"),
}
# room -> calls; lower a number when a call has become a kernel
MOST = {"ops": 752, "nn": 128, "lowbit": 106, "engine": 99, "optim": 23, "rules": 8, "distributions": 55}


def calls(text: str) -> list[str]:
    """The functions of NumPy that a text calls."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            module, *name = ast.unparse(node.func).split(".")
            if module == "np" and name[0].isidentifier() and name[0] not in HARMLESS:
                found.append(".".join(name))
    return found


@pytest.mark.parametrize("room", MOST)
def test_no_call_is_added(room: str) -> None:
    count = sum(len(calls(path.read_text(encoding="utf-8"))) for path in (PACKAGE / room).rglob("*.py"))
    assert count <= MOST[room], f"{room} calls NumPy {count} times; make a kernel of what is new"
    assert count > MOST[room] - 10, f"{room} calls NumPy {count} times; lower the number here"


def test_what_counts() -> None:
    text = "np.where(a, b, np.float32(1)); x.sum(); np.linalg.inv(a); np.dtype('f'); np.abs(x).sum()"
    assert calls(text) == ["where", "linalg.inv", "abs"]
