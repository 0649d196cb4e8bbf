"""Fused batch norms in recorded steps: which neighbors they take in, and the bits of the separate operators."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from comparison import bits_but_nan
from retrograd import nn
from retrograd.arrays import within
from retrograd.engine.batch_norm_fusion import with_fused_batch_norms
from retrograd.engine.steps import Steps, record_steps
from retrograd.nn import functional
from retrograd.nn.compilation import explain_recording

BATCH_NORMS = {"batch_norm", "batch_norm_grad", "batch_norm_clamp", "batch_norm_clamp_grad"}
PASSES = {*BATCH_NORMS, "add", "relu", "relu_grad", "clamp", "hardtanh_grad", "clamp_grad"}


class Network(nn.Module):
    """Convolutions with batch norm, and a function of their results."""

    def __init__(self, form: Callable[[Any, rg.Tensor], rg.Tensor], channels: int = 5) -> None:
        super().__init__()
        self.form = form
        self.convs = nn.ModuleList([nn.Conv2d(3 if n == 0 else channels, channels, 3, padding=1) for n in range(3)])
        self.norms = nn.ModuleList([nn.BatchNorm2d(channels) for _ in range(3)])

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        return self.form(self, x)

    def normed(self, n: int, x: rg.Tensor) -> rg.Tensor:
        return self.norms[n](self.convs[n](x))


def image(seed: int, *shape: int, dtype: type = np.float32) -> rg.Tensor:
    return rg.Tensor(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def steps_of(net: nn.Module, x: rg.Tensor, seen: Callable[[Steps], list[Any]] = lambda steps: []) -> tuple[Steps, int]:
    """The fused steps of a call and of its backward."""
    steps = record_steps(net, x)
    forward = len(steps)
    back = record_steps(lambda: rg.autograd.grad(steps.result.sum(), [*net.parameters()], allow_unused=True))
    grads = [each.array for each in back.result if each is not None]
    steps += back
    return with_fused_batch_norms(steps, forward, [steps.result.array, *grads, *seen(steps)])


def kernels_of(form: Callable[[Any, rg.Tensor], rg.Tensor]) -> list[str]:
    """The kernels of the passes over activations, in order."""
    steps, _ = steps_of(Network(form), image(0, 2, 3, 6, 6))
    return [step.kernel for step in steps if step.kernel in PASSES and step.outputs[0].ndim == 4]


def test_what_is_fused() -> None:
    one, grad = ["batch_norm_clamp"], ["batch_norm_clamp_grad"]
    assert kernels_of(lambda net, x: functional.relu(net.normed(0, x)).square()) == one + grad
    assert kernels_of(lambda net, x: functional.relu6(net.normed(0, x)).square()) == one + grad
    assert kernels_of(lambda net, x: functional.hardtanh(net.normed(0, x), -0.5, 0.25).square()) == one + grad

    def residual(net: Any, x: rg.Tensor) -> rg.Tensor:
        y = functional.relu(net.normed(0, x))
        y = functional.relu(net.normed(1, y) + y)
        return (y + net.normed(2, y)).square()

    kernels = kernels_of(residual)
    assert kernels[:3] == one * 3 and kernels[-1:] == grad and kernels.count("relu_grad") == 1
    assert not {"relu", "clamp", "batch_norm"} & {*kernels}

    def in_place(net: Any, x: rg.Tensor) -> rg.Tensor:
        y = functional.relu6(net.normed(0, x), inplace=True)
        z = net.normed(1, y)
        z += y
        return functional.relu(functional.relu(z, inplace=True) + net.normed(2, z), inplace=True).square()

    kernels = kernels_of(in_place)
    assert kernels[:3] == one * 3 and not {"relu", "clamp", "batch_norm"} & {*kernels}
    assert [kernels.count(each) for each in ("batch_norm_clamp_grad", "relu_grad", "hardtanh_grad")] == [1, 2, 0]

    def in_place_alone(net: Any, x: rg.Tensor) -> rg.Tensor:
        y = functional.relu6(net.normed(0, x), inplace=True)
        return functional.relu(net.normed(1, y), inplace=True).square()

    assert kernels_of(in_place_alone) == one * 2 + grad * 2

    def two_paths(net: Any, x: rg.Tensor) -> rg.Tensor:
        """The sum belongs to the batch norm that is computed last."""
        x = net.convs[0](x)
        return functional.relu6(net.norms[1](net.convs[1](x)) + net.norms[2](net.convs[2](x))).square()

    kernels = kernels_of(two_paths)
    assert kernels == ["batch_norm", "batch_norm_clamp", "hardtanh_grad", "batch_norm_grad", "batch_norm_grad", "add"]


def test_eval_mode() -> None:
    def residual(net: Any, x: rg.Tensor) -> rg.Tensor:
        y = functional.relu6(net.normed(0, x))
        return functional.relu(net.normed(1, y) + y, inplace=True)

    net, x = Network(residual).eval(), image(0, 2, 3, 6, 6)
    net.norms[1].running_mean.fill_(0.1)
    compiled = rg.compile(net)
    with rg.no_grad():
        steps = record_steps(net, x)
        kernels = [each.kernel for each in with_fused_batch_norms(steps, len(steps), [steps.result.array])[0]]
        for seed in range(3):
            x = image(seed, 2, 3, 6, 6)
            assert bits_but_nan(compiled(x).numpy()) == bits_but_nan(net(x).numpy())
    assert kernels.count("channel_affine_clamp") == 2 and not {"add", "relu", "clamp", "update"} & {*kernels}


def test_a_batch_norm_that_is_not_folded() -> None:
    """Before its convolution, as in DenseNet: frozen networks have one pass for it and its ReLU."""
    rg.manual_seed(0)
    net = nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.Conv2d(3, 4, 3)).eval()
    net[0].running_var.fill_(2.0)
    frozen, x = net.freeze(), image(0, 2, 3, 6, 6)
    np.testing.assert_allclose(frozen(x).numpy(), net(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert "2 steps" in explain_recording(frozen)


def _read_twice(net: Any, x: rg.Tensor) -> rg.Tensor:
    y = net.normed(0, x)
    return functional.relu(y) * y


def _other_grad(net: Any, x: rg.Tensor) -> rg.Tensor:
    return net.normed(0, x).clamp(0.0, 6.0).square()  # passes the gradient at the limits


def _broadcast(net: Any, x: rg.Tensor) -> rg.Tensor:
    y = net.normed(0, x)
    return functional.relu(y + x.mean((1, 2, 3), True))


def _twice_the_same(net: Any, x: rg.Tensor) -> rg.Tensor:
    y = net.normed(0, x)
    return functional.relu(y + y)


def _later(net: Any, x: rg.Tensor) -> rg.Tensor:
    y = net.normed(0, x)
    return functional.relu(y + net.convs[1](net.convs[0](x)))  # made after the batch norm


def _changed(net: Any, x: rg.Tensor) -> rg.Tensor:
    other = net.convs[0](x)
    y = net.normed(0, x)
    with rg.no_grad():
        other.mul_(2.0)
    return functional.relu(y + other)


def _in_place(net: Any, x: rg.Tensor) -> rg.Tensor:
    y = net.normed(0, x)
    return functional.relu(y.mul_(2.0))


def _read_before(net: Any, x: rg.Tensor) -> rg.Tensor:
    y = net.normed(0, x)
    mean = y.detach().mean()
    return functional.relu(y, inplace=True) * mean


def _copy_seen(net: Any, x: rg.Tensor) -> rg.Tensor:
    y = net.normed(0, x)
    z = y.clone()
    return functional.relu(y, inplace=True) * z


def _view(net: Any, x: rg.Tensor) -> rg.Tensor:
    return functional.relu(net.normed(0, x)[:, 1:])


@pytest.mark.parametrize(
    "form",
    [
        _read_twice,
        _other_grad,
        _broadcast,
        _twice_the_same,
        _later,
        _changed,
        _in_place,
        _read_before,
        _copy_seen,
        _view,
    ],
    ids=lambda form: form.__name__,
)
def test_what_is_not_fused(form: Callable[..., Any]) -> None:
    kernels = kernels_of(form)
    assert "batch_norm" in kernels and not any("batch_norm_clamp" in each for each in kernels)


def test_a_clamp_to_one_number_is_not_fused() -> None:
    net, x = Network(lambda net, x: net.normed(0, x)), image(0, 2, 3, 6, 6)
    with rg.no_grad():
        steps = record_steps(lambda: net(x).clamp(0.25, 0.25))
    kernels = [step.kernel for step in with_fused_batch_norms(steps, len(steps), [steps.result.array])[0]]
    assert "batch_norm" in kernels and "clamp" in kernels


def test_arrays_that_are_seen_are_made() -> None:
    """By the caller, and by a decision between the steps."""

    def relu_input(steps: Steps) -> list[Any]:
        return [step.args[0] for step in steps if step.kernel == "relu"]

    net, x = Network(lambda net, x: functional.relu(net.normed(0, x)).square()), image(0, 2, 3, 6, 6)
    assert "relu" in [step.kernel for step in steps_of(net, x, relu_input)[0]]
    assert "relu" not in [step.kernel for step in steps_of(net, x)[0]]

    def decides(net: Any, x: rg.Tensor) -> rg.Tensor:
        y = net.normed(0, x)
        within(y.array, -9, 9, "whether y is small")
        return functional.relu(y).square()

    assert "relu" in [step.kernel for step in steps_of(Network(decides), x)[0]]


def test_a_gradient_that_others_read_is_computed() -> None:
    """A clamp whose gradient goes two ways keeps its own step, which reads the clamp's result."""

    def form(net: Any, x: rg.Tensor) -> rg.Tensor:
        y = functional.relu6(net.normed(0, x))
        z = functional.relu6(net.normed(1, y) + y)
        return z.square()

    net = Network(form)
    steps, _ = steps_of(net, image(0, 2, 3, 6, 6))
    made = {id(step.result[0]) for step in steps if step.kernel == "batch_norm_clamp"}
    masks = [step for step in steps if step.kernel == "hardtanh_grad"]
    assert len(masks) == 1 and id(masks[0].args[1]) in made


