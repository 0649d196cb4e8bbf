"""Models to export, each with an example: layers, functions made of operators, and dynamic extents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import retrograd as rg
from retrograd import lowbit, nn

F = nn.functional


class Of(nn.Module):
    """A module that calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *x: Any) -> Any:
        return self.function(*x)


class Characters(nn.Module):
    def __init__(self, layer: type[Any] = nn.LSTM, **options: Any) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.layer = layer(4, 5, 2, batch_first=True, **options)
        self.head = nn.Linear(10 if options.get("bidirectional") else 5, 3)

    def forward(self, x: Any) -> Any:
        y, state = self.layer(self.embedding(x))
        return self.head(y[:, -1]).softmax(-1), state


class Lengths(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(4, 5, batch_first=True)

    def forward(self, x: Any, lengths: Any) -> Any:
        return self.layer(x, lengths=lengths)


class Packed(nn.Module):
    """Sequences of fixed lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(4, 5, batch_first=True)

    def forward(self, x: Any) -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(x, [3, 5, 1], batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.layer(packed)[0], batch_first=True)[0]


class Steps(nn.Module):
    """A cell that runs over the steps and writes each result in place."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 5)

    def forward(self, x: Any) -> Any:
        y, h = rg.zeros(x.shape[0], x.shape[1], 5), rg.zeros(x.shape[0], 5)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            y[:, t] = h
        return y


class Masked(nn.Module):
    """A transformer over time, with a causal mask of variable size and a mask of the padding."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x: Any, padding: Any) -> Any:
        triangle = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.layer(x, src_mask=triangle, src_key_padding_mask=padding)


class Positions(nn.Module):
    """A transformer over time, with the lower triangle as its mask."""

    def __init__(self) -> None:
        super().__init__()
        self.place = nn.Parameter(rg.tensor(floats(1, 20, 8).array))
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)

    def forward(self, x: Any) -> Any:
        return self.layer(x + self.place[:, : x.shape[1]], is_causal=False)


@rg.formula
def squashed(x, y, rate: float = 2.0):
    return rg.tanh(x * rate) / (1 + rg.exp(-y))


def floats(*shape: int, seed: int = 0) -> Any:
    return rg.tensor(np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32))


def ints(*shape: int, high: int = 10) -> Any:
    return rg.tensor(np.random.default_rng(shape).integers(0, high, shape))


@dataclass(frozen=True)
class Case:
    """make: returns the model. example: its arguments. axes: as ``dynamic_axes``, by the position of the input."""

    make: Callable[[], Any]
    example: tuple[Any, ...]
    axes: dict[int, dict[int, str]] | None = field(default=None)


_BOTH = {0: "batch", 1: "time"}
_BATCH_AND_TIME = {0: {0: "batch", 1: "time"}}
_TIME_FIRST = {0: {0: "time", 1: "batch"}}


def _of(function: Callable[..., Any], *example: Any, axes: Any = None) -> Case:
    return Case(lambda: Of(function), example, axes)


def _parts_in_place(x: Any, i: Any) -> Any:
    y, z, v, zero = x * 1, x * 1, x * 1, x * 1
    row = y[1]
    row += 5  # through a view
    y[:, 0] *= 2
    y[1:3, 2:4] = 7
    z[z < 0] = 0
    z[i, i + 1] = 3.0
    v[:, [0, 2]] = 9
    zero.zero_()
    fixed = rg.zeros(5)
    before = x + fixed
    fixed.add_(1)
    return y, z, v, zero.add_(x), before


class Names(nn.Module):
    """Parameters that have the names of operators and of outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.Add, self.output, self.x0, self.size = (nn.Parameter(floats(3, seed=seed)) for seed in range(4))

    def forward(self, x: Any) -> Any:
        return self.Add + self.output * x + self.x0 + self.size


def convolutional() -> Any:
    return nn.Sequential(
        nn.Conv2d(3, 8, 5, stride=2, padding=2, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(8, 8, 3, groups=4, padding=1),
        nn.ReLU6(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(),
        nn.Linear(8, 5),
    )


CASES = {
    "convolutional": Case(convolutional, (floats(2, 3, 15, 17),)),
    "any size": Case(lambda: nn.Conv2d(3, 4, 3, padding=1), (floats(2, 3, 5, 6),), {0: {0: "N", 2: "H", 3: "W"}}),
    "one dimension": Case(
        lambda: nn.Conv1d(4, 4, 3, groups=2, dilation=2, padding="same", padding_mode="reflect"), (floats(2, 4, 9),)
    ),
    "three dimensions": Case(
        lambda: nn.Sequential(nn.Conv3d(2, 3, 3, padding=1), nn.MaxPool3d(2)), (floats(2, 2, 4, 5, 4),)
    ),
    "transposed": Case(
        lambda: nn.ConvTranspose2d(4, 4, 3, stride=2, padding=1, output_padding=1, groups=2), (floats(2, 4, 5, 4),)
    ),
    "pooling": Case(
        lambda: nn.Sequential(nn.AvgPool2d(3, 2, 1, ceil_mode=True), nn.AdaptiveAvgPool2d(3), nn.AdaptiveMaxPool2d(2)),
        (floats(2, 3, 14, 14),),
    ),
    "unpooling": _of(lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), floats(2, 3, 4, 6)),
    "lp pooling": Case(lambda: nn.LPPool2d(2.0, 2), (floats(2, 3, 4, 6),)),
    "resized": _of(
        lambda x: (
            F.interpolate(x, scale_factor=2),
            F.interpolate(x, scale_factor=2, mode="bilinear"),
            F.interpolate(x, size=(7, 9), mode="bilinear", align_corners=True),
            F.interpolate(x, scale_factor=2.0, mode="bicubic"),
            F.interpolate(x, size=(3, 4), mode="nearest"),
            F.interpolate(x, size=(3, 4), mode="area"),
        ),
        floats(2, 3, 5, 5),
    ),
    "lstm": Case(lambda: Characters(bidirectional=True), (ints(2, 4),), _BATCH_AND_TIME),
    "lstm, one direction": Case(Characters, (ints(3, 4),), _BATCH_AND_TIME),
    "gru": Case(lambda: nn.GRU(3, 4, bidirectional=True, bias=False), (floats(5, 2, 3),), _TIME_FIRST),
    "rnn": Case(lambda: nn.RNN(3, 4, nonlinearity="relu"), (floats(5, 2, 3),), _TIME_FIRST),
    "states": Case(lambda: nn.RNN(3, 4), (floats(5, 2, 3), floats(1, 2, 4)), {0: {1: "batch"}, 1: {1: "batch"}}),
    "transformer": Case(Positions, (floats(2, 5, 8),), _BATCH_AND_TIME),
    "decoder": Case(
        lambda: nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), (floats(2, 5, 8), floats(2, 7, 8, seed=1))
    ),
    "attention": Case(
        lambda: nn.MultiheadAttention(8, 2, batch_first=True),
        (floats(2, 4, 8), floats(2, 6, 8), floats(2, 6, 8, seed=2)),
    ),
    "causal": _of(
        lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=True),
        floats(2, 4, 5, 3),
        floats(2, 2, 5, 3),
        axes={0: {0: "batch", 2: "time"}, 1: {0: "batch", 2: "time"}},
    ),
    "norms": Case(
        lambda: nn.Sequential(
            nn.GroupNorm(2, 4),
            nn.InstanceNorm2d(4, affine=True),
            nn.LayerNorm(5),
            nn.RMSNorm(5),
            nn.LocalResponseNorm(3),
            nn.BatchNorm2d(4, track_running_stats=False),
            nn.PReLU(4),
        ),
        (floats(2, 4, 6, 5),),
    ),
    "activations": _of(
        lambda x: (
            F.elu(x),
            F.elu(x, 0.5),
            F.selu(x),
            F.celu(x, 0.7),
            F.leaky_relu(x),
            F.softplus(x),
            F.softplus(x, 2.0),
            F.softsign(x),
            F.mish(x),
            F.silu(x),
            F.hardsigmoid(x),
            F.hardswish(x),
            F.hardtanh(x, -0.5, 0.25),
            F.gelu(x),
            F.gelu(x, approximate="tanh"),
            F.logsigmoid(x),
            F.tanhshrink(x),
            F.softshrink(x),
            F.hardshrink(x),
            F.threshold(x, 0.1, 20.0),
            F.glu(x, 1),
            F.log_softmax(x, 0),
            F.relu6(x),
            F.sigmoid(x),
            F.tanh(x),
        ),
        floats(3, 6),
    ),
    "pointwise": _of(
        lambda x, y: (
            x.sin(),
            x.cos(),
            x.tan(),
            x.exp(),
            x.abs(),
            x.clamp(-1, 1),
            x.clamp(min=0.5),
            x**2,
            y**3.5,
            2**x,
            y**x,
            x.floor(),
            x.ceil(),
            x.round(),
            x.trunc(),
            x.sign(),
            x.erf(),
            x.erfc(),
            x.atan(),
            x.sinh(),
            x.cosh(),
            rg.atan2(x, y - 1),
            y.sqrt(),
            y.rsqrt(),
            y.log(),
            y.log1p(),
            y.log2(),
            y.log10(),
            x.expm1(),
            x.exp2(),
            rg.maximum(x, y),
            rg.minimum(x, y),
            x.remainder(0.7),
            x.fmod(0.7),
            rg.hypot(x, y),
            x.reciprocal(),
            -x,
            x / y,
            1 - x,
            x - 1,
            rg.lerp(x, y, 0.3),
            rg.addcmul(x, x, y),
            x.frac(),
            squashed(x, y),
            squashed(x, y, rate=0.5),
        ),
        floats(3, 6),
        floats(3, 6).abs() + 0.1,
    ),
    "comparisons": _of(
        lambda x, y: (
            x > 0.5,
            x < y,
            x <= y,
            x >= 0,
            x == y,
            x != y,
            (x > 0) & (y > 0),
            (x > 0) | (y > 0),
            (x > 0) ^ (y > 0),
            ~(x > 0),
            rg.isnan(x),
            rg.isinf(x),
            rg.isfinite(x),
            rg.logical_not(x),
            rg.where(x > 0.5, x, y * 2 + 1),
            F.softmax(x.masked_fill(x < 0, -1e9), -1),
            x.argmax(),
            x.argmin(-1),
            x.argmax(1, keepdim=True),
        ),
        floats(3, 6),
        floats(3, 6, seed=1),
    ),
    "reductions": _of(
        lambda x: (
            x.sum(),
            x.sum(1),
            x.mean((0, 2), keepdim=True),
            x.prod(1),
            x.norm(dim=1),
            x.norm(1, dim=1),
            x.std(1),
            x.var(0),
            rg.var_mean(x, 2, correction=0)[0],
            x.logsumexp(1),
            x.max(1)[0],
            x.max(1, keepdim=True)[1],
            x.amax((1, 2)),
            x.amin(2),
            F.normalize(x, dim=1),
            x.cumsum(1),
            x.mean(),
        ),
        floats(3, 4, 5),
    ),
    "shapes": _of(
        lambda x: (
            x.reshape(x.shape[0] * 3, -1),
            x.reshape(x.shape[0], 2, 3, 4),
            x.permute(2, 0, 1),
            x.unsqueeze(1),
            x.flatten(1),
            x[:, :1].squeeze(1),
            x.expand(2, -1, -1, -1),
            rg.cat([x, x.flip(1, 2)], 1),
            rg.stack([x, x + 1], 1),
            x[:, 1:-1:2],
            x[..., -1],
            x[None, :, 2],
            x[:, [0, 2]],
            *x.split([1, 2, 3], 1),
            *x.chunk(2, 2),
            *x.unbind(1),
            x.roll(1, 1),
            F.pad(x, (1, 2)),
            F.pad(x, (1, 2), value=3.0),
            F.pad(x, (1, 1), mode="replicate"),
            x.tril(),
            x.triu(1),
            rg.cat([x, rg.zeros(x.shape[0], 2, 4)], 1),
            x + rg.arange(x.shape[2]).float(),
            x.repeat(1, 2, 1),
            x.repeat_interleave(2, 1),
            x.transpose(1, 2).contiguous().view(-1, 6),
        ),
        floats(3, 6, 4),
    ),
    "images": _of(
        lambda x: (
            F.unfold(x, 3),
            F.pixel_shuffle(x, 2),
            x.unfold(2, 3, 2),
            F.pad(x, (1, 1, 1, 1), mode="circular"),
            F.pixel_unshuffle(x, 2),
            F.channel_shuffle(x, 2),
        ),
        floats(3, 4, 6, 6),
    ),
    "products": _of(
        lambda x, y: (x @ y, rg.einsum("bij,bkj->bik", x, x), rg.bmm(x, y), x @ y[0], F.bilinear(x[:, 0], x[:, 1], y)),
        floats(4, 6, 4),
        floats(4, 4, 4),
    ),
    "lookups": _of(
        lambda i, t: (
            t[i],
            t.index_select(0, i),
            F.one_hot(i, 6),
            F.embedding(i, t),
            t[:, i],
            t.gather(0, i.unsqueeze(1).expand(-1, 6)),
            t.topk(2, 1)[0],
            t.sort(1)[1],
            t.argsort(1, descending=True),
        ),
        ints(4, high=6),
        floats(6, 6),
        axes={0: {0: "n"}},
    ),
    "integers": _of(
        lambda i: (i.float(), i + 1, i * 2 - i, -i, i.abs(), (i > 2).float(), i.to(rg.int32), rg.remainder(i, 3)),
        ints(4),
    ),
    "changed in place": _of(lambda x: (x + 0).add_(1).mul_(x).relu_(), floats(3, 5)),
    "counted": _of(lambda x: x + rg.arange(x.shape[1]).float(), floats(3, 5), axes={0: {0: "N", 1: "T"}}),
    "double": Case(lambda: nn.Linear(3, 4).double(), (floats(2, 3).double(),)),
    "lengths": Case(Lengths, (floats(3, 5, 4), rg.tensor([3, 5, 1]))),
    "packed": Case(Packed, (floats(3, 5, 4),), {}),
    "steps": Case(Steps, (floats(2, 3, 4),)),
    "masked": Case(Masked, (floats(2, 5, 8), rg.arange(10).reshape(2, 5) % 3 == 2), {0: _BOTH, 1: _BOTH}),
    "masks of attention": _of(
        lambda q, m, b: (
            F.scaled_dot_product_attention(q, q, q, m > 0),
            F.scaled_dot_product_attention(q, q, q, b),
            F.scaled_dot_product_attention(q, q, q, rg.tril(rg.ones(q.shape[2], q.shape[2])).bool()),
            (q @ q.mT).masked_fill(rg.triu(rg.ones(q.shape[2], q.shape[2]), 1).bool(), -1e9).softmax(-1),
        ),
        floats(2, 2, 4, 3),
        floats(2, 1, 1, 4),
        floats(4, 4),
        axes={0: {0: "N", 2: "T"}, 1: {0: "N", 3: "T"}, 2: {0: "T", 1: "T"}},
    ),
    "a query without keys": _of(
        lambda q, m: F.scaled_dot_product_attention(q, q, q, m > 9), floats(2, 4, 3), floats(2, 4, 4)
    ),
    "scattered": _of(
        lambda x, i: (
            rg.zeros(4, 6).scatter(1, i, x),
            rg.zeros(4, 6).scatter_add(1, i, x),
            x.index_add(1, i[0] % 3, x),
            x.index_fill(1, i[0] % 3, 2.0),
            x.index_copy(0, i[:1, 0] % 4, x[:1]),
            x.take(i),
            x.diagonal(),
            rg.zeros(4, 6).scatter_reduce(1, i, x, "amax"),
            rg.bucketize(x, rg.tensor([-0.5, 0.0, 0.5])),
        ),
        floats(4, 3),
        rg.tensor([[0, 1, 2], [5, 3, 4], [2, 4, 5], [1, 0, 3]]),
        axes={},
    ),
    "parts in place": _of(lambda x, i: _parts_in_place(x, i), floats(4, 5), ints(4, high=3)),
    "input changed": _of(lambda x: x.add_(1) * 2, floats(3, 5)),
    "integers and truths": _of(
        lambda i: (
            i.sum(),
            i.sum(1),
            i.amax(1),
            i.max(1)[0],
            i.min(0)[1],
            i.cumsum(1),
            (i > 3).any(1),
            (i > 3).all(),
            (i > 3).sum(1),
            rg.count_nonzero(i, 0),
            (i - 5) // 3,
            (i - 5) % 3,
            (i - 5) // -2,
            i & 6,
            i | 1,
            i ^ 3,
            ~i,
            ~(i > 3),
            rg.div(i - 5, 3, rounding_mode="trunc"),
            (i - 5) / 2,
            i.prod(1),
        ),
        ints(3, 4),
    ),
    "rounded down": _of(
        lambda x: ((x * 5) // 0.7, (x * 5) // -0.3, rg.div(x * 5, 0.7, rounding_mode="trunc")), floats(30, 4)
    ),
    "two extents": _of(
        lambda x: (
            x.std(1),
            x.var((0, 1)),
            x.sum() / x.shape[1],
            x.reshape(-1, 3),
            x.mean(1),
            F.pad(x, (0, 0, 1, 0)) + rg.zeros(x.shape[1] + 1, 3),
            x.mT - rg.arange(1, x.shape[1] + 1),
            x * x.shape[0],
            x[:, -2:],
        ),
        floats(2, 4, 3),
        axes={0: _BOTH},
    ),
    "distances": _of(
        lambda x, y: (
            F.cosine_similarity(x, y),
            F.pairwise_distance(x, y),
            rg.cdist(x, y),
            F.pairwise_distance(x, y, p=1.0),
        ),
        floats(2, 4, 3),
        floats(2, 4, 3, seed=1),
    ),
    "sampled": _of(
        lambda x, t: F.grid_sample(x, F.affine_grid(t, (len(t), 2, 5, 4), align_corners=False), align_corners=False),
        floats(2, 2, 5, 5),
        floats(2, 2, 3),
    ),
    "bags": Case(lambda: nn.EmbeddingBag(10, 4), (ints(2, 5),), {0: {0: "N", 1: "K"}}),
    "pooled, rounded up": Case(lambda: nn.MaxPool2d(2, 3, 1, 2, ceil_mode=True), (floats(2, 2, 9, 8),)),
    "pooled, with taps that read only padding": Case(
        lambda: nn.MaxPool2d((3, 2), (1, 2), (1, 0), (2, 1), return_indices=True), (floats(2, 2, 3, 5),)
    ),
    "NaN and infinity among integers": _of(
        lambda x: (rg.isnan(x), rg.isinf(x), rg.isfinite(x), rg.isposinf(x), rg.isneginf(x > 2)), ints(5)
    ),
    "largest of all": Case(lambda: nn.AdaptiveMaxPool2d(1), (floats(2, 2, 5, 4),), {0: {0: "N", 2: "H", 3: "W"}}),
    "folded": Case(lambda: nn.Fold((4, 5), (2, 2)), (floats(2, 8, 12),)),
    "small numbers": _of(lambda x: ((x * 1e-6).expm1() * 1e6, (x * 1e-6).log1p() * 1e6, x.expm1()), floats(3, 5)),
    "few bits": Case(lambda: lowbit.Linear(6, 4, weight=lowbit.TWN(), activation=lowbit.Sign()), (floats(3, 6),)),
    "binary weights": Case(
        lambda: nn.Sequential(
            lowbit.Conv2d(2, 4, 3, weight=lowbit.BWN()),
            lowbit.Conv2d(4, 3, 3, weight=lowbit.XNOR(), activation=lowbit.Sign()),
            lowbit.Conv2d(3, 6, 2, groups=3, stride=2, weight=lowbit.XNOR(), activation=lowbit.XNOR()),
            lowbit.ConvTranspose2d(6, 2, 3, 2, weight=lowbit.XNOR(), activation=lowbit.XNOR()),
        ),
        (floats(2, 2, 7, 7),),
    ),
    "binary inputs of open sizes": Case(
        lambda: nn.Sequential(
            lowbit.Conv2d(2, 4, 3, padding=1, weight=lowbit.XNOR(), activation=lowbit.XNOR()),
            lowbit.Linear(5, 3, weight=lowbit.XNOR(), activation=lowbit.XNOR()),
        ),
        (floats(2, 2, 7, 5),),
        {0: {0: "N", 2: "H"}},
    ),
    "names": Case(Names, (floats(2, 3),)),
    "one output twice": _of(lambda x: (x, x + 1, (x,)), floats(2, 3)),
}


def model_of(name: str) -> Any:
    """Return the model of a case, in eval mode, with running statistics other than the initial ones."""
    rg.manual_seed(0)
    model = CASES[name].make().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d) and module.running_mean is not None:
            module.running_mean.array[:] = np.random.default_rng(1).uniform(-0.5, 0.5, module.num_features)
            module.running_var.array[:] = np.random.default_rng(2).uniform(0.5, 2, module.num_features)
    return model


