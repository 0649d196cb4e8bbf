"""Imports modules of docs/_ext, as the build of the documentation does."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).resolve().parents[1] / "docs"


def extension(name: str) -> ModuleType:
    """Return a module of docs/_ext; the import path is that of docs/conf.py while it is imported."""
    before = sys.path.copy()
    sys.path[:0] = [str(DOCS / "_ext"), str(DOCS.parent)]
    try:
        return importlib.import_module(name)
    finally:
        sys.path[:] = before
