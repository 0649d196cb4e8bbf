"""Files of packed models: bitwise round trips; truncated, edited or forged files are refused by name."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import retrograd
from forging import Random, outcome
from retrograd import Tensor, lowbit, nn
from retrograd.cli import main
from retrograd.interop import SafetensorsError, load_packed, load_safetensors, save_packed, save_safetensors
from retrograd.kernel_set import use_kernels
from retrograd.ops.random.random import default_generator, fork_rng

SIGNS: dict[str, Any] = {"weight": lowbit.XNOR(), "activation": lowbit.Sign()}
BYTES: dict[str, Any] = {"weight": lowbit.Int8(), "activation": lowbit.Int8()}
IMAGE = {"channels": 1, "size": 12, "mean": [0.5], "std": [0.25]}
CLASSES = ["disc", "square", "\x1b[31mred"]


def network() -> nn.Sequential:
    """Every kind of entry: float layers, bits, codes of several bits, shifts, pools, nested Sequential, a Quantize."""
    with fork_rng():
        retrograd.manual_seed(5)
        model = nn.Sequential(
            nn.Conv2d(1, 6, 3, activation="relu"),
            nn.BatchNorm2d(6),
            nn.Sequential(lowbit.Conv2d(6, 9, 3, padding=1, **SIGNS), nn.MaxPool2d(2), nn.BatchNorm2d(9)),
            lowbit.Conv2d(9, 8, 3, **SIGNS),
            nn.ReLU(),
            lowbit.Conv2d(8, 6, 2, groups=2, **BYTES),
            nn.MaxPool2d(2),
            nn.Flatten(),
            lowbit.Linear(6, 7, **BYTES),
            lowbit.Quantize(lowbit.PACT(4)),
            lowbit.Linear(7, 5, weight=lowbit.DeepShiftPS(5), activation=lowbit.Fixed(4, 4)),
            lowbit.Linear(5, 5, weight=lowbit.TWN(), bias=False),
            nn.PReLU(5),
            nn.Linear(5, 3),
        )
        for _ in range(3):
            model(retrograd.randn(8, 1, 12, 12))
        model[2][2].weight.array[::2] *= -1
    return model.eval()


def packed(**options: Any) -> Any:
    return network().pack(classes=CLASSES, image=IMAGE, **options)


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("packed") / "m.safetensors"
    packed().save(path)
    return path.read_bytes()


def x(count: int = 3) -> Tensor:
    return Tensor(np.random.default_rng(7).standard_normal((count, 1, 12, 12)).astype(np.float32))


def taken_apart(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the header and the data of a file."""
    length = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def put_together(header: dict[str, Any], data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def edited(content: bytes, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """Return the file with an edited description and a correct digest."""
    header, data = taken_apart(content)
    entries = json.loads(header["__metadata__"]["retrograd.packed"])
    change(entries)
    text = json.dumps(entries)
    header["__metadata__"] |= {
        "retrograd.packed": text,
        "retrograd.packed.sha256": hashlib.sha256(text.encode()).hexdigest(),
    }
    return put_together(header, data)


# ------------------------------------------------------------------------------------------------------ in and out


@pytest.mark.parametrize("options", [{}, {"fuse": False}, {"floats": "bfloat16"}, {"skip": ["3", "8"]}], ids=str)
def test_a_packed_model_goes_out_and_in(tmp_path: Path, options: dict[str, Any]) -> None:
    model = packed(**options)
    model.save(tmp_path / "m.safetensors")
    state = default_generator.get_state()
    found = load_packed(tmp_path / "m.safetensors", into=network() if "skip" in options else None)
    assert repr(default_generator.get_state()) == repr(state)
    np.testing.assert_array_equal(found(x()).array, model(x()).array)
    assert (found.classes, found.image) == (tuple(CLASSES), IMAGE) and repr(found) == repr(model)
    assert not any(p.requires_grad for p in found.parameters()) and not found.training
    found.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "m.safetensors").read_bytes()


def test_what_the_file_holds(content: bytes) -> None:
    """Signs are bits, lowest first, by output, tap and input channel; shifts take 5 bits. Decoded independently."""
    header, data = taken_apart(content)

    def array(name: str, dtype: str) -> np.ndarray:
        begin, end = header[name]["data_offsets"]
        return np.frombuffer(data[begin:end], dtype)

    model = network()
    first, shifts = model[2][0], model[10]
    bits = np.moveaxis(first.weight.array >= 0, 1, -1).ravel()
    assert header["2.0.weight.codes"]["dtype"] == "U8"
    np.testing.assert_array_equal(array("2.0.weight.codes", "u1"), np.packbits(bits, bitorder="little"))
    stream = np.unpackbits(array("10.weight.codes", "u1"), bitorder="little")[: 35 * 5].reshape(35, 5)
    code = stream @ (1 << np.arange(5))
    exponent, sign = (code & 15).astype(int), 1 - 2 * (code >> 4)
    values = np.where(exponent == 0, 0, sign * 2.0 ** (exponent - 1 - 14)).reshape(5, 7)
    np.testing.assert_array_equal(values, shifts.quantized().array)
    step = array("8.weight.step", "<f4")
    codes = array("8.weight.codes", "u1").astype(int).reshape(7, 6) - 127
    np.testing.assert_allclose(codes * step[:, None], model[8].quantized().array, 1e-6)
    ternary = np.unpackbits(array("11.weight.codes", "u1"), bitorder="little")[:50].reshape(25, 2) @ [1, 2]
    np.testing.assert_array_equal(np.sign(model[11].quantized().array).ravel(), ternary - 1)


def test_files_are_small(tmp_path: Path) -> None:
    """LeNet: binary weights take at most 1/20 of the float file, 5-bit shifts at most 1/6; also in other formats."""

    def lenet() -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(1, 20, 5),
            nn.MaxPool2d(2),
            nn.BatchNorm2d(20),
            nn.Conv2d(20, 50, 5),
            nn.MaxPool2d(2),
            nn.BatchNorm2d(50),
            nn.Flatten(),
            nn.Linear(800, 500),
            nn.BatchNorm1d(500),
            nn.Linear(500, 10),
        ).eval()

    def size(model: Any) -> int:
        save_safetensors(model, tmp_path / "f") if isinstance(model, nn.Sequential) else model.save(tmp_path / "f")
        return os.path.getsize(tmp_path / "f")

    full, binary, shift = size(lenet()), lenet(), lenet()
    lowbit.convert_to_binary(binary, weight=lowbit.XNOR())
    lowbit.convert_to_shift(shift)
    assert size(binary.pack()) * 20 <= full
    assert size(shift.pack()) * 6 <= full
    half = binary.pack(floats="bfloat16")
    assert size(half) * 23 <= full
    one, other = half(y := retrograd.randn(2, 1, 28, 28)).array, load_packed(tmp_path / "f")(y).array
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)  # a BLAS rounds by where its operands lie


