"""Gradient vectors: their numbers against ONNX's reference, their files in ONNX's runner, the command."""

from __future__ import annotations

import hashlib
import re
import stat
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import numpy_helper  # noqa: E402
from onnx.backend.test import loader, runner  # noqa: E402

from onnx_models.reference import differences, evaluator  # noqa: E402
from retrograd.cli import main  # noqa: E402
from retrograd.onnx.backend import RetrogradBackend  # noqa: E402
from retrograd.onnx.vectors import Case, cases, chosen, write  # noqa: E402
from retrograd.onnx.vectors import files as files_module  # noqa: E402
from retrograd.onnx.vectors.case import (  # noqa: E402
    Apart,
    Literal,
    Uniform,
    case,
)
from retrograd.onnx.vectors.files import (  # noqa: E402
    Vector,
    contents,
    vector,
)

CASES = {each.name: each for each in chosen()}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "gradient_vectors.md"
CLOSE = 1e-10  # the largest difference is 2e-11


def by_family(family: str) -> Iterator[Case]:
    yield from cases()[family]


# ---- the numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", cases())
def test_outputs_and_gradients_against_the_reference(family: str) -> None:
    for each in by_family(family):
        found = vector(each)
        for name, expected in evaluator(each)(each.arrays).items():
            if expected.dtype.kind == "f":
                np.testing.assert_allclose(found.outputs[name], expected, rtol=1e-13, atol=1e-13, err_msg=each.name)
        far = {(name, far) for name, far in differences(each, found, 1) if not far <= CLOSE}
        assert not far, f"{each.name}: {far}"


@pytest.mark.nightly
@pytest.mark.parametrize("family", cases())
def test_many_entries_of_each_gradient(family: str) -> None:
    for each in by_family(family):
        far = {(name, far) for name, far in differences(each, vector(each), 30) if not far <= CLOSE}
        assert not far, f"{each.name}: {far}"


def planted(fault: str, found: Vector, name: str) -> np.ndarray:
    g = found.outputs[name].copy()
    if fault == "too large":
        return g * 1.00001
    if fault == "transposed":
        return np.ascontiguousarray(g.transpose(0, 1, 3, 2))
    g.reshape(-1)[g.size // 2] += 1e-4
    return g


@pytest.mark.parametrize("fault", ["too large", "transposed", "one entry"])
def test_a_planted_fault_is_seen(fault: str) -> None:
    each = CASES["conv_2d_groups"]
    found = vector(each)
    found.outputs["grad_W"] = planted(fault, found, "grad_W")
    assert {name for name, far in differences(each, found, 200) if far > 1e3 * CLOSE} == {"W"}


def test_indices_point_at_the_maxima() -> None:
    found = vector(CASES["max_pool_2d_indices"])
    assert np.array_equal(found.inputs["X"].reshape(-1)[found.outputs["Indices"]], found.outputs["Y"])


def test_numbers_follow_the_rule_of_the_page() -> None:
    """Compare with a second implementation of the rule, number by number."""

    def words(text: str, count: int) -> list[int]:
        raw = hashlib.shake_256(text.encode()).digest(2 * count)
        return [raw[2 * k] + 256 * raw[2 * k + 1] for k in range(count)]

    x = [-2 + 4 * (2 * w + 1) / 2**17 for w in words("conv_1d/X", 2 * 3 * 11)]
    assert vector(CASES["conv_1d"]).inputs["X"].reshape(-1).tolist() == x
    g = [-2 + 4 * (2 * w + 1) / 2**17 for w in words("conv_1d/grad_Y", 2 * 4 * 9)]
    assert vector(CASES["conv_1d"]).inputs["grad_Y"].reshape(-1).tolist() == g
    drawn = words("relu/X", 30)
    ranks = [sorted(range(30), key=lambda k: (drawn[k], k)).index(place) for place in range(30)]
    assert CASES["relu"].arrays["X"].reshape(-1).tolist() == [(2 * r + 1.5 - 30) / 8 for r in ranks]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 120])
def test_entries_are_apart(count: int) -> None:
    x = np.sort(Apart((count,)).drawn("any"))
    step = 2.0 ** (2 - count.bit_length())
    assert (np.diff(x) == 2 * step).all() and np.abs(x).min() >= step / 2 and 2 <= count * step < 4


def test_float32_holds_every_input_and_attribute() -> None:
    for each in CASES.values():
        found = vector(each)
        for array in [*found.inputs.values(), *map(np.array, each.attributes.values())]:
            assert array.dtype.kind != "f" or np.array_equal(array.astype(np.float32), array), each.name
        assert all(array.dtype == "f8" for name, array in found.outputs.items() if name.startswith("grad_"))


# ---- the files -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parent") / "vectors"
    assert main(["vectors", str(folder)]) == 0
    return folder


def test_onnx_accepts_every_model(written: Path) -> None:
    for folder in written.iterdir():
        onnx.checker.check_model(onnx.load(folder / "model.onnx"), full_check=True)


