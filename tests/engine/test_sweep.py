"""The backward pass: values, and the memory that it frees or keeps."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from engine.functions import Add, DivMod, Exp, Identity, Mul, Sum, irregular, leaf, values
from retrograd.autograd import set_detect_anomaly
from retrograd.engine import Function, Node, Tensor, backward, grad, gradients, no_grad, wrap


def test_product() -> None:
    x, y = leaf(2, 3), leaf(4, 5)
    Mul.apply(x, y).backward(Tensor([10.0, 100.0], dtype=np.float64))
    assert values(x.grad) == [40, 500]
    assert values(y.grad) == [20, 300]


def test_scalar_needs_no_gradient() -> None:
    x = leaf(2, 3)
    Sum.apply(Mul.apply(x, x)).backward()
    assert values(x.grad) == [4, 6]


def test_one_element_with_axes_needs_no_gradient() -> None:
    x = Tensor(np.array([[3.0]]), requires_grad=True)
    Mul.apply(x, x).backward()
    assert values(x.grad) == [[6]]


def test_tensor_used_several_times() -> None:
    x = leaf(2)
    y = Add.apply(Add.apply(Mul.apply(x, x), x), Mul.apply(x, Mul.apply(x, x)))  # x^2 + x + x^3
    y.backward()
    assert values(x.grad) == [2 * 2 + 1 + 3 * 4]


def test_diamonds_visit_each_node_once() -> None:
    calls = []

    class Twice(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return wrap(x.array * 2)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            calls.append(ctx)
            return wrap(g.array * 2)

    x = leaf(1)
    y = x
    for _ in range(40):  # 2**40 paths
        y = Twice.apply(y)
        y = Add.apply(y, y)
    y.backward()
    assert values(x.grad) == [4.0**40]
    assert len(calls) == len(set(map(id, calls))) == 40


def test_several_roots_and_a_repeated_one() -> None:
    x = leaf(3)
    y, z = Mul.apply(x, x), Exp.apply(x)
    backward((y, z, y), (None, None, Tensor(np.array([10.0]))))
    assert values(x.grad) == pytest.approx([6 + np.exp(3) + 60])


def test_root_that_is_a_leaf() -> None:
    x = leaf(3)
    x.backward()
    assert values(x.grad) == [1]


def test_outputs_without_a_gradient_get_zeros() -> None:
    x = leaf(2, -4)
    half, triple, sign = DivMod.apply(x)
    assert half.requires_grad and triple.requires_grad and not sign.requires_grad and sign.grad_fn is None
    triple.backward(Tensor(np.array([1.0, 10.0])))
    assert values(x.grad) == [3, 30]
    g_half, _, g_sign = half.grad_fn.seen
    assert values(g_half) == [0, 0] and g_half.dtype == np.float64
    assert values(g_sign) == [0, 0] and g_sign.dtype == np.int64


def test_without_materialize_they_get_none() -> None:
    class Pair(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
            ctx.set_materialize_grads(False)
            return wrap(x.array.copy()), wrap(x.array.copy())

        @staticmethod
        def backward(ctx: Any, first: Tensor | None, second: Tensor | None) -> Tensor | None:
            assert first is None
            return second

    x = leaf(2)
    Pair.apply(x)[1].backward()
    assert values(x.grad) == [1]


def test_both_outputs_of_one_node() -> None:
    x = leaf(2)
    half, triple, _ = DivMod.apply(x)
    Mul.apply(half, triple).backward()  # 1.5 x^2
    assert values(x.grad) == [6]


def test_leaf_that_requires_no_gradient_gets_none() -> None:
    x, y = leaf(2), Tensor(np.array([3.0]))
    z = Mul.apply(x, y)
    assert z.grad_fn.needs_input_grad == (True, False)
    z.backward()
    assert values(x.grad) == [3] and y.grad is None


def test_none_is_a_zero_gradient() -> None:
    class Cut(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return wrap(x.array.copy())

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> None:
            return None

    x = leaf(2)
    Add.apply(Cut.apply(Exp.apply(x)), x).backward()
    assert values(x.grad) == [1]


def test_argument_returned_by_forward_is_not_changed() -> None:
    x = leaf(2)
    y = Identity.apply(x)
    assert y is not x and x.is_leaf and not y.is_leaf and y.array is x.array
    plain = Tensor(np.array([1.0]))
    with no_grad():
        assert Identity.apply(x) is not x and not Identity.apply(x).requires_grad
    assert Identity.apply(plain) is not plain
    y.backward()
    assert values(x.grad) == [1]


def test_arguments_that_are_no_tensors() -> None:
    class Scale(Function):
        @staticmethod
        def forward(ctx: Any, factor: float, x: Tensor, name: str) -> Tensor:
            ctx.factor = factor
            return wrap(x.array * factor)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
            return None, wrap(g.array * ctx.factor), None

    x = leaf(2)
    y = Scale.apply(3.0, x, "name")
    assert y.grad_fn.needs_input_grad == (False, True, False)
    y.backward()
    assert values(x.grad) == [3]


def test_dtype_float32_stays() -> None:
    x = Tensor([2.0, 3.0], requires_grad=True)
    Sum.apply(Mul.apply(x, x)).backward()
    assert x.grad is not None and x.grad.dtype == np.float32 and not x.grad.requires_grad


def test_random_graph_agrees_with_forward_mode() -> None:
    """Random graphs of sums and products, compared with derivatives from forward mode."""
    random = np.random.default_rng(0)
    inputs = [irregular(3, seed=seed) for seed in range(3)]
    results = list(inputs)
    tangents = [[np.full(3, float(i == j)) for j in range(3)] for i in range(3)]
    for _ in range(60):
        a, b = (int(k) for k in random.integers(max(0, len(results) - 8), len(results), 2))
        if random.random() < 0.5:
            results.append(Add.apply(results[a], results[b]))
            tangents.append([s + t for s, t in zip(tangents[a], tangents[b], strict=True)])
        else:
            half = Tensor(np.full(3, 0.3))
            results.append(Mul.apply(Mul.apply(results[a], results[b]), half))
            x, y = results[a].array, results[b].array
            tangents.append([0.3 * (s * y + x * t) for s, t in zip(tangents[a], tangents[b], strict=True)])
    found = grad(results[-1], inputs, Tensor(np.ones(3)), allow_unused=True)
    for gradient, tangent in zip(found, tangents[-1], strict=True):
        np.testing.assert_allclose(0 if gradient is None else gradient.array, tangent, rtol=1e-10)


def test_node_describes_itself() -> None:
    x = leaf(1)
    y = Mul.apply(Exp.apply(x), x)
    node = y.grad_fn
    assert isinstance(node, Node) and node.function is Mul and repr(node) == "<MulBackward>"
    (first, _), (second, _) = node.next_functions
    assert first is not None and first.name() == "ExpBackward" and second.variable is x


def test_nodes_take_notes() -> None:
    """Each node has its own dict `metadata`, as in PyTorch; attributes set on ctx remain after forward."""
    x = leaf(1)
    y = Mul.apply(Exp.apply(x), x)
    ((first, _), (end, _)), node = y.grad_fn.next_functions, y.grad_fn
    for each in (first, end, node):
        assert each.metadata == {}
        each.metadata["note"] = each.name()
    assert [each.metadata["note"] for each in (first, end, node)] == ["ExpBackward", "AccumulateGrad", "MulBackward"]
    assert x.register_hook(lambda g: g).__dict__.keys() == {"id", "_hooks"}


def test_leaves_of_a_graph_are_found_by_next_functions() -> None:
    x, w, c = leaf(1), leaf(2), Tensor(np.ones(3))
    y = Mul.apply(Mul.apply(x, w), Mul.apply(x, c))
    (left, _), (right, _) = y.grad_fn.next_functions
    (a, zero), (b, _) = left.next_functions
    (d, _), constant = right.next_functions
    assert a.variable is x and b.variable is w and zero == 0 and constant == (None, 0)
    assert a is d  # the same object wherever the leaf is used
    assert a.next_functions == () and a.name() == "AccumulateGrad" and repr(a) == "<AccumulateGrad>"
    held = weakref.ref(w)
    del w, y, left, right
    assert held() is b.variable  # the leaf lives as long as its AccumulateGrad, and no longer
    del b
    assert held() is None


# ---- retain_graph, retain_grad, and freed memory -----------------------------------------------------------


def test_second_sweep_through_a_freed_graph_names_retain_graph() -> None:
    x = leaf(2)
    y = Mul.apply(x, x)
    y.backward()
    with pytest.raises(RuntimeError, match="<MulBackward>.*freed.*retain_graph=True"):
        y.backward()
    assert values(x.grad) == [4]


def test_retain_graph() -> None:
    x = leaf(2)
    y = Exp.apply(Mul.apply(x, x))
    y.backward(retain_graph=True)
    y.backward()
    assert values(x.grad) == pytest.approx([2 * 4 * np.exp(4)])


def test_nodes_that_saved_nothing_can_be_shared() -> None:
    x = leaf(2)
    shared = Add.apply(x, x)
    Identity.apply(shared).backward()
    Identity.apply(shared).backward()
    assert values(x.grad) == [4]


def test_saved_tensors_are_freed_by_the_sweep() -> None:
    x = leaf(2)
    y = Exp.apply(x)
    z = Mul.apply(y, y)
    alive = weakref.ref(y)
    node = z.grad_fn
    del y
    assert alive() is not None
    z.backward()
    assert alive() is None and node is z.grad_fn


def test_no_leaf_changes_if_memory_ends_while_gradients_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, z = leaf(1, 2), leaf(3, 4), leaf(5, 6)
    y.grad = Tensor([7.0, 8.0], dtype=np.float64)
    z.grad = Tensor([9.0, 9.0], dtype=np.float64)
    kept = z.grad  # so the sum needs new memory
    g = Tensor([1.0, 10.0], dtype=np.float64)

    def out_of_memory(*args: Any) -> Any:
        raise MemoryError

    for function in ("add", "copy"):
        with monkeypatch.context() as patch:
            patch.setattr(gradients.arithmetic, function, out_of_memory)
            with pytest.raises(MemoryError):
                Add.apply(Add.apply(y, z), x).backward(g)
        assert x.grad is None and values(y.grad) == [7, 8] and values(z.grad) == [9, 9]
    Add.apply(Add.apply(y, z), x).backward(g)
    assert values(x.grad) == [1, 10] and values(y.grad) == [8, 18] and values(z.grad) == [10, 19]
    assert values(kept) == [9, 9]


def test_gradients_are_dropped_when_used() -> None:
    alive: list[weakref.ref[np.ndarray]] = []
    most = 0

    class Step(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return wrap(x.array.copy())

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            nonlocal most
            most = max(most, sum(item() is not None for item in alive))
            result = wrap(g.array.copy())
            alive.append(weakref.ref(result.array))
            return result

    y = x = leaf(1)
    for _ in range(20):
        y = Step.apply(y)
    y.backward()
    assert most == 1
    assert values(x.grad) == [1]


def test_retain_grad_of_a_result() -> None:
    x = leaf(2)
    y = Mul.apply(x, x)
    y.retain_grad()
    y.retain_grad()
    assert y.retains_grad
    z = Exp.apply(y)
    z.backward(retain_graph=True)
    assert values(y.grad) == pytest.approx([np.exp(4)])
    z.backward()
    assert values(y.grad) == pytest.approx([2 * np.exp(4)])
    assert values(x.grad) == pytest.approx([2 * 4 * np.exp(4)])
    x.retain_grad()
    with pytest.raises(RuntimeError, match="retain_grad"):
        Tensor([1.0]).retain_grad()


def test_retain_grad_where_gradients_of_some_tensors_are_requested() -> None:
    def graph() -> tuple[Tensor, Tensor, Tensor, Tensor]:
        x, u = leaf(2), leaf(5)
        y = Mul.apply(x, x)
        z = Mul.apply(y, u)
        y.retain_grad()
        z.retain_grad()
        return x, y, z, Exp.apply(z)

    x, y, z, out = graph()
    out.backward(inputs=[x])
    assert values(z.grad) == pytest.approx([np.exp(20)])
    assert values(y.grad) == pytest.approx([5 * np.exp(20)])
    x, y, z, out = graph()
    (found,) = grad(out, x, retain_graph=True)
    assert values(y.grad) == pytest.approx([5 * np.exp(20)])
    assert x.grad is None and values(found) == pytest.approx([4 * values(y.grad)[0]])
    out.backward(inputs=[y])  # y is requested, and retains its gradient: it is added once
    assert values(y.grad) == pytest.approx([2 * 5 * np.exp(20)])
    assert values(z.grad) == pytest.approx([2 * np.exp(20)]) and x.grad is None
    (found,) = grad(graph()[3], y, allow_unused=True)  # of another graph
    assert found is None


def test_saving_an_output_makes_no_cycle() -> None:
    gc.collect()
    gc.disable()
    try:
        y = Exp.apply(leaf(1))
        half, _, _ = DivMod.apply(y)
        nodes = [weakref.ref(y.grad_fn), weakref.ref(half.grad_fn)]
        y.retain_grad()
        del y, half
        assert [node() for node in nodes] == [None, None]
    finally:
        gc.enable()


def test_saved_output_has_its_history() -> None:
    x = leaf(1)
    y = Exp.apply(x)
    (saved,) = y.grad_fn.saved_tensors
    assert saved is not y and saved.array is y.array
    assert saved.grad_fn is y.grad_fn and saved.requires_grad


@pytest.mark.parametrize("operator", ["__mul__", "exp", "relu"])
def test_a_pointwise_call_keeps_its_operands(operator: str) -> None:
    start = np.random.default_rng(0).standard_normal(5)
    for watched in (False, True):
        x, y = (Tensor(start + at, requires_grad=True) for at in range(2))
        with set_detect_anomaly(watched):
            z = getattr(x, operator)(*(y,) * (operator == "__mul__"))
        node = z.grad_fn
        assert node.edges == ((x, y) if operator == "__mul__" else (x,)) and node.outputs is None
        assert node.needs_input_grad == (True,) * len(node.edges) and node.call_site[0].co_filename == __file__
        for array, tensor in zip(node.saved_arrays, node.saved_tensors, strict=True):
            assert array is tensor.array and any(array is each.array for each in (x, y, z))
