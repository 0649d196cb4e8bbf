"""Calls every public operator, method and layer with every element type, and checks the result or the error message.

A result is right if it equals that of the same numbers in float64: integers modulo the size of their type, truth values
by whether it is 0. An error is right if it begins with the name of an operator or layer and mentions a type.
"""

from __future__ import annotations

import inspect
import operator
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import retrograd
from conformance.table import DRAW
from conformance.test_conformance import LAYERS, OPERATORS
from retrograd import Tensor, nn
from retrograd.nn import functional, grad
from retrograd.ops.methods import METHODS
from retrograd.testing.function_call import Call, outputs_of

TYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
TOLERANCE = {"float16": 5e-3, "float32": 2e-4, "float64": 1e-9}
# entries whose numbers cannot be those of float64, and why
DIFFERENT = {
    "addcmul": "a fractional factor of integers is truncated, as in PyTorch",
    "addmm": "likewise",
    "index_reduce: mean": "means of integers are rounded down, as in PyTorch",
    "lp_pool1d": "the means of integers below are integers",
    "scatter_reduce: mean, with self": "means of integers are rounded down, as in PyTorch",
    "scatter_reduce: mean, without self": "likewise",
    "var: far from 0": "float32 does not hold the numbers",
    "triplet_margin_loss": "differences of bytes wrap, as in PyTorch",
    "triplet_margin_with_distance_loss": "likewise",
    "local_response_norm": "the means of integers below are integers",
    "diff": "truth values are compared, not subtracted",
    "bitwise_not": "truth values are inverted as such",
    "index_put: refusals": "truth values are a mask",
    "div: trunc": "float16 rounds a quotient just below an integer to it",
    "div: floor": "likewise",
    "sort": "among small integers are equal ones, whose order is open",
}
NAMES = {
    *retrograd.ops.__all__,
    *functional.__all__,
    *grad.__all__,
    *nn.__all__,
    *METHODS,
    *retrograd.linalg.__all__,
    *retrograd.fft.__all__,
    *retrograd.special.__all__,
    "in",
    *("+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>"),
    *("+=", "-=", "*=", "/=", "//=", "%=", "**=", "&=", "|=", "^=", "<<=", ">>="),
}


class Case(NamedTuple):
    """One call of an entry: which of its arrays are in the type; ``form``: as a function, a method, or in place."""

    name: str
    call: Call
    arrays: tuple[int, ...]
    form: Callable[[Call, list[Tensor]], Any]
    label: str
    function: Any = None


def as_function(call: Call, tensors: list[Tensor]) -> Any:
    return call.with_values(tensors)


def as_method(name: str) -> Callable[[Call, list[Tensor]], Any]:
    return lambda call, tensors: call.with_values(
        tensors, lambda x, *args, **options: getattr(x, name)(*args, **options)
    )


def as_layer(make: Callable[[], Any]) -> Callable[[Call, list[Tensor]], Any]:
    def run(call: Call, tensors: list[Tensor]) -> Any:
        retrograd.manual_seed(1)
        return call.with_values(tensors, make().eval())

    return run


def cases() -> Iterator[Case]:
    for entry in OPERATORS:
        options = entry.options
        if entry.name in ("histogram: edges", "histogramdd: edges"):  # make negative edges, which bytes cannot be
            continue
        call = Call(entry.function, entry.args, options.get("kwargs") or {}, options.get("random", False))
        whole = [k for k, a in enumerate(call.arrays) if a.dtype.kind == "i"]
        chosen = {"": call.floating, " first": call.floating[:1], " rest": call.floating[1:], " integers": whole}
        sets = {tuple(each): label for label, each in reversed(chosen.items()) if each}
        for arrays, label in sets.items():
            yield Case(entry.name, call, arrays, as_function, entry.name + label, entry.function)
        base = entry.name.partition(":")[0]
        same = base in METHODS and inspect.unwrap(METHODS[base]) is inspect.unwrap(entry.function)
        if call.arrays and isinstance(entry.args[0], np.ndarray) and same:
            for name in (base, f"{base}_"):
                if name in METHODS:
                    arrays = tuple(call.floating or whole)
                    yield Case(entry.name, call, arrays, as_method(name), f"{entry.name} as x.{name}()")
    for entry in LAYERS:
        call = Call(lambda *args: None, entry.args, {}, True)
        arrays = tuple(call.floating or range(len(call.arrays)))
        yield Case(entry.name, call, arrays, as_layer(entry.function), f"layer {entry.name}")


