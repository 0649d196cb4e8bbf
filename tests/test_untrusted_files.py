"""Every file reader accepts only regular files of limited size, so that it cannot block or exhaust memory."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mutation import bounded
from retrograd._files.untrusted import open_untrusted, read_untrusted
from retrograd.data.images import ImageError, read_image
from retrograd.data.series import SeriesError, read_series
from retrograd.data.text import TextError, read_text
from retrograd.interop import load_safetensors
from retrograd.interop.safetensors import SafetensorsError
from retrograd.train import CheckpointError, load_checkpoint

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
