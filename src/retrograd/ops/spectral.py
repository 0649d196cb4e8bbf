"""Short-time Fourier transforms and their window functions.

Complex numbers are pairs, see ``retrograd.fft``. NumPy computes the symmetric window functions.

Source of the inverse: D. Griffin, J. Lim, "Signal estimation from modified short-time Fourier transform", 1984.
Source of the windows: A. Oppenheim, R. Schafer, "Discrete-Time Signal Processing".
"""

from __future__ import annotations

from typing import Any, Unpack

from ..arrays import all_true, from_host, integers, number, ones, zeros_like
from ..engine.operator import interpreted, interpreters, operator
from ..engine.tensor import Tensor, wrap
from ..kernel_set import kernels
from .argument_checks import as_flag, as_int, as_real, require_float
from .device import Options, check_options
from .dtypes.dtype import DTypeLike, as_dtype, converted
from .fourier import ComplexFft, RealFft, inverse_of_half, inverse_of_pairs
from .shape.broadcasting import expand
from .shape.join import stack
from .shape.padding import MODES, pad
from .shape.shape import movedim, transpose, unsqueeze
from .shape.sliding_windows import AddWindows, sliding

__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "istft", "kaiser_window", "stft"]


# ---- Short-time Fourier transforms ----------------------------------------------------------------------------------

_SMALLEST = 1e-11  # lower limit of the sum of squared windows, by which the inverse divides


