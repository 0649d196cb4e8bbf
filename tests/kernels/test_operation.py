"""Direct forms of operators: the same results as the operators themselves, in every setting."""

from __future__ import annotations

import functools
import gc
import inspect
import re
import sys
import threading
import warnings
import weakref
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import Tensor, nn, tensor
from retrograd.engine.backward_pass import direct_backwards
from retrograd.engine.node import Node
from retrograd.engine.operator import Interpreter
from retrograd.kernel_set import instead, kernels, use_kernels
from retrograd.kernels.compiled.machine import numpy_abi, operation
from retrograd.ops.direct import _FIRST, direct_of

F = nn.functional
CALLS = _FIRST + 8


def random(*shape: int, seed: int = 0, dtype: str = "f") -> Tensor:
    return tensor(np.random.default_rng(seed).normal(size=shape).astype(dtype))


def whole(*shape: int, below: int, seed: int = 0) -> Tensor:
    return tensor(np.random.default_rng(seed).integers(0, below, shape))


# each operator with the arguments of one call, for other elements in each
OPERATORS: dict[str, Callable[[int, str], Any]] = {
    "sum": lambda s, d: rg.sum(random(3, 5, seed=s, dtype=d), dim=1),
    "sum keepdim": lambda s, d: random(3, 5, seed=s, dtype=d).sum(0, keepdim=True),
    "max": lambda s, d: rg.max(random(3, 5, seed=s, dtype=d), 1),
    "amax": lambda s, d: rg.amax(random(3, 5, seed=s, dtype=d), (0, 1)),
    "var_mean": lambda s, d: rg.var_mean(random(3, 5, seed=s, dtype=d), 1),
    "cumsum": lambda s, d: rg.cumsum(random(3, 5, seed=s, dtype=d), 1),
    "add": lambda s, d: random(3, 5, seed=s, dtype=d) + random(5, seed=s + 1, dtype=d),
    "lt": lambda s, d: random(3, 5, seed=s, dtype=d) < random(3, 5, seed=s + 1, dtype=d),
    "negative": lambda s, d: -random(3, 5, seed=s, dtype=d),
    "transposed": lambda s, d: random(3, 5, seed=s, dtype=d).T.exp(),
    "clamp": lambda s, d: random(7, seed=s, dtype=d).clamp(-0.5, 0.5),
    "where": lambda s, d: rg.where(random(7, seed=s, dtype=d) > 0, random(7, seed=s + 1, dtype=d), 0.0),
    "cat": lambda s, d: rg.cat([random(2, 3, seed=s, dtype=d), random(2, 2, seed=s + 1, dtype=d)], 1),
    "cat tuple": lambda s, d: rg.cat((random(2, 3, seed=s, dtype=d), random(1, 3, seed=s + 1, dtype=d))),
    "stack": lambda s, d: rg.stack([random(4, seed=s, dtype=d)] * 3, 1),
    "gather": lambda s, d: rg.gather(random(3, 4, seed=s, dtype=d), 1, whole(3, 2, below=4, seed=s)),
    "index_select": lambda s, d: rg.index_select(random(3, 4, seed=s, dtype=d), 1, whole(6, below=4, seed=s)),
    "embedding": lambda s, d: F.embedding(whole(2, 3, below=5, seed=s), random(5, 4, seed=s, dtype=d)),
    "conv2d": lambda s, d: F.conv2d(random(1, 2, 5, 5, seed=s, dtype=d), random(3, 2, 3, 3, seed=s + 1, dtype=d)),
    "max_pool2d": lambda s, d: F.max_pool2d(random(1, 2, 4, 4, seed=s, dtype=d), 2),
    "topk": lambda s, d: rg.topk(random(3, 8, seed=s, dtype=d), 2),
    "softmax": lambda s, d: F.softmax(random(3, 5, seed=s, dtype=d), 1),
    "layer_norm": lambda s, d: F.layer_norm(random(3, 5, seed=s, dtype=d), (5,), random(5, seed=1, dtype=d)),
    "cross_entropy": lambda s, d: F.cross_entropy(random(4, 5, seed=s, dtype=d), whole(4, below=5, seed=s)),
    "mse_loss": lambda s, d: F.mse_loss(random(7, seed=s, dtype=d), random(7, seed=s + 1, dtype=d), reduction="sum"),
    "gelu": lambda s, d: F.gelu(random(7, seed=s, dtype=d), approximate="tanh"),
    "matmul": lambda s, d: random(3, 4, seed=s, dtype=d) @ random(4, 2, seed=s + 1, dtype=d),
    "pad": lambda s, d: F.pad(random(2, 3, seed=s, dtype=d), (1, 2)),
    "flip": lambda s, d: rg.flip(random(2, 3, seed=s, dtype=d), (1,)),
    "avg_pool2d": lambda s, d: F.avg_pool2d(random(1, 2, 4, 4, seed=s, dtype=d), 2),
    "empty": lambda s, d: random(0, 3, seed=s, dtype=d).sum(1),
}


