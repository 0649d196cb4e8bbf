"""conv_plan shows the chosen algorithms, exact_convolution disables transforms, and invalid requests are rejected."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import Tensor, nn
from retrograd.kernels.compiled.convolution import algorithm as choice
from retrograd.kernels.compiled.convolution import convolution
from retrograd.utils.checkpoint import checkpoint

F = nn.functional
X, W = (2, 64, 20, 20), (64, 64, 3, 3)  # shapes for which Winograd is chosen


@pytest.fixture(autouse=True)
def kernel_set() -> Iterator[None]:
    """Replace the fixture for both kernel sets: these tests are about the compiled kernels."""
    with rg.use_kernels("compiled"):
        yield


def leaf(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32), requires_grad=True)


# ---------------------------------------------------------------- the plan


def test_a_plan_says_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = F.conv_plan(X, W, padding=1)
    passes = plan.output, plan.input_gradient, plan.weight_gradient
    assert [found.algorithm for found in passes] == ["winograd"] * 3
    assert plan.output.multiplications == 2 * 64 * 64 * (5 * 6) ** 2
    assert F.conv_plan(X, W, padding=1, algorithm="direct").output.multiplications == 2 * 64 * 64 * 9 * 400
    assert dict(plan.output.costs).keys() == {"direct", "winograd"}
    asked: list[tuple[str, str]] = []
    real = choice.choose
    monkeypatch.setattr(convolution, "choose", lambda job, *a: (asked.append((job, form := real(job, *a))), form)[1])
    x, w = leaf(*X), leaf(*W)
    F.conv2d(x, w, padding=1).sum().backward()
    assert asked == [("conv", "winograd"), ("conv_weight_grad", "winograd"), ("conv_input_grad", "winograd")]


def test_a_plan_is_a_table() -> None:
    lines = str(F.conv_plan(X, W, padding=1)).splitlines()
    assert lines[0] == (
        "conv2d, input (2, 64, 20, 20), weight (64, 64, 3, 3), float32, algorithm='auto', compiled kernels"
    )
    assert lines[1].split("  ")[0] == "pass"
    assert [line.split("  ")[0] for line in lines[2:]] == ["output", "input gradient", "weight gradient"]
    assert all("winograd" in line and "7,372,800" in line for line in lines[2:])


@pytest.mark.parametrize(
    ("xs", "ws", "options", "algorithm", "forms"),
    [
        ((1, 300, 50), (300, 300, 9), {}, "direct", ("", "", "")),
        ((1, 4, 50), (16, 4, 9), {}, "direct", ("", None, "")),
        ((4, 3, 64, 64), (64, 3, 7, 7), {"stride": 2, "padding": 3}, "direct", ("narrow", "fold", "narrow")),
        ((2, 64, 20, 20), (3, 64, 9, 9), {"padding": 4}, "direct", (None, "narrow", None)),
        ((8, 64, 40, 40), (256, 64, 1, 1), {}, "pointwise", ("line", "line", "")),
        ((16, 5, 5), (32, 16, 1, 1), {}, "pointwise", (None, None, "")),
        ((2, 64, 20, 20), (64, 1, 3, 3), {"groups": 64}, "depthwise", ("", "", "")),
        ((2, 32, 8, 16, 16), (32, 32, 3, 3, 3), {"padding": 1}, "winograd", ("", "", "")),
    ],
)
def test_every_algorithm(xs: Any, ws: Any, options: Any, algorithm: str, forms: Any) -> None:
    """None: the form depends on the number of lanes."""
    plan = F.conv_plan(xs, ws, **options)
    found = plan.output, plan.input_gradient, plan.weight_gradient
    assert [one.algorithm for one in found] == [algorithm] * 3
    assert all(one.form == form for one, form in zip(found, forms, strict=True) if form is not None)


def test_transposed() -> None:
    """The output of a transposed convolution is an input gradient, so the passes swap roles."""
    plan = F.conv_plan((2, 64, 14, 14), (64, 3, 4, 4), 2, 1, transposed=True)
    assert plan.window.input == (28, 28)
    assert plan.output.form == "fold"
    assert plan.weight_gradient.multiplications == 2 * 64 * 3 * 16 * 14 * 14
    assert str(plan).startswith("conv_transpose2d, input (2, 64, 14, 14), weight (64, 3, 4, 4)")
    assert F.conv_plan((2, 64, 14), (64, 3, 4), 2, 1, transposed=True, output_size=[29]).window.input == (29,)


def test_a_plan_of_textbook_kernels() -> None:
    with rg.use_kernels("textbook"):
        plan = F.conv_plan(X, W, padding=1)
        assert plan.output.algorithm == "taps"
        assert plan.output.memory is None
        assert "textbook kernels" in str(plan)
        assert F.conv_plan(X, W, padding=1, workspace=4).output.algorithm == "pytorch"
    with rg.use_kernels("textbook", convolution="singa"):
        assert F.conv_plan(X, W, padding=1).output.memory == 4 * 64 * 9 * 18 * 18 + 4 * 64 * 9 * (400 - 324)
    assert F.conv_plan(X, W, padding=1, algorithm="mxnet").weight_gradient.algorithm == "mxnet"


def test_a_plan_knows_a_limit() -> None:
    free = F.conv_plan(X, W, padding=1)
    less = F.conv_plan(X, W, padding=1, workspace=0.5)
    assert less.output.algorithm == "direct"
    passes = less.output, less.input_gradient, less.weight_gradient
    assert all(found.memory is not None and found.memory <= 2**19 for found in passes)
    assert free.output.memory is not None and free.output.memory > 2**19


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (((2, 3), (4, 3)), {}, r"conv_plan: weight_shape=\(4, 3\) needs 3 to 5 axes"),
        ((X, (64, 32, 3, 3)), {}, r"conv_plan: conv2d: input has 64 channels, weight expects 32;"),
        ((X, W), {"output_padding": 1}, r"conv_plan: output_padding=1 is for transposed convolutions"),
        ((X, W), {"workspace": -1}, r"workspace=-1 must be at least 0 MB"),
        ((X, W), {"workspace": 0.001}, r"conv: workspace=1048 bytes is too little for algorithm='auto'"),
    ],
)
def test_plans_that_are_refused(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        F.conv_plan(*arguments, **options)


def test_types_of_a_plan() -> None:
    with pytest.raises(TypeError, match="dtype='int64' must be float32 or float64"):
        F.conv_plan(X, W, dtype="int64")
    with pytest.raises(
        TypeError, match=r"weight_shape is a Tensor; pass shapes: conv_plan\(x.shape, layer.weight.shape"
    ):
        F.conv_plan(X, rg.zeros(2, 2))  # type: ignore[arg-type]
    assert "float64" in str(F.conv_plan(X, W, dtype=np.float64))
    assert "textbook kernels" in str(F.conv_plan(X, W, algorithm="mxnet"))


# ---------------------------------------------------------------- exact_convolution


def run(**options: Any) -> list[bytes]:
    """Return the bytes of a convolution, its gradients, and their gradients."""
    x, w, g = leaf(*X), leaf(*W, seed=1), leaf(*X, seed=2)
    y = F.conv2d(x, w, padding=1, **options)
    first = rg.autograd.grad(y, (x, w), g, create_graph=True)
    second = rg.autograd.grad(first, (x, w, g), [leaf(*X, seed=3), leaf(*W, seed=4)])
    return [tensor.array.tobytes() for tensor in (y, *first, *second)]


def test_exact_has_the_bits_of_direct() -> None:
    direct, free = run(algorithm="direct"), run()
    with rg.exact_convolution():
        assert run() == direct
        with rg.exact_convolution(False):
            assert run() == free
        assert run() == direct
    assert run() == free
    assert run(algorithm="exact") == direct
    assert not set(direct) & set(free)


def test_exact_forbids_nothing_that_is_forced() -> None:
    with rg.exact_convolution():
        assert F.conv_plan(X, W, padding=1).output.algorithm == "direct"
        assert F.conv_plan(X, W, padding=1, algorithm="winograd").output.algorithm == "winograd"


def gradients(backward_inside: bool, wrap: Callable[..., Tensor]) -> list[bytes]:
    x, w, g = leaf(*X), leaf(*W, seed=1), leaf(*X, seed=2)
    with rg.exact_convolution():
        y = wrap(lambda x, w: F.conv2d(x, w, padding=1), x, w)
        if backward_inside:
            y.backward(g)
    if not backward_inside:
        y.backward(g)
    assert x.grad is not None and w.grad is not None
    return [x.grad.array.tobytes(), w.grad.array.tobytes()]


def test_a_backward_keeps_what_the_forward_had() -> None:
    plain: Callable[..., Tensor] = lambda f, *a: f(*a)  # noqa: E731
    assert gradients(True, plain) == gradients(False, plain) == run(algorithm="direct")[1:3]


def test_the_second_run_of_a_checkpoint_is_exact() -> None:
    def twice(x: Tensor, w: Tensor) -> Tensor:
        return F.conv2d(F.conv2d(x, w, padding=1) * 0.1, w, padding=1)

    found = []
    for wrap in (lambda f, *a: f(*a), checkpoint):
        x, w = leaf(*X), leaf(*W, seed=1)
        with rg.exact_convolution():
            y = wrap(twice, x, w)
        y.backward(leaf(*X, seed=2))
        assert x.grad is not None and w.grad is not None
        found.append([x.grad.array.tobytes(), w.grad.array.tobytes()])
    assert found[0] == found[1]


def test_gradients_as_functions_and_per_sample_are_exact() -> None:
    x, w, g = leaf(1, *X[1:]), leaf(*W, seed=1), leaf(1, *X[1:], seed=2)
    per = nn.grad.conv2d_weight(x, w.shape, g, padding=1, per_sample=True, algorithm="direct")
    with rg.exact_convolution():
        assert nn.grad.conv2d_weight(x, w.shape, g, padding=1).array.tobytes() == per.array[0].tobytes()
        same = nn.grad.conv2d_weight(x, w.shape, g, padding=1, per_sample=True)
    assert same.array.tobytes() == per.array.tobytes()
    v = leaf(*same.shape, seed=3)
    gx = rg.autograd.grad(same, x, v)[0]
    exact = nn.grad.conv2d_input(x.shape, v.reshape(W), g, padding=1, algorithm="direct")
    assert gx.array.tobytes() == exact.array.tobytes()


def test_exact_is_of_one_thread() -> None:
    found = []

    def other() -> None:
        found.append(F.conv_plan(X, W, padding=1).output.algorithm)

    with rg.exact_convolution():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert found == ["winograd"]


def test_exact_as_a_setting() -> None:
    before = rg.exact_convolution(True)
    try:
        assert F.conv_plan(X, W).output.algorithm == "direct"
    finally:
        rg.exact_convolution(False)
    assert F.conv_plan(X, W).output.algorithm == "winograd"
    with pytest.raises(RuntimeError), before:
        assert F.conv_plan(X, W).output.algorithm == "direct"
        raise RuntimeError
    assert F.conv_plan(X, W).output.algorithm == "winograd"
    with pytest.raises(TypeError, match="exact_convolution: exact is 1, expected True or False"):
        rg.exact_convolution(1)  # type: ignore[arg-type]


# ---------------------------------------------------------------- algorithms that cannot compute it


@pytest.mark.parametrize(
    ("ws", "options", "algorithm", "message"),
    [
        ((8, 8, 4, 4), {}, "winograd", r"needs 3x3 or 5x5 taps .*; here kernel=\(4, 4\)"),
        ((8, 8, 3, 3), {"stride": 2}, "winograd", r"stride 1, .*stride=\(2, 2\)"),
        ((8, 8, 3, 3), {"dilation": 3}, "winograd", r"times the dilation .*dilation=\(3, 3\)"),
        ((8, 4, 3, 3), {"groups": 2}, "winograd", r"one group, .*groups=2"),
        ((8, 8, 3, 3), {"padding": ((0, 0), (1, 1)), "x": (1, 8, 3, 9)}, "winograd", r"2 times .*\(1, 9\)"),
        ((8, 8, 3, 3), {}, "pointwise", "needs one tap"),
        ((8, 1, 1, 1), {"groups": 8}, "pointwise", "for others there is 'depthwise'"),
        ((8, 4, 3, 3), {"groups": 2}, "depthwise", "needs as many groups as input channels"),
        ((8, 8, 3, 3), {}, "fft", "must be one of auto, exact, direct"),
    ],
)
def test_an_algorithm_that_cannot_is_refused_before_any_work(
    ws: Any, options: Any, algorithm: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retrograd.ops.convolution.convolution.convolution_kernel", None)  # nothing is computed
    options = dict(options)
    x, w = leaf(*options.pop("x", (1, 8, 9, 9))), leaf(*ws)
    with pytest.raises(ValueError, match=rf"^conv2d: algorithm='{algorithm}' .*{message}"):
        F.conv2d(x, w, **options, algorithm=algorithm)


def test_transposed_ones_are_refused_as_well() -> None:
    with pytest.raises(ValueError, match=r"^conv_transpose2d: algorithm='winograd' needs 3x3 or 5x5 taps"):
        F.conv_transpose2d(leaf(1, 8, 9, 9), leaf(8, 8, 7, 7), algorithm="winograd")
    with pytest.raises(ValueError, match=r"conv_transpose1d: algorithm='depthwise' needs as many groups"):
        nn.ConvTranspose1d(4, 4, 3, algorithm="depthwise")(leaf(1, 4, 9))
    y = F.conv_transpose2d(leaf(1, 8, 9, 9), leaf(8, 8, 3, 3), algorithm="winograd")
    assert y.shape == (1, 8, 11, 11)
