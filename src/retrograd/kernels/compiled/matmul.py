"""Matrix products and pairwise row distances, and the plan of their tasks.

All steps are in elements. C is cut into tiles of rows and panels of columns; a part is a range of both in one matrix of
the batch, and a task one part, or several of small matrices. A task packs a block of some panels of B, which stays in
L2 while the rows of A stream by. If that costs more than it saves, thin_product.py has the tiles and micro-kernels.
If a sample of A is mostly zeros, the tasks share the rows of A instead, and each adds up the rows of B whose factor is
not 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy import empty, ndarray

from . import thin_product as thin
from .machine.launch import Launch, kernel
from .machine.microkernel import PRODUCT, even_product, registers, tile
from .machine.prepared import RESULT, Argument, Prepared
from .machine.record import record
from .machine.scratch import per_thread
from .machine.target import vector_bytes
from .memory.finish import Given, finish_arrays, finish_by_numpy
from .memory.layout import CHUNK, channels_last
from .memory.packing import whole_steps, zeros_of

__all__ = ["matmul", "matmul_clamp", "row_combination", "row_products", "row_squares"]


# ---- Plans that divide a matrix product into tasks ------------------------------------------------------------------

MATMUL = record(
    size=1,  # bytes of an element
    width=1,  # columns of a panel
    depth=1,
    block=1,  # the inner dimension, and its blocks
    a_row=1,
    a_depth=1,
    b_depth=1,
    b_column=1,
    c_row=1,
    dense=1,  # the columns of A are contiguous, not its rows
    packing=1,  # a task packs B
    columns=1,
    group=1,  # panels packed at a time
    product=PRODUCT.words,
    rows=1,
    nonzero=1,  # elements of a sample of A up to which the others are left out
    sparse_tasks=1,  # that then share the rows; 0: the sample is not looked at
    each=1,
    count=1,  # parts of a task, and of all tasks
    parts=0,
)
PART = record(a=1, b=1, c=1, tile_first=1, tile_last=1, panel_first=1, panel_last=1)  # the first three are offsets

_BLOCK, _LEAST_BLOCK = 768, 256  # terms; the least if tiles read columns of A and wide ones do not fit the registers
_GROUP, _GROUP_BYTES = 2, 1 << 17  # panels; or as many as fill a part of L2, where panels are narrow
_NEAR = 1 << 15  # bytes of B that stay in L1
_TASK_ROWS = 256  # rows that pay for packing B a second time
_TASK_TILES = 10
_LINE_TASK = 2048  # columns of ``lines``: shorter pieces of rows are prefetched less well
_TASK_WORK = 1_000_000  # multiply-adds that are worth a separate task
_SMALL_TASK_WORK = 250_000  # the same for tasks that copy nothing
_MOST_TASKS = 16
_PART_WORK = 131_072  # multiply-adds: smaller parts share a task
_LEAST_TASKS = 8  # ... as long as there are at least this many tasks

# products whose A is mostly zeros, such as spikes or the pixels of digits
SPARSE_RUNS, SPARSE_RUN = 32, 32  # elements of A in a row that are looked at, and how often
SPARSE_BLOCK, SPARSE_SHORT = 512, 128  # terms whose rows of B stay in L2, and in L1 for the most part
SPARSE_FEW = SPARSE_RUNS * SPARSE_RUN // 8  # so few elements do not pay for reading C once more for every short block
SPARSE_VECTORS = 8  # of a row of C, in registers
_SPARSE_ROWS, _SPARSE_DEPTH, _SPARSE_TASK_ROWS = 128, 128, 192
_NONZERO = 0.35, 0.25  # the share of elements up to which leaving out the others pays, with 16 and with 32 registers


def sparse_width(dtype: str) -> int:
    """Columns that are computed at a time if A is mostly zeros."""
    return SPARSE_VECTORS * vector_bytes() // (4 if dtype == "f" else 8)


@dataclass(frozen=True, slots=True)
class Product:
    """A plan of ``c = a @ b``."""

    kernel: str
    words: np.ndarray
    tasks: int
    packed: int  # elements per thread of B that a task packs


def plan_product(
    rows: int,
    columns: int,
    depth: int,
    form: str,
    a_steps: Sequence[int],
    b_steps: Sequence[int],
    packing: bool,
    dtype: str,
    batch: Sequence[tuple[int, int, int]],
) -> Product:
    """Plan for (rows, depth) @ (depth, columns); ``batch`` lists the offsets in A, B and C of each product.

    ``form`` of the micro-kernel: "rows" if the rows of A are contiguous, "dense" if its columns are. Without
    ``packing`` the rows of B must be contiguous.
    """
    shape, size = tile(dtype, form, columns), 4 if dtype == "f" else 8
    dense = int(form == "dense")
    few = dense and registers() == 16  # low tiles: several share the lines of A, which L1 has to hold
    block = -(-depth // (max(1, depth // _LEAST_BLOCK) if few else -(-depth // _BLOCK)))
    group = min(shape.panels, _group_of(block, shape.width * size))
    if block * min(columns, group * shape.width) * size <= _NEAR:
        form = "near" if dense else "near_rows"
    target_tasks = max(1, min(_MOST_TASKS, rows * columns * depth * len(batch) // _TASK_WORK))
    if (
        packing and shape.panels == len(batch) == 1 < target_tasks and rows < 2 * _TASK_ROWS
    ):  # for example the gradient of a narrow weight
        shape = tile(dtype, form, columns, max(1, shape.vectors // target_tasks))
    product_words = even_product(dtype, form, shape, rows, not packing)
    tiles = int(product_words[PRODUCT.tiles])
    each = -(-target_tasks // len(batch))
    panel_cuts = min(shape.panels, each)
    tile_cuts = max(1, min(rows // _TASK_ROWS if packing else tiles // _TASK_TILES, -(-each // panel_cuts)))
    parts, together = _parts(batch, tiles, shape.panels, tile_cuts, panel_cuts, rows * columns * depth)
    tasks = -(-len(parts) // together)
    packed = group * block * shape.width if packing else 0
    sparse_tasks = 0
    if len(batch) == 1 and rows >= _SPARSE_ROWS and depth >= _SPARSE_DEPTH and columns >= sparse_width(dtype):
        sparse_tasks = max(1, min(tasks, rows // _SPARSE_TASK_ROWS))
        if b_steps[1] != 1:
            packed = max(
                packed, min(SPARSE_BLOCK, depth) * min(3 * sparse_width(dtype), columns + vector_bytes() // size)
            )
    words = MATMUL.pack(
        size=size,
        width=shape.width,
        depth=depth,
        block=block,
        a_row=a_steps[0],
        a_depth=a_steps[1],
        b_depth=b_steps[0],
        b_column=b_steps[1],
        c_row=columns,
        dense=dense,
        packing=packing,
        columns=columns,
        group=group,
        product=product_words,
        rows=rows,
        nonzero=int(_NONZERO[registers() == 32] * SPARSE_RUNS * SPARSE_RUN),
        sparse_tasks=sparse_tasks,
        each=together,
        count=len(parts),
        parts=np.concatenate(parts),
    )
    return Product("multiply", words, tasks, packed)


def _group_of(block: int, row: int) -> int:
    """Panels of B that are packed at a time, of ``block`` rows of so many bytes."""
    return _GROUP if registers() == 32 else max(_GROUP, _GROUP_BYTES // (block * row))


def _parts(
    batch: Sequence[tuple[int, int, int]], tiles: int, panels: int, tile_cuts: int, panel_cuts: int, work: int
) -> tuple[list[np.ndarray], int]:
    """The parts of all products, each of ``work`` multiply-adds, and how many of them a task has."""
    parts = [
        PART.pack(
            a=a,
            b=b,
            c=c,
            tile_first=t * tiles // tile_cuts,
            tile_last=(t + 1) * tiles // tile_cuts,
            panel_first=p * panels // panel_cuts,
            panel_last=(p + 1) * panels // panel_cuts,
        )
        for (a, b, c), t, p in product(batch, range(tile_cuts), range(panel_cuts))
    ]
    count = len(parts)
    return parts, max(1, min(_PART_WORK * count // (work * len(batch)), -(-count // _LEAST_TASKS)))


_OF_COPY = {32: (0.15, 0.35), 16: (0.55, 0.6)}  # cycles per element of a copy of B, by rows and by transposing
# cycles per term, with 16 registers, of a B that L1 does not hold; if it is not packed; if its vectors cross lines
_OF_PIECES, _OF_UNPACKED, _OF_CROSSING = 0.4, 0.3, 0.7
_ALIGNED = 16  # bytes: vectors of rows as far apart cross lines seldom
_OF_A = 1  # cycles per element of a copy of rows of A
_OF_TILE, _OF_CALL = 84, 150  # cycles
_OF_LINES = 2  # cycles per term, of a tile that reads columns of A which have left L1
_OF_ROWS = 16  # bytes per cycle, of rows of A that have left L1
_OF_COLUMNS = 1.15  # with 16 registers: tiles that read columns of A beside a B that is not packed, which fill L1
_OF_MEMORY = 0.05  # cycles per byte of a copy that turns B, if B comes from memory


def tiles_cycles(
    rows: int,
    columns: int,
    depth: int,
    form: str,
    packing: bool,
    b_steps: tuple[int, int],
    dtype: str,
    matrices: int = 1,
) -> float:
    """The estimated time of a product by tiles and panels, one of ``matrices``, to compare with ``thin.choose``."""
    shape, size = tile(dtype, form, columns), 4 if dtype == "f" else 8
    tiles = -(-rows // shape.rows)
    height = -(-rows // tiles)
    cells = height * shape.vectors
    each = max(cells / 2, (height + shape.vectors) / 2, 4.0)
    if form == "dense" and thin.columns_are_far(depth):
        each += _OF_LINES if registers() == 32 else _OF_LINES / 2  # shorter blocks
    if form == "dense" and not packing and tiles > 1 and registers() == 16:
        each *= _OF_COLUMNS
    if not packing and tiles > 1 and thin.rows_conflict(depth, b_steps[0] * size):
        each += thin.conflict_cycles(min(columns, shape.width) * size)
    if registers() == 16 and tiles > 1 and min(columns, shape.width) * depth * size > _NEAR * 3 // 4:
        each += _OF_PIECES if packing else _OF_PIECES + _OF_UNPACKED + _OF_CROSSING * (b_steps[0] * size % _ALIGNED > 0)
    copy = _OF_COPY[registers()][b_steps[1] != 1] * columns * depth if packing else 0.0
    if packing and b_steps[1] != 1 and thin.is_far(columns * depth * size * matrices):
        copy += _OF_MEMORY * columns * depth * size
    if b_steps[1] == 1:
        copy += thin.far_cycles(columns * depth * size)
    if form == "rows":
        group = _group_of(min(depth, _BLOCK), shape.width * size)
        copy += -(-shape.panels // group) * rows * depth * size / _OF_ROWS
    return tiles * shape.panels * (depth * each + cells + _OF_TILE) + copy + _OF_CALL


def plan_thin(
    choice: thin.Choice,
    rows: int,
    columns: int,
    depth: int,
    dense: bool,
    a_steps: tuple[int, int],
    b_steps: tuple[int, int],
    dtype: str,
    batch: Sequence[tuple[int, int, int]],
) -> Product:
    """As ``plan_product``, by the micro-kernels of thin_product.py."""
    made = thin.layout(choice, columns, rows, depth, *b_steps, dtype)
    work = rows * columns * depth
    of_task = _TASK_WORK if made.packing else _SMALL_TASK_WORK
    each = -(-max(1, min(_MOST_TASKS, work * len(batch) // of_task)) // len(batch))
    if made.packing:
        tile_cuts, panel_cuts = min(made.tiles, max(1, rows // _TASK_ROWS)), 1  # each copies B
    elif choice.kernel == "lines":
        tile_cuts, panel_cuts = 1, max(1, min(each, columns // _LINE_TASK))
    elif columns > rows:  # the larger of A and B is cut, so that it is read once
        panel_cuts = min(made.panels, each)
        tile_cuts = min(made.tiles, -(-each // panel_cuts))
    else:
        tile_cuts = min(made.tiles, each)
        panel_cuts = min(made.panels, -(-each // tile_cuts))
    parts, together = _parts(batch, made.tiles, made.panels, tile_cuts, panel_cuts, work)
    near = thin.is_near(columns * depth * (4 if dtype == "f" else 8) * len({b for _, b, _ in batch}))
    words = thin.words(
        choice,
        made,
        rows,
        columns,
        depth,
        dense,
        a_steps,
        b_steps,
        dtype,
        together,
        len(parts),
        np.concatenate(parts),
        0 if near else made.tiles // tile_cuts,
    )
    kernel = "strips" if choice.kernel == "strip" else choice.kernel
    return Product(kernel, words, -(-len(parts) // together), made.packed)


# ---- Matrix product through the batch-reduce micro-kernel -----------------------------------------------------------

_KERNELS = {
    "multiply": kernel("matmul.multiply"),
    "strips": kernel("thin_product.strips"),
    "dots": kernel("thin_product.dots"),
    "lines": kernel("thin_product.lines"),
}
_SMALL_ROWS, _SMALL_BYTES = 48, 1 << 15  # rows of A or bytes of B up to which a copy of B costs more than it saves
# the same rows with 16 registers; if vectors of B cross lines of the cache; if its rows share sets of L1
_FEW_ROWS, _FEW_CROSSING, _FEW_SHARING = 80, 24, 16
_DEEP = 128  # rows of a B from memory that pay for its copy
# bytes from which a transposed A is copied if it is read often, and a few lines fill the sets of L1 or tiles are so low
# that several of them read each line
_LARGE_A, _OFTEN = 1 << 18, 256
_STEP = 2048  # bytes: rows as many apart share a set with each second or with all others
_NO_WORDS = np.empty(0, np.int64)


class _Call(NamedTuple):
    """A prepared product of matrices of given shapes and strides."""

    shape: tuple[int, ...]  # of the result
    launch: Launch | None  # None: the kernel cannot read them as they are
    swapped: bool  # the kernel computes the transposed product, which is the same in memory
    tasks: int
    packed: int  # elements per thread
    words: np.ndarray  # the plan
    init: np.ndarray  # the initial row without bias
    turned: bool = False  # the transposed product and a copy of it are faster


_NARROW, _OF_TURNING = 8, 2500  # columns of C up to which whole vectors of its rows may pay; cycles of the copy


def _cheapest(
    rows: int,
    columns: int,
    depth: int,
    dense: bool,
    packing: bool,
    b_steps: tuple[int, int],
    dtype: str,
    matrices: int = 1,
) -> tuple[thin.Choice | None, float]:
    """The thin product to use, or None for tiles, and the estimated time."""
    choice = thin.choose(rows, columns, depth, dense, *b_steps, dtype, matrices)
    by_tiles = tiles_cycles(rows, columns, depth, "dense" if dense else "rows", packing, b_steps, dtype, matrices)
    return (choice, choice.cycles) if choice is not None and choice.cycles < by_tiles else (None, by_tiles)


def _packs(rows: int, columns: int, depth: int, size: int, row_step: int, column_step: int, matrices: int = 1) -> bool:
    """Whether tasks copy B, one of ``matrices``; its steps are in bytes."""
    content = depth * columns * size
    few, near = _SMALL_ROWS, content <= _SMALL_BYTES
    if registers() == 16:
        sharing = thin.rows_conflict(depth, row_step)
        few = _FEW_SHARING if sharing else _FEW_CROSSING if row_step % _ALIGNED else _FEW_ROWS
        if thin.is_far(content * matrices) and depth >= _DEEP:  # tiles read pieces of rows too short to be prefetched
            few = 1
    return column_step != size or not (rows <= few or near)


def _joined_rows(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape and strides of matrices as those of one with the rows of all, if these are equally far apart."""
    while len(shape) > 2 and (1 in shape[-3:-1] or strides[-3] == shape[-2] * strides[-2]):
        step = strides[-3] if shape[-2] == 1 else strides[-2]
        shape, strides = (*shape[:-3], shape[-3] * shape[-2], shape[-1]), (*strides[:-3], step, strides[-1])
    return shape, strides


