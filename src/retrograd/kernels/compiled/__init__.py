"""The compiled kernels, for speed: arrays in, arrays out, with the signatures of ``retrograd.kernels.textbook``.

The textbook set documents what a kernel computes; a docstring here says how, where that is not obvious.

Each subject is a module and its ``_jit`` module; convolution and recurrent layers are folders of such pairs. The module
(``pooling.py``) has the wrappers, which check nothing, divide the work into tasks by shape and launch them, and makes
the plans, the integers that both modules read. ``pooling_jit.py`` has the body of one task, in the part of Python that
Numba compiles. Files without ``_jit`` import neither Numba nor machine code.

The subjects build on ``machine/`` (compiler, cache, threads, micro-kernels, vectors), ``memory/`` (copies and the
order of axes) and ``math/`` (exp, erf, sin ... of a register).

Terms used throughout:

- *lane*: one element of a vector register; a register of 512 bits has 16 lanes of float32.
- *micro-kernel*: machine code for one small matrix product, ``C += A @ B``, with C in registers, see ``machine``.
- *tile*: the rows and columns of C that one call of the micro-kernel computes.
- *panel*: the columns of a tile: as many of B and C as a few registers hold; the last panel may be narrower.
- *tail*: the columns of the last register of the last panel, 1 to the number of lanes.
- *entry*: one of the small products that the micro-kernel adds up in a tile, for a convolution one tap.
- *table*: the addresses of the rows that the entries read; an entry has a *slot* for each row of its tile.
- *line*: all positions along the last axis, W, at one index of the others.
- *task*: the unit of work of a thread; work is cut into tasks by shape, never by the number of threads.
- *part*: a range of tiles and panels, or of positions, that a task computes; each part has its *partial* sum.
- *plan*: all integers that a kernel needs for operands of some shapes, made once and cached; an array of int64.
- *record*: the fields of a plan, or of a task in it, by name; a *word* is one int64 of it (``machine/record.py``).
- *scratch*: memory of a thread that a kernel may write to, kept from call to call (``machine/scratch.py``).
"""

import types

from .attention import *
from .batch_norm_clamp import *
from .convolution.convolution import *
from .convolution.deformable import *
from .indexing import *
from .loss import *
from .lowbit import *
from .machine.launch import get_num_threads, set_num_threads
from .machine.precompile import warmup as warmup
from .matmul import *
from .memory.moves import *
from .moments import *
from .normalization import *
from .optimizer import *
from .pointwise import *
from .pointwise import KERNELS as _POINTWISE
from .pooling import *
from .random import *
from .recurrent.recurrent import *
from .reduction import *
from .reduction_grad import *

globals().update(_POINTWISE)
__all__ = [
    name for name, value in globals().items() if not name.startswith("_") and not isinstance(value, types.ModuleType)
]
