"""retrograd: fast deep learning in Python with backward passes that can be read, changed and checked."""

from __future__ import annotations

import functools
import importlib
import sys
from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from typing import TYPE_CHECKING, Any

from .torch_api.imports import after_import  # first: it installs the finder of alternative import paths

# isort: split
from . import autograd as autograd
from . import ops
from .autograd import enable_grad as enable_grad
from .autograd import inference_mode as inference_mode
from .autograd import is_grad_enabled as is_grad_enabled
from .autograd import is_inference_mode_enabled as is_inference_mode_enabled
from .autograd import no_grad as no_grad
from .autograd import set_grad_enabled as set_grad_enabled
from .engine.backward_rules import override_backward as override_backward
from .engine.backward_rules import register_backward_rule as register_backward_rule
from .engine.backward_rules import without_backward_rules as without_backward_rules
from .engine.operator import operator as operator
from .engine.tensor import Size as Size
from .engine.tensor import Tensor as Tensor
from .ops import *
from .ops import inplace_functions as _in_place
from .ops import settings as _settings
from .ops import signal as signal
from .ops import typed_constructors as _typed_constructors
from .ops.device import *
from .ops.dtypes import complex_numbers as _complex_numbers
from .ops.dtypes import dtype as _limits
from .ops.dtypes import dtype_names as _element_types
from .ops.dtypes import queries as _queries
from .ops.dtypes.complex_numbers import *
from .ops.dtypes.dtype import *
from .ops.dtypes.dtype_names import *
from .ops.dtypes.queries import *
from .ops.inplace_functions import *
from .ops.settings import *
from .ops.signatures import add_forms as _add_forms
from .ops.signatures import with_out as _with_out
from .ops.typed_constructors import *
from .torch_api.missing import find_module

if TYPE_CHECKING:
    from . import data as data
    from . import distributed as distributed
    from . import distributions as distributions
    from . import interop as interop
    from . import lowbit as lowbit
    from . import nn as nn
    from . import onnx as onnx
    from . import optim as optim
    from . import rules as rules
    from . import testing as testing
    from . import train as train
    from . import utils as utils
    from .engine.steps import record_steps as record_steps
    from .explanation.backward_source import backward_source as backward_source
    from .explanation.explain import explain as explain
    from .explanation.graph.graph import graph as graph
    from .explanation.source_map import source_map as source_map
    from .interop.packed import load_packed as load_packed
    from .interop.pt import load as load
    from .interop.pt import save as save
    from .kernels.compiled.machine.launch import get_num_threads as get_num_threads
    from .kernels.compiled.machine.launch import set_num_threads as set_num_threads
    from .nn.compilation import compile as compile
    from .nn.compilation import explain_recording as explain_recording
    from .nn.functional import avg_pool1d as avg_pool1d
    from .nn.functional import bilinear as bilinear
    from .nn.functional import celu as celu
    from .nn.functional import celu_ as celu_
    from .nn.functional import channel_shuffle as channel_shuffle
    from .nn.functional import conv1d as conv1d
    from .nn.functional import conv2d as conv2d
    from .nn.functional import conv3d as conv3d
    from .nn.functional import conv_transpose1d as conv_transpose1d
    from .nn.functional import conv_transpose2d as conv_transpose2d
    from .nn.functional import conv_transpose3d as conv_transpose3d
    from .nn.functional import cosine_embedding_loss as cosine_embedding_loss
    from .nn.functional import cosine_similarity as cosine_similarity
    from .nn.functional import group_norm as group_norm
    from .nn.functional import hardshrink as hardshrink
    from .nn.functional import hinge_embedding_loss as hinge_embedding_loss
    from .nn.functional import layer_norm as layer_norm
    from .nn.functional import margin_ranking_loss as margin_ranking_loss
    from .nn.functional import max_pool1d as max_pool1d
    from .nn.functional import max_pool2d as max_pool2d
    from .nn.functional import max_pool3d as max_pool3d
    from .nn.functional import pairwise_distance as pairwise_distance
    from .nn.functional import pixel_shuffle as pixel_shuffle
    from .nn.functional import pixel_unshuffle as pixel_unshuffle
    from .nn.functional import prelu as prelu
    from .nn.functional import rms_norm as rms_norm
    from .nn.functional import rrelu as rrelu
    from .nn.functional import rrelu_ as rrelu_
    from .nn.functional import selu as selu
    from .nn.functional import selu_ as selu_
    from .nn.functional import threshold as threshold
    from .nn.functional import threshold_ as threshold_
    from .nn.functional import triplet_margin_loss as triplet_margin_loss
    from .nn.model_summary import summary as summary
    from .nn.utils.per_sample import per_sample_gradients as per_sample_gradients
    from .ops.pointwise.formula import formula as formula
    from .ops.random import random as random
    from .torch_api import accelerator as accelerator
    from .torch_api import amp as amp
    from .torch_api import backends as backends
    from .torch_api import compiler as compiler
    from .torch_api import cuda as cuda
    from .torch_api import fft as fft
    from .torch_api import hub as hub
    from .torch_api import jit as jit
    from .torch_api import linalg as linalg
    from .torch_api import processes
    from .torch_api import serialization as serialization
    from .torch_api import sparse as sparse
    from .torch_api import special as special
    from .torch_api import version as version
    from .torch_api.amp import GradScaler as GradScaler
    from .torch_api.amp import autocast as autocast
    from .train.inference import load_run as load_run

    # "import *", "x as x" and this make a name public, as no list of names is given
    multiprocessing = processes
    __all__: list[str]

