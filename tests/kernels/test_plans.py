"""Kernel plans: made without elements, they give the kernel's result to the last bit."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from conformance.test_types import CASES, as_function
from retrograd.formulas import UPDATES
from retrograd.kernel_set import Listener, plan, use_kernels
from retrograd.kernels import compiled
from retrograd.kernels.compiled.machine.plan import Plan, plan_of
from retrograd.kernels.compiled.machine.plan_tracing import ArrayInterface, Call, Objects, PlanError, planning
from retrograd.kernels.interface import Spec, leaves, mapped
from retrograd.specs.geometry import conv_window
from retrograd.testing.function_call import outputs_of

# why a kernel has no plan for some arguments
REFUSED = {"recurrent_grad": "np.greater", "recurrent": "np.greater", "norm_of_all": "would read elements"}
FLOAT32 = np.dtype(np.float32)


def arrays_of(value: Any) -> list[np.ndarray]:
    return [leaf for leaf in leaves(value) if isinstance(leaf, np.ndarray)]


def difference(expected: Any, found: Any) -> str:
    """What differs between the results of a kernel and of its plan."""
    pairs = [*zip(leaves(expected), leaves(found), strict=True)]
    for x, y in pairs:
        if not isinstance(x, np.ndarray):
            continue
        if (x.shape, x.dtype) != (y.shape, y.dtype):
            return f"{y.dtype}{y.shape} instead of {x.dtype}{x.shape}"
        if not np.array_equal(x, y, equal_nan=x.dtype.kind == "f"):
            return "other elements"
        steps = zip(x.shape, x.strides, y.strides, strict=True)
        if x.size and any(step != other for extent, step, other in steps if extent > 1):
            return f"steps {y.strides} instead of {x.strides}"
    return ""


def with_numbers(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], others: dict[str, float]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with other numbers, by the names that plans give them."""
    names = [*inspect.signature(function).parameters]
    values = {**dict(zip(names, args, strict=False)), **kwargs}
    for word, number in others.items():
        name, _, place = word.partition("[")
        if place:
            values[name] = tuple([number if at == int(place[:-1]) else each for at, each in enumerate(values[name])])
        else:
            values[name] = number
    return tuple([values[name] for name in names[: len(args)]]), {name: values[name] for name in kwargs}


def spoilt(made: Plan) -> dict[int, np.ndarray]:
    """Memory for results and scratch, of NaN, and of integers that are no index."""
    others = [at for at, buffer in enumerate(made.buffers) if buffer.kind != "input"]
    return {at: np.full(made.buffer_bytes(at), 255, np.uint8) for at in others}


