"""Operators, and interpreters that intercept their calls."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.engine.operator import OPERATORS, Interpreter, Operator, interpreters
from retrograd.explanation.operators import find
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name

PACKAGE = Path(rg.__file__).parent


class Noting(Interpreter):
    """Records the names of the operators, and passes the calls on."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def call(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if operator.name not in ("binary", "unary_exact", "cast"):  # helpers inside operators
            self.names.append(operator.name)
        return operator.run(args, kwargs)


X = rg.tensor([[1.0, -2.0], [3.0, 0.5]])


# ---- what is known ---------------------------------------------------------------------------------------------------


def test_an_operator_stays_a_function() -> None:
    assert inspect.isfunction(rg.exp) and rg.exp.__doc__ == "e**input"
    assert list(inspect.signature(F.softplus).parameters) == ["input", "beta", "threshold"]
    assert rg.exp.operator.name == "exp" and rg.exp.operator.function is inspect.unwrap(rg.exp)
    assert [each.__name__ for each in F.conv2d.operator.functions] == ["Conv"]
    assert repr(rg.exp.operator) == "<operator exp>"
    assert pickle.loads(pickle.dumps(rg.exp.operator)) is rg.exp.operator
    assert rg.sum.operator is rg.Tensor.sum.operator  # although wrappers translate NumPy's argument names


def test_its_mathematics_and_its_textbook_functions() -> None:
    assert F.softmax.operator.mathematics.splitlines() == [
        "softmax: exp(input) / sum(exp(input)) along axis ``dim``, computed without overflow.",
        "x: y * (g - sum(g * y))",
    ]
    assert rg.mul.operator.mathematics.splitlines()[-1] == "x: g y; y: g x"
    assert [each.__name__ for each in F.softmax.operator.textbook] == ["softmax", "softmax_grad"]
    assert not rg.exp.operator.moves and rg.reshape.operator.in_place is False
    assert rg.sin.operator.methods == ("sin",) and rg.sin.operator.numpy == ("sin",) and rg.sin.operator.in_place
    assert rg.argsort.operator.mathematics.startswith("argsort: Return the indices")
    first = F.conv2d.operator.mathematics.splitlines()[0]  # the formula below a line that ends in a colon
    assert first.startswith("conv2d: Convolution over two axes, input (N, Ci, H, W): y[n, co, o] = ")
    for operator in OPERATORS:
        first, *gradients = operator.mathematics.splitlines()
        assert first.startswith(operator.name) and not first.endswith(":")
        assert len(gradients) == len(operator.functions)


def test_its_page_and_its_types() -> None:
    assert (rg.exp.operator.page, F.conv2d.operator.page, rg.zeros.operator.page) == ("exp", "conv2d", "")
    assert F.softmax.operator.dtypes == ("float32", "float64") and rg.zeros.operator.dtypes == ()
    assert rg.reshape.operator.dtypes == rg.Tensor.add_.operator.dtypes
    assert {"bool", "int64", "float16"} < {*rg.reshape.operator.dtypes}
    for operator in OPERATORS:
        if operator.page:
            assert find(operator.page)


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="operator: dtypes='fq' must be letters of 'bihf'"):
        rg.operator(dtypes="fq")
    with pytest.raises(TypeError, match="operator: unknown option name"):
        rg.operator(name="f")


def test_its_operators_of_onnx() -> None:
    pytest.importorskip("onnx")
    assert F.softmax.operator.onnx == ("Softmax",) and F.conv2d.operator.onnx == ("Conv",)
    assert rg.exp.operator.onnx == ("Exp",) and rg.add.operator.onnx == ("Add",)
    assert "MaxPool" in F.max_pool2d.operator.onnx
    assert (
        rg.zeros.operator.onnx == () == F.cross_entropy.operator.onnx
    )  # the latter is exported as its component operators
    for operator in OPERATORS:
        assert all(each[0].isupper() for each in operator.onnx)


