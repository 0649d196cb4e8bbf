"""Weights in .npz files written by NumPy."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from retrograd import nn
from retrograd.interop import NpzFileError, load_npz, load_npz_weights


def zipped(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays(save, tmp_path):
    random = np.random.default_rng(0)
    given = {
        "f": random.standard_normal((3, 4)).astype("f4"),
        "F": random.standard_normal((3, 4)).T,
        "h": np.float16([2]),
        "big": np.arange(3, dtype=">i4"),
        "u": np.arange(3, dtype="u2"),
        "b": np.array(True),
        "a.b": np.zeros((0, 2)),
        "u1": np.uint8([255]),
    }
    save(tmp_path / "x.npz", **given)
    found = load_npz(tmp_path / "x.npz")
    assert list(found) == list(given)
    for name, array in given.items():
        np.testing.assert_array_equal(found[name].array, array, name)
        assert found[name].dtype == (np.int64 if name == "u" else array.dtype.newbyteorder("="))


def test_a_model(tmp_path):
    first, second = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)), nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    state = {key: value.array for key, value in first.state_dict().items()}
    np.savez(tmp_path / "x.npz", **state)
    assert load_npz_weights(second, tmp_path / "x.npz") == ([], [])
    np.testing.assert_array_equal(second[0].weight.array, first[0].weight.array)
    np.savez(tmp_path / "y.npz", w=state["0.weight"] + 1, other=np.ones(1))
    with pytest.raises(NpzFileError, match=r'does not fit the model.*\n\tMissing.*"0.bias".*\n\tUnexpected.*"other"'):
        load_npz_weights(second, tmp_path / "y.npz", names={"w": "0.weight"})
    missing, unexpected = load_npz_weights(second, tmp_path / "y.npz", False, {"w": "0.weight"})
    assert "0.bias" in missing and unexpected == ["other"]
    np.testing.assert_array_equal(second[0].weight.array, first[0].weight.array + 1)
    with pytest.raises(NpzFileError, match=r"names has \['v'\], the file \['w', 'other'\]"):
        load_npz_weights(second, tmp_path / "y.npz", names={"v": "0.weight"})
    with pytest.raises(NpzFileError, match="names gives two arrays the same key"):
        load_npz_weights(second, tmp_path / "y.npz", names={"w": "other"})
    with pytest.raises(TypeError, match="load_npz_weights: model is int, expected a Module"):
        load_npz_weights(3, tmp_path / "y.npz")


HEAD = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"nonsense", "x.npz is not an .npz file with weights: it is a text file that begins with 'nonsense'"),
        (bytes(99), "x.npz is not an .npz file, or was cut off or damaged"),
        (zipped(**{"a.txt": b""}), "it is a zip file with other contents"),
        (zipped(**{"a.npy": b"nonsense"}), "'a.npy' is not a NumPy array"),
        (zipped(**{"a.npy": npy(HEAD, bytes(7))}), "of shape \\(2,\\) and dtype <f4 has 7 bytes"),
        (zipped(**{"a.npy": npy(HEAD.replace("<f4", "|O"), bytes(8))}), "has the dtype '|O'; integers, floats"),
        (zipped(**{"a.npy": npy(HEAD.replace("(2,)", "(-2,)"), bytes(8))}), r"has the shape \(-2,\)"),
        (zipped(**{"a.npy": npy(HEAD.replace("(2,)", f"(2**{'9' * 9},)"))}), "has a damaged header"),
        (zipped(**{"a.npy": npy(HEAD.replace("(2,)", "(" * 300))}), "has a damaged header"),
        (zipped(**{"a.npy": npy("{'descr': 1}")}), "without descr, fortran_order and shape"),
        (zipped(**{"a.npy": npy(" " * 20000)}), "has a header of 20,000 bytes"),
        (zipped(**{"a.npy": npy(HEAD.replace("<f4", "|b1"), b"\x01\x02")}), "byte that is neither 0 nor 1"),
        (zipped(**{"a.npy": npy(HEAD.replace("<f4", "<u8"), b"\xff" * 16)}), "uint64 numbers beyond int64"),
    ],
)
def test_what_is_refused(content, message, tmp_path):
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(NpzFileError, match=message):
        load_npz(tmp_path / "x.npz")


def test_no_file(tmp_path):
    with pytest.raises(NpzFileError, match=r"x.npz cannot be read: No such file"):
        load_npz(tmp_path / "x.npz")