def flat(outputs: Any) -> list[np.ndarray]:
    """Return the arrays of nested outputs in order."""
    if isinstance(outputs, rg.Tensor):
        return [outputs.detach().numpy()]
    return [array for each in outputs for array in flat(each)]


def export(name: str, path: Any, **options: Any) -> tuple[Any, dict[str, np.ndarray], list[np.ndarray]]:
    """Export a case; return the model, inputs of other sizes than the example's, and the outputs for them."""
    case, model = CASES[name], model_of(name)
    names = [f"x{k}" for k in range(len(case.example))]
    axes = None if case.axes is None else {names[place]: of for place, of in case.axes.items()}
    rg.onnx.export(model, case.example, path, input_names=names, dynamic_axes=axes, **options)
    inputs = {}
    for place, (key, tensor) in enumerate(zip(names, case.example, strict=True)):
        array = tensor.numpy()
        opened = ({0: ""} if array.ndim else {}) if case.axes is None else case.axes.get(place, {})
        for axis in opened:  # two more than in the example, by its first entries once more
            array = np.take(array, np.arange(array.shape[axis] + 2) % array.shape[axis], axis)
        inputs[key] = array[::-1].copy() if array.ndim else array
    with rg.no_grad():
        return model, inputs, flat(model(*map(rg.tensor, inputs.values())))
