from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import retrograd
from retrograd.engine.tensor import Tensor
from retrograd.ops.kernel_set import active_kernels, kernels, use_kernels


def test_sets_at_once_and_restores() -> None:
    before = active_kernels()
    with use_kernels("textbook") as chosen:
        assert active_kernels() == "textbook" and repr(chosen) == "use_kernels('textbook')"
        assert kernels.add.__module__.startswith("retrograd.textbook")
        with pytest.raises(ZeroDivisionError), use_kernels("compiled"):
            raise ZeroDivisionError
        assert active_kernels() == "textbook"
    assert active_kernels() == before
    use_kernels("textbook")
    assert active_kernels() == "textbook"
    with pytest.raises(ValueError, match="name='fast' is not a kernel set; choose one of compiled, textbook"):
        use_kernels("fast")
    assert active_kernels() == "textbook"


def test_a_missing_kernel_is_named() -> None:
    with (
        use_kernels("textbook"),
        pytest.raises(AttributeError, match=r"'textbook' \(retrograd.textbook\) has no kernel 'fft'"),
    ):
        kernels.fft(np.zeros(2))


def test_a_set_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "retrograd.kernels", None)
    with (
        use_kernels("compiled"),
        pytest.raises(
            ImportError, match=r"'compiled' \(retrograd.kernels\) cannot be imported.*use_kernels\('textbook'\)"
        ),
    ):
        Tensor(np.ones(2)) + Tensor(np.ones(2))


@pytest.mark.parametrize("module", ["numba", "llvmlite", "torch", "matplotlib"])
def test_import_is_light(module: str) -> None:
    code = f"import sys, retrograd; raise SystemExit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_public_names() -> None:
    names = retrograd.__all__
    assert names == sorted(names) and len(set(names)) == len(names)
    for name in names:
        assert getattr(retrograd, name) is not None
    assert set(names) <= set(dir(retrograd))
    with pytest.raises(AttributeError, match="module 'retrograd' has no attribute 'gpu'"):
        retrograd.gpu  # noqa: B018
