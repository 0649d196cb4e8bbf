"""The kernel set of operator and layer tests that do not always run on both sets."""

from __future__ import annotations

import pytest

# For tests of code above the kernels, or of the compiled kernels alone: with the textbook kernels they show little.
textbook_at_night = pytest.mark.parametrize(
    "kernel_set", ["compiled", pytest.param("textbook", marks=pytest.mark.nightly)], indirect=True
)
