"""Sphinx: ``make docs`` builds the pages into docs/_build/html, runs their code, and treats warnings as errors."""

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS), str(DOCS.parent)]  # for pages.py and for the benchmarks that it quotes

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
