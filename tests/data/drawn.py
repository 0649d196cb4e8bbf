"""Image folders that the tests generate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw


def drawing(kind: str, random: np.random.Generator, side: int = 24) -> Image.Image:
    """A bright disc, or a dark square, on a noisy background."""
    noise = random.integers(90, 130, (side, side, 3)).astype(np.uint8)
    image = Image.fromarray(noise)
    x, y = (int(place) for place in random.integers(4, side // 2, 2))
    draw = ImageDraw.Draw(image)
    if kind == "disc":
        draw.ellipse((x, y, x + 8, y + 8), (250, 240, 200))
    else:
        draw.rectangle((x, y, x + 8, y + 8), (10, 20, 40))
    return image


def draw_folder(folder: Path, count: int = 8, kinds: tuple[str, ...] = ("disc", "square"), seed: int = 0) -> Path:
    """``count`` images per class, PNG and JPEG in turn."""
    random = np.random.default_rng(seed)
    for kind in kinds:
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            drawing(kind, random).save(folder / kind / f"{number:03d}.{('png', 'jpg')[number % 2]}")
    return folder
