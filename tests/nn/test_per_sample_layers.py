"""Per-sample gradients of every layer and of modified layers against those of each sample alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import Tensor, lowbit, nn
from retrograd.nn.utils import per_sample_gradients


def tensors(result: Any) -> list[Tensor]:
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (tuple, list)):
        return [tensor for item in result for tensor in tensors(item)]
    return [result] if isinstance(result, Tensor) else []


def take(value: Any, n: int, axis: int) -> Any:
    return Tensor(value.array.take([n], axis)) if isinstance(value, Tensor) else value


def weighted(result: Any, axes: tuple[int, ...], weights: list[np.ndarray] | None = None) -> Tensor:
    """The loss of each sample: the outputs times random weights, which are the upstream gradients."""
    total: Any = 0
    for k, y in enumerate(tensors(result)):
        axis = axes[min(k, len(axes) - 1)]
        w = np.random.default_rng((7, k)).uniform(-1, 1, y.shape) if weights is None else weights[k]
        total = total + (y * Tensor(w)).transpose(0, axis).reshape(y.shape[axis], -1).sum(1)
    return total  # type: ignore[no-any-return]


def agree(
    model: nn.Module,
    *args: Any,
    axis: int = 0,
    outputs: tuple[int, ...] | None = None,
    split: Callable[[int], tuple[Any, ...]] | None = None,
    **kwargs: Any,
) -> None:
    """Both forms of per_sample_gradients against the gradients of each sample alone, and their sum.

    axis: of the samples in args; outputs: in the results (the last applies to all further ones); split: args of one.
    """
    axes = outputs or (axis,)
    state = {name: value.array.copy() for name, value in model.named_buffers()}

    def reset() -> None:
        model.zero_grad()
        for name, value in model.named_buffers():
            if name in state:  # not the buffer of a lazy layer
                value.array[...] = state[name]

    shapes = [y.shape for y in tensors(model(*args, **kwargs))]
    weights = [np.random.default_rng((7, k)).uniform(-1, 1, shape) for k, shape in enumerate(shapes)]
    count = args[0].shape[axis]
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    expected: dict[str, list[np.ndarray]] = {name: [] for name, _ in named}
    for n in range(count):
        reset()
        one = split(n) if split else tuple(take(value, n, axis) for value in args)
        mine = [w.take([n], axes[min(k, len(axes) - 1)]) for k, w in enumerate(weights)]
        weighted(model(*one, **kwargs), axes, mine).sum().backward()
        for name, p in named:
            expected[name].append(np.zeros(p.shape) if p.grad is None else p.grad.array.copy())
    reset()
    found = per_sample_gradients(model, lambda: weighted(model(*args, **kwargs), axes, weights))
    assert list(found) == list(expected)
    reset()
    with per_sample_gradients(model):
        weighted(model(*args, **kwargs), axes, weights).sum().backward()
    for name, p in named:
        e = np.stack(expected[name])
        close(found[name].array, e, name)
        if p.grad is None:
            assert not e.any() and p.grad_sample is None
            continue
        close(p.grad_sample.array, e, name)
        close(p.grad_sample.array.sum(0), p.grad.array, name)
    reset()
    if not any(isinstance(m, nn.Dropout) for m in model.modules()):
        weighted(model(*args, **kwargs), axes, weights).sum().backward()  # the ordinary gradient, without a context
        for name, p in named:
            if p.grad is not None:
                close(found[name].array.sum(0), p.grad.array, name)
    model.zero_grad()


def close(actual: np.ndarray, expected: np.ndarray, name: str) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-8, atol=1e-10, err_msg=name)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng((seed, *shape)).standard_normal(shape))


def indices(*shape: int) -> Tensor:
    return Tensor(np.random.default_rng(shape).integers(0, 5, shape))


def filled(layer: nn.Module) -> nn.Module:
    """Return the layer with random parameters, so that none is 0 or 1."""
    layer = layer.double()
    for k, p in enumerate(layer.parameters()):
        p.array[...] = np.random.default_rng(k).uniform(-0.5, 0.5, p.shape)
    for name, b in layer.named_buffers():
        if "running" in name:
            b.array[...] = np.random.default_rng(3).uniform(0.5, 1.5, b.shape)
    return layer


MASK = Tensor(np.triu(np.full((4, 4), -np.inf), 1))
PADDING = Tensor(np.arange(4) >= np.array([[4], [2], [3]]))
ATTENTION: Any = {"embed_dim": 4, "num_heads": 2}
# the layer, the arguments, and how to split them; the number of samples is 3, and rarely that of another axis
LAYERS: dict[str, Callable[[], Any]] = {
    "Linear": lambda: (nn.Linear(3, 2), normal(3, 4, 3)),
    "Bilinear": lambda: (nn.Bilinear(3, 2, 4), normal(3, 3), normal(3, 2)),
    "Conv1d": lambda: (nn.Conv1d(2, 4, 2, stride=2, groups=2), normal(3, 2, 6)),
    "Conv2d": lambda: (nn.Conv2d(2, 3, (3, 2), padding=1, dilation=(1, 2)), normal(3, 2, 5, 6)),
    "Conv3d": lambda: (nn.Conv3d(2, 2, 2, bias=False), normal(3, 2, 3, 3, 4)),
    "ConvTranspose1d": lambda: (nn.ConvTranspose1d(4, 6, 3, 2, 1, 1, groups=2), normal(3, 4, 4)),
    "ConvTranspose2d": lambda: (nn.ConvTranspose2d(4, 2, (2, 3), stride=2, groups=2), normal(3, 4, 3, 3)),
    "ConvTranspose3d": lambda: (nn.ConvTranspose3d(2, 2, 2, groups=2, bias=False), normal(3, 2, 2, 3, 2)),
    "DeformConv2d": lambda: (nn.DeformConv2d(2, 3, 2), normal(3, 2, 4, 5), normal(3, 8, 3, 4)),
    "DeformableConvolution": lambda: (nn.DeformableConvolution(2, 3, 2), normal(3, 2, 4, 5)),
    "ModulatedDeformableConvolution": lambda: (nn.ModulatedDeformableConvolution(2, 3, 2), normal(3, 2, 4, 5)),
    "BatchNorm1d": lambda: (nn.BatchNorm1d(4).eval(), normal(3, 4, 2)),
    "BatchNorm2d": lambda: (nn.BatchNorm2d(4).eval(), normal(3, 4, 2, 2)),
    "BatchNorm3d": lambda: (nn.BatchNorm3d(2).eval(), normal(3, 2, 2, 1, 2)),
    "InstanceNorm1d": lambda: (nn.InstanceNorm1d(4, affine=True, track_running_stats=True), normal(3, 4, 5)),
    "InstanceNorm2d": lambda: (nn.InstanceNorm2d(4, affine=True), normal(3, 4, 2, 3)),
    "InstanceNorm3d": lambda: (nn.InstanceNorm3d(2, affine=True), normal(3, 2, 2, 2, 2)),
    "GroupNorm": lambda: (nn.GroupNorm(2, 4), normal(3, 4, 5)),
    "LayerNorm": lambda: (nn.LayerNorm((4, 2)), normal(3, 2, 4, 2)),
    "RMSNorm": lambda: (nn.RMSNorm(4), normal(3, 2, 4)),
    "Embedding": lambda: (nn.Embedding(5, 3, padding_idx=1), indices(3, 6)),
    "EmbeddingBag": lambda: (nn.EmbeddingBag(5, 3, mode="mean", padding_idx=2), indices(3, 4)),
    "PReLU": lambda: (nn.PReLU(4), normal(3, 4, 5)),
    "RNN": lambda: (nn.RNN(2, 4), normal(5, 3, 2), {"axis": 1}),
    "LSTM": lambda: (nn.LSTM(2, 4, 2), normal(5, 3, 2), {"axis": 1}),
    "GRU": lambda: (nn.GRU(2, 4, batch_first=True), normal(3, 5, 2), {"outputs": (0, 1)}),
    "RNNCell": lambda: (nn.RNNCell(2, 4), normal(3, 2), normal(3, 4)),
    "LSTMCell": lambda: (nn.LSTMCell(2, 4), normal(3, 2)),
    "GRUCell": lambda: (nn.GRUCell(2, 4), normal(3, 2)),
    "Unroll": lambda: (nn.Unroll(nn.GRUCell(2, 4)), normal(5, 3, 2), {"axis": 1, "outputs": (1, 0)}),
    "Bidirectional": lambda: (
        nn.Bidirectional(nn.GRUCell(2, 4), nn.GRUCell(2, 4)),
        normal(5, 3, 2),
        {"axis": 1, "outputs": (1, 0)},
    ),
    "ResidualCell": lambda: (nn.ResidualCell(nn.GRUCell(4, 4)), normal(3, 4), None),
    "ZoneoutCell": lambda: (nn.ZoneoutCell(nn.GRUCell(4, 4), 0.3).eval(), normal(3, 4), None),
    "VariationalDropoutCell": lambda: (
        nn.VariationalDropoutCell(nn.GRUCell(4, 4), drop_states=0.3).eval(),
        normal(3, 4),
        None,
    ),
    "MultiheadAttention": lambda: (
        nn.MultiheadAttention(**ATTENTION),
        normal(4, 3, 4),
        normal(5, 3, 4),
        normal(5, 3, 4),
        {"axis": 1, "outputs": (1, 0)},
    ),
    "TransformerEncoderLayer": lambda: (nn.TransformerEncoderLayer(4, 2, 5, 0.0), normal(4, 3, 4), {"axis": 1}),
    "TransformerDecoderLayer": lambda: (
        nn.TransformerDecoderLayer(4, 2, 5, 0.0, batch_first=True),
        normal(3, 4, 4),
        normal(3, 5, 4),
        MASK,
        {"split": lambda n: (take(normal(3, 4, 4), n, 0), take(normal(3, 5, 4), n, 0), MASK)},
    ),
    "TransformerEncoder": lambda: (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 5, 0.0, batch_first=True), 2),
        normal(3, 4, 4),
    ),
    "TransformerDecoder": lambda: (
        nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 5, 0.0), 2),
        normal(4, 3, 4),
        normal(5, 3, 4),
        {"axis": 1},
    ),
    "Transformer": lambda: (
        nn.Transformer(4, 2, 1, 1, 5, 0.0),
        normal(4, 3, 4),
        normal(2, 3, 4),
        {"axis": 1},
    ),
}
for _kind in ("RNN", "LSTM", "GRU"):
    for _d in (1, 2, 3):
        _x: Any = (3, 1, *(2,) * _d)
        LAYERS[f"Conv{_kind}Cell{_d}d"] = lambda kind=_kind, d=_d, x=_x: (
            getattr(nn, f"Conv{kind}Cell{d}d")(1, 2, 3),
            normal(*x),
        )
        LAYERS[f"Conv{_kind}{_d}d"] = lambda kind=_kind, d=_d, x=_x: (
            getattr(nn, f"Conv{kind}{d}d")(1, 2, 3),
            normal(2, *x),
            {"axis": 1, "outputs": (1, 0)},
        )
LAYERS |= {
    "Lazy linear": lambda: (nn.LazyLinear(2), normal(3, 4)),
    "attention with masks": lambda: (
        nn.MultiheadAttention(**ATTENTION, batch_first=True, add_bias_kv=True),
        *(normal(3, 4, 4), normal(3, 4, 4, seed=1), normal(3, 4, 4, seed=2), PADDING, True, MASK),
        {
            "outputs": (0,),
            "split": lambda n: (
                *(take(normal(3, 4, 4, seed=k), n, 0) for k in range(3)),
                take(PADDING, n, 0),
                True,
                MASK,
            ),
        },
    ),
    "attention, a mask for each head": lambda: (
        nn.MultiheadAttention(**ATTENTION, batch_first=True),
        *(normal(3, 4, 4, seed=k) for k in range(3)),
        None,
        False,
        normal(6, 4, 4),
        {
            "split": lambda n: (
                *(take(normal(3, 4, 4, seed=k), n, 0) for k in range(3)),
                None,
                False,
                Tensor(normal(6, 4, 4).array[2 * n : 2 * n + 2]),
            ),
        },
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer(name: str) -> None:
    layer, *args = LAYERS[name]()
    options = args.pop() if isinstance(args[-1], dict) else {}
    layer = layer.double() if name.startswith("Lazy") else filled(layer)
    agree(layer, *args, **options)


def test_the_table_has_every_layer_with_parameters() -> None:
    kinds = {name: getattr(nn, name) for name in nn.__all__ if not name.startswith("Lazy")}
    owners = {
        name
        for name, kind in kinds.items()
        if isinstance(kind, type) and issubclass(kind, nn.Module) and hasattr(kind, "reset_parameters")
    }
    assert len(owners) > 20 and owners - set(LAYERS) <= {"RNNBase", "RNNCellBase"}


# ---- layers that are changed ---------------------------------------------------------------------------------------


class Half(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 0.5


class Masked(nn.Linear):
    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.register_buffer("mask", Tensor((np.arange(sizes[0] * sizes[1]) % 2.0).reshape(sizes[1], sizes[0])))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight * self.mask, self.bias)


class LoRA(nn.Linear):
    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.weight.requires_grad_(False)
        self.down, self.up = nn.Linear(sizes[0], 2, bias=False), nn.Linear(2, sizes[1], bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.up(self.down(x)) * 2


class Standardized(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        w = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
        return nn.functional.conv2d(x, w, self.bias, padding=1)


class Scaled(nn.Linear):
    """An inherited forward, and a parameter of its own that is not used."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.scale = nn.Parameter(np.ones(1))