__version__ = "0.1.0"

if not TYPE_CHECKING:
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
        "explain",
        "explain_recording",
        "graph",
        "hub",
        "inf",
        "inference_mode",
        "interop",
        "jit",
        "is_grad_enabled",
        "is_inference_mode_enabled",
        "linalg",
        "load",
        "load_packed",
        "load_run",
        "lowbit",
        "multiprocessing",
        "nan",
        "newaxis",
        "nn",
        "no_grad",
        "onnx",
        "optim",
        "operator",
        "override_backward",
        "per_sample_gradients",
        "random",
        "pi",
        "record_steps",
        "register_backward_rule",
        "rules",
        "save",
        "serialization",
        "set_grad_enabled",
        "set_num_threads",
        "signal",
        "source_map",
        "sparse",
        "special",
        "summary",
        "testing",
        "train",
        "utils",
        "version",
        "without_backward_rules",
    ]
newaxis = None

# Imported on first use, to keep "import retrograd" fast and free of the compiler.
_SUBPACKAGES = {
    "data",
    "distributed",
    "distributions",
    "interop",
    "lowbit",
    "nn",
    "onnx",
    "optim",
    "rules",
    "testing",
    "train",
    "utils",
}
_LAZY_NAMES = {
    "GradScaler": ".torch_api.amp",
    "autocast": ".torch_api.amp",
    "backward_source": ".explanation.backward_source",
    "source_map": ".explanation.source_map",
    "compile": ".nn.compilation",
    "explain": ".explanation.explain",
    "explain_recording": ".nn.compilation",
    "formula": ".ops.pointwise.formula",
    "get_num_threads": ".kernels.compiled.machine.launch",
    "graph": ".explanation.graph.graph",
    "load": ".interop.pt",
    "load_packed": ".interop.packed",
    "load_run": ".train.inference",
    "per_sample_gradients": ".nn.utils.per_sample",
    "record_steps": ".engine.steps",
    "save": ".interop.pt",
    "set_num_threads": ".kernels.compiled.machine.launch",
    "summary": ".nn.model_summary",
}

# functions of nn.functional that PyTorch also has at the top level, with the same arguments
_FROM_FUNCTIONAL = (
    "avg_pool1d",
    "bilinear",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "group_norm",
    "hardshrink",
    "hinge_embedding_loss",
    "layer_norm",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "pairwise_distance",
    "pixel_shuffle",
    "pixel_unshuffle",
    "prelu",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
)
_LAZY_NAMES |= dict.fromkeys(_FROM_FUNCTIONAL, ".nn.functional")

_add_forms(globals())
_exporting_modules = (
    *(_complex_numbers, sys.modules[f"{__name__}.ops.device"], _element_types, _in_place, _limits, _queries),
    *(_settings, _typed_constructors),
)
if not TYPE_CHECKING:
    __all__ = sorted(
        [*__all__, *ops.__all__, *_FROM_FUNCTIONAL, *(name for module in _exporting_modules for name in module.__all__)]
    )

# autograd.gradcheck is a function and, as in PyTorch, a module: a later import would replace the function by the module
sys.modules[f"{__name__}.autograd.gradcheck"] = importlib.import_module(".torch_api.autograd", __name__)
after_import("einops._backends", functools.partial(importlib.import_module, ".interop.einops_backend", __name__))
after_import("tensorboardX.x2num", functools.partial(importlib.import_module, ".interop.tensorboardx", __name__))


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return importlib.import_module(f".{name}", __name__)
    if name in _LAZY_NAMES:
        return _with_out(getattr(importlib.import_module(_LAZY_NAMES[name], __name__), name), name)
    return find_module(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