def test_our_backend_passes_them_in_onnx_runner(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The backend runs the compiled kernels; the expected numbers come from the plain NumPy kernels."""
    found = loader.load_model_tests(data_dir=str(written.parent), kind="vectors")
    assert {each.rtol for each in found} == {1e-7}
    monkeypatch.setattr(runner, "load_model_tests", lambda kind: found if kind == "simple" else [])
    result = unittest.TestResult()
    (tests,) = (each for kind, each in runner.Runner(RetrogradBackend).test_cases.items() if "Simple" in kind)
    for name in dir(tests):
        if name.startswith("test_") and name.endswith("_cpu"):
            tests(name).run(result)
    assert result.testsRun == len(CASES) > 300
    assert not result.skipped and result.wasSuccessful(), [text for _, text in result.errors + result.failures]


def test_both_kernel_sets_agree_to_the_last_digits() -> None:
    for each in CASES.values():
        found = vector(each)
        computed = RetrogradBackend.prepare(found.model).run(list(found.inputs.values()))
        for (name, array), ours in zip(found.outputs.items(), computed, strict=True):
            np.testing.assert_allclose(ours, array, rtol=1e-12, atol=1e-13, err_msg=f"{each.name}, {name}")


def test_the_same_bytes_again_and_the_numbers_of_the_case(written: Path) -> None:
    for each in CASES.values():
        for path, content in contents(each).items():
            assert (written / each.folder / path).read_bytes() == content
    folder = written / "test_gradient_of_lstm_sequence_lens"
    model = onnx.load(folder / "model.onnx")
    found = vector(CASES["lstm_sequence_lens"])
    for kind, infos, arrays in (
        ("input", model.graph.input, found.inputs),
        ("output", model.graph.output, found.outputs),
    ):
        assert [info.name for info in infos] == list(arrays)
        for place, array in enumerate(arrays.values()):
            tensor = onnx.load_tensor(folder / "test_data_set_0" / f"{kind}_{place}.pb")
            assert tensor.name == infos[place].name
            assert np.array_equal(numpy_helper.to_array(tensor), array)
    assert {stat.S_IMODE(path.stat().st_mode) & 0o444 for path in folder.rglob("*")} == {0o444}


def test_the_page_lists_the_families() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = {
        f"| {family} | {len(some)} | {', '.join(dict.fromkeys(each.operator for each in some))} |"
        for family, some in cases().items()
    }
    assert rows <= set(text.splitlines()), "\n".join(sorted(rows))
    assert f"{len(CASES)} cases" in text


# ---- choosing and writing ------------------------------------------------------------------------------------------


def test_names_are_different() -> None:
    assert len(CASES) == len(chosen()) and all(re.fullmatch(r"[a-z]\w+", name) for name in CASES)


def test_choosing() -> None:
    assert {each.operator for each in chosen(["lstm"])} == {"LSTM"}
    assert {each.operator for each in chosen(["Recurrent"])} == {"RNN", "GRU", "LSTM"}
    assert chosen(["gru", "lstm"]) == [each for each in chosen() if each.operator in ("GRU", "LSTM")]
    with pytest.raises(ValueError, match="no case has 'lostm' in its name, operator or family; families: convolution"):
        chosen(["lstm", "lostm"])


def test_inputs_of_any_number_are_numbered() -> None:
    assert case("x", "Max", (1,), (1,), (1,)).input_names == ["data_0", "data_1", "data_2"]
    assert case("x", "Clip", Uniform((1,)), None, Literal(np.array(1.0))).input_names == ["input", "", "max"]


def test_list_and_some(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["vectors", "--list", "--only", "gelu", "--only", "gather_nd"]) == 0
    names = capsys.readouterr().out.split()
    assert "test_gradient_of_gelu_tanh" in names and "test_gradient_of_gather_nd" in names and len(names) == 4
    assert main(["vectors", str(tmp_path / "new" / "folder"), "--only", "mish"]) == 0
    assert re.search(r"folder: 1 case, 0\.0\d MB\n", capsys.readouterr().out)
    (folder,) = (tmp_path / "new" / "folder").iterdir()
    assert folder.name == "test_gradient_of_mish"
    assert sorted(path.name for path in folder.iterdir()) == ["data.json", "model.onnx", "test_data_set_0"]


def test_usage_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    for arguments, text in (
        (["--only", "lostm", "new"], "--only: no case has 'lostm'"),
        ([], "DIR is missing: name a folder that is new or empty, or --list the cases"),
        ([str(tmp_path)], "is not empty; name a new folder"),
        ([str(tmp_path / "file")], "is not a folder; name a new folder"),
    ):
        assert main(["vectors", *arguments]) == 2
        assert text in capsys.readouterr().err
    assert main(["vectors", str(tmp_path / "file" / "below")]) == 1
    assert "below was not written: " in capsys.readouterr().err


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def missing() -> None:
        raise ImportError("retrograd.onnx needs the package onnx (none): pip install 'retrograd[onnx]'")

    monkeypatch.setattr(files_module, "onnx", missing)
    assert main(["vectors", str(tmp_path / "new")]) == 1
    assert "pip install 'retrograd[onnx]'" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="folders are renamed otherwise there")
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_case_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type) -> None:
    usual, count = Path.write_bytes, 0

    def write_bytes(path: Path, content: bytes) -> int:
        nonlocal count
        count += 1
        if count == 9:  # each of these two has seven files
            raise error
        return usual(path, content)

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    with pytest.raises(error):
        write(str(tmp_path / "new"), chosen(["softmax_axis"])[:2])
    (folder,) = (tmp_path / "new").iterdir()
    monkeypatch.undo()
    each = CASES[folder.name.removeprefix("test_gradient_of_")]
    assert {path: (folder / path).read_bytes() for path in contents(each)} == contents(each)
