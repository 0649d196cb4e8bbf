"""Private copies of indices and masks for the backward."""

from __future__ import annotations

import numpy as np

from ...engine.operator import interpreted, interpreters, operator
from ...kernel_set import kernels

__all__: list[str] = []


@operator(dtypes="bihf")
def private(array: np.ndarray, recorded: bool = True) -> np.ndarray:
    """A copy of ``array``, which the user holds as well; ``array`` itself unless ``recorded``.

    Indices are checked in the forward pass and trusted afterwards, but ``tensor.numpy()`` lets users change them
    unnoticed. So arrays shared with the user are not saved.
    """
    if interpreters and (seen := interpreted(private, locals())) is not None:
        return seen
    if not recorded:
        return array
    return kernels.duplicate(array)
