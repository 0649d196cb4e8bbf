"""``out=``: results written to given tensors, for all operators that support it in PyTorch."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from conformance.test_types import CASES, as_function
from ops.battery import numbers
from retrograd.engine import inplace
from retrograd.ops.signatures import OUT
from retrograd.testing.function_call import Call, outputs_of

PLACES = {"": rg, "fft": rg.fft, "linalg": rg.linalg, "special": rg.special}
REFUSALS = (TypeError, ValueError, IndexError, RuntimeError, NotImplementedError)
# their argument is not a Tensor
FACTORIES = {
    "arange": (5,),
    "empty": (2, 3),
    "eye": (3,),
    "full": ((2, 3), 4.5),
    "linspace": (0.0, 1.0, 5),
    "logspace": (0.0, 1.0, 5),
    "normal": (0.0, 1.0, (2, 3)),
    "ones": (2, 3),
    "rand": (2, 3),
    "randint": (0, 9, (2, 3)),
    "randn": (2, 3),
    "randperm": (5,),
    "range": (0, 4),
    "zeros": (2, 3),
    "fft.fftfreq": (5,),
    "fft.rfftfreq": (5,),
}


M, P, W = numbers(3, 3), np.abs(numbers(3, 4)) + 0.5, np.arange(12).reshape(3, 4)
SQUARE = M @ M.T + 3 * np.eye(3)
# functions that the conformance battery calls through another one
OTHERS: dict[str, tuple[Any, ...]] = {
    "all": (W > 3, 0),
    "any": (W > 3, 1),
    "bernoulli": (P / 9,),
    "bitwise_and": (W, W[::-1]),
    "bitwise_left_shift": (W, 1),
    "bitwise_not": (W,),
    "bitwise_or": (W, 5),
    "bitwise_right_shift": (W, 1),
    "bitwise_xor": (W, 3),
    "cholesky": (SQUARE,),
    "column_stack": ([P, P],),
    "conj_physical": (P,),
    "cummin": (P, 1),
    "float_power": (W, 2),
    "frexp": (P,),
    "gcd": (W, 6),
    "histogram": (P, 3),
    "igamma": (P, P[::-1]),
    "igammac": (P, P[::-1]),
    "isin": (W, W[:1]),
    "lcm": (W, 6),
    "linalg.cholesky_ex": (SQUARE,),
    "linalg.eigh": (SQUARE,),
    "linalg.inv_ex": (SQUARE,),
    "linalg.lstsq": (SQUARE, M),
    "linalg.multi_dot": ([M, M, P],),
    "linalg.slogdet": (SQUARE,),
    "linalg.solve_ex": (SQUARE, M),
    "linalg.svd": (P,),
    "log_softmax": (P, 1),
    "lu": (SQUARE,),
    "multinomial": (P, 2),
    "nanmedian": (P, 1),
    "nextafter": (P, P[::-1]),
    "qr": (P,),
    "row_stack": ([P, P],),
    "slogdet": (SQUARE,),
    "softmax": (P, 1),
    "spmm": (M, P),
    "svd": (P,),
    "triangular_solve": (P, SQUARE),
}


def public(name: str) -> Any:
    namespace, _, base = name.rpartition(".")
    return getattr(PLACES[namespace], base)


NAMES = {
    f"{namespace}.{name}".strip("."): public(f"{namespace}.{name}".strip("."))
    for namespace in OUT
    for name in sorted(OUT[namespace])
}


def calls() -> Iterator[tuple[str, Any, Call]]:
    """Yield each entry of the conformance battery whose function accepts ``out``."""
    by_function: dict[Any, list[str]] = {}
    for name, function in NAMES.items():
        by_function.setdefault(inspect.unwrap(function), []).append(name)
    for case in CASES:
        if case.form is as_function and case.label == case.name and case.call.arrays:
            for name in by_function.get(inspect.unwrap(case.function), ()):
                yield case.name, NAMES[name], case.call
    for name, args in OTHERS.items():
        yield name, public(name), Call(public(name), args, {}, random=True)


def results(function: Any, call: Call, **options: Any) -> Any:
    """Return the function's results for the arrays of a call, in float32."""
    tensors = [rg.Tensor(a.astype(np.float32) if a.dtype.kind == "f" else a.copy()) for a in call.arrays]
    return call.with_values(tensors, lambda *args, **kwargs: function(*args, **kwargs, **options))


