"""Checkpoints in several files: any number of processes reads what any other number has written."""

import json
import os
import random
import shutil
import sys

import numpy as np
import pytest

import retrograd as rg
from distributed.workers import PROGRAMS, has_ulfm, needs_mpi, run
from retrograd.distributed import checkpoint, checkpoint_format
from retrograd.distributed.checkpoint_format import Piece, assign_pieces

sys.path.insert(0, str(PROGRAMS))
from state import assert_equal, make_state

sys.path.remove(str(PROGRAMS))


@needs_mpi
@pytest.mark.nightly
def test_two_and_three_processes(tmp_path):
    checkpoint.save(make_state(1), checkpoint_id=tmp_path / "1")
    assert run(3, "checkpoints.py", tmp_path, 1).stdout.count("passed") == 3
    assert run(2, "checkpoints.py", tmp_path, 1, 3).stdout.count("passed") == 2
    for size in (1, 2, 3):
        state = {}
        checkpoint.load(state, checkpoint_id=tmp_path / str(size))
        expected = make_state(1)
        for rank in range(size):
            expected["parts"] |= make_state(1, rank, size)["parts"]
        assert_equal(state, expected)


@needs_mpi
@pytest.mark.nightly
def test_more_read_what_fewer_have_written(tmp_path):
    for size, others in ((1, []), (2, [1]), (4, [1, 2])):
        assert run(size, "checkpoints.py", tmp_path, *others).stdout.count("passed") == size


@pytest.fixture
def saved(tmp_path):
    folder = tmp_path / "checkpoint"
    checkpoint.save(make_state(1), checkpoint_id=folder)
    return folder


# place of the kill -> how often it is reached while one checkpoint is written: by rank 0, by each other rank
PLACES = {
    "pieces": (1, 1),
    "record": (9, 5),
    "fsync": (4, 2),
    "replace": (2, 1),
    "exchange": (2, 2),
    "metadata": (1, 0),
    "root": (1, 1),
    "remove": (1, 0),
    "unlink": (1, 0),
}


def check_kill(tmp_path, workers, rank, place, count):
    folder = tmp_path / f"{workers} {rank} {place} {count}"
    checkpoint.save(make_state(1), checkpoint_id=folder)
    ended = run(workers, "killed_writer.py", folder, rank, place, count, code=None)
    if has_ulfm():  # otherwise MPI ends the other processes
        assert ended.stdout.count("lost") + ended.stdout.count("written") == workers - 1, ended.stderr
    state = {}
    checkpoint.load(state, checkpoint_id=folder)
    seed, size = state["words"][2], len(state["parts"])
    expected = make_state(seed)
    for each in range(size):
        expected["parts"] |= make_state(seed, each, size)["parts"]
    assert_equal(state, expected)
    assert (seed, size) in ((1, 1), (2, workers))
    checkpoint.save(make_state(5), checkpoint_id=folder)  # also removes the files of the dead processes
    assert len([path for path in folder.iterdir() if path.suffix == ".pt"]) == 1
    return seed


@needs_mpi
@pytest.mark.nightly
def test_a_kill_leaves_the_old_checkpoint_or_the_new(tmp_path):
    assert check_kill(tmp_path, 3, 1, "record", 3) == 1
    assert check_kill(tmp_path, 2, 0, "remove", 1) == 2


@needs_mpi
@pytest.mark.nightly
@pytest.mark.parametrize("k", range(20))
def test_a_kill_at_a_random_place(tmp_path, k):
    draw, place = random.Random(k), [*PLACES][k % len(PLACES)]
    workers = draw.randint(2, 4)
    rank = 0 if not PLACES[place][1] else draw.randrange(workers)
    check_kill(tmp_path, workers, rank, place, draw.randint(1, PLACES[place][rank > 0]))


def test_in_place_and_out_of_nothing(saved):
    expected = make_state(1)
    state = {"model": {"large.weight": rg.zeros(701, 599, dtype=rg.float64)}, "optimizer": {"state": {}}}
    weight, inner = state["model"]["large.weight"], state["optimizer"]["state"]
    checkpoint.load(state, checkpoint_id=str(saved))
    assert state["model"] == {"large.weight": weight} and state["optimizer"]["state"] is inner
    np.testing.assert_array_equal(weight.numpy(), expected["model"]["large.weight"].numpy().astype(np.float64))
    assert_equal(inner, expected["optimizer"]["state"])
    array = np.zeros((0, 4), np.float32)
    checkpoint.load({"model": {"empty": array}, "words": [None] * 5}, checkpoint_id=saved)


def test_a_change_is_recorded(saved):
    x = rg.ones(7, dtype=rg.float64).requires_grad_()
    bias = rg.zeros(7, dtype=rg.float64)
    y = (x * bias).sum()
    checkpoint.load({"model": {"bias": bias}}, checkpoint_id=saved)
    with pytest.raises(RuntimeError, match=r"checkpoint\.load"):
        y.backward()


