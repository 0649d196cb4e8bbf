"""Changes in place between forward and backward, for every operator of the tables.

By definition, the gradients are those of the values that forward saw: they must not change, or backward must raise.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from conformance.table import Op, normal, uniform
from conformance.test_conformance import OPERATORS
from retrograd import Tensor
from retrograd.autograd import grad
from retrograd.engine.aliasing import ChangedArray
from retrograd.nn import functional
from retrograd.testing.function_call import Call, numbers, outputs_of

DAILY = 9  # of so many operators, one is tested by day
USUAL = 8  # calls after which operators and backwards of small tensors run in machine code

DIFFERENTIABLE = [each for each in OPERATORS if each.options.get("order", 2) > 0]
SAMPLE = [
    pytest.param(each, marks=[pytest.mark.nightly] * (place % DAILY > 0), id=each.name)
    for place, each in enumerate(DIFFERENTIABLE)
]


def subsets(places: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All subsets of few places; of many, each one, all others, and all."""
    sizes = range(1, len(places) + 1) if len(places) <= 3 else (1, len(places) - 1, len(places))
    return itertools.chain.from_iterable(itertools.combinations(places, size) for size in sizes)


def change(x: Tensor) -> None:
    """Change every element; integers, which may be indices, become 0."""
    with rg.no_grad():
        if x.dtype.kind == "f":
            x.mul_(-0.7).add_(0.37)
        elif x.dtype.kind == "b":
            x.logical_not_()
        else:
            x.zero_()


def forward(call: Call, needed: tuple[int, ...]) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    rg.manual_seed(0)
    inputs = [Tensor(array.copy(order="K"), requires_grad=k in needed) for k, array in enumerate(call.arrays)]
    return inputs, outputs_of(call.with_values(inputs))


def gradients(inputs: list[Tensor], outputs: Sequence[Tensor], again: bool) -> list[np.ndarray | None]:
    """Those of the inputs that require one; ``again``: and of these gradients."""
    roots, ends = [y for y in outputs if y.requires_grad], [x for x in inputs if x.requires_grad]
    upstream = [Tensor(numbers(y.shape, 5 + k).astype(y.dtype), requires_grad=again) for k, y in enumerate(roots)]
    found = [*grad(roots, ends, upstream, create_graph=again, allow_unused=True)]
    roots = [g for g in found if g is not None and g.requires_grad]
    if again and roots:
        vectors = [Tensor(numbers(g.shape, 9 + k).astype(g.dtype)) for k, g in enumerate(roots)]
        found += grad(roots, [*ends, *upstream], vectors, allow_unused=True)
    return [None if g is None else g.array.copy() for g in found]


def is_same(found: list[np.ndarray | None], expected: list[np.ndarray | None]) -> bool:
    return all(
        x is y if x is None or y is None else x.tobytes() == y.tobytes() for x, y in zip(found, expected, strict=True)
    )


def check(entry: Op, again: bool) -> None:
    call = Call(entry.function, entry.args, entry.options.get("kwargs") or {}, bool(entry.options.get("random")))
    for needed in subsets(call.floating):
        inputs, outputs = forward(call, needed)
        if not any(y.requires_grad for y in outputs):
            continue
        try:
            expected = gradients(inputs, outputs, again)
        except (NotImplementedError, RuntimeError) as error:
            assert "derivative" in str(error) or "no gradient" in str(error)
            continue
        for place in range(len(inputs) + len(outputs)):
            inputs, outputs = forward(call, needed)
            try:
                change([*inputs, *outputs][place])
            except RuntimeError as error:
                assert "share one memory" in str(error) or "read-only" in str(error)  # of an expanded one
                continue
            try:
                found = gradients(inputs, outputs, again)
            except RuntimeError as error:
                assert "changed in place" in str(error)
                continue
            assert is_same(found, expected), (needed, place)


@pytest.mark.parametrize("entry", SAMPLE)
def test_gradients_do_not_change_or_backward_raises(entry: Op) -> None:
    call = Call(entry.function, entry.args, entry.options.get("kwargs") or {}, bool(entry.options.get("random")))
    if call.floating:
        for _ in range(USUAL):
            gradients(*forward(call, tuple(call.floating)), again=False)
    check(entry, again=False)


@pytest.mark.nightly
@pytest.mark.parametrize("entry", DIFFERENTIABLE, ids=lambda entry: entry.name)
@pytest.mark.parametrize("kernels", ["compiled", "textbook"])
def test_second_derivatives_do_not_change_or_raise(entry: Op, kernels: str) -> None:
    with rg.use_kernels(kernels):
        check(entry, again=True)