class Comparing(Listener):
    """Runs the plan of every kernel call in memory filled with garbage, and compares the results."""

    def __init__(self) -> None:
        self.calls, self.wrong, self.words = Counter[str](), list[str](), set[str]()
        self.overwritten = Counter[str]()

    def call(self, name: str, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function = getattr(compiled, name, None)
        if kernel.bare(args, kwargs) is not function:
            return kernel(*args, **kwargs)
        self.calls[name] += 1
        kwargs = {key: value for key, value in kwargs.items() if key != "keep"}  # a cache, of one set of arrays
        copies = mapped((args, kwargs), lambda leaf: leaf.copy("K") if isinstance(leaf, np.ndarray) else leaf)
        before = [array.copy() for array in arrays_of((args, kwargs))]
        given = args, kwargs
        result = kernel(*args, **kwargs)
        changed = [not np.array_equal(x, y, equal_nan=True) for x, y in zip(before, arrays_of(given), strict=True)]
        if any(changed):  # in place
            given = copies
        try:
            made = plan_of(function, *given)
        except PlanError as error:
            if REFUSED.get(name, "\n") not in str(error):
                self.wrong.append(f"{name}: {error}")
            return result
        if made.words and not any(changed):
            other: dict[type, Callable[[Any], Any]] = {int: lambda n: n + 1, float: lambda n: 0.75 * n + 0.125}
            others = {word: other[type(value)](value) for word, value in made.words.items()}
            args_, kwargs_ = with_numbers(function, *given, others)
            wrong = difference(function(*args_, **kwargs_), made.run(*arrays_of(given), **others))
            self.words.update({f"{name}({word})" for word in others})
            if wrong:
                self.wrong.append(f"{name} with {others}: {wrong}")
        for target, operand in made.over:
            own = mapped(given, lambda leaf: leaf.copy("K") if isinstance(leaf, np.ndarray) else leaf)
            x = {place.buffer: x for place, x in zip(made.inputs, arrays_of(own), strict=True)}.get(operand)
            if x is not None and x.size and not any(changed):
                self.overwritten[name] += 1
                if wrong := difference(result, made.run(*arrays_of(own), memory=spoilt(made) | {target: x})):
                    self.wrong.append(f"{name} over an operand: {wrong}")
        found = made.run(*arrays_of(given), memory=spoilt(made))
        if name == "recurrent":  # what it saves has padding that nothing sets
            found, expected = found[:4], result[:4]
        else:
            expected = result
        if any(changed):
            whole = np.ascontiguousarray  # the copies have other layouts
            expected = expected, [whole(array) for array in arrays_of((args, kwargs))]
            found = found, [whole(array) for array in arrays_of(given)]
        if wrong := difference(expected, found):
            self.wrong.append(f"{name}: {wrong}")
        return result


def compared() -> Comparing:
    comparing = Comparing()
    with use_kernels("compiled"), comparing, np.errstate(all="ignore"):
        for case in CASES:
            if case.form is not as_function or case.label != case.name:
                continue
            tensors = [rg.Tensor(array.copy(), requires_grad=array.dtype.kind == "f") for array in case.call.arrays]
            try:
                results = [y for y in outputs_of(case.form(case.call, tensors)) if y.requires_grad]
                if results:
                    rg.autograd.backward(results, [rg.randn_like(y) for y in results])
            except (TypeError, ValueError, IndexError, RuntimeError, NotImplementedError):
                continue  # entries that test refusals
    return comparing


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_plan_does_what_the_kernel_does() -> None:
    """In all operators of the conformance tables, forward and backward."""
    comparing = compared()
    assert not comparing.wrong, "\n".join(comparing.wrong[:20])
    assert len(comparing.calls) > 200
    assert {"dropout(key)", "layer_norm(eps)", "leaky_relu(slope)", "element_loss(numbers[0])"} <= comparing.words
    assert "element_loss(factor)" in comparing.words
    over = {"add", "layer_norm_grad", "moments_grad", "mul", "relu_grad", "softmax", "softmax_grad"}
    assert over <= comparing.overwritten.keys() and len(comparing.overwritten) > 100


_NO_ACCESS = """
import mmap
from retrograd.kernels.compiled.machine import plan_tracing
plan_tracing._region = mmap.mmap(-1, 1 << 36, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, 0)
from kernels.test_plans import compared
assert not compared().wrong
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory without access is made as on Linux")
def test_no_element_is_read() -> None:
    """The addresses of a plan have no memory here, so that a read would crash the process."""
    run = subprocess.run([sys.executable, "-c", _NO_ACCESS], cwd=Path(__file__).parents[1], capture_output=True)
    assert run.returncode == 0, run.stderr.decode()[-1000:]


def test_memory_of_a_kernel_is_made_beside_its_operands() -> None:
    """An array that NumPy makes without ``like=`` would be a constant of the plan."""
    folder = Path(compiled.__file__).parent
    plain = []
    for path in folder.rglob("*.py"):
        if path.stem.endswith(("_jit", "plan")) or path.parent.name == "machine":
            continue
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            decorators = getattr(function, "decorator_list", [])
            if not isinstance(function, ast.FunctionDef) or "lru_cache" in "".join(map(ast.dump, decorators)):
                continue  # a table of the plan
            for node in ast.walk(function):
                called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
                makes = called in ("np.empty", "np.zeros", "np.ones", "np.full", "np.ascontiguousarray", "np.asarray")
                if makes and not any(each.arg == "like" for each in node.keywords):  # type: ignore[attr-defined]
                    plain.append(f"{path.relative_to(folder)}:{node.lineno} {called}")  # type: ignore[attr-defined]
    assert not [
        each for each in plain if not each.startswith(("lowbit.py", "matmul.py", "convolution/depthwise.py"))
    ], "\n".join(plain)


def test_a_plan_of_layouts_alone() -> None:
    x, w = Spec((2, 32, 28, 28), FLOAT32), Spec((32, 32, 3, 3), FLOAT32)
    window = conv_window((28, 28), (3, 3), padding=1)
    found = plan("conv", x, w, None, window)
    other = conv_window((28, 28), (3, 3), padding=1, stride=2)
    assert found is plan("conv", x, w, None, window) and found is not plan("conv", x, w, None, other)
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(each.shape).astype("f") for each in (x, w))
    assert not difference(compiled.conv(a, b, None, window), found.run(a, b))
    assert "convolution_winograd_gather_f" in str(found) and "input0: 200,704 bytes" in str(found)


def test_numbers_have_their_types() -> None:
    x = Spec((4,), FLOAT32)
    assert plan("sum", x, (0,), True) is not plan("sum", x, (0,), 1)
    assert plan("exp", x) is not plan("exp", Spec((4,), np.dtype(np.float64)))
    assert plan("exp", x) is not plan("exp", x._replace(strides=(8,)))


def test_words_of_a_plan() -> None:
    """A learning rate is a word: one plan serves all values. A number that decides something needs its own plan."""
    x = np.ones(4, np.float32)
    numbers = {"lr": 0.1, "weight_decay": 0.0, "maximize": False}
    first = plan("update", UPDATES["sgd"], [x], [x], **numbers)
    assert first.words["lr"] == 0.1
    other = plan("update", UPDATES["sgd"], [x], [x], **{**numbers, "lr": 0.2})
    assert other.words["lr"] == 0.2 and other.launches is first.launches
    with pytest.raises(TypeError, match="momentum is not a word of this plan, which has lr"):
        first.run(x, x, momentum=0.9)
    drop = plan("dropout", x, 0.5, 1, 2)
    assert drop.words == {"key": 1, "stream": 2} and plan("dropout", x, 0.25, 1, 2).launches is not drop.launches


@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_the_exact_form_behind_a_kernel(number: float) -> None:
    """Where elements are not finite, the plan calls what the kernel calls; it is the same plan."""
    rng = np.random.default_rng(2)
    window = conv_window((9, 40), (3, 3), padding=1)
    x, g = rng.standard_normal((2, 17, 9, 40)).astype("f"), rng.standard_normal((2, 2, 9, 40)).astype("f")
    usual = plan("conv_weight_grad", x, g, window)
    assert [type(each) for each in usual.launches].count(Call) == 1
    g[1, 1, 0, 0] = number
    with np.errstate(all="ignore"):
        expected = compiled.conv_weight_grad(x, g, window)
        assert not difference(expected, usual.run(x, g)) and np.isfinite(expected[1]).any()


@pytest.mark.parametrize("shape", [(1, 3, 7, 7), (3, 32, 60, 20), (8, 96, 28, 28), (2, 1280, 7, 7)])
def test_the_bits_of_batch_norm_with_a_clamp_for_any_number_of_threads(shape: tuple[int, ...]) -> None:
    """Each thread has a share of the tasks, in an order of its own."""
    rng = np.random.default_rng(6)
    g, x = (rng.standard_normal((shape[0], *shape[2:], shape[1])).astype("f").transpose(0, 3, 1, 2) for _ in range(2))
    weight, bias, mean, inverse = rng.standard_normal((4, shape[1])).astype("f")
    before, found = rg.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 7):
            rg.set_num_threads(threads)
            forward = compiled.batch_norm_clamp(x, g, weight, bias, 1e-5, 0.0, 6.0)
            coefficients = np.stack((weight, bias))
            found.append((forward, compiled.batch_norm_clamp_grad(g, x, weight, mean, inverse, coefficients, 0.0, 6.0)))
            affine = compiled.channel_affine_clamp(x, None, weight, bias, 0.0, 6.0)
            expected = np.clip(np.float64(x) * weight[:, None, None] + bias[:, None, None], 0, 6)
            np.testing.assert_allclose(affine, expected, atol=1e-5)
    finally:
        rg.set_num_threads(before)
    assert not any(difference(found[0], other) for other in found[1:])


@pytest.mark.parametrize("threads", [1, 2])
def test_the_bits_of_any_number_of_threads(threads: int) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((8, 16, 32, 32)).astype("f")
    weight = np.ones(16, np.float32)
    expected = compiled.batch_norm(x, weight, weight, 1e-5)
    before = rg.get_num_threads()
    rg.set_num_threads(threads)
    try:
        assert not difference(expected, plan("batch_norm", x, weight, weight, 1e-5).run(x, weight, weight))
    finally:
        rg.set_num_threads(before)


def test_several_results_in_given_memory() -> None:
    """A tuple like the results of the kernel; results that are None there get new memory."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((2, 3, 8, 8)).astype("f")
    window = conv_window((8, 8), (2, 2), stride=2)
    made = plan("max_pool", x, window)
    y, places = compiled.max_pool(x, window)
    values, indices = np.empty_like(y), np.empty_like(places)
    found = made.run(x, into=(values, indices))
    assert found[0] is values and found[1] is indices and not difference((y, places), found)
    values.fill(0)
    found = made.run(x, into=(values, None))
    assert found[0] is values and found[1] is not indices and not difference((y, places), found)
    with pytest.raises(ValueError, match=r"into has float32\[2, 3, 4, 4\] with steps .* not an array of this layout"):
        made.run(x, into=(None, values))
    with pytest.raises(ValueError, match="into is ndarray, needs a tuple like the results"):
        made.run(x, into=values)
    with pytest.raises(ValueError, match="into is tuple, needs one"):
        plan("exp", x).run(x, into=(x,))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(3, 7, 5, 5), (2, 64, 30, 30), (40, 24, 9)])
