"""Generated geometries: all properties of convolution for each, on both kernel sets.

For every geometry these are checked:

- the three kernels against the oracle, by one of the algorithms that can compute it, on arrays in all kinds of memory
  order, inputs unchanged;
- the adjoint identity <conv(x, w), g> = <x, conv_input_grad(g, w)> = <w, conv_weight_grad(x, g)>;
- the same bits with one and with two threads;
- the three operators on one of the sets: their gradients, their gradients' gradients, the contract of ``grad_req``.

500 geometries run in "make test" and 5,000 in "make nightly"; tests/peers compares the same ones with PyTorch.
For 100 of them, and 2,000 in "make nightly", NaN and infinities at the borders must stay where the definition has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import naive
from comparison import assert_sums, bits
from kernels.convolutions import (
    Trio,
    by_loops,
    can_be_transformed,
    check_bias,
    check_trio,
    operands,
    terms_of,
    trio,
)
from retrograd import Tensor, get_num_threads, kernels, set_num_threads, use_kernels
from retrograd.autograd import grad
from retrograd.kernels import textbook
from retrograd.kernels.compiled.convolution.algorithm import costs
from retrograd.kernels.textbook.algorithms import ALGORITHMS
from retrograd.ops.convolution.convolution import Conv, ConvInputGrad, conv, conv_input_grad, conv_weight_grad
from retrograd.specs.convolution_options import Options
from retrograd.specs.geometry import Window
from strategies import LAYOUTS, Case, Source, conv_case, conv_cases, evenly, examples, many_examples, numbers, sources

SETS = {"compiled": kernels, "textbook": textbook}
Again = Callable[[], None]


def check(case: Case, source: Source) -> Again:
    """Check everything but threads; return a function that compares the bits under a later number of threads."""
    window = case.window
    assert naive.outputs(window.input, window.kernel, window.stride, window.padding, window.dilation) == window.output
    arrays = operands(case, source)
    expected = by_loops(arrays, window)
    cases = {
        "compiled": by_one_of(costs(window, case.batch, case.inputs, case.outputs, arrays[0].dtype.char), case, source),
        "textbook": by_one_of(ALGORITHMS, case, source),
    }
    found = {name: trio(SETS[name], arrays, one.window, one.options) for name, one in cases.items()}
    for name, one in cases.items():
        check_trio(one, arrays, found[name], expected)
        if one.bias:
            check_bias(SETS[name], one, source, arrays, expected)
    name = ("compiled", "textbook")[source.rng.integers(2)]
    with use_kernels(name):
        check_operators(cases[name], arrays, source, found[name], expected)

    def again() -> None:
        same = trio(SETS["compiled"], arrays, window, cases["compiled"].options)
        assert bits(same) == bits(found["compiled"]), f"other bits: {cases['compiled']}"

    return again


def by_one_of(algorithms: Iterable[str], case: Case, source: Source) -> Case:
    """The case with one of the algorithms that can compute it, or with the default choice."""
    return replace(case, options=Options(str(source.rng.choice(["auto", *algorithms]))))


def check_operators(case: Case, arrays: Trio, source: Source, found: Trio, expected: Trio) -> None:
    """First order: the bits of the kernels. Second order: against the oracle.

    The gradients of <gx, 2x> + <gw, -4w> are multiples of what the three are, by powers of 2, which do not round:
    -4 gx to x, 2 gw to w and -2 y to g. So one run of the oracle is enough, and a mistaken array shows in the factor.
    """
    window, options, (y, gx, gw) = case.window, case.options, found
    biases = source.arrays((case.outputs,)) if case.bias else []
    leaves = [Tensor(a, requires_grad=True) for a in (*arrays, *biases)]
    tx, tw, tg, *rest = leaves
    tb = rest[0] if rest else None
    gx1, gw1, *gb1 = grad(conv(tx, tw, tb, window, options), (tx, tw, *rest), tg, create_graph=True)
    back, weight = conv_input_grad(tg, tw, None, window, options), conv_weight_grad(tx, tg, window, options)
    gg2, gw2 = grad(back, (tg, tw), tx)  # <conv_input_grad(g, w), x>
    gx3, gg3 = grad(weight, (tx, tg), tw)  # <conv_weight_grad(x, g), w>
    for wanted, same in ((y, (gg2, gg3)), (gx, (gx1, back, gx3)), (gw, (gw1, gw2, weight))):
        for tensor in same:
            assert bits(tensor.array) == bits(wanted)
    if rest:
        axes = (0, *range(2, arrays[2].ndim))
        assert_sums(gb1[0].array, arrays[2].sum(axes, np.float64), terms_of(case)[2])
    second = grad((gx1, gw1), (tx, tw, tg), (Tensor(2 * arrays[0]), Tensor(-4 * arrays[1])))
    of_y, of_gx, of_gw = terms_of(case)
    transformed = can_be_transformed(window)
    assert_sums(second[0].array / -4, expected[1], of_gx, transformed)
    assert_sums(second[1].array / 2, expected[2], of_gw, transformed)
    assert_sums(second[2].array / -2, expected[0], 4 * of_y, transformed)  # of two that are added
    check_requests(case, [tx, tw, *rest], tg, [gx, gw, *[t.array for t in gb1]], source.rng)


def check_requests(
    case: Case, leaves: list[Tensor], g: Tensor, written: list[np.ndarray], rng: np.random.Generator
) -> None:
    """add(previous) = previous + write; null neither computes nor touches, and changes no other gradient."""
    wishes = [str(wish) for wish in rng.choice(("add", "write", "null"), len(leaves))]
    previous = [numbers(rng, leaf.shape, leaf.dtype.type) for leaf in leaves]
    for leaf, wish, before in zip(leaves, wishes, previous, strict=True):
        leaf.grad_req, leaf.grad = wish, Tensor(before.copy())
    y = conv(leaves[0], leaves[1], leaves[2] if len(leaves) == 3 else None, case.window, case.options)
    if y.requires_grad:  # else all of them are "null"
        y.backward(g.detach())
    for leaf, wish, before, one in zip(leaves, wishes, previous, written, strict=True):
        assert bits(leaf.grad.array) == bits({"add": before + one, "write": one, "null": before}[wish]), wish


def check_all(number: int, count: int, positions: int) -> None:
    """Check ``count`` geometries, numbered from ``number`` on and each drawn independently."""
    waiting = []
    for n in range(number, number + count):
        pick, source = evenly(n)
        case = conv_case(pick, positions)
        try:
            waiting.append(check(case, source))
        except BaseException as error:
            error.add_note(f"geometry {n}: {case}, {source}")
            raise
    with_two_threads(waiting)


def check_drawn(settings: Any, positions: int) -> None:
    """Check geometries drawn by Hypothesis: fewer of them are distinct, but it shrinks those that fail."""
    waiting = []

    @settings
    @given(case=conv_cases(positions), source=sources)
    def draw(case: Case, source: Source) -> None:
        waiting.append(check(case, source))

    draw()
    with_two_threads(waiting)


def with_two_threads(waiting: list[Again]) -> None:
    before = get_num_threads()
    set_num_threads(2)
    try:
        for again in waiting:
            again()
    finally:
        set_num_threads(before)


@pytest.mark.parametrize("tens", [pytest.param(n, marks=pytest.mark.nightly) if n >= 20 else n for n in range(40)])
def test_geometries(tens: int) -> None:
    check_all(10 * tens, 10, 100)


def test_drawn_geometries() -> None:
    check_drawn(examples(100), 100)


@pytest.mark.nightly
@pytest.mark.parametrize("hundreds", range(35))
def test_geometries_nightly(hundreds: int) -> None:
    check_all(1000 + 100 * hundreds, 100, 300)


@pytest.mark.nightly
def test_drawn_geometries_nightly() -> None:
    check_drawn(many_examples(1500), 300)


# ---------------------------------------------------------------- NaN and infinities at the borders


def check_not_finite(number: int, count: int, positions: int) -> None:
    """They reach the results that read them by the definition, and no others: padding is not multiplied with them."""
    for n in range(number, number + count):
        pick, source = evenly(n)
        case = replace(conv_case(pick, positions), options=Options("exact"))  # transforms would spread them
        shapes = case.x, case.w, case.y
        x, w, g = (numbers(source.rng, shape, source.dtype) for shape in shapes)
        for array in (x, g):
            plant(array, source.rng)
        if n % 2:
            plant(w, source.rng)
        x, w, g = (LAYOUTS[turn](array) for turn, array in zip(source.turns, (x, w, g), strict=True))
        with np.errstate(all="ignore"):
            expected = by_loops((x, w, g), case.window)
        found = trio(SETS["compiled"], (x, w, g), case.window, case.options)
        for actual, wanted, terms in zip(found, expected, terms_of(case), strict=True):
            try:
                assert_sums(actual, wanted, terms)
            except AssertionError as error:
                error.add_note(f"geometry {n}: {case}, {source}")
                raise


def plant(array: np.ndarray, rng: np.random.Generator) -> None:
    """Put a few numbers that are not finite at the first or last positions of each axis."""
    for _ in range(rng.integers(1, 4) if array.size else 0):
        channel = tuple(rng.integers(extent) for extent in array.shape[:2])
        place = tuple(rng.choice((0, extent - 1)) for extent in array.shape[2:])
        array[channel + place] = rng.choice((np.nan, np.inf, -np.inf))


@pytest.mark.parametrize("hundreds", [pytest.param(n, marks=pytest.mark.nightly) if n >= 1 else n for n in range(20)])
def test_not_finite_at_the_borders(hundreds: int) -> None:
    check_not_finite(100 * hundreds, 100, 100)


# ---------------------------------------------------------------- the checker itself


def _turned(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x[(..., *(slice(None, None, -1),) * (x.ndim - 2))])


def _other_side(window: Window) -> Window:
    return replace(window, padding=tuple((high, low) for low, high in window.padding))


# a name -> the three kernels with one fault
FAULTS: dict[str, dict[str, Callable[..., np.ndarray]]] = {
    "conv scaled": {"conv": lambda x, w, b, v, o: kernels.conv(x, w, b, v, o) * x.dtype.type(1.001)},
    "conv not turned": {"conv": lambda x, w, b, v, o: kernels.conv(x, _turned(w), b, v, o)},
    "padding at the other side": {"conv": lambda x, w, b, v, o: kernels.conv(x, w, b, _other_side(v), o)},
    "bias forgotten": {"conv_input_grad": lambda g, w, b, v, o: kernels.conv_input_grad(g, w, None, v, o)},
    "a sample forgotten": {"conv_weight_grad": lambda x, g, v, o: kernels.conv_weight_grad(x[:-1], g[:-1], v, o)},
    "other bits with more threads": {
        "conv_weight_grad": lambda x, g, *how: (
            kernels.conv_weight_grad(x, g, *how) * (1 + 2e-16 * (get_num_threads() - 1))
        )
    },
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_kernel_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    names = "conv", "conv_clamp", "conv_input_grad", "conv_input_grad_clamp", "conv_weight_grad"
    trio = {name: getattr(kernels, name) for name in names}
    faulty = trio | FAULTS[fault]
    for name, kernel in faulty.items():
        kernel.__name__ = name
    monkeypatch.setitem(SETS, "compiled", SimpleNamespace(**faulty))
    with pytest.raises(BaseException, match="are wrong|other bits|assert "):
        check_all(0, 30, 50)


@pytest.mark.parametrize("fault", ["first order", "second order", "request"])
def test_a_faulty_operator_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault == "request":
        monkeypatch.setattr(Tensor, "grad_req", property(lambda t: "add", lambda t, value: None))
    else:
        broken = Conv if fault == "first order" else ConvInputGrad
        right = broken.backward

        def backward(ctx: Any, g: Tensor) -> Any:
            found = right(ctx, g)
            return (found[0], None if found[1] is None else found[1] * 2, *found[2:])

        monkeypatch.setattr(broken, "backward", staticmethod(backward))
    with pytest.raises(BaseException, match="are wrong|assert "):
        check_all(0, 30, 50)