def bits(found: Any) -> list[Any]:
    """Types, layouts and bits of results."""
    if isinstance(found, tuple):
        return [type(found), *map(bits, found)]
    array = found.array
    return [type(found), array.shape, array.dtype, array.tobytes(), found.requires_grad, found.is_leaf, found.grad_req]


def itself(call: Callable[[], Any]) -> Any:
    """The result without direct forms, which an interpreter switches off."""
    with Interpreter():
        return call()


@pytest.mark.parametrize("dtype", ["f", "d"])
@pytest.mark.parametrize("name", [*OPERATORS])
@pytest.mark.parametrize("recorded", [True, False])
def test_results_have_the_bits_of_the_operator(name: str, recorded: bool, dtype: str) -> None:
    """In every call, with other elements in each."""
    call = OPERATORS[name]
    with rg.set_grad_enabled(recorded):
        for seed in range(CALLS):
            assert bits(call(seed, dtype)) == bits(itself(functools.partial(call, seed, dtype)))


def test_most_operators_have_a_plan() -> None:
    """The fourth call after the built-in function was made prepares it, and later ones do not run Python code."""
    x, calls = random(3, 5), 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            return function(*args, **kwargs)

        return run

    for form in (rg.sum, rg.amax, rg.cumsum, F.mse_loss, F.gelu, rg.stack, F.layer_norm):
        waiting: Any = direct_of(inspect.unwrap(form))
        made = operation.Operation(counted(waiting.function), operation_engine())
        given: tuple[Any, ...] = {"mse_loss": (x, x), "gelu": (x,), "stack": ([x, x],), "layer_norm": (x, (5,))}.get(
            waiting.function.__name__, (x, 1)
        )
        expected, calls = bits(waiting.function(*given)), 0
        found = [made.run(*given) for _ in range(9)]
        assert [each is NotImplemented for each in found] == [True] * 3 + [False] * 6, waiting.function
        assert all(bits(each) == expected for each in found[3:])
        assert calls == 2  # its plan, and the call that must agree with it


def operation_engine() -> Any:
    """The engine as ``ops.direct`` describes it."""
    from retrograd.arrays import host
    from retrograd.engine.aliasing import clock, next_order
    from retrograd.engine.call_site import user_call_site
    from retrograd.engine.grad_mode import thread
    from retrograd.engine.node import SavedOutput
    from retrograd.engine.node_template import is_same_graph, node_like, template_of
    from retrograd.engine.operator import interpreters
    from retrograd.engine.tensor import wrap
    from retrograd.kernel_set import usual

    flags = {"interpreter": None, "rules": None, "watch": None, "exact": False, "inference": False}
    fields = {**dict.fromkeys(("_edge", "_grad", "_view", "_views")), "_grad_req": "add", "_requires_grad": False}
    recording = operation.Recording(
        Node, SavedOutput, next_order, user_call_site, template_of, is_same_graph, node_like
    )
    return operation.Engine(
        usual, interpreters, thread, flags, Tensor, nn.Parameter, fields, wrap, host.listeners, clock, recording
    )


def made(function: Callable[..., Any]) -> Any:
    """The direct form of a function of tensors, prepared after three calls with the same layouts and options."""
    return operation.Operation(function, operation_engine()).run


def twice(x: Tensor, *rest: Any, **named: Any) -> Tensor:
    return x + x