def test_gradients_of_batch_norm_over_an_operand(shape: tuple[int, ...], threads: int) -> None:
    """In the memory of the upstream gradient, or of x."""
    rng, axes = np.random.default_rng(5), (0, len(shape) - 1, *range(1, len(shape) - 1))
    g, x = rng.standard_normal((2, shape[0], *shape[2:], shape[1])).astype("f")
    weight, mean, inverse, shift = rng.standard_normal((4, shape[1])).astype("f")
    before = rg.get_num_threads()
    rg.set_num_threads(threads)
    try:
        for name, others in (
            ("batch_norm_grad", (weight, mean, inverse)),
            ("batch_norm_clamp_grad", (weight, mean, inverse, np.stack((weight, shift)), 0.0, 1.0)),
            ("batch_norm_input_grad", (mean, weight, inverse, shift)),
        ):
            given = g.transpose(axes), x.transpose(axes), *others
            expected, made = getattr(compiled, name)(*given), plan(name, *given)
            operands = [place.buffer for place in made.inputs[:2]]
            assert [operand for _, operand in made.over] == operands
            for (target, _), over in zip(made.over, (g, x), strict=True):
                memory = over.copy()
                own = [memory.transpose(axes) if each.base is over else each for each in arrays_of(given)]
                assert not difference(expected, made.run(*own, memory={target: memory}))
    finally:
        rg.set_num_threads(before)


