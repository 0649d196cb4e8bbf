"""``retrograd export``: writes the network of a run as an ONNX model, with what its use needs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .output import UsageError, as_typed, complain, say

if TYPE_CHECKING:
    from ..nn.module import Module
    from ..train.inference import ImageRun, SeriesRun, TextRun

__all__ = ["add_command"]


def add_command(commands: Any) -> None:
    export = commands.add_parser(
        "export",
        help="write the network of a run as an ONNX model",
        description="Write the network of a run of 'retrograd train' as an ONNX model, for onnxruntime and others. "
        "Images: from pixels between 0 and 1 to the probability of each class; the metadata has the names of the "
        "classes. A series: from the last values to the next ones, with intervals. Text: from characters and states to "
        "scores of the next characters and states; the metadata has the alphabet.",
    )
    export.add_argument("model", type=Path, metavar="RUN", help="the folder of a run, or its checkpoint.npz")
    export.add_argument("file", type=Path, metavar="FILE", help="the file to write, such as model.onnx")
    export.add_argument("--opset", type=int, metavar="N", help="version of ONNX's operators (18)")
    export.add_argument("--level", type=float, metavar="X", help="for a series: as in retrograd predict (0.9)")
    export.set_defaults(run=_export)


def _export(arguments: argparse.Namespace) -> int:
    from ..onnx import export
    from ..onnx.errors import OnnxError
    from ..train.checkpoint import CheckpointError
    from ..train.inference import ImageRun, SeriesRun, load_run

    file = arguments.file
    if file.suffix != ".onnx":
        raise UsageError(f"{file} must end in .onnx")
    try:
        run = load_run(arguments.model)
        if arguments.level is not None and not isinstance(run, SeriesRun):
            raise UsageError(f"--level is for a series; {arguments.model} is not one: leave it out")
        if isinstance(run, ImageRun):
            parts = _images(run)
        elif isinstance(run, SeriesRun):
            parts = _series(run, 0.9 if arguments.level is None else arguments.level)
        else:
            parts = _text(run)
        model, options = parts
        export(model, options.pop("example"), file, opset=arguments.opset, **options)
    except (CheckpointError, OnnxError, ImportError, OSError) as error:
        return complain(str(error), 1)
    except ValueError as error:
        raise UsageError(as_typed(error, arguments)) from None
    size = f"{file.stat().st_size / 1e6:.2f} MB"
    outputs = ", ".join(options["output_names"])
    say(f"{file}: {size}; inputs {', '.join(options['input_names'])}; outputs {outputs}")
    return 0


def _images(run: ImageRun) -> tuple[Module, dict[str, Any]]:
    """Return a network from images to probabilities, and the options of its export."""
    import json

    import numpy as np

    from .. import nn
    from ..engine.tensor import Tensor

    pixels = np.random.default_rng(0).random((2, run.channels, run.size, run.size), np.float32)
    # keys and values of ONNX's MetadataProps.md, and our own: classes
    metadata = {
        "Image.BitmapPixelFormat": "Rgb8" if run.channels == 3 else "Gray8",
        "Image.NominalPixelRange": "Normalized_0_1",
        "classes": json.dumps(list(run.classes), ensure_ascii=False),
    }
    return nn.Sequential(run.model, nn.Softmax(1)), {
        "example": Tensor(pixels),
        "input_names": ["images"],
        "output_names": ["probabilities"],
        "metadata": metadata,
    }


def _series(run: SeriesRun, level: float) -> tuple[Module, dict[str, Any]]:
    """Return a network from the last values of a series to the next ones, and the options of its export."""
    import numpy as np

    from .. import nn
    from ..engine.tensor import Tensor

    width = run.half_widths(run.horizon, level)
    if not np.isfinite(width).all():
        complain(f"some intervals are infinite: too few values were held out for --level {level:g}; try a lower one", 0)

    class Forecaster(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = run.model

        def forward(self, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            x = ((values - run.mean) / run.deviation).float()
            forecast = self.network(x).double() * run.deviation + run.mean
            return forecast, forecast - Tensor(width), forecast + Tensor(width)

    metadata = {
        "column": run.column,
        "window": f"{run.window}",
        "horizon": f"{run.horizon}",
        "period": f"{run.period}",
        "level": f"{level:g}",
    }
    windows = [run.values[end - run.window : end] for end in (len(run.values), len(run.values) - 1)]
    return Forecaster(), {
        "example": Tensor(np.stack(windows)),
        "input_names": ["values"],
        "output_names": ["forecast", "lower", "upper"],
        "metadata": metadata,
    }


def _text(run: TextRun) -> tuple[Module, dict[str, Any]]:
    """Return a network from characters and states to scores and states, and the options of its export."""

    import numpy as np

    from .. import nn
    from ..engine.tensor import Tensor
    from ..ops.creation import zeros

    class Stepper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = run.model

        def forward(self, codes: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            scores, (h, c) = self.network.step(codes.T, (h, c))
            return scores.reshape(codes.shape[1], codes.shape[0], -1).transpose(0, 1), h, c

    layers, _, hidden = run.model.h.shape
    states = zeros(layers, 2, hidden)
    codes = np.arange(6).reshape(2, 3) % len(run.alphabet)
    return Stepper(), {
        "example": (Tensor(codes), states, states),
        "input_names": ["codes", "h", "c"],
        "output_names": ["scores", "next_h", "next_c"],
        "dynamic_axes": {"codes": {0: "batch", 1: "time"}, "h": {1: "batch"}, "c": {1: "batch"}},
        "metadata": {"alphabet": run.alphabet},
    }
