"""``python -m onnx_models.fuzz SEED COUNT`` in tests/: loads and runs randomly broken models.

Bytes of the file are changed, or numbers, names, types and operators of the model. Every model must give a result or
one of the errors below, within a memory limit. The program exits with 1 at the first other outcome.
"""

from __future__ import annotations

import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests

import retrograd as rg

_MEMORY, _SECONDS = 8 << 30, 20.0  # of the process; of a model
_ALLOWED = (ValueError, TypeError, IndexError, RuntimeError, MemoryError)  # OnnxError is a ValueError
_EXTREMES = (0, 1, -1, 2, 7, 2**31 - 1, -(2**31), 2**40, 2**62, -(2**63))
_OPERATORS = (
    "Add",
    "Conv",
    "Gather",
    "Reshape",
    "Slice",
    "Softmax",
    "Gemm",
    "MaxPool",
    "Resize",
    "Concat",
    "Loop",
    "If",
    "LSTM",
    "Pad",
    "Tile",
    "Expand",
    "Cast",
)


def models(rng: random.Random, count: int) -> list[Any]:
    """Some of ONNX's own node tests, with their inputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [case for case in load_model_tests(kind="node") if case.data_sets]
    return rng.sample(cases, count)


def broken(model: Any, rng: random.Random) -> bytes:
    """Return the bytes of a model with a random change."""
    if rng.random() < 0.4:
        return _other_bytes(model.SerializeToString(), rng)
    other = onnx.ModelProto()
    other.CopyFrom(model)
    for _ in range(rng.choice((1, 1, 2, 3))):
        _change(other.graph, rng)
    return bytes(other.SerializeToString())


def _other_bytes(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = rng.randrange(len(changed))
        kind = rng.randrange(3)
        if kind == 0:
            changed[place] = rng.randrange(256)
        elif kind == 1:
            del changed[place : place + rng.randrange(1, 9)]
        else:
            changed[place:place] = rng.randbytes(rng.randrange(1, 5))
        changed = changed or bytearray(b"\0")
    return bytes(changed)


def _change(graph: Any, rng: random.Random) -> None:
    node = rng.choice(graph.node)
    kind = rng.randrange(6)
    if kind == 0 and node.attribute:
        attribute = rng.choice(node.attribute)
        if attribute.ints:
            attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(_EXTREMES)
        elif attribute.HasField("i"):
            attribute.i = rng.choice(_EXTREMES)
        elif attribute.HasField("f"):
            attribute.f = rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
        else:
            attribute.s = rng.choice((b"", b"linear", b"SAME_UPPER", b"no such word", b"\xff"))
    elif kind == 1 and node.attribute:
        del node.attribute[rng.randrange(len(node.attribute))]
    elif kind == 2 and node.input:
        names = [name for each in graph.node for name in (*each.input, *each.output)]
        node.input[rng.randrange(len(node.input))] = rng.choice([*names, "", "nowhere"])
    elif kind == 3:
        node.op_type = rng.choice(_OPERATORS)
    elif kind == 4 and graph.input:
        given = rng.choice(graph.input).type.tensor_type
        given.elem_type = rng.choice(range(1, 20))
    else:
        for tensor in graph.initializer:
            if tensor.dims:
                tensor.dims[0] = rng.choice(_EXTREMES)


def _inputs(case: Any, rng: random.Random) -> list[Any]:
    """Return the inputs of the test; integers, such as sizes and indices, are sometimes replaced by extreme values."""
    found = []
    for value in case.data_sets[0][0]:
        if isinstance(value, np.ndarray) and value.dtype == np.int64 and value.size and rng.random() < 0.5:
            value = value.copy()
            value.reshape(-1)[rng.randrange(value.size)] = rng.choice(_EXTREMES)
        found.append(value)
    return found


def _outcome(path: Path, inputs: list[Any]) -> str:
    try:
        net = rg.onnx.load(path)
    except rg.onnx.OnnxError:
        return "refused"
    try:
        with rg.no_grad():
            net.eval()(*inputs[: len(net.input_names)])
    except _ALLOWED as error:
        return f"error of {type(error).__name__}"
    return "ran"


def main() -> int:
    seed, count = map(int, sys.argv[1:])
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    rng = random.Random(seed)
    cases = models(rng, min(300, count))
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.onnx"
        for number in range(count):
            case = rng.choice(cases)
            path.write_bytes(broken(case.model, rng))
            start = time.perf_counter()
            try:
                found[_outcome(path, _inputs(case, rng))] += 1
            except Exception:
                traceback.print_exc()
                print(f"model {number} of seed {seed}, from {case.name}")
                return 1
            if time.perf_counter() - start > _SECONDS:
                print(f"model {number} of seed {seed}, from {case.name}, took more than {_SECONDS} s")
                return 1
    print(dict(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
