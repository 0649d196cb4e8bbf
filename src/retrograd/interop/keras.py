"""Import of Keras weights (.weights.h5, .keras, .h5), with a bounded HDF5 reader.

pyfive trusts the sizes and offsets in a file. It therefore reads through a file object with a read budget, which ends
endless loops, and a data set is read only if its numbers fit into the file.

    Keras                                                       ours
    Dense            kernel (I, O)                              Linear           weight (O, I)
    Conv             kernel (*R, Ci/groups, Co)                 Conv             weight (Co, Ci/groups, *R)
    DepthwiseConv    kernel (*R, Ci, M)                         Conv(groups=Ci)  weight (Ci*M, 1, *R)
    ConvTranspose    kernel (*R, Co, Ci)                        ConvTranspose    weight (Ci, Co, *R)
    BatchNormalization  gamma, beta, moving mean and variance   BatchNorm        weight, bias, running mean and variance
    LayerNormalization, GroupNormalization  gamma, beta         LayerNorm, GroupNorm  weight, bias
    Embedding        embeddings                                 Embedding        weight
    SimpleRNN, LSTM, GRU, Bidirectional of these                RNN, LSTM, GRU: see ``rnn_from_keras``
    PReLU            alpha                                      PReLU            weight (C,)

Keras's BatchNormalization and LayerNormalization use epsilon 1e-3: pass eps=1e-3 to ours.
"""

from __future__ import annotations

import io
import math
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from .._files.formats import other_format
from .._files.state import brief, reason
from .._files.untrusted import as_path, read_untrusted
from ..engine.arguments import kind_name
from ..nn.activation import PReLU
from ..nn.convolution import _Conv, _ConvTranspose
from ..nn.embedding import Embedding
from ..nn.linear import Linear
from ..nn.module import Module
from ..nn.module_state import IncompatibleKeys
from ..nn.normalization import GroupNorm, LayerNorm, _BatchNorm
from ..nn.recurrent import RNNBase
from .layer_matching import Layer, WeightsFileError, load_layers, recurrent_mode
from .recurrent_weight import rnn_from_keras

__all__ = ["KerasFileError", "keras_weights", "load_keras_weights"]


# ---- Untrusted HDF5 files, read by pyfive: pure Python, so no file can crash the process ----------------------------

_MISSING = 'pyfive is not installed: pip install "retrograd[keras]"'
_MOST_OBJECTS, _MOST_DEPTH = 50_000, 20
_READS = 2_000_000  # read calls
_NAMES = "layer_names", "weight_names"


class HDF5Error(Exception):
    """The reason an HDF5 file cannot be read."""


