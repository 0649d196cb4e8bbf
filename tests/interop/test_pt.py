"""retrograd.save and load: round trips, and Python's own pickle module reads the files.

The files in ``files`` were written by PyTorch 2.13 (zip form, the form before 1.6, and pickle protocol 4).
"""

from __future__ import annotations

import argparse
import io
import os
import pickle
import zipfile
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.interop import PTFileError

FILES = Path(__file__).parent / "files"


def copied(value: Any) -> Any:
    """Save a value, load it, and return the result."""
    stream = io.BytesIO()
    rg.save(value, stream)
    stream.seek(0)
    return rg.load(stream)


# ---- an oracle: Python's pickle module with PyTorch's functions in a few lines ------------------------------------


class _Unpickler(pickle.Unpickler):
    archive: zipfile.ZipFile
    kinds = {
        "Double": "f8",
        "Float": "f4",
        "Long": "i8",
        "Int": "i4",
        "Short": "i2",
        "Char": "i1",
        "Byte": "u1",
        "Bool": "?",
        "Half": "f2",
    }

    def find_class(self, module: str, name: str) -> Any:
        if name.endswith("Storage"):
            return self.kinds[name.removesuffix("Storage")]
        own = {"_rebuild_tensor_v2": self.tensor, "_rebuild_parameter": lambda data, grad, hooks: ("P", data, grad)}
        return own[name] if name in own else super().find_class(module, name)

    def persistent_load(self, saved: Any) -> Any:
        _, kind, key, location, numbers = saved
        assert location == "cpu"
        data = np.frombuffer(self.archive.read(f"archive/data/{key}"), kind)
        assert len(data) == numbers
        return data

    @staticmethod
    def tensor(storage: np.ndarray, offset: int, size: Any, stride: Any, grad: bool, hooks: Any) -> np.ndarray:
        steps = [step * storage.itemsize for step in stride]
        return np.lib.stride_tricks.as_strided(storage[offset:], size, steps)


def oracle(content: bytes) -> Any:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None and archive.read("archive/version") == b"3\n"
        assert all(member.compress_type == zipfile.ZIP_STORED for member in archive.infolist())
        unpickler = _Unpickler(io.BytesIO(archive.read("archive/data.pkl")))
        unpickler.archive = archive
        return unpickler.load()


def test_python_reads_what_was_written():
    random = np.random.default_rng(0)
    arrays = {
        "C": random.standard_normal((3, 4)).astype(np.float32),
        "F": random.standard_normal((3, 4)).T,
        "back": random.standard_normal((3, 4))[::-1, 1:],
        "int": np.array(-(2**62)),
        "bool": np.array([True, False]),
        "none": np.zeros((0, 3), np.float32),
        "wide": np.broadcast_to(np.float32(3), (2, 5)),
    }
    plain = {
        1: [0, 255, 256, 65535, 65536, -1, 2**31 - 1, 2**31, -(2**31) - 1, 2**255, -(2**64)],
        "s": ["", "tëxt", "\ud800", b"", b"\x00\xff", bytearray(b"ab"), None, True, False, 1.5, float("inf"), 1 + 2j],
        "t": ((), (1,), (1, 2, 3, 4)),
        "set": {1, "a"},
        "frozen": frozenset([2]),
        "o": OrderedDict(b=1, a=[2]),
        "c": Counter("aab"),
        "d": defaultdict(list, {1: [2]}),
        (1, "x"): argparse.Namespace(lr=0.1),
        "array": np.arange(6, dtype=np.int16).reshape(2, 3).T,
        "long": list(range(2500)),
        -1.5: {None: {True: 2}},
    }
    weight = nn.Conv2d(2, 3, 3).weight
    stream = io.BytesIO()
    rg.save({"arrays": {k: rg.Tensor(a) for k, a in arrays.items()}, "weight": weight, "plain": plain}, stream)
    found = oracle(stream.getvalue())
    for name, array in arrays.items():
        assert found["arrays"][name].dtype == array.dtype
        np.testing.assert_array_equal(found["arrays"][name], array, name)
    kind, data, grad = found["weight"]
    assert (kind, grad, data.strides) == ("P", True, weight.array.strides)
    np.testing.assert_array_equal(data, weight.array)
    array, theirs = plain.pop("array"), found["plain"].pop("array")
    np.testing.assert_array_equal(theirs, array)
    assert theirs.dtype == array.dtype and found["plain"] == plain
    assert list(map(type, found["plain"].values())) == list(map(type, plain.values()))
    stream.seek(0)
    ours = rg.load(stream)
    np.testing.assert_array_equal(ours["plain"].pop("array"), array)
    assert ours["plain"] == plain and list(map(type, ours["plain"].values())) == list(map(type, plain.values()))
    assert type(ours["weight"]) is nn.Parameter and ours["weight"].requires_grad
    for name, array in arrays.items():
        np.testing.assert_array_equal(ours["arrays"][name].array, array, name)
        assert ours["arrays"][name].dtype == array.dtype


