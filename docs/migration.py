"""The tables of from_pytorch.md: which public names of PyTorch 2.13 are here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import retrograd

DOCS = Path(__file__).resolve().parent

# a namespace of PyTorch -> ours
_OURS: dict[str, Callable[[], Any]] = {
    "torch": lambda: retrograd,
    "torch.Tensor": lambda: retrograd.Tensor,
    "torch.nn": lambda: retrograd.nn,
    "torch.nn.functional": lambda: retrograd.nn.functional,
    "torch.nn.grad": lambda: retrograd.nn.grad,
    "torch.nn.init": lambda: retrograd.nn.init,
    "torch.nn.utils": lambda: importlib.import_module("retrograd.nn.utils"),
    "torch.optim": lambda: retrograd.optim,
    "torch.optim.lr_scheduler": lambda: importlib.import_module("retrograd.optim.lr_scheduler"),
    "torch.utils.data": lambda: importlib.import_module("retrograd.utils.data"),
}


def pytorch_names() -> dict[str, list[str]]:
    """Namespace -> public names of PyTorch 2.13, from the table that pytorch_names.txt keeps."""
    names: dict[str, list[str]] = {}
    for line in (DOCS / "pytorch_names.txt").read_text(encoding="utf-8").split():
        namespace, _, name = line.rpartition(".")
        names.setdefault(namespace, []).append(name)
    return names


def coverage() -> str:
    """Of each namespace of PyTorch, what is there and what is not, in Markdown."""
    parts = []
    for namespace, names in pytorch_names().items():
        ours = _OURS[namespace]()
        there = [name for name in names if hasattr(ours, name)]
        missing = [name for name in names if not hasattr(ours, name)]
        parts.append(f"## {namespace}: {len(there)} of {len(names)}")
        for label, some in (("There", there), ("Not there", missing)):
            if some:
                parts.append(f"{label}: {', '.join(f'`{name}`' for name in some)}.")
    return "\n\n".join(parts)
