"""The gradient vectors against PyTorch in float64: outputs and gradients of every case whose operator it has."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from peers.vector_operators import OPERATORS
from retrograd.onnx.backend import RetrogradBackend
from retrograd.onnx.vectors import Case, chosen, write
from retrograd.onnx.vectors.files import Vector, vector

MISSING = {
    "DeformConv": "it is in torchvision",
    "resize_linear_asymmetric": "interpolate has no such positions",
}
CASES = {case.name: case for case in chosen() if not {case.name, case.operator} & set(MISSING)}


def of_pytorch(case: Case, found: Vector) -> dict[str, np.ndarray]:
    """Outputs and gradients."""
    given = {name: torch.from_numpy(found.inputs[name].copy()) for name in case.arrays}
    xs = [given[name].requires_grad_() for name in case.differentiated]
    results = OPERATORS[case.operator](*[given.get(name) for name in case.input_names], **case.attributes)
    results = dict(zip(case.output_names, results if isinstance(results, tuple) else (results,), strict=False))
    upstream = [torch.from_numpy(found.inputs[f"grad_{name}"].copy()) for name in case.weighted_names]
    gradients = torch.autograd.grad([results[name] for name in case.weighted_names], xs, upstream)
    outputs = {name: result.detach().numpy() for name, result in results.items()}
    return outputs | {f"grad_{name}": g.numpy() for name, g in zip(case.differentiated, gradients, strict=True)}


@pytest.mark.parametrize("name", CASES)
def test_outputs_and_gradients(name: str) -> None:
    """Those of the vectors, and those of our backend with each kernel set."""
    case = CASES[name]
    found = vector(case)
    expected = of_pytorch(case, found)
    ours = RetrogradBackend.prepare(found.model).run(list(found.inputs.values()))
    for (name, written), computed in zip(found.outputs.items(), ours, strict=True):
        if name in expected:
            np.testing.assert_allclose(written, expected[name], rtol=1e-12, atol=1e-13, err_msg=name)
            np.testing.assert_allclose(computed, expected[name], rtol=1e-12, atol=1e-13, err_msg=name)
    assert {f"grad_{name}" for name in case.differentiated} <= set(expected)


def test_what_is_missing_is_missing() -> None:
    assert {case.operator for case in CASES.values()} == set(OPERATORS)
    assert len(CASES) > 300


def test_the_script_of_the_page(tmp_path: Path, kernel_set: str) -> None:
    """It finds nothing wrong in the cases that it has, and a planted fault."""
    page = Path(__file__).resolve().parents[2] / "docs" / "reference" / "gradient_vectors.md"
    (script,) = re.findall(r"^```\{code-block\} python\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "check.py").write_text(script, encoding="utf-8")
    words = ["conv_2d", "gelu", "GroupNormalization", "mish"]
    cases = [case for case in chosen(words) if case.operator != "DeformConv"]
    write(tmp_path / "vectors", cases)
    wrong = tmp_path / "vectors" / "test_gradient_of_gelu" / "test_data_set_0" / "output_1.pb"
    tensor = onnx.load_tensor(wrong)
    g = onnx.numpy_helper.to_array(tensor).copy()
    g[0, 0, 0] += 1e-6
    onnx.save_tensor(onnx.numpy_helper.from_array(g, tensor.name), wrong)
    program = [sys.executable, str(tmp_path / "check.py"), str(tmp_path / "vectors")]
    lines = subprocess.run(program, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == sum(case.operator != "Mish" and "auto_pad" not in case.attributes for case in cases)
    assert [line.split(":")[0] for line in lines if "WRONG" in line] == ["test_gradient_of_gelu"]
