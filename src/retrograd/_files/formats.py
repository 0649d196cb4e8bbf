"""Recognition of file formats by content, for the messages of readers that were given another kind of file."""

from __future__ import annotations

import codecs
import io
import zipfile
from typing import BinaryIO

from .state import brief

__all__ = ["other_format"]

_KINDS = {  # kind -> what a file is, and what reads it
    "empty": "it is empty",
    "torch": "it is a file of torch.save; retrograd.load reads it",
    "safetensors": "it is a safetensors file; retrograd.interop.load_safetensors reads its arrays, "
    "retrograd.load_packed a packed model",
    "checkpoint": "it is the checkpoint of a training run; retrograd.train.load_checkpoint reads it",
    "npz": "it is a NumPy archive (.npz); numpy.load or retrograd.interop.load_npz_weights reads it",
    "npy": "it is a NumPy array; numpy.load reads it",
    "onnx": "it is an ONNX model; retrograd.onnx.load reads it",
    "mxnet": "it is a .params file of MXNet; retrograd.interop.load_mxnet_weights reads it",
    "keras": "it is a Keras model; retrograd.interop.load_keras_weights reads its weights",
    "hdf5": "it is an HDF5 file; retrograd.interop.load_keras_weights reads those of Keras",
    "pickle": "it is a plain pickle, which can execute code when it is read; if you trust it, open it with pickle.load "
    "and write its arrays with retrograd.save",
    "gzip": "it is compressed by gzip; unpack it first",
    "gguf": "it is a GGUF file, which retrograd cannot read",
    "picture": "it is a picture",
    "cut zip": "it is a zip file that was cut off or damaged: its end is missing; copy or download it again",
    "zip": "it is a zip file with other contents",
}
_ALSO_OWN = {"npz": ("checkpoint", "cut zip"), "checkpoint": ("npz", "cut zip"), "keras": ("hdf5", "cut zip")}
_BEGINNINGS = (
    (b"\x89HDF\r\n\x1a\n", "hdf5"),
    (b"\x93NUMPY", "npy"),
    (b"\x1f\x8b", "gzip"),
    (b"GGUF", "gguf"),
    (b"\x12\x01" + bytes(14), "mxnet"),
    (b"\x89PNG", "picture"),
    (b"\xff\xd8\xff", "picture"),
    (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "torch"),  # the format before PyTorch 1.6: a pickle of its own number
)


def other_format(file: BinaryIO | bytes, own: str = "") -> str:
    """Return a clause that says what a file is and what reads it; "" if that is unknown.

    own: the kind that the caller reads, a key of ``_KINDS``; a file of this kind, perhaps damaged, gives "".
    """
    stream = io.BytesIO(file) if isinstance(file, bytes) else file
    stream.seek(0)
    head = stream.read(512)
    kind = _kind(head, stream)
    if kind in (own, *_ALSO_OWN.get(own, ())):
        return ""
    if kind:
        return _KINDS[kind]
    line = _first_line(head)
    return f"it is a text file that begins with {brief(line[:40])}" if line else ""


def _kind(head: bytes, stream: BinaryIO) -> str:
    if not head:
        return "empty"
    if head[:4] == b"PK\x03\x04":
        return _kind_of_zip(stream)
    for beginning, kind in _BEGINNINGS:
        if head.startswith(beginning):
            return kind
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 2**32:
        return "safetensors"
    if head[0] == 0x80 and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return "pickle"
    if head[0] == 0x08 and head[1:2] < b"\x20" and head[2:3] in (b"\x12", b"\x1a", b"\x3a", b"\x42"):
        return "onnx"  # the version, then the producer's name, the domain, the graph or the operator set
    return ""


def _kind_of_zip(stream: BinaryIO) -> str:
    try:
        with zipfile.ZipFile(stream) as archive:
            names = archive.namelist()
    except Exception:  # whatever the zip reader raises for an untrusted file
        return "cut zip"
    if any(name.endswith("/data.pkl") for name in names):
        return "torch"
    if {"metadata.npy", "sha256.npy"} <= {*names}:
        return "checkpoint"
    if names and all(name.endswith(".npy") for name in names):
        return "npz"
    return "keras" if "model.weights.h5" in names else "zip"


def _first_line(head: bytes) -> str:
    """Return the first line of a text; "" for anything else."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)  # the last character may be cut off
    except UnicodeDecodeError:
        return ""
    return text.strip().partition("\n")[0].rstrip() if all(c.isprintable() or c in "\n\r\t" for c in text) else ""
