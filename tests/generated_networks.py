"""Random networks of up to 40 operators, for tests of recordings; each seed gives one network and its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import retrograd as rg
from retrograd import nn
from retrograd.nn import functional

Apply = Callable[..., Any]


class Operation(NamedTuple):
    """One operation: ``apply(layer, *values)``. layer, sources: the places of the layer and of the operands."""

    name: str
    apply: Apply
    layer: int
    sources: tuple[int, ...]


class Network(nn.Module):
    """A network of random operators; ``forward`` takes the tensors of ``inputs``, and a factor.

    It returns every value that no operation reads, in a tuple or a dict.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        self.operations: list[Operation] = []
        rg.manual_seed(seed)
        draw = _Draw(seed)
        self.shapes = (
            (draw.number(1, 3), draw.number(1, 7), draw.number(5, 12), draw.number(5, 11)),
            (draw.number(1, 3), draw.number(2, 6), 2 * draw.number(1, 5)),
            (draw.number(1, 3), draw.number(2, 7)),
        )
        self.named = draw.number(0, 2) == 0
        values = [*self.inputs(seed)]
        count = draw.number(5, 40)
        with rg.no_grad():
            while len(self.operations) < count:
                self._add(draw, values)
        read = {source for operation in self.operations for source in operation.sources}
        start = len(self.shapes)
        self.results = [at for at in range(start, len(values)) if at not in read]
        for module in self.modules():
            for name, buffer in module.named_buffers(recurse=False):
                if buffer.is_floating_point():  # not the 0 and 1 of the start
                    buffer.copy_(rg.rand(*buffer.shape) * 0.5 + (0.6 if name == "running_var" else 0.0))

    def inputs(self, seed: int, batch: int = 0) -> tuple[rg.Tensor, ...]:
        """Random inputs: an image, a sequence and codes; batch: images and sequences more than usual."""
        draw = np.random.default_rng(seed)
        image, sequence, codes = ((shape[0] + batch, *shape[1:]) for shape in self.shapes)
        return (
            rg.Tensor(draw.standard_normal(image, dtype=np.float32)),
            rg.Tensor(draw.standard_normal(sequence, dtype=np.float32)),
            rg.tensor(draw.integers(0, 9, codes)),
        )

    def forward(self, image: rg.Tensor, sequence: rg.Tensor, codes: rg.Tensor, factor: float = 1.0) -> Any:
        values: list[Any] = [image, sequence, codes]
        for _, apply, layer, sources in self.operations:
            values.append(apply(self.layers[layer] if layer >= 0 else None, *[values[at] for at in sources]))
        found = [values[at] * factor for at in self.results]
        return {str(at): value for at, value in enumerate(found)} if self.named else (*found,)

    def _add(self, draw: _Draw, values: list[rg.Tensor]) -> None:
        """Add an operation on recent values, or on any."""
        at = (
            draw.number(max(0, len(values) - 3), len(values) - 1)
            if draw.number(0, 4)
            else draw.number(0, len(values) - 1)
        )
        x = values[at]
        table = CODES if x.dtype.kind != "f" else {4: IMAGES, 3: SEQUENCES, 2: ROWS}[x.ndim]
        name = draw.one(sorted(table))
        same = [place for place, y in enumerate(values) if y.shape == x.shape and y.dtype == x.dtype]
        made = table[name](draw, x)
        if made is None:
            return
        layer, apply, *more = made
        sources = (at, *[draw.one(same) for _ in range(more[0] if more else 0)])
        y = apply(layer, *[values[place] for place in sources])
        if y.ndim not in (2, 3, 4) or not 0 < y.numel() <= 30_000 or float(abs(y).max()) > 30:
            return
        if layer is not None:
            self.layers.append(layer)
        self.operations.append(Operation(name, apply, len(self.layers) - 1 if layer is not None else -1, sources))
        values.append(y)

    def __repr__(self) -> str:
        return "\n".join(f"{at + 3}: {each.name} of {each.sources}" for at, each in enumerate(self.operations))


