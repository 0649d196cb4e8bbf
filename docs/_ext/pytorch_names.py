"""The tables of from_pytorch.md: the public names of PyTorch 2.13 that retrograd has."""

from __future__ import annotations

import importlib
from typing import Any

import retrograd
from retrograd.torch_api.missing import pytorch_names


def _ours(namespace: str) -> Any:
    """Return our counterpart of a PyTorch namespace: a class or a module."""
    if namespace in ("torch.Tensor", "torch.nn.Module"):
        return retrograd.Tensor if namespace == "torch.Tensor" else retrograd.nn.Module
    return importlib.import_module(namespace.replace("torch", "retrograd", 1))


def coverage() -> str:
    """Return Markdown with the available and the missing names of each PyTorch namespace."""
    parts = []
    for namespace, names in pytorch_names().items():
        ours = _ours(namespace)
        there = [name for name in names if hasattr(ours, name)]
        missing = [name for name in names if not hasattr(ours, name)]
        parts.append(f"## {namespace}: {len(there)} of {len(names)}")
        for label, some in (("There", there), ("Not there", missing)):
            if some:
                parts.append(f"{label}: {', '.join(f'`{name}`' for name in some)}.")
    return "\n\n".join(parts)
