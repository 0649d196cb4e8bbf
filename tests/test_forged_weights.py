"""Damaged or inconsistent weight files raise their format's error, or load; in bounded time and memory.

Like tests/test_forged_files.py: a few cases of each kind have fixed seeds; the nightly run draws thousands of new ones.
"""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from forging import Random, cases_of, outcome, run_cases, run_fresh_cases
from interop.test_mxnet import LAYERS, file_bytes
from mutation import forged, mutated
from retrograd import nn
from retrograd.interop import (
    KerasFileError,
    MXNetFileError,
    NpzFileError,
    PTFileError,
    SafetensorsError,
    keras_weights,
    load_keras_weights,
    load_mxnet,
    load_mxnet_weights,
    load_npz,
    load_sharded,
    save_safetensors,
)

FILES = Path(__file__).parent / "interop" / "files"
INDEX = "model.safetensors.index.json"


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    files: dict[str, Any] = {path.name: path.read_bytes() for path in FILES.iterdir()}
    stream = io.BytesIO()
    rg.save({"model": nn.Linear(2, 3).state_dict(), "epoch": 3, "rest": [1.5, None, (True, "x")]}, stream)
    files["own.pt"] = stream.getvalue()
    files["x.params"] = file_bytes(LAYERS)
    for save in (np.savez, np.savez_compressed):
        stream = io.BytesIO()
        save(stream, a=np.arange(6.0).reshape(2, 3), b=np.array(True), c=np.arange(3, dtype=np.uint16))
        files[f"{save.__name__}.npz"] = stream.getvalue()
    folder = tmp_path_factory.mktemp("sharded")
    save_safetensors(nn.Linear(2, 3), folder / "a.safetensors")
    files["a.safetensors"] = (folder / "a.safetensors").read_bytes()
    return files


