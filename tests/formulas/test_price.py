"""A new pointwise operator needs only its formula and its registration; everything else follows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import retrograd

TESTS = Path(__file__).resolve().parents[1]

ONE = '''

@formula
def sine_squared(x: Operand) -> Operand:
    """sin(x)**2"""
    return sin(x) * sin(x)


@formula
def sine_squared_grad(g: Operand, x: Operand) -> Operand:
    """g sin(2 x)"""
    return g * sin(x * 2.0)
'''
TWO = '''

@formula
def sine_of_product(x: Operand, y: Operand) -> Operand:
    """sin(x y)"""
    return sin(x * y)


def sine_of_product_grad_x(g: Operand, x: Operand, y: Operand) -> Operand:
    """g y cos(x y)"""
    return g * (y * cos(x * y))


def sine_of_product_grad_y(g: Operand, x: Operand, y: Operand) -> Operand:
    """g x cos(x y)"""
    return g * (x * cos(x * y))


gradients("sine_of_product", sine_of_product_grad_x, sine_of_product_grad_y)
'''
NUMBER = '''


@formula
def sine_in_steps(x: Operand, steps: float) -> Operand:
    """sin(steps x)"""
    return sin(x * steps)


@formula
def sine_in_steps_grad(g: Operand, x: Operand, steps: float) -> Operand:
    """g steps cos(steps x)"""
    return g * (cos(x * steps) * steps)
'''
ROWS = {
    "sine_squared": (
        ONE,
        '''
class SineSquared(Pointwise, formula="sine_squared"):
    """sin(x)**2"""


@operator(records=SineSquared, domains=((-2.0, 2.0),), methods="sine_squared")
def sine_squared(input: Tensor) -> Tensor:
    """sin(input)**2"""
    if interpreters and (seen := interpreted(sine_squared, locals())) is not None:
        return seen
    return SineSquared.apply(as_float("sine_squared", input))
''',
    ),
    "sine_of_product": (
        TWO,
        '''
class SineOfProduct(Pointwise, Binary, formula="sine_of_product"):
    """sin(x y)"""


@operator(records=SineOfProduct, domains=((-2.0, 2.0), (-2.0, 2.0)), methods="sine_of_product")
def sine_of_product(input: Tensor | float, other: Tensor | float) -> Tensor:
    """sin(input * other)"""
    if interpreters and (seen := interpreted(sine_of_product, locals())) is not None:
        return seen
    return binary(SineOfProduct, "sine_of_product", input, other)
''',
    ),
    "sine_in_steps": (
        NUMBER,
        '''
from ..argument_checks import as_real


class SineInSteps(Pointwise, formula="sine_in_steps"):
    """sin(steps x)"""


@operator(records=SineInSteps, domains=((-2.0, 2.0),), methods="sine_in_steps", in_place=True)
def sine_in_steps(input: Tensor, steps: float = 1.5) -> Tensor:
    """sin(steps * input)"""
    if interpreters and (seen := interpreted(sine_in_steps, locals())) is not None:
        return seen
    return SineInSteps.apply(as_float("sine_in_steps", input), as_real("sine_in_steps", "steps", steps))
''',
    ),
}
TOUCHED = ["formulas/transcendental.py", "ops/pointwise/trigonometry.py"]  # besides the test

FOUND = """
import inspect
import sys
import numpy as np
import onnx
import retrograd
from conformance import test_conformance
from ops import attached
from retrograd.kernels import compiled
sys.path.insert(0, sys.argv[2])
import operator_pages
import pages

name = sys.argv[1]
operator = getattr(retrograd, name)
assert getattr(retrograd.Tensor, name) is operator
assert f"def {name}(self" in attached.text()
for of in (name, f"{name}_grad"):
    assert of in compiled.__all__ and of in retrograd.kernels.textbook.__all__