def operator_of(case: Case) -> Any:
    """The description of what an entry calls, or None; other entries of the same name may call something else."""
    base = case.name.partition(":")[0].rpartition(".")[2]
    places = (retrograd, functional, retrograd.linalg, retrograd.special, retrograd.fft, Tensor)
    found = [case.function, *[getattr(each, base, None) for each in places]]
    return next((each.operator for each in found if hasattr(each, "operator")), None)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_types_that_operators_declare() -> None:
    """An operator takes the types in its description, and refuses the others."""
    taken: dict[Any, set[str]] = {}
    with retrograd.use_kernels("textbook"):
        for case in CASES:
            described = operator_of(case)
            if described is None or case.form is not as_function or case.label != case.name:
                continue
            for kind in TYPES:
                if kind not in taken.setdefault(described, set()) and runs(case, kind):
                    taken[described].add(kind)
    wrong = [
        f"{each.name} declares {each.dtypes}, takes {sorted(kinds)}"
        for each, kinds in taken.items()
        if kinds != {*each.dtypes} and each.name not in ("local_response_norm",)  # int64 as well, as in PyTorch
    ]
    assert not wrong
    assert len(taken) > 450


def runs(case: Case, kind: str) -> bool:
    arrays = [
        converted(a, kind) if k in case.arrays else a.astype(np.float32) if a.dtype.kind == "f" else a
        for k, a in enumerate(case.call.arrays)
    ]
    try:
        with np.errstate(all="ignore"):
            case.form(case.call, [Tensor(a.copy()) for a in arrays])
    except (TypeError, ValueError, IndexError, RuntimeError, ArithmeticError):
        return False
    return True