class Own(nn.Module):
    """A user's class, which a file cannot describe, with a recurrent layer, a parameter and a Sequential."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(np.full(4, 2, np.float32))
        self.rnn = lowbit.LSTM(4, 4, weight=lowbit.TWN())
        self.head = nn.Sequential(lowbit.Linear(4, 6, **SIGNS), nn.BatchNorm1d(6), lowbit.Linear(6, 2, **SIGNS))

    def forward(self, x: Tensor) -> Tensor:
        return self.head((self.rnn(x)[0] * self.scale)[-1])


def test_a_model_of_another_class(tmp_path: Path) -> None:
    model, other, path = Own().eval(), Own(), tmp_path / "own.safetensors"
    before = {key: value.array.copy() for key, value in other.state_dict().items()}
    y = Tensor(np.random.default_rng(0).standard_normal((5, 3, 4)).astype(np.float32))
    packed = model.pack()
    np.testing.assert_allclose(packed(y).array, model(y).array, 1e-6, 1e-6)
    packed.save(path)
    np.testing.assert_array_equal(load_packed(path, into=other)(y).array, packed(y).array)
    assert other.training
    for key, value in other.state_dict().items():
        np.testing.assert_array_equal(value.array, before[key])
    for into, message in (
        (None, r"own.safetensors .*\(model\) is a 'Own', whose code is not in the file; give a model that has it: "),
        (nn.Sequential(), r"the model given has Sequential there: load_packed\(path, into=model\)"),
    ):
        with pytest.raises(SafetensorsError, match=message):
            load_packed(path, into=into)
    other.rnn = nn.LSTM(4, 4)
    with pytest.raises(SafetensorsError, match="rnn is a low-bit 'LSTM', which a file does not describe"):
        load_packed(path, into=other)
    with pytest.raises(TypeError, match="into is str, expected a Module"):
        load_packed(path, into="model")


# -------------------------------------------------------------------------------------------------------- the refused


def test_damage_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.safetensors"
    header, data = taken_apart(content)
    swapped = bytearray(content)
    swapped[-3] ^= 1
    elsewhere = content.replace(b'\\"version\\":1', b'\\"version\\":2')
    assert elsewhere != content
    for damaged, message in (
        (content[:-5], "cut off or damaged"),
        (bytes(swapped), r"changed after it was written \(SHA-256 differs\)"),
        (elsewhere, r"changed after it was written \(SHA-256 differs\)"),
        (edited(content, lambda e: e.update(version=2)), "it has version 2, this retrograd reads version 1"),
        (
            put_together({k: v for k, v in header.items() if k != "__metadata__"}, data),
            "is not a packed model; load_saf",
        ),
        (edited(content, lambda e: e.update(classes=["a", "a"])), "must be a list of distinct strings"),
        (edited(content, lambda e: e["image"].update(size=0)), "image=.* must be"),
        (edited(content, lambda e: e.pop("image")), "has the entries"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(SafetensorsError, match=f"bad.safetensors .*{message}|{message}") as caught:
            load_packed(path)
        assert str(path) in str(caught.value)
    with pytest.raises(SafetensorsError, match="No such file"):
        load_packed(tmp_path / "none.safetensors")


def child(*path: str) -> Callable[[dict[str, Any]], Any]:
    def find(entries: dict[str, Any]) -> Any:
        found = entries["model"]
        for name in path:
            found = found["children"][name]
        return found

    return find


FORGED: list[tuple[tuple[str, ...], Callable[[Any], Any], str]] = [
    (("0",), lambda e: e.update({"class": "Bilinear"}), "the class of 0 is 'Bilinear', which is not known"),
    (("0",), lambda e: e.update({"class": 3}), "the class of 0 is 3"),
    (("0",), lambda e: e["options"].update(weight=1), "the options of 0 are"),
    (("0",), lambda e: e["options"].update(out_channels=2**30), "the file has 54 weights of 0, whose options are"),
    (("0",), lambda e: e["options"].update(padding=[5000, 0]), "padding of 0 is .* at most 1024"),
    (("0",), lambda e: e["options"].update(padding_mode="other"), "padding_mode='other'"),
    (("0",), lambda e: e["options"].update(bias=False), "Unexpected key"),
    (("1",), lambda e: e.update(channels=7), r"1.scale is float32 \(6,\), needs float32 \(7,\)"),
    (("2", "0"), lambda e: e["weights"]["weight"].update(shape=[9, 6, 3, 4]), r"codes is uint8 \(61,\), needs .*81"),
    (("2", "0"), lambda e: e["weights"]["weight"].update(shape=[9, 3, 6, 3]), "its options make it"),
    (("2", "0"), lambda e: e["weights"]["weight"].update(Uniform={"low": 0, "high": 0, "stride": 1}), "of 0 bits"),
    (("2", "0"), lambda e: e["weights"]["weight"].update(shape=[2**31] * 3), "has the shape"),
    (("2", "0"), lambda e: e["weights"].update(other=e["weights"].pop("weight")), "codes is missing"),
    (("2", "0"), lambda e: e.update(activation={"class": "Sign", "options": {"beta": "x"}}), "Sign: beta='x'"),
    (("2", "0"), lambda e: e.update(activation={"class": "Module", "options": {}}), "the quantizer of 2.0"),
    (("2", "0"), lambda e: e.update(layer="LSTM"), "the layer of 2.0 is 'LSTM'"),
    (("2", "0"), lambda e: e.update(then=[1, 2]), "what is behind 2.0 has 2 items"),
    (("2", "0"), lambda e: e.update(activation=None), "2.0 has a next layer, but is computed in float"),
    (("2", "1"), lambda e: e.update(options=[0, 1, 0, 1]), "does not classify|kernel"),
    (("2", "1"), lambda e: e.update(channels=90), r"2.1.turned is uint8 \(2,\), needs uint8 \(12,\)"),
    (("2", "1"), lambda e: e.update(element="int16"), "needs int16"),
    (("5",), lambda e: e["options"].update(groups=0), "groups"),
    (("5",), lambda e: e["then"].__setitem__(2, 256), "a code behind 5 is 256"),
    (("8",), lambda e: e["weights"]["weight"]["Uniform"].update(high=3), "a code is 254, the largest is 130"),
    (("10",), lambda e: e["weights"]["weight"]["Shifts"].update(bits=9), "bits.* is 9"),
    (("11",), lambda e: e["weights"]["weight"]["Uniform"].update(high=0), "a code is 2|codes is uint8"),
    ((), lambda e: e["children"].pop("13"), "Unexpected key"),
    ((), lambda e: e.update(children=3), "the children of .model. are 3"),
]


@pytest.mark.parametrize("row", range(len(FORGED)))
def test_a_forged_description(content: bytes, tmp_path: Path, row: int) -> None:
    """A forged description with a correct digest raises an error when the file is loaded or the model runs."""
    path, change, message = FORGED[row]
    (tmp_path / "m.safetensors").write_bytes(edited(content, lambda entries: change(child(*path)(entries))))
    with pytest.raises((SafetensorsError, ValueError, TypeError), match=message):
        load_packed(tmp_path / "m.safetensors")(x())


def scrambled(entries: Any, random: Random) -> None:
    """Return the description with one random number, string or list replaced."""
    places: list[tuple[Any, Any]] = []
    waiting = [entries["model"]]
    while waiting:
        one = waiting.pop()
        for key, value in one.items() if isinstance(one, dict) else enumerate(one):
            places.append((one, key))
            if isinstance(value, (dict, list)):
                waiting.append(value)
    holder, key = places[random.integers(len(places))]
    value = holder[key]
    others = [None, 0, -1, 2, 7, 33, 1 << 20, 1 << 62, 0.5, "x", True, [], {}, [1, 2], "Sequential", {"class": "ReLU"}]
    if isinstance(value, int) and random.integers(2):
        others = [value - 1, value + 1, 2 * value]
    holder[key] = others[random.integers(len(others))]


@pytest.mark.parametrize(
    "seeds", [range(60), pytest.param(range(1000, 4000), marks=pytest.mark.nightly)], ids=["few", "many"]
)
def test_scrambled_descriptions(content: bytes, tmp_path: Path, seeds: range) -> None:
    """Each either raises a documented error or runs."""
    counts = {"refused": 0, "loaded": 0}
    for seed in seeds:
        random = np.random.default_rng(seed)
        (tmp_path / "m.safetensors").write_bytes(edited(content, partial(scrambled, random=random)))
        what, model = outcome(partial(load_packed, tmp_path / "m.safetensors"), SafetensorsError)
        counts[what] += 1
        if model is not None:
            outcome(partial(model, x(1)), ValueError, TypeError, AttributeError, IndexError, MemoryError)
    assert counts["refused"] > len(seeds) / 3


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"model is Sequential; pack it first: model.pack\(\).save\(path\)"):
        save_packed(network(), tmp_path / "f")
    model = packed()
    model.model[4].register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match=r"save_packed: 4: .* has hooks, which a file cannot hold"):
        model.save(tmp_path / "f")
    layer = lowbit.Conv2d(1, 2, 3, **SIGNS, output_activation=lambda y: y)
    with pytest.raises(ValueError, match="has an activation function that a file cannot hold"):
        layer.eval().pack().save(tmp_path / "f")
    assert not list(tmp_path.iterdir())


def test_a_failed_write_keeps_the_earlier_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, path = packed(), tmp_path / "m.safetensors"
    model.save(path)
    before = path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SafetensorsError, match="no space is left on the disk"):
        model.save(path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_other_readers_see_the_tensors(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").write_bytes(content)
    state = load_safetensors(tmp_path / "m.safetensors")
    assert state["2.0.weight.codes"].array.dtype == np.uint8 and state["13.weight"].shape == (3, 5)


# ------------------------------------------------------------------------------------------------------ command line


def test_predict(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str], kernel_set: str) -> None:
    path, picture = tmp_path / "m.safetensors", tmp_path / "i.png"
    path.write_bytes(content)
    pixels = np.random.default_rng(1).integers(0, 256, (12, 12)).astype(np.uint8)
    Image.fromarray(pixels).save(picture)
    assert main(["predict", str(path), str(picture), "--json", "--kernels", kernel_set]) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    inputs = ((pixels / np.float32(255) - 0.5) / 0.25)[None, None].astype(np.float32)
    scores = load_packed(path)(Tensor(inputs)).array[0]
    shares = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    np.testing.assert_allclose([answer["probabilities"][name] for name in CLASSES], shares, 1e-5)
    assert main(["predict", str(path), str(picture)]) == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "does not have classes and image, which classifying images needs"),
        ({"classes": CLASSES}, "does not have image"),
        ({"classes": CLASSES[:2], "image": IMAGE}, r"shape \(1, 3\), not one number for each of 2 classes"),
        ({"classes": CLASSES, "image": {"channels": 3, "size": 12}}, "does not classify images: .*channels"),
    ],
)
def test_predict_refuses(
    options: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import re

    network().pack(**options).save(tmp_path / "m.safetensors")
    with use_kernels("textbook"):
        assert main(["predict", str(tmp_path / "m.safetensors"), "i.png", "--kernels", "textbook"]) == 1
    assert re.search(f"m.safetensors .*{message}", capsys.readouterr().err)


# ---- numbers in lists ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Uneven(lowbit.Quantizer):
    """A custom quantizer without declared levels; its values are stored in a list."""

    for_weights = True

    def weight(self, w: Any, axes: Any, own: Any, training: bool) -> Tensor:
        return (w * 4).round() * w.abs().amax(axes, keepdim=True)


def listed(tmp_path: Path) -> tuple[Any, Tensor, bytes]:
    retrograd.manual_seed(0)
    layers = [
        lowbit.ConvTranspose1d(4, 6, 3, groups=2, weight=Uneven()),
        nn.Flatten(),
        lowbit.Linear(6 * 7, 3, weight=Uneven(), activation=lowbit.Sign()),
    ]
    model = nn.Sequential(*layers).eval()
    model.pack().save(tmp_path / "own.safetensors")
    return model, retrograd.randn(2, 4, 5), (tmp_path / "own.safetensors").read_bytes()


def test_lists_of_numbers_go_out_and_in(tmp_path: Path) -> None:
    model, x, _ = listed(tmp_path)
    found = load_packed(tmp_path / "own.safetensors")
    np.testing.assert_allclose(found(x).array, model(x).array, rtol=1e-5, atol=1e-6)
    found.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "own.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (257, "count.* is 257"),
        (0, "count.* is 0"),
        (2, r"0\.weight\.codes is uint8|the lists of weight of 0 have the shape"),
    ],
)
def test_other_lists_are_refused(tmp_path: Path, size: int, message: str) -> None:
    _, _, content = listed(tmp_path)

    def change(entries: Any) -> None:
        entries["model"]["children"]["0"]["weights"]["weight"]["Listed"]["count"] = size

    (tmp_path / "other.safetensors").write_bytes(edited(content, change))
    with pytest.raises(SafetensorsError, match=message):
        load_packed(tmp_path / "other.safetensors")


def test_a_layer_with_a_quantized_input_only(tmp_path: Path) -> None:
    """The file has its state and not its options: it is loaded into another instance."""

    def made() -> nn.Sequential:
        signs = {"weight": lowbit.BWN(), "activation": lowbit.Sign()}
        return nn.Sequential(lowbit.Linear(6, 8, activation=lowbit.LSQ(4)), lowbit.Linear(8, 4, **signs))

    net, x = made(), retrograd.randn(5, 6)
    net(x)
    net.eval().pack().save(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="0 is a low-bit 'Linear' with a float weight, whose code is not in the file"):
        retrograd.load_packed(tmp_path / "model.safetensors")
    loaded = retrograd.load_packed(tmp_path / "model.safetensors", into=made())
    assert (loaded(x) == net(x)).all()
