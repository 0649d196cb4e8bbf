"""Models that PyTorch exported to ONNX: a batch through the module that ``retrograd.onnx.load`` makes of them, beside
onnxruntime, which computes forward alone and fuses operators, and beside PyTorch itself.

There is no target: the module is one to train further.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

import retrograd

from .. import libraries as lib
from ..harness import Call, Row, Rows
from ..models import CHARACTERS, characters, mobilenet_v2, resnet18

MODELS = {
    "ResNet-18": (resnet18, lambda n: lib.random(n, 3, 96, 96)),
    "MobileNetV2": (mobilenet_v2, lambda n: lib.random(n, 3, 96, 96)),
    "LSTM of 64 characters": (
        lambda nn: characters(nn, batch_first=True),
        lambda n: np.random.default_rng(0).integers(0, CHARACTERS, (n, 64)),
    ),
}


def rows(quick: bool, compile: bool) -> Rows:
    for name, (make, batch) in MODELS.items():
        torch.manual_seed(0)
        net = make(torch.nn).eval()
        for size in (1,) if quick else (1, 8):
            yield _row(f"{name}, batch {size}", net, batch(size))


def _row(name: str, net: Any, x: np.ndarray) -> Row:
    given, tensor = retrograd.tensor(x), torch.from_numpy(x)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # this exporter is the old one, which needs no further package
            torch.onnx.export(net, (tensor,), str(file), dynamo=False, input_names=["x"])
        module, session = retrograd.onnx.load(file).eval(), _session(file)

    def ours() -> np.ndarray:
        with retrograd.no_grad():
            return module(given).numpy()

    def runtime() -> np.ndarray:
        return session.run(None, {"x": x})[0]

    def eager() -> np.ndarray:
        with torch.no_grad():
            return net(tensor).numpy()

    def values() -> list[tuple[np.ndarray, np.ndarray]]:
        return [(ours(), runtime()), (ours(), eager())]

    theirs: dict[str, Call] = {"onnxruntime": runtime, "PyTorch": eager}
    return Row("ONNX", name, ours, theirs, None, values, against=("onnxruntime",))


def _session(file: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
