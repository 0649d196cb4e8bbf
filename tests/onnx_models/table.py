"""``python -m onnx_models.table`` in tests/: writes the docs page of passing ONNX node tests, by operator."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import onnx

from onnx_models import suite

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "onnx_table.md"


def text() -> str:
    """The page."""
    passed: dict[str, int] = defaultdict(int)
    others: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for name, operator in suite.operators().items():
        found = suite.outcome(name)
        if found.kind == "passed":
            passed[operator] += 1
        else:
            reason = f"not supported: {suite.REFUSED[found.text]}" if found.kind == "refused" else found.text
            others[operator][reason] += 1
    kinds = [suite.outcome(name).kind for name in suite.cases()]
    names = sorted({*passed, *others})
    lines = [
        "<!-- written by make onnx-table -->",
        "# ONNX's tests by operator",
        "",
        f"Of the {len(kinds)} tests of onnx {onnx.__version__} that need no download, {kinds.count('passed')} pass, "
        f"{kinds.count('refused')} use an operator that is not supported, and {kinds.count('excused')} do not pass for "
        "another reason. The table has the tests of single nodes; the others are function bodies and models from "
        "PyTorch.",
        "",
        "| operator | passed | others |",
        "| --- | --- | --- |",
    ]
    for name in names:
        why = "; ".join(f"{count}: {reason}" for reason, count in others[name].items())
        lines.append(f"| {name} | {passed[name]} | {why} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
    print(f"written to {PAGE}")
