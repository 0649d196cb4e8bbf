"""Malicious torch.save files: each raises a PTFileError that names the place, in bounded time and memory."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from mutation import bounded
from retrograd.interop import PTFileError

SIX = {"x/data/0": np.arange(6, dtype=np.float32).tobytes()}


def archived(content: bytes, records: dict[str, bytes] | None = None, method: int = zipfile.ZIP_STORED) -> io.BytesIO:
    """Return a file in the zip format with this pickle; by default with a storage "0" of six float32."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("x/data.pkl", content, method)
        for name, data in (SIX if records is None else records).items():
            archive.writestr(name, data)
    stream.seek(0)
    return stream


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def named(name: str) -> bytes:
    return b"c" + name.replace(" ", "\n").encode() + b"\n"


def plain(value: Any) -> bytes:
    """The operations that push a plain value."""
    return pickle.dumps(value, 2)[2:-1]


def storage(kind: str = "Float", key: Any = "0", count: Any = 6) -> bytes:
    parts = text("storage") + named(f"torch {kind}Storage") + plain(key) + text("cpu") + plain(count)
    return b"(" + parts + b"tQ"


def tensor(offset: Any = 0, size: Any = (2, 3), stride: Any = (3, 1), source: bytes | None = None) -> bytes:
    inside = (storage() if source is None else source) + plain(offset) + plain(size) + plain(stride)
    return named("torch._utils _rebuild_tensor") + b"(" + inside + b"tR"


def program(*parts: bytes) -> bytes:
    return b"\x80\x02" + b"".join(parts) + b"."


def call(name: str, *args: Any) -> bytes:
    return named(name) + plain(args) + b"R"


def test_the_honest_one_is_read():
    strings = b"(S'a\\d\\n'\nU\x01bT\x01\x00\x00\x00cV\\u00e4\nL5L\nI01\nF1.5\nl"  # as Python 2 wrote them
    assert rg.load(archived(program(strings))) == ["a\\d\n", "b", "c", "ä", 5, True, 1.5]
    assert rg.load(archived(program(tensor()))).tolist() == [[0, 1, 2], [3, 4, 5]]


def attributed(*state: bytes) -> bytes:
    """A tensor of six numbers with attributes."""
    places = storage() + plain(0) + plain((2, 3)) + plain((3, 1)) + b"\x89" + call("collections OrderedDict")
    function = named("torch._utils _rebuild_tensor_v2") + named("torch Tensor") + b"(" + places + b"t"
    return named("torch._tensor _rebuild_from_type_v2") + b"(" + function + b"".join(state) + b"tR"


def test_attributes_cannot_take_the_place_of_anything():
    """NumPy would read memory at the address in ``__array_interface__``."""
    interface = {"data": (64, False), "shape": (4,), "typestr": "<f4", "version": 3}
    names = {"array": 1, "sum": 2, "_edge": 3, "__class__": 4, "__array_interface__": interface, "__len__": 5, "org": 6}
    x = rg.load(archived(program(attributed(plain(names)))))
    assert vars(x) == {"org": 6} and np.array(x).tolist() == x.tolist() == [[0, 1, 2], [3, 4, 5]]
    for other in (None, 3, "text", ({"org": 6}, {}), [("org", 6)], {1: 2}):
        assert vars(rg.load(archived(program(attributed(plain(other)))))) == {}