def test_arguments_are_told_apart() -> None:
    """Options by type and value, names and places, lists and tuples, shapes, strides and dtypes."""
    x, y = random(3, 4), random(3, 4, seed=1)
    seen = 0

    def function(*args: Any, **named: Any) -> Tensor:
        nonlocal seen
        seen += 1
        leaves = [each for value in args for each in (value if isinstance(value, (list, tuple)) else (value,))]
        tensors = [each for each in leaves if isinstance(each, Tensor)]
        return tensors[0] + float(zlib.crc32(str((described(args), named)).encode()) % 9973)

    def described(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.array.shape, value.array.strides, value.array.dtype
        return type(value), [*map(described, value)] if isinstance(value, (list, tuple)) else value

    run = made(function)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        *[((x, option), {}) for option in (1, 1.0, True, None, "1", 0.0, -0.0, (1,), (1.0,), [1], (), [])],
        *[((x,), {name: value}) for name in ("dim", "keepdim") for value in (0, False, "dim")],
        *(((x, "dim"), {}), ((x, "dim", 0), {}), (([x, y],), {}), (((x, y),), {}), ((x, y), {}), ((x, [y]), {})),
        *((((x.T,), {})), ((x.double(),), {}), ((random(4, 3),), {}), ((random(12),), {}), ((x[:, ::2],), {})),
    ]
    for _ in range(6):
        for args, named in calls:
            found = run(*args, **named)
            assert found is NotImplemented or bits(found) == bits(function(*args, **named)), (args, named)
    seen = 0
    assert all(run(*args, **named) is not NotImplemented for args, named in calls)
    assert not seen


def test_a_gradient_is_never_lost() -> None:
    x, w = random(3, 4), nn.Parameter(random(3, 4).array)
    for _ in range(CALLS):
        assert not (x * x).requires_grad
    for _ in range(CALLS):
        y = x * w
        assert y.requires_grad and y.grad_fn is not None
        with rg.no_grad():
            z = x * w
            assert not z.requires_grad and z.grad_fn is None
        np.testing.assert_array_equal(y.detach().array, z.array)
        y.sum().backward()
    np.testing.assert_allclose(w.grad.array, CALLS * x.array, rtol=1e-5)  # type: ignore[union-attr]
    x.requires_grad_()
    assert (x * x).requires_grad
    x.requires_grad_(False)
    assert not (x * x).requires_grad


def history(found: Any) -> list[Any]:
    """What the nodes below results hold, without call sites."""
    if isinstance(found, tuple):
        return [*map(history, found)]
    nodes, stack = [], [found.grad_fn]
    while stack:
        node = stack.pop()
        if isinstance(node, Node):
            saved = [getattr(each, "array", each) for each in node.saved_tensors]
            arrays = [None if each is None else (each.shape, each.dtype, each.tobytes()) for each in saved]
            named = {name: each for name, each in vars(node).items() if name not in ("labels", "weighted", "matrix")}
            nodes.append([node.name(), node.needs_input_grad, node.outputs, named, arrays])
            stack += [end for end, _ in node.next_functions]
    return nodes


def gradients(found: Any, leaves: list[Tensor]) -> Any:
    """Those of weighted results, by both ways, and those of their squares, as bits."""
    results = [each for each in (found if isinstance(found, tuple) else (found,)) if each.requires_grad]
    rng = np.random.default_rng(5)
    weights = [tensor(rng.normal(size=each.shape).astype("f")) for each in results]
    rg.autograd.backward(results, weights, retain_graph=True)
    delivered = [each.grad for each in leaves]
    plain = rg.autograd.grad(results, leaves, weights, retain_graph=True, allow_unused=True)
    first = rg.autograd.grad(results, leaves, weights, create_graph=True, allow_unused=True)
    squares = [each.square().sum() for each in first if each is not None and each.requires_grad]
    second = rg.autograd.grad(squares, leaves, allow_unused=True) if squares else ()
    found = *delivered, *plain, *first, *second
    return [None if each is None else (each.array.shape, each.array.tobytes()) for each in found]