# methods that are no operators of the tables; x and y are of the type, (2, 3) and (2, 1)
METHOD_CALLS = {
    "__neg__": "-x",
    "__abs__": "abs(x)",
    "__pos__": "+x",
    "__invert__": "~x",
    "__matmul__": "x @ x.t()",
    "__getitem__": "x[1, 1:]",
    "__iter__": "[*x][1]",
    "T": "x.T",
    "mT": "x.mT",
    "H": "x.H",
    "mH": "x.mH",
    **{
        f"__{r}{name}__": f"{2 if r else 'x'} {sign} {'x' if r else 'y'}"
        for r in ("", "r")
        for name, sign in (
            ("add", "+"),
            ("sub", "-"),
            ("mul", "*"),
            ("truediv", "/"),
            ("pow", "**"),
            ("mod", "%"),
            ("floordiv", "//"),
            ("and", "&"),
            ("or", "|"),
            ("xor", "^"),
            ("lshift", "<<"),
            ("rshift", ">>"),
        )
    },
    **{
        f"__i{name}__": f"operator.i{name}(x, y)"
        for name in ("add", "sub", "mul", "truediv", "pow", "mod", "floordiv", "and", "or", "xor", "lshift", "rshift")
    },
    **{f"__{name}__": f"operator.{name}(x, y)" for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    "to_sparse": "x.to_sparse().to_dense()",
    "to": "x.to(retrograd.float64)",
    "cpu": "x.cpu()",
    "type": "x.type(retrograd.int64)",
    "type_as": "x.type_as(y)",
    **{
        name: f"x.{name}()"
        for name in (
            "float",
            "double",
            "half",
            "long",
            "int",
            "short",
            "char",
            "byte",
            "bool",
            "pin_memory",
            "share_memory_",
            "adjoint",
            "conj",
            "conj_physical",
            "resolve_conj",
            "resolve_neg",
            "conj_physical_",
            "__reversed__",
            "zero_",
        )
    },
    "real": "x.real",
    "fill_": "x.fill_(1)",
    "copy_": "x.copy_(y)",
    "__setitem__": "operator.setitem(x, 1, y[0]) or x",
    **{
        f"{name}_": f"x.{name}_({arguments}) * 0"
        for name, arguments in (
            ("cauchy", ""),
            ("exponential", ""),
            ("geometric", "0.5"),
            ("log_normal", ""),
            ("normal", ""),
            ("random", ""),
            ("uniform", ""),
        )
    },
    "allclose": "x.new_tensor(x.allclose(x))",
    "equal": "x.new_tensor(x.equal(x))",
    "view": "x.view(3, 2)",
    "sum_to_size": "x.sum_to_size(1, 3)",
    "__contains__": "x.new_tensor(1 in x)",
    "new": "x.new(2, 3) * 0",
    "new_tensor": "x.new_tensor([1, 0])",
    "new_zeros": "x.new_zeros(2)",
    "new_ones": "x.new_ones(2)",
    "new_full": "x.new_full((2,), 1)",
    "new_empty": "x.new_empty(0)",
    "is_nonzero": "x.new_tensor(x[0, 0].is_nonzero())",
    "new_empty_strided": "x.new_empty_strided((0,), (1,))",
    "resize_": "x.resize_(3, 2)",
    "resize_as_": "x.resize_as_(y)",
    "set_": "x.set_(y)",
    "apply_": "x.apply_(lambda a: a)",
    "map_": "x.map_(x, lambda a, b: b)",
    "map2_": "x.map2_(x, x, lambda a, b, c: c)",
    "fill_diagonal_": "x.fill_diagonal_(1)",
}
# methods that say what a tensor is; they compute nothing
QUERIES = {
    *("cuda", "get_device", "bfloat16", "device", "layout", "stride", "storage_offset", "data_ptr", "element_size"),
    *("untyped_storage", "storage", "dim_order", "nelement", "ndimension", "itemsize", "nbytes", "output_nr"),
    *("__dlpack__", "__dlpack_device__", "__array_ufunc__", "__array_function__"),
    *(name for name in METHODS if name.startswith("is_")),
}


CASES = [*cases()]


def converted(array: np.ndarray, kind: str) -> np.ndarray:
    """Numbers near those of the array that the type holds; integers other than 0, by which some operators divide."""
    if array.dtype.kind != "f":
        return array.astype(kind)
    if kind == "bool":
        return np.asarray(array > 0)
    if kind.startswith("float"):
        return array.astype(kind)
    whole = np.trunc(np.where(np.isfinite(array), array, 0) * 2)
    whole = np.where(whole == 0, 1, whole)
    return np.asarray(abs(whole) if kind == "uint8" else whole).astype(kind)


def fault_of_error(error: Exception) -> str | None:
    """What is wrong with an error."""
    text = str(error)
    named = re.match(r"(?:in .*?: )?([^\s:]+): ", text)
    if not isinstance(error, (TypeError, ValueError, IndexError, RuntimeError, ZeroDivisionError)):
        return f"an internal error: {error!r}"
    if "could not compile" in text or "launch of" in text:
        return f"a kernel without the type was reached: {text}"
    if named is None or named[1] not in NAMES:
        return f"names no operator: {error!r}"
    if not re.search(r"\b(u?int\d*|float\d*|bool|integers|dtype|shape|gradient|Tensor)\b", text):
        return f"does not say what is wrong: {error!r}"
    return None


def same(found: np.ndarray, wanted: np.ndarray, tolerance: float) -> bool:
    if found.shape != wanted.shape:
        return False
    if found.dtype.kind == "b":
        return bool(np.array_equal(found, wanted != 0))
    if found.dtype.kind in "iu":
        return bool(np.array_equal(found, np.trunc(wanted).astype(np.int64).astype(found.dtype)))
    size = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=1e-3))
    return bool(np.allclose(found, wanted, rtol=tolerance, atol=tolerance * size, equal_nan=True))