def rewritten(saved, change):
    """Change the metadata, and correct its digest."""
    path = saved / "metadata.json"
    content = json.loads(path.read_text())
    del content["sha256"]
    change(content)
    digest = checkpoint_format.hashlib.sha256(checkpoint_format._serialize(content)).hexdigest()
    path.write_bytes(checkpoint_format._serialize({**content, "sha256": digest}))


def first_piece(content):
    return content["tensors"]["model/bias"]["pieces"][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: first_piece(c).update(file="../outside.pt"), r"'\.\./outside\.pt', which is not the name of a file"),
        (lambda c: first_piece(c).update(file="/etc/passwd"), "which is not the name of a file of a checkpoint"),
        (lambda c: first_piece(c).update(file=f"{'0' * 16}-00000-of-00001.pt"), r"0\.pt is missing|1\.pt is missing"),
        (lambda c: first_piece(c).update(rows=[0, 6]), "has 7 rows, its pieces have 6"),
        (lambda c: first_piece(c).update(rows=[1, 7]), "expected them to begin at 0"),
        (lambda c: first_piece(c).update(sha256="0" * 64), "after it was written: the SHA-256 of model/bias"),
        (lambda c: c["tensors"]["model/bias"].update(dtype="object"), "which a Tensor cannot have"),
        (lambda c: c["tensors"]["model/bias"].update(dtype="float32"), "metadata.json says float32"),
        (lambda c: c["tensors"]["model/bias"].update(shape=[7, 2**40]), "metadata.json says float64"),
        (lambda c: c["tensors"]["model/bias"].update(shape=[-7]), "must be an integer of at least 0"),
        (lambda c: c["tensors"]["model/bias"].update(pieces=[]), "has 7 rows, its pieces have 0"),
        (lambda c: c.update(tensors=[]), "its tensors are not a dict"),
        (lambda c: c.update(state={"tensor": "absent"}), "is not a node of a state"),
        (lambda c: c.update(state={"dict": [[1.5, {"value": 1}]]}), "is not an entry of a dict"),
        (lambda c: c.update(version=7), "has version 7, this retrograd reads 1"),
        (lambda c: c.update(format="else"), "its format is not"),
        (lambda c: c.update(more=1), "it has the entries"),
    ],
)
def test_metadata_that_lies(saved, change, message):
    rewritten(saved, change)
    state = {}
    with pytest.raises(checkpoint.CheckpointException, match=message):
        checkpoint.load(state, checkpoint_id=saved)
    assert state == {}


def test_files_that_are_cut_changed_missing_or_linked(saved):
    (file,) = saved.glob("*.pt")
    metadata = saved / "metadata.json"
    whole, text = file.read_bytes(), metadata.read_bytes()
    bias = make_state(1)["model"]["bias"].numpy().tobytes()
    place = whole.index(bias)

    def refused(message):
        state = make_state(2)
        with pytest.raises(checkpoint.CheckpointException, match=message):
            checkpoint.load(state, checkpoint_id=saved)
        assert_equal(state, make_state(2))

    for size in (0, 100, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        refused(rf"{file.name} was cut off or damaged")
    file.write_bytes(whole[: place + 3] + bytes([whole[place + 3] ^ 1]) + whole[place + 4 :])
    refused(rf"{file.name} was changed after it was written: the SHA-256 of model/bias\[0:7\] differs")
    rg.save({"something": rg.ones(2)}, file)
    refused(rf"{file.name} does not contain model/large.weight\[0:701\]")
    file.unlink()
    refused(rf"{file.name} is missing; metadata.json names it")
    outside = saved.parent / "outside.pt"
    outside.write_bytes(whole)
    file.symlink_to(outside)
    refused("is a link; the files of a checkpoint are in its folder")
    file.unlink()
    os.mkfifo(file)
    refused("it is a pipe, expected a regular file")
    file.unlink()
    file.write_bytes(whole)
    for change, message in (
        (text[:-40], "was cut off or damaged"),
        (b"", "was cut off or damaged"),
        (text.replace(b"[0,7]", b"[0,8]"), "SHA-256 differs"),
        (b"[" * 100_000, "was cut off or damaged"),
    ):
        metadata.write_bytes(change)
        refused(f"metadata.json {message}|{message}")
    metadata.unlink()
    refused("has no checkpoint: there is no metadata.json")


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"model": {"bias": rg.zeros(8)}}, r"\['model'\]\['bias'\] is float32 \(8,\) here and float64 \(7,\) in the"),
        ({"model": {"bias": rg.zeros(7, dtype=rg.int64)}}, r"is int64 \(7,\) here and float64 \(7,\) in the"),
        ({"model": {"bias": 3}}, "is 3 here and a tensor in the"),
        ({"model": {"absent": rg.zeros(8)}}, r"\['absent'\] is not in the checkpoint, which has \['bias',"),
        ({"model": [1]}, "is a list of 1 here and a dict in the"),
        ({"words": [1, 2]}, "is a list of 2 here and a list of 5 in the"),
        ({"words": rg.zeros(5)}, "is a tensor here and a list of 5 in the"),
        ({"words": [rg.zeros(5), 1, 1, 1, 1]}, r"\['words'\]\[0\] is a tensor here and 'é' in the"),
        ({"words": [{"a": 1}, 1, 1, 1, 1]}, r"\['words'\]\[0\] is a dict here and 'é' in the"),
    ],
)
def test_states_that_do_not_fit(saved, state, message):
    before = {key: list(value) if isinstance(value, list) else value for key, value in state.items()}
    with pytest.raises(checkpoint.CheckpointException, match=message):
        checkpoint.load(state, checkpoint_id=saved)
    assert state.keys() == before.keys()