@pytest.mark.parametrize("name", sorted({*OPERATORS} - {"lt"}))
def test_graphs_are_those_of_the_operator(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Saved arrays, options, edges, gradients and second gradients, for leaves and for results of operators."""
    leaves: list[Tensor] = []
    plain, through = random, False

    def differentiable(*shape: int, seed: int = 0, dtype: str = "f") -> Tensor:
        leaves.append(plain(*shape, seed=seed).requires_grad_())
        with Interpreter():
            return leaves[-1] * 1.5 if through else leaves[-1]

    def described(result: Any) -> Any:
        return history(result), bits(result), gradients(result, [*leaves])

    monkeypatch.setitem(globals(), "random", differentiable)
    for seed in range(CALLS + 9):
        through = seed % 4 == 3
        found = described(OPERATORS[name](seed, "f"))
        leaves.clear()
        assert found == described(itself(functools.partial(OPERATORS[name], seed, "f")))
        leaves.clear()


def test_graphs_know_the_line_of_the_call_and_their_order() -> None:
    x, w = random(4).requires_grad_(), nn.Parameter(random(4).array)
    layer = nn.Linear(4, 3)
    for _ in range(CALLS):
        y = F.relu(x) * w
        z = layer(y)
    for node in (y.grad_fn, z.grad_fn):
        code, _ = node.call_site  # type: ignore[union-attr]
        assert code is sys._getframe().f_code
    below = y.grad_fn.next_functions[0][0]  # type: ignore[union-attr]
    assert y.grad_fn.order < below.order  # type: ignore[union-attr]  # later nodes have smaller numbers
    hits: list[int] = []
    handle = y.register_hook(lambda g: hits.append(1))
    y.retain_grad()
    z.sum().backward()
    assert hits == [1] and y.grad is not None
    handle.remove()
    with pytest.raises(RuntimeError, match="were freed"):
        z.sum().backward()


def test_graphs_notice_changes_in_place_and_unusual_tensors() -> None:
    x, w = random(4), random(4).requires_grad_()
    for _ in range(CALLS):
        y = x * w
    x.add_(1.0)
    with pytest.raises(RuntimeError, match="was changed in place"):
        y.backward(rg.ones(4))
    with rg.inference_mode():
        frozen = random(4)
    with pytest.raises(RuntimeError, match="inference_mode cannot be saved"):
        frozen * w
    w.grad_req = "null"
    assert not (x * w).requires_grad
    w.grad_req = "write"
    for _ in range(3):
        (x * w).backward(rg.ones(4))
    np.testing.assert_array_equal(w.grad.array, x.array)  # type: ignore[union-attr]
    w.grad_req = "add"
    assert (x * w).requires_grad
    for _ in range(CALLS):
        half = w / 2.0
    with pytest.raises(RuntimeError, match="read-only"):
        half.grad_fn.saved_tensors[1].add_(1.0)  # type: ignore[union-attr]


def test_backwards_run_without_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the bits of the backward itself, which runs where the direct form does not know what to do."""
    x, layer, g = random(2, 4).requires_grad_(), nn.Linear(4, 3), random(2, 3, seed=1)
    leaves = [x, layer.weight, layer.bias]
    counts = {True: 0, False: 0}

    def counted(direct: Callable[..., Any]) -> Callable[..., Any]:
        def run(node: Any, gradient: Any) -> Any:
            found = direct(node, gradient)
            counts[found is NotImplemented] += 1
            return found

        return run

    def step(retain_graph: bool | None = None) -> list[bytes]:
        for each in leaves:
            each.grad = None
        y = layer(x)
        y.backward(g, retain_graph)
        if retain_graph:
            y.backward(g)
        with pytest.raises(RuntimeError, match="were freed"):
            y.backward(g)
        return [each.grad.array.tobytes() for each in leaves]

    expected = itself(step), itself(functools.partial(step, True))
    for _ in range(CALLS + 9):
        assert (step(), step(True)) == expected
    for run, direct in [*direct_backwards.items()]:
        monkeypatch.setitem(direct_backwards, run, counted(direct))
    assert step() == expected[0] and counts == {True: 1, False: 1}  # the other call is the one that raises
    y = layer(x)
    function: Any = y.grad_fn.function  # type: ignore[union-attr]
    monkeypatch.setattr(function, "backward", staticmethod(lambda ctx, g: (g * 0 @ layer.weight, None, None)))
    y.backward(g)
    assert counts == {True: 1, False: 1} and x.grad.array.tobytes() == expected[0][0]  # type: ignore[union-attr]


def test_graphs_are_freed() -> None:
    x, layer = random(2, 4).requires_grad_(), nn.Linear(4, 3)
    for _ in range(CALLS):
        layer(x).exp()
    given = (x, layer.weight, x.array, layer.weight.array, None, True, rg.float32)
    before = [sys.getrefcount(each) for each in given]
    for _ in range(1000):
        layer(x).exp()
    after = [sys.getrefcount(each) for each in given]
    assert all(abs(one - other) < 100 for one, other in zip(before, after, strict=True))
    y = layer(x).exp()
    held = [weakref.ref(each) for each in (y, y.array, y.grad_fn, y.grad_fn.next_functions[0][0])]  # type: ignore[union-attr]
    del y
    assert [each() for each in held] == [None] * 4


def test_unusual_settings_run_the_operator() -> None:
    """Interpreters, other kernels, listeners, rules, inference_mode, another default dtype, other classes."""
    x, whole_numbers = random(3, 4), whole(3, 4, below=5)
    expected = rg.sum(x, 1)
    for _ in range(CALLS):
        rg.sum(x, 1)
        rg.mul(whole_numbers, 0.5)
    names: list[str] = []

    class Names(Interpreter):
        def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
            names.append(operator.name)
            return super().call(operator, args, kwargs)

    with Names():
        rg.sum(x, 1)
        x.sum(1)
        F.mse_loss(x, x)
    assert names[:2] == ["sum", "sum"] and "mse_loss" in names
    with instead({"sum": lambda x, axes, keepdims: np.full(3, 7.0, "f")}):
        assert rg.sum(x, 1).tolist() == [7.0] * 3
    with use_kernels("textbook"):
        assert rg.sum(x, 1).array.tobytes() == kernels.sum(x.array, (1,), False).tobytes()
    with rg.inference_mode():
        assert rg.sum(x, 1).is_inference()
    assert not rg.sum(x, 1).is_inference()
    rg.set_default_dtype(rg.float64)
    try:
        assert rg.mul(whole_numbers, 0.5).dtype == rg.float64
    finally:
        rg.set_default_dtype(rg.float32)
    assert rg.mul(whole_numbers, 0.5).dtype == rg.float32
    np.testing.assert_array_equal(rg.sum(x, 1).array, expected.array)

    class Own(Tensor):
        pass

    with pytest.raises(TypeError):
        rg.sum([1.0, 2.0], 0)  # type: ignore[arg-type]
    with pytest.raises(IndexError, match="dim"):
        rg.sum(x, 5)
    assert rg.sum(Own(x.array), 1).tolist() == expected.tolist()


def test_out_and_other_names() -> None:
    x, y = random(3, 4), rg.zeros(3)
    for _ in range(CALLS):
        y.fill_(0)
        assert rg.sum(x, 1, out=y) is y  # type: ignore[call-arg]
        np.testing.assert_array_equal(y.array, rg.sum(x, axis=1).array)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="same argument"):
            rg.sum(x, dim=1, axis=1)  # type: ignore[call-arg]