@pytest.mark.filterwarnings("ignore::UserWarning")  # bytes as masks, reductions by older names, shapes that broadcast
@pytest.mark.parametrize("kind", TYPES)
def test_a_draw_of_the_operators_with_every_type(kind: str) -> None:
    assert not faults(random.Random(f"{DRAW} {kind}").sample(CASES, 100), kind)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kernels", ["textbook", "compiled"])
@pytest.mark.parametrize("kind", TYPES)
def test_every_operator_with_every_type(kind: str, kernels: str) -> None:
    with retrograd.use_kernels(kernels):
        assert not faults(CASES, kind)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", TYPES)
def test_every_other_method_with_every_type(kind: str) -> None:
    found = []
    x, y = np.array([[1, 2, 3], [4, 1, 2]], np.float64), np.array([[2], [1]], np.float64)
    for name, text in METHOD_CALLS.items():
        try:
            result = evaluated(text, converted(x / 2, kind), converted(y / 2, kind))
        except Exception as error:
            wrong = fault_of_error(error)
        else:
            wrong = wrong_value(text, result, converted(x / 2, kind), converted(y / 2, kind))
        if wrong:
            found.append(f"{name} of {kind}: {wrong}")
    assert not found


def evaluated(text: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    names = {"retrograd": retrograd, "operator": operator, "x": Tensor(x.copy()), "y": Tensor(y.copy())}
    return outputs_of(eval(text, names))[0].array


def wrong_value(text: str, found: np.ndarray, x: np.ndarray, y: np.ndarray) -> str | None:
    try:
        wanted = evaluated(text, x.astype(np.float64), y.astype(np.float64))
    except TypeError:  # bits of floating-point numbers
        return None
    return None if same(found, wanted, 5e-3) else f"{found}, in float64 {wanted}"


def test_every_method_is_here() -> None:
    tested = {entry.name.partition(":")[0].rpartition(".")[2] for entry in OPERATORS} | {*METHOD_CALLS, *QUERIES}
    missing = {name for name in METHODS if name not in tested and name.rstrip("_") not in tested}
    assert not missing, f"no call for {sorted(missing)}"


def faults(chosen: Sequence[Case], kind: str) -> list[str]:
    found = []
    for case in chosen:
        with np.errstate(all="ignore"):
            wrong = fault(case, kind)
        if wrong:
            found.append(f"{case.label} of {kind}: {wrong}")
    return found


def fault(case: Case, kind: str) -> str | None:
    """What is wrong with the outcome of a call."""
    call = case.call
    arrays = [
        converted(a, kind) if k in case.arrays else a.astype(np.float32) if a.dtype.kind == "f" else a
        for k, a in enumerate(call.arrays)
    ]
    try:
        found = [y.array for y in outputs_of(case.form(call, [Tensor(a.copy()) for a in arrays]))]
    except Exception as error:
        return fault_of_error(error)
    if case.name in DIFFERENT or case.form is not as_function:
        return None
    numbers = [
        a.astype(np.float64 if k in call.floating else b.dtype)
        for k, (a, b) in enumerate(zip(arrays, call.arrays, strict=True))
    ]
    wanted = [y.array for y in outputs_of(call.with_values([Tensor(a) for a in numbers]))]
    tolerance = max([TOLERANCE[str(a.dtype)] for a in arrays if a.dtype.kind == "f"], default=0)
    tolerance = max(tolerance, 0 if kind.startswith("float") else 2e-4)
    for y, z in zip(found, wanted, strict=True):
        if not same(y, z, max(tolerance, TOLERANCE.get(str(y.dtype), 0))):
            return f"{y.dtype}: {y}, in float64 {z}"
    return None
