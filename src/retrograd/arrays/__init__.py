"""Memory of arrays: allocation, an arena with planned addresses, views, and values that the host reads.

What computes elements is a kernel (``retrograd.kernel_set``); what only makes an array, shows its memory in another way
or brings a value to Python is here. ``ops``, ``nn`` and ``optim`` call no function of NumPy on an array.

``like`` names an array of the same kind: the result is made where that array is. Models: NumPy's ``like=`` (NEP 35).
"""

from .allocation import (
    arange,
    copied_from_host,
    empty,
    empty_like,
    eye,
    from_buffer,
    from_dlpack,
    from_host,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from .arena import Arena, Layout, Lifetime, lay_out, span
from .foreign import address, is_array
from .host import (
    all_finite,
    all_true,
    any_below,
    any_nan,
    any_true,
    count_true,
    extremes,
    first_outside,
    first_true,
    increasing,
    integers,
    number,
    numbers,
    same,
    to_host,
    within,
)
from .views import (
    as_strided,
    broadcast_arrays,
    broadcast_to,
    diagonal,
    flip,
    moveaxis,
    of_bytes,
    overlap,
    repeated,
    shares_memory,
    windows,
)

__all__ = [
    "Arena", "Layout", "Lifetime", "address", "all_finite", "all_true", "any_below", "any_nan", "any_true", "arange",
    "as_strided", "broadcast_arrays", "broadcast_to", "copied_from_host", "count_true", "diagonal", "empty",
    "empty_like", "extremes", "eye", "first_outside", "first_true", "flip", "from_buffer", "from_dlpack", "from_host",
    "full", "full_like", "increasing", "integers", "is_array", "lay_out", "linspace", "moveaxis", "number", "numbers",
    "of_bytes", "ones", "ones_like", "overlap", "repeated", "same", "shares_memory", "span", "to_host", "windows",
    "within", "zeros", "zeros_like",
]  # fmt: skip
