"""Arrays of other libraries, such as ones on another device, and what they bring along.

Functions of NumPy hand their work to such an array by NumPy's protocols, ``__array_ufunc__`` and
``__array_function__``. NumPy has no protocol for the rest, so the array has it under these names:

    to_host()   a copy of the elements, as an array of NumPy
    base        the array that owns the memory, always the same object; None if the array owns it itself
    data_ptr()  the address of the first element; addresses in one memory are compared, and never read
"""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

Array = np.ndarray


def is_array(x: Any) -> TypeGuard[np.ndarray]:
    """Whether x is an array, of NumPy or of another library; a Tensor is none."""
    return isinstance(x, np.ndarray) or hasattr(x, "to_host")


def address(x: Array) -> int:
    """The address of the first element."""
    found: int = x.__array_interface__["data"][0] if isinstance(x, np.ndarray) else x.data_ptr()
    return found
