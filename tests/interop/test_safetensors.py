"""safetensors files: round trips under PyTorch's keys; damaged files are refused and change nothing."""

from __future__ import annotations

import errno
import json
import os
import struct
import sys

import numpy as np
import pytest

from retrograd import nn
from retrograd.engine.tensor import Tensor
from retrograd.interop import (
    SafetensorsError,
    load_model,
    load_safetensors,
    load_sharded_model,
    safetensors_metadata,
    save_safetensors,
)


def model() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Linear(4, 2))


def bits(module: nn.Module) -> dict[str, bytes]:
    return {name: tensor.array.tobytes() for name, tensor in module.state_dict().items()}


def written(path, tensors: dict[str, tuple[str, list[int], bytes]], metadata=None) -> None:
    """Write a file by the description of the format."""
    header, place = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [place, place + len(data)]}
        place += len(data)
    if metadata is not None:
        header["__metadata__"] = metadata
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def test_a_model_goes_out_and_in(tmp_path):
    first, second = model(), model()
    first[1].num_batches_tracked.array[...] = 7
    assert bits(first) != bits(second)
    save_safetensors(first, tmp_path / "m.safetensors", {"made by": "a test"})
    missing, unexpected = load_model(second, tmp_path / "m.safetensors")
    assert (missing, unexpected) == ([], []) and bits(first) == bits(second)
    assert safetensors_metadata(tmp_path / "m.safetensors") == {"made by": "a test"}
    assert list(tmp_path.iterdir()) == [tmp_path / "m.safetensors"]


def test_every_element_type_and_any_strides(tmp_path):
    random = np.random.default_rng(0)
    state = {
        "f": random.standard_normal((3, 4)).astype(np.float32)[::-1].T,
        "d": Tensor(random.standard_normal((2, 1, 5)).swapaxes(0, 2)),
        "i": np.array(-(2**62)),
        "b": np.array([[True, False, True]]),
        "none": np.zeros((0, 3), np.float32),
    }
    save_safetensors(state, tmp_path / "x")
    found = load_safetensors(tmp_path / "x")
    assert found.keys() == state.keys()
    for name, tensor in found.items():
        expected = getattr(state[name], "array", state[name]) if name == "d" else state[name]
        assert tensor.dtype == expected.dtype and tensor.shape == expected.shape
        assert tensor.array.tobytes() == expected.tobytes()
        tensor.array[...] = 0  # its own memory


def test_the_bytes_are_those_of_the_format(tmp_path):
    save_safetensors({"a": np.array([[1.5, -2.0]], np.float32)}, tmp_path / "x")
    content = (tmp_path / "x").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    assert header["a"] == {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}
    assert content[8 + length :] == struct.pack("<2f", 1.5, -2.0)


@pytest.mark.parametrize(
    ("dtype", "data", "kept", "values"),
    [
        ("F16", np.array([1.5, -65504, 6e-8], "<f2").tobytes(), np.float16, [1.5, -65504, float(np.float16(6e-8))]),
        ("BF16", struct.pack("<3H", 0x3FC0, 0xC000, 0x7F80), np.float32, [1.5, -2.0, np.inf]),
        ("I32", struct.pack("<3i", -3, 0, 2**31 - 1), np.int32, [-3, 0, 2**31 - 1]),
        ("I8", struct.pack("<3b", -3, 0, 127), np.int8, [-3, 0, 127]),
        ("U8", bytes([0, 3, 255]), np.uint8, [0, 3, 255]),
        ("BOOL", bytes([0, 1, 1]), np.bool_, [False, True, True]),
    ],
)
def test_other_element_types_are_widened(tmp_path, dtype, data, kept, values):
    written(tmp_path / "x", {"t": (dtype, [3], data)}, {"from": "elsewhere"})
    tensor = load_safetensors(tmp_path / "x")["t"]
    assert tensor.dtype == kept and tensor.array.tolist() == values
    assert safetensors_metadata(tmp_path / "x") == {"from": "elsewhere"}