def test_given_scratch() -> None:
    x, w = np.ones((60, 40), np.float32), np.ones((160, 40), np.float32).T  # each thread copies the transposed one
    made = plan("matmul", x, w)
    memory = spoilt(made)
    (at, *_) = [at for at, buffer in enumerate(made.buffers) if buffer.kind == "each"]
    assert made.buffer_bytes(at) == made.buffers[at].bytes * rg.get_num_threads()
    y = made.run(x, w, memory=memory)
    (result,) = made.places()
    assert np.shares_memory(y, memory[result.buffer]) and (y == 40).all()
    with pytest.raises(ValueError, match=rf"buffer {at} of the plan is each of \d+ bytes, and 8 were given"):
        made.run(x, w, memory={at: np.zeros(1)})
    with pytest.raises(ValueError, match="buffer 0 of the plan is input of 9600 bytes"):
        made.run(x, w, memory={0: x})


def test_bound_launches() -> None:
    """They run again on the same arrays, and refuse more threads than they have scratch for."""
    x, w, y = np.ones((60, 40), np.float32), np.ones((160, 40), np.float32).T, np.empty((60, 160), np.float32)
    bound = plan("matmul", x, w).bound(x, w, into=y)
    assert bound.run() is y and (y == 40).all()
    x *= 2
    bound.run()
    assert (y == 80).all()
    before = rg.get_num_threads()
    rg.set_num_threads(before + 1)
    try:
        with pytest.raises(ValueError, match=f"scratch for {before} threads, and {before + 1} run now; bind"):
            bound.run()
    finally:
        rg.set_num_threads(before)
    assert plan("exp", x).bound(x).threads >= 1024