@operator(records=(ComplexFft, RealFft), methods="stft")
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Compute the Fourier transforms of frames of ``n_fft`` samples, one every ``hop_length`` samples.

    The result is pairs (K, T, 2) or (N, K, T, 2).

    input: real (L,) or (N, L), or pairs (N, L, 2); T frames, K frequencies
    hop_length: n_fft // 4 by default
    window: a Tensor (win_length,) that multiplies each frame, by default ones. If win_length is below n_fft, its
        default, the window is zero-padded on both sides.
    center: first pad the signal by n_fft // 2 on both sides, with ``nn.functional.pad`` in ``pad_mode``, so that frame
        t is centered at sample t * hop_length
    normalized: divide by sqrt(n_fft)
    onesided: return only the frequencies 0 to n_fft // 2, whose conjugates are the others; the default for real input
    return_complex: no effect. There is no complex type, and the result is pairs, as PyTorch returns for False.
        The magnitude is ``hypot(y[..., 0], y[..., 1])``; ``y.abs()`` would be that of each part.
    align_to_window: without ``center``, add zeros at both ends, so that the window of the first frame starts at the
        first sample

    Raises:
        TypeError: input or window is not a floating-point Tensor, or a size is not an int.
        ValueError: a size is out of range, a shape does not fit, ``onesided`` is True for pairs, or
            ``align_to_window`` is combined with ``center``.
    """
    if interpreters and (seen := interpreted(stft, locals())) is not None:
        return seen
    center, normalized = as_flag("stft", "center", center), as_flag("stft", "normalized", normalized)
    onesided, align = _choice("stft", "onesided", onesided), _choice("stft", "align_to_window", align_to_window)
    _choice("stft", "return_complex", return_complex)
    require_float("stft", input)
    shape = input.array.shape
    if len(shape) not in (1, 2, 3) or (len(shape) == 3 and shape[-1] != 2):
        raise ValueError(f"stft: input.shape={shape} must be real (L,) or (N, L), or pairs (N, L, 2)")
    of_pairs = len(shape) == 3
    if of_pairs and onesided:
        raise ValueError("stft: onesided=True needs a real input; the transform of pairs has no redundant half")
    if center and align is not None:
        raise ValueError("stft: align_to_window is for center=False; leave it out")
    count, hop, size = _sizes("stft", n_fft, hop_length, win_length)
    x = movedim(input, -1, 1) if of_pairs else unsqueeze(input, -2)  # (N, parts, L)
    x = x if len(shape) > 1 else unsqueeze(x, 0)
    if center:
        x = _centered(x, count // 2, pad_mode)
    elif align and size < count:
        x = pad(x, [(count - size) // 2, count - size - (count - size) // 2])
    if x.array.shape[-1] < count:
        raise ValueError(f"stft: n_fft={count} must be at most the length {x.array.shape[-1]} of the signal")
    frames = sliding(x, -1, count, hop)  # (N, parts, T, n_fft)
    weights = _window("stft", window, size, count, input)
    if weights is not None:
        frames = frames * weights
    factor = count**-0.5 if normalized else 1.0
    if of_pairs:
        y = ComplexFft.apply(movedim(frames, 1, -1), (2,), False, factor)
    elif onesided is None or onesided:
        y = RealFft.apply(frames[:, 0], 2, False, factor)
    else:
        real = frames[:, 0]
        y = ComplexFft.apply(stack((real, wrap(zeros_like(real.array))), -1), (2,), False, factor)
    y = transpose(y, 1, 2)
    return y if len(shape) > 1 else y[0]


@operator(records=AddWindows, methods="istft")
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal (L,) or (N, L) whose ``stft`` is closest to input, pairs (K, T, 2) or (N, K, T, 2).

    The frames are multiplied by the window, summed at their positions, and divided by the sum of the squared windows.

    n_fft, hop_length, win_length, window, center, normalized: as for ``stft``
    onesided: input has only the frequencies 0 to n_fft // 2, by default if K is not n_fft
    length: L; by default the samples up to the last frame, without the padding of ``center``. A longer signal
        is zero-padded.
    return_complex: input is the transform of pairs, and the result is pairs (L, 2) or (N, L, 2)

    Raises:
        TypeError: input or window is not a floating-point Tensor, or a size is not an int.
        ValueError: a size is out of range, a shape does not fit, ``return_complex`` is True for one half of the
            frequencies, or the squared windows add up to 0 somewhere.
    """
    if interpreters and (seen := interpreted(istft, locals())) is not None:
        return seen
    center, normalized = as_flag("istft", "center", center), as_flag("istft", "normalized", normalized)
    onesided, pairs = _choice("istft", "onesided", onesided), as_flag("istft", "return_complex", return_complex)
    require_float("istft", input)
    shape = input.array.shape
    count, hop, size = _sizes("istft", n_fft, hop_length, win_length)
    if len(shape) not in (3, 4) or shape[-1] != 2 or not shape[-2]:
        raise ValueError(
            f"istft: input.shape={shape} must be pairs (K, T, 2) or (N, K, T, 2), of K frequencies and T frames"
        )
    if onesided is None:
        onesided = shape[-3] != count
    if onesided and pairs:
        raise ValueError("istft: return_complex=True needs all frequencies; pass onesided=False to stft and istft")
    if shape[-3] != (count // 2 + 1 if onesided else count):
        raise ValueError(
            f"istft: input.shape={shape} has K={shape[-3]} frequencies, needs {count // 2 + 1 if onesided else count} "
            f"for n_fft={count} and onesided={onesided}"
        )
    if hop > size:
        raise ValueError(f"istft: hop_length={hop} must be at most win_length={size}: samples between frames are lost")
    x = transpose(input if len(shape) == 4 else unsqueeze(input, 0), 1, 2)  # (N, T, K, 2)
    norm = "ortho" if normalized else "backward"
    if pairs:
        frames = movedim(inverse_of_pairs("istft", x, count, 2, norm), -1, 1)
    else:
        frames = unsqueeze(inverse_of_half("istft", x[:, :, : count // 2 + 1], count, 2, norm), 1)
    weights = _window("istft", window, size, count, input)
    if weights is None:
        weights = wrap(ones(count, input.array.dtype, like=input.array))
    batch, parts, times = frames.array.shape[:3]
    whole = count + hop * (times - 1)
    y = _overlapped(frames * weights, batch, parts, whole, hop)
    sums = _overlapped(expand(weights * weights, (1, 1, times, count)), 1, 1, whole, hop)
    y = _cut(y, sums, count // 2 if center else 0, whole - count // 2 if center else whole, length)
    y = movedim(y, 1, -1) if pairs else y[:, 0]
    return y if len(shape) == 4 else y[0]


def _choice(name: str, label: str, value: Any) -> bool | None:
    return None if value is None else as_flag(name, label, value)


def _sizes(name: str, n_fft: Any, hop_length: Any, win_length: Any) -> tuple[int, int, int]:
    count = as_int(name, "n_fft", n_fft)
    if count < 1:
        raise ValueError(f"{name}: n_fft={n_fft} must be at least 1")
    hop = count // 4 if hop_length is None else as_int(name, "hop_length", hop_length)
    if hop < 1:
        default = " by default, n_fft // 4," if hop_length is None else ""
        raise ValueError(f"{name}: hop_length={hop}{default} must be at least 1")
    size = count if win_length is None else as_int(name, "win_length", win_length)
    if not 1 <= size <= count:
        raise ValueError(f"{name}: win_length={win_length} must be from 1 to n_fft={count}")
    return count, hop, size


def _window(name: str, window: Any, size: int, count: int, input: Tensor) -> Tensor | None:
    """Return the window zero-padded to (n_fft,); None for ones."""
    if window is None:
        if size == count:
            return None
        window = wrap(ones(size, input.array.dtype, like=input.array))
    require_float(name, window, "window")
    if window.array.shape != (size,):
        raise ValueError(f"{name}: window.shape={window.array.shape} must be ({size},), for win_length={size}")
    before = (count - size) // 2
    return pad(window, [before, count - size - before]) if size < count else window


def _centered(x: Tensor, around: int, mode: str) -> Tensor:
    length = x.array.shape[-1]
    if mode not in MODES:
        raise ValueError(f"stft: pad_mode={mode!r} must be one of {', '.join(MODES)}")
    most = {"reflect": length - 1, "circular": length, "replicate": around if length else 0}.get(mode, around)
    if around > most:
        raise ValueError(
            f"stft: center=True adds n_fft // 2 = {around} samples on both sides, but pad_mode={mode!r} gives at most "
            f'{max(most, 0)} for a signal of {length}; use a smaller n_fft, pad_mode="constant" or center=False'
        )
    return pad(x, [around, around], mode)


def _overlapped(frames: Tensor, batch: int, parts: int, whole: int, hop: int) -> Tensor:
    """Add frames (N, parts, T, n_fft) at their positions: (N, parts, whole)."""
    return AddWindows.apply(frames, (batch, parts, whole), (2,), (frames.array.shape[-1],), (hop,), (1,))


def _cut(y: Tensor, sums: Tensor, start: int, stop: int, length: Any) -> Tensor:
    """Crop y to start at ``start``, divide by the sums, and zero-pad to the length."""
    whole = y.array.shape[-1]
    if length is not None:
        samples = as_int("istft", "length", length)
        if samples < 1:
            raise ValueError(f"istft: length={length} must be at least 1")
        stop = start + samples
    if min(stop, whole) <= start:
        raise ValueError(
            f"istft: the frames have {whole} samples, and without the padding of center=True none is left; pass length"
        )
    y, sums = y[..., start:stop], sums[..., start:stop]
    least = from_host(_SMALLEST, sums.array.dtype, like=sums.array)
    enough = kernels.le(least, kernels.abs(sums.array))
    if not all_true(enough, "whether the windows cover all samples"):
        place = integers(enough.reshape(-1), "which sample the windows do not cover").index(0)
        found = number(sums.array.reshape(-1)[place], "the sum of the squared windows")
        raise ValueError(
            f"istft: the squared windows add up to {found:.3g} at sample {place}, so the signal is "
            "not determined there; use a smaller hop_length, a window without zeros at its ends, or center=True"
        )
    y = y / sums
    return pad(y, [0, stop - whole]) if stop > whole else y


# ---- Window functions ------------------------------------------------------------------------------------------------


@operator(by_shape=True, dtypes="")
def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """The triangular window: 1 - |2 n / N - 1|, N = window_length if ``periodic``, else window_length - 1

    Raises:
        ValueError: window_length is negative.
    """
    if interpreters and (seen := interpreted(bartlett_window, locals())) is not None:
        return seen
    return _window_tensor("bartlett_window", window_length, periodic, (), dtype, requires_grad, options)


@operator(by_shape=True, dtypes="")
def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """The Blackman window: 0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N).

    N = window_length if ``periodic``, else window_length - 1

    Raises:
        ValueError: window_length is negative.
    """
    if interpreters and (seen := interpreted(blackman_window, locals())) is not None:
        return seen
    return _window_tensor("blackman_window", window_length, periodic, (), dtype, requires_grad, options)


@operator(by_shape=True, dtypes="")
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """The Hamming window: alpha - beta cos(2 pi n / N), N = window_length if ``periodic``, else window_length - 1

    Raises:
        ValueError: window_length is negative.
    """
    if interpreters and (seen := interpreted(hamming_window, locals())) is not None:
        return seen
    return _window_tensor("hamming_window", window_length, periodic, (alpha, beta), dtype, requires_grad, options)


@operator(by_shape=True, dtypes="")
def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """The Hann window: sin(pi n / N)**2, N = window_length if ``periodic``, else window_length - 1

    Raises:
        ValueError: window_length is negative.
    """
    if interpreters and (seen := interpreted(hann_window, locals())) is not None:
        return seen
    return _window_tensor("hann_window", window_length, periodic, (), dtype, requires_grad, options)


@operator(by_shape=True, dtypes="")
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: DTypeLike = None,
    requires_grad: bool = False,
    **options: Unpack[Options],
) -> Tensor:
    """The Kaiser window: i0(beta sqrt(1 - (2 n / N - 1)**2)) / i0(beta).

    N = window_length if ``periodic``, else window_length - 1

    Raises:
        ValueError: window_length is negative.
    """
    if interpreters and (seen := interpreted(kaiser_window, locals())) is not None:
        return seen
    width = as_real("kaiser_window", "beta", beta)
    return _window_tensor("kaiser_window", window_length, periodic, (width,), dtype, requires_grad, options)


def _window_tensor(
    name: str,
    length: Any,
    periodic: Any,
    numbers: tuple[float, ...],
    dtype: Any,
    requires_grad: bool,
    options: Options,
) -> Tensor:
    """Compute a symmetric window, or for a periodic one the symmetric window of length + 1 without its last element."""
    check_options(name, options)
    count = as_int(name, "window_length", length)
    if count < 0:
        raise ValueError(f"{name}: window_length={length} must be at least 0")
    more = as_flag(name, "periodic", periodic) and count > 1
    found = kernels.window_function(name.removesuffix("_window"), count + more, numbers)[:count]
    kind = as_dtype(dtype, default=True)
    if kind.kind != "f":
        raise ValueError(f"{name}: dtype={kind} must be a floating-point type")
    return Tensor(converted(found, kind), requires_grad, device=options.get("device"))