def test_shared_memory_is_shared_again_and_nothing_else_is_written():
    whole = np.arange(100_000, dtype=np.float32)
    x = rg.Tensor(whole[10:22].reshape(3, 4))
    row, turned, twice = rg.Tensor(x.array[1]), rg.Tensor(x.array.T), [x, x]
    stream = io.BytesIO()
    rg.save({"row": row, "x": x, "turned": turned, "twice": twice}, stream)
    assert len(stream.getvalue()) < 3000
    stream.seek(0)
    found = rg.load(stream)
    assert found["twice"][0] is found["twice"][1] is found["x"]
    found["x"].array[1, 2] = -1.0
    assert found["row"].array[2] == -1.0 and found["turned"].array[2, 1] == -1.0


def test_numbers_of_numpy_become_pythons():
    found = copied([np.float32(0.1), np.int64(3), np.bool_(True), {np.int64(2): np.str_("x")}])
    assert found == [float(np.float32(0.1)), 3, True, {2: "x"}]
    assert [type(item) for item in found[:3]] == [float, int, bool]


def test_the_same_object_gives_the_same_file():
    first, second = io.BytesIO(), io.BytesIO()
    for stream in (first, second):
        rg.save({"x": rg.ones(3), "names": {"b", "a", "c"}}, stream)
    assert first.getvalue() == second.getvalue()


def test_states_of_models_optimizers_schedulers_and_generators(tmp_path):
    def parts() -> tuple[Any, Any, Any]:
        model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 3))
        optimizer = rg.optim.AdamW(model.parameters(), lr=0.1)
        return model, optimizer, rg.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, 10)

    def train(model: Any, optimizer: Any, scheduler: Any) -> bytes:
        for _ in range(2):
            optimizer.zero_grad()
            model(rg.rand(2, 1, 4, 4)).square().sum().backward()
            optimizer.step()
            scheduler.step()
        return b"".join(value.array.tobytes() for value in model.state_dict().values())

    first, second = parts(), parts()
    train(*first)
    state = dict(zip(("model", "optimizer", "scheduler"), (part.state_dict() for part in first), strict=True))
    (tmp_path / "new").mkdir()
    rg.save({**state, "epoch": 3, "random": rg.get_rng_state()}, tmp_path / "new" / "x.pt")
    with rg.fork_rng():
        expected = train(*first)
    saved = rg.load(tmp_path / "new" / "x.pt")
    for part, name in zip(second, ("model", "optimizer", "scheduler"), strict=True):
        part.load_state_dict(saved[name])
    with rg.fork_rng():
        rg.set_rng_state(saved["random"])
        assert train(*second) == expected
    assert os.listdir(tmp_path / "new") == ["x.pt"]


def test_of_a_module_the_state_is_written():
    model = nn.Linear(2, 3)
    stream = io.BytesIO()
    with pytest.warns(UserWarning, match=r"of the Linear its state_dict\(\) is written.*model.load_state_dict"):
        rg.save(model, stream)
    stream.seek(0)
    assert list(rg.load(stream)) == ["weight", "bias"]