def test_every_operator_begins_with_the_question() -> None:
    """The first statement after the docstring is the same in all operators, up to the function's own name."""
    found = 0
    texts = [(path, path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")]
    for path, written in texts:
        if not re.search(r"^from \.+(engine\.)?operator import .*interpreted", written, re.MULTILINE):
            continue
        for function in ast.walk(ast.parse(written)):
            if isinstance(function, ast.FunctionDef) and any(_is_operator(each) for each in function.decorator_list):
                body = function.body[1:] if ast.get_docstring(function) is not None else function.body
                own = rf"(\w+\.|_)?{function.name}"
                first = rf"if interpreters and \((\w+) := interpreted\({own}, locals\(\)\)\) is not None:\s+return \1"
                assert re.fullmatch(first, ast.unparse(body[0])), (path, function.name)
                found += 1
    assert found > 600


def _is_operator(decorator: ast.expr) -> bool:
    name = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(name, ast.Name) and name.id == "operator"


def test_what_a_function_records_it_names() -> None:
    """If a function applies Functions itself, they are among those that its registration names."""
    given = rg.tensor(np.linspace(0.2, 0.8, 6).reshape(2, 3), requires_grad=True)
    for operator in OPERATORS:
        if operator.domains and len(operator.domains) == 1:
            assert operator.function(given)._edge[0].function in operator.functions, operator


@pytest.mark.parametrize("records", [3, int, (rg.exp.operator.functions[0], rg.exp), "Exp"])
def test_what_is_no_function(records: Any) -> None:
    with pytest.raises(TypeError, match="operator: records=.* must be a Function, or a tuple of several"):
        rg.operator(records=records)
    with pytest.raises(TypeError, match="expected a function written with def"):
        rg.operator()(len)
    with pytest.raises(TypeError, match="expected a function written with def"):
        rg.operator(3)


# ---- interpreters ----------------------------------------------------------------------------------------------------


def test_calls_by_every_name_and_within_operators() -> None:
    with Noting() as noting:
        rg.exp(X)
        X.exp()
        np.exp(X)
        X + 1.0
        F.gelu(X)
        F.log_softmax(X, 1)
    assert noting.names == ["exp", "exp", "exp", "add", "gelu", "log_softmax"]
    assert not interpreters


def test_the_innermost_sees_first_and_hands_on() -> None:
    order: list[str] = []

    class Named(Interpreter):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def call(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            order.append(f"{self.name} {operator.name}")
            return operator.run(args, kwargs)

    with Named("outer"), Named("inner"):
        rg.neg(X)
    assert order[:2] == ["inner neg", "outer neg"]


def test_one_may_answer_itself() -> None:
    class Doubling(Interpreter):
        def call(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return operator.run(args, kwargs) * 2.0 if operator is rg.exp.operator else operator.run(args, kwargs)

    with Doubling():
        y = rg.exp(X)
    np.testing.assert_allclose(y.array, 2 * np.exp(X.array), 1e-6)


def test_run_outside_an_interpreter_is_a_call() -> None:
    with Noting() as noting:
        rg.exp.operator.run((X,), {})
    assert noting.names == ["exp"]
    np.testing.assert_allclose(rg.exp.operator.run((X,), {}).numpy(), np.exp(X.numpy()), rtol=1e-6)


def test_another_thread_is_not_seen() -> None:
    done = threading.Event()

    def work() -> None:
        rg.exp(X)
        done.set()

    with Noting() as noting:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert done.is_set() and noting.names == []


def test_an_error_leaves_the_stack_as_it_was() -> None:
    with Noting() as noting:
        with pytest.raises(TypeError):
            rg.exp("text")
        rg.neg(X)
    assert noting.names == ["exp", "neg"] and not interpreters
    assert Noting().__enter__() is interpreters[0]
    interpreters[0].__exit__(None, None, None)
    assert not interpreters


def test_arguments_as_they_were_given_or_by_default() -> None:
    seen: dict[str, Any] = {}

    class Reading(Interpreter):
        def call(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            seen[operator.name] = operator.named(args, kwargs)
            return operator.run(args, kwargs)

    with Reading():
        rg.clamp(X, max=1.0)
        rg.cat([X, X], 1)
        rg.einsum("ij,kj->ik", X, X)
    assert (
        list(seen["clamp"]) == ["input", "min", "max"] and seen["clamp"]["min"] is None and seen["clamp"]["max"] == 1.0
    )
    assert seen["cat"]["dim"] == 1 and len(seen["einsum"]["operands"]) == 2


# ---- operators of users ----------------------------------------------------------------------------------------------


@rg.operator
def swish(x: rg.Tensor, beta: float = 1.0) -> rg.Tensor:
    """x sigmoid(beta x)"""
    return x * rg.sigmoid(x * beta)


def test_a_users_function() -> None:
    assert swish.__doc__ == "x sigmoid(beta x)" and swish.operator.name == "swish"
    with Noting() as noting:
        swish(X, beta=2.0)
    assert noting.names[0] == "swish" and "sigmoid" in noting.names
    a = rg.tensor([0.5, -1.0], requires_grad=True)
    with rg.override_backward(swish, lambda g, a: g * 3.0):
        y = swish(a).sum()
    y.backward()
    assert a.grad is not None and a.grad.tolist() == [3.0, 3.0]
    assert pickle.loads(pickle.dumps(swish)) is swish


def test_a_users_function_with_a_method_named_gradient() -> None:
    class Double(rg.autograd.Function):
        def gradient(self) -> int:
            return 2

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return 2 * x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return 2 * grad

    @rg.operator(records=Double)
    def double(x: rg.Tensor) -> Any:
        """2 x"""
        return Double.apply(x)

    assert double.operator.mathematics.splitlines()[-1] == "x: 2 * grad"
