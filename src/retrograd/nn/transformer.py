"""The Transformer: encoder and decoder stacks of attention and two-layer networks.

N batch, S and T lengths of source and target, E features; sequences are (S, N, E), with batch_first (N, S, E), without
a batch axis (S, E).

Source: A. Vaswani et al., "Attention Is All You Need", 2017, arXiv:1706.03762.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

from ..arrays import same
from ..engine.arguments import kind_name
from ..engine.tensor import Tensor
from ..kernel_set import kernels
from ..ops.argument_checks import as_truth
from ..ops.device import DeviceLike
from ..ops.dtypes.dtype import DTypeLike
from . import functional, init
from .arguments import check_ints
from .attention import MultiheadAttention
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm
from .parameter import as_float_dtype

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Activation = str | Callable[[Tensor], Tensor]
Mask = Tensor | None


class _Layer(Module):
    """Base of encoder and decoder layers: self-attention and a feedforward network, each with its norm and dropout."""

    def __init__(
        self,
        attentions: tuple[str, ...],
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float,
        activation: Activation,
        layer_norm_eps: float,
        batch_first: bool,
        norm_first: bool,
        bias: bool,
        dtype: DTypeLike,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        check_ints(name, d_model=d_model, nhead=nhead, dim_feedforward=dim_feedforward)
        for attention in attentions:
            setattr(
                self,
                attention,
                MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype),
            )
        self.linear1: Linear = Linear(d_model, dim_feedforward, bias, dtype=dtype)
        self.dropout: Dropout = Dropout(dropout)
        self.linear2: Linear = Linear(dim_feedforward, d_model, bias, dtype=dtype)
        self.norm_first = norm_first
        numbers = range(1, len(attentions) + 2)
        for number in numbers:
            setattr(self, f"norm{number}", LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype))
        for number in numbers:
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation: Callable[[Tensor], Tensor] = _activation(name, activation)

    def _sa_block(self, x: Tensor, attn_mask: Mask, key_padding_mask: Mask, is_causal: bool = False) -> Tensor:
        """Self-attention and dropout."""
        y: Tensor = self.self_attn(x, x, x, key_padding_mask, False, attn_mask, is_causal=is_causal)[0]
        return self.dropout1(y)

    def _network(self, x: Tensor) -> Tensor:
        y: Tensor = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return y


class TransformerEncoderLayer(_Layer):
    """x = norm1(x + attention(x)), y = norm2(x + linear2(activation(linear1(x)))).

    With norm_first, x = x + attention(norm1(x)), y = x + linear2(activation(linear1(norm2(x)))). Dropout follows the
    attention, the activation and linear2. src -> y of the same shape.

    d_model: E. nhead: heads of the attention. dim_feedforward: features between linear1 and linear2. activation:
    "relu", "gelu", or a function or module. bias: whether linear layers and norms have one.

    Raises:
        ValueError: an argument is out of range, or shapes do not fit.
        RuntimeError: activation is an unknown name.
        TypeError: inputs or masks and the weights have different dtypes.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = functional.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__(
            ("self_attn",),
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            dtype,
        )

    def forward(
        self, src: Tensor, src_mask: Mask = None, src_key_padding_mask: Mask = None, is_causal: bool = False
    ) -> Tensor:
        """The masks are those of ``nn.MultiheadAttention``: src_mask (S, S) or (N*nhead, S, S), padding (N, S)."""
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self._network(x))


