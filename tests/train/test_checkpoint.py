"""Checkpoint files: round trips, and errors for invalid files."""

import errno
import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest

from retrograd.engine.tensor import Tensor
from retrograd.train.checkpoint import CheckpointError, load_checkpoint, save_checkpoint

STATE = {
    "model": {"0.weight": Tensor(np.arange(6, dtype=np.float32).reshape(2, 3).T), "empty": np.zeros((0, 4))},
    "optimizer": {
        "state": {0: {"step": 3, "exp_avg": np.array([1.5, -0.0])}},
        "param_groups": [{"lr": 0.1, "params": [0]}],
    },
    "random": {"state": 2**127 + 1},
    "none": None,
    "flag": True,
    "history": [{"loss": 0.1 + 0.2}],
    "scalar": np.float64(0.1),
    "sha256": np.int64([1]),
    "count": np.array(7),
}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "run" / "checkpoint.npz"
    save_checkpoint(path, STATE)
    return path


def test_a_state_comes_back_bit_for_bit(path):
    state = load_checkpoint(path)
    assert state["model"]["0.weight"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert state["model"]["0.weight"].dtype == np.float32 and state["model"]["empty"].shape == (0, 4)
    assert state["optimizer"]["state"][0]["exp_avg"].tobytes() == np.array([1.5, -0.0]).tobytes()
    assert state["optimizer"]["param_groups"] == [{"lr": 0.1, "params": [0]}]
    assert state["random"]["state"] == 2**127 + 1 and state["history"][0]["loss"] == 0.1 + 0.2
    assert state["count"].shape == () and state["count"] == 7
    assert (state["none"], state["flag"], state["scalar"]) == (None, True, 0.1) and state["sha256"].tolist() == [1]


def test_numpy_alone_can_read_it(path):
    with np.load(path, allow_pickle=False) as arrays:
        assert arrays["model/0.weight"].shape == (3, 2)
        assert json.loads(arrays["metadata"].tobytes())["version"] == 1


def test_the_same_state_makes_the_same_file(path, tmp_path):
    save_checkpoint(tmp_path / "again.npz", STATE)
    assert (tmp_path / "again.npz").read_bytes() == path.read_bytes()


def test_only_plain_values_are_written(path):
    before = path.read_bytes()
    for value in (object(), {1.5: 2}, np.array([object()]), {"deep": [1, {2, 3}]}):
        with pytest.raises(TypeError, match="save_checkpoint"):
            save_checkpoint(path, {"value": value})
    with pytest.raises(ValueError, match="[Oo]ut of range|JSON"):
        save_checkpoint(path, {"loss": float("nan")})
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("keep", [0, 3, 30, 0.5, 0.9, -1])
def test_a_cut_off_file_is_refused(path, keep):
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    with pytest.raises(CheckpointError, match="cut off or damaged|is not a checkpoint"):
        load_checkpoint(path)


def test_every_changed_byte_is_noticed_or_harmless(path):
    """Whatever byte is changed, loading fails with a clear message or gives the same state."""
    content, expected = path.read_bytes(), repr(load_checkpoint(path))
    for position in range(0, len(content), 7):
        path.write_bytes(content[:position] + bytes([content[position] ^ 0x10]) + content[position + 1 :])
        try:
            assert repr(load_checkpoint(path)) == expected
        except CheckpointError as error:
            assert str(path) in str(error)


def rewritten(path, change) -> None:
    """Rewrite the file with changed entries as a valid zip archive."""
    with np.load(path) as file:
        entries = {name: file[name] for name in file.files}
    change(entries)
    np.savez(path, **entries)


def test_an_edited_array_is_refused(path):
    rewritten(path, lambda entries: entries["model/0.weight"].__setitem__((0, 0), 9))
    with pytest.raises(CheckpointError, match="was changed after it was written"):
        load_checkpoint(path)


def test_a_file_without_digest_is_refused(path):
    rewritten(path, lambda entries: entries.pop("sha256"))
    with pytest.raises(CheckpointError, match="was changed after it was written"):
        load_checkpoint(path)


def test_another_version_is_named(path):
    def newer(entries):
        text = entries["metadata"].tobytes().replace(b'"version": 1', b'"version": 7')
        entries["metadata"] = np.frombuffer(text, np.uint8)

    rewritten(path, newer)
    with pytest.raises(CheckpointError, match="version 7, this retrograd reads version 1"):
        load_checkpoint(path)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "file"
    with pytest.raises(CheckpointError, match="there is no such checkpoint"):
        load_checkpoint(path)
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_checkpoint(tmp_path)
    path.write_text("hello")
    with pytest.raises(CheckpointError, match="is not a checkpoint: it is a text file that begins with 'hello'"):
        load_checkpoint(path)
    with open(path, "wb") as file:
        np.savez(file, x=np.zeros(3))
    with pytest.raises(CheckpointError, match="lacks the metadata"):
        load_checkpoint(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "hello")
    with pytest.raises(CheckpointError, match="is not a checkpoint: it is a zip file with other contents"):
        load_checkpoint(path)
    with open(path, "wb") as file:
        np.savez_compressed(file, x=np.zeros(100_000))
    with pytest.raises(CheckpointError, match="does not belong to a checkpoint"):
        load_checkpoint(path)


class Bomb:
    def __reduce__(self):
        return os._exit, (13,)


def test_nothing_is_unpickled(tmp_path):
    path = tmp_path / "file.npz"
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        load_checkpoint(path)
    array = np.empty(1, object)
    array[0] = Bomb()
    with open(path, "wb") as file:
        np.savez(file, metadata=array)
    with pytest.raises(CheckpointError, match="expected numbers"):
        load_checkpoint(path)


def test_a_header_cannot_claim_more_than_there_is(tmp_path):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": (10**15,)})
    with zipfile.ZipFile(tmp_path / "file.npz", "w") as archive:
        archive.writestr("x.npy", stream.getvalue() + b"\0" * 16)
    with pytest.raises(CheckpointError, match="cut off or damaged"):
        load_checkpoint(tmp_path / "file.npz")


@pytest.mark.parametrize("call", ["fsync", "replace", "write"])
@pytest.mark.parametrize(("number", "message"), [(errno.ENOSPC, "no space is left"), (errno.EIO, "Input/output error")])
def test_a_full_disk_leaves_the_earlier_checkpoint(path, monkeypatch, call, number, message):
    def fail(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    before = path.read_bytes()
    with monkeypatch.context() as patch:
        if call == "write":
            patch.setattr(np.lib.format, "write_array", fail)
        else:
            patch.setattr(os, call, fail)
        with pytest.raises(CheckpointError, match=f"npz was not written, the earlier one is unchanged.*{message}"):
            save_checkpoint(path, {"x": 1})
        with pytest.raises(CheckpointError, match="npz was not written: "):
            save_checkpoint(path.with_name("new.npz"), {"x": 1})
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]
    save_checkpoint(path, {"x": 1})
    assert load_checkpoint(path) == {"x": 1}


def test_an_interrupted_write_leaves_the_earlier_checkpoint(path, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(path, {"x": 1})
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]


def test_a_folder_that_cannot_be_made(path):
    with pytest.raises(CheckpointError, match="was not written"):
        save_checkpoint(path / "below" / "checkpoint.npz", {"x": 1})
