from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import retrograd.kernels.textbook.algorithms
from retrograd import nn
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.engine.tensor import Tensor
from retrograd.kernel_set import active_kernels, kernel_setting, kernels, use_kernels
from retrograd.kernels import compiled
from retrograd.ops.convolution.convolution import conv, conv_input_grad
from retrograd.specs.convolution_options import AUTO, TEXTBOOK_ALGORITHMS, Options
from retrograd.specs.geometry import Window, conv_window


def test_sets_at_once_and_restores() -> None:
    before = active_kernels()
    with use_kernels("textbook") as chosen:
        assert active_kernels() == "textbook" and repr(chosen) == "use_kernels('textbook')"
        assert kernels.matmul.__module__.startswith("retrograd.kernels.textbook")
        with pytest.raises(ZeroDivisionError), use_kernels("compiled"):
            raise ZeroDivisionError
        assert active_kernels() == "textbook"
    assert active_kernels() == before
    use_kernels("textbook")
    assert active_kernels() == "textbook"
    with pytest.raises(ValueError, match=r"textbook; use_kernels\('textbook', convolution='mxnet'\)$"):
        use_kernels("mxnet")
    with pytest.raises(ValueError, match="name='fast' is not a kernel set; choose one of compiled, textbook"):
        use_kernels("fast")
    assert active_kernels() == "textbook"


def test_an_algorithm_of_convolution_is_set_and_restored() -> None:
    before = kernel_setting()
    with use_kernels("textbook", convolution="singa") as chosen:
        assert repr(chosen) == "use_kernels('textbook', convolution='singa')"
        assert active_kernels() == "textbook" and kernel_setting() == ("textbook", "singa")
        assert {kernel.__module__ for kernel in trio()} == {"retrograd.kernels.textbook.algorithms.singa"}
        assert kernels.matmul.__module__ == "retrograd.kernels.textbook.matmul"
        with use_kernels("textbook", convolution="mxnet"):
            assert {kernel.__module__ for kernel in trio()} == {"retrograd.kernels.textbook.algorithms.mxnet"}
        with use_kernels("compiled"):
            assert trio() == tuple(
                [each.direct.run for each in (compiled.conv, compiled.conv_input_grad, compiled.conv_weight_grad)]
            )
        assert kernel_setting() == ("textbook", "singa")
        for name in ("textbook", "auto"), ("compiled", "auto"), ("textbook", "numpy_ml"):
            with use_kernels(*name):
                assert kernel_setting() == name
    assert kernel_setting() == before


def trio() -> tuple[Any, Any, Any]:
    return kernels.conv, kernels.conv_input_grad, kernels.conv_weight_grad


def test_algorithms_that_do_not_fit_are_refused() -> None:
    before = kernel_setting()
    with pytest.raises(
        ValueError,
        match="convolution='caffe' is not an algorithm of the textbook set; "
        "choose one of auto, singa, mxnet, pytorch, numpy_ml",
    ):
        use_kernels("textbook", convolution="caffe")
    with pytest.raises(
        ValueError,
        match=r"convolution='singa' belongs to the textbook set, not to 'compiled'; "
        r"use_kernels\('textbook', convolution='singa'\)",
    ):
        use_kernels("compiled", convolution="singa")
    assert kernel_setting() == before


