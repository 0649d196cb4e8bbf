"""Embedding layers: tables of vectors, looked up by index."""

from __future__ import annotations

from typing import Any, Self

from ..arrays import empty, zeros_like
from ..engine.tensor import Tensor
from ..kernel_set import kernels
from ..ops.argument_checks import as_int, require_tensor
from ..ops.device import DeviceLike
from ..ops.dtypes.dtype import DTypeLike
from ..ops.index.embedding import embedding, embedding_bag
from . import init
from .arguments import check_ints
from .layer import Described, changed
from .module import Module
from .parameter import Parameter, as_float_dtype

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Described, Module):
    """Base of Embedding and EmbeddingBag: the table and its options."""

    embedding_dim: int
    num_embeddings: int
    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool

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
        dtype: DTypeLike,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        check_ints(name, 0, num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        if padding_idx is not None:
            padding_idx = as_int(name, "padding_idx", padding_idx)
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"{name}: padding_idx={padding_idx} is out of range for num_embeddings={num_embeddings}")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx: int | None = None if padding_idx is None else padding_idx % num_embeddings
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.sparse = sparse
        if weight is None:
            self.weight = Parameter(empty((num_embeddings, embedding_dim), as_float_dtype(dtype)))
            self.reset_parameters()
        else:
            require_tensor(name, weight, "_weight")
            if weight.array.shape != (num_embeddings, embedding_dim):
                raise ValueError(
                    f"{name}: _weight.shape={weight.array.shape} must be ({num_embeddings}, {embedding_dim})"
                )
            self.weight = weight if isinstance(weight, Parameter) else Parameter(weight.array)

    def reset_parameters(self) -> None:
        """Draw new values from N(0, 1); the row of padding_idx becomes 0."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            row = self.weight.array[self.padding_idx]
            kernels.copy(row, zeros_like(row))

    def extra_repr(self) -> str:
        options = changed(self, padding_idx=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, sparse=False)
        return ", ".join([f"{self.num_embeddings}, {self.embedding_dim}", *options])


class Embedding(_Table):
    """A layer with the parameter weight (num_embeddings, embedding_dim), drawn from N(0, 1); row padding_idx is 0.

    {functional.embedding}
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
        device: DeviceLike = None,
        dtype: DTypeLike = None,
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
        """Return a layer with the table ``embeddings`` (V, D), not trained if ``freeze``.

        Raises:
            ValueError: ``embeddings`` is not a matrix.
        """
        rows, columns = _table_shape(cls.__name__, embeddings)
        return cls(rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, embeddings, freeze)

    def forward(self, input: Tensor) -> Tensor:
        return embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq)


class EmbeddingBag(_Table):
    """Sum, mean or maximum of the rows in each bag: x (bags, K), or (K,) with offsets (bags,) -> (bags, D)

    weight (num_embeddings, embedding_dim), drawn from N(0, 1). mode "sum", "mean" or "max".

    include_last_offset: offsets also contain the end of the last bag. The other options are those of ``Embedding``;
    entries equal to padding_idx are ignored.

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
        device: DeviceLike = None,
        dtype: DTypeLike = None,
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
        """Return a layer with the table ``embeddings`` (V, D), not trained if ``freeze``.

        Raises:
            ValueError: ``embeddings`` is not a matrix.
        """
        rows, columns = _table_shape(cls.__name__, embeddings)
        layer = cls(
            rows,
            columns,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        layer.weight.requires_grad = not freeze
        return layer

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, mode={self.mode!r}"


def _table_shape(name: str, embeddings: Any) -> tuple[int, int]:
    shape = embeddings.array.shape if isinstance(embeddings, Tensor) else ()
    if len(shape) != 2:
        got = f"a Tensor of shape {shape}" if isinstance(embeddings, Tensor) else type(embeddings).__name__
        raise ValueError(f"{name}.from_pretrained: embeddings must be a Tensor (V, D), got {got}")
    return shape[0], shape[1]
