"""Draws the first picture of README.md: python tests/explanation/readme_picture.py

It is the page of a convolution as Chromium shows it, in few colors, so that it stays small.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))

from explanation.browser import chromium, opened, written
from retrograd.explanation.operators import find

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "static" / "explain.png"
SCREEN = {"width": 1160, "height": 850}


def main() -> None:
    page_text = find("conv2d").with_settings({"channels": 1, "filters": 1}).to_html()
    with chromium() as browser, tempfile.TemporaryDirectory() as folder:
        address = written(Path(folder), page_text)
        with opened(browser, address, viewport=SCREEN, color_scheme="light") as page:
            page.evaluate("() => document.querySelector('.settings .note').remove()")  # a served page has none
            page.evaluate("() => document.documentElement.style.setProperty('--shadow', 'none')")  # its many grays
            page.evaluate("() => window.retrograd.page.stories.read(0, 1)")
            page.wait_for_timeout(300)
            picture = page.screenshot()
    few = Image.open(io.BytesIO(picture)).convert("RGB").quantize(240, kmeans=8, dither=Image.Dither.NONE)
    few.save(PICTURE, optimize=True)
    print(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