def test_places_of_decisions_and_of_backward() -> None:
    def decides(net: Any, x: rg.Tensor) -> rg.Tensor:
        y = functional.relu(net.normed(0, x))
        within(y.array, -9, 9, "whether y is small")
        return functional.relu(net.normed(1, y) + y).square()

    net, x = Network(decides), image(0, 2, 3, 6, 6)
    plain = record_steps(net, x)
    steps, forward = steps_of(net, x)
    assert len(plain) - forward == 3 and steps[forward - 1].kernel == plain[-1].kernel
    ((before, _),), ((after, _),) = plain.decisions, steps.decisions
    assert plain[before].kernel == steps[after].kernel == "conv" and before - after == 1


# ---------------------------------------------------------------- the same bits


def random_form(rng: np.random.Generator) -> Callable[[Any, rg.Tensor], rg.Tensor]:
    """Three layers in a random arrangement."""
    clamps = [
        functional.relu,
        functional.relu6,
        lambda y: functional.hardtanh(y, -0.5, 0.7),
        functional.gelu,
        lambda y: y,
        lambda y: y.clamp(0.0, 1.0),
    ]
    clamps += [lambda y: functional.relu(y, inplace=True), lambda y: functional.relu6(y, inplace=True)]
    kinds, sums = rng.choice(len(clamps), 3), rng.integers(0, 5, 3)

    def form(net: Any, x: rg.Tensor) -> rg.Tensor:
        for n in range(3):
            y = net.normed(n, x)
            if n and sums[n] == 1:
                y = y + x
            elif n and sums[n] == 2:
                y = x + y
            elif n and sums[n] == 3:
                y += x
            elif n and sums[n] == 4:
                y = y + net.norms[(n + 1) % 3](x)
            x = clamps[kinds[n]](y)
        return x

    return form


