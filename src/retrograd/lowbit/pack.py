"""Packing of a model for inference: low-bit layers are stored in bits and run on integers."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..engine.arguments import kind_name
from ..engine.grad_mode import no_grad
from ..kernel_set import kernels
from ..nn.module import Module
from ..ops.argument_checks import as_truth
from ..ops.signatures import advised
from . import layers, recurrent
from .base import LowBit
from .convert import Change, paths_of
from .fusion import fuse as join
from .fusion import packed_norm
from .packed_layers import Packed, packed_layer, refuse_training

__all__ = ["PackedModel", "Packing", "pack"]

_SKIPPED = "it is in skip"
_KINDS = {getattr(module, name) for module in (layers, recurrent) for name in module.__all__}


@dataclass
class Packing:
    """The report of packing a model: the layers that were packed, fused into others, or left. str() formats it.

    packed: the low-bit layers and batch norms, each with its replacement.
    joined: paths of modules that were fused into a layer, each with the path of that layer.
    left: the other modules that have parameters, each with the reason. nbytes, nbytes_before: the bytes of all weights.
    """

    packed: list[Change] = field(default_factory=list)
    joined: list[tuple[str, str]] = field(default_factory=list)
    left: list[Change] = field(default_factory=list)
    nbytes: int = 0
    nbytes_before: int = 0

    def __str__(self) -> str:
        head = f"pack: {len(self.packed)} packed, {len(self.joined)} joined to them, {len(self.left)} left; "
        lines = [f"{head}{self.nbytes_before:,} bytes became {self.nbytes:,}"]
        for each in self.packed:
            lines += [f"  packed  {each.path or '(model)'}: {each.before}", f"       to {each.after}"]
        lines += [f"  joined  {path}: part of {layer}" for path, layer in self.joined]
        lines += [f"  left    {each.path or '(model)'}: {each.before}: {each.reason}" for each in self.left]
        return "\n".join(lines)


class PackedModel(Module):
    """A packed model for inference, see ``pack``. It takes the same inputs as the model and records no gradients.

    packing: the report, or None for a loaded model. classes: names of the outputs, or None.
    image: the preprocessing of images, or None: {"channels": 1 or 3, "size": pixels, "mean": [...], "std": [...]}. The
        input is (pixels - mean) / std, with pixels from 0 to 1; mean and std have one number per channel.
    """

    model: Module
    packing: Packing | None
    classes: tuple[str, ...] | None
    image: dict[str, Any] | None

    def __init__(
        self,
        model: Module,
        packing: Packing | None = None,
        classes: Sequence[str] | None = None,
        image: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.model, self.packing = model, packing
        self.classes, self.image = checked_classes(classes), checked_image(image)
        self.training = False

    def forward(self, *args: Any, **options: Any) -> Any:
        with no_grad():
            return self.model(*args, **options)

    def train(self, mode: bool = True) -> PackedModel:
        """Raise a RuntimeError, except for ``train(False)``."""
        refuse_training(mode)
        return self

    def save(self, path: Any) -> None:
        """Write the model to a safetensors file, which ``retrograd.load_packed`` reads; see ``interop.save_packed``.

        Raises: as ``interop.save_packed``.
        """
        from ..interop.packed import save_packed

        save_packed(self, path)


@advised
def pack(
    model: Module,
    *,
    skip: Iterable[str] = (),
    fuse: bool = True,
    floats: str = "float32",
    classes: Sequence[str] | None = None,
    image: Mapping[str, Any] | None = None,
) -> PackedModel:
    """Return a copy of a model for inference, with the weights of low-bit layers stored in bits.

    weights and inputs of a layer            arithmetic
    both are signs                           xor and population count
    both have at most 8 bits                 8-bit integers
    both have at most 16 bits, and the       16-bit integers: DeepShift weights with Fixed(4, 4) or Int8() inputs, for
    sums fit into int32                      example
    others, such as float inputs             float, with the weights unpacked at the first call
    recurrent layers                         float, with the weights unpacked at the first call

    The result of a packed binary layer is bitwise equal to that of the low-bit layer in eval mode on the active kernel
    set. With 8-bit and 16-bit integers the sums are exact, and only the two steps of (sum * scale) + bias round; the
    low-bit layer rounds every product and partial sum in float. Float layers are unchanged. A batch norm is replaced by
    its scale and shift, with bitwise equal results.

    skip: paths of layers, or of modules with all layers below them, that are not packed.
    fuse: in each Sequential, fold batch norms, clipping (ReLU, ReLU6, Hardtanh), dropout and Flatten between two packed
        layers into the first layer, which then outputs the codes that the second one takes as its input. Max pooling
        between them operates on the codes. If the second layer is binary, fusion does not change the result; codes of
        several bits can differ by 1 where a value is near the midpoint between two codes.
    floats: "float32", or "bfloat16" to round all remaining float32 weights to bfloat16, for a smaller file.
    classes, image: see ``PackedModel``; ``retrograd predict`` needs both.

    Raises:
        TypeError: model is not a Module.
        ValueError: the model has no low-bit layers, an option is out of range, or a layer cannot be packed; the message
            names the layer.

    >>> from retrograd import lowbit, nn
    >>> signs = {"weight": lowbit.BinaryConnect(), "activation": lowbit.Sign()}
    >>> model = nn.Sequential(lowbit.Linear(64, 32, **signs), nn.BatchNorm1d(32), lowbit.Linear(32, 10, **signs))
    >>> print(str(model.pack().packing).splitlines()[0])
    pack: 3 packed, 1 joined to them, 0 left; 10,160 bytes became 504
    """
    if not isinstance(model, Module):
        raise TypeError(f"pack: model is {kind_name(model)}, expected a Module")
    if isinstance(model, PackedModel):
        raise ValueError("pack: the model is packed already")
    fuse = as_truth("pack", "fuse", fuse)
    if floats not in ("float32", "bfloat16"):
        raise ValueError(f'pack: floats={floats!r} must be "float32" or "bfloat16"')
    packing, memo, skipped = Packing(), dict[int, Any](), paths_of("pack", model, skip)
    for path, module in model.named_modules():
        reason = _reason(module, path, skipped)
        if reason is None:
            memo[id(module)] = layer = _packed(path, module)
            packing.packed.append(Change(path, module.describe(), layer.describe()))
        elif (norm := packed_norm(module)) is not None and reason != _SKIPPED:
            memo[id(module)] = norm
            packing.packed.append(Change(path, module.describe(), norm.describe()))
        elif reason:
            packing.left.append(Change(path, module.describe(), reason=reason))
    if not any(isinstance(layer, Packed) for layer in memo.values()):
        raise ValueError(
            "pack: the model has no low-bit layers to pack; convert it first, for example with "
            "lowbit.convert_to_binary(model)"
        )
    packing.nbytes_before = _nbytes(model)
    result = copy.deepcopy(model, memo)
    for module in result.modules():
        if not isinstance(module, Packed):
            module.training = False
    result.requires_grad_(False).zero_grad()
    if floats == "bfloat16":
        for tensor in (*result.parameters(), *result.buffers()):
            if tensor.array.dtype == np.float32:
                tensor.array = kernels.round_to_bfloat16(tensor.array)
    if fuse:
        packing.joined = join(result)
    packing.nbytes = _nbytes(result)
    return PackedModel(result, packing, classes, image)


def _reason(module: Any, path: str, skipped: list[str]) -> str | None:
    """Return why a module is not packed: "" if it has nothing to pack, None if it is packed."""
    if any(not each or path == each or path.startswith(f"{each}.") for each in skipped):
        return _SKIPPED if module._parameter_names else ""
    if isinstance(module, LowBit) and module.weight_quantizer is not None:
        return None
    return "it is float" if module._parameter_names else ""


def _packed(path: str, module: Any) -> Packed:
    where = f"pack: {path or '(model)'}: {module.describe()}"
    if type(module) not in _KINDS:
        raise ValueError(f"{where} has custom code in {type(module).__name__}; leave it out: skip=[{path!r}]")
    if "_hooks" in module.__dict__ and any(module.__dict__["_hooks"].values()):
        raise ValueError(f"{where} has hooks, which a packed layer does not run; remove them, or skip=[{path!r}]")
    try:
        return packed_layer(module)
    except ValueError as error:
        raise ValueError(f"{where}: {error}; or leave it out: skip=[{path!r}]") from error


def _nbytes(model: Module) -> int:
    """Return the number of bytes of all weights."""
    own = sum(tensor.array.nbytes for tensor in (*model.parameters(), *model.buffers()))
    return own + sum(layer.nbytes for layer in model.modules() if isinstance(layer, Packed))


def checked_classes(classes: Any) -> tuple[str, ...] | None:
    """Return the checked names of classes.

    Raises:
        ValueError: they are not distinct strings.
    """
    if classes is None:
        return None
    names = tuple(classes) if isinstance(classes, (list, tuple)) else ()
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise ValueError(f"classes={classes!r} must be a list of distinct strings")
    return names


def checked_image(image: Any) -> dict[str, Any] | None:
    """Return the checked conversion of an image to an input, with a mean and std for each channel; None stays None.

    Raises:
        ValueError: image is not a dict with valid entries.
    """
    if image is None:
        return None
    rule = 'must be {"channels": 1 or 3, "size": 1 to 4096, "mean": numbers, "std": numbers above 0}'
    known = {"channels", "size", "mean", "std"}
    if not isinstance(image, Mapping) or not {"channels", "size"} <= set(image) <= known:
        raise ValueError(f"image={image!r} {rule}")
    channels, size = image["channels"], image["size"]
    mean, std = (image.get(key, value) for key, value in (("mean", [0.0] * 3), ("std", [1.0] * 3)))
    fine = type(channels) is int and channels in (1, 3) and type(size) is int and 1 <= size <= 4096
    if fine:
        mean, std = (each[:channels] if key not in image else each for key, each in (("mean", mean), ("std", std)))
        fine = all(
            isinstance(each, (list, tuple))
            and len(each) == channels
            and all(type(value) in (int, float) and math.isfinite(value) for value in each)
            for each in (mean, std)
        )
    if not fine or min(std) <= 0:
        raise ValueError(f"image={image!r} {rule}, one of each for each channel")
    return {"channels": channels, "size": size, "mean": list(map(float, mean)), "std": list(map(float, std))}
