"""Screenshots of the page in its main states, for review: python tests/explanation/screenshots.py FOLDER

Each state is shown at the width of a desktop and of a phone, in light and dark mode. A word after the folder selects
the states whose name contains it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from explanation.browser import chromium, opened, written
from retrograd.explanation.operators import find

LOOK = "window.retrograd.page.selection"
READ = "window.retrograd.page.stories.read"
CALLS = "[...document.querySelectorAll('.traces button')].find((each) => each.innerText === 'kernel calls').click()"
FORWARD = "for (let i = 0; i < 11; i++) document.querySelector('.steps button + button').click()"
STATES = {  # name: (operator, settings, address, what is done first)
    "opening": ("conv2d", {}, "", ""),
    "story_weight": ("conv2d", {}, "", f"{READ}(0, 3)"),
    "story_input": ("conv2d", {"stride": 2}, "", f"{READ}(1, 2)"),
    "story_time": ("lstm", {}, "", f"{READ}(0, 1)"),
    "strided": ("conv2d", {"stride": 2, "padding": 2}, "entry=gx:12", f"{LOOK}.look(1)"),
    "decimals": ("conv2d", {"values": "decimals", "batch": 2, "groups": 2}, "entry=y:40", ""),
    "goes_into": ("conv2d", {}, "", f"{LOOK}.hover('x', 12)"),
    "padding": ("conv2d", {"padding": 2}, "", f"{LOOK}.hover('x', -12)"),
    "matrices": ("conv2d", {"stride": 2}, "tab=matrices", ""),
    "kernel_calls": ("conv2d", {}, "tab=code", CALLS),
    "kernel_calls_time": ("lstm", {}, "tab=code", CALLS),
    "code": ("conv2d", {}, "tab=code", FORWARD),
    "faults": ("conv2d", {"stride": 2}, "tab=faults", ""),
    "time": ("lstm", {}, "entry=gc:0", f"{LOOK}.look(1)"),
    "update_gates": ("gru", {"initial_state": "True"}, "entry=gh:0", ""),
    "curves": ("gelu", {}, "tab=curves", ""),
    "linear_matrices": ("linear", {}, "tab=matrices", ""),
    "transposed_matrices": ("conv_transpose2d", {"padding": 1}, "tab=matrices", ""),
    "derivation": ("mish", {}, "tab=derivation", ""),
    "derived_mistake": ("gelu", {}, "tab=faults", ""),
    "normalization": ("layer_norm", {}, "entry=gx:1", ""),
    "attention": ("scaled_dot_product_attention", {}, "entry=gq:1", ""),
}
SCREENS = {"desktop": {"width": 1280, "height": 860}, "phone": {"width": 375, "height": 740}}


def main(folder: Path, only: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with chromium() as browser, tempfile.TemporaryDirectory() as files:
        for name, (operator, settings, place, code) in STATES.items():
            if only not in name:
                continue
            address = written(Path(files), find(operator).with_settings(settings).to_html())
            for screen, viewport in SCREENS.items():
                for colors in ("light", "dark"):
                    with opened(browser, f"{address}#{place}", viewport=viewport, color_scheme=colors) as page:
                        if code:
                            page.evaluate(f"() => {{ {code} }}")
                        page.wait_for_timeout(300)
                        page.screenshot(path=folder / f"{name}_{screen}_{colors}.png")
    print(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