assert any(handle.path == f"pointwise.{name}" for handle in compiled.machine.launch.registered())
assert f".. autofunction:: retrograd.{name}\\n" in pages.family_page("trigonometry")
included = [each for _, each in operator_pages.sources(inspect.unwrap(operator), set())]
assert name in included and f"{name}_grad" in included

assert operator.operator.page == name and retrograd.explain(name) is not None
if operator.operator.in_place:
    x = retrograd.Tensor(np.array([0.25, 0.5]))
    assert getattr(x, f"{name}_")(3.0) is x and f"def {name}_(self" in attached.text()
    np.testing.assert_allclose(x.array, np.sin([0.75, 1.5]))
model, example = retrograd.nn.Sequential(), retrograd.randn(3, 4)
model.forward = lambda x: operator(*[x] * len(operator.operator.domains))
retrograd.onnx.export(model, example, sys.argv[3])
nodes = onnx.load(sys.argv[3]).graph.node
assert "Sin" in [node.op_type for node in nodes]

count = len(operator.operator.domains)
arrays = [np.linspace(-1.5, 1.5, 37) + place for place in range(count)]
outcomes = []
for kernels in ("compiled", "textbook"):
    with retrograd.use_kernels(kernels):
        leaves = [retrograd.Tensor(array, requires_grad=True) for array in arrays]
        y = operator(*leaves)
        y.backward(retrograd.Tensor(np.cos(arrays[0])))
        outcomes.append([y.array, *(leaf.grad.array for leaf in leaves)])
for one, other in zip(*outcomes, strict=True):
    np.testing.assert_allclose(one, other, 1e-13, 1e-13)

test_conformance.test_every_operator_is_here()
with retrograd.use_kernels("textbook"):
    next(entry for entry in test_conformance.OPERATORS if entry.name == name).run(full=False)

@retrograd.formula
def around(x):
    return operator(*[x] * count) + 1.0

x = retrograd.Tensor(np.array([0.25, 0.5]), requires_grad=True)
with retrograd.use_kernels("textbook"):
    around(x).sum().backward()
    plain = x.detach().requires_grad_()
    operator(*[plain] * count).sum().backward()
np.testing.assert_allclose(x.grad.array, plain.grad.array, 1e-13)
"""


def changed(one: Path, other: Path) -> list[str]:
    """The files of a package that differ in another copy."""
    files = sorted(path.relative_to(other).as_posix() for path in other.rglob("*.py"))
    return [file for file in files if (one / file).read_bytes() != (other / file).read_bytes()]


RARE = [pytest.param(name, marks=pytest.mark.nightly) for name in ("sine_squared", "sine_of_product")]


@pytest.mark.parametrize("name", ["sine_in_steps", *RARE])
def test_a_formula_and_a_row_are_all(name: str, tmp_path: Path) -> None:
    """In a copy of the package: methods, both kernel sets, pages, export, conformance, users' formulas."""
    copy = tmp_path / "src" / "retrograd"
    shutil.copytree(Path(retrograd.__file__).parent, copy)  # with the bytecode
    formula, row = ROWS[name]
    with open(copy / "formulas" / "transcendental.py", "a", encoding="utf-8") as file:
        file.write(formula)
    family = copy / "ops" / "pointwise" / "trigonometry.py"
    text = family.read_text(encoding="utf-8").replace("__all__ = [\n", f'__all__ = [\n    "{name}",\n')
    family.write_text(f"{text}\n{row}", encoding="utf-8")
    script = tmp_path / "found.py"
    script.write_text(FOUND)
    place = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(copy.parent), str(TESTS), str(TESTS.parent))),
        "RETROGRAD_CACHE_DIR": str(tmp_path / "cache"),
    }
    assert changed(Path(retrograd.__file__).parent, copy) == TOUCHED
    command = [sys.executable, str(script), name, str(TESTS.parent / "docs/_ext"), str(tmp_path / "model.onnx")]
    done = subprocess.run(command, env=place, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
