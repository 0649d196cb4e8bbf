"""Sphinx: ``make docs`` builds the pages into docs/_build/html, runs their code, and takes a warning as an error."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

project = "retrograd"
author = "The retrograd developers"
copyright = f"2026, {author}"
extensions = ["myst_parser", "pages"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "retrograd"
html_static_path = ["static"]
html_css_files = ["wide.css"]
myst_heading_anchors = 3
suppress_warnings: list[str] = []
