"""The README's speed picture: it is drawn from the current results and shows their values."""

from __future__ import annotations

import importlib
import json
import math
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
DRAWN = (ROOT / "docs" / "static" / "speed.svg").read_text(encoding="utf-8")
CONTENT = json.loads((ROOT / "benchmarks" / "results.json").read_text(encoding="utf-8"))
MACHINE = {"processor": "Some(R) CPU <fast> & more", "retrograd": "1", "PyTorch": "2"}


def _module() -> ModuleType:
    sys.path.insert(0, str(ROOT))
    try:
        return importlib.import_module("benchmarks.picture")
    finally:
        sys.path.remove(str(ROOT))


picture = _module()


def _row(group: str, ratio: float | None, **more: Any) -> Any:
    facts = {"group": group, "name": "r", "threads": 1, "unit": "s", "ours": 1.0, "ratio": ratio}
    return picture.Result(**facts | more)


def _numbers(kind: str, text: str) -> list[float]:
    return [float(number) for number in re.findall(rf'<circle[^>]* {kind}="([\d.]+)"', text)]


def test_it_is_of_the_results_that_there_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(picture, "PICTURE", tmp_path / "speed.svg")
    picture.draw()
    drawn = (tmp_path / "speed.svg").read_text(encoding="utf-8")
    assert drawn == DRAWN, "run: python -m benchmarks --plot"


def test_every_group_of_times_is_in_it() -> None:
    """Every group that was timed against PyTorch is shown, including unfavorable ones."""
    rows = [row for row in CONTENT["results"] if row["unit"] == "s" and row["ratio"] and row["threads"]]
    shown = {element.text or "" for element in ElementTree.fromstring(DRAWN).iter() if element.tag.endswith("text")}
    for group in {row["group"] for row in rows if not row["best"].startswith(("retrograd", "onnxruntime"))}:
        assert group in shown or group.split()[0].rstrip(":") in shown
    assert len(_numbers("cx", DRAWN)) >= 15


def test_it_shows_geometric_means_on_a_logarithmic_axis() -> None:
    rows = [_row("a", 1.0), _row("a", 16.0), _row("b", 2.0), _row("c", 0.5), _row("conv 1", 1.0), _row("conv 2", 1.0)]
    drawn = picture.picture(MACHINE, rows)
    assert re.findall(r">([\d.]+×)</text>", drawn)[-4:] == ["4.00×", "2.00×", "1.00×", "0.50×"]  # best first
    four, two, one, half = _numbers("cx", drawn)
    assert math.isclose(four - two, two - one, abs_tol=0.15) and math.isclose(two - one, one - half, abs_tol=0.15)
    (line,) = re.findall(r'<path d="M([\d.]+) [^"]*" stroke="[^"]*" stroke-width="2"/>', drawn)
    assert float(line) == one  # the line at 1.0
    assert drawn.count(picture._SLOWER) == 3 and "Some CPU &lt;fast&gt; &amp; more" in drawn


@pytest.mark.parametrize(
    "row",
    [
        _row("whole processes", 9.0, threads=None),
        _row("memory", 9.0, unit="MiB"),
        _row("errors", 9.0, unit="rms"),
        _row("without PyTorch", None),
        _row("lengths", 9.0, best="retrograd, all steps"),
        _row("another library", 9.0, best="onnxruntime"),
        _row("a lower level", 9.0, level="avx2"),
    ],
    ids=lambda row: row.group,
)
def test_what_is_no_time_beside_pytorch_is_not_in_it(row: Any) -> None:
    assert picture.ratios([row, _row("a", 2.0)]) == {"a": [2.0]}


def test_nothing_lies_outside_or_on_another() -> None:
    """Bounding boxes, for letters as wide as in the widest common font: 0.58 of their size, 0.65 if bold."""
    root = ElementTree.fromstring(DRAWN)
    width, height = (float(number) for number in root.attrib["viewBox"].split()[2:])
    boxes = []
    for element in root.iter("{http://www.w3.org/2000/svg}text"):
        x, y, size = (float(element.attrib.get(name, root.attrib.get(name))) for name in ("x", "y", "font-size"))
        assert size >= 15  # in a picture 600 wide: 9 pixels on a phone
        wide = len(element.text or "") * size * (0.65 if "font-weight" in element.attrib else 0.58)
        left = x - wide * {"start": 0, "middle": 0.5, "end": 1}[element.attrib.get("text-anchor", "start")]
        boxes.append((left, y - size, left + wide, y))
        assert left >= 0 and left + wide <= width and y <= height, element.text
    for number, (left, top, right, bottom) in enumerate(boxes):
        for other in boxes[:number]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top