X, Y, POSITIVE, MATRIX = normal(3, 4), normal(3, 4, seed=1), uniform(0.5, 2.0, 3, 4), normal(4, 5)
IMAGES, FILTERS, BATCH = normal(2, 3, 5, 5), normal(4, 3, 3, 3), normal(2, 3, 4)
LABELS = np.array([1, 0, 3])
# (function, arguments, the place of the one that requires a gradient, the place of the one that is changed); -1 is the
# result. The derivative shows in each case whether it contains the changed values.
Row = tuple[Callable[..., Any], tuple[np.ndarray, ...], int, int]
UNREAD: dict[str, Row] = {
    "mul": (rg.mul, (X, Y), 0, 0),
    "mul, of the other": (rg.mul, (X, Y), 1, 1),
    "div": (rg.div, (X, POSITIVE), 0, 0),
    "div by a number": (lambda x: x / 2.0, (X,), 0, 0),
    "matmul": (rg.matmul, (X, MATRIX), 0, 0),
    "matmul, of the weight": (rg.matmul, (X, MATRIX), 1, 1),
    "bmm": (rg.bmm, (BATCH, BATCH.swapaxes(1, 2)), 0, 0),
    "linear": (functional.linear, (X, MATRIX.T), 0, 0),
    "linear, of the weight": (functional.linear, (X, MATRIX.T), 1, 1),
    "linear, of the bias": (functional.linear, (X, MATRIX.T, normal(5)), 2, 1),
    "conv2d": (functional.conv2d, (IMAGES, FILTERS), 0, 0),
    "conv2d, of the weight": (functional.conv2d, (IMAGES, FILTERS), 1, 1),
    "lerp": (rg.lerp, (X, Y, POSITIVE), 0, 1),
    "addcmul": (rg.addcmul, (X, Y, POSITIVE), 1, 1),
    "addcdiv": (rg.addcdiv, (X, Y, POSITIVE), 1, 1),
    "addmm": (rg.addmm, (normal(3, 5), X, MATRIX), 1, 1),
    "outer": (rg.outer, (X[0], Y[0]), 0, 0),
    "kron": (rg.kron, (X, Y), 0, 0),
    "einsum": (lambda x, y: rg.einsum("ij,jk->ik", x, y), (X, MATRIX), 0, 0),
    "lgamma": (rg.lgamma, (POSITIVE,), 0, -1),
    "var": (rg.var, (X,), 0, -1),
    "dropout": (lambda x: functional.alpha_dropout(x, 0.5, True), (X,), 0, 0),
}
READ: dict[str, Row] = {
    "mul": (rg.mul, (X, Y), 0, 1),
    "div": (rg.div, (X, POSITIVE), 0, 1),
    "div, of the divisor": (rg.div, (X, POSITIVE), 1, 0),
    "matmul": (rg.matmul, (X, MATRIX), 0, 1),
    "matmul, of the weight": (rg.matmul, (X, MATRIX), 1, 0),
    "linear": (functional.linear, (X, MATRIX.T), 0, 1),
    "conv2d": (functional.conv2d, (IMAGES, FILTERS), 0, 1),
    "conv2d, of the weight": (functional.conv2d, (IMAGES, FILTERS), 1, 0),
    "lerp": (rg.lerp, (X, Y, POSITIVE), 0, 2),
    "exp": (rg.exp, (X,), 0, -1),
    "sqrt": (rg.sqrt, (POSITIVE,), 0, -1),
    "log": (rg.log, (POSITIVE,), 0, 0),
    "sin": (rg.sin, (X,), 0, 0),
    "lgamma": (rg.lgamma, (POSITIVE,), 0, 0),
    "softmax": (lambda x: functional.softmax(x, 1), (X,), 0, -1),
    "mse_loss": (functional.mse_loss, (X, Y), 0, 1),
    "cross_entropy": (functional.cross_entropy, (X, LABELS), 0, 0),
    "layer_norm": (lambda x: functional.layer_norm(x, (4,)), (X,), 0, 0),
    "pow": (lambda x: x**3.0, (X,), 0, 0),
}


def after_change(row: Row, again: bool) -> tuple[list[np.ndarray | None], list[np.ndarray | None]]:
    """The gradients with and without a change before backward."""
    function, arrays, needed, changed = row
    call = Call(function, arrays, {})
    expected = gradients(*forward(call, (needed,)), again)
    inputs, outputs = forward(call, (needed,))
    change((outputs if changed < 0 else inputs)[changed])
    return gradients(inputs, outputs, again), expected


@pytest.mark.parametrize("name", UNREAD)
def test_what_no_gradient_contains_may_change(name: str) -> None:
    found, expected = after_change(UNREAD[name], again=False)
    assert expected[0] is not None and is_same(found, expected)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("name", READ)
