"""Exchange with other libraries: imported ONNX models, and operators inside PyTorch.

Models that PyTorch exported to ONNX: a batch through the module that ``retrograd.onnx.load`` returns, frozen for
inference, compared with onnxruntime, which has all its optimizations on, and with PyTorch itself; the module as it is,
meant for further training, stands beside.

A chain of eight small convolutions, forward and backward: our operator called inside PyTorch, compared with the same
chain outside PyTorch and with a chain of empty functions. The difference divided by eight is the overhead of a call.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
import torch

import retrograd

from .. import libraries as lib
from ..harness import Call, Result, Row, Rows, summary
from ..models import CHARACTERS, characters, cifar, gpt, lenet, mobilenet_v2, resnet18, squeezenet, unet

TARGET, MEAN = 0.9, 1.1  # of each row, and of their geometric mean
GROUP = "frozen ONNX models"


def _codes(most: int, length: int) -> Callable[[int], np.ndarray]:
    return lambda n: np.random.default_rng(0).integers(0, most, (n, length))


MODELS = {
    "LeNet": (lenet, lambda n: lib.random(n, 1, 28, 28)),
    "CIFAR network": (cifar, lambda n: lib.random(n, 3, 32, 32)),
    "U-Net, 64×64": (unet, lambda n: lib.random(n, 3, 64, 64)),
    "ResNet-18, 224×224": (resnet18, lambda n: lib.random(n, 3, 224, 224)),
    "MobileNetV2, 96×96": (mobilenet_v2, lambda n: lib.random(n, 3, 96, 96)),
    "MobileNetV2, 224×224": (mobilenet_v2, lambda n: lib.random(n, 3, 224, 224)),
    "SqueezeNet, 224×224": (squeezenet, lambda n: lib.random(n, 3, 224, 224)),
    "LSTM of 64 characters": (lambda nn: characters(nn, batch_first=True), _codes(CHARACTERS, 64)),
    "GPT of 128 codes": (gpt, _codes(65, 128)),
}


def rows(quick: bool, compile: bool) -> Rows:
    yield _inside_pytorch()
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
    frozen = module.freeze()

    def ours() -> np.ndarray:
        return frozen(given).numpy()

    def plain() -> np.ndarray:
        with retrograd.no_grad():
            return module(given).numpy()

    def runtime() -> np.ndarray:
        return session.run(None, {"x": x})[0]

    def eager() -> np.ndarray:
        with torch.no_grad():
            return net(tensor).numpy()

    def values() -> list[tuple[np.ndarray, np.ndarray]]:
        return [(ours(), runtime()), (ours(), eager())]

    theirs: dict[str, Call] = {"onnxruntime": runtime, "PyTorch": eager, "retrograd, not frozen": plain}
    return Row(GROUP, name, ours, theirs, TARGET, values, against=("onnxruntime",))


def summaries(found: list[Result], threads: int, level: str) -> Iterator[Result]:
    """Yield the geometric mean of the models."""
    some = [result for result in found if result.group == GROUP]
    yield from summary(GROUP, some, threads, MEAN, geometric_mean)


def _inside_pytorch() -> Row:
    from retrograd.interop.torch import function

    x, upstream = lib.random(1, 8, 16, 16), lib.random(1, 8, 16, 16, seed=1)
    weights = [lib.random(8, 8, 3, 3, seed=k) * 0.1 for k in range(8)]

    def chain(conv: Any, arrays: Any, g: Any) -> Call:
        start, *filters = [each.requires_grad_() for each in arrays]

        def run() -> Any:
            y = start
            for w in filters:
                y = conv(y, w)
            for each in (start, *filters):
                each.grad = None
            y.backward(g)
            return start.grad

        return run

    def theirs(conv: Any) -> Call:
        return chain(conv, [torch.from_numpy(each.copy()) for each in (x, *weights)], torch.from_numpy(upstream))

    def conv2d(x: Any, w: Any) -> Any:
        return retrograd.nn.functional.conv2d(x, w, padding=1)

    inside = theirs(function(conv2d))
    outside = chain(conv2d, [retrograd.tensor(each.copy()) for each in (x, *weights)], retrograd.tensor(upstream))
    peers = {
        "retrograd outside": outside,
        "empty functions": theirs(_Empty.apply),
        "PyTorch's convolution": theirs(lambda x, w: torch.nn.functional.conv2d(x, w, padding=1)),
    }

    def values() -> list[tuple[np.ndarray, np.ndarray]]:
        return [(inside().numpy(), outside().numpy()), (inside().numpy(), peers["PyTorch's convolution"]().numpy())]

    name, against = "8 convolutions, 8 → 8, 16 × 16", ("retrograd outside",)
    return Row("inside PyTorch", name, inside, peers, None, values, against=against)


class _Empty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        return x.detach()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g, None


def _session(file: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
