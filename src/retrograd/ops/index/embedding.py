"""Embedding: rows of a matrix by index, and sums of such rows; the gradients of repeated rows add up."""

from __future__ import annotations

from operator import index as exact_int
from typing import Any

import numpy as np

from ...arrays import arange, extremes, full, increasing, number, ones, to_host, within, zeros
from ...engine.aliasing import mark_changed
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels
from ..argument_checks import as_flag, as_index, as_int, copy_for_backward, require_float, require_same, require_tensor
from ..shape.shape import TOO_LONG, reshape, reshaped
from ..sparse_products import Matrix, SparseProduct
from .gather import Gather
from .indexing import in_range, narrow

__all__ = ["embedding", "embedding_bag", "one_hot"]


class Embedding(Function):
    """The rows ``matrix.indices`` of w. The gradient uses ``weighted``, the same matrix with factors."""

    @staticmethod
    def forward(w: Tensor, matrix: Matrix, weighted: Matrix) -> Tensor:
        return wrap(kernels.lines(w.array, matrix.indices, 0))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.weighted = inputs[2]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return SparseProduct.apply(g, ctx.weighted.transposed, 0), None, None


class BagMax(Function):
    """The largest element of each column among the rows of each bag; 0 for an empty bag."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, starts: np.ndarray) -> Tensor:
        y, places = kernels.bag_max(rows.array, starts)
        ctx.save_for_backward(places)
        ctx.input_shape = rows.array.shape
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (places,) = ctx.saved_tensors
        return _BagMaxGrad.apply(g, places, ctx.input_shape), None


class _BagMaxGrad(Function):
    """Zeros with g at the maxima that BagMax found: its transpose."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, places: np.ndarray, shape: tuple[int, ...]) -> Tensor:
        ctx.save_for_backward(places)
        return wrap(kernels.bag_max_grad(g.array, places, shape))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        (places,) = ctx.saved_tensors
        zero = zeros((), places.dtype, like=places)
        kept = wrap(kernels.cast(exact("le")(zero, places), v.array.dtype))
        return Gather.apply(v, exact("maximum")(places, zero), 0) * kept, None, None


@operator(records=Embedding, dtypes="bif")
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Look up rows of ``weight``: y[..., :] = weight[input[...], :].

    input int64 of any shape, weight (V, D) -> y (*input.shape, D)

    padding_idx: this row gets no gradient
    max_norm: rows in use whose ``norm_type``-norm exceeds it are first scaled down to it, in place
    scale_grad_by_freq: the gradient of a row is divided by how often the row occurs in input
    sparse: no effect; PyTorch stores the gradient of weight as a sparse tensor, here it is dense

    Raises:
        TypeError: input is not int64, or ``max_norm`` is given and weight is not floating-point.
        IndexError: an index is not in [0, V), or ``padding_idx`` not in [-V, V).
        ValueError: weight is not a matrix.
    """
    if interpreters and (seen := interpreted(embedding, locals())) is not None:
        return seen
    indices, padding = _checked("embedding", input, weight, padding_idx, sparse, scale_grad_by_freq)
    if weight.array.dtype.kind != "f" and max_norm is None:
        picked = exact("lines")(weight.array, reshaped(indices, (-1,)), 0)
        return wrap(picked.reshape(*indices.shape, weight.array.shape[1]))
    require_float("embedding", weight, "weight")
    if max_norm is not None:
        _renormalize(weight, indices, max_norm, norm_type)
    rows = weight.array.shape[0]
    matrix = Matrix(reshaped(indices, (-1,)), rows)
    weighted = matrix
    if padding is not None or scale_grad_by_freq:
        factors = kernels.embedding_factors(matrix.indices, rows, padding, scale_grad_by_freq, weight.array.dtype)
        weighted = Matrix(matrix.indices, rows, None, factors)
    return reshape(Embedding.apply(weight, matrix, weighted), *indices.shape, weight.array.shape[1])


@operator(records=(SparseProduct, BagMax, Embedding))
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Compute sums, means or maxima over bags of rows of ``weight`` (V, D) -> (bags, D); 0 for an empty bag.

    input: int64 (bags, K), or (K,) with ``offsets`` (bags,), the start of each bag
    include_last_offset: ``offsets`` also contains the end of the last bag
    per_sample_weights: a factor for each entry, in input's shape; only for mode "sum"
    padding_idx: entries with this index are left out; for the other options see ``embedding``

    Raises:
        TypeError: input or offsets is not int64, or the floating-point types differ.
        IndexError: an index is not in [0, V), or ``padding_idx`` not in [-V, V).
        ValueError: the shapes or offsets do not fit, the mode is unknown, or an option is not available for it.
    """
    if interpreters and (seen := interpreted(embedding_bag, locals())) is not None:
        return seen
    require_float("embedding_bag", weight, "weight")
    indices, padding = _checked("embedding_bag", input, weight, padding_idx, sparse, scale_grad_by_freq)
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f'embedding_bag: mode={mode!r} must be "sum", "mean" or "max"')
    last = as_flag("embedding_bag", "include_last_offset", include_last_offset)
    starts = _starts(indices, offsets, last)
    if scale_grad_by_freq and mode == "max":
        raise ValueError("embedding_bag: scale_grad_by_freq=True is not available for mode='max'")
    if per_sample_weights is not None:
        require_same("embedding_bag", "weight", weight, "per_sample_weights", per_sample_weights)
        if mode != "sum" or per_sample_weights.array.shape != indices.shape:
            raise ValueError(
                f"embedding_bag: per_sample_weights needs mode='sum' and input's shape {indices.shape}; got "
                f"mode={mode!r}, per_sample_weights.shape={per_sample_weights.array.shape}"
            )
    flat = reshaped(indices, (-1,))
    if last:  # drop entries after the last bag
        flat = flat[: number(starts[-1:], "where the last bag ends")]
    if max_norm is not None:
        _renormalize(weight, flat, max_norm, norm_type)
    factors = None if per_sample_weights is None else reshape(per_sample_weights, indices.size)
    if factors is not None and flat.size < indices.size:
        factors = narrow(factors, 0, 0, flat.size)
    if padding is not None:
        used, starts, kept = kernels.without_padding(flat, starts, padding)
        if used.size < flat.size:
            flat = used
            factors = None if factors is None else SparseProduct.apply(factors, Matrix(kept, factors.array.size), 0)
    rows, dtype = weight.array.shape[0], weight.array.dtype
    if mode == "max":
        return BagMax.apply(SparseProduct.apply(weight, Matrix(flat, rows), 0), starts)
    shares = kernels.bag_shares(starts, flat.size, dtype) if mode == "mean" else ones(flat.size, dtype, like=flat)
    if factors is None and not scale_grad_by_freq:
        return SparseProduct.apply(weight, Matrix(flat, rows, starts, shares), 0)
    matrix = Matrix(flat, rows)
    slopes = kernels.embedding_factors(flat, rows, None, scale_grad_by_freq, dtype)
    picked = Embedding.apply(weight, matrix, Matrix(flat, rows, None, slopes))
    if factors is not None:
        picked = picked * reshape(factors, flat.size, 1)
    return SparseProduct.apply(picked, Matrix(arange(flat.size, like=flat), flat.size, starts, shares), 0)


