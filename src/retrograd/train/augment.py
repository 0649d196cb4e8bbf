"""Random augmentation of a batch of images (N, C, H, W) in NumPy, drawn from retrograd's generator."""

from __future__ import annotations

import numpy as np

from ..ops.random.random import default_generator

__all__ = ["flipped", "shifted", "warped"]


def shifted(images: np.ndarray, most: int = 1) -> np.ndarray:
    """Each image shifted by -most to most pixels along both axes; zeros fill the edges."""
    count, _, height, width = images.shape
    padded = np.pad(images, ((0, 0), (0, 0), (most, most), (most, most)))
    down, right = default_generator.integers(0, 2 * most + 1, (2, count))
    rows = down[:, None] + np.arange(height)
    columns = right[:, None] + np.arange(width)
    # an index array, a slice and two index arrays: NumPy puts the channels last
    moved = padded[np.arange(count)[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    return np.moveaxis(moved, -1, 1)


def flipped(images: np.ndarray) -> np.ndarray:
    """Each image mirrored left to right with probability 1/2."""
    mirrored = default_generator.random(len(images)) < 0.5
    return np.where(mirrored[:, None, None, None], images[..., ::-1], images)


def warped(images: np.ndarray, degrees: float, scale: float, shift: float) -> np.ndarray:
    """Each image rotated, sheared, scaled along both axes and shifted; zeros fill the edges.

    degrees: maximum angle of rotation and shear.
    scale: factors are from 1 - scale to 1 + scale.
    shift: maximum shift in pixels, with bilinear interpolation for fractions.
    """
    count, channels, height, width = images.shape
    turn, shear = np.deg2rad(default_generator.uniform(-degrees, degrees, (2, count)))
    tall, wide = default_generator.uniform(1 - scale, 1 + scale, (2, count))
    down, right = default_generator.uniform(-shift, shift, (2, count))
    # source position of each pixel of the result, relative to the centre
    y, x = np.meshgrid(np.arange(height) - (height - 1) / 2, np.arange(width) - (width - 1) / 2, indexing="ij")
    y, x = y[None].astype(np.float32), x[None].astype(np.float32)

    def each(values: np.ndarray) -> np.ndarray:
        return values.astype(np.float32)[:, None, None]

    rows = each(np.cos(turn) / tall) * y + each(np.sin(turn) / tall) * x + each((height - 1) / 2 - down)
    columns = each(np.tan(shear) - np.sin(turn) / wide) * y + each(np.cos(turn) / wide) * x
    columns = columns + each((width - 1) / 2 - right)
    # zeros around the image, one pixel before and two after, to which all outside positions are clipped
    rows, columns = np.clip(rows + 1, 0, height + 1), np.clip(columns + 1, 0, width + 1)
    padded = np.pad(images.swapaxes(0, 1), ((0, 0), (0, 0), (1, 2), (1, 2)))
    line = width + 3
    top, left = rows.astype(np.int64), columns.astype(np.int64)
    low, far = rows - top.astype(np.float32), columns - left.astype(np.float32)
    start = top * line + left + (line * (height + 3) * np.arange(count))[:, None, None]
    result = np.empty((count, channels, height, width), images.dtype)
    for channel, plane in enumerate(padded.reshape(channels, -1)):
        here, below = plane[start], plane[line:][start]
        upper = here + (plane[1:][start] - here) * far
        lower = below + (plane[line + 1 :][start] - below) * far
        result[:, channel] = upper + (lower - upper) * low
    return result
