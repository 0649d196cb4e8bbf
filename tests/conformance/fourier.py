"""Cases of Fourier transforms, against their sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.table import Op, Refusal, beside, normal, uniform
from retrograd import fft, istft, stft

X, Z = normal(3, 5, 4), normal(3, 5, 4, 2)


def resized(x: np.ndarray, axis: int, n: int | None) -> np.ndarray:
    n = x.shape[axis] if n is None else n
    cut = np.moveaxis(np.moveaxis(x, axis, 0)[:n], 0, axis)
    width = [(0, n - cut.shape[axis] if a == axis % x.ndim else 0) for a in range(x.ndim)]
    return np.pad(cut, width)


def summed(z: np.ndarray, axes: Any, sign: int) -> np.ndarray:
    """y[k] = sum over j of z[j] exp(sign 2 pi i j k / n), axis after axis."""
    for axis in axes:
        n = z.shape[axis]
        j = np.arange(n)
        z = np.moveaxis(np.moveaxis(z, axis, -1) @ np.exp(sign * 2j * np.pi * np.outer(j, j) / n), -1, axis)
    return z


def transform(sign: int, axes: Any, real: bool = False, power: float = 0) -> Any:
    """The oracle: extents, the sums, the factor; of real numbers the half."""

    def of(x: np.ndarray, s: Any = None, dim: Any = None, norm: Any = None) -> np.ndarray:
        z = x + 0j if real else x[..., 0] + 1j * x[..., 1]
        extents = s if isinstance(s, tuple) else (s,) * len(axes)
        for axis, n in zip(axes, extents, strict=True):
            z = resized(z, axis, n)
        count = np.prod([z.shape[axis] for axis in axes])
        y = summed(z, axes, sign) * float(count) ** (-0.5 if norm == "ortho" else power)
        if real:
            y = np.moveaxis(np.moveaxis(y, axes[-1], -1)[..., : y.shape[axes[-1]] // 2 + 1], -1, axes[-1])
        return np.stack((y.real, y.imag), -1)

    return of


def of_half(sign: int, axes: Any, power: float) -> Any:
    """The oracle of results that are real: the other half are the conjugates, the ends count as real."""

    def of(x: np.ndarray, s: Any = None, dim: Any = None, norm: Any = None) -> np.ndarray:
        z = x[..., 0] + 1j * x[..., 1]
        last = axes[-1]
        n = (s[-1] if isinstance(s, tuple) else s) or 2 * (z.shape[last] - 1)
        z = summed(z, axes[:-1], sign)
        z = np.moveaxis(resized(z, last, n // 2 + 1), last, -1)
        full = np.zeros((*z.shape[:-1], n), complex)
        full[..., 0] = z[..., 0].real
        for k in range(1, n // 2 + 1):
            full[..., k] += z[..., k] / (2 if 2 * k == n else 1)
            full[..., n - k] += z[..., k].conj() / (2 if 2 * k == n else 1)
        y = summed(np.moveaxis(full, -1, last), (last,), sign).real
        count = n * np.prod([y.shape[axis] for axis in axes[:-1]])
        return y * float(count) ** (-0.5 if norm == "ortho" else power)

    return of


def cropped(oracle: Any, extents: Any) -> Any:
    """The oracle, of the last axes cropped to the extents first."""

    def of(z: np.ndarray, s: Any) -> np.ndarray:
        return oracle(z[:, : extents[0], : extents[1]], s)

    return of


def padded(x: np.ndarray, around: int, mode: str) -> np.ndarray:
    return np.pad(x, ((0, 0), (around, around)), {"replicate": "edge", "circular": "wrap"}.get(mode, mode))


def spectrogram(
    x: np.ndarray,
    n: int,
    hop: int,
    window: np.ndarray,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool = True,
) -> np.ndarray:
    """The sums over each frame; a complex signal is (N, L, 2), a short window lies in the middle of the frame."""
    z = x + 0j if x.ndim == 2 else x[..., 0] + 1j * x[..., 1]
    z = padded(z, n // 2, pad_mode) if center else z
    weights = np.zeros(n)
    weights[(n - len(window)) // 2 :][: len(window)] = window
    times = range(0, z.shape[1] - n + 1, hop)
    y = np.zeros((len(z), n // 2 + 1 if onesided else n, len(times)), complex)
    for t, begin in enumerate(times):
        for k in range(y.shape[1]):
            wave = np.exp(-2j * np.pi * k * np.arange(n) / n)
            y[:, k, t] = (z[:, begin : begin + n] * weights * wave).sum(-1) / (n**0.5 if normalized else 1)
    return np.stack((y.real, y.imag), -1)


def overlapped(
    y: np.ndarray,
    n: int,
    hop: int,
    window: np.ndarray,
    start: int,
    stop: int,
    normalized: bool = False,
    onesided: bool = True,
) -> np.ndarray:
    """The complex sum of the inverse transforms of all frames over that of the squared windows, from start to stop."""
    z = y[..., 0] + 1j * y[..., 1]
    whole = n + hop * (z.shape[2] - 1)
    total, squares = np.zeros((len(z), max(whole, stop)), complex), np.zeros(max(whole, stop))
    weights = np.zeros(n)
    weights[(n - len(window)) // 2 :][: len(window)] = window
    for t in range(z.shape[2]):
        for j in range(n):
            value = 0.0
            for k in range(z.shape[1]):
                term = z[:, k, t] * np.exp(2j * np.pi * j * k / n)
                alone = not onesided or k == 0 or 2 * k == n
                value = value + (term if not onesided else term.real if alone else 2 * term.real)
            total[:, t * hop + j] += value * weights[j] / (n**0.5 if normalized else n)
            squares[t * hop + j] += weights[j] ** 2
    return (total / np.where(squares, squares, 1))[:, start:stop]


def pairs_of(z: np.ndarray) -> np.ndarray:
    return np.stack((z.real, z.imag), -1)


def istft_oracle(y: np.ndarray, n: int, hop: int, _: Any, window: np.ndarray) -> np.ndarray:
    return overlapped(y, n, hop, window, n // 2, n // 2 + hop * (y.shape[2] - 1) + n % 2).real


ALL = (0, 1, 2)
SIGNAL, FRAMES = normal(3, 17, seed=4), normal(3, 5, 4, 2, seed=5)
WINDOW, SHORT = uniform(0.5, 1.5, 8), uniform(0.5, 1.5, 5)
REFUSALS = [
    Refusal(ValueError, "must end in 2, the real and the imaginary part; retrograd.stack((re, im), -1) makes", X),
    Refusal(ValueError, "norm='both' must be None, 'forward', 'backward' or 'ortho'", Z, norm="both"),
]

OPERATORS = [
    Op(
        "fft.fft",
        fft.fft,
        Z,
        oracle=transform(-1, (-1,)),
        batch=(0,),
        integers=True,
        errors=[
            *REFUSALS,
            Refusal(ValueError, "fft: n=0 must be at least 1", Z, 0),
            Refusal(IndexError, "fft: dim=3 is out of range", Z, dim=3),
        ],
    ),
    Op("fft.fft: cut", fft.fft, Z, 3, 1, "ortho", batch=(0,), oracle=transform(-1, (1,)), linear=True),
    Op("fft.ifft", fft.ifft, Z, 6, oracle=transform(1, (-1,), power=-1), linear=True),
    Op("fft.fft2", fft.fft2, Z, oracle=transform(-1, (1, 2)), linear=True),
    Op("fft.ifft2", fft.ifft2, Z, (3, 5), oracle=transform(1, (1, 2), power=-1), linear=True),
    Op(
        "fft.fftn",
        fft.fftn,
        Z,
        batch=(),
        oracle=transform(-1, ALL),
        linear=True,
        errors=[
            Refusal(
                ValueError, "fftn: s=(2, 2) must name as many extents as there are axes, dim=(0,)", Z, (2, 2), (0,)
            ),
        ],
    ),
    Op("fft.ifftn", fft.ifftn, Z, batch=(), oracle=transform(1, ALL, power=-1), linear=True),
    Op(
        "fft.rfft",
        fft.rfft,
        X,
        oracle=transform(-1, (-1,), True),
        linear=True,
        integers=True,
        errors=[
            Refusal(ValueError, "rfft: input.shape=() has no axis to transform", normal()),
        ],
    ),
    Op("fft.rfft: odd", fft.rfft, X, 7, 1, "ortho", oracle=transform(-1, (1,), True), linear=True),
    Op("fft.rfft2", fft.rfft2, X, oracle=transform(-1, (1, 2), True), linear=True),
    Op("fft.rfftn", fft.rfftn, X, batch=(), oracle=transform(-1, ALL, True), linear=True),
    Op("fft.ihfft", fft.ihfft, X, oracle=transform(1, (-1,), True, -1), linear=True),
    Op(
        "fft.irfft",
        fft.irfft,
        Z,
        oracle=of_half(1, (-1,), -1),
        linear=True,
        integers=True,
        errors=[
            *REFUSALS,
            Refusal(ValueError, "irfft: input.shape=(3, 5, 1, 2) gives a result without elements", Z[:, :, :1]),
        ],
    ),
    Op("fft.irfft: odd", fft.irfft, Z, 9, 1, "ortho", oracle=of_half(1, (1,), -1), linear=True),
    Op("fft.irfft2", fft.irfft2, Z, oracle=of_half(1, (1, 2), -1), linear=True),
    Op("fft.irfftn", fft.irfftn, Z, batch=(), oracle=of_half(1, ALL, -1), linear=True),
    Op("fft.hfft", fft.hfft, Z, oracle=of_half(-1, (-1,), 0), linear=True),
    Op(
        "fft.hfft2",
        fft.hfft2,
        Z,
        oracle=of_half(-1, (1, 2), 0),
        linear=True,
        errors=[
            REFUSALS[1],
            Refusal(ValueError, "hfft2: input.shape=(3, 5, 4) must end in 2, the real and", X),
        ],
    ),
    Op("fft.hfft2: extents", fft.hfft2, Z, (4, 5), oracle=cropped(of_half(-1, (1, 2), 0), (4, None)), linear=True),
    Op("fft.hfftn", fft.hfftn, Z, batch=(), kwargs={"norm": "ortho"}, oracle=of_half(-1, ALL, 0), linear=True),
    Op("fft.ihfft2", fft.ihfft2, X, oracle=transform(1, (1, 2), True, -1), linear=True),
    Op("fft.ihfft2: extents", fft.ihfft2, X, (3, 7), (1, 2), "ortho", oracle=transform(1, (1, 2), True), linear=True),
    Op(
        "fft.ihfftn",
        fft.ihfftn,
        X,
        batch=(),
        oracle=transform(1, ALL, True, -1),
        linear=True,
        errors=[
            Refusal(
                ValueError, "ihfftn: s=(2, 2) must name as many extents as there are axes, dim=(0,)", X, (2, 2), (0,)
            ),
        ],
    ),
    Op(
        "stft",
        stft,
        SIGNAL,
        8,
        3,
        None,
        WINDOW,
        oracle=lambda x, n, hop, _, w: spectrogram(x, n, hop, w),
        errors=[
            Refusal(ValueError, "stft: input.shape=(3, 5, 4) must be real (L,) or (N, L), or pairs (N, L, 2)", X, 4),
            Refusal(ValueError, "stft: n_fft=0 must be at least 1", SIGNAL, 0),
            Refusal(ValueError, "stft: n_fft=18 must be at most the length 17 of the signal", SIGNAL, 18, center=False),
            Refusal(
                ValueError,
                "adds n_fft // 2 = 17 samples on both sides, but pad_mode='reflect' gives at most 16",
                SIGNAL,
                34,
            ),
            Refusal(
                ValueError, "stft: pad_mode='mirror' must be one of constant, reflect", SIGNAL, 8, pad_mode="mirror"
            ),
            Refusal(ValueError, "stft: hop_length=0 by default, n_fft // 4, must be at least 1", SIGNAL, 3),
            Refusal(ValueError, "stft: hop_length=-1 must be at least 1", SIGNAL, 8, -1),
            Refusal(ValueError, "stft: win_length=9 must be from 1 to n_fft=8", SIGNAL, 8, 2, 9),
            Refusal(ValueError, "stft: window.shape=(5,) must be (8,), for win_length=8", SIGNAL, 8, window=SHORT),
            Refusal(
                TypeError, "stft: window is int64, needs float32 or float64", SIGNAL, 8, window=np.ones(8, np.int64)
            ),
            Refusal(TypeError, "stft: n_fft=8.0 must be an int", SIGNAL, 8.0),
            Refusal(TypeError, "stft: return_complex=2 must be True or False", SIGNAL, 8, return_complex=2),
            Refusal(ValueError, "stft: onesided=True needs a real input", FRAMES[0], 2, 1, onesided=True),
            Refusal(
                ValueError, "stft: align_to_window is for center=False; leave it out", SIGNAL, 8, align_to_window=True
            ),
        ],
    ),
    Op(
        "stft: odd, short window, normalized",
        stft,
        SIGNAL,
        9,
        2,
        5,
        SHORT,
        True,
        "circular",
        True,
        oracle=lambda x, n, hop, _, w, *more: spectrogram(x, n, hop, w, *more),
    ),
    Op(
        "stft: two-sided, without padding",
        stft,
        SIGNAL,
        8,
        4,
        5,
        SHORT,
        False,
        kwargs={"onesided": False},
        oracle=lambda x, n, hop, _, w, center, onesided: spectrogram(x, n, hop, w, center, onesided=onesided),
    ),
    Op(
        "stft: pairs",
        stft,
        normal(2, 13, 2),
        6,
        2,
        None,
        WINDOW[:6],
        kwargs={"pad_mode": "constant"},
        oracle=lambda x, n, hop, _, w, pad_mode: spectrogram(x, n, hop, w, True, pad_mode, onesided=False),
    ),
    Op("stft: no window", stft, SIGNAL, 8, oracle=lambda x, n: spectrogram(x, n, 2, np.ones(8)), linear=True),
    Op(
        "stft: one signal",
        stft,
        SIGNAL[0],
        8,
        3,
        batch=(),
        linear=True,
        oracle=lambda x, n, hop: spectrogram(x[None], n, hop, np.ones(8))[0],
    ),
    Op(
        "stft: aligned",
        stft,
        SIGNAL,
        8,
        3,
        5,
        SHORT,
        False,
        kwargs={"align_to_window": True},
        oracle=lambda x, n, hop, _, w, center, align_to_window: spectrogram(
            np.pad(x, ((0, 0), (1, 2))), n, hop, w, center
        ),
    ),
    Op(
        "istft",
        istft,
        FRAMES,
        8,
        3,
        None,
        WINDOW,
        oracle=istft_oracle,
        errors=[
            Refusal(ValueError, "istft: input.shape=(3, 17) must be pairs (K, T, 2) or (N, K, T, 2)", SIGNAL, 8),
            Refusal(ValueError, "istft: input.shape=(3, 5, 0, 2) must be pairs", FRAMES[:, :, :0], 8),
            Refusal(
                ValueError,
                "istft: input.shape=(3, 5, 4, 2) has K=5 frequencies, needs 4 for n_fft=6 and onesided=",
                FRAMES,
                6,
            ),
            Refusal(ValueError, "K=5 frequencies, needs 8 for n_fft=8 and onesided=False", FRAMES, 8, onesided=False),
            Refusal(
                ValueError,
                "istft: return_complex=True needs all frequencies; pass onesided=False",
                FRAMES,
                8,
                return_complex=True,
            ),
            Refusal(ValueError, "istft: hop_length=6 must be at most win_length=5", FRAMES, 8, 6, 5),
            Refusal(ValueError, "istft: length=0 must be at least 1", FRAMES, 8, length=0),
            Refusal(
                ValueError,
                "the frames have 8 samples, and without the padding of center=True none is left",
                FRAMES[:, :, :1],
                8,
            ),
            Refusal(
                ValueError,
                "istft: the squared windows add up to 0 at sample 0, so the signal is not determined",
                FRAMES,
                8,
                2,
                None,
                np.arange(8.0),
                False,
            ),
        ],
    ),
    Op(
        "istft: odd, longer, normalized",
        istft,
        FRAMES,
        9,
        2,
        None,
        uniform(0.5, 1.5, 9),
        True,
        True,
        None,
        13,
        oracle=lambda y, n, hop, _, w, center, normalized, onesided, length: (
            overlapped(y, n, hop, w, n // 2, n // 2 + length, normalized).real
        ),
    ),
    Op(
        "istft: pairs",
        istft,
        FRAMES,
        5,
        2,
        None,
        SHORT,
        False,
        kwargs={"return_complex": True},
        oracle=lambda y, n, hop, _, w, center, return_complex: pairs_of(
            overlapped(y, n, hop, w, 0, n + hop * 3, onesided=False)
        ),
    ),
    Op(
        "istft: half of all frequencies",
        istft,
        FRAMES,
        5,
        2,
        None,
        SHORT,
        False,
        kwargs={"onesided": False},
        oracle=lambda y, n, hop, _, w, center, onesided: overlapped(y[:, :3], n, hop, w, 0, n + hop * 3).real,
    ),
    Op(
        "istft: one signal, no window",
        istft,
        FRAMES[0],
        8,
        batch=(),
        linear=True,
        oracle=lambda y, n: overlapped(y[None], n, 2, np.ones(8), 4, 10).real[0],
    ),
    Op(
        "istft: what was transformed",
        lambda x: istft(stft(x, 8, window=beside(x, WINDOW)), 8, window=beside(x, WINDOW), length=17),
        SIGNAL,
        oracle=lambda x: x,
        linear=True,
    ),
    Op(
        "fft.fftshift",
        fft.fftshift,
        X,
        (1, 2),
        linear=True,
        oracle=lambda x, d: x[:, [3, 4, 0, 1, 2]][:, :, [2, 3, 0, 1]],
    ),
    Op("fft.ifftshift", fft.ifftshift, X, 1, linear=True, oracle=lambda x, d: x[:, [2, 3, 4, 0, 1]]),
]
