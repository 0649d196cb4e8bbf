"""SparseTensor: indices and values of the nonzero entries, as in PyTorch's COO layout."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ..arrays import from_host, integers
from ..engine.arguments import kind_name
from ..engine.operator import interpreted, interpreters, operator
from ..engine.tensor import Size, Tensor
from ..kernel_set import device_of as name_of
from ..kernel_set import exact, kernels
from .argument_checks import as_flag, as_int, copy_for_backward, is_number, require_float, require_tensor
from .device import DeviceLike, device, layout, moved
from .dtypes.dtype import DTypeLike, as_dtype, cast, int64
from .shape.shape import Reshape, sizes
from .shape.shape import axis as axis_of
from .sparse_products import Matrix, SparseProduct, SpMM, select_rows, sorted_pattern

__all__ = ["sparse_coo", "sparse_coo_tensor", "spmm"]

sparse_coo: Final = layout("sparse_coo")


class SparseTensor:
    """A sparse array: ``values[k]`` at ``indices[:, k]``, summed where an index repeats, and 0 elsewhere.

    The leading ``sparse_dim()`` axes are indexed; each value is a number, or an array of the last ``dense_dim()`` axes.

    Created by ``sparse_coo_tensor`` and ``Tensor.to_sparse``. Gradients flow to the values and to the dense operands of
    products: ``a @ x``, ``torch.spmm(a, x)``, ``torch.sparse.mm(a, x)``.
    """

    is_sparse = True
    layout = sparse_coo
    __array_ufunc__ = None

    def __init__(self, indices: np.ndarray, values: Tensor, shape: tuple[int, ...], coalesced: bool = False) -> None:
        self._places, self._numbers, self._coalesced = indices, values, coalesced
        self.shape: Size = Size(shape)
        self._order: Any = None  # for a matrix: its entries in row order

    # ---- contents

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._numbers.dtype

    @property
    def device(self) -> device:
        return self._numbers.device

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def requires_grad(self) -> bool:
        """True if the values require gradients."""
        return self._numbers.requires_grad

    def dim(self) -> int:
        return self.ndim

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the extent of one axis."""
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> int:
        return math.prod(self.shape)

    def sparse_dim(self) -> int:
        """Return the number of leading axes that are indexed."""
        return self._places.shape[0]

    def dense_dim(self) -> int:
        """Return the number of axes of each value."""
        return self.ndim - self._places.shape[0]

    def _sparse_shape(self) -> tuple[int, ...]:
        return tuple(self.shape[: self._places.shape[0]])

    def is_coalesced(self) -> bool:
        """Return True if the indices are sorted and unique."""
        return self._coalesced

    def _nnz(self) -> int:
        return self._places.shape[1]

    def _indices(self) -> Tensor:
        return Tensor(self._places)

    def _values(self) -> Tensor:
        return self._numbers

    def indices(self) -> Tensor:
        """Return the indices, int64 (sparse_dim, K).

        Raises:
            RuntimeError: the tensor is not coalesced.
        """
        self._require_coalesced("indices")
        return self._indices()

    def values(self) -> Tensor:
        """Return the values, (K, the dense axes).

        Raises:
            RuntimeError: the tensor is not coalesced.
        """
        self._require_coalesced("values")
        return self._numbers

    def _require_coalesced(self, name: str) -> None:
        if not self._coalesced:
            raise RuntimeError(f"{name}: an index may occur twice; call coalesce() first, or use _{name}()")

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        body = f"indices={self._indices()!r},\nvalues={self._numbers!r},\n"
        return f"sparse_tensor({body}size={tuple(self.shape)}, nnz={self._nnz()}, layout={self.layout!r})"

    def restore(self, node: Any) -> SparseTensor:
        """Return the tensor itself: the hook for tensors that a Function saved for its backward pass."""
        return self

    # ---- conversions

    def coalesce(self) -> SparseTensor:
        """Return the same tensor with sorted, unique indices; values with equal indices are summed."""
        if self._coalesced:
            return self
        flat = kernels.flat_places(self._places, self._sparse_shape())
        places, groups = kernels.coalesced_places(self._places, flat)
        return SparseTensor(places, _summed(self._numbers, groups, places.shape[1]), self.shape, True)

    def to_dense(self) -> Tensor:
        """Return a dense Tensor with all elements."""
        rows = math.prod(self._sparse_shape())
        flat = _summed(self._numbers, kernels.flat_places(self._places, self._sparse_shape()), rows)
        return Reshape.apply(flat, tuple(self.shape))

    def transpose(self, dim0: int, dim1: int) -> SparseTensor:
        """Swap two sparse axes.

        Raises:
            IndexError: there is no such axis.
            ValueError: it is an axis of the values.
        """
        count, axes = self.sparse_dim(), list(range(self.ndim))
        first, second = (axis_of("transpose", label, dim, self.ndim) for label, dim in (("dim0", dim0), ("dim1", dim1)))
        if max(first, second) >= count:
            raise ValueError(
                f"transpose: dim0={dim0} and dim1={dim1} must be among the {count} sparse axes of shape "
                f"{tuple(self.shape)}; use to_dense()"
            )
        axes[first], axes[second] = axes[second], axes[first]
        rows = from_host(axes[:count], int64, like=self._places)
        places = exact("lines")(self._places, rows, 0)
        return SparseTensor(places, self._numbers, tuple(self.shape[axis] for axis in axes))

    def t(self) -> SparseTensor:
        """Transpose a matrix.

        Raises:
            ValueError: it is not a matrix.
        """
        self._require_matrix("t")
        return self.transpose(0, 1)

    def _with(self, values: Tensor) -> SparseTensor:
        if values is self._numbers:
            return self
        places = moved(self._places, name_of(values.array))
        return SparseTensor(places, values, self.shape, self._coalesced)

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        """Convert to another element type or device; see ``Tensor.to``."""
        return self._with(self._numbers.to(*args, **kwargs))

    def float(self) -> SparseTensor:
        return self._with(self._numbers.float())

    def double(self) -> SparseTensor:
        return self._with(self._numbers.double())

    def cpu(self) -> SparseTensor:
        return self._with(self._numbers.cpu())

    def cuda(self, device: DeviceLike = None, non_blocking: bool = False) -> SparseTensor:
        """Raise a RuntimeError: there is no GPU.

        Raises:
            RuntimeError: always.
        """
        return self._with(self._numbers.cuda(device, non_blocking))

    def detach(self) -> SparseTensor:
        return self._with(self._numbers.detach())

    def clone(self) -> SparseTensor:
        return self._with(self._numbers.clone())

    # ---- arithmetic

    def _require_matrix(self, name: str) -> None:
        if self.ndim != 2 or self.dense_dim():
            raise ValueError(
                f"{name}: a sparse tensor of shape {tuple(self.shape)} with {self.dense_dim()} dense axes is not a "
                "sparse matrix; use to_dense()"
            )

    def __matmul__(self, other: Tensor) -> Tensor:
        """Multiply by a dense matrix (C, D) or vector (C,).

        Raises:
            TypeError: other is not a Tensor of the same floating-point type.
            ValueError: the extents do not fit.
        """
        self._require_matrix("matmul")
        require_float("matmul", other, "other")
        rows, columns = self.shape
        if other.array.ndim not in (1, 2) or other.array.shape[0] != columns:
            raise ValueError(
                f"matmul: the sparse matrix has shape {tuple(self.shape)}, other.shape={other.array.shape} must be "
                f"({columns}, D) or ({columns},)"
            )
        if other.dtype != self.dtype:
            raise TypeError(f"matmul: the sparse matrix is {self.dtype}, other is {other.dtype}; convert one of them")
        if self._order is None:
            self._order = sorted_pattern(self._places[0], self._places[1], (rows, columns))
        order, pattern = self._order
        dense = other if other.array.ndim == 2 else other.reshape(columns, 1)
        y = SpMM.apply(select_rows(self._numbers, order), dense, pattern)
        return y if other.array.ndim == 2 else y.reshape(rows)

    matmul: Final = __matmul__
    mm: Final = __matmul__
    mv: Final = __matmul__
    spmm: Final = __matmul__

    def __rmatmul__(self, other: Tensor) -> Tensor:
        require_tensor("matmul", other)
        return self.transpose(0, 1).__matmul__(other.t()).t()

    def __mul__(self, other: Any) -> SparseTensor:
        """Multiply by a number, or elementwise by a Tensor of the same shape.

        Raises:
            TypeError: other is neither.
            ValueError: the shapes differ.
        """
        if is_number(other) or (isinstance(other, Tensor) and not other.array.ndim):
            return self._with(self._numbers * other)
        require_tensor("mul", other, "other")
        if other.array.shape != self.shape:
            raise ValueError(f"mul: the shapes {tuple(self.shape)} and {other.array.shape} must be equal")
        return self._with(self._numbers * _elements_at(other, self._places))

    __rmul__: Final = __mul__
    mul: Final = __mul__

    def __truediv__(self, other: Any) -> SparseTensor:
        return self._with(self._numbers / other)

    div: Final = __truediv__

    def __neg__(self) -> SparseTensor:
        return self._with(-self._numbers)

    def __add__(self, other: Any) -> Any:
        """Add a sparse tensor, with a sparse result, or a dense one.

        Raises:
            ValueError: the shapes differ.
        """
        if not isinstance(other, SparseTensor):
            return self.to_dense() + other
        if other.shape != self.shape:
            raise ValueError(f"add: the shapes {tuple(self.shape)} and {tuple(other.shape)} must be equal")
        if other.sparse_dim() != self.sparse_dim():
            raise ValueError(
                f"add: {self.sparse_dim()} and {other.sparse_dim()} sparse axes must be equal; make both by "
                "to_sparse(sparse_dim)"
            )
        from .shape.join import cat

        places = kernels.concatenate((self._places, other._places), 1)
        return SparseTensor(places, cat((self._numbers, other._numbers)), self.shape).coalesce()

    __radd__: Final = __add__
    add: Final = __add__

    def __sub__(self, other: Any) -> Any:
        return self + (-other)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def sum(self, dim: int | None = None) -> Any:
        """Sum all elements, or over one axis with a dense result."""
        return self._numbers.sum() if dim is None else self.to_dense().sum(dim)


