"""ONNX's own backend tests, run by our backend."""

import pytest

pytest.importorskip("onnx")
from conftest import numpy_2
from onnx_models import suite, table

needs_numpy_2 = pytest.mark.skipif(not numpy_2, reason="with NumPy 1.26 other tests of ONNX pass")


def test_none_fails() -> None:
    """One test, because each process that collects the cases of a parametrized one makes thousands of models."""
    failed = {name: found.text for name in suite.cases() if (found := suite.outcome(name)).kind == "failed"}
    assert not failed, "\n".join(f"{name}: {text}" for name, text in failed.items())


def test_all_of_the_core() -> None:
    core = [name for name, operator in suite.operators().items() if operator in suite.CORE]
    assert len(core) >= 265  # of onnx 1.23.2
    assert {name: suite.outcome(name).kind for name in core if suite.outcome(name).kind != "passed"} == {}


@needs_numpy_2
def test_what_is_refused_is_refused() -> None:
    kinds = [suite.outcome(name) for name in suite.cases()]
    assert {found.text for found in kinds if found.kind == "refused"} == set(suite.REFUSED)
    assert {found.text for found in kinds if found.kind == "excused"} == set(suite.OTHER.values())


@needs_numpy_2
def test_the_table_is_current() -> None:
    assert table.PAGE.read_text(encoding="utf-8") == table.text(), "run: make onnx-table"