def test_what_changes_an_argument_is_called_once() -> None:
    """Such an operator, or one that returns a view or its argument, is not prepared, and not called for its plan."""
    calls = 0

    def function(x: Tensor, how: str) -> Any:
        nonlocal calls
        calls += 1
        ways: dict[str, Callable[[], Any]] = {
            "in place": lambda: x.add_(1.0),
            "view": lambda: x[1:],
            "itself": lambda: x,
            "none": lambda: None,
        }
        return ways[how]()

    run, x = made(function), rg.zeros(4)
    for how in ("in place", "view", "itself", "none"):
        calls = 0
        assert all(run(x, how) is NotImplemented for _ in range(12))
        assert calls <= 1 and not x.array.any()  # once on arrays without elements
    for _ in range(CALLS):
        before = x.array.copy()
        F.relu(x.sub_(1.0), inplace=True)
        F.leaky_relu(x.sub_(1.0), 0.5, inplace=True)
        np.testing.assert_array_equal(x.array, (np.maximum(before - 1, 0) - 1) * np.float32(0.5))
        x.zero_()


def test_functions_that_are_no_plans_are_left_alone() -> None:
    """Those that read elements, use other arrays each time, or warn."""

    def reading(x: Tensor) -> Tensor:
        return x + x if x.sum().item() > 0 else x * x

    state = {"number": 0.0}

    def counting(x: Tensor) -> Tensor:
        state["number"] += 1.0
        return x + state["number"]

    def warning(x: Tensor) -> Tensor:
        warnings.warn("each time", UserWarning, stacklevel=2)
        return x + x

    x = random(4)
    for function in (reading, counting):
        run = made(function)
        assert [run(x) is NotImplemented for _ in range(12)].count(False) <= 1, function
    run = made(warning)
    assert all(run(x) is NotImplemented for _ in range(12))