class Patched(nn.Sequential):
    """A token of its own before layers with rules."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(3, 4), nn.LayerNorm(4))
        self.token = nn.Parameter(np.ones((1, 1, 3)))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(rg.cat([self.token.expand(x.shape[0], 1, 3), x], 1))


class Tied(nn.Module):
    """The weight of an embedding, used by another module."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.own = nn.Embedding(5, 3), nn.Parameter(np.ones(5))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(self.table(x).tanh(), self.table.weight) * self.own


class Several(nn.Linear):
    """Outputs computed from each other, in a dict."""

    def forward(self, x: Tensor) -> Any:
        y = super().forward(x)
        return {"y": y, "z": y.tanh(), "both": (y * y, x)}


class Last(nn.LSTM):
    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(x)[0]


class Doubled(nn.Conv2d):
    """An inherited forward that calls another method."""

    def _activated(self, y: Tensor) -> Tensor:
        return y * 2


def own_forward() -> nn.Module:
    layer = nn.Linear(3, 2)
    layer.forward = lambda x: nn.functional.linear(x, layer.weight).sin()  # type: ignore[method-assign]
    return layer


def with_hook(layer: nn.Module, kind: str, hook: Callable[..., Any]) -> nn.Module:
    getattr(layer, f"register_{kind}_hook")(hook)
    return layer


