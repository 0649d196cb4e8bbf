"""HTML representation of a Tensor in a notebook: shape, type, range and a thumbnail.

Values are blue if negative, white at 0, orange if positive. If all have one sign, they range from white to dark blue.
NaN is magenta. Larger arrays are drawn with every n-th element.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from html import escape

import numpy as np

from .._files.terminal import bytes_text, display_name
from ..arrays import shared
from ..engine.tensor import Tensor
from ..nn.parameter import is_lazy

__all__ = ["as_html", "thumbnail"]


# ---- Thumbnail of an array ------------------------------------------------------------------------------------------

_WIDE, _HIGH = 192, 96  # maximum cells
_TILES = 16
_SIZE = 192  # CSS pixels of the longer side
_NEGATIVE, _WHITE, _POSITIVE, _DARK, _NAN = (29, 78, 216), (255, 255, 255), (214, 90, 12), (12, 45, 107), (217, 0, 201)


def thumbnail(array: np.ndarray) -> str:
    """Return the HTML picture of an array with at least one axis and one element."""
    if array.ndim == 1 and array.dtype != np.bool_:
        return _plot(array)
    if _is_image(array):
        return _png(_tiled(_channels_last(array)))
    axes = array.shape[-2:] if array.ndim > 1 else (1, array.shape[0])
    tiles = array.reshape(-1, *axes)[:_TILES]
    return _png(_tiled(_colored(tiles)))


def _is_image(array: np.ndarray) -> bool:
    """Return whether an array is (3, H, W) or (N, 3, H, W), of bytes or of floats from 0 to 1."""
    if array.ndim not in (3, 4) or array.shape[-3] != 3 or min(array.shape[-2:]) < 4:
        return False
    if array.dtype == np.uint8:
        return True
    return array.dtype.kind == "f" and bool((array >= 0).all() and (array <= 1).all())


def _channels_last(array: np.ndarray) -> np.ndarray:
    """Return images as bytes (N, H, W, 3)."""
    images = np.moveaxis(array.reshape(-1, *array.shape[-3:])[:_TILES], 1, -1)
    return images if images.dtype == np.uint8 else (images.astype(np.float64) * 255).round().astype(np.uint8)


def _colored(tiles: np.ndarray) -> np.ndarray:
    """Return values (N, H, W) as RGB bytes (N, H, W, 3)."""
    values = tiles.astype(np.float64)
    known = values[np.isfinite(values)]
    low, high = (known.min(), known.max()) if known.size else (0.0, 1.0)
    with np.errstate(all="ignore"):
        if low < 0 < high:
            share = np.clip(values / max(-low, high), -1, 1)[..., np.newaxis]
            ends = np.where(share < 0, np.array(_NEGATIVE), np.array(_POSITIVE))
            mixed = np.array(_WHITE) + np.abs(share) * (ends - np.array(_WHITE))
        else:
            share = (values - low) / (high - low) if high > low else values * 0 + 0.5
            share = np.clip(np.nan_to_num(share), 0, 1)
            mixed = np.array(_WHITE) + share[..., np.newaxis] * (np.array(_DARK) - np.array(_WHITE))
        mixed = np.where(np.isnan(values)[..., np.newaxis], np.array(_NAN), mixed)
    return mixed.round().astype(np.uint8)


def _tiled(images: np.ndarray) -> np.ndarray:
    """Join images (N, H, W, 3) side by side, with a gray line between them."""
    count = len(images)
    across = min(count, math.ceil(math.sqrt(count * images.shape[1] / max(images.shape[2], 1))) or 1)
    across = max(1, min(across, count))
    down = -(-count // across)
    high, wide = max(1, _HIGH * 2 // down), max(1, _WIDE // across)
    images = images[:, :: -(-images.shape[1] // high), :: -(-images.shape[2] // wide)]
    _, high, wide, _ = images.shape
    gap = int(count > 1)
    page = np.full((down * (high + gap) - gap, across * (wide + gap) - gap, 3), 128, np.uint8)
    for number, image in enumerate(images):
        top, left = number // across * (high + gap), number % across * (wide + gap)
        page[top : top + high, left : left + wide] = image
    return page


def _png(pixels: np.ndarray) -> str:
    """Return pixels (H, W, 3) as an inline image. Source: https://www.w3.org/TR/png."""
    high, wide, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 0)
    parts = (b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")
    content = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
    scale = _SIZE / max(high, wide)
    width, height = max(2, round(wide * scale)), max(2, round(high * scale))
    style = "image-rendering:pixelated;border:1px solid #8888"
    data = base64.b64encode(content).decode()
    return f'<img alt="values" width="{width}" height="{height}" style="{style}" src="data:image/png;base64,{data}">'


def _plot(array: np.ndarray) -> str:
    """Return a plot of values over positions; a long array is reduced to the minimum and maximum of each segment."""
    values = array.astype(np.float64)
    if values.size > 2 * _SIZE:
        stretch = -(-values.size // _SIZE)
        padded = np.pad(values, (0, -values.size % stretch), mode="edge").reshape(-1, stretch)
        values = np.stack([padded.min(1), padded.max(1)], 1).ravel()
    known = values[np.isfinite(values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    height = 48
    with np.errstate(all="ignore"):
        scaled = (values - low) / (high - low) if high > low else values * 0 + 0.5
    across = np.linspace(2, _SIZE - 2, max(values.size, 2))
    pieces: list[list[str]] = []
    points: list[str] = []
    for x, y in zip(across, np.clip(scaled, -0.04, 1.04), strict=False):
        if math.isnan(y):
            pieces.append(points)
            points = []
        else:
            points.append(f"{x:.1f},{2 + (height - 4) * (1 - y):.1f}")
    style = 'fill="none" stroke="#2563eb" stroke-width="1.2" stroke-linejoin="round" stroke-linecap="round"'
    drawn = (" ".join(piece * (1 + (len(piece) == 1))) for piece in (*pieces, points) if piece)
    lines = "".join(f'<polyline points="{piece}" {style}/>' for piece in drawn)
    zero = ""
    if low < 0 < high:
        y = 2 + (height - 4) * (1 - (0 - low) / (high - low))
        zero = f'<line x1="0" x2="{_SIZE}" y1="{y:.1f}" y2="{y:.1f}" stroke="#888" stroke-dasharray="2 3"/>'
    size = f'width="{_SIZE}" height="{height}" viewBox="0 0 {_SIZE} {height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="values">{zero}{lines}</svg>'


# ---- Tensor HTML: shape, type, range and thumbnail ------------------------------------------------------------------

_MOST = 1_000_000  # elements that are examined
_SHOWN = 8  # elements; the text lists the values of at most this many


def as_html(tensor: Tensor) -> str:
    """Return a Tensor as HTML without scripts: its description next to a picture of its values.

    For more than a million elements, every n-th is sampled, and the text says so.
    """
    kind = escape(display_name(type(tensor).__name__))
    if is_lazy(tensor):
        return _page(f"<b>{kind}</b> not initialized", [], "")
    array = shared(tensor.array, "a tensor as text")
    sample = _sample(array)
    lines = [f"{array.size:,} element{'s' * (array.size != 1)}, {bytes_text(array.nbytes)}"]
    if array.size:
        lines += _statistics(sample)
    if sample.size < array.size:
        lines.append(f"of a sample of {sample.size:,} elements")
    if tensor._edge is not None:
        lines.append(f"grad_fn={display_name(repr(tensor._edge[0]))}")
    elif tensor.requires_grad:
        lines.append("requires_grad=True")
    title = f"<b>{kind}</b> {tuple(array.shape)} {array.dtype}"
    return _page(title, lines, thumbnail(sample) if array.ndim and array.size > 1 else "")


def _page(title: str, lines: list[str], picture: str) -> str:
    rows = "".join(f'<div style="opacity:.75">{escape(line)}</div>' for line in lines)
    text = f'<div style="font-family:monospace;font-size:12px;line-height:1.5"><div>{title}</div>{rows}</div>'
    return f'<div style="display:flex;gap:14px;align-items:flex-start;text-align:left">{text}{picture}</div>'


def _sample(array: np.ndarray) -> np.ndarray:
    """Return every n-th element along the axes, a view with at most a million elements."""
    steps = [1] * array.ndim
    while math.prod(-(-extent // step) for extent, step in zip(array.shape, steps, strict=True)) > _MOST:
        left = [-(-extent // step) for extent, step in zip(array.shape, steps, strict=True)]
        steps[left.index(max(left))] *= 2
    return array[tuple(slice(None, None, step) for step in steps)]


def _statistics(sample: np.ndarray) -> list[str]:
    """Return the range, the mean and the counts of non-finite elements."""
    if sample.size <= _SHOWN:
        shown = ", ".join(map(_number, sample.ravel().tolist()))
        lines = [f"value {shown}" if sample.ndim == 0 else f"values {shown}"]
    else:
        lines = []
    if sample.dtype == np.bool_:
        return [*lines, f"{np.count_nonzero(sample):,} True, {np.count_nonzero(~sample):,} False"]
    finite = sample[np.isfinite(sample)]
    if finite.size and sample.size > 1:
        with np.errstate(all="ignore"):
            mean = float(finite.mean(dtype=np.float64))
        lines.append(f"from {_number(finite.min().item())} to {_number(finite.max().item())}, mean {_number(mean)}")
    if finite.size < sample.size:
        nans = int(np.count_nonzero(np.isnan(sample)))
        rest = sample.size - finite.size - nans
        lines.append(", ".join([f"{nans:,} NaN"] * bool(nans) + [f"{rest:,} infinite"] * bool(rest)))
    return lines


def _number(value: float) -> str:
    return f"{value:.4g}" if isinstance(value, float) else f"{value}"