def trained(net: nn.Module, call: Any, shape: tuple[int, ...], dtype: type) -> list[bytes]:
    """The bits of losses, gradients and running statistics in some steps; the last image contains NaN and infinity."""
    found = []
    for step in range(3):
        x = image(step, *shape, dtype=dtype)
        if step == 2:
            x.numpy()[0, 0, 0, :2] = np.nan, np.inf
        x.requires_grad_(step == 1)
        y = call(x)
        (y * image(9, *y.shape, dtype=dtype)).sum().backward()
        found += bits_but_nan(y.detach().numpy()) + ([] if x.grad is None else bits_but_nan(x.grad.numpy()))
        with rg.no_grad():
            for p in net.parameters():
                if p.grad is not None:  # not of layers without effect
                    found += bits_but_nan(p.grad.numpy())
                    p.sub_(p.grad.nan_to_num() * 0.01)
                    p.grad = None
    return found + [row for value in net.state_dict().values() for row in bits_but_nan(value.numpy())]


@pytest.mark.parametrize("seed", range(24))
def test_training_has_the_same_bits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rg.manual_seed(seed)
    dtype = (np.float32, np.float64)[seed % 2]
    net = Network(random_form(rng), channels=int(rng.choice([3, 5, 16, 24]))).to(rg.tensor(np.zeros(1, dtype)).dtype)
    if seed % 4 == 3:
        net.norms[1].eval()
    shape = (int(rng.integers(1, 5)), 3, *rng.integers(2, 23, 2).tolist())
    nets = [copy.deepcopy(net) for _ in range(3)]
    expected, threads = trained(nets[0], nets[0], shape, dtype), rg.get_num_threads()
    try:
        for count, other in zip((1, 2), nets[1:], strict=True):
            rg.set_num_threads(count)
            compiled = rg.compile(other)
            assert trained(other, compiled, shape, dtype) == expected
            assert "launches" in explain_recording(compiled)
    finally:
        rg.set_num_threads(threads)