@pytest.mark.parametrize(("dtype", "size"), [("U64", 8), ("F8_E4M3", 1), ("C64", 8)])
def test_an_element_type_that_no_tensor_has_is_named(tmp_path, dtype, size):
    written(tmp_path / "x", {"layer.weight": (dtype, [2], bytes(2 * size))})
    with pytest.raises(SafetensorsError, match=f"'layer.weight' is {dtype}, which a Tensor cannot hold"):
        load_safetensors(tmp_path / "x")


def test_the_order_is_that_of_the_file(tmp_path):
    names = [f"{number}" for number in (3, 1, 4, 15, 9, 2, 6)]
    written(tmp_path / "x", {name: ("F32", [1], struct.pack("<f", 1)) for name in names})
    assert list(load_safetensors(tmp_path / "x")) == names


def test_strict_and_not(tmp_path):
    small, whole = nn.Sequential(nn.Linear(4, 2)), nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 2))
    save_safetensors(small, tmp_path / "small")
    before = bits(whole)
    with pytest.raises(SafetensorsError, match=r"small does not fit the model.*(?s:.*)1\.weight"):
        load_model(whole, tmp_path / "small")
    assert bits(whole) == before
    missing, unexpected = load_model(whole, tmp_path / "small", strict=False)
    assert missing == ["1.weight", "1.bias"] and unexpected == []
    assert bits(whole)["0.weight"] == bits(small)["0.weight"] and bits(whole)["1.weight"] == before["1.weight"]
    save_safetensors(whole, tmp_path / "whole")
    assert sorted(load_model(small, tmp_path / "whole", strict=False).unexpected_keys) == ["1.bias", "1.weight"]
    other = nn.Sequential(nn.Linear(5, 2))
    before = bits(other)
    with pytest.raises(SafetensorsError, match="size mismatch for 0.weight"):
        load_model(other, tmp_path / "small", strict=False)
    assert bits(other) == before