def _is_transposed(shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> bool:
    """Whether matrices with contiguous columns lie one after the other."""
    step = size
    for axis in (-2, -1, *range(len(shape) - 3, -1, -1)):
        extent = shape[axis]
        if extent > 1 and strides[axis] != step:
            return False
        step *= extent
    return True


def _turning_pays(
    rows: int, columns: int, depth: int, packing: bool, b_steps: tuple[int, int], dtype: str, matrices: int
) -> bool:
    """Whether a product by a copy of A, whose rows are contiguous, takes less time than by the columns of A."""
    if registers() == 32 or packing or rows <= tile(dtype, "dense", columns).rows:  # a single tile reads them once
        return False
    by_columns, by_rows = (
        _cheapest(rows, columns, depth, dense, packing, b_steps, dtype, matrices)[1] for dense in (True, False)
    )
    return by_rows + _OF_A * rows * depth + _OF_TURNING / matrices < by_columns


def _joining_pays(matrices: int, rows: int, columns: int, depth: int, b_strides: tuple[int, ...], dtype: str) -> bool:
    """Whether one product of a copy of all rows takes less time than one for each matrix; B is one matrix."""
    size = 4 if dtype == "f" else 8
    steps = b_strides[0] // size, b_strides[1] // size
    each, together = (
        _cheapest(count, columns, depth, False, _packs(count, columns, depth, size, *b_strides), steps, dtype)[1]
        for count in (rows, rows * matrices)
    )
    return together + _OF_TURNING + _OF_A * rows * matrices * depth < each * matrices


@lru_cache(maxsize=4096)
def _call(
    a_shape: tuple[int, ...],
    a_strides: tuple[int, ...],
    b_shape: tuple[int, ...],
    b_strides: tuple[int, ...],
    size: int,
    biased: bool,
) -> _Call:
    batch = np.broadcast_shapes(a_shape[:-2], b_shape[:-2])
    shape = (*batch, a_shape[-2], b_shape[-1])
    swapped = shape[-1] == 1 < shape[-2] and not biased
    if swapped:  # a column: a row of the transposed product, which is whole vectors
        a_shape, a_strides, b_shape, b_strides = (
            (*of[:-2], of[-1], of[-2]) for of in (b_shape, b_strides, a_shape, a_strides)
        )
    as_many = len(a_shape) == len(b_shape)
    if len(b_shape) == 2 < len(a_shape):
        a_shape, a_strides = _joined_rows(a_shape, a_strides)
        batch = a_shape[:-2]
    rows, depth, columns = a_shape[-2], a_shape[-1], b_shape[-1]
    matrices = prod(extent for extent, step in zip(b_shape[:-2], b_strides[:-2], strict=True) if step)
    dtype = "f" if size == 4 else "d"
    rows_apart = a_strides[-1] != size and depth > 1
    form = "dense" if rows_apart else "rows"
    packing = _packs(rows, columns, depth, size, b_strides[-2], b_strides[-1], matrices)
    ready = (
        whole_steps(a_strides, size)
        and whole_steps(b_strides, size)
        and not (rows_apart and rows > 1 and a_strides[-2] != size)
        and not (
            rows_apart
            and len(a_shape) == 2
            and rows * depth * size > _LARGE_A
            and (columns > 128 and a_strides[-1] % _STEP == 0 or columns > _OFTEN and registers() == 16)
        )
        and 0 not in (*batch, rows, depth, columns)
        and not (
            len(b_shape) == 2 < len(a_shape)
            and a_strides[-1] == size
            and _joining_pays(prod(batch), rows, columns, depth, b_strides, dtype)
        )
        and not (
            rows_apart
            and _is_transposed(a_shape, a_strides, size)
            and _turning_pays(
                rows, columns, depth, packing, (b_strides[-2] // size, b_strides[-1] // size), dtype, prod(a_shape[:-2])
            )
        )
    )
    if not ready:
        return _Call(shape, None, False, 0, 0, _NO_WORDS, zeros_of(1, dtype))

    def offsets(lead: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
        """Offset in elements of the matrix of each product of the batch."""
        own = np.zeros(lead, np.int64)
        for axis, (extent, stride) in enumerate(zip(lead, strides, strict=False)):
            own += (np.arange(extent) * (stride // size)).reshape((extent,) + (1,) * (len(lead) - axis - 1))
        return [int(v) for v in np.broadcast_to(own, batch).ravel()]

    a_steps = a_strides[-2] // size, a_strides[-1] // size
    b_steps = b_strides[-2] // size, b_strides[-1] // size
    offsets_of_c = range(0, prod(batch) * rows * columns, rows * columns)
    a_offsets, b_offsets = offsets(a_shape[:-2], a_strides[:-2]), offsets(b_shape[:-2], b_strides[:-2])
    all_offsets = list(zip(a_offsets, b_offsets, offsets_of_c, strict=True))
    choice, cycles = _cheapest(rows, columns, depth, rows_apart, packing, b_steps, dtype, matrices)
    if rows_apart and 1 < columns < rows and columns <= _NARROW and as_many and not biased:
        of_a = prod(extent for extent, step in zip(a_shape[:-2], a_strides[:-2], strict=True) if step)
        _, other = _cheapest(columns, rows, depth, b_steps[1] == 1, False, a_steps[::-1], dtype, of_a)
        if other + _OF_A * rows * columns + _OF_TURNING / prod(batch) < cycles:
            return _Call(shape, None, False, 0, 0, _NO_WORDS, zeros_of(1, dtype), True)
    if choice is not None:
        plan = plan_thin(choice, rows, columns, depth, rows_apart, a_steps, b_steps, dtype, all_offsets)
    else:
        plan = plan_product(rows, columns, depth, form, a_steps, b_steps, packing, dtype, all_offsets)
    init = zeros_of(columns, dtype)
    return _Call(shape, _KERNELS[plan.kernel][dtype], swapped, plan.tasks, plan.packed, plan.words, init)


def matmul(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    result: np.ndarray = _products.run(a, b) if bias is None else _products.run(a, b, bias)
    return result


def _multiplied(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """As ``matmul``, for arrays of any layouts."""
    shape, launch, swapped, tasks, packed, words, init, turned = _call(
        a.shape, a.strides, b.shape, b.strides, a.itemsize, bias is not None
    )
    if turned:
        return _turned(matmul(b.swapaxes(-1, -2), a.swapaxes(-1, -2)))
    c = empty(shape, a.dtype) if type(a) is ndarray else empty(shape, a.dtype, like=a)
    if launch is None:
        if c.size == 0 or a.shape[-1] == 0:
            c[...] = 0 if bias is None else bias
            return c
        return matmul(*_readable(a, b), bias)
    given: tuple[np.ndarray, ...] = (a, b) if bias is None else (a, b, bias)
    if bias is not None:
        init = np.ascontiguousarray(bias, like=bias)
    first, second = (b, a) if swapped else (a, b)
    launch(tasks, first, second, init, c, per_thread(packed, c.dtype.char) if packed else c, packed, words, c, c)
    if packed == 0 and (bias is None or init is bias) and all(type(x) is ndarray for x in given):
        start = init if bias is None else Argument(2)
        places = Argument(int(swapped)), Argument(int(not swapped))
        _products.remember(given, launch, tasks, shape, (*places, start, RESULT, RESULT, 0, words, RESULT, RESULT))
    return c


_products = Prepared(_multiplied)


def matmul_clamp(
    a: np.ndarray,
    b: np.ndarray,
    bias: np.ndarray | None,
    residual: np.ndarray | None,
    low: float,
    high: float,
    formula: Callable[..., Any] | None = None,
    numbers: tuple[float, ...] = (),
) -> np.ndarray:
    """min(max(a @ b + bias + residual, low), high), while the sums are in registers, and then the formula of it."""
    given: Given = residual, low, high, formula, numbers
    shape, launch, swapped, tasks, packed, words, init, turned = _call(
        a.shape, a.strides, b.shape, b.strides, a.itemsize, bias is not None
    )
    if turned:
        residual = None if residual is None else residual.swapaxes(-1, -2)
        a, b = b.swapaxes(-1, -2), a.swapaxes(-1, -2)
        return _turned(matmul_clamp(a, b, None, residual, low, high, formula, numbers))
    if launch is None:
        if 0 in (*shape, a.shape[-1]):
            return finish_by_numpy(matmul(a, b, bias), given)
        return matmul_clamp(*_readable(a, b), bias, residual, low, high, formula, numbers)
    c = np.empty(shape, a.dtype, like=a)
    if bias is not None:
        init = np.ascontiguousarray(bias, like=bias)
    if swapped:
        a, b = b, a
    memory = per_thread(packed, c.dtype.char) if packed else c
    launch(tasks, a, b, init, c, memory, packed, words, *finish_arrays(c, given))
    return c


def _turned(c: np.ndarray) -> np.ndarray:
    """The transposed matrices, in C order."""
    turned = channels_last(c.reshape(-1, *c.shape[-2:])).swapaxes(1, 2)
    return turned.reshape(*c.shape[:-2], *turned.shape[1:])


def _readable(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Copies where the kernel cannot read the matrices, or would read ``a`` slowly."""
    columns = a.swapaxes(-1, -2)
    a = _turned(columns) if columns.flags.c_contiguous else np.ascontiguousarray(a, like=a)
    return a, b if whole_steps(b.strides, b.itemsize) else np.ascontiguousarray(b, like=b)


# ---- Rows against rows: products, squared distances, and combinations for their gradients ---------------------------

_PRODUCTS, _SQUARES, _COMBINED = (kernel(f"matmul.{name}") for name in ("products", "squares", "combined"))


def row_products(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, y = np.ascontiguousarray(x, like=x), np.ascontiguousarray(y, like=y)
    rows, length, per_task = _split(x)
    xy, xx, yy = (np.empty(rows, x.dtype, like=x) for _ in range(3))
    if rows:
        _PRODUCTS[x.dtype.char](-(-rows // per_task), x, y, xy, xx, yy, rows, length, per_task)
    return xy, xx, yy


def row_squares(x: np.ndarray, y: np.ndarray, eps: float) -> np.ndarray:
    x, y = np.ascontiguousarray(x, like=x), np.ascontiguousarray(y, like=y)
    rows, length, per_task = _split(x)
    z = np.empty(rows, x.dtype, like=x)
    if rows:
        _SQUARES[x.dtype.char](-(-rows // per_task), x, y, z, rows, length, per_task, eps)
    return z


def row_combination(a: np.ndarray, x: np.ndarray, b: np.ndarray, y: np.ndarray, c: np.ndarray) -> np.ndarray:
    x, y = np.ascontiguousarray(x, like=x), np.ascontiguousarray(y, like=y)
    rows, length, per_task = _split(x)
    z = np.empty_like(x)
    if rows:
        a, b, c = (np.ascontiguousarray(factor, like=factor) for factor in (a, b, c))
        _COMBINED[x.dtype.char](-(-rows // per_task), a, x, b, y, c, z, rows, length, per_task)
    return z


def _split(x: np.ndarray) -> tuple[int, int, int]:
    rows, length = x.shape
    return rows, length, CHUNK // max(length, 64) or 1