def test_integers_outside_a_range() -> None:
    """They do not reach a kernel: the operator counts from the end, or raises its error."""
    x, logits = random(4), random(3, 5)
    places, labels = tensor([0, 3, 1]), tensor([0, 4, 2])
    for _ in range(CALLS):
        rg.gather(x, 0, places)
        rg.take(x, places)
        F.cross_entropy(logits, labels)
    for wrong in (4, -1, -5, 2**62, -(2**63)):
        for at in range(3):
            bad = places.clone()
            bad[at] = wrong
            with pytest.raises(IndexError, match=re.escape(f"index[{at}]={wrong}")):
                rg.gather(x, 0, bad)
            if wrong == -1:
                assert rg.take(x, bad)[at] == x[-1]
            else:
                with pytest.raises(IndexError, match=re.escape(f"index[{at}]={wrong}")):
                    rg.take(x, bad)
            with pytest.raises((IndexError, ValueError), match="is not a class"):
                F.cross_entropy(logits, rg.where(rg.arange(3) == at, wrong if wrong != 4 else 5, labels))
    np.testing.assert_array_equal(rg.gather(x, 0, places).array, x.array[[0, 3, 1]])


def test_large_arrays_and_many_layouts_cost_little() -> None:
    """Neither is passed on to Python for ever."""
    passed = 0

    class Counting(operation.Operation):
        def _learn(self, *args: Any, **kwargs: Any) -> Any:
            nonlocal passed
            passed += 1
            return super()._learn(*args, **kwargs)

    run = Counting(twice, operation_engine()).run
    for _ in range(9):
        assert run(random(513, 512)) is NotImplemented
    assert passed == 0
    x = random(3)
    for number in range(1000):
        assert run(x, float(number)) is NotImplemented
    assert passed == 400


def test_results_and_arguments_are_not_leaked() -> None:
    x = random(3, 4)
    for _ in range(CALLS):
        rg.max(x, 1)
        rg.stack([x, x])
    before = sys.getrefcount(x), sys.getrefcount(x.array), sys.getrefcount(None)
    for _ in range(1000):
        rg.max(x, 1)
        rg.stack([x, x])
    after = sys.getrefcount(x), sys.getrefcount(x.array), sys.getrefcount(None)
    assert before[:2] == after[:2] and abs(after[2] - before[2]) < 100
    values, indices = rg.max(x, 1)
    held = [weakref.ref(each) for each in (values, indices, values.array)]
    values.note = values  # a cycle: the collector knows the new tensors
    del values, indices
    gc.collect()
    assert [each() for each in held] == [None] * 3


def test_threads_have_their_own_modes() -> None:
    x = random(3, 4)
    for _ in range(CALLS):
        x.exp()
    w, found = random(3, 4).requires_grad_(), []

    def run() -> None:
        with rg.no_grad():
            found.extend([w.exp().requires_grad for _ in range(50)])

    other = threading.Thread(target=run)
    other.start()
    kept = [w.exp().requires_grad for _ in range(50)]
    other.join()
    assert kept == [True] * 50 and found == [False] * 50


def test_without_known_fields_there_are_no_direct_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    from retrograd.kernel_set import prepared_operator

    monkeypatch.setattr(numpy_abi, "fault", lambda: "planted")
    assert prepared_operator(twice, ()) is None