def test_a_table_keeps_its_arrays() -> None:
    """A kernel reads their addresses from the table while nothing else keeps them alive."""
    x = [np.ones((4, 3), np.float32)]
    made = plan("update", UPDATES["sgd"], x, x, lr=0.1, weight_decay=0.0, maximize=False)
    (table,) = [each for each in made.launches[0].arguments if isinstance(each, Objects)]
    words = table.of([np.zeros(48, np.uint8), np.zeros(48, np.uint8)])
    assert isinstance(words.base, ArrayInterface)
    arrays = words.base.owner[1]
    assert len(arrays) == len(table.at) and {id(each) for each in arrays} <= set(words.tolist())


def test_what_a_kernel_keeps_belongs_to_no_plan() -> None:
    x = [np.ones(4, np.float32)]
    numbers = {"lr": 0.1, "weight_decay": 0.0, "maximize": False}
    keep: dict[str, Any] = {}
    before = plan("update", UPDATES["sgd"], x, x, keep=keep, **numbers)
    compiled.update(UPDATES["sgd"], x, [np.ones(4, np.float32)], keep=keep, **numbers)
    assert keep and plan("update", UPDATES["sgd"], x, x, keep=keep, **numbers) is before


@pytest.mark.parametrize("seed", range(40))
def test_shapes_of_views(seed: int) -> None:
    """Reshapes as in NumPy: the same strides, and a copy in the same cases."""
    rng = np.random.default_rng(seed)

    def shape() -> list[int]:
        """Six factors, of which adjacent ones are multiplied."""
        ends = sorted({*rng.integers(0, 7, 3).tolist(), 6})
        return [prod(factors[begin:end]) for begin, end in pairwise([0, *ends])]

    factors = [2, 1, 3, 2, 1, 2]
    extents = shape()
    steps = rng.integers(1, 3, len(extents)).tolist()
    x = np.zeros([extent * step for extent, step in zip(extents, steps, strict=True)])
    x = x[tuple([slice(None, None, step) for step in steps])].transpose(rng.permutation(len(extents)))
    other = shape()
    with planning() as made:
        seen = made.array("input", x.shape, x.dtype, x.strides).reshape(other)
    expected = x.reshape(other)
    assert np.shares_memory(expected, x) == (len(made.buffers) == 1)
    pairs = zip(other, seen.strides, expected.strides, strict=True)
    assert all(step == wanted for extent, step, wanted in pairs if extent > 1)


