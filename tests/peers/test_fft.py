"""Fourier transforms, as pairs of real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd
from peers.compare import assert_agree, assert_close, normal

Z, X = normal(3, 5, 6, 2), normal(3, 5, 6)
ONE: list[dict[str, Any]] = [{}, {"n": 4}, {"n": 9, "dim": 1}, {"dim": 0}]
MANY: list[dict[str, Any]] = [{}, {"s": (4, 7)}, {"dim": (2, 0)}]


def _pairs(z: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(z.resolve_conj()) if z.is_complex() else z


@pytest.mark.parametrize("norm", [None, "forward", "backward", "ortho"])
@pytest.mark.parametrize(
    "name",
    (
        "fft",
        "ifft",
        "rfft",
        "irfft",
        "hfft",
        "ihfft",
        "fft2",
        "ifft2",
        "rfft2",
        "irfft2",
        "fftn",
        "ifftn",
        "rfftn",
        "irfftn",
        "hfft2",
        "hfftn",
        "ihfft2",
        "ihfftn",
    ),
)
def test_transforms(name: str, norm: str | None) -> None:
    of_reals = name in ("rfft", "ihfft", "rfft2", "rfftn", "ihfft2", "ihfftn")
    for options in ONE if name[-1] == "t" else MANY:

        def theirs(x: torch.Tensor, options: Any = options) -> torch.Tensor:
            z = x if of_reals else torch.view_as_complex(x)
            return _pairs(getattr(torch.fft, name)(z, norm=norm, **options))

        def mine(x: Any, options: Any = options) -> Any:
            return getattr(retrograd.fft, name)(x, norm=norm, **options)

        assert_agree(mine, theirs, X if of_reals else Z, second=norm is None)


def test_single_precision() -> None:
    x = X.astype(np.float32)
    assert_close(retrograd.fft.rfft(retrograd.tensor(x)), _pairs(torch.fft.rfft(torch.tensor(x))), "rfft")


@pytest.mark.parametrize("n", [1, 4, 7])
def test_helpers(n: int) -> None:
    for name in ("fftfreq", "rfftfreq"):
        assert_close(getattr(retrograd.fft, name)(n, 0.5), getattr(torch.fft, name)(n, 0.5), name)
    for name in ("fftshift", "ifftshift"):
        x = normal(n, 3)
        for dim in (None, 0, (0, 1)):
            mine = getattr(retrograd.fft, name)(retrograd.tensor(x), dim)
            assert_close(mine, getattr(torch.fft, name)(torch.tensor(x), dim), name)
    with pytest.raises(ValueError, match="fftfreq: n=0 must be at least 1"):
        retrograd.fft.fftfreq(0)


SOUND, SEEN = normal(2, 33), normal(2, 5, 7, 2)
FRAMES: list[dict[str, Any]] = [
    {},
    {"hop_length": 3, "center": False},
    {"win_length": 6, "hop_length": 2},
    {"normalized": True, "hop_length": 3},
    {"onesided": False},
]


@pytest.mark.parametrize("pad_mode", ["reflect", "constant", "replicate", "circular"])
@pytest.mark.parametrize("options", FRAMES, ids=str)
def test_stft(options: dict[str, Any], pad_mode: str) -> None:
    def spectrum(m: Any) -> Any:
        return lambda x, w: m.stft(x, 8, window=w, pad_mode=pad_mode, return_complex=m is torch, **options)

    window = np.abs(normal(options.get("win_length", 8))) + 0.1
    theirs = spectrum(torch)
    assert_agree(spectrum(retrograd), lambda x, w: _pairs(theirs(x, w)), SOUND, window)


@pytest.mark.filterwarnings("ignore:The length of signal is shorter than the length parameter")
@pytest.mark.parametrize("options", [*FRAMES[2:4], {}, {"length": 30}, {"length": 9}], ids=str)
def test_istft(options: dict[str, Any]) -> None:
    window = np.abs(normal(options.get("win_length", 8), seed=1)) + 0.5
    assert_agree(
        lambda y, w: y.istft(8, window=w, **options),
        lambda y, w: torch.view_as_complex(y).istft(8, window=w, **options),
        SEEN,
        window,
    )


def test_stft_of_pairs() -> None:
    x, window = normal(2, 21, 2), np.abs(normal(6)) + 0.5
    for m in (retrograd, torch):
        x_, w = m.tensor(x), m.tensor(window)
        y = m.stft(torch.view_as_complex(x_) if m is torch else x_, 6, 2, window=w, return_complex=True)
        z = m.istft(y, 6, 2, window=w, onesided=False, return_complex=True)
        if m is retrograd:
            ours = y, z
    for mine, yours in zip(ours, (y, z), strict=True):
        assert_close(mine, _pairs(yours), "stft of pairs")