class Odd:
    pass


@pytest.mark.parametrize(
    ("state", "options", "error", "message"),
    [
        ({"a": [Odd()]}, {}, TypeError, r"state_dict\['a'\]\[0\] is Odd; expected tensors"),
        ({"a": {1.5: 0}}, {}, TypeError, r"state_dict\['a'\] has the key 1\.5; expected keys of str or int"),
        ({"a": {1: rg.ones(1), "1": rg.ones(1)}}, {}, ValueError, "has the name 'a/1', as another tensor has"),
        ({"a": np.array(["x"])}, {}, TypeError, r"state_dict\['a'\] is <U1; expected a dtype"),
        ([1], {}, TypeError, "state_dict is list; expected a dict"),
        ({}, {"planner": 1}, ValueError, "planner must be None"),
        ({}, {"checkpoint_id": None}, ValueError, "pass the folder as checkpoint_id, or as storage_"),
        ({}, {"checkpoint_id": 3}, TypeError, "checkpoint_id is int; expected a path"),
        ({}, {"checkpoint_id": None, "storage_writer": "x"}, TypeError, "storage_writer is str; expected a FileSystem"),
        ({}, {"use_collectives": False}, ValueError, "use_collectives True"),
        ({}, {"process_group": 3}, TypeError, "group must be a ProcessGroup or None"),
    ],
)
def test_arguments(tmp_path, state, options, error, message):
    with pytest.raises(error, match=message):
        checkpoint.save(state, **{"checkpoint_id": tmp_path / "x", **options})
    assert not (tmp_path / "x").exists()
    if "planner" in options or options.get("checkpoint_id", 1) in (None, 3):
        options = {key.replace("writer", "reader"): value for key, value in options.items()}
        with pytest.raises(error, match=message.replace("writer", "reader")):
            checkpoint.load(state, **{"checkpoint_id": tmp_path / "x", **options})


def test_too_deep(tmp_path):
    state = {}
    for _ in range(120):
        state = {"a": state}
    with pytest.raises(ValueError, match="nested more than 100 deep"):
        checkpoint.save(state, checkpoint_id=tmp_path)


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(checkpoint.CheckpointException, match="was not written: "):
        checkpoint.save({"a": rg.ones(2)}, checkpoint_id=tmp_path / "file" / "x")


def test_other_files_stay(saved):
    shutil.copy(saved / "metadata.json", saved / "notes.txt")
    rg.save({}, saved / "mine.pt")
    checkpoint.save({"a": 1}, checkpoint_id=saved)
    assert sorted(path.name for path in saved.iterdir()) == ["metadata.json", "mine.pt", "notes.txt"]
    checkpoint.load(state := {}, checkpoint_id=saved)
    assert state == {"a": 1}


def test_large_tensors_are_cut_and_small_ones_dealt_out():
    kinds = {"large": (("float32", (10, 100)), [0, 1, 2]), "own": (("float32", (900,)), [2])}
    kinds |= {f"small {k}": (("float64", (k,)), [0, 1, 2]) for k in range(12)}
    found = assign_pieces(kinds, 3, split=1000)
    assert [piece for own in found for piece in own if piece.name == "large"] == [
        Piece("large", 0, 3),
        Piece("large", 3, 6),
        Piece("large", 6, 10),
    ]
    assert [rank for rank, own in enumerate(found) if Piece("own", 0, 900) in own] == [2]
    small = sorted(piece.name for own in found for piece in own if piece.name.startswith("small"))
    assert small == sorted(f"small {k}" for k in range(12))
    sizes = [sum(int(piece.name.split()[1]) for piece in own if "small" in piece.name) for own in found]
    assert sizes[2] == 0 and abs(sizes[0] - sizes[1]) < 30
    assert assign_pieces({"w": (("int64", (2, 1000)), [1, 3, 4])}, 5, split=1) == [
        [],
        [Piece("w", 0, 1)],
        [],
        [Piece("w", 1, 2)],
        [],
    ]
