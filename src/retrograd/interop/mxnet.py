"""Import of MXNet .params files of Module (arg:fc_weight, aux:bn_moving_mean) and Gluon (0.weight, dense0_weight).

    uint64 0x112, uint64 0; uint64 count, then each array; uint64 count, then each name: uint64 length, bytes

An array is uint32 0xF993FAC9 (versions 2 and 3 of the format; 3 is 0xF993FACA), int32 storage type (0: dense), uint32
number of axes, int64 extents, int32 device type, int32 device number, int32 dtype, and its numbers.

    MXNet                                                 ours
    FullyConnected   weight (O, I)                        Linear       the same
    Convolution      weight (Co, Ci/groups, *R)           Conv         the same
    Deconvolution    weight (Ci, Co/groups, *R)           ConvTranspose  the same
    BatchNorm        gamma, beta, moving_mean, moving_var  BatchNorm   weight, bias, running_mean, running_var
    LayerNorm        gamma, beta                          LayerNorm    weight, bias
    Embedding        weight                               Embedding    the same
    RNN              one vector, or i2h and h2h of each   RNN, LSTM, GRU: see ``rnn_from_mxnet``

Source: NDArray::Save of src/ndarray/ndarray.cc of MXNet.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from .._files.formats import other_format
from .._files.state import brief
from .._files.untrusted import as_path, read_untrusted
from ..engine.tensor import Tensor
from ..nn.module import Module
from ..nn.module_state import IncompatibleKeys
from ..nn.recurrent import RNNBase
from .dtypes import widened
from .layer_matching import Layer, WeightsFileError, load_layers, recurrent_mode
from .recurrent_weight import rnn_from_mxnet

__all__ = ["MXNetFileError", "load_mxnet", "load_mxnet_weights"]

_MOST = 64 * 1024**3  # bytes in a file
_LIST, _V2, _V3 = 0x112, 0xF993FAC9, 0xF993FACA
_DTYPES = {0: "f4", 1: "f8", 2: "f2", 3: "u1", 4: "i4", 5: "i1", 6: "i8", 7: "?", 8: "i2", 9: "u2", 10: "u4", 11: "u8"}
_PARTS = {
    "weight": "weight",
    "bias": "bias",
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_var": "running_var",
    "running_mean": "running_mean",
    "running_var": "running_var",
    "parameters": "parameters",
    "alpha": "weight",
}
_NAME = re.compile(rf"(?:(?:arg|aux):)?(.*?)[_.]?((?:[lr][0-9]+_(?:i2h|h2h)_)?(?:{'|'.join(_PARTS)}))")
_STEP = re.compile(r"([lr])([0-9]+)_(i2h|h2h)_(weight|bias)")


class MXNetFileError(WeightsFileError):
    """A .params file is damaged or does not fit the model; the message names the file and the location."""


def load_mxnet(path: str | Path) -> dict[str, Tensor]:
    """Return the arrays of a .params file by name, including the prefixes "arg:" and "aux:".

    Numbers of a dtype that no Tensor has are widened without loss. Arrays without names are named "0", "1", ...

    Raises:
        MXNetFileError: the file has another format, is truncated, or contains unsupported arrays, such as sparse ones.
    """
    return {name: Tensor(array) for name, array in _read(as_path("load_mxnet_weights", "path", path)).items()}


def load_mxnet_weights(
    model: Module, path: str | Path, strict: bool = True, names: Mapping[str, str] | None = None
) -> IncompatibleKeys:
    """Copy the weights of a .params file, of Module or of Gluon, into a model with the same layers.

    A layer's name is the beginning of its arrays' names: conv1 in "arg:conv1_weight", 0 in "0.weight". Layers are
    matched to our modules of the same names if every module has a match, and otherwise in the file's order.

    gamma and beta of a batch norm become weight and bias; moving_mean and moving_var become running_mean and
    running_var. A recurrent layer takes its arrays (l0_i2h_weight, ...) or one packed vector.

    strict: False leaves modules without a layer unchanged and ignores unmatched layers.
    names: {path of our module: name of the layer in the file}, where neither name nor order determines the match.

    Returns ``(missing_keys, unexpected_keys)``: parameters without a layer, layers without a module.

    Raises:
        TypeError: model is not a Module, or names is not a dict of strings.
        MXNetFileError: the file cannot be read or does not fit; the message lists why, and the model is unchanged.
    """
    layers: dict[str, Layer] = {}
    for name, array in _read(as_path("load_mxnet_weights", "path", path)).items():
        match = _NAME.fullmatch(name)
        if match is None:
            raise MXNetFileError(f"{path}: {brief(name)} is not a weight of a supported layer; see load_mxnet")
        place = match[1].replace(".", "/")
        layers.setdefault(place, Layer(place)).arrays[match[2]] = array
    return load_layers(
        "load_mxnet_weights", model, path, layers.values(), _converted, strict, names, _fits, MXNetFileError
    )


def _fits(module: Module, layer: Layer) -> int:
    return isinstance(module, RNNBase) == ("parameters" in layer.arrays or any(map(_STEP.fullmatch, layer.arrays)))


def _converted(module: Module, found: Sequence[Layer]) -> dict[str, np.ndarray]:
    if not isinstance(module, RNNBase):
        arrays = found[0].arrays
        weight, own = arrays.get("weight"), getattr(module, "weight", None)
        shape = None if own is None else own.shape
        if (
            weight is not None
            and weight.shape != shape
            and weight.ndim > 2
            and np.moveaxis(weight, -1, 1).shape == shape
        ):
            raise ValueError(
                f"the weight's shape {weight.shape} is that of a layout with channels last; convert it by "
                'conv_weight_from_mxnet(load_mxnet(path)[name], "NHWC")'
            )
        return {_PARTS[key]: array for key, array in arrays.items()}
    state: dict[str, np.ndarray] = {}
    for number, layer in enumerate(found):
        if "parameters" in layer.arrays:
            if not isinstance(module.hidden_size, int) or not isinstance(module.proj_size, int):
                raise ValueError("a module whose layers differ in size cannot take a packed vector")
            return rnn_from_mxnet(
                layer.arrays["parameters"],
                recurrent_mode(module),
                module.input_size,
                module.hidden_size,
                module.num_layers,
                module.bidirectional,
                module.proj_size or None,
            )
        for key, array in layer.arrays.items():
            match = _STEP.fullmatch(key)
            if match is None:
                raise ValueError(f"{key} is not a weight of a recurrent layer")
            kind = "ih" if match[3] == "i2h" else "hh"
            state[f"{match[4]}_{kind}_l{number + int(match[2])}{'_reverse' * (match[1] == 'r')}"] = array
    return state


class _Reader:
    """A reader of numbers from a file's content, which checks that the content has them."""

    def __init__(self, path: Path, content: bytes) -> None:
        self.path, self.content, self.place = path, content, 0

    def take(self, count: int) -> bytes:
        if count > len(self.content) - self.place:
            raise MXNetFileError(
                f"{self.path} was cut off or damaged: it asks for {count:,} bytes at {self.place:,}, "
                f"there are {len(self.content) - self.place:,}"
            )
        self.place += count
        return self.content[self.place - count : self.place]

    def numbers(self, form: str) -> tuple[int, ...]:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))

    def count(self, least: int) -> int:
        """Read a count of entries that need at least ``least`` bytes each."""
        (count,) = self.numbers("Q")
        if count * least > len(self.content) - self.place:
            raise MXNetFileError(
                f"{self.path} was cut off or damaged: it cannot hold the {count:,} entries that it "
                f"names at byte {self.place - 8:,}"
            )
        return count

    def array(self, number: int) -> np.ndarray:
        what = f"{self.path}: array {number}"
        magic, storage, axes = self.numbers("IiI")
        if magic not in (_V2, _V3):
            raise MXNetFileError(f"{what} begins with {magic:#x}; versions 2 and 3 of MXNet's array format are read")
        if storage != 0:
            raise MXNetFileError(f"{what} is sparse; save it as a dense one: x.tostype('default')")
        if axes > 32:
            raise MXNetFileError(f"{what} has {axes:,} axes; at most 32 are read")
        shape = self.numbers(f"{axes}q")
        if axes == 0 and magic == _V2:
            raise MXNetFileError(f"{what} has no shape")
        _, _, kind = self.numbers("iii")
        if kind not in _DTYPES:
            raise MXNetFileError(f"{what} has the dtype {kind}; those from 0 to 11 are read")
        dtype = np.dtype(_DTYPES[kind])
        if any(extent < 0 for extent in shape):
            raise MXNetFileError(f"{what} has the shape {shape}")
        data = self.take(math.prod(shape) * dtype.itemsize)
        if dtype == np.bool_ and data.strip(b"\x00\x01"):
            raise MXNetFileError(f"{what} has booleans that are neither 0 nor 1")
        try:
            return widened(np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype).reshape(shape))
        except ValueError as error:
            raise MXNetFileError(f"{what}: {error}") from error


def _read(path: Path) -> dict[str, np.ndarray]:
    try:
        content = read_untrusted(path, _MOST)
    except OSError as error:
        raise MXNetFileError(f"{path} cannot be read: {error.strerror or error}") from error
    if what := other_format(content, "mxnet"):
        raise MXNetFileError(f"{path} is not an MXNet .params file: {what}")
    reader = _Reader(path, content)
    head, reserved = reader.numbers("QQ")
    if head != _LIST or reserved != 0:
        raise MXNetFileError(f"{path} is not an MXNet .params file: it begins with {head:#x}, expected {_LIST:#x}")
    arrays = [reader.array(number) for number in range(reader.count(24))]
    names = []
    for _ in range(reader.count(8)):
        text = reader.take(reader.count(1))
        try:
            names.append(text.decode())
        except UnicodeDecodeError as error:
            raise MXNetFileError(f"{path}: the name {brief(text)} is not UTF-8") from error
    if not names:
        names = list(map(str, range(len(arrays))))
    if len(names) != len(arrays) or len(set(names)) != len(names):
        raise MXNetFileError(f"{path} has {len(arrays)} arrays and {len(set(names))} names")
    return dict(zip(names, arrays, strict=True))
