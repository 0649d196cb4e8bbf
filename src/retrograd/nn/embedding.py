"""Tables of vectors, looked up by index."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..engine.tensor import Tensor
from ..ops.embedding import embedding, embedding_bag
from . import init
from .module import Module
from .parameter import Parameter, as_float_dtype

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """Base of both: the table and its options."""

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None,
        max_norm: float | None,
        norm_type: float,
        scale_grad_by_freq: bool,
        sparse: bool,
        weight: Tensor | None,
        dtype: Any,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        for argument, value in (("num_embeddings", num_embeddings), ("embedding_dim", embedding_dim)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ValueError(f"{name}: {argument}={value!r} must be an int of at least 0")
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"{name}: padding_idx={padding_idx} is out of range for num_embeddings={num_embeddings}")
        if sparse:
            raise ValueError(f"{name}: sparse=True is not supported; leave it out (gradients are dense)")
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        if weight is None:
            self.weight = Parameter(np.empty((num_embeddings, embedding_dim), as_float_dtype(dtype)))
            self.reset_parameters()
        else:
            if weight.array.shape != (num_embeddings, embedding_dim):
                raise ValueError(
                    f"{name}: _weight.shape={weight.array.shape} must be ({num_embeddings}, {embedding_dim})"
                )
            self.weight = weight if isinstance(weight, Parameter) else Parameter(weight.array)

    def reset_parameters(self) -> None:
        """Draw new values from N(0, 1); the row of padding_idx becomes 0."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.array[self.padding_idx] = 0

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        if self.padding_idx is not None:
            parts.append(f"padding_idx={self.padding_idx}")
        if self.max_norm is not None:
            parts.append(f"max_norm={self.max_norm}")
        if self.norm_type != 2:
            parts.append(f"norm_type={self.norm_type}")
        if self.scale_grad_by_freq:
            parts.append("scale_grad_by_freq=True")
        return ", ".join(parts)


class Embedding(_Table):
    """y[..., :] = weight[x[...], :]: x int64 of any shape -> y (*x.shape, embedding_dim)

    weight (num_embeddings, embedding_dim), drawn from N(0, 1).

    padding_idx: this row starts as 0 and gets no gradient. max_norm: rows looked up whose ``norm_type``-norm is larger
    are first scaled down to it, in place. scale_grad_by_freq: divide the gradient of a row by the number of its uses.

    Raises:
        ValueError: a size is negative, padding_idx is out of range, or sparse is True (not supported).
        IndexError: an element of input is outside [0, num_embeddings).
        TypeError: input is not int64.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        *,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight, dtype
        )
        if _freeze:
            self.weight.requires_grad = False

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """A layer with the table ``embeddings`` (V, D), not trained if ``freeze``.

        Raises:
            ValueError: ``embeddings`` is not a matrix.
        """
        rows, columns = _table_shape(cls.__name__, embeddings)
        return cls(
            rows,
            columns,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )

    def forward(self, input: Tensor) -> Tensor:
        return embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq)


class EmbeddingBag(_Table):
    """Sum, mean or maximum of the rows in each bag: x (bags, K), or (K,) with offsets (bags,) -> (bags, D)

    weight (num_embeddings, embedding_dim), drawn from N(0, 1). mode "sum", "mean" or "max".

    include_last_offset: offsets also hold the end of the last bag. The other options are those of ``Embedding``;
    entries equal to padding_idx do not count.

    Raises:
        ValueError: as for ``Embedding``, or mode or offsets are invalid.
        IndexError: an element of input is outside [0, num_embeddings).
        TypeError: input is not int64.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        *,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight, dtype
        )
        if mode not in ("sum", "mean", "max"):
            raise ValueError(f'EmbeddingBag: mode={mode!r} must be "sum", "mean" or "max"')
        self.mode = mode
        self.include_last_offset = include_last_offset

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """A layer with the table ``embeddings`` (V, D), not trained if ``freeze``.

        Raises:
            ValueError: ``embeddings`` is not a matrix.
        """
        rows, columns = _table_shape(cls.__name__, embeddings)
        layer = cls(
            rows, columns, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings, include_last_offset,
            padding_idx,
        )  # fmt: skip
        layer.weight.requires_grad = not freeze
        return layer

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode,
            per_sample_weights=per_sample_weights, include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, mode={self.mode!r}"


def _table_shape(name: str, embeddings: Any) -> tuple[int, int]:
    if not isinstance(embeddings, Tensor) or embeddings.array.ndim != 2:
        got = (
            f"a Tensor of shape {embeddings.array.shape}"
            if isinstance(embeddings, Tensor)
            else type(embeddings).__name__
        )
        raise ValueError(f"{name}.from_pretrained: embeddings must be a Tensor (V, D), got {got}")
    rows, columns = embeddings.array.shape
    return rows, columns
