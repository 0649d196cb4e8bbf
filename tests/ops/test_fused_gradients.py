"""docs/contributing/fused_gradients.md lists every gradient with two implementations, and the test that they agree."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPS = ROOT / "src" / "retrograd" / "ops"
PAGE = ROOT / "docs" / "contributing" / "fused_gradients.md"
MOST = 15
_ASKS = {"recording", "is_grad_enabled"}


def branches(room: Path) -> set[str]:
    """Return ``file:function`` of all functions that test whether the gradient is recorded."""
    found = set()
    for path in sorted(room.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for outer in tree.body:
            for inner in outer.body if isinstance(outer, ast.ClassDef) else [outer]:
                if not isinstance(inner, ast.FunctionDef) or inner.name in _ASKS:
                    continue
                calls = (node.func for node in ast.walk(inner) if isinstance(node, ast.Call))
                if any(getattr(call, "id", "") in _ASKS for call in calls):
                    name = inner.name if inner is outer else f"{outer.name}.{inner.name}"
                    found.add(f"{path.relative_to(room).as_posix()}:{name}")
    return found


def listed() -> dict[str, str]:
    """Return ``file:function`` -> test, from the table in the page."""
    rows = re.findall(r"^\| `(\S+?:\S+?)` \|.*\| `(\S+?)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return dict(rows)


def test_every_branch_is_on_the_page() -> None:
    assert branches(OPS) == set(listed())


def test_there_are_few() -> None:
    gradients = [name for name, test in listed().items() if test != "-"]
    assert len(gradients) <= MOST


@pytest.mark.parametrize("test", sorted(set(listed().values()) - {"-"}))
def test_the_test_on_the_page_exists(test: str) -> None:
    file, _, name = test.partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_a_planted_branch_is_found(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text(
        "class New(Function):\n    def backward(ctx, g):\n        if recording():\n            return g\n"
        "def run():\n    return is_grad_enabled()\n"
    )
    assert branches(tmp_path) == {"new.py:New.backward", "new.py:run"}