class _Bounded(io.BytesIO):
    """A file object with a read budget, which stops a reader caught in an endless loop."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self._most = len(content)
        self._bytes, self._reads = 64 * len(content) + 2**24, _READS

    def read(self, count: int | None = -1) -> bytes:
        data = super().read(self._most if count is None or count < 0 else min(count, self._most))
        self._reads -= 1
        self._bytes -= len(data)
        if self._reads < 0 or self._bytes < 0:
            raise HDF5Error("its parts refer to each other in a cycle")
        return data


def hdf5_arrays(content: bytes) -> tuple[dict[str, np.ndarray], dict[str, list[str]]]:
    """Return the numeric arrays by path, and the attributes of groups that name layers and weights.

    Raises:
        ImportError: pyfive is not installed.
        HDF5Error: the content is damaged or unsupported.
    """
    package = _package()
    arrays: dict[str, np.ndarray] = {}
    texts: dict[str, list[str]] = {}
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            with package.File(_Bounded(content)) as file:
                for path, item, is_group in _objects(package, file):
                    if is_group:
                        for name in _NAMES:
                            found = _names(item, name)
                            if found is not None:
                                texts[f"{path}@{name}"] = found
                    else:
                        arrays[path] = _numbers(path, item, len(content))
    except HDF5Error:
        raise
    except Exception as error:  # any exception that a damaged file may cause in pyfive
        raise HDF5Error(f"it was cut off or damaged: {type(error).__name__}: {str(error)[:200]}") from error
    return arrays, texts


def _objects(package: ModuleType, file: Any) -> Iterator[tuple[str, Any, bool]]:
    """Yield (path, group or data set, whether it is a group) for each object in the file, each path once."""
    left: list[tuple[str, Any]] = [("", file)]
    count = 0
    while left:
        path, group = left.pop()
        yield path, group, True
        children = []
        for name in group:
            count += 1
            below = f"{path}/{name}" if path else str(name)
            if count > _MOST_OBJECTS or below.count("/") > _MOST_DEPTH:
                raise HDF5Error("it has too many objects, or they are nested too deep")
            item = group[name]
            if isinstance(item, package.Group):
                children.append((below, item))
            elif isinstance(item, package.Dataset):
                yield below, item, False
        left += children[::-1]


def _numbers(path: str, item: Any, most: int) -> np.ndarray:
    shape, dtype = tuple(item.shape), item.dtype
    if not isinstance(dtype, np.dtype) or dtype.kind not in "biuf" or dtype.itemsize > 8:
        return np.empty(0, np.float32)  # text and similar data is no weight
    if len(shape) > 32 or math.prod(shape) * dtype.itemsize > most:
        raise HDF5Error(f"{path[:100]!r} of shape {shape} has more numbers than the file")
    array = np.asarray(item[...])
    if array.shape != shape:
        raise HDF5Error(f"{path[:100]!r} has the shape {array.shape} instead of {shape}")
    return array.astype(array.dtype.newbyteorder("="))


def _names(group: Any, name: str) -> list[str] | None:
    """Return an attribute that lists names; h5py splits it into several attributes if it is long."""
    attributes = group.attrs
    parts = [name] if name in attributes else [f"{name}{n}" for n in range(1000) if f"{name}{n}" in attributes]
    if not parts:
        return None
    values = [value for part in parts for value in np.asarray(attributes[part]).ravel().tolist()]
    return [value.decode("utf-8") if isinstance(value, bytes) else str(value) for value in values if value != 0.0]


def _package() -> ModuleType:
    try:
        import pyfive
    except ImportError:
        raise ImportError(_MISSING) from None
    return pyfive


# ---- Keras weights: .weights.h5 and .keras of Keras 3, .h5 of Keras 2 and TensorFlow --------------------------------

_MOST = 64 * 1024**3  # bytes in a file
_INNER = {"cell", "forward_layer", "backward_layer"}  # parts of one layer
Shape = Sequence[int]


class KerasFileError(WeightsFileError):
    """A Keras file is damaged or does not fit the model; the message names the file and the location."""


def load_keras_weights(
    model: Module,
    path: str | Path,
    strict: bool = True,
    names: Mapping[str, str] | None = None,
    flatten: Mapping[str, Shape] | None = None,
) -> IncompatibleKeys:
    """Copy the weights of a Keras file into a model with the same layers, in our layouts (see above).

    A layer is matched to our module of the same name if every module has a match. Otherwise layers of each kind are
    matched in order.

    strict: False leaves modules without a layer unchanged and ignores unmatched layers.
    names: {path of our module: name of the layer in the file}, where neither name nor order determines the match.
    flatten: {path of a Linear: (C, *R)} for the Dense layers that follow a Flatten, where Keras puts channels last.

    Returns ``(missing_keys, unexpected_keys)``: parameters without a layer, layers without a module.

    Raises:
        ImportError: pyfive is not installed.
        TypeError: model is not a Module, or names is not a dict of strings.
        ValueError: flatten has a path that belongs to no module.
        KerasFileError: the file cannot be read or does not fit; the message lists why, and the model is unchanged.
    """
    if flatten is not None and not isinstance(flatten, Mapping):
        raise TypeError(f"load_keras_weights: flatten is {kind_name(flatten)}, needs {{path of a Linear: (C, *R)}}")
    places = dict(model.named_modules()) if isinstance(model, Module) else {}
    turned = {id(places.get(place)): tuple(shape) for place, shape in (flatten or {}).items()}
    if id(None) in turned:
        raise ValueError(f"load_keras_weights: flatten has {brief(list(flatten or ()))}; not all are paths of modules")
    layers, typed = _layers(as_path("load_keras_weights", "path", path))

    def convert(module: Module, found: Sequence[Layer]) -> dict[str, np.ndarray]:
        return _converted(module, found, turned.get(id(module)))

    def fits(module: Module, layer: Layer) -> int:
        kinds = _kinds(module)[::-1]
        return 1 if not typed else kinds.index(kind) + 1 if (kind := _kind_of(layer.name)) in kinds else 0

    return load_layers("load_keras_weights", model, path, layers, convert, strict, names, fits, KerasFileError)


def keras_weights(path: str | Path) -> dict[str, np.ndarray]:
    """Return the arrays of a Keras file unchanged, by "layer/weight".

    Raises: as ``load_keras_weights``.
    """
    layers = _layers(as_path("keras_weights", "path", path))[0]
    return {f"{layer.name}/{key}": array for layer in layers for key, array in layer.arrays.items()}


# ---- File reading ---------------------------------------------------------------------------------------------------


def _layers(path: Path) -> tuple[list[Layer], bool]:
    """Return the layers with weights, and whether their names give their kinds but not their order."""
    try:
        content = read_untrusted(path, _MOST)
        what = other_format(content, "keras")
        if what:
            raise HDF5Error(what)
        if content[:4] == b"PK\x03\x04":
            content = _unpacked(content)
        arrays, texts = hdf5_arrays(content)
    except OSError as error:
        raise KerasFileError(f"{path} cannot be read: {error.strerror or error}") from error
    except HDF5Error as error:
        raise KerasFileError(f"{path} is not a Keras HDF5 file: {error}") from error
    for root in ("model_weights", ""):
        if f"{root}@layer_names" in texts:
            return _ordered(path, root, arrays, texts), False
    layers: dict[str, Layer] = {}
    for name in sorted(arrays, key=_natural):
        parts = name.split("/")
        if len(parts) < 3 or parts[-2] != "vars" or parts[0] in ("optimizer", "metrics") or "seed_generator" in parts:
            continue
        owner = [part for part in parts[:-2] if part not in _INNER]
        inner = [part for part in parts[:-2] if part in _INNER]
        place = "/".join(part for part in owner if part not in ("layers", "_layer_checkpoint_dependencies"))
        layers.setdefault(place, Layer(place)).arrays["/".join([*inner, parts[-1]])] = arrays[name]
    if not layers:
        raise KerasFileError(f"{path} has no Keras weights")
    for layer in layers.values():  # the forward direction comes first
        layer.arrays = dict(sorted(layer.arrays.items(), key=lambda pair: ("backward_layer" in pair[0], pair[0])))
    return list(layers.values()), True


def _ordered(path: Path, root: str, arrays: Mapping[str, np.ndarray], texts: Mapping[str, list[str]]) -> list[Layer]:
    """Return the layers of the older file format, which lists names in order."""
    layers: dict[str, Layer] = {}
    for name in texts[f"{root}@layer_names"]:
        group = f"{root}/{name}" if root else name
        for weight in texts.get(f"{group}@weight_names", []):
            full = f"{group}/{weight}"
            if full not in arrays:
                raise KerasFileError(f"{path}: the weight {brief(full)} is listed, but missing")
            parts = weight.split("/")
            inner = [part for part in parts[:-1] if part.endswith("_cell") or re.match("(forward|backward)_", part)]
            owner = [part for part in parts[:-1] if part not in inner]
            place = name if len(set(owner)) <= 2 and name in owner or not owner else "/".join(owner)
            key = "/".join([*inner, parts[-1].partition(":")[0]])
            layers.setdefault(place, Layer(place)).arrays[key] = arrays[full]
    return list(layers.values())


def _unpacked(content: bytes) -> bytes:
    """Return the weights file inside a .keras archive."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            info = archive.getinfo("model.weights.h5")
            if info.file_size > 64 * len(content):
                raise HDF5Error(f"its weights unpack to {info.file_size:,} bytes")
            with archive.open(info) as member:
                return member.read(info.file_size)
    except (
        zipfile.BadZipFile,
        KeyError,
        NotImplementedError,
        RuntimeError,
        ValueError,
        EOFError,
        zlib.error,
        OverflowError,
    ) as error:
        raise HDF5Error(f"it is a zip file without readable weights: {reason(error)}") from error