def with_gradient_hook() -> nn.Module:
    layer = nn.Linear(3, 2)
    layer.weight.register_hook(lambda g: g * Tensor(np.arange(6.0).reshape(2, 3)))
    return layer


def assigned() -> nn.Module:
    """An ordinary tensor in place of the weight."""
    layer = nn.Linear(3, 2)
    del layer.weight
    layer.weight = normal(2, 3)  # type: ignore[assignment]
    return layer


class Positive(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.exp()


U = nn.utils
CHANGED: dict[str, Callable[[], Any]] = {
    "half": lambda: (Half(3, 2), normal(3, 3)),
    "masked": lambda: (Masked(3, 2), normal(3, 5, 3)),
    "LoRA": lambda: (LoRA(3, 2), normal(3, 3)),
    "standardized": lambda: (Standardized(2, 3, 3), normal(3, 2, 4, 4)),
    "an unused parameter": lambda: (Scaled(3, 2), normal(3, 3)),
    "own parameter and layers": lambda: (Patched(), normal(3, 2, 3)),
    "tied": lambda: (Tied(), indices(3, 4)),
    "several outputs": lambda: (Several(3, 2), normal(3, 3)),
    "recurrent subclass": lambda: (Last(2, 3, batch_first=True), normal(3, 5, 2)),
    "recurrent subclass, steps first": lambda: (Last(2, 3), normal(5, 3, 2), {"axis": 1}),
    "own part of a forward": lambda: (Doubled(2, 3, 2, activation="relu"), normal(3, 2, 3, 3)),
    "own forward": lambda: (own_forward(), normal(3, 3)),
    "assigned": lambda: (assigned(), normal(3, 3)),
    "forward hook": lambda: (with_hook(nn.Linear(3, 2), "forward", lambda m, a, y: y.sin() * 3), normal(3, 3)),
    "pre hook": lambda: (with_hook(nn.Linear(3, 2), "forward_pre", lambda m, a: (a[0] * a[0],)), normal(3, 3)),
    "forward hook of a subclass": lambda: (with_hook(Half(3, 2), "forward", lambda m, a, y: y * y), normal(3, 3)),
    "backward hook": lambda: (
        nn.Sequential(
            nn.Linear(3, 4),
            with_hook(nn.Linear(4, 2), "full_backward", lambda m, gx, gy: (gx[0] * 3,)),
            with_hook(nn.Linear(2, 2), "full_backward_pre", lambda m, gy: (gy[0] * 2,)),
        ),
        normal(3, 3),
    ),
    "hook of a parameter": lambda: (with_gradient_hook(), normal(3, 3)),
    "weight norm": lambda: (U.weight_norm(nn.Linear(3, 2)), normal(3, 3)),
    "weight norm of a convolution": lambda: (U.weight_norm(nn.Conv1d(2, 4, 3, groups=2)), normal(3, 2, 5)),
    "weight norm of an LSTM": lambda: (U.weight_norm(nn.LSTM(2, 4), "weight_hh_l0"), normal(5, 3, 2), {"axis": 1}),
    "spectral norm": lambda: (U.spectral_norm(nn.Linear(3, 2)), normal(3, 3)),
    "parametrized weight norm": lambda: (
        U.parametrizations.weight_norm(nn.Linear(3, 2, bias=False)),
        normal(3, 3),
    ),
    "parametrized spectral norm": lambda: (U.parametrizations.spectral_norm(nn.Conv2d(2, 3, 2)), normal(3, 2, 3, 3)),
    "parametrization of a bias": lambda: (
        U.parametrize.register_parametrization(nn.LayerNorm(3), "bias", Positive()),
        normal(3, 4, 3),
    ),
    "activation with a parameter": lambda: (nn.Conv2d(2, 3, 2, activation=nn.PReLU(3)), normal(3, 2, 3, 3)),
    "low-bit activations": lambda: (lowbit.Quantize(lowbit.PACT(4)), normal(3, 4)),
}


@pytest.mark.parametrize("name", CHANGED)
def test_changed_layers(name: str) -> None:
    layer, *args = CHANGED[name]()
    options = args.pop() if isinstance(args[-1], dict) else {}
    layer = layer.double() if name.startswith("low") else filled(layer)
    agree(layer, *args, **options)
    after = nn.Sequential(layer, nn.Tanh())  # inside a network, with the first samples equal to none of the others
    if name in ("half", "masked", "LoRA", "weight norm", "forward hook", "own forward"):
        agree(nn.Sequential(nn.Linear(3, 3), *after, nn.Linear(2, 2)).double(), *args)