CALLS = [*calls()]


def same(a: rg.Tensor, b: rg.Tensor) -> bool:
    return a.array.dtype == b.array.dtype and np.array_equal(a.array, b.array, equal_nan=a.array.dtype.kind == "f")


@pytest.mark.filterwarnings("ignore")
def test_every_operator_writes_into_what_is_given() -> None:
    """Contiguous, strided and empty tensors get exactly the operator's own results, bit for bit."""
    seen = set()
    with np.errstate(all="ignore"):
        for label, function, call in CALLS:
            try:
                expected = results(function, call)
            except REFUSALS:
                continue
            values = outputs_of(expected)
            if not all(isinstance(value, rg.Tensor) for value in values):
                continue
            seen.add(inspect.unwrap(function))
            for make in (rg.empty_like, strided_like, lambda value: rg.empty(0, dtype=value.dtype)):
                given = [make(value) for value in values]
                found = results(function, call, out=given[0] if isinstance(expected, rg.Tensor) else tuple(given))
                assert type(found) is type(expected) or isinstance(expected, list), label
                for value, target, result in zip(values, given, outputs_of(found), strict=True):
                    assert result is target, label
                    assert same(result, value), label
    assert len(seen) > 255


def strided_like(value: rg.Tensor) -> rg.Tensor:
    """Return a tensor of the same shape whose elements are not contiguous."""
    return rg.empty((*value.shape, 2), dtype=value.dtype)[..., 1]


def test_every_name_is_tried_or_a_factory() -> None:
    functions = {inspect.unwrap(function) for _, function, _ in CALLS}
    left = {name for name, function in NAMES.items() if inspect.unwrap(function) not in functions}
    assert left <= {*FACTORIES}


@pytest.mark.filterwarnings("ignore:range is deprecated")
@pytest.mark.parametrize("name", FACTORIES)
def test_factories(name: str) -> None:
    function, args = public(name), FACTORIES[name]
    rg.manual_seed(3)
    expected = function(*args)
    rg.manual_seed(3)
    given = rg.empty_like(expected)
    assert function(*args, out=given) is given
    assert name == "empty" or same(given, expected)


@pytest.mark.parametrize("operator", ["exp", "add", "matmul", "sum", "cumsum", "sort"])
def test_large_results_are_written_by_the_kernel(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inplace, "_LARGE_RESULT", 1)
    monkeypatch.setattr(inplace, "_producers", {})
    function, x = getattr(rg, operator), rg.Tensor(numbers(40, 40).astype(np.float32))
    args = {"add": (x, x.T), "matmul": (x, x), "sum": (x, 1), "cumsum": (x, 0)}.get(operator, (x,))
    expected = function(*args)
    given = tuple(rg.empty_like(value) for value in outputs_of(expected))
    target = given if operator == "sort" else given[0]
    for _ in range(3):  # the second call knows which kernel computes the result
        for each in given:
            each.fill_(7)
        assert outputs_of(function(*args, out=target))[0] is given[0]
        assert all(map(same, given, outputs_of(expected)))
    function(*args, out=tuple(map(strided_like, given)) if operator == "sort" else strided_like(given[0]))