# ---- files of PyTorch ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["torch_2_13.pt", "torch_2_13_legacy.pt", "torch_2_13_protocol_4.pt"])
def test_files_of_pytorch(name):
    found = rg.load(FILES / name)
    w = np.arange(12, dtype=np.float32).reshape(3, 4)
    for key, expected in {
        "tensor": w,
        "row": w[1],
        "transposed": w.T,
        "half": [0.5, 65504],
        "bool": [True, False],
        "number": 7,
        "expanded": np.full((2, 3), 2),
        "empty": np.zeros((0, 3)),
    }.items():
        np.testing.assert_array_equal(found[key].array, expected, key)
    assert np.shares_memory(found["tensor"].array, found["row"].array)
    assert found["tensor"].array.flags.writeable and not found["expanded"].array.flags.writeable
    np.testing.assert_allclose(found["bfloat16"].array, [1.5, -3e38], rtol=4e-3)
    assert type(found["parameter"]) is nn.Parameter and found["parameter"].tolist() == [1.5, -2]
    assert found["grad"].requires_grad and found["grad"].dtype == np.float64
    for kind, tensor in found["integers"].items():
        assert tensor.tolist() == [0, 1, np.iinfo(kind).max], kind
    plain = [
        1,
        -1,
        300,
        70000,
        2**31,
        -(2**63),
        2**80,
        1.5,
        None,
        True,
        "tëxt",
        b"\x00\xff",
        (1,),
        (1, 2, 3, 4),
        (),
        {3},
        float("inf"),
    ]
    assert found["plain"] == plain and list(map(type, found["plain"])) == list(map(type, plain))
    assert found["ordered"] == OrderedDict(b=1, a=2) and found["counter"] == Counter("aab")
    assert (tuple(found["size"]), found["dtype"], str(found["device"])) == ((2, 3), np.float32, "cpu")
    assert found["namespace"] == argparse.Namespace(lr=0.1, name="x")
    np.testing.assert_array_equal(found["array"], np.arange(6).reshape(2, 3).T)
    assert found["scalar"] == 2.5 and isinstance(found["scalar"], np.float64)


def test_a_file_is_mapped_into_memory(tmp_path):
    path = tmp_path / "x.pt"
    rg.save({"x": rg.arange(1000.0)}, path)
    before = path.read_bytes()
    found = rg.load(path, mmap=True)["x"]
    found.array[3] = -1
    assert found.array[:5].tolist() == [0, 1, 2, -1, 4] and path.read_bytes() == before
    assert rg.load(FILES / "torch_2_13.pt", mmap=True)["tensor"].array[2, 3] == 11


def test_objects_one_after_another_in_an_open_file():
    one = (FILES / "torch_2_13_legacy.pt").read_bytes()
    stream = io.BytesIO(b"head" + one + one + b"tail")
    stream.seek(4)
    assert rg.load(stream)["number"].item() == rg.load(stream)["number"].item() == 7
    assert stream.read() == b"tail"


def test_where_tensors_go():
    stream = io.BytesIO()
    rg.save(rg.ones(2), stream)
    seen = []

    def keep(storage: Any, location: str) -> Any:
        seen.append((location, storage.nbytes()))
        return storage.cpu()

    for location in (None, "cpu", keep, {"cuda:0": "cpu", "cpu": "cpu"}, {"cuda:0": "cuda:1"}):
        stream.seek(0)
        assert rg.load(stream, location).tolist() == [1, 1]
    assert seen == [("cpu", 8)]
    for location in ("cuda", "cuda:1", {"cpu": "cuda"}, lambda storage, place: storage.cuda(0)):
        stream.seek(0)
        with pytest.raises(RuntimeError, match="there is one device, the CPU"):
            rg.load(stream, location)
    stream.seek(0)
    with pytest.raises(TypeError, match="map_location returned int, expected the storage"):
        rg.load(stream, lambda storage, place: 3)
    with pytest.raises(TypeError, match=r"map_location is int; it must be a device"):
        rg.load(stream, 3)


