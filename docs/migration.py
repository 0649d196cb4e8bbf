"""The tables of from_pytorch.md: which public names of PyTorch 2.13 are here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import retrograd
from retrograd.absent import pytorch_names

# a namespace of PyTorch -> ours
_OURS: dict[str, Callable[[], Any]] = {
    "torch": lambda: retrograd,
    "torch.Tensor": lambda: retrograd.Tensor,
    "torch.nn": lambda: retrograd.nn,
    "torch.nn.Module": lambda: retrograd.nn.Module,
    "torch.nn.functional": lambda: retrograd.nn.functional,
    "torch.nn.grad": lambda: retrograd.nn.grad,
    "torch.nn.init": lambda: retrograd.nn.init,
    "torch.nn.utils": lambda: importlib.import_module("retrograd.nn.utils"),
    "torch.optim": lambda: retrograd.optim,
    "torch.optim.lr_scheduler": lambda: importlib.import_module("retrograd.optim.lr_scheduler"),
    "torch.utils.data": lambda: importlib.import_module("retrograd.utils.data"),
}


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