@operator
def sparse_coo_tensor(
    indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: DTypeLike = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """Create a sparse tensor with ``values[k]`` at ``indices[:, k]``, int64 (sparse_dim, K), and the shape ``size``.

    values: (K,), or (K, the dense axes)
    size: by default the smallest shape that holds all indices. The other options are those of ``tensor``.
    is_coalesced: declare that the indices are sorted and unique.

    Raises:
        TypeError: indices are not integers, or values are not numbers.
        ValueError: the shapes of indices, values and size do not fit, an index is negative or beyond size, or
            ``requires_grad`` is True: pass values that require gradients instead.
    """
    if interpreters and (seen := interpreted(sparse_coo_tensor, locals())) is not None:
        return seen
    from .creation import as_tensor

    name = "sparse_coo_tensor"
    if as_flag(name, "requires_grad", requires_grad):
        raise ValueError(f"{name}: requires_grad=True is not supported; pass values that require gradients instead")
    for label, flag in (("check_invariants", check_invariants), ("is_coalesced", is_coalesced)):
        if flag is not None:
            as_flag(name, label, flag)
    numbers = as_tensor(values, device=device)
    places = moved(as_tensor(indices).array, name_of(numbers.array))
    numbers = numbers if dtype is None else cast(numbers, as_dtype(dtype))
    if places.dtype.kind not in "iu" and places.size:
        raise TypeError(f"{name}: indices are {places.dtype}, need int64")
    if numbers.array.ndim < 1 or places.ndim != 2 or places.shape[1] != numbers.array.shape[0]:
        raise ValueError(
            f"{name}: indices.shape={places.shape} and values.shape={numbers.array.shape} must be (sparse_dim, K) and "
            "(K, ...)"
        )
    dense = numbers.array.shape[1:]
    places = copy_for_backward(places) if places.dtype == int64 else kernels.cast(places, int64)
    least, most = _extremes(places) if places.size else ([0] * places.shape[0], [-1] * places.shape[0])
    shape = (*[last + 1 for last in most], *dense) if size is None else sizes(name, "size", (size,))
    if len(shape) != places.shape[0] + len(dense):
        rest = f" and each value {len(dense)} axes" if dense else ""
        raise ValueError(
            f"{name}: size={tuple(shape)} has {len(shape)} axes, indices have {places.shape[0]} rows{rest}"
        )
    if tuple(shape[places.shape[0] :]) != dense:
        raise ValueError(f"{name}: size={tuple(shape)} must end in {dense}, the shape of each value")
    for axis, (first, last, extent) in enumerate(zip(least, most, shape, strict=False)):
        if places.size and not 0 <= first <= last < extent:
            wrong = first if first < 0 else last
            raise ValueError(f"{name}: indices[{axis}] contains {wrong}, which must be at least 0 and below {extent}")
    return SparseTensor(places, numbers, shape, bool(is_coalesced))


@operator(methods="to_sparse", dtypes="bihf")
def to_sparse(input: Tensor, sparse_dim: int | None = None) -> SparseTensor:
    """Return the nonzero elements as a sparse tensor; gradients flow to them.

    sparse_dim: the number of leading axes that are indexed, all by default. If it is smaller, each value
        is a subarray over the other axes; subarrays of zeros are left out.

    Raises:
        TypeError: input is not a Tensor, or sparse_dim is not an int.
        ValueError: input does not have that many axes, or sparse_dim is below 1 though it has axes.
    """
    if interpreters and (seen := interpreted(to_sparse, locals())) is not None:
        return seen
    require_tensor("to_sparse", input)
    ndim = input.array.ndim
    count = ndim if sparse_dim is None else as_int("to_sparse", "sparse_dim", sparse_dim)
    if not min(ndim, 1) <= count <= ndim:
        raise ValueError(
            f"to_sparse: sparse_dim={count} must be from {min(ndim, 1)} to {ndim}, the number of axes of "
            f"input.shape={input.array.shape}"
        )
    places = kernels.nonzero_places(input.array, count)
    return SparseTensor(places, _elements_at(input, places), input.array.shape, True)


def _elements_at(x: Tensor, places: np.ndarray) -> Tensor:
    """Return the elements of x at the places, or subarrays if the places index only leading axes."""
    leading, rest = x.array.shape[: len(places)], x.array.shape[len(places) :]
    return select_rows(Reshape.apply(x, (math.prod(leading), *rest)), kernels.flat_places(places, leading))


def _extremes(places: np.ndarray) -> tuple[list[int], list[int]]:
    """Return the smallest and the largest index along each axis."""
    why = "whether indices of a sparse tensor are in range"
    least, most = kernels.integer_amin(places, (1,), False), kernels.integer_amax(places, (1,), False)
    return integers(least, why), integers(most, why)


@operator
def spmm(input: SparseTensor, mat2: Tensor) -> Tensor:
    """The product of a sparse matrix (R, C) and a dense matrix (C, D); either operand may be the sparse one.

    Raises:
        TypeError: neither is a SparseTensor, or the types differ.
        ValueError: the extents do not fit.
    """
    if interpreters and (seen := interpreted(spmm, locals())) is not None:
        return seen
    if isinstance(input, SparseTensor):
        return input.__matmul__(mat2)
    if isinstance(mat2, SparseTensor):
        return mat2.__rmatmul__(input)
    raise TypeError(
        f"spmm: input is {kind_name(input)} and mat2 is {kind_name(mat2)}; one must be a sparse matrix, see "
        "retrograd.sparse_coo_tensor"
    )


def _summed(numbers: Tensor, places: np.ndarray, count: int) -> Tensor:
    """Sum the numbers, or subarrays, that have the same place; return ``count`` rows."""
    if numbers.array.dtype.char not in "fd":
        return Tensor(kernels.line_sums(numbers.array, places, count))
    starts, order, _ = kernels.csr_transpose(places, count, None, None)
    return SparseProduct.apply(numbers, Matrix(order, places.size, starts), 0)
