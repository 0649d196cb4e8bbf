"""Every file reader accepts only regular files of limited size, so that it cannot block or exhaust memory."""

from __future__ import annotations

import os
import pickle
import re
import socket
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mutation import bounded
from retrograd import Tensor, load, nn, save
from retrograd._files.untrusted import open_untrusted, read_untrusted
from retrograd.data.images import ImageError, read_image
from retrograd.data.series import SeriesError, read_series
from retrograd.data.text import TextError, read_text
from retrograd.interop import MXNetFileError, load_mxnet, load_npz_weights, load_safetensors, save_safetensors
from retrograd.interop.npz import NpzFileError
from retrograd.interop.pt import PTFileError
from retrograd.interop.safetensors import SafetensorsError
from retrograd.train import CheckpointError, load_checkpoint, save_checkpoint

READERS: list[tuple[Callable[[Path], Any], type[Exception]]] = [
    (load_checkpoint, CheckpointError),
    (load_safetensors, SafetensorsError),
    (lambda path: read_image(path, 3), ImageError),
    (lambda path: read_series(path, "x"), SeriesError),
    (read_text, TextError),
]
NAMES = ["checkpoint", "safetensors", "image", "series", "text"]


def pipe(path: Path) -> None:
    os.mkfifo(path)


def sparse(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(2**40)


def link(path: Path) -> None:
    path.symlink_to("/dev/zero")


def listening(path: Path) -> None:
    before = os.getcwd()
    os.chdir(path.parent)  # the path of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(before)


@pytest.mark.parametrize("make", [pipe, sparse, link, Path.mkdir, listening])
@pytest.mark.parametrize(("read", "error"), READERS, ids=NAMES)
def test_what_is_no_file_of_a_possible_size(
    read: Callable[[Path], Any], error: type[Exception], make: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "file"
    make(path)
    said = {"pipe": "it is a pipe", "sparse": "the limit is [0-9,]+", "mkdir": "[Ii]s a (directory|folder)"}
    message = said.get(make.__name__, "it is a device|No such device") + "|is not a file"
    with bounded(), pytest.raises(error, match=message):
        read(path)


@pytest.mark.parametrize(("read", "error"), READERS, ids=NAMES)
def test_a_large_sparse_file_that_may_be_read_is_no_file_of_the_kind(
    read: Callable[[Path], Any], error: type[Exception], tmp_path: Path
) -> None:
    with open(tmp_path / "file", "wb") as file:
        file.truncate(2**27)
    with bounded(), pytest.raises(error):
        read(tmp_path / "file")


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1000)
    assert read_untrusted(path, 1000) == b"x" * 1000
    with pytest.raises(OSError, match=re.escape("it has 1,000 bytes; the limit is 999")):
        open_untrusted(path, 999)
    (tmp_path / "link").symlink_to(path)
    assert len(read_untrusted(tmp_path / "link", 1000)) == 1000
    with pytest.raises(FileNotFoundError):
        open_untrusted(tmp_path / "none", 1)
    before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        with pytest.raises(OSError, match="it is a device"):
            open_untrusted("/dev/zero", 10)
    assert len(os.listdir("/dev/fd")) == before


# ---- files of another format: every reader says what the file is, and what reads it ----------------------------------


def _zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "text")


def _array(path: Path) -> None:
    with open(path, "wb") as file:
        np.save(file, np.ones(3))


def _archive(path: Path) -> None:
    with open(path, "wb") as file:
        np.savez(file, x=np.ones(3))


def _half(path: Path) -> None:
    save({"a": Tensor(np.ones(50, np.float32))}, path)
    path.write_bytes(path.read_bytes()[:-100])


WRITERS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "pt": (lambda path: save({"a": 1}, path), "a file of torch.save; retrograd.load reads it"),
    "safetensors": (lambda path: save_safetensors({"a": Tensor([1.0])}, path), ".*load_safetensors reads its arrays"),
    "checkpoint": (lambda path: save_checkpoint(path, {"a": 1}), ".*retrograd.train.load_checkpoint reads it"),
    "npz": (_archive, r"a NumPy archive \(.npz\); numpy.load or"),
    "npy": (_array, "a NumPy array; numpy.load reads it"),
    "pickle": (lambda path: path.write_bytes(pickle.dumps({"a": 1})), "a plain pickle, which can execute code"),
    "hdf5": (lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(50)), "an HDF5 file; .*load_keras_weights"),
    "onnx": (lambda path: path.write_bytes(b"\x08\x08\x12\x05hello"), "an ONNX model; retrograd.onnx.load reads it"),
    "mxnet": (lambda path: path.write_bytes(b"\x12\x01" + bytes(38)), "a .params file of MXNet; .*load_mxnet_weights"),
    "picture": (lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(50)), "a picture"),
    "gzip": (lambda path: path.write_bytes(b"\x1f\x8b" + bytes(50)), "compressed by gzip; unpack it first"),
    "text": (lambda path: path.write_text("epoch,loss\n1,0.5\n" * 60), "a text file that begins with 'epoch,loss'"),
    "zip": (_zip, "a zip file with other contents"),
    "empty": (Path.touch, "empty"),
}
OWN: dict[str, tuple[Callable[[Path], Any], type[Exception]]] = {
    "pt": (load, PTFileError),
    "safetensors": (load_safetensors, SafetensorsError),
    "checkpoint": (load_checkpoint, CheckpointError),
    "npz": (lambda path: load_npz_weights(nn.Linear(2, 2), path), NpzFileError),
    "mxnet": (load_mxnet, MXNetFileError),
}


@pytest.mark.parametrize("reader", OWN)
@pytest.mark.parametrize("written", WRITERS)
def test_a_file_of_another_format_is_named(reader: str, written: str, tmp_path: Path) -> None:
    path, (write, what), (read, error) = tmp_path / "x", WRITERS[written], OWN[reader]
    write(path)
    if reader == written:
        what = "does not fit the model"
    elif {reader, written} == {"npz", "checkpoint"}:  # both are archives of arrays
        what = "it lacks the metadata of one" if reader == "checkpoint" else "does not fit the model"
    else:
        what = rf"x (is not a.*|cannot be loaded): it is {what}"
    if reader == written and reader != "npz":
        read(path)
        return
    with pytest.raises(error, match=what):
        read(path)


@pytest.mark.parametrize("reader", ["pt", "checkpoint", "npz"])
def test_a_zip_file_without_its_end(reader: str, tmp_path: Path) -> None:
    _half(tmp_path / "x")
    read, error = OWN[reader]
    with pytest.raises(error, match="cut off or damaged: (the end of the zip file|its end) is missing"):
        read(tmp_path / "x")