def test_what_cannot_be_saved(tmp_path):
    for state, message in (
        (3, "expected a Module or a dict of Tensors, got int"),
        ({"a": [1.0]}, "'a' is list"),
        ({1: np.zeros(2)}, "1 is ndarray; expected str keys"),
        ({"a": np.zeros(2, np.uint16)}, "'a' is uint16"),
    ):
        with pytest.raises(TypeError, match=message):
            save_safetensors(state, tmp_path / "x")
    with pytest.raises(TypeError, match="must map str to str"):
        save_safetensors({}, tmp_path / "x", {"epochs": 3})  # type: ignore[dict-item]
    with pytest.raises(SafetensorsError, match="used by the file itself"):
        save_safetensors({"__metadata__": np.zeros(1)}, tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_keeps_the_earlier_file(tmp_path, monkeypatch):
    path = tmp_path / "x"
    save_safetensors({"a": np.zeros(3)}, path)
    before = path.read_bytes()

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SafetensorsError, match="x was not written, the earlier one is unchanged: no space is left"):
        save_safetensors({"a": np.ones(3)}, path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_no_file_and_no_package(tmp_path, monkeypatch):
    with pytest.raises(SafetensorsError, match="none cannot be read: No such file"):
        load_safetensors(tmp_path / "none")
    with pytest.raises(SafetensorsError, match="cannot be read: Is a directory"):
        load_safetensors(tmp_path)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    for call in (lambda: load_safetensors("x"), lambda: save_safetensors({}, "x")):
        with pytest.raises(ImportError, match=r'pip install "retrograd\[safetensors\]"'):
            call()


# ---- damage ----------------------------------------------------------------------------------------------------------


def mutated(content: bytes, random: np.random.Generator) -> bytes:
    """One fault of a kind that happens: bits, bytes and pieces changed, lost, doubled, moved; other lengths."""
    data, kind = bytearray(content), random.integers(8)
    spot = int(random.integers(len(data) if random.random() < 0.5 else min(len(data), 400)))
    length = int(random.integers(1, 40))
    if kind == 0:
        data[spot] ^= 1 << int(random.integers(8))
    elif kind == 1:
        data[spot : spot + length] = random.bytes(len(data[spot : spot + length]))
    elif kind == 2:
        del data[spot:]
    elif kind == 3:
        del data[spot : spot + length]
    elif kind == 4:
        data[spot:spot] = random.bytes(length)
    elif kind == 5:
        data[:8] = int(random.integers(0, 2**63)).to_bytes(8, "little")
    elif kind == 6:  # a number of the header
        digits = [place for place in range(8, min(len(data), 400)) if chr(data[place]).isdigit()]
        data[digits[int(random.integers(len(digits)))]] = ord(str(random.integers(10)))
    else:
        piece = bytes(data[spot : spot + length])
        target = int(random.integers(len(data)))
        data[target:target] = piece
    return bytes(data)


@pytest.mark.parametrize("count", [1000, pytest.param(20000, marks=pytest.mark.nightly)])
def test_a_mutated_file_is_refused_or_harmless(tmp_path, count):
    """In a file that we wrote, every change is detected that alters a number or a name."""
    source, target = model(), model()
    path = tmp_path / "x"
    save_safetensors(source, path, {"text": "of a user"})
    content, right, before = path.read_bytes(), bits(source), bits(target)
    random = np.random.default_rng(count)
    refused = 0
    for _ in range(count):
        path.write_bytes(mutated(content, random))
        try:
            load_model(target, path)
        except SafetensorsError as error:
            refused += 1
            assert str(path) in str(error)
            assert bits(target) == before
        else:
            assert bits(target) == right
            for name, tensor in target.state_dict().items():
                np.copyto(tensor.array, np.frombuffer(before[name], tensor.dtype).reshape(tensor.shape))
    assert refused > 0.8 * count


@pytest.mark.parametrize("count", [200, pytest.param(4000, marks=pytest.mark.nightly)])
def test_a_mutated_file_of_others_never_crashes(tmp_path, count):
    """Without a digest, a changed number cannot be detected, but every other change is."""
    path, target = tmp_path / "x", model()
    state = {name: tensor.array for name, tensor in target.state_dict().items()}
    names = {"float32": "F32", "int64": "I64"}
    written(path, {name: (names[a.dtype.name], list(a.shape), a.tobytes()) for name, a in state.items()})
    load_model(target, path)
    content = path.read_bytes()
    random = np.random.default_rng(count)
    for _ in range(count):
        path.write_bytes(mutated(content, random))
        before = bits(target)
        try:
            load_model(target, path)
        except SafetensorsError:
            assert bits(target) == before


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 8,
        struct.pack("<Q", 2**63) + b"{}",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 4) + b"null",
        struct.pack("<Q", 20000) + b"[" * 20000,
        b"PK\x03\x04 a zip archive",
    ],
)
def test_files_of_other_kinds(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(SafetensorsError, match="x is not a safetensors file"):
        load_safetensors(tmp_path / "x")


def test_headers_that_lie(tmp_path):
    path = tmp_path / "x"
    huge = {"a": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 8]}}
    overlap = {n: {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} for n in "ab"}
    beyond = {"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}
    for header in (huge, overlap, beyond):
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
        with pytest.raises(SafetensorsError, match="damaged"):
            load_safetensors(path)


class Tied(nn.Module):
    """A model with tied weights, as in language models: the last layer has the weight of the embedding."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head, self.other = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False), nn.Linear(3, 5)
        self.head.weight = self.embedding.weight


@pytest.mark.parametrize("kept", ["embedding.weight", "head.weight"])
def test_tied_weights_are_stored_once(tmp_path, kept):
    net = Tied()
    state = {
        key: Tensor(np.random.default_rng(0).standard_normal(value.shape).astype(np.float32))
        for key, value in net.state_dict().items()
        if kept == key or key.startswith("other")
    }
    save_safetensors(state, tmp_path / "tied")
    assert load_model(net, tmp_path / "tied") == ([], [])
    assert net.head.weight is net.embedding.weight
    assert np.array_equal(net.embedding.weight.array, state[kept].array)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": dict.fromkeys(state, "tied")}))
    assert load_sharded_model(Tied(), tmp_path) == ([], [])
    save_safetensors({key: value for key, value in state.items() if key != "other.weight"}, tmp_path / "less")
    with pytest.raises(SafetensorsError, match='Missing key.*"other.weight"'):  # is the weight of no other layer
        load_model(net, tmp_path / "less")
    net.head.weight = nn.Parameter(net.head.weight.array.copy())
    with pytest.raises(SafetensorsError, match='Missing key.*"(head|embedding).weight"'):  # no longer tied
        load_model(net, tmp_path / "tied")