# ---- Refused values --------------------------------------------------------------------------------------------------


class _Own(dict):
    pass


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"m": [1, nn.Linear(2, 2)]}, r"obj\['m'\]\[1\] is a Module .*Linear\).*save its state_dict\(\)"),
        ([rg.optim.SGD([rg.ones(2)], lr=0.1)], r"obj\[0\] is retrograd.optim.sgd.SGD.*save its state_dict\(\)"),
        ({"f": print}, r"obj\['f'\] is code \(print\).*save its name"),
        ([_Own()], r"obj\[0\] is .*_Own, a dict of a custom class; save dict\(x\)"),
        ([rg.get_rng_state.__class__], r"obj\[0\] is code \(function\)"),
        (os.stat_result(range(10)), r"obj is os.stat_result, a sequence of a custom class"),
        ([object()], r"obj\[0\] is object; tensors, numbers"),
        (defaultdict(lambda: 1), r"obj is a defaultdict with a custom factory"),
        ({(1, (2,)): 3}, r"a key of obj is tuple; strings"),
        ({frozenset(): 3}, r"a key of obj is frozenset; strings"),
        (np.array(["x"]), r"obj is an array of <U1"),
        (nn.LazyLinear(3).weight, r"obj is not initialized; call the model once"),
    ],
)
def test_what_cannot_be_written(value, message, tmp_path):
    (tmp_path / "x.pt").write_bytes(b"earlier")
    with pytest.raises(TypeError, match=f"save: {message}"):
        rg.save(value, tmp_path / "x.pt")
    assert (tmp_path / "x.pt").read_bytes() == b"earlier" and len(list(tmp_path.iterdir())) == 1


def test_attributes_of_tensors_are_written():
    weight, plain = nn.Parameter(rg.ones(2)), rg.arange(3)
    weight.org, weight.name, weight.form = weight.data * 3, "w", (1, [2.5])
    plain.partner = weight
    found = copied({"weight": weight, "plain": plain, "bare": rg.ones(1)})
    ours = found["weight"]
    assert type(ours) is nn.Parameter and ours.requires_grad and found["plain"].tolist() == [0, 1, 2]
    assert ours.org.tolist() == [3, 3] and (ours.name, ours.form) == ("w", (1, [2.5]))
    assert found["plain"].partner is ours and vars(found["bare"]) == {}
    views = rg.arange(6.0)
    views.start = views[:3]
    twin = copied(views)
    assert np.shares_memory(twin.array, twin.start.array) and twin.start.tolist() == [0, 1, 2]


def test_attributes_that_cannot_be_written():
    x = rg.ones(1)
    x.hook = len
    with pytest.raises(TypeError, match=r"obj\[0\].hook is code \(len\), which a file cannot hold"):
        rg.save([x], io.BytesIO())
    x.hook = {"x": x}
    with pytest.raises(ValueError, match=r"obj.hook\['x'\] is a tensor that its own attributes contain; a file cannot"):
        rg.save(x, io.BytesIO())
    deep = rg.ones(1)
    for _ in range(200):
        above = rg.ones(1)
        above.below = deep
        deep = above
    with pytest.raises(ValueError, match="nested deeper than 200 containers"):
        rg.save(deep, io.BytesIO())
    assert copied(deep.below).below.below.shape == (1,)


def test_circles_and_depths_cannot_be_written():
    circle: list[Any] = [1]
    circle.append({"x": circle})
    with pytest.raises(ValueError, match=r"obj\[1\]\['x'\] is a container that contains it"):
        rg.save(circle, io.BytesIO())
    deep: Any = 1
    for _ in range(201):
        deep = [deep]
    with pytest.raises(ValueError, match="nested deeper than 200 containers"):
        rg.save(deep, io.BytesIO())
    assert copied(deep[0]) == deep[0]
    with pytest.raises(ValueError, match=r"obj\[0\] is an integer of 257 bytes, the limit is 255"):
        rg.save([2**2048], io.BytesIO())