class TransformerDecoderLayer(_Layer):
    """x = norm1(x + attention(x)), x = norm2(x + attention(x, memory)), y = norm3(x + linear2(activation(linear1(x)))).

    With norm_first, each norm is applied to the input of its sublayer instead, as in ``TransformerEncoderLayer``, which
    explains the arguments. tgt (T, N, E), memory (S, N, E) -> y (T, N, E).

    Raises: as ``TransformerEncoderLayer``.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = functional.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__(
            ("self_attn", "multihead_attn"),
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            dtype,
        )

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Mask = None,
        memory_mask: Mask = None,
        tgt_key_padding_mask: Mask = None,
        memory_key_padding_mask: Mask = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """tgt_mask (T, T), memory_mask (T, S), or (N*nhead, ...) each; padding (N, T) and (N, S)."""
        own = tgt_mask, tgt_key_padding_mask, tgt_is_causal
        other = memory, memory_mask, memory_key_padding_mask, memory_is_causal
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, *other))
        return self.norm3(x + self._ff_block(x))

    def _mha_block(
        self, x: Tensor, mem: Tensor, attn_mask: Mask, key_padding_mask: Mask, is_causal: bool = False
    ) -> Tensor:
        """Attention to the memory and dropout."""
        y: Tensor = self.multihead_attn(x, mem, mem, key_padding_mask, False, attn_mask, is_causal=is_causal)[0]
        return self.dropout2(y)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self._network(x))


class TransformerEncoder(Module):
    """A stack of num_layers copies of encoder_layer, followed by norm. The copies start with equal weights.

    enable_nested_tensor and mask_check choose a faster path in PyTorch with the same results (except zeros at padded
    positions in evaluation); here they have no effect.

    Raises:
        ValueError: num_layers is negative.
    """

    norm: Module | None
    num_layers: int
    enable_nested_tensor: bool
    mask_check: bool

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers: ModuleList = _copies("TransformerEncoder", encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check

    def forward(
        self, src: Tensor, mask: Mask = None, src_key_padding_mask: Mask = None, is_causal: bool | None = None
    ) -> Tensor:
        """is_causal: asserts that mask is the causal mask; None compares it with the causal mask."""
        causal = _is_causal("TransformerEncoder", mask, is_causal)
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=causal, src_key_padding_mask=src_key_padding_mask)
        return output if self.norm is None else self.norm(output)


class TransformerDecoder(Module):
    """A stack of num_layers copies of decoder_layer, followed by norm. The copies start with equal weights.

    Raises:
        ValueError: num_layers is negative.
    """

    norm: Module | None
    num_layers: int

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers: ModuleList = _copies("TransformerDecoder", decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Mask = None,
        memory_mask: Mask = None,
        tgt_key_padding_mask: Mask = None,
        memory_key_padding_mask: Mask = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """tgt_is_causal: asserts that tgt_mask is the causal mask; None compares it with the causal mask."""
        causal = _is_causal("TransformerDecoder", tgt_mask, tgt_is_causal)
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """decoder(tgt, encoder(src)): src (S, N, E), tgt (T, N, E) -> (T, N, E), each stack followed by a LayerNorm.

    Weights are initialized with ``xavier_uniform_``. custom_encoder, custom_decoder: modules that replace the stacks;
    the other arguments are explained in ``TransformerEncoderLayer``.

    Raises:
        ValueError: an argument is out of range, or shapes do not fit.
        RuntimeError: src and tgt differ in batch, or have other features than d_model.
        TypeError: inputs or masks and the weights have different dtypes.
    """

    batch_first: bool
    d_model: int
    nhead: int

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = functional.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        options = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        if custom_encoder is None:
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
            layer = TransformerEncoderLayer(*options, dtype=dtype)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, norm)
        self.encoder = custom_encoder
        if custom_decoder is None:
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
            second = TransformerDecoderLayer(*options, dtype=dtype)
            custom_decoder = TransformerDecoder(second, num_decoder_layers, norm)
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Mask = None,
        tgt_mask: Mask = None,
        memory_mask: Mask = None,
        src_key_padding_mask: Mask = None,
        tgt_key_padding_mask: Mask = None,
        memory_key_padding_mask: Mask = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """src_mask (S, S), tgt_mask (T, T), memory_mask (T, S); padding masks (N, S), (N, T), (N, S)."""
        one, other = src.shape, tgt.shape
        batch = 0 if self.batch_first else 1
        if len(one) == 3 and one[batch] != other[batch]:
            raise RuntimeError(
                f"Transformer: src.shape={tuple(one)}, tgt.shape={tuple(other)}: the batch, axis {batch}, must be equal"
            )
        if one[-1] != self.d_model or other[-1] != self.d_model:
            raise RuntimeError(
                f"Transformer: src.shape={tuple(one)}, tgt.shape={tuple(other)}: the last axis must have "
                f"d_model={self.d_model} features"
            )
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        output: Tensor = self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )
        return output

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: DeviceLike = None, dtype: DTypeLike = None) -> Tensor:
        """Return the causal mask (sz, sz): 0 where a query attends to a key, -inf at the keys after its position."""
        return Tensor(kernels.causal_mask(sz, as_float_dtype(dtype)), device=device)

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)


def _activation(name: str, activation: Activation) -> Callable[[Tensor], Tensor]:
    if activation == "relu":
        return functional.relu
    if activation == "gelu":
        return functional.gelu
    if not callable(activation):
        raise RuntimeError(f'{name}: activation={activation!r} must be "relu", "gelu" or a function')
    return activation


_MOST_LAYERS = 2**16  # copies of a layer


def _copies(name: str, layer: Module, count: int) -> ModuleList:
    check_ints(name, 0, num_layers=count)
    if count > _MOST_LAYERS:
        raise ValueError(f"{name}: num_layers={count} must be at most {_MOST_LAYERS}")
    if not isinstance(layer, Module):
        kind = "encoder_layer" if "Encoder" in name else "decoder_layer"
        raise TypeError(f"{name}: {kind} is {kind_name(layer)}, needs a Module such as {name}Layer(8, 2)")
    return ModuleList([copy.deepcopy(layer) for _ in range(count)])


def _is_causal(name: str, mask: Mask, is_causal: bool | None) -> bool:
    """Return ``is_causal``; if it is None, whether mask is the causal mask."""
    if is_causal is not None:
        return as_truth(name, "is_causal", is_causal)
    if mask is None or mask.ndim != 2 or mask.shape[0] != mask.shape[1]:
        return False
    own = mask.array
    return same(own, kernels.causal_mask(len(own), own.dtype), "whether the mask is the causal one")
