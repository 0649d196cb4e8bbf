"""Sphinx: ``make docs`` builds the pages into docs/_build/html, runs their code, and treats warnings as errors."""

import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS / "_ext"), str(DOCS.parent)]  # the extensions, and the benchmarks that pages quote

project = "retrograd"
author = "The retrograd developers"
copyright = f"2026, {author}"
extensions = [
    *("myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"),
    *("sphinx_design", "sphinx_copybutton", "formulas", "docstrings", "pages", "built_pages"),
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "retrograd"
html_static_path = ["static"]
html_css_files = ["manual.css"]
myst_heading_anchors = 3
smartquotes_action = "D"  # dashes, but no curly quotes: text is copied into programs
autodoc_inherit_docstrings = False  # an override is described where it says something of its own
autosummary_generate = False
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 88
napoleon_use_rtype = False
add_module_names = True
toc_object_entries_show_parents = "hide"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
html_show_search_summary = False  # it fetches pages, which browsers refuse for files on disk
html_copy_source = False