def test_options(tmp_path):
    save, load = rg.save, rg.load
    for call, error, message in (
        (lambda: save(1, 3), TypeError, "save: f is int; expected a path"),
        (lambda: save(1, io.StringIO()), TypeError, "save: f is StringIO; expected a path"),
        (lambda: save(1, io.BytesIO(), pickle), TypeError, "save: pickle_module must be None"),
        (lambda: save(1, io.BytesIO(), pickle_protocol=1), ValueError, "save: pickle_protocol=1 must be 2, 3, 4 or 5"),
        (lambda: save(1, io.BytesIO(), None, 2, False), ValueError, "save: _use_new_zipfile_serialization must be"),
        (lambda: load(3), TypeError, "load: f is int; expected a path"),
        (lambda: load(io.StringIO("x")), TypeError, "load: f is open as text"),
        (lambda: load("x", pickle_module=pickle), TypeError, "load: pickle_module must be None"),
        (lambda: load("x", weights_only="x"), TypeError, "load: weights_only='x' must be True or False"),
        (lambda: load("x", encoding="utf-16"), ValueError, "load: encoding='utf-16' must be"),
        (lambda: load(io.BytesIO(), mmap=True), ValueError, "load: mmap=True needs a path"),
        (lambda: load(tmp_path / "x"), FileNotFoundError, "No such file"),
        (lambda: load(tmp_path), IsADirectoryError, "Is a directory"),
        (lambda: save(1, tmp_path), OSError, "was not written"),
        (
            lambda: save(1, tmp_path / "new" / "x.pt"),
            FileNotFoundError,
            "save: the folder .*new does not exist; create it",
        ),
    ):
        with pytest.raises(error, match=message):
            call()
    save([1], tmp_path / "x", pickle_protocol=4)
    assert load(str(tmp_path / "x"), weights_only=False, encoding="latin1") == [1]
    (tmp_path / "link").symlink_to(tmp_path / "x")
    save([2], tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and load(tmp_path / "x") == [2]
    save([1], os.devnull)
    assert not os.path.isfile(os.devnull)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty"),
        (b"nonsense", "it is a text file that begins with 'nonsense'"),
        (bytes(99), r"it is not a file of torch.save, or was damaged \(its pickle is damaged at byte 0"),
        (b"\x80\x04h\x65.", "it is a plain pickle"),
        (pickle.dumps({"a": 1}), "it is a plain pickle, which can execute code when it is read"),
        (b"\x89HDF\r\n\x1a\n" + bytes(50), "it is an HDF5 file"),
        (b"\x10" + bytes(7) + b'{"a": 1}' + bytes(99), "it is a safetensors file; retrograd.interop.load_safetensors"),
        (b"\x1f\x8b" + bytes(50), "it is compressed by gzip"),
        (b"\x93NUMPY" + bytes(50), "it is a NumPy array"),
        (bytes(257) + b"ustar" + bytes(500), "it has PyTorch's format before 0.2, a tar file"),
    ],
)
def test_other_files_are_named(content, message, tmp_path):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(PTFileError, match=rf"/x cannot be loaded: {message}"):
        rg.load(tmp_path / "x")
    with pytest.raises(PTFileError, match=rf"the file cannot be loaded: {message}"):
        rg.load(io.BytesIO(content))


def test_devices_and_dtypes():
    values = [rg.device("cpu"), rg.device("cuda", 1), np.dtype("float32"), np.dtype("int8")]
    assert copied(values) == values
    shape = rg.ones(2, 3).size()
    assert copied({"a": shape, "b": shape}) == {"a": shape, "b": shape} and type(copied(shape)) is type(shape)
    for dtype in ("float16", "uint8", "int8", "int16", "int32"):
        tensor = copied(rg.Tensor(np.arange(3).astype(dtype)))
        assert (tensor.dtype, tensor.tolist()) == (dtype, [0, 1, 2])