def test_memory_is_not_allocated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where kernels have plans, the second call runs a plan that writes to the given array."""
    from retrograd.kernels.compiled.machine.plan import Plan

    monkeypatch.setattr(inplace, "_LARGE_RESULT", 1)
    monkeypatch.setattr(inplace, "_producers", {})
    taken = []
    run = Plan.run
    monkeypatch.setattr(Plan, "run", lambda self, *a, **k: taken.append(k["into"]) or run(self, *a, **k))
    x, y, planned = rg.rand(100), rg.empty(100), rg.active_kernels() == "compiled"
    array = y.array
    for _ in range(2):
        rg.exp(x, out=y)
    assert all(each is array for each in (*taken, y.array)) and len(taken) == planned
    rg.exp(x, out=x)  # out is read and written, so the kernel gets separate memory
    assert len(taken) == planned and same(x, y)


def test_out_may_be_an_operand_or_overlap_it() -> None:
    x = rg.Tensor(numbers(6).astype(np.float32))
    y = x.clone()
    assert rg.mul(y, y, out=y) is y and same(y, x * x)
    z = x.clone()
    rg.exp(z[:-1], out=z[1:])
    assert same(z[1:], x[:-1].exp()) and z[0].item() == x[0].item()


def test_types_are_converted_and_shapes_are_mended() -> None:
    x = rg.tensor([1.5, -2.25])
    y = rg.empty(2, dtype=rg.float64)
    assert rg.neg(x, out=y) is y and y.tolist() == [-1.5, 2.25]
    assert rg.eq(x, x, out=rg.empty(2, dtype=rg.int64)).tolist() == [1, 1]
    base = rg.zeros(4)
    view = base[:3]
    with pytest.warns(UserWarning, match=r"neg: out.shape=\(3,\) is not that of the result, \(2,\), so out") as noted:
        rg.neg(x, out=view)
    assert noted[0].filename == __file__
    assert view.tolist() == [-1.5, 2.25] and base.tolist() == [0, 0, 0, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rg.neg(x, out=rg.empty(0)).tolist() == [-1.5, 2.25]


def test_a_change_is_noticed_by_backward() -> None:
    w, y = rg.ones(2, requires_grad=True), rg.ones(2)
    loss = (w * y).sum()
    rg.neg(rg.ones(2), out=y)
    with pytest.raises(RuntimeError, match="neg"):
        loss.backward()
    with rg.no_grad():
        assert rg.exp(w, out=y) is y and not y.requires_grad


def test_it_is_one_of_the_steps() -> None:
    x, y = rg.ones(3), rg.zeros(3)
    steps = rg.record_steps(lambda: rg.exp(x, out=y))
    x.fill_(0)
    steps.run()
    assert y.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, y: rg.exp(x, out=1), TypeError, "exp: out=int must be a Tensor, or a tuple with one for"),
        (
            lambda x, y: rg.sort(x, out=y),
            TypeError,
            "sort: out= must contain one Tensor for each result, 2 here; it contains 1",
        ),
        (lambda x, y: rg.exp(x, out=(y, y)), TypeError, "exp: out= must contain one Tensor for each result, 1 here"),
        (
            lambda x, y: rg.exp(x, out=rg.empty(3, dtype=rg.int32)),
            RuntimeError,
            "exp: the result is float32, which cannot become int32, the type of out; make out with dtype=float32",
        ),
        (
            lambda x, y: rg.exp(x.requires_grad_(), out=y),
            RuntimeError,
            "exp: out= records no gradient, and an argument requires one; leave out= away",
        ),
        (lambda x, y: rg.exp(x, out=y.requires_grad_()), RuntimeError, "exp: out= records no gradient"),
        (lambda x, y: rg.exp(x, out=rg.ones(1).expand(3)), RuntimeError, "exp: several elements of x"),
        (lambda x, y: rg.relu(x, out=y), TypeError, r"relu\(\) got an unexpected keyword argument 'out'"),
        (lambda x, y: rg.add(x, out=y), TypeError, r"add\(\) missing 1 required positional argument: 'other'"),
        (lambda x, y: rg.sum(x, axis=0, dim=0, out=y), TypeError, "sum: axis and dim are the same argument"),
    ],
)
def test_messages(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(rg.ones(3), rg.ones(3))


@pytest.mark.parametrize("dtype", [rg.int64, rg.int32, rg.float64, rg.bool])
def test_new_tensors_get_the_type_of_out(dtype: Any) -> None:
    def into(make: Any, *args: Any) -> list[Any]:
        out = rg.empty(0, dtype=dtype)
        assert make(*args, out=out) is out
        assert out.dtype == dtype
        return out.tolist()

    assert into(rg.zeros, 3) == [0, 0, 0]
    assert into(rg.ones, 2) == [1, 1]
    assert into(rg.full, (2,), 1.0) == [1, 1]
    assert into(rg.eye, 2) == [[1, 0], [0, 1]]
    if dtype != rg.bool:
        assert into(rg.arange, 3) == [0, 1, 2]
        assert into(rg.linspace, 0, 4, 3) == [0, 2, 4]
