"""Per-sample gradients are those of a loop over the samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import Tensor, lowbit, nn
from retrograd.engine.tensor import wrap
from retrograd.nn.utils import per_sample_gradients, register_per_sample_rule
from retrograd.nn.utils import per_sample_rules as rules


def loop(model: nn.Module, loss: Callable[[Tensor], Tensor], x: Tensor) -> dict[str, np.ndarray]:
    """One sample at a time."""
    rows: dict[str, list[np.ndarray]] = {}
    for n in range(x.shape[0]):
        model.zero_grad()
        loss(model(Tensor(x.array[n : n + 1].copy()))).sum().backward()
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                gradient = np.zeros_like(parameter.array) if parameter.grad is None else parameter.grad.array.copy()
                rows.setdefault(name, []).append(gradient)
    model.zero_grad()
    return {name: np.stack(row) for name, row in rows.items()}


def per_row(weights: np.ndarray) -> Callable[[Tensor], Tensor]:
    """A loss per sample that is curved and different everywhere."""

    def loss(y: Tensor) -> Tensor:
        z = (y * y * 0.5 + y.sigmoid()).reshape(y.shape[0], -1)
        return (z * wrap(weights[: z.shape[1]])).sum(1)

    return loss


WEIGHTS = np.random.default_rng(5).uniform(-1, 1, 10_000)
CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(3, 4), (5, 3)),
    "linear of sequences": (lambda: nn.Linear(3, 2), (4, 2, 5, 3)),
    "no bias": (lambda: nn.Linear(3, 4, bias=False), (5, 3)),
    "conv1d": (lambda: nn.Conv1d(2, 3, 3, padding=1), (4, 2, 7)),
    "conv2d": (lambda: nn.Conv2d(4, 6, (3, 2), stride=2, padding=(1, 0), groups=2), (3, 4, 7, 6)),
    "conv2d, same, dilated": (lambda: nn.Conv2d(2, 3, 3, padding="same", dilation=2, bias=False), (3, 2, 6, 5)),
    "conv2d, circular, activation": (
        lambda: nn.Conv2d(2, 3, 3, padding="same", padding_mode="circular", activation="tanh"), (3, 2, 4, 5),
    ),
    "transposed, reflect, activation": (
        lambda: nn.ConvTranspose1d(2, 4, 3, 2, groups=2, padding_mode="reflect", activation=nn.SiLU()), (3, 2, 4),
    ),
    "depthwise": (lambda: nn.Conv2d(4, 4, 3, groups=4), (2, 4, 5, 5)),
    "conv3d": (lambda: nn.Conv3d(2, 2, 2), (2, 2, 3, 4, 3)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), (3, 4, 3, 4)),
    "one sample": (lambda: nn.Conv2d(2, 3, 3), (1, 2, 4, 4)),
    "batch norm": (lambda: _moved(nn.BatchNorm2d(3)).eval(), (4, 3, 2, 2)),
    "a network": (
        lambda: nn.Sequential(
            *(nn.Conv2d(1, 4, 3, padding=1), _moved(nn.BatchNorm2d(4)), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(4, 3, 3), nn.Flatten(), nn.Linear(12, 5), nn.Tanh(), nn.Linear(5, 2)),
        ).eval(),
        (6, 1, 8, 8),
    ),
}


def _moved(layer: Any) -> Any:
    rng = np.random.default_rng(1)
    for tensor in (layer.weight, layer.bias, layer.running_mean, layer.running_var):
        tensor.array[...] = rng.uniform(0.5, 2, tensor.shape)
    return layer


def check(model: nn.Module, x: Tensor) -> None:
    loss = per_row(WEIGHTS)
    expected = loop(model, loss, x)
    actual = per_sample_gradients(model, lambda: loss(model(x)))
    assert list(actual) == list(expected)
    for name, e in expected.items():
        assert actual[name].shape == e.shape and not actual[name].requires_grad
        np.testing.assert_allclose(actual[name].array, e, rtol=1e-9, atol=1e-11, err_msg=name)
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("name", CASES)
def test_against_a_loop(name: str) -> None:
    make, shape = CASES[name]
    check(make().double(), Tensor(np.random.default_rng(2).standard_normal(shape)))


@pytest.mark.parametrize("name", ["LayerNorm", "GroupNorm", "InstanceNorm2d", "RMSNorm"])
def test_other_norms(name: str) -> None:
    arguments = {
        "LayerNorm": ((4, 2),),
        "GroupNorm": (2, 4),
        "InstanceNorm2d": (4, 1e-5, 0.1, True),
        "RMSNorm": ((4, 2),),
    }
    layer = getattr(nn, name)(*arguments[name]).double()
    for parameter in layer.parameters():
        parameter.array[...] = np.random.default_rng(1).uniform(0.5, 2, parameter.shape)
    check(layer, Tensor(np.random.default_rng(2).standard_normal((3, 4, 4, 2))))


def test_embedding() -> None:
    model = nn.Sequential(nn.Embedding(6, 3, padding_idx=2), nn.Linear(3, 2)).double()
    check(model, Tensor(np.random.default_rng(3).integers(0, 6, (5, 4))))
    model[0].scale_grad_by_freq = True
    with pytest.raises(ValueError, match="scale_grad_by_freq counts over the whole batch"):
        check(model, Tensor(np.zeros((2, 2), np.int64)))


def test_a_layer_used_twice_and_a_shared_parameter() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(3, 3)
            self.b = nn.Linear(3, 3)
            self.b.weight = self.a.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.a(self.b(self.a(x).tanh())).tanh()

    check(Net().double(), Tensor(np.random.default_rng(2).standard_normal((4, 3))))


def test_frozen_unused_and_changed_in_place() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.unused = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(2, 2)
            self.a.weight.requires_grad_(False)
            self.b.bias.grad_req = "null"

        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x)
            y.tanh_()
            return self.b(y)

    model, x = Net().double(), Tensor(np.random.default_rng(2).standard_normal((4, 3)))
    loss = per_row(WEIGHTS)
    expected = loop(model, loss, x)
    actual = per_sample_gradients(model, lambda: loss(model(x)))
    assert list(actual) == ["a.bias", "b.weight", "unused.weight", "unused.bias"]
    for name, gradient in actual.items():
        np.testing.assert_allclose(gradient.array, expected[name], rtol=1e-9, atol=1e-12)


def test_a_rule_of_ones_own() -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.s = nn.Parameter(np.array([2.0, 3.0]))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.s

    model, x = Scale(), Tensor(np.random.default_rng(2).standard_normal((4, 2)))
    check(model, x)  # one sample at a time
    register_per_sample_rule(Scale, lambda call, g: {"s": g * call.x})
    try:
        check(model, x)
        rules._RULES[Scale] = (lambda call, g: {"s": g * call.x * 3}), None  # a wrong one, to see which is used
        with pytest.raises(AssertionError):
            check(model, x)

        class Shifted(Scale):
            def forward(self, x: Tensor) -> Tensor:
                return super().forward(x) + self.s

        check(Shifted(), x)
        rules._RULES[Scale] = (lambda call, g: {}), None
        with pytest.raises(ValueError, match=r"rule of the module itself|rule of the module \(Scale.* returned no gradient"):
            check(model, x)
    finally:
        del rules._RULES[Scale]


def test_messages() -> None:
    model, x = nn.Sequential(nn.Linear(3, 2)), rg.ones(4, 3)
    with pytest.raises(TypeError, match=r"losses returned a Tensor of shape \(\), expected one loss per sample"):
        per_sample_gradients(model, lambda: model(x).sum())
    with pytest.raises(TypeError, match="losses returned float"):
        per_sample_gradients(model, lambda: 1.0)
    with pytest.raises(RuntimeError, match="the losses do not depend on any parameter"):
        per_sample_gradients(model, lambda: x.sum(1))
    with rg.no_grad(), pytest.raises(TypeError, match="gradients are disabled"):
        per_sample_gradients(model, lambda: model(x).sum(1))
    with pytest.raises(ValueError, match=r"input of 0 \(Linear\(.*has shape \(4, 3\), axis 0 must hold the 2 samples"):
        per_sample_gradients(model, lambda: model(x).reshape(2, 4).sum(1))
    norm = nn.BatchNorm1d(3)
    with pytest.raises(ValueError, match="normalises over the batch, which mixes the samples; call eval"):
        per_sample_gradients(norm, lambda: norm(rg.randn(4, 3)).sum(1))
    conv = nn.Conv2d(1, 2, 2)
    with pytest.raises(ValueError, match="was called without a batch axis"):
        per_sample_gradients(conv, lambda: conv(rg.ones(1, 3, 3)).sum(2).sum(1))
    with pytest.raises(TypeError, match="layer must be a subclass of Module"):
        register_per_sample_rule(int, lambda call, g: {})
    assert not model[0]._hooks["forward"] and model(x).shape == (4, 2)  # the hooks are gone, errors or not


# ---- every layer: the rows against each sample alone, with random gradients of the outputs --------------------------


def tensors(result: Any) -> list[Tensor]:
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (tuple, list)):
        return [tensor for item in result for tensor in tensors(item)]
    return [result] if isinstance(result, Tensor) else []


def take(value: Any, n: int, axis: int) -> Any:
    return Tensor(value.array.take([n], axis)) if isinstance(value, Tensor) else value


def weighted(result: Any, axes: tuple[int, ...], weights: list[np.ndarray] | None = None) -> Tensor:
    """The loss of each sample: the outputs times random weights, which stand for their gradients."""
    total: Any = 0
    for k, y in enumerate(tensors(result)):
        axis = axes[min(k, len(axes) - 1)]
        w = np.random.default_rng((7, k)).uniform(-1, 1, y.shape) if weights is None else weights[k]
        total = total + (y * Tensor(w)).transpose(0, axis).reshape(y.shape[axis], -1).sum(1)
    return total  # type: ignore[no-any-return]


def agree(
    model: nn.Module, *args: Any, axis: int = 0, outputs: tuple[int, ...] | None = None,
    split: Callable[[int], tuple[Any, ...]] | None = None, **kwargs: Any,
) -> None:  # fmt: skip
    """Both forms of per_sample_gradients against the gradients of each sample alone, and their sum.

    axis: of the samples in args; outputs: in the results (the last stands for all further ones); split: args of one.
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
    """With random parameters, so that none is 0 or 1."""
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
        nn.Bidirectional(nn.GRUCell(2, 4), nn.GRUCell(2, 4)), normal(5, 3, 2), {"axis": 1, "outputs": (1, 0)},
    ),
    "ResidualCell": lambda: (nn.ResidualCell(nn.GRUCell(4, 4)), normal(3, 4), None),
    "ZoneoutCell": lambda: (nn.ZoneoutCell(nn.GRUCell(4, 4), 0.3).eval(), normal(3, 4), None),
    "VariationalDropoutCell": lambda: (
        nn.VariationalDropoutCell(nn.GRUCell(4, 4), drop_states=0.3).eval(), normal(3, 4), None,
    ),
    "MultiheadAttention": lambda: (
        nn.MultiheadAttention(**ATTENTION), normal(4, 3, 4), normal(5, 3, 4), normal(5, 3, 4),
        {"axis": 1, "outputs": (1, 0)},
    ),
    "TransformerEncoderLayer": lambda: (nn.TransformerEncoderLayer(4, 2, 5, 0.0), normal(4, 3, 4), {"axis": 1}),
    "TransformerDecoderLayer": lambda: (
        nn.TransformerDecoderLayer(4, 2, 5, 0.0, batch_first=True), normal(3, 4, 4), normal(3, 5, 4), MASK,
        {"split": lambda n: (take(normal(3, 4, 4), n, 0), take(normal(3, 5, 4), n, 0), MASK)},
    ),
    "TransformerEncoder": lambda: (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 5, 0.0, batch_first=True), 2), normal(3, 4, 4),
    ),
    "TransformerDecoder": lambda: (
        nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 5, 0.0), 2), normal(4, 3, 4), normal(5, 3, 4),
        {"axis": 1},
    ),
    "Transformer": lambda: (
        nn.Transformer(4, 2, 1, 1, 5, 0.0), normal(4, 3, 4), normal(2, 3, 4), {"axis": 1},
    ),
}  # fmt: skip
for _kind in ("RNN", "LSTM", "GRU"):
    for _d in (1, 2, 3):
        _x: Any = (3, 1, *(2,) * _d)
        LAYERS[f"Conv{_kind}Cell{_d}d"] = lambda kind=_kind, d=_d, x=_x: (
            getattr(nn, f"Conv{kind}Cell{d}d")(1, 2, 3), normal(*x),
        )  # fmt: skip
        LAYERS[f"Conv{_kind}{_d}d"] = lambda kind=_kind, d=_d, x=_x: (
            getattr(nn, f"Conv{kind}{d}d")(1, 2, 3), normal(2, *x), {"axis": 1, "outputs": (1, 0)},
        )  # fmt: skip
