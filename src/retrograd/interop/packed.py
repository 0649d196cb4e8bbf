"""Packed models in safetensors files.

The name of a tensor begins with the path of its module, as in a state_dict:

    weight.codes      U8           the weight's bit codes, in the order described in ``lowbit/bit_packing.py``
    weight.step       F32          the factors of each output channel's integers, (Co,), or (1,) for all channels; or
                                   the values that the codes index, (Co, numbers), or (1, numbers) for all
    bias, ...         F32          other parameters, and the state of the input quantizer: activation_step, ...
    threshold, flip   I32, U8      if the next layer reads bits: (sum >= threshold) != flip; one bit of flip per channel
    scale, offset     F32, I32     if it reads codes: clip(round((sum + offset) * scale) + zero point, low, high)
    turned            U8           for max pooling: one bit per channel, 1 where the minimum is taken

Nothing depends on the CPU: kernels rearrange the weights for it after loading. float32 tensors whose numbers bfloat16
represents exactly are stored as BF16. The metadata has "retrograd.packed": JSON with the version, the architecture and,
if known, the classes and the image preprocessing; "retrograd.packed.sha256": the digest of that JSON; and the digest of
the tensors.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from .._files.state import anything, brief, reason, table
from .._files.untrusted import STRICT_JSON
from ..engine.arguments import kind_name
from ..lowbit.pack import PackedModel
from ..nn.module import Module
from .packed_architecture import Arrays, Builder, described
from .safetensors import SafetensorsError, read_arrays, write_arrays

__all__ = ["load_packed", "save_packed"]

_KEY, _DIGEST = "retrograd.packed", "retrograd.packed.sha256"
_VERSION = 1


def save_packed(model: PackedModel, path: str | Path) -> None:
    """Write a packed model to a safetensors file, atomically, as described above.

    Raises:
        TypeError: model is not packed.
        ValueError: the model has something that cannot be stored in a file; the message names it.
        SafetensorsError: the file could not be written; an existing one is unchanged.
    """
    if not isinstance(model, PackedModel):
        raise TypeError(f"save_packed: model is {kind_name(model)}; pack it first: model.pack().save(path)")
    arrays: Arrays = {}
    try:
        architecture = described(model.model, "", arrays)
    except ValueError as error:
        raise ValueError(f"save_packed: {error}") from error
    found = {"version": _VERSION, "model": architecture, "classes": model.classes, "image": model.image}
    text = json.dumps(found, separators=(",", ":"), allow_nan=False)
    write_arrays(Path(path), arrays, {_KEY: text, _DIGEST: _digest(text)})


def load_packed(path: str | Path, into: Module | None = None) -> PackedModel:
    """Load a packed model from a file. Nothing in the file is executed, and an unusable file changes nothing.

    into: a model that has the classes which the file only names, such as the model that was packed; it is not changed.
        Its modules of other classes are copied, with the file's layers in place of theirs.

    Raises:
        ImportError: the safetensors package is not installed.
        TypeError: into is not a Module.
        SafetensorsError: the file does not exist; it is truncated, modified, of another version, or not a packed model;
            or its description is inconsistent. The message names the file and the layer.
    """
    if into is not None and not isinstance(into, Module):
        raise TypeError(f"load_packed: into is {kind_name(into)}, expected a Module")
    path = Path(path)
    arrays, metadata = read_arrays(path)
    if _KEY not in metadata:
        raise SafetensorsError(f"{path} is not a packed model; load_safetensors reads other files of weights")
    text = metadata[_KEY]
    if metadata.get(_DIGEST) != _digest(text):
        raise SafetensorsError(f"{path} was changed after it was written (SHA-256 differs); get it again")
    try:
        entries = _entries(json.loads(text, **STRICT_JSON))
        model = Builder(arrays, into.model if isinstance(into, PackedModel) else into).model(entries["model"])
        return PackedModel(model, None, entries["classes"], entries["image"])
    except (ValueError, RecursionError) as error:
        raise SafetensorsError(f"{path} is not a usable packed model: {reason(error)}") from error


def _entries(found: Any) -> dict[str, Any]:
    """Return the entries of the description, after checking its version."""
    version = found.get("version") if isinstance(found, dict) else None
    if version != _VERSION:
        raise ValueError(f"it has version {brief(version)}, this retrograd reads version {_VERSION}")
    return table(dict.fromkeys(("version", "model", "classes", "image"), anything))("it", found)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
