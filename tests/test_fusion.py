"""Fused steps: the same bits as the steps that they replace, and only where nothing else needs what disappears."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import retrograd as rg
from comparison import bits
from retrograd import kernel_set, nn
from retrograd.engine import fusion
from retrograd.engine.fusion import fused
from retrograd.engine.steps import Steps, record_steps
from retrograd.kernels.compiled.machine.launch import get_num_threads, set_num_threads

F = nn.functional
X = (2, 5, 9, 8)
Network = Callable[[rg.Tensor, rg.Tensor], rg.Tensor]


@pytest.fixture(autouse=True)
def formulas_of_small_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any formula may follow a sum, however small its result."""
    monkeypatch.setattr(fusion, "FAR", 0)


def numbers(seed: int, *shape: int) -> rg.Tensor:
    values = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    if len(shape) == 4:  # channels-last, as the results of layers are
        values = np.ascontiguousarray(values.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    return rg.Tensor(values)


CONV, LINEAR = numbers(1, 5, 5, 3, 3), numbers(2, 8, 8)


def conv(x: rg.Tensor) -> rg.Tensor:
    return F.conv2d(x, CONV, CONV[0, :, 0, 0], padding=1)


def transposed(x: rg.Tensor) -> rg.Tensor:
    return F.conv_transpose2d(x, CONV, CONV[0, :, 0, 0], padding=1)


def linear(x: rg.Tensor) -> rg.Tensor:
    return F.linear(x, LINEAR, LINEAR[0])


def tanh_gelu(x: rg.Tensor) -> rg.Tensor:
    return F.gelu(x, approximate="tanh")


def added_in_place(x: rg.Tensor, r: rg.Tensor) -> rg.Tensor:
    y = conv(x)
    y += r
    return F.relu(y, inplace=True)


def residual_later(x: rg.Tensor, r: rg.Tensor) -> rg.Tensor:
    """The residual is made after the convolution."""
    y = conv(x)
    other = rg.exp(r)
    return F.relu(other + y)


def changed_later(x: rg.Tensor, r: rg.Tensor) -> rg.Tensor:
    y = conv(x)
    y = F.relu6(y)
    y[0] = 0.0
    return y * 2


# what follows, and the kernels of the fused steps
FUSED: dict[str, tuple[Network, list[str]]] = {
    "relu": (lambda x, r: F.relu(conv(x)), ["conv_clamp"]),
    "relu6": (lambda x, r: F.relu6(conv(x)), ["conv_clamp"]),
    "clamp at negative zero": (lambda x, r: (conv(x) * 0.0).clamp(-0.0, 1.0), ["conv", "scale", "clamp"]),
    "clamp from below": (lambda x, r: conv(x).clamp(min=-0.5), ["conv_clamp"]),
    "hardtanh": (lambda x, r: F.hardtanh(conv(x), -0.5, 0.25), ["conv_clamp"]),
    "in place": (lambda x, r: F.relu(conv(x), inplace=True), ["conv_clamp"]),
    "residual": (lambda x, r: conv(x) + r, ["conv_clamp"]),
    "residual first": (lambda x, r: r + conv(x), ["conv_clamp"]),
    "residual and relu": (lambda x, r: F.relu(conv(x) + r), ["conv_clamp"]),
    "residual and relu in place": (added_in_place, ["conv_clamp"]),
    "relu and max pool": (lambda x, r: F.max_pool2d(F.relu(conv(x)), 2), ["conv_max_pool"]),
    "max pool with padding": (lambda x, r: F.max_pool2d(conv(x), 3, 2, 1), ["conv_max_pool"]),
    "residual later": (residual_later, ["exp", "conv_clamp"]),
    "changed later": (changed_later, ["conv_clamp", "copy", "scale"]),
    "transposed, residual and relu": (lambda x, r: F.relu(transposed(x) + r), ["conv_input_grad_clamp"]),
    "formula of a transposed one": (lambda x, r: F.silu(transposed(x)), ["conv_input_grad_clamp"]),
    "two": (lambda x, r: conv(F.relu(conv(x))) + r, ["conv_clamp", "conv_clamp"]),
    "both ways": (lambda x, r: F.relu(conv(x) + conv(r)), ["conv", "conv_clamp"]),
    "product": (lambda x, r: F.relu(linear(x)), ["matmul_clamp"]),
    "product with residual": (lambda x, r: linear(x) + r.contiguous(), ["copy", "matmul_clamp"]),
    "relu, then another": (lambda x, r: F.relu(conv(x)) + r, ["conv_clamp", "add"]),
    "two in a row": (lambda x, r: F.relu6(F.relu(conv(x))), ["conv_clamp", "clamp"]),
    **{
        f"{activation.__name__} of a {kind.__name__}": (lambda x, r, f=activation, g=kind: f(g(x)), [f"{name}_clamp"])
        for activation in (
            *(F.gelu, F.silu, F.mish, F.hardswish, F.hardsigmoid, F.leaky_relu, F.elu, F.selu, F.softplus, rg.tanh),
            *(rg.sigmoid, tanh_gelu),
        )
        for kind, name in ((conv, "conv"), (linear, "matmul"))
    },
    "residual and formula": (lambda x, r: F.silu(conv(x) + r), ["conv_clamp"]),
    "residual, clamp and formula": (lambda x, r: F.gelu(F.relu6(conv(x) + r)), ["conv_clamp"]),
    "formula in place": (lambda x, r: F.silu(conv(x), inplace=True), ["conv_clamp"]),
    "formula of a product with residual": (lambda x, r: F.gelu(linear(x) + r.contiguous()), ["copy", "matmul_clamp"]),
}


def returns_both(x: rg.Tensor, r: rg.Tensor) -> tuple[rg.Tensor, rg.Tensor]:
    y = conv(x)
    return y, F.relu(y)


def changes_weights(x: rg.Tensor, r: rg.Tensor) -> rg.Tensor:
    """The convolution must not move behind the change."""
    y = conv(x)
    r.add_(1.0)
    CONV.copy_(rg.flip(CONV, (0,)))
    return F.relu(y)


def changes_residual(x: rg.Tensor, r: rg.Tensor) -> rg.Tensor:
    y = conv(x) + r
    r.mul_(2.0)
    return F.relu(y)


def reads_a_part(x: rg.Tensor, r: rg.Tensor) -> rg.Tensor:
    y = conv(x)
    return F.relu(y) + y[:, :1] * 2


NOT_FUSED: dict[str, tuple[Callable[..., object], list[str]]] = {
    "both are results": (returns_both, ["conv", "relu"]),
    "the sum is read twice": (lambda x, r: (y := conv(x)) * F.relu(y), ["conv", "relu", "mul"]),
    "a part is read": (reads_a_part, ["conv", "relu", "scale", "add"]),
    "the weights change": (changes_weights, ["conv", "add", "copy", "copy", "copy", "relu"]),
    "the residual broadcasts": (lambda x, r: conv(x) + r[:1], ["conv", "add"]),
    "its own sum": (lambda x, r: (y := conv(x)) + y, ["conv", "add"]),
    "another layout": (lambda x, r: conv(x) + rg.Tensor(np.ascontiguousarray(r.numpy())), ["conv", "add"]),
    "another order": (lambda x, r: F.relu(conv(x).transpose(2, 3).contiguous()), ["conv", "copy", "relu"]),
    "a formula in between": (lambda x, r: F.gelu(conv(x)) + r, ["conv_clamp", "add"]),
    "a second formula": (lambda x, r: F.relu(F.gelu(conv(x))), ["conv_clamp", "relu"]),
    "max pool of a sum": (lambda x, r: F.max_pool2d(F.relu(conv(x) + r), 2), ["conv_clamp", "max_pool_values"]),
    "max pool of a transposed one": (
        lambda x, r: F.max_pool2d(F.relu(transposed(x)), 2),
        ["conv_input_grad_clamp", "max_pool_values"],
    ),
    "max pool with indices": (
        lambda x, r: F.max_pool2d(conv(x), 2, return_indices=True),
        ["conv", "max_pool"],
    ),
    "a rare formula of few elements": (lambda x, r: rg.sin(conv(x)), ["conv", "sin"]),
    "the result of a formula is read, and its operand": (
        lambda x, r: (y := conv(x)) * F.silu(y),
        ["conv", "silu", "mul"],
    ),
}


def recorded(function: Callable[..., object], x: rg.Tensor, r: rg.Tensor) -> Steps:
    with rg.no_grad():
        steps = record_steps(function, x, r)
    for tensor, seed in ((x, 3), (r, 4)):
        tensor.array[...] = numbers(seed, *tensor.shape).array
    return steps


def outside(steps: Steps, *given: rg.Tensor) -> list[np.ndarray]:
    results = steps.result if isinstance(steps.result, tuple) else (steps.result,)
    return [tensor.array for tensor in (*results, *given)]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", FUSED)
def test_fused_steps_give_the_same_bits(name: str, threads: int) -> None:
    function, kernels = FUSED[name]
    before = get_num_threads()
    set_num_threads(threads)
    try:
        x, r = numbers(3, *X), numbers(4, *X)
        steps = recorded(function, x, r)
        wanted = bits(steps.result.numpy())
        found, forward = fused(steps, len(steps), outside(steps, x, r))
        assert [step.kernel for step in found] == kernels and forward == len(found)
        r.array[...] = numbers(4, *X).array
        steps.result.array[...] = 0.5
        found.run()
        assert bits(found.result.numpy()) == wanted
        r.array[...] = numbers(4, *X).array
        placed = found.in_arena()
        placed.run()
        assert bits(placed.result.numpy()) == wanted
    finally:
        set_num_threads(before)


def written_out(x: rg.Tensor, r: rg.Tensor) -> rg.Tensor:
    """A function of the convolution, by operators."""
    y = conv(x)
    return y * 0.5 * rg.erf(y * 0.75)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_chain_of_one_array_is_part_of_the_convolution(monkeypatch: pytest.MonkeyPatch, dtype: type) -> None:
    monkeypatch.setattr(fusion, "LEAST_GAIN", 0.0)
    convert = lambda tensor: rg.Tensor(tensor.numpy().astype(dtype))  # noqa: E731
    monkeypatch.setitem(globals(), "CONV", convert(CONV))
    x, r = convert(numbers(3, *X)), convert(numbers(4, *X))
    with rg.no_grad():
        steps = record_steps(written_out, x, r)
    wanted = bits(steps.result.numpy())
    found, _ = fused(steps, len(steps), outside(steps, x, r))
    assert [step.name for step in found] == ["conv_clamp+scale+scale+erf+mul"]
    planned = found.in_arena()
    steps.result.array[...] = 0.5
    planned.run()
    assert bits(planned.result.numpy()) == wanted


def test_an_exponential_is_part_of_large_results_only(monkeypatch: pytest.MonkeyPatch) -> None:
    x, r = numbers(3, *X), numbers(4, *X)
    steps = recorded(lambda x, r: F.hardswish(conv(x)) + F.silu(conv(r)), x, r)
    for far, last in ((4 * steps.result.numel(), ["conv_clamp"]), (4 * steps.result.numel() + 1, ["conv", "silu"])):
        monkeypatch.setattr(fusion, "FAR", far)
        found, _ = fused(steps, len(steps), outside(steps, x, r))
        assert [step.kernel for step in found] == ["conv_clamp", *last, "add"]


@pytest.mark.parametrize("name", NOT_FUSED)
def test_what_is_needed_stays(name: str) -> None:
    function, kernels = NOT_FUSED[name]
    kept = CONV.numpy().copy()
    x, r = numbers(3, *X), numbers(4, *X)
    steps = recorded(function, x, r)
    found, _ = fused(steps, len(steps), outside(steps, x, r, CONV, LINEAR))
    CONV.copy_(rg.Tensor(kept))
    assert [step.kernel for step in found] == kernels


def test_a_residual_that_changes_is_added_before() -> None:
    x, r = numbers(3, *X), numbers(4, *X)
    steps = recorded(changes_residual, x, r)
    found, _ = fused(steps, len(steps), outside(steps, x, r))
    assert [step.kernel for step in found] == ["conv_clamp", "scale", "copy", "relu"]


def test_forward_and_backward_are_apart() -> None:
    """A convolution in the forward pass is not computed in the backward pass, though its ReLU is only used there."""
    x, r = numbers(3, *X), numbers(4, *X)
    steps = recorded(lambda x, r: F.relu(conv(x)), x, r)
    found, forward = fused(steps, 1, outside(steps, x, r))
    assert [step.kernel for step in found] == ["conv", "relu"] and forward == 1


def test_textbook_steps_are_not_fused() -> None:
    with rg.use_kernels("textbook"):
        x, r = numbers(3, *X), numbers(4, *X)
        steps = recorded(lambda x, r: F.relu(conv(x)), x, r)
        found, _ = fused(steps, len(steps), outside(steps, x, r))
    found_later, _ = fused(steps, len(steps), outside(steps, x, r))
    assert [step.kernel for step in found_later] == ["conv", "relu"]
    assert [step.kernel for step in found] == ["conv_clamp"]  # of the textbook set


def test_a_decision_keeps_its_place() -> None:
    """A check of indices after a fused convolution comes after it, and before what follows."""

    def function(x: rg.Tensor, codes: rg.Tensor) -> rg.Tensor:
        y = F.relu(conv(x))
        return y.flatten(1)[:, :4] + F.embedding(codes, LINEAR)[:, :4]

    x, codes = numbers(3, *X), rg.tensor([1, 2])
    with rg.no_grad():
        steps = record_steps(function, x, codes)
    places = [place for place, _ in steps.decisions]
    found, _ = fused(steps, len(steps), [steps.result.array, x.array, codes.array])
    assert [place for place, _ in found.decisions] == [place - 1 for place in places] and places


# ---------------------------------------------------------------- chains of pointwise steps


@rg.formula
def bump(x: rg.Tensor, width: float) -> rg.Tensor:
    return rg.exp(-x * x * width)


def kept(x: rg.Tensor, r: rg.Tensor) -> tuple[rg.Tensor, rg.Tensor]:
    """Two results of one chain, and a part that is read later."""
    y = x * 0.9 + r
    z = rg.tanh(y) * y
    return z, y.sum()


def in_place(x: rg.Tensor, r: rg.Tensor) -> rg.Tensor:
    y = rg.exp(x) * 0.5
    kernel_set.kernels.accumulate(y.array, r.array)
    return y - r


def written_twice(x: rg.Tensor, r: rg.Tensor) -> rg.Tensor:
    y = x * 2.0
    z = y + r
    kernel_set.kernels.accumulate(y.array, z.array)
    kernel_set.kernels.accumulate(y.array, y.array)
    return y * z


CHAINS: dict[str, tuple[Callable[..., object], list[str]]] = {
    "arithmetic": (lambda x, r: (x * 0.9 + r) * r - x, ["scale+add+mul+sub"]),
    "contraction": (lambda x, r: x * r + x * x - r * 0.3, ["mul+mul+add+scale+sub"]),
    "functions": (lambda x, r: rg.sigmoid(rg.sin(x) * r) / 3.0, ["sin+mul+sigmoid+div"]),
    "one number": (lambda x, r: rg.relu(x - rg.Tensor(np.float32([0.25]))) * r, ["sub+relu+mul"]),
    "formula of a user": (lambda x, r: bump(x + r, 0.5) * r, ["add+bump+mul"]),
    "parts that are read": (kept, ["scale+add+tanh+mul", "sum"]),
    "in place": (in_place, ["exp+scale+add+sub"]),
    "written twice": (written_twice, ["scale+add+add+add+mul"]),
    "copies": (lambda x, r: (x.clone() * r).clone(), ["mul"]),
    "other shapes between": (lambda x, r: (x + r) * 2 * x.sum(1, keepdim=True), ["add+scale", "sum", "mul"]),
    "broadcast": (lambda x, r: (x + r) * r[:1] * x, ["add", "mul", "mul"]),
    "views": (lambda x, r: x[:1] * x[1:] + r[:1], ["mul", "add"]),
    "an element of its own": (lambda x, r: rg.exp(x - x[:1, :1, :1, :1]) * r, ["sub", "exp+mul"]),
    "masks": (lambda x, r: rg.where(x > r, x * 2, r) * x, ["lt", "scale", "where", "mul"]),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CHAINS)
def test_chains_give_the_same_bits(name: str, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "LEAST_GAIN", 0.0)
    function, kernels = CHAINS[name]
    x, r = (rg.Tensor(numbers(seed, 2, 5, 9, 8).numpy().astype(dtype, order="K")) for seed in (3, 4))
    x.array.flat[7:10] = np.nan, np.inf, -np.inf
    if dtype is np.float64 and name == "one number":
        return  # the number is float32
    steps = recorded_only(function, x, r)
    results = steps.result if isinstance(steps.result, tuple) else (steps.result,)
    wanted = [bits(y.numpy()) for y in results]
    found, forward = fused(steps, len(steps), outside(steps, x, r))
    assert [step.name for step in found] == kernels and forward == len(found)
    placed = found.in_arena()
    assert all(placed[at : at + 1].calls() is not None for at in range(len(placed)) if "+" in placed[at].name)
    for steps_again in (found, placed):
        for y in results:
            y.array[...] = 0.5
        steps_again.run()
        assert [bits(y.numpy()) for y in results] == wanted


def recorded_only(function: Callable[..., object], x: rg.Tensor, r: rg.Tensor) -> Steps:
    with rg.no_grad():
        return record_steps(function, x, r)


def test_short_chains_are_not_compiled() -> None:
    x, r = numbers(3, *X), numbers(4, *X)
    steps = recorded_only(lambda x, r: (x + r) * r - x, x, r)
    found, _ = fused(steps, len(steps), outside(steps, x, r))
    assert [step.kernel for step in found] == ["add", "mul", "sub"]
    x, r = numbers(3, 400, 500), numbers(4, 400, 500)  # 32 us
    steps = recorded_only(lambda x, r: (x + r) * r - x, x, r)
    found, _ = fused(steps, len(steps), outside(steps, x, r))
    assert [step.name for step in found] == ["add+mul+sub"]


def test_equal_chains_share_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion, "LEAST_GAIN", 0.0)
    x, r = numbers(3, *X), numbers(4, *X)

    def twice(x: rg.Tensor, r: rg.Tensor) -> rg.Tensor:
        total = x
        for factor in (0.25, 0.75):
            total = total.sum(0, keepdim=True) + (x * factor + r)
        return total

    steps = recorded_only(twice, x, r)
    found, _ = fused(steps, len(steps), outside(steps, x, r))
    chains = [step for step in found if step.name == "scale+add"]
    assert len(chains) == 2 and len({step.kernel for step in chains}) == 1
    assert [step.args[2] for step in chains] == [0.25, 0.75]  # numbers are arguments


@pytest.mark.parametrize("inplace", [False, True])
def test_training_fuses_the_forward_pass(inplace: bool) -> None:
    rg.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(5, 6, 3), nn.ReLU(inplace), nn.Conv2d(6, 4, 3), nn.ReLU6(), nn.Flatten())
    net.append(nn.Linear(80, 3))
    compiled, x = rg.compile(net), numbers(3, *X)
    grads = []
    for module in (net, compiled, compiled, net):
        net.zero_grad()
        module(x).square().sum().backward()
        grads.append([bits(p.grad.numpy()) for p in net.parameters()])
    assert grads[0] == grads[1] == grads[2] == grads[3]
    names = [step.kernel for found in compiled._recorder.found.values() for step in found.steps]
    assert names.count("conv_clamp") == 1  # ReLU6's backward reads the sum