@operator
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Encode classes: y[..., c] = 1 where tensor[...] = c, else 0; int64 (*tensor.shape, num_classes).

    num_classes: by default the largest class + 1.

    Raises:
        TypeError: ``tensor`` is not int64.
        ValueError: a class is negative or not below ``num_classes``, ``num_classes`` is missing for an empty tensor, or
            it is too large for any memory.
    """
    if interpreters and (seen := interpreted(one_hot, locals())) is not None:
        return seen
    classes = as_index("one_hot", tensor, "tensor").array
    num_classes = as_int("one_hot", "num_classes", num_classes)
    why = "whether classes are in range"
    low, high = (0, num_classes - 1) if classes.size else (0, 0)
    if num_classes == -1 or not within(classes, low, high, why):
        if not classes.size:
            raise ValueError("one_hot: an empty tensor does not determine the number of classes; pass num_classes")
        low, high = extremes(classes, why)
        num_classes = high + 1 if num_classes == -1 else num_classes
    if num_classes < 1 or low < 0 or (classes.size and high >= num_classes):
        raise ValueError(
            f"one_hot: num_classes={num_classes} must be at least 1 and above all classes, which range from {low} to "
            f"{high} and must not be negative"
        )
    if num_classes >= TOO_LONG:
        raise ValueError(f"one_hot: num_classes={num_classes} is too large for any memory")
    return wrap(kernels.one_hot(classes, num_classes))


def _checked(
    name: str, input: Any, weight: Any, padding_idx: int | None, sparse: bool, by_frequency: bool
) -> tuple[np.ndarray, int | None]:
    """Return the checked indices, and ``padding_idx`` counted from the front."""
    require_tensor(name, weight, "weight")
    as_flag(name, "scale_grad_by_freq", by_frequency)
    as_flag(name, "sparse", sparse)
    input = as_index(name, input)
    if weight.array.ndim != 2:
        raise ValueError(f"{name}: weight.shape={weight.array.shape}, needs (V, D)")
    rows = weight.array.shape[0]
    if padding_idx is not None:
        if not -rows <= exact_int(padding_idx) < rows:
            raise IndexError(f"{name}: padding_idx={padding_idx} is out of range; weight has {rows} rows")
        padding_idx = padding_idx % rows
    return in_range(name, "input", input.array, rows, f"weight.shape={weight.array.shape}", negative=False), padding_idx


def _starts(indices: np.ndarray, offsets: Tensor | None, include_last: bool) -> np.ndarray:
    """Return the start of each bag, and the end of the last one."""
    if indices.ndim == 2:
        if offsets is not None:
            raise ValueError("embedding_bag: offsets are for an input (K,); each row of an input (bags, K) is a bag")
        bags, size = indices.shape
        return arange(0, (bags + 1) * size, size, like=indices) if size else zeros(bags + 1, np.int64, like=indices)
    if indices.ndim != 1 or offsets is None:
        raise ValueError(f"embedding_bag: input.shape={indices.shape} must be (bags, K), or (K,) together with offsets")
    offsets = as_index("embedding_bag", offsets, "offsets")
    starts = copy_for_backward(offsets.array)
    if not include_last and starts.ndim == 1:
        starts = kernels.concatenate([starts, full((1,), indices.size, np.int64, like=starts)], 0)
    if starts.ndim != 1 or not starts.size or not _grow(starts, indices.size):
        listed = to_host(offsets.array, "a message").tolist()
        raise ValueError(
            f"embedding_bag: offsets={listed} must be a vector that begins with 0 and grows to at "
            f"most the {indices.size} entries of input"
        )
    return starts


def _grow(starts: np.ndarray, most: int) -> bool:
    """Return True if starts begin with 0 and increase to at most ``most``."""
    why = "whether offsets fit"
    return number(starts[:1], why) == 0 and number(starts[-1:], why) <= most and increasing(starts, why)


def _renormalize(weight: Tensor, indices: np.ndarray, max_norm: float, norm_type: float) -> None:
    """Scale used rows down to ``max_norm``, in place and unrecorded."""
    rows, factors = kernels.long_rows(weight.array, indices, max_norm, norm_type)
    if rows.size:
        mark_changed((weight.array,), "embedding: max_norm")
        kernels.scale_rows(weight.array, rows, factors)