THOUSAND = b"](" + b"K\x01" * 1000 + b"eq\x05"
PUSHED = b"q\x07" + b"h\x05\x85R0" + (b"h\x07h\x05\x85R0" * 5000)
CASES = {
    "code as an attribute": (program(attributed(b"}" + text("a") + call("os system", "true") + b"s")), r"it holds os"),
    "a name as an attribute": (
        program(attributed(b"}" + text("a") + named("torch Tensor") + b"s")),
        r"obj\['a'\] is torch.Tensor, which is not read as a value",
    ),
    "a tensor that its attribute holds": (
        program(attributed(b"}" + text("a") + b"]q\x05s") + b"q\x06h\x05h\x06a0"),
        r"obj\['a'\]\[0\] is a container that contains it",
    ),
    "the same attributes again and again": (
        program(
            b"}("
            + b"".join(text(f"a{i}") + b"N" for i in range(2000))
            + b"uq\x05]("
            + attributed(b"h\x05") * 1000
            + b"e"
        ),
        r"copies the same values again and again",
    ),
    "a call": (program(call("os system", "true")), r"it holds os.system; restoring it would run code"),
    "a call in a list": (program(b"](" + call("os system", "true") + b"e"), r"it holds os.system.*is in obj\[0\]"),
    "a call in a dict": (program(b"}" + text("a") + call("nt system", "x") + b"s"), r"nt.system.*is in obj\['a'\]"),
    "a name of two lines": (program(b"\x8c\x02os\x8c\x06system\x93)R"), r"it holds os.system"),
    "an attribute": (program(call("builtins getattr", "x", "y")), r"it holds builtins.getattr"),
    "an instance": (program(b"(ios\nsystem\n"), r"it holds os.system"),
    "an instance of our own": (program(b"(itorch\nSize\n"), r"makes an instance of torch.Size, which is not read"),
    "an object": (program(b"(" + named("torch Size") + b"o"), r"uses the operation OBJ"),
    "an extension": (program(b"\x82\x01"), r"uses copyreg's extensions"),
    "a buffer": (program(b"\x97"), r"uses a buffer outside of it"),
    "an id in text": (program(b"P0\n"), r"uses a persistent id in text"),
    "a call of a value": (program(b"K\x01)R"), r"calls int"),
    "a call of a class": (program(named("torch Tensor") + b")R"), r"it calls torch.Tensor, which is not read"),
    "keyword arguments": (program(named("torch Size") + b")}K\x01K\x02s\x92"), r"with keyword arguments"),
    "a state": (program(b"]}b"), r"sets the state of list"),
    "a class as a value": (
        program(b"}" + text("k") + named("torch Tensor") + b"s"),
        r"obj\['k'\] is torch.Tensor, which is",
    ),
    "a storage as a value": (program(storage()), r"obj is a storage without a tensor"),
    "an unfinished array": (program(call("numpy dtype", "f4", False, True)), r"an unfinished object"),
    "a list in itself": (program(b"]q\x00h\x00a"), r"obj\[0\] is a container that contains it"),
    "a dict in itself": (
        program(b"}q\x00" + text("a") + b"]h\x00as"),
        r"obj\['a'\]\[0\] is a container that contains it",
    ),
    "a deep list": (program(b"]" * 201 + b"a" * 200), "nested deeper than 200 containers"),
    "a very deep list": (program(b"]" * 200_000 + b"a" * 199_999), "nested deeper than 200 containers"),
    "deep by sharing": (
        program(b"(]q\x00" + b"".join(b"]q%ch%ca" % (n, n - 1) for n in range(1, 250)) + b"l"),
        r"nested deeper than 200 containers",
    ),
    "laughs in a key": (program(b")" + b"2\x86" * 60 + b"}2Ns0K\x01s"), "."),
    "a tuple of tuples as a key": (program(b"})\x85K\x01s"), r"a key of a dict or an item of a set is tuple"),
    "a list as a key": (program(b"}]K\x01s"), r"a key of a dict or an item of a set is list"),
    "a large int as a key": (
        program(b"}" + plain(2**61 - 1) + b"K\x01s"),
        r"is a large int; strings, numbers and short",
    ),
    "a set of lists": (program(b"\x8f(]\x90"), r"item of a set is list"),
    "the same copy": (
        program(THOUSAND, b"0" + named("builtins set") + PUSHED, b"N"),
        r"copies the same values again and again",
    ),
    "the same bytes": (
        program(b"B" + struct.pack("<I", 30_000) + bytes(30_000) + b"q\x050" + named("builtins bytearray") + PUSHED),
        r"copies the same values again",
    ),
    "no key": (program(b"}(K\x01u"), r"a key has no value"),
    "items of a dict in a list": (program(b"](K\x01K\x02u"), r"adds entries to list"),
    "an item in a dict": (program(b"}K\x01a"), r"adds items to dict"),
    "an item that is not stored": (program(b"h\x05"), r"it refers to its value 5, which does not exist"),
    "no such operation": (program(b"\xff"), r"damaged at byte 2: 0xff is not a supported operation"),
    "nothing": (b"", r"was cut off: it asks for 1 bytes at 0, there are 0"),
    "no end": (b"\x80\x02K\x01", r"was cut off"),
    "two values": (program(b"K\x01K\x02"), r"2 values are left at its end, byte 6"),
    "an open mark": (program(b"(K\x01"), r"1 values are left at its end, byte 5"),
    "a long string": (program(b"X" + struct.pack("<I", 2**31)), r"asks for 2,147,483,648 bytes"),
    "a very long string": (program(b"\x8d" + struct.pack("<Q", 2**63)), r"was cut off: it asks for 9,2"),
    "a long integer": (
        program(b"\x8b" + struct.pack("<I", 5000) + bytes(5000)),
        r"integer of 5,000 bytes; at most 1024",
    ),
    "a long text": (program(b"I" + b"9" * 70_000 + b"\n"), r"the line at byte 3 does not end"),
    "many digits": (program(b"I" + b"9" * 60_000 + b"\n"), r"an integer of 60,000 digits; at most 1024"),
    "protocol 9": (b"\x80\x09.", r"has protocol 9; those up to 5 are read"),
    "no quotes": (program(b"Sabc\n"), r"a string without quotes"),
    "not a storage": (program(text("x") + b"Q"), r"requests something other than a storage"),
    "a storage of no class": (
        program(storage().replace(named("torch FloatStorage"), b"N")),
        "without a class, a key or a size",
    ),
    "no record": (program(tensor(source=storage(key="7"))), r"it has no record 'data/7'"),
    "a record that leaves": (program(tensor(source=storage(key="../../etc"))), r"no record 'data/\.\./\.\./etc'"),
    "too many numbers": (program(tensor(source=storage(count=7))), r"has 24 bytes, the object asks for 7 numbers of 4"),
    "numbers beyond all": (program(tensor(source=storage(count=2**70))), r"has 24 bytes, the object asks for 1,180,"),
    "two dtypes": (program(b"](" + tensor() + tensor(source=storage("Int")) + b"e"), r"storage '0' is of two dtypes"),
    "beyond the storage": (program(tensor(1)), r"a tensor reaches element 6 of a storage of 6"),
    "a stride beyond it": (program(tensor(0, (2, 3), (4, 1))), r"reaches element 6 of a storage of 6"),
    "a negative offset": (program(tensor(-1)), r"sizes, strides or an offset that are not counts"),
    "a negative stride": (program(tensor(5, (2,), (-1,))), r"that are not counts"),
    "a float as size": (program(tensor(0, (2.0,), (1,))), r"that are not counts"),
    "another number of strides": (program(tensor(0, (2,), (1, 1))), r"that are not counts"),
    "too many axes": (program(tensor(0, (1,) * 33, (1,) * 33)), r"has 33 axes; at most 32"),
    "too large": (program(tensor(0, (2**31, 2**31), (0, 0))), r"too large for any memory"),
    "a parameter larger than memory": (
        program(named("torch._utils _rebuild_parameter") + b"(" + tensor(0, (2**50,), (0,)) + b"\x88NtR"),
        r"copies the same values again",
    ),
    "no storage": (
        program(call("torch._utils _rebuild_tensor", 1, 0, (1,), (1,))),
        r"made of int instead of a storage",
    ),
    "no tensor": (
        program(call("torch._utils _rebuild_parameter", 1, True, None)),
        r"a parameter is not made of a tensor",
    ),
    "a conjugate": (
        program(
            named("torch._utils _rebuild_tensor_v2")
            + b"("
            + storage()
            + plain(0)
            + plain((1,)) * 2
            + b"\x89}}K\x01K\x02stR"
        ),
        r"a lazy conjugate or negative",
    ),
    "too few arguments": (program(call("torch._utils _rebuild_tensor", 1)), r"is damaged at byte"),
    "a device": (program(call("torch device", "nothing")), r"device"),
    "a size": (program(call("torch Size", ("x",))), r"a torch.Size has entries other than integers"),
    "bytes": (program(call("_codecs encode", "x", "utf-7")), r"bytes are not made of latin1 text"),
    "a function as a default": (
        program(named("collections defaultdict") + named("torch Size") + b"\x85R"),
        "custom factory",
    ),
    "pairs": (program(call("collections OrderedDict", [1])), r"an OrderedDict is not made of pairs"),
    "counts": (program(call("collections Counter", [1])), r"a Counter is not made of a dict"),
    "a namespace": (program(named("argparse Namespace") + b")\x81}K\x01K\x02sb"), r"Namespace has no dict of names"),
    "objects in an array": (program(call("numpy dtype", "O8", False, True)), r"an array has the dtype 'O8'"),
    "a short array": (
        program(
            named("numpy.core.multiarray scalar")
            + b"("
            + named("numpy dtype")
            + plain(("f8", False, True))
            + b"R(K\x03"
            + text("<")
            + b"tbC\x04abcdtR"
        ),
        r"an array of shape \(\) and dtype float64 has 4 bytes",
    ),
    "a matrix class": (
        program(named("numpy.core.multiarray _reconstruct") + b"(" + named("torch Tensor") + b"NNtR"),
        r"an array is of a custom class",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_refused(name: str) -> None:
    content, message = CASES[name]
    with bounded(), pytest.raises(PTFileError, match=message):
        rg.load(archived(content))


def _renamed(stream: io.BytesIO, old: bytes, new: bytes) -> io.BytesIO:
    assert len(old) == len(new) and old in stream.getvalue()
    return io.BytesIO(stream.getvalue().replace(old, new))


def _overlapping() -> io.BytesIO:
    """Return a file with two records in the directory that cover the same bytes."""
    data = archived(program(tensor()), {"x/data/0": bytes(24), "x/data/1": bytes(24)}).getvalue()
    first, second = (data.rindex(b"PK\x01\x02", 0, data.rindex(name)) for name in (b"x/data/0", b"x/data/1"))
    return io.BytesIO(data[: second + 42] + data[first + 42 : first + 46] + data[second + 46 :])


ARCHIVES = {
    "compressed": (archived(bytes(10**6), method=zipfile.ZIP_DEFLATED), "record 'x/data.pkl' is compressed"),
    "no pickle": (_renamed(archived(program(b"N")), b"data.pkl", b"data.pkk"), "it is a zip file with other contents"),
    "two pickles": (archived(program(b"N"), {"y/data.pkl": b""}), "it has 2 records data.pkl"),
    "TorchScript": (archived(program(b"N"), {"x/constants.pkl": b""}), "a program of TorchScript"),
    "a wrong checksum": (
        io.BytesIO(archived(program(b"X\x02\x00\x00\x00abN\x86")).getvalue().replace(b"ab", b"ba")),
        "was damaged \\(its checksum differs\\)",
    ),
    "a name in one place": (
        io.BytesIO(archived(program(b"N")).getvalue().replace(b"x/data/0", b"x/data/1", 1)),
        "has another name in its header",
    ),
    "overlapping": (_overlapping(), "another name in its header|overlaps another one"),
    "a byte order": (archived(program(b"N"), {"x/byteorder": b"middle"}), "record 'byteorder' is b'middle'"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives_that_are_refused(name: str) -> None:
    stream, message = ARCHIVES[name]
    with bounded(), pytest.raises(PTFileError, match=message):
        rg.load(io.BytesIO(stream.getvalue()))


def test_every_cut_of_a_file_is_refused() -> None:
    stream = io.BytesIO()
    rg.save({"x": rg.ones(3)}, stream)
    for size in range(len(stream.getvalue())):
        with pytest.raises(PTFileError):
            rg.load(io.BytesIO(stream.getvalue()[:size]))


def test_names_that_leave_the_folder_are_only_names(tmp_path) -> None:
    content = archived(program(tensor(source=storage(key="../../../evil"))), {"x/data/../../../evil": bytes(24)})
    (tmp_path / "x.pt").write_bytes(content.getvalue())
    assert rg.load(tmp_path / "x.pt").tolist() == [[0, 0, 0], [0, 0, 0]]
    assert [path.name for path in tmp_path.iterdir()] == ["x.pt"]


def test_the_bits_of_a_truth_value() -> None:
    content = program(tensor(0, (2,), (1,), storage("Bool", "0", 2)))
    assert rg.load(archived(content, {"x/data/0": b"\x01\x00"})).tolist() == [True, False]
    with pytest.raises(PTFileError, match="a byte that is neither 0 nor 1"):
        rg.load(archived(content, {"x/data/0": b"\x01\x02"}))
