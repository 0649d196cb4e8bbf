"""MXNet weights: files created here from the description of the format."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.interop import MXNetFileError, conv_weight_from_mxnet, load_mxnet, load_mxnet_weights, rnn_to_mxnet

KINDS = {"float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5, "int64": 6, "bool": 7}


def array_bytes(array: np.ndarray, magic: int = 0xF993FAC9, storage: int = 0, kind: int | None = None) -> bytes:
    head = struct.pack("<IiI", magic, storage, array.ndim) + struct.pack(f"<{array.ndim}q", *array.shape)
    return head + struct.pack("<iii", 1, 0, KINDS[array.dtype.name] if kind is None else kind) + array.tobytes()


def file_bytes(arrays: dict[str, Any], names: list[str] | None = None) -> bytes:
    parts = [value if isinstance(value, bytes) else array_bytes(value) for value in arrays.values()]
    texts = [name.encode() for name in (arrays if names is None else names)]
    return b"".join(
        [
            struct.pack("<QQQ", 0x112, 0, len(parts)),
            *parts,
            struct.pack("<Q", len(texts)),
            *(struct.pack("<Q", len(text)) + text for text in texts),
        ]
    )


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


LAYERS = {
    "arg:conv0_weight": drawn(4, 2, 3, 3),
    "arg:conv0_bias": drawn(4),
    "arg:bn0_gamma": drawn(4),
    "arg:bn0_beta": -drawn(4),
    "arg:fc1_weight": drawn(3, 16),
    "arg:fc1_bias": drawn(3),
    "aux:bn0_moving_mean": drawn(4) + 1,
    "aux:bn0_moving_var": drawn(4) ** 2,
}


def network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 3))


def test_arrays(tmp_path):
    given = {
        "f": drawn(2, 3),
        "d": drawn(4).astype("f8"),
        "h": drawn(2).astype("f2"),
        "u": np.array([0, 255], "u1"),
        "i": np.array([[-5]], "i4"),
        "c": np.array([-128], "i1"),
        "l": np.array([2**62]),
        "b": np.array([True]),
        "none": drawn(0, 3),
    }
    (tmp_path / "x.params").write_bytes(file_bytes({**given, "v3": array_bytes(np.float32([[7]]), 0xF993FACA)}))
    found = load_mxnet(tmp_path / "x.params")
    assert found.pop("v3").tolist() == [[7]]
    for name, array in given.items():
        np.testing.assert_array_equal(found[name].array, array, name)
        assert found[name].dtype == array.dtype
    (tmp_path / "y.params").write_bytes(file_bytes({"a": drawn(1), "b": drawn(2)}, []))
    assert [(name, x.shape) for name, x in load_mxnet(tmp_path / "y.params").items()] == [("0", (1,)), ("1", (2,))]


@pytest.mark.parametrize("gluon", [False, True])
def test_a_network_of_either_interface(gluon, tmp_path):
    layers = LAYERS
    if gluon:
        own = {"conv0": "0", "bn0": "1", "fc1": "3"}
        layers = {}
        for name, array in reversed(LAYERS.items()):  # in any order, since the paths are those of our modules
            layer, _, part = name[4:].partition("_")
            layers[f"{own[layer]}.{part.replace('moving', 'running')}"] = array
    (tmp_path / "x.params").write_bytes(file_bytes(layers))
    model = network()
    assert load_mxnet_weights(model, tmp_path / "x.params") == ([], [])
    keys = "0.weight", "0.bias", "1.weight", "1.bias", "3.weight", "3.bias", "1.running_mean", "1.running_var"
    for key, array in zip(keys, LAYERS.values(), strict=True):
        np.testing.assert_array_equal(model.state_dict()[key].array, array, key)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(kind, tmp_path):
    first = kind(3, 4, num_layers=2, bidirectional=True)
    state = {key: value.array for key, value in first.state_dict().items()}
    fused = {"arg:rnn_parameters": rnn_to_mxnet(state, first.mode.lower())}
    single = {}
    for key, array in state.items():
        part, which, number, *reverse = key.split("_")
        single[f"rnn.{'r' if reverse else 'l'}{number[1]}_{'i2h' if which == 'ih' else 'h2h'}_{part}"] = array
    for layers in (fused, single):
        (tmp_path / "x.params").write_bytes(file_bytes({**layers, "fc_weight": drawn(2, 8), "fc_bias": drawn(2)}))
        model = nn.Sequential(kind(3, 4, num_layers=2, bidirectional=True), nn.Linear(8, 2))
        assert load_mxnet_weights(model, tmp_path / "x.params") == ([], [])
        x = rg.tensor(drawn(5, 2, 3))
        np.testing.assert_array_equal(model[0](x)[0].array, first(x)[0].array)


def test_in_part_and_by_names(tmp_path):
    (tmp_path / "x.params").write_bytes(file_bytes(LAYERS))
    only = nn.Sequential(nn.Linear(16, 3))
    missing, unexpected = load_mxnet_weights(only, tmp_path / "x.params", False, {"0": "fc1"})
    assert (missing, unexpected) == ([], ["conv0", "bn0"])
    np.testing.assert_array_equal(only[0].weight.array, LAYERS["arg:fc1_weight"])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: nn.Sequential(network(), nn.Linear(3, 2)), r"missing in the file: \['1.weight', '1.bias'\]"),
        (lambda: nn.Conv2d(2, 4, 3), r"not used from the file: \['bn0', 'fc1'\]"),
        (lambda: nn.Sequential(nn.Conv2d(2, 4, 5), nn.BatchNorm2d(4), nn.Linear(16, 3)), "size mismatch for 0.weight"),
    ],
)
def test_what_does_not_fit_changes_nothing(model, message, tmp_path):
    (tmp_path / "x.params").write_bytes(file_bytes(LAYERS))
    module = model()
    before = {key: value.array.copy() for key, value in module.state_dict().items()}
    with pytest.raises(MXNetFileError, match=message):
        load_mxnet_weights(module, tmp_path / "x.params")
    assert all((value.array == before[key]).all() for key, value in module.state_dict().items())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not an MXNet .params file: it is empty"),
        (b"\x12\x01", "was cut off or damaged: it asks for 16 bytes at 0"),
        (b'{"nodes": []}', "is not an MXNet .params file: it is a text file that begins with"),
        (struct.pack("<QQ", 0x113, 0), "it begins with 0x113, expected 0x112"),
        (struct.pack("<QQQ", 0x112, 0, 2**60), "cannot hold the 1,152,921,504,606,846,976 entries"),
        (file_bytes({"a": array_bytes(drawn(1), 0xF993FAC8)}), "array 0 begins with 0xf993fac8; versions 2 and 3"),
        (file_bytes({"a": array_bytes(drawn(1), storage=1)}), r"array 0 is sparse; save it as a dense one: x.tostype"),
        (file_bytes({"a": array_bytes(drawn(1), kind=12)}), "array 0 has the dtype 12"),
        (file_bytes({"a": array_bytes(drawn(1), kind=7)}), "booleans that are neither 0 nor 1"),
        (file_bytes({"a": array_bytes(np.float32(1))}), "array 0 has no shape"),
        (file_bytes({"a": struct.pack("<IiI2qiii", 0xF993FAC9, 0, 2, 2**40, 2**40, 1, 0, 0)}), "it asks for 4,83"),
        (file_bytes({"a": struct.pack("<IiIqiii", 0xF993FAC9, 0, 1, -1, 1, 0, 0)}), r"has the shape \(-1,\)"),
        (file_bytes({"a": struct.pack("<IiI", 0xF993FAC9, 0, 33) + bytes(300)}), "has 33 axes; at most 32"),
        (file_bytes({"a": drawn(1), "b": drawn(1)}, ["a", "a"]), "has 2 arrays and 1 names"),
        (file_bytes({"a": drawn(1)})[:-1] + b"\xff", "the name .* is not UTF-8"),
    ],
)
def test_what_is_refused(content, message, tmp_path):
    (tmp_path / "x.params").write_bytes(content)
    with pytest.raises(MXNetFileError, match=rf"x.params.*{message}"):
        load_mxnet(tmp_path / "x.params")


def test_other_mistakes(tmp_path):
    with pytest.raises(MXNetFileError, match=r"x.params cannot be read: No such file"):
        load_mxnet(tmp_path / "x.params")
    (tmp_path / "x.params").write_bytes(file_bytes({"arg:odd_thing": drawn(1)}))
    with pytest.raises(MXNetFileError, match="'arg:odd_thing' is not a weight of a supported layer; see load_mxnet"):
        load_mxnet_weights(network(), tmp_path / "x.params")


def test_channels_last_says_how_to_convert(tmp_path):
    last = LAYERS | {"arg:conv0_weight": drawn(4, 3, 3, 2)}
    (tmp_path / "x.params").write_bytes(file_bytes(last))
    with pytest.raises(
        MXNetFileError, match=r"0\.: conv0: the weight's shape \(4, 3, 3, 2\) is .* channels last; convert"
    ):
        load_mxnet_weights(network(), tmp_path / "x.params")
    converted = conv_weight_from_mxnet(load_mxnet(tmp_path / "x.params")["arg:conv0_weight"], "NHWC")
    assert converted.shape == (4, 2, 3, 3)
