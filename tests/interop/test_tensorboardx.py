"""A script that imports tensorboardX directly can log Tensors."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import retrograd as rg

pytest.importorskip("tensorboardX")


def test_tensors_are_taken() -> None:
    from tensorboardX import summary, x2num

    x = rg.rand(2, 3, requires_grad=True)
    np.testing.assert_array_equal(x2num.make_np(x), x.detach().numpy())
    assert summary.make_np is x2num.make_np
    assert summary.scalar("loss", (x * 0 + 2).mean()).value[0].simple_value == 2
    with pytest.raises(NotImplementedError):
        x2num.make_np(object())


@pytest.mark.parametrize(
    "first",
    [
        "import retrograd, tensorboardX",
        pytest.param("import tensorboardX, retrograd", marks=pytest.mark.nightly),
    ],
)
def test_in_either_order_of_imports(first: str) -> None:
    code = f"{first}\nfrom tensorboardX import summary\nprint(summary.make_np(retrograd.ones(2)).tolist())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "[1.0, 1.0]\n", done.stderr
