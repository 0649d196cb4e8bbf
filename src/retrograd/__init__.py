"""retrograd: deep learning in Python whose backward passes can be read, changed and checked, at the machine's speed."""

from __future__ import annotations

import functools
import importlib
from math import e, inf, nan, pi
from typing import TYPE_CHECKING, Any

from . import autograd, ops
from .absent import missing
from .after_import import after_import
from .autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .engine.later import LATER
from .engine.rule import READY, override_backward, register_backward_rule, without_backward_rules
from .engine.size import Size
from .engine.tensor import Tensor
from .ops import *
from .ops import device as _device
from .ops import element_types as _element_types
from .ops import layout as _layout
from .ops import limits as _limits
from .ops import made_like as _made_like
from .ops import memory as _memory
from .ops import queries as _queries
from .ops import settings as _settings
from .ops import typed as _typed
from .ops.device import *
from .ops.element_types import *
from .ops.layout import *
from .ops.limits import *
from .ops.made_like import *
from .ops.memory import *
from .ops.queries import *
from .ops.settings import *
from .ops.typed import *

if TYPE_CHECKING:
    from . import (
        accelerator,
        amp,
        backends,
        compiler,
        cuda,
        data,
        distributed,
        distributions,
        fft,
        hub,
        interop,
        jit,
        linalg,
        lowbit,
        multiprocessing,
        nn,
        onnx,
        optim,
        random,
        rules,
        serialization,
        sparse,
        special,
        testing,
        train,
        utils,
        version,
    )
    from .amp import GradScaler, autocast
    from .compiler import compile
    from .engine.source import backward_source
    from .explain.graph.graph import graph
    from .interop.packed import load_packed
    from .interop.pt import load, save
    from .kernels.machine.launch import get_num_threads, set_num_threads
    from .nn.model_summary import summary
    from .nn.utils.per_sample import per_sample_gradients
    from .ops.pointwise.formula import formula

__version__ = "0.1.0"

__all__ = [
    "GradScaler",
    "Size",
    "Tensor",
    "accelerator",
    "amp",
    "autocast",
    "autograd",
    "backends",
    "backward_source",
    "compile",
    "compiler",
    "cuda",
    "data",
    "distributed",
    "distributions",
    "e",
    "enable_grad",
    "fft",
    "formula",
    "get_num_threads",
    "graph",
    "hub",
    "inf",
    "inference_mode",
    "interop",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "linalg",
    "load",
    "load_packed",
    "lowbit",
    "multiprocessing",
    "nan",
    "newaxis",
    "nn",
    "no_grad",
    "onnx",
    "optim",
    "override_backward",
    "per_sample_gradients",
    "random",
    "pi",
    "register_backward_rule",
    "rules",
    "save",
    "serialization",
    "set_grad_enabled",
    "set_num_threads",
    "sparse",
    "special",
    "summary",
    "testing",
    "train",
    "utils",
    "version",
    "without_backward_rules",
]
_more = _device, _element_types, _layout, _limits, _made_like, _memory, _queries, _settings, _typed
__all__ = sorted([*__all__, *ops.__all__, *(name for module in _more for name in module.__all__)])
newaxis = None

# Imported on first use, to keep "import retrograd" fast and free of the compiler.
_SUBPACKAGES = {
    "accelerator",
    "amp",
    "backends",
    "compiler",
    "cuda",
    "data",
    "distributed",
    "distributions",
    "fft",
    "hub",
    "interop",
    "jit",
    "linalg",
    "lowbit",
    "multiprocessing",
    "nn",
    "onnx",
    "optim",
    "random",
    "rules",
    "serialization",
    "sparse",
    "special",
    "testing",
    "train",
    "utils",
    "version",
}
_ELSEWHERE = {
    "GradScaler": ".amp",
    "autocast": ".amp",
    "backward_source": ".engine.source",
    "compile": ".compiler",
    "formula": ".ops.pointwise.formula",
    "get_num_threads": ".kernels.machine.launch",
    "graph": ".explain.graph.graph",
    "load": ".interop.pt",
    "load_packed": ".interop.packed",
    "per_sample_gradients": ".nn.utils.per_sample",
    "save": ".interop.pt",
    "set_num_threads": ".kernels.machine.launch",
    "summary": ".nn.model_summary",
}

# PyTorch has these of nn.functional here as well, with the same arguments
_OF_NETWORKS = frozenset(
    (
        *("avg_pool1d", "bilinear", "celu", "channel_shuffle", "conv1d", "conv2d", "conv3d"),
        *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cosine_embedding_loss", "cosine_similarity"),
        *("group_norm", "hardshrink", "hinge_embedding_loss", "layer_norm", "margin_ranking_loss", "max_pool1d"),
        *("max_pool2d", "max_pool3d", "pairwise_distance", "pixel_shuffle", "pixel_unshuffle", "prelu"),
        *("rms_norm", "rrelu", "selu", "threshold", "triplet_margin_loss"),
    )
)

READY.append(functools.partial(importlib.import_module, ".rules", __name__))
LATER["as_device"] = lambda: _device.as_device
LATER["pack"] = lambda: importlib.import_module(".lowbit", __name__).pack
after_import("einops._backends", functools.partial(importlib.import_module, ".interop.einops_backend", __name__))
after_import("tensorboardX.x2num", functools.partial(importlib.import_module, ".interop.tensorboardx", __name__))
LATER["as_html"] = lambda: importlib.import_module(".explain.notebook", __name__).as_html
LATER["save_packed"] = lambda: importlib.import_module(".interop.packed", __name__).save_packed


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return importlib.import_module(f".{name}", __name__)
    if name in _ELSEWHERE:
        return getattr(importlib.import_module(_ELSEWHERE[name], __name__), name)
    if name in _OF_NETWORKS:
        return getattr(importlib.import_module(".nn.functional", __name__), name)
    if name.endswith("_") and not name.startswith("_") and hasattr(Tensor, name):
        return getattr(Tensor, name)  # torch.relu_(x) is x.relu_()
    raise missing(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