def _natural(text: str) -> list[tuple[str, int]]:
    """Sort key that puts dense_10 after dense_2."""
    return [(word, int(number or -1)) for word, number in re.findall(r"([^0-9]+)([0-9]{0,9})|$", text)]


# ---- Layer conversion -----------------------------------------------------------------------------------------------


def _kind_of(name: str) -> str:
    """Return the kind in a layer name, such as conv2d for functional/conv2d_3."""
    return re.sub(r"_[0-9]+$", "", name.rpartition("/")[2])


def _kinds(module: Module) -> Sequence[str]:
    """Return the Keras names of the layers that this module can represent, the most likely first."""
    if isinstance(module, RNNBase):
        one = {"lstm": "lstm", "gru": "gru"}.get(recurrent_mode(module), "simple_rnn")
        return ("bidirectional",) if module.bidirectional else (one,)
    if isinstance(module, (_Conv, _ConvTranspose)):
        name = f"conv{module.weight.ndim - 2}d"
        if isinstance(module, _ConvTranspose):
            return (f"{name}_transpose",)
        return (f"depthwise_{name}", name) if 1 < module.groups == module.in_channels else (name,)
    for kind, name in _SIMPLE.items():
        if isinstance(module, kind):
            return (name,)
    return ()


_SIMPLE = {
    Linear: "dense",
    _BatchNorm: "batch_normalization",
    LayerNorm: "layer_normalization",
    Embedding: "embedding",
    GroupNorm: "group_normalization",
    PReLU: "p_re_lu",
}


