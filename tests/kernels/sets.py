"""The kernel set of a test that does not always run on both sets."""

from __future__ import annotations

import pytest

import retrograd.kernels.compiled
import retrograd.kernels.textbook

# For tests of how the compiled kernels divide their work into tasks, blocks and forms. On the textbook set, which does
# not divide it, they would show little and take as long.
textbook_at_night = pytest.mark.parametrize(
    "kernel_set",
    [
        pytest.param(retrograd.kernels.compiled, id="compiled"),
        pytest.param(retrograd.kernels.textbook, id="textbook", marks=pytest.mark.nightly),
    ],
)