class _Draw:
    """Random choices."""

    def __init__(self, seed: int) -> None:
        self._draw = np.random.default_rng(seed)

    def number(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return int(self._draw.integers(low, high + 1))

    def one(self, values: Any) -> Any:
        return values[self.number(0, len(values) - 1)]

    def true(self) -> bool:
        return self.number(0, 1) == 1


# ---- The operators: (layer or None, its use) for a value x, or None where they do not apply --------------------------


def _call(layer: Any, x: rg.Tensor) -> Any:
    return layer(x)


def _divisor(draw: _Draw, *counts: int) -> int:
    return int(draw.one([each for each in range(1, min(counts) + 1) if not any(count % each for count in counts)]))


def _conv(draw: _Draw, x: rg.Tensor) -> Any:
    c, out, k = x.shape[1], draw.number(1, 20), draw.one((1, 1, 3, 3, 5))
    step, gap = draw.one((1, 1, 2)), draw.one((1, 1, 2))
    if min(x.shape[2:]) + 2 * (k // 2) < gap * (k - 1) + 1:
        return None
    options = {
        "stride": step,
        "padding": k // 2,
        "dilation": gap,
        "bias": draw.true(),
        "groups": _divisor(draw, c, out),
    }
    return nn.Conv2d(c, out, k, **options), _call


def _transposed(draw: _Draw, x: rg.Tensor) -> Any:
    c, out, k = x.shape[1], draw.number(1, 9), draw.number(1, 4)
    groups = _divisor(draw, c, out)
    return nn.ConvTranspose2d(c, out, k, draw.number(1, 2), bias=draw.true(), groups=groups), _call


def _depthwise(draw: _Draw, x: rg.Tensor) -> Any:
    return nn.Conv2d(x.shape[1], x.shape[1], 3, draw.number(1, 2), 1, groups=x.shape[1], bias=draw.true()), _call


def _block(draw: _Draw, x: rg.Tensor) -> Any:
    """A convolution, batch norm and activation, which are fused, perhaps with a residual sum before or after that."""
    c = x.shape[1]
    kind = draw.number(0, 3)
    if not _has_variance(x):
        return None
    out = draw.number(1, 17) if kind == 0 else c
    layers = nn.Sequential(nn.Conv2d(c, out, 3, padding=1, bias=draw.true()), nn.BatchNorm2d(out), _activation(draw))
    if kind == 0:
        return layers, _call
    if kind == 1:
        return layers, lambda layer, x: x + layer(x)
    if kind == 2:
        return layers, lambda layer, x: layer[2](layer[1](layer[0](x)) + x)
    return layers, lambda layer, x: layer[2](x + layer[0](x))


def _has_variance(x: rg.Tensor) -> bool:
    """Whether a channel has more than one element."""
    return x.numel() > x.shape[1]


def _activation(draw: _Draw, x: Any = None) -> nn.Module:
    kinds = (nn.ReLU, nn.ReLU6, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.ELU, nn.Hardswish, nn.LeakyReLU, nn.Mish)
    return draw.one((*kinds, nn.Softplus, nn.PReLU, nn.SELU, nn.Hardtanh, nn.LogSigmoid))()  # type: ignore[no-any-return]


def _norm(draw: _Draw, x: rg.Tensor) -> Any:
    c = x.shape[1]
    layer = draw.one(
        (
            nn.GroupNorm(_divisor(draw, c), c),
            nn.LayerNorm(x.shape[-1]),
            nn.RMSNorm(x.shape[-1]),
            nn.LocalResponseNorm(3),
            nn.InstanceNorm2d(c, affine=True, track_running_stats=draw.true()),
        )
    )
    if isinstance(layer, nn.InstanceNorm2d) and x[0, 0].numel() == 1:  # it needs more than one position
        return None
    return layer, _call


def _pool(draw: _Draw, x: rg.Tensor) -> Any:
    if min(x.shape[2:]) < 3:
        return None
    return draw.one(
        (
            nn.MaxPool2d(2),
            nn.MaxPool2d(3, 1, 1),
            nn.AvgPool2d(2, ceil_mode=True),
            nn.AvgPool2d(3, 2, 1, count_include_pad=False),
            nn.AdaptiveAvgPool2d((3, 2)),
            nn.AdaptiveMaxPool2d(2),
        )
    ), _call


def _resized(draw: _Draw, x: rg.Tensor) -> Any:
    if max(x.shape[2:]) > 20:
        return None
    return draw.one((nn.Upsample(scale_factor=2), nn.Upsample(size=(7, 6), mode="bilinear"))), _call


def _padded(draw: _Draw, x: rg.Tensor) -> Any:
    mode = draw.one(("constant", "reflect", "replicate"))
    if min(x.shape[-2:]) < 3:
        return None
    return None, lambda _, x: functional.pad(x, (1, 2, 0, 1), mode=mode)


def _dropout(draw: _Draw, x: rg.Tensor) -> Any:
    return (nn.Dropout2d(0.3) if x.ndim == 4 and draw.true() else nn.Dropout(0.4)), _call


def _any(*choices: Apply, operands: int = 0) -> Apply:
    """One of several functions of x and further values of its shape."""
    return lambda draw, x: (None, draw.one(choices), operands)


def _product(draw: _Draw, x: rg.Tensor) -> Any:
    last = x.shape[-1]
    return nn.Linear(last, draw.number(1, 24), bias=draw.true()), draw.one((_call, _linear_and_gelu, _linear_by_matmul))


def _linear_and_gelu(layer: Any, x: rg.Tensor) -> Any:
    return functional.gelu(layer(x))


def _linear_by_matmul(layer: Any, x: rg.Tensor) -> Any:
    return x @ layer.weight.t()


def _recurrent(draw: _Draw, x: rg.Tensor) -> Any:
    kind = draw.one((nn.LSTM, nn.GRU, nn.RNN))
    layer = kind(x.shape[-1], draw.number(2, 9), draw.number(1, 2), batch_first=True, bidirectional=draw.true())
    return layer, draw.one((_first_of, _last_states))


def _first_of(layer: Any, x: rg.Tensor) -> Any:
    return layer(x)[0]


def _last_states(layer: Any, x: rg.Tensor) -> Any:
    states = layer(x)[1]
    return (states[0] if isinstance(states, tuple) else states).transpose(0, 1)


def _attention(draw: _Draw, x: rg.Tensor) -> Any:
    width = x.shape[-1]
    heads = _divisor(draw, width)
    if draw.true():
        layer = nn.TransformerEncoderLayer(
            width, heads, 2 * width, dropout=draw.one((0.0, 0.2)), batch_first=True, norm_first=draw.true()
        )
        return layer, _call
    return nn.MultiheadAttention(width, heads, batch_first=True), lambda layer, x: layer(x, x, x)[0]


def _scores(draw: _Draw, x: rg.Tensor) -> Any:
    return None, draw.one(
        (
            lambda _, x: functional.scaled_dot_product_attention(x, x, x, is_causal=True),
            lambda _, x: (x @ x.transpose(1, 2)).softmax(-1) @ x,
            lambda _, x: rg.einsum("ntf,nsf->nts", x, x) * 0.1,
        )
    )


def _lines(draw: _Draw, x: rg.Tensor) -> Any:
    out = draw.number(1, 9)
    norm = nn.BatchNorm1d(out) if _has_variance(x) and draw.true() else nn.Identity()
    return nn.Sequential(nn.Conv1d(x.shape[1], out, 3, padding=1), norm, nn.ReLU()), _call


def _one_hot(layer: Any, x: rg.Tensor) -> Any:
    return layer(functional.one_hot(x, 9).to(layer.weight.dtype))


def _changed_part(_: Any, x: rg.Tensor) -> Any:
    y = x * 1.5
    y[:, 0] = x[:, -1] * 2
    y[..., ::2] += 0.25
    return y


def _changed_view(_: Any, x: rg.Tensor) -> Any:
    y = x.exp().clamp(max=4).contiguous()
    y.view(-1).mul_(0.5)
    return y


def _changed_alone(_: Any, x: rg.Tensor) -> Any:
    return functional.relu((x - 0.1).add_(0.25), inplace=True)


def _changed_with(_: Any, x: rg.Tensor, y: rg.Tensor) -> Any:
    return (x * 0.5).addcmul_(y, y, value=0.3).sub_(y)


BINARY = _any(
    lambda _, x, y: x + y,
    lambda _, x, y: x * y,
    lambda _, x, y: x - y * 0.5,
    lambda _, x, y: x / (y.abs() + 1),
    lambda _, x, y: rg.maximum(x, y),
    lambda _, x, y: rg.where(x > y, x, y * 0.1),
    lambda _, x, y: functional.relu(x + y),
    lambda _, x, y: rg.cat([x, y], 1),
    lambda _, x, y: rg.stack([x, y], 1).mean(1),
    lambda _, x, y: (x.detach() + y).sigmoid(),
    _changed_with,
    operands=1,
)
UNARY = _any(
    lambda _, x: x.abs().sqrt(),
    lambda _, x: (x * 2 - 1).sin() + x.cos(),
    lambda _, x: x.clamp(-1, 1) * 3,
    lambda _, x: x.softmax(-1),
    lambda _, x: x.log_softmax(1),
    lambda _, x: x.cumsum(-1) * 0.1,
    lambda _, x: x - x.mean(-1, keepdim=True),
    lambda _, x: x / (x.std(1, keepdim=True, correction=0) + 1),
    lambda _, x: functional.normalize(x, dim=-1),
    lambda _, x: x.logsumexp(-1, keepdim=True) + x,
    lambda _, x: x.flip(-1).roll(1, 1),
    lambda _, x: 1 / (x * x + 1),
    lambda _, x: x.masked_fill(x > 1, 0.5),
    _changed_part,
    _changed_view,
    _changed_alone,
)
MOVED = _any(
    lambda _, x: x.transpose(-1, -2),
    lambda _, x: x[:, :, 1:] if x.shape[2] > 1 else x * 2,
    lambda _, x: x[..., ::2].contiguous(),
    lambda _, x: rg.cat(x.chunk(2, -1)[::-1], -1),
    lambda _, x: x.reshape(x.shape[0], -1).tanh(),
    lambda _, x: x.sort(-1)[0],
    lambda _, x: x.max(-1, keepdim=True)[0] + x.min(-1, keepdim=True)[0],
    lambda _, x: x[:, [0, -1]],
)
COMMON: dict[str, Apply] = {
    "activation": lambda draw, x: (_activation(draw), _call),
    "dropout": _dropout,
    "one operand": UNARY,
    "two operands": BINARY,
    "two operands again": BINARY,
}
IMAGES: dict[str, Apply] = {
    **COMMON,
    "block": _block,
    "convolution": _conv,
    "transposed convolution": _transposed,
    "depthwise convolution": _depthwise,
    "batch norm": lambda draw, x: (nn.BatchNorm2d(x.shape[1], affine=draw.true()), _call) if _has_variance(x) else None,
    "norm": _norm,
    "pooling": _pool,
    "another size": _resized,
    "padding": _padded,
    "moved": MOVED,
    "linear": _product,
    "row": _any(lambda _, x: x.mean((2, 3)), lambda _, x: x.flatten(1), lambda _, x: x.amax((-1, -2))),
    "sequence": _any(lambda _, x: x.flatten(2).transpose(1, 2), lambda _, x: x.mean(2), lambda _, x: x.sum(-1)),
}
SEQUENCES: dict[str, Apply] = {
    **COMMON,
    "recurrent": _recurrent,
    "attention": _attention,
    "scores": _scores,
    "lines": _lines,
    "linear": _product,
    "layer norm": lambda draw, x: (draw.one((nn.LayerNorm, nn.RMSNorm))(x.shape[-1]), _call),
    "moved": MOVED,
    "row": _any(lambda _, x: x.mean(1), lambda _, x: x[:, -1] * 1.0, lambda _, x: x.prod(-1) * 0.1),
    "image": _any(lambda _, x: x.unsqueeze(1), lambda _, x: x[:, :, None] * x[:, None]),
}
ROWS: dict[str, Apply] = {
    **COMMON,
    "linear": _product,
    "batch norm": lambda draw, x: (nn.BatchNorm1d(x.shape[1]), _call) if x.shape[0] > 1 else None,
    "layer norm": lambda draw, x: (nn.LayerNorm(x.shape[-1]), _call),
    "outer": _any(lambda _, x: x.unsqueeze(2) * x.unsqueeze(1), lambda _, x: x[:, None, :, None].expand(-1, 2, -1, 3)),
}
CODES: dict[str, Apply] = {
    "embedding": lambda draw, x: (nn.Embedding(9, 2 * draw.number(1, 5)), _call),
    "bag": lambda draw, x: (nn.EmbeddingBag(9, draw.number(2, 8), mode="mean"), _call),
    "one-hot": lambda draw, x: (nn.Linear(9, draw.number(2, 9)), _one_hot),
}
