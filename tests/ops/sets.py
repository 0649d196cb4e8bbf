"""The kernel set of an operator or layer test that does not always run on both sets."""

from __future__ import annotations

import pytest

# For tests of what lies above the kernels, or of the compiled ones alone: of the textbook set they show little.
textbook_at_night = pytest.mark.parametrize(
    "kernel_set", ["compiled", pytest.param("textbook", marks=pytest.mark.nightly)], indirect=True
)
