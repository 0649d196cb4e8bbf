"""The protocol for arrays of other libraries, such as arrays on another device.

NumPy functions dispatch to such an array by NumPy's protocols, ``__array_ufunc__`` and ``__array_function__``. NumPy
has no protocol for the following, so the array provides it under these names:

    to_host()   a copy of the elements, as a NumPy array
    base        the array that owns the memory, always the same object; None if the array owns it itself
    data_ptr()  the address of the first element; addresses in one memory are compared, never dereferenced
"""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

Array = np.ndarray


def is_array(x: Any) -> TypeGuard[np.ndarray]:
    """Return whether x is an array of NumPy or of another library; a Tensor is not."""
    return isinstance(x, np.ndarray) or hasattr(x, "to_host")


def address(x: Array) -> int:
    """Return the address of the first element."""
    found: int = x.__array_interface__["data"][0] if isinstance(x, np.ndarray) else x.data_ptr()
    return found