def _zipped(random: Random, content: bytes, change: Any, only: str = "") -> bytes:
    """Return a zip file with one changed member and a valid checksum, sometimes with a wrong size or name."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    chosen = [place for place, (info, _) in enumerate(members) if only in info.filename]
    place = chosen[random.integers(len(chosen))]
    stream = io.BytesIO()
    odd = random.integers(30)  # occasionally a member is omitted or compressed differently
    with zipfile.ZipFile(stream, "w") as archive:
        for number, (info, data) in enumerate(members):
            if odd != 0 or number != len(members) // 2:
                method = zipfile.ZIP_DEFLATED if odd == 1 else info.compress_type
                archive.writestr(info.filename, change(random, data) if number == place else data, method)
    return mutated(random, stream.getvalue()) if random.random() < 0.1 else stream.getvalue()


def _work_with(value: Any) -> None:
    """A loaded object can be inspected, and saving it succeeds or raises a documented error."""
    left, number = [value], 0
    while left and number < 5000:
        item, number = left.pop(), number + 1
        if isinstance(item, rg.Tensor):
            assert item.array.size < 2**62
            if item.array.nbytes < 10**6:
                with np.errstate(all="ignore"):
                    item.array.sum()
        elif isinstance(item, (list, tuple, set)):
            left += list(item)[:100]
        elif isinstance(item, dict):
            left += list(item.values())[:100]
    outcome(lambda: rg.save(value, io.BytesIO()), TypeError, ValueError)


def _loaded(content: bytes, folder: Path, **options: Any) -> str:
    path = folder / "x.pt"
    path.write_bytes(content)
    found, value = outcome(lambda: rg.load(path, **options), PTFileError)
    if found == "loaded":
        _work_with(value)
    return found


def case_pt(honest: dict[str, Any], random: Random, folder: Path) -> str:
    name = ("torch_2_13.pt", "own.pt", "torch_2_13_protocol_4.pt")[random.integers(3)]
    return _loaded(mutated(random, honest[name]), folder, mmap=bool(random.integers(2)))


def case_pt_pickle(honest: dict[str, Any], random: Random, folder: Path) -> str:
    name = ("torch_2_13.pt", "own.pt", "torch_2_13_protocol_4.pt")[random.integers(3)]
    return _loaded(_zipped(random, honest[name], mutated, "" if random.random() < 0.2 else "data.pkl"), folder)


def case_pt_legacy(honest: dict[str, Any], random: Random, folder: Path) -> str:
    encoding = ("utf-8", "latin1", "bytes")[random.integers(3)]
    return _loaded(mutated(random, honest["torch_2_13_legacy.pt"]), folder, encoding=encoding)


_GLOBALS = (
    *("torch FloatStorage", "torch LongStorage", "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter"),
    *("collections OrderedDict", "builtins set", "builtins list", "collections defaultdict", "torch Size", "os system"),
    *("numpy.core.multiarray _reconstruct", "numpy ndarray", "numpy dtype", "argparse Namespace", "_codecs encode"),
    *(
        "torch._utils _rebuild_tensor_v3",
        "torch._tensor _rebuild_from_type_v2",
        "torch float32",
        "torch.storage UntypedStorage",
        "numpy._core.multiarray scalar",
        "torch device",
        "collections Counter",
        "builtins bytearray",
    ),
)


def _program(random: Random) -> bytes:
    """Return a pickle of random opcodes that ends by collecting the remaining stack in a list."""
    parts = [b"\x80\x02("]
    pushes = (
        *(lambda: b"K" + random.bytes(1), lambda: b"N", lambda: b"]", lambda: b"}", lambda: b")", lambda: b"\x8f"),
        *(lambda: b"X\x01\x00\x00\x00" + bytes([97 + int(random.integers(3))]), lambda: b"J" + random.bytes(4)),
        *(lambda: b"\x8a\x08" + random.bytes(8), lambda: b"G" + random.bytes(8), lambda: b"C\x04" + random.bytes(4)),
        lambda: b"c" + _GLOBALS[random.integers(len(_GLOBALS))].replace(" ", "\n").encode() + b"\n",
    )
    storage = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x06tQ"
    tensor = b"ctorch._utils\n_rebuild_tensor\n(" + storage + b"K\x00K\x02K\x03\x86K\x03K\x01\x86tR"
    acts = tuple(bytes([code]) for code in b"t\x85\x85\x86\x87RRRb\x81asa2")
    for _ in range(random.integers(2, 40)):
        which = random.random()
        if which < 0.5:
            parts.append(pushes[random.integers(len(pushes))]())
        elif which < 0.6:
            parts.append(tensor if random.random() < 0.7 else storage)
        elif which < 0.7:
            parts.append((b"q\x00", b"q\x01", b"h\x00", b"h\x01")[random.integers(4)])
        elif which < 0.8:  # everything after a mark, as a container or as the arguments of a call
            inside = b"".join(pushes[random.integers(len(pushes))]() for _ in range(random.integers(5)))
            call = pushes[-1]() + b"(" + inside + b"tR"
            parts.append((call, b"](" + inside + b"e", b"}(" + inside + b"u", b"(" + inside + b"t")[random.integers(4)])
        else:
            parts.append(acts[random.integers(len(acts))])
    return b"".join([*parts, b"l."])


def case_pt_program(honest: dict[str, Any], random: Random, folder: Path) -> str:
    return _loaded(_zipped(random, honest["own.pt"], lambda random, data: _program(random), "data.pkl"), folder)


def _called(name: str, args: tuple[Any, ...]) -> bytes:
    """Return the pickle of a call."""
    return b"\x80\x02c" + name.replace(" ", "\n").encode() + b"\n" + pickle.dumps(args, 2)[2:-1] + b"R."


def case_pt_call(honest: dict[str, Any], random: Random, folder: Path) -> str:
    """Calls with invalid arguments."""
    honest_args = ([1, 2], 0, (2, 3), (3, 1), False, {}, b"1234", "f4", "cpu", (1, (2,), "<", None), 2**62, -1)
    drawn = [honest_args[random.integers(len(honest_args))] for _ in range(random.integers(1, 7))]
    made = forged(random, drawn)
    args = tuple(made) if isinstance(made, list) else (made,)
    try:
        content = _called(_GLOBALS[random.integers(len(_GLOBALS))], args)
    except (RecursionError, UnicodeEncodeError):
        return "not made"
    return _loaded(_zipped(random, honest["own.pt"], lambda random, data: content, "data.pkl"), folder)


def case_keras(honest: dict[str, Any], random: Random, folder: Path) -> str:
    name = ("keras_cnn.weights.h5", "keras_rnn.h5")[random.integers(2)]
    path = folder / "x.h5"
    path.write_bytes(mutated(random, honest[name]))
    if random.random() < 0.5:
        return outcome(lambda: keras_weights(path), KerasFileError)[0]
    return outcome(lambda: load_keras_weights(nn.Linear(5, 2), path, strict=False), KerasFileError)[0]


def case_mxnet(honest: dict[str, Any], random: Random, folder: Path) -> str:
    path = folder / "x.params"
    path.write_bytes(mutated(random, honest["x.params"]))
    if random.random() < 0.5:
        return outcome(lambda: load_mxnet(path), MXNetFileError)[0]
    return outcome(lambda: load_mxnet_weights(nn.Linear(16, 3), path, strict=False), MXNetFileError)[0]


def case_npz(honest: dict[str, Any], random: Random, folder: Path) -> str:
    content = honest[("savez.npz", "savez_compressed.npz")[random.integers(2)]]
    path = folder / "x.npz"
    path.write_bytes(mutated(random, content) if random.random() < 0.4 else _zipped(random, content, mutated))
    return outcome(lambda: load_npz(path), NpzFileError)[0]


def case_sharded(honest: dict[str, Any], random: Random, folder: Path) -> str:
    index = {"metadata": {"total_size": 36}, "weight_map": {"weight": "a.safetensors", "bias": "a.safetensors"}}
    try:
        text = json.dumps(forged(random, index)).encode() if random.random() < 0.7 else None
    except (ValueError, RecursionError, TypeError):
        text = b"[" * 5000
    (folder / INDEX).write_bytes(mutated(random, json.dumps(index).encode()) if text is None else text)
    content = honest["a.safetensors"]
    (folder / "a.safetensors").write_bytes(mutated(random, content) if random.random() < 0.3 else content)
    return outcome(lambda: load_sharded(folder), SafetensorsError)[0]


CASES = cases_of(globals())


@pytest.mark.parametrize("name", CASES)
def test_a_lie_ends_in_the_error_of_the_format(name: str, honest: dict[str, Any], tmp_path: Path) -> None:
    counts = run_cases(CASES, name, range(150), honest, tmp_path)
    assert counts["refused"] and counts["loaded"], counts


@pytest.mark.nightly
def test_fresh_cases(honest: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def say(text: str) -> None:
        with capsys.disabled():
            print(text, flush=True)

    run_fresh_cases(CASES, 20_000, honest, tmp_path, say)