def test_the_names_are_those_of_the_textbook() -> None:
    assert tuple(retrograd.kernels.textbook.algorithms.ALGORITHMS) == TEXTBOOK_ALGORITHMS
    for name, module in retrograd.kernels.textbook.algorithms.ALGORITHMS.items():
        assert module.DEMAND.name == name and module.__name__.endswith(f".{name}")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record which kernels of which algorithms run."""
    seen: list[str] = []

    def watched(kernel: Any) -> Any:
        def run(*args: Any) -> np.ndarray:
            seen.append(f"{kernel.__module__.rsplit('.', 1)[1]}.{kernel.__name__}")
            return kernel(*args)

        run.__module__ = kernel.__module__
        return run

    for module in retrograd.kernels.textbook.algorithms.ALGORITHMS.values():
        for name in ("conv", "conv_input_grad", "conv_weight_grad"):
            monkeypatch.setattr(module, name, watched(getattr(module, name)))
    return seen


def train(window: Window, options: Options = AUTO) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    x, w = (Tensor(random.standard_normal(shape), requires_grad=True) for shape in ((2, 4, 6, 5), (6, 2, 3, 2)))
    y = conv(x, w, None, window, options)
    (y * y).sum().backward()
    return y.array, x.grad.array, w.grad.array


@pytest.mark.parametrize("name", TEXTBOOK_ALGORITHMS)
def test_options_choose_the_algorithm_under_either_set(ran: list[str], name: str) -> None:
    """In forward and both gradients; an option overrides the algorithm set for the whole network."""
    window = conv_window((6, 5), (3, 2), (2, 1), ((1, 0), (0, 1)), 1, 2)
    expected = train(window)
    assert not ran
    got = train(window, Options(name))
    assert ran == [f"{name}.conv", f"{name}.conv_weight_grad", f"{name}.conv_input_grad"]
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    ran.clear()
    other = "singa" if name != "singa" else "mxnet"
    with use_kernels("textbook", convolution=other):
        train(window, Options(name))
        assert {one.split(".")[0] for one in ran} == {name}
        ran.clear()
        train(window)
        assert ran == [f"{other}.conv", f"{other}.conv_weight_grad", f"{other}.conv_input_grad"]


def test_the_textbook_set_computes_plainly_what_only_the_compiled_one_knows(ran: list[str]) -> None:
    window = conv_window((6, 5), (3, 2), (2, 1), ((1, 0), (0, 1)), 1, 2)
    with use_kernels("textbook"):
        for one, other in zip(train(window, Options("winograd")), train(window), strict=True):
            assert one.tobytes() == other.tobytes()
    assert not ran


def test_a_limit_holds_without_a_named_algorithm(ran: list[str]) -> None:
    """The plain algorithm does not support a limit, so the textbook kernels choose one that does."""
    window = conv_window((6, 5), (3, 2), (2, 1), ((1, 0), (0, 1)), 1, 2)
    with use_kernels("textbook"):
        for name in ("auto", "winograd"):
            got = train(window, Options(name, 10_000))
            assert {one.split(".")[0] for one in ran} == {"pytorch"}
            for one, other in zip(got, train(window), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
        with pytest.raises(ValueError, match="conv: workspace=10 bytes is too little for algorithm='pytorch'"):
            train(window, Options(workspace=10))


@pytest.mark.parametrize("kernel_set", ["textbook"], indirect=True)
@pytest.mark.parametrize("name", TEXTBOOK_ALGORITHMS)
def test_gradients_of_first_and_second_order(name: str) -> None:
    window = conv_window((4, 3), (2, 2), (2, 1), ((1, 0), (0, 2)), (1, 2), 2)
    options = Options(name, 5000)
    random = np.random.default_rng(0)
    x, w, b = (
        Tensor(random.standard_normal(shape), requires_grad=True) for shape in ((2, 2, 4, 3), (4, 1, 2, 2), (4,))
    )
    assert gradcheck(lambda x, w, b: conv(x, w, b, window, options), (x, w, b))
    assert gradgradcheck(lambda x, w, b: conv(x, w, b, window, options), (x, w, b))
    g = Tensor(random.standard_normal((2, 4, *window.output)), requires_grad=True)
    assert gradgradcheck(lambda g, w: conv_input_grad(g, w, None, window, options), (g, w))


@pytest.mark.parametrize("kernel_set", ["textbook"], indirect=True)
def test_a_network_trains_on_each_and_gives_the_same_gradients() -> None:
    """With strided, grouped and transposed convolution: the loss falls, and all sets update the parameters equally."""
    random = np.random.default_rng(0)
    x, target = (Tensor(random.standard_normal((3, 2, 8, 8))) for _ in range(2))
    found = {}
    for name in ("auto", *TEXTBOOK_ALGORITHMS):
        retrograd.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(2, 4, 3, stride=2, padding=1),
            nn.Tanh(),
            nn.Conv2d(4, 4, 3, padding=2, dilation=2, groups=2),
            nn.Tanh(),
            nn.ConvTranspose2d(4, 2, 4, stride=2, padding=1),
        ).double()
        optimizer, losses = retrograd.optim.Adam(model.parameters(), 0.03), []
        with use_kernels("textbook", convolution=name):
            for step in range(12):
                optimizer.zero_grad()
                loss = ((model(x) - target) ** 2).mean()
                loss.backward()
                if step == 0:
                    gradients = [p.grad.array.copy() for p in model.parameters()]
                optimizer.step()
                losses.append(loss.item())
        assert losses[-1] < 0.9 * losses[0]
        found[name] = [*gradients, np.array(losses)]
    for name in TEXTBOOK_ALGORITHMS:
        for one, other in zip(found[name], found["auto"], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_a_missing_kernel_is_named() -> None:
    with (
        use_kernels("textbook"),
        pytest.raises(AttributeError, match=r"'textbook' \(retrograd.kernels.textbook\) has no kernel 'fft'"),
    ):
        kernels.fft(np.zeros(2))


def test_a_set_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "retrograd.kernels.compiled", None)
    with (
        use_kernels("compiled"),
        pytest.raises(
            ImportError, match=r"'compiled' \(retrograd.kernels.compiled\) cannot be .*use_kernels\('textbook'\)"
        ),
    ):
        Tensor(np.ones(2)) + Tensor(np.ones(2))


def test_public_names() -> None:
    names = retrograd.__all__
    assert names == sorted(names) and len(set(names)) == len(names)
    for name in names:
        assert getattr(retrograd, name) is not None or name == "newaxis"
    assert set(names) <= set(dir(retrograd))
    with pytest.raises(AttributeError, match="module 'retrograd' has no attribute 'gpu'"):
        retrograd.gpu  # noqa: B018