LAYERS |= {
    "Lazy linear": lambda: (nn.LazyLinear(2), normal(3, 4)),
    "attention with masks": lambda: (
        nn.MultiheadAttention(**ATTENTION, batch_first=True, add_bias_kv=True),
        *(normal(3, 4, 4), normal(3, 4, 4, seed=1), normal(3, 4, 4, seed=2), PADDING, True, MASK),
        {
            "outputs": (0,),
            "split": lambda n: (
                *(take(normal(3, 4, 4, seed=k), n, 0) for k in range(3)), take(PADDING, n, 0), True, MASK,
            ),
        },
    ),
    "attention, a mask for each head": lambda: (
        nn.MultiheadAttention(**ATTENTION, batch_first=True), *(normal(3, 4, 4, seed=k) for k in range(3)),
        None, False, normal(6, 4, 4),
        {
            "split": lambda n: (
                *(take(normal(3, 4, 4, seed=k), n, 0) for k in range(3)), None, False,
                Tensor(normal(6, 4, 4).array[2 * n : 2 * n + 2]),
            ),
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer(name: str) -> None:
    layer, *args = LAYERS[name]()
    options = args.pop() if isinstance(args[-1], dict) else {}
    layer = layer.double() if name.startswith("Lazy") else filled(layer)
    agree(layer, *args, **options)


def test_the_table_has_every_layer_with_parameters() -> None:
    kinds = {name: getattr(nn, name) for name in nn.__all__ if not name.startswith("Lazy")}
    owners = {
        name for name, kind in kinds.items()
        if isinstance(kind, type) and issubclass(kind, nn.Module) and hasattr(kind, "reset_parameters")
    }  # fmt: skip
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
    "own forward": lambda: (own_forward(), normal(3, 3)),
    "assigned": lambda: (assigned(), normal(3, 3)),
    "forward hook": lambda: (with_hook(nn.Linear(3, 2), "forward", lambda m, a, y: y.sin() * 3), normal(3, 3)),
    "pre hook": lambda: (with_hook(nn.Linear(3, 2), "forward_pre", lambda m, a: (a[0] * a[0],)), normal(3, 3)),
    "forward hook of a subclass": lambda: (with_hook(Half(3, 2), "forward", lambda m, a, y: y * y), normal(3, 3)),
    "backward hook": lambda: (
        nn.Sequential(
            nn.Linear(3, 4), with_hook(nn.Linear(4, 2), "full_backward", lambda m, gx, gy: (gx[0] * 3,)),
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
        U.parametrizations.weight_norm(nn.Linear(3, 2, bias=False)), normal(3, 3),
    ),
    "parametrized spectral norm": lambda: (U.parametrizations.spectral_norm(nn.Conv2d(2, 3, 2)), normal(3, 2, 3, 3)),
    "parametrization of a bias": lambda: (
        U.parametrize.register_parametrization(nn.LayerNorm(3), "bias", Positive()), normal(3, 4, 3),
    ),
    "activation with a parameter": lambda: (nn.Conv2d(2, 3, 2, activation=nn.PReLU(3)), normal(3, 2, 3, 3)),
    "low-bit activations": lambda: (lowbit.Quantize(lowbit.PACT(4)), normal(3, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_changed_layers(name: str) -> None:
    layer, *args = CHANGED[name]()
    options = args.pop() if isinstance(args[-1], dict) else {}
    layer = layer.double() if name.startswith("low") else filled(layer)
    agree(layer, *args, **options)
    after = nn.Sequential(layer, nn.Tanh())  # inside a network, with the first samples equal to none of the others
    if name in ("half", "masked", "LoRA", "weight norm", "forward hook", "own forward"):
        agree(nn.Sequential(nn.Linear(3, 3), *after, nn.Linear(2, 2)).double(), *args)