def test_what_the_gradient_contains_may_not(name: str, again: bool) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)was changed in place after.*saved by .*changed by add_ at .*add_\("):
        after_change(READ[name], again)


@pytest.mark.parametrize("call", [1, USUAL + 4])
def test_what_no_gradient_contains_is_not_kept(call: int) -> None:
    constant, other = Tensor(POSITIVE), Tensor(Y, requires_grad=True)
    products: list[Callable[[Tensor], Tensor]] = [
        lambda x: x * constant,
        lambda x: constant * x,
        lambda x: x * 2.0,
        lambda x: x / constant,
        lambda x: rg.addcmul(constant, constant, x),
        lambda x: rg.lerp(x, constant, constant),
    ]
    weight, filters = Tensor(MATRIX.T), Tensor(FILTERS)
    mean, variance = Tensor(normal(3)), Tensor(uniform(0.5, 2.0, 3))
    products += [
        lambda x: functional.linear(x, weight),
        lambda x: functional.conv2d(x[None, None], filters[:1, :1]),
        lambda x: functional.conv_transpose2d(x[None, None], filters[:1, :1]),
        lambda x: functional.batch_norm(x.reshape(4, 3), mean, variance, mean, mean),
    ]
    for product in [*products, lambda x: x * other, lambda x: functional.linear(x, other)]:
        for _ in range(call):
            x = Tensor(X, requires_grad=True) + 0.0
            y = product(x)
        alive = weakref.ref(x.array)
        del x
        assert (alive() is None) == (product in products)
        del y
        assert alive() is None


def test_rules_may_read_all() -> None:
    seen: list[Any] = []

    def rule(ctx: Any, g: Tensor) -> Any:
        seen[:] = ctx.saved_tensors
        return (g * 2.0, None, *[None] * (len(ctx.needs_input_grad) - 2))

    kernel = normal(3, 3, 1, 1)
    for operator, arrays in (
        (rg.mul, (X, Y)),
        (functional.linear, (X, normal(4, 4))),
        (functional.conv2d, (IMAGES, kernel)),
    ):
        x, w = Tensor(arrays[0], requires_grad=True), Tensor(arrays[1])
        with rg.override_backward(operator, rule):
            y = operator(x, w)
        (gx,) = grad(y, x, Tensor(np.ones(y.shape)))
        assert len(seen) == 2
        for kept, array in zip(seen, arrays, strict=True):
            np.testing.assert_array_equal(kept.array, array)
        np.testing.assert_array_equal(gx.array, np.full(x.shape, 2.0))


def test_second_derivatives_read_more() -> None:
    """The gradient of x in x * y is g * y: only the derivative to g and y contains more."""
    x, y, g = (Tensor(each, requires_grad=True) for each in (X.copy(), Y.copy(), POSITIVE.copy()))
    with rg.no_grad():
        x.add_(1.0)
    z = x.detach() * y
    with rg.no_grad():
        y.add_(1.0)
    (gy,) = grad(z, y, g, create_graph=True)  # g x
    np.testing.assert_array_equal(gy.array, POSITIVE * (X + 1))
    (gg,) = grad(gy, g, Tensor(Y))
    np.testing.assert_array_equal(gg.array, Y * (X + 1))


def test_a_changed_array_has_a_layout_and_no_elements() -> None:
    array = np.ones((2, 3))
    changed: Any = ChangedArray(array, lambda: RuntimeError("it was changed"))
    for name in ("shape", "dtype", "ndim", "size", "strides", "nbytes", "itemsize"):
        assert getattr(changed, name) == getattr(array, name)
    assert repr(changed) == "<changed array of float64, shape (2, 3)>"
    uses: list[Callable[[], Any]] = [
        *(
            lambda: np.asarray(changed),
            lambda: np.add(array, changed),
            lambda: np.sum(changed),
            lambda: array + changed,
        ),
        *(lambda: changed + array, lambda: changed[0], lambda: list(changed), lambda: changed == changed),
        *(
            lambda: bool(changed),
            lambda: float(changed),
            lambda: len(changed),
            lambda: changed.T,
            lambda: hash(changed),
        ),
        *(lambda: 2.0 * changed, lambda: -changed, lambda: changed @ array, lambda: changed.copy(), changed.to_host),
        *(lambda: changed.__array_interface__, lambda: np.empty_like(changed), lambda: 1 in changed),
        *(lambda: changed.__setitem__(0, 1), lambda: array.__iadd__(changed), lambda: np.dot(changed, array.T)),
    ]
    for place, use in enumerate(uses):
        with pytest.raises(RuntimeError, match="^it was changed$"):
            pytest.fail(f"use {place}: {use()}")
    with pytest.raises((TypeError, RuntimeError)):
        memoryview(changed)