def _converted(module: Module, found: Sequence[Layer], flattened: Shape | None) -> dict[str, np.ndarray]:
    """Build the state of our module from the arrays of its layers.

    Raises:
        ValueError: the arrays do not fit.
    """
    if isinstance(module, RNNBase):
        return _recurrent(module, found)
    arrays = list(found[0].arrays.values())
    if isinstance(module, _BatchNorm):
        keys = ["weight", "bias"] * module.affine + ["running_mean", "running_var"] * module.track_running_stats
    else:
        keys = ["weight"] + ["bias"] * (getattr(module, "bias", None) is not None)
    if len(arrays) != len(keys):
        raise ValueError(f"it has {len(arrays)} weights, {type(module).__name__} needs {len(keys)}")
    state = dict(zip(keys, arrays, strict=True))
    first = arrays[0]
    if isinstance(module, Linear):
        _require_axes(first, 2)
        if flattened is not None:
            channels, *extents = flattened
            first = np.moveaxis(first.reshape(*extents, channels, -1), -2, 0).reshape(first.shape)
        state["weight"] = first.T
    elif isinstance(module, (_Conv, _ConvTranspose)):
        _require_axes(first, module.weight.ndim)
        weight = np.moveaxis(first, (-1, -2), (0, 1))  # (Co, Ci/groups, *R), or (Ci, Co/groups, *R) if transposed
        if isinstance(module, _Conv) and 1 < module.groups == module.in_channels and first.shape[-2] != 1:
            weight = np.moveaxis(first, (-2, -1), (0, 1)).reshape(-1, 1, *first.shape[:-2])
        state["weight"] = weight
    elif isinstance(module, PReLU):
        if max(first.shape, default=1) != first.size:
            raise ValueError(f"its alpha has the shape {first.shape}; only one number for each channel is read")
        state["weight"] = first.reshape(-1)
    elif not _kinds(module):
        raise ValueError(f"{type(module).__name__} has no supported layer in Keras")
    return {key: np.ascontiguousarray(value) for key, value in state.items()}


def _require_axes(array: np.ndarray, ndim: int) -> None:
    if array.ndim != ndim:
        raise ValueError(f"its kernel has the shape {array.shape}, needs {ndim} axes")


def _recurrent(module: RNNBase, found: Sequence[Layer]) -> dict[str, np.ndarray]:
    state: dict[str, np.ndarray] = {}
    directions = 1 + module.bidirectional
    if len(found) != module.num_layers:
        raise ValueError(f"the module has {module.num_layers} layers, {len(found)} were found")
    for number, layer in enumerate(found):
        arrays = list(layer.arrays.values())
        each = 2 + bool(module.bias)
        if len(arrays) != directions * each:
            raise ValueError(f"{layer.name} has {len(arrays)} weights, needs {directions * each}")
        for direction in range(directions):
            own = arrays[direction * each : (direction + 1) * each]
            state |= rnn_from_keras(*own, mode=recurrent_mode(module), layer=number, reverse=direction == 1)
    return state