def test_another_layout_is_refused() -> None:
    x = np.ones((3, 4), np.float32)
    found = plan("exp", x)
    with pytest.raises(ValueError, match=r"with steps \(16, 4\) was given float32\[3, 4\] with steps \(4, 12\)"):
        found.run(np.asfortranarray(x))


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda x: x.sum(), "sum would read elements"),
        (lambda x: x + 1, "np.add would compute"),
        (lambda x: np.sort(x), "np.sort would read"),
        (lambda x: float(x[0, 0]), "it would read an element"),
        (lambda x: x[[0, 1]], "an index would copy"),
        (lambda x: x.astype("d"), "a conversion to float64"),
        (lambda x: bool(x), "__bool__ would read"),
        (lambda x: x.tolist(), "tolist would read"),
    ],
)
def test_elements_are_refused(read: Callable[[Any], Any], message: str) -> None:
    def kernel(x: Any) -> Any:
        return read(x)

    with pytest.raises(PlanError, match=message):
        plan_of(kernel, (np.ones((2, 3), np.float32),), {})


def test_an_array_of_another_plan_is_refused() -> None:
    with planning() as made:
        x = made.array("input", (4,), FLOAT32)
    with pytest.raises(PlanError, match="after it was made"):
        compiled.exp(x)


def test_what_is_allocated_or_moved() -> None:
    """Each NumPy function that plans support, compared with NumPy's result."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)

    def kernel(x: Any) -> Any:
        whole = np.zeros_like(x), np.ones((2, 2), x.dtype, like=x), np.full((2, 3), 7.5, x.dtype, like=x)
        moved = np.concatenate((x, x[:1])), np.tile(x[0], 3), np.repeat(x, 2, 1)
        moved = *moved, x.T.copy(), x.T.ravel(), x.T.reshape(2, 6)
        y = x.copy()
        y[1:, ::2] = 3
        y[0] = x[1]
        np.add(y, x, out=y)
        y.fill(2) if x.shape[0] > 5 else None
        first, *rest = x
        return *whole, *moved, y, first, np.ascontiguousarray(x.T, like=x), np.broadcast_to(x[0], (2, 4)).copy()

    made = plan_of(kernel, (x,), {})
    assert isinstance(made, Plan)
    expected = kernel(x.copy())
    for found, each in zip(made.run(x), expected, strict=True):
        np.testing.assert_array_equal(found, each)


def test_the_plan_of_a_textbook_kernel_is_a_call() -> None:
    x = np.arange(3.0)
    with use_kernels("textbook"):
        found = plan("cumsum", x, 0, False)
    assert found.launches == () and str(found).endswith("textbook.reduction.cumsum, a Python call")
    assert found.run(x).tolist() == [0.0, 1.0, 3.0]


def test_assign_is_planned_between_equal_types() -> None:
    y, x = np.zeros(2000, np.float32), np.arange(2000, dtype=np.float32)
    made = plan("assign", y, x)
    assert [launch.name for launch in made.launches] == ["memory_moves_copy_f"]
    made.run(y, x)
    np.testing.assert_array_equal(y, x)
    with pytest.raises(PlanError, match="a conversion to float32 would compute elements"):
        plan("assign", y, x.astype(np.float64))


def test_a_step_has_a_plan() -> None:
    x = rg.tensor(np.ones((2, 3), np.float32), requires_grad=True)
    steps = rg.record_steps(lambda: rg.softmax(x, 1).sum().backward())
    assert {step.kernel: [launch.name for launch in step.plan().launches] for step in steps}["softmax"] == [
        "softmax_softmax_rows_f"
    ]
