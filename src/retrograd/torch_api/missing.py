"""Errors for names of PyTorch, MXNet, Gluon and numpy-ml that are not available, with the reason and a page to read.

``pytorch_names.txt`` lists PyTorch's public names, and ``OTHER_LIBRARIES`` the names of the others that scripts use.
``REASONS`` says why some are not available and what to write instead.
"""

from __future__ import annotations

import os.path  # not pathlib, which would take 1 % of the time of "import retrograd"
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

from .imports import is_path

PAGE = 'the page "Coming from PyTorch" of the documentation'
OTHER_PAGE = 'the page "Coming from MXNet, SINGA, numpy-ml or DeepShift" of the documentation'
_PACKAGE = __name__.partition(".")[0]
# names of MXNet and numpy-ml that scripts use; ``REASONS`` says what to write instead
OTHER_LIBRARIES: dict[str, tuple[str, ...]] = {
    "torch": ("gluon", "mx", "nd", "sym", "symbol"),
    "torch.Tensor": ("as_in_context", "asnumpy", "asscalar", "attach_grad"),
    "torch.autograd": ("is_recording", "pause", "record"),
    "torch.optim": ("Trainer",),
    "torch.nn": ("L2Loss",),
    "torch.nn.Module": (
        *("collect_params", "export", "grad_req", "hybridize", "initialize", "load_parameters", "save_parameters"),
        *("backward", "flush_gradients", "update"),
    ),
    "torch.nn.functional": ("SoftmaxOutput", "LinearRegressionOutput"),
}
# attributes that scripts set and that have an effect in PyTorch or MXNet
ASSIGNED = {"torch.Tensor": ("grad_dtype", "imag"), "torch.nn.Module": ("grad_req",)}
# names of other libraries -> names here, in the same module
_SYNONYMS = {
    "Dense": "Linear",
    "FullyConnected": "Linear",
    "MaxPooling2D": "MaxPool2d",
    "AveragePooling2D": "AvgPool2d",
    "BatchNormalization": "BatchNorm2d",
    "LayerNormalization": "LayerNorm",
    "Activation": "ReLU",
    "MeanSquaredError": "MSELoss",
    "expand_dims": "unsqueeze",
    "array": "tensor",
    "random_normal": "randn",
    "Convolution": "Conv2d",
    **dict.fromkeys(("Deconvolution", "Deconv2D", "Conv2DTranspose"), "ConvTranspose2d"),
    "HybridSequential": "Sequential",
    "HybridBlock": "Module",
    "Block": "Module",
    "SoftmaxCrossEntropyLoss": "CrossEntropyLoss",
    "CrossEntropy": "CrossEntropyLoss",
    "SquaredError": "MSELoss",
    **dict.fromkeys(("im2col", "Im2col", "unpack_patch2col"), "unfold"),
    **dict.fromkeys(("col2im", "Col2im", "pack_col2patch"), "fold"),
}
# the same for functions, which have other names than layers
_FUNCTIONS = {
    "Convolution": "conv2d",
    "Deconvolution": "conv_transpose2d",
    "FullyConnected": "linear",
    "Activation": "relu",
    "BatchNorm": "batch_norm",
    "Pooling": "max_pool2d",
    "RNN": "rnn",
}
_TABLE = os.path.join(os.path.dirname(__file__), "pytorch_names.txt")


@lru_cache(maxsize=1)
def pytorch_names() -> dict[str, list[str]]:
    """Return the public names of PyTorch 2.13 by namespace; often-used classes count as namespaces."""
    names: dict[str, list[str]] = {}
    with open(_TABLE, encoding="utf-8") as file:
        for line in file:
            namespace, _, name = line.rstrip().rpartition(".")
            names.setdefault(namespace, []).append(name)
    return names


def missing(module: str, name: str) -> AttributeError:
    """Return the error for a missing module attribute: Python's message unless PyTorch has the name there."""
    namespace = _public(module).replace(_PACKAGE, "torch", 1)
    known = (*pytorch_names().get(namespace, ()), *OTHER_LIBRARIES.get(namespace, ()), *MODULES.get(namespace, ()))
    if name.startswith("_") or name not in known:
        hint = "" if name.startswith("_") else _similar(module, name)
        # with name= and without obj=, for which Python would add a suggestion of its own
        return AttributeError(f"module {_public(module)!r} has no attribute {name!r}{hint}", name=name)
    return _error(_public(module), namespace, name)


@lru_cache(maxsize=256)
def _similar(module: str, name: str) -> str:
    """Return the end of a message with the name that is probably meant; "" if there is none."""
    public = [each for each in dir(sys.modules[module]) if not each.startswith("_")]
    root = sys.modules[_PACKAGE]
    functional = root.nn.functional
    found = _FUNCTIONS.get(name, "") if module == functional.__name__ else ""
    found = found or _SYNONYMS.get(name, "")
    if found not in public:
        same = [each for each in public if each.lower().replace("_", "") == name.lower().replace("_", "")]
        elsewhere = [
            f"{place.__name__}.{each}"
            for place in (root.nn, functional, root.optim)
            for each in (found, name)
            if place.__name__ != module and each in (*place.__all__, "init")
        ]
        found = next(iter([*same, *elsewhere]), "")
    if not found:
        import difflib  # only for this message

        found = next(iter(difflib.get_close_matches(name, public, 1, 0.75)), "")
    return f"; did you mean {found!r}?" if found else ""


def _public(module: str) -> str:
    """Return the public path of a module."""
    return module.replace(".torch_api.", ".")


def find_module(module: str, name: str) -> ModuleType:
    """Return the module that PyTorch's or an earlier import path names below ``module``.

    Raises:
        AttributeError: there is none.
    """
    if not is_path(_public(module), name):
        raise missing(module, name)
    return import_module(f"{_public(module)}.{name}")


def attach_to_module(module: str, elsewhere: Mapping[str, Callable[[], Any]] | None = None) -> None:
    """Give a module a ``__getattr__`` that explains missing names (and that type checkers do not see).

    It finds the modules that ``imports.PATHS`` lists below this one.

    elsewhere: name -> a function that imports and returns it: names that are loaded on first use.
    """

    def __getattr__(name: str) -> Any:  # noqa: N807
        if elsewhere is not None and name in elsewhere:
            return elsewhere[name]()
        return find_module(module, name)

    def __dir__() -> list[str]:  # noqa: N807
        return sorted({*names, *(elsewhere or ())})

    names = sys.modules[module].__dict__
    names |= {"__getattr__": __getattr__, "__dir__": __dir__}
    names.setdefault("__path__", [])  # else "from" would not ask the finders


class _Explainer:
    """A finder that runs last: a missing module, or name in ``from``, gets the message of the missing attribute.

    Python would say "cannot import name" or "No module named" only.
    """

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        parent, _, last = name.rpartition(".")
        names = vars(sys.modules[parent]) if parent in sys.modules else {}
        if parent.partition(".")[0] != _PACKAGE or last in names or "__getattr__" not in names:
            return
        try:
            names["__getattr__"](last)
        except AttributeError as error:
            if not str(error).endswith(f" has no attribute {last!r}"):
                raise ModuleNotFoundError(str(error)) from None  # with name=, "from" would swallow it


sys.meta_path.append(_Explainer)


class Absent:
    """Placeholder in a class for a method that PyTorch has and this class lacks.

    Unlike ``__getattr__``, which Python would look up at each access, it does not slow down other attributes.
    """

    def __init__(self, namespace: str, name: str) -> None:
        self._place = namespace, name

    def __repr__(self) -> str:
        return f"<not available: {'.'.join(self._place)}>"

    def __get__(self, instance: Any, owner: type) -> Any:
        for cls in owner.__mro__:  # a second base class may have the name
            there = vars(cls).get(self._place[1], self)
            if not isinstance(there, Absent):
                return there.__get__(instance, owner) if hasattr(there, "__get__") else there
        raise _error(owner.__name__, *self._place)


class AbsentProperty(Absent):
    """Placeholder for an attribute whose assignment has an effect in PyTorch: assigning raises like reading."""

    def __set__(self, instance: Any, value: Any) -> NoReturn:
        raise _error(type(instance).__name__, *self._place)


def attach_to_class(cls: type, namespace: str) -> None:
    """Give a class an ``Absent`` for each name that the corresponding PyTorch or MXNet class has and it lacks."""
    assigned = ASSIGNED.get(namespace, ())
    known = (*pytorch_names()[namespace], *OTHER_LIBRARIES.get(namespace, ()), *assigned)
    names = frozenset(name for name in known if not hasattr(cls, name))

    def __dir__(self: Any) -> list[str]:  # noqa: N807
        """List only the available names, so that absent names are not completed or suggested."""
        return [name for name in object.__dir__(self) if name not in names or hasattr(self, name)]

    for name in names:
        setattr(cls, name, (AbsentProperty if name in assigned else Absent)(namespace, name))
    cls.__dir__ = __dir__  # type: ignore[assignment]


def _error(owner: str, namespace: str, name: str) -> AttributeError:
    reason = REASONS.get(namespace, {}).get(name) or MODULES.get(namespace, {}).get(name) or _elsewhere(namespace, name)
    page = OTHER_PAGE if name in OTHER_LIBRARIES.get(namespace, ()) else PAGE
    text = f"{reason or 'this PyTorch name is not available'}; see {page}"
    # without obj=, for which Python would suggest similar names
    return AttributeError(f"{owner} has no {name}: {text}", name=name)


def _elsewhere(namespace: str, name: str) -> str:
    """Return a clause that says where the name or an equivalent is available; empty if nowhere."""
    root = sys.modules[_PACKAGE]
    functions, methods = root.nn.functional.__all__, root.Tensor
    if namespace != "torch.nn.functional" and name in functions:
        return f"it is {_PACKAGE}.nn.functional.{name}"
    if namespace != "torch" and name in root.__all__:
        return f"it is {_PACKAGE}.{name}"
    if namespace != "torch.Tensor" and hasattr(methods, name):
        return f"it is a method: x.{name}(...)"
    plain = name.removesuffix("_")
    if plain != name and (plain in functions or plain in root.__all__ or hasattr(methods, plain)):
        return f"only {plain} is available, which makes a new tensor"
    return ""


# ---- Reasons and replacements ----------------------------------------------------------------------------------

_ONE_DEVICE = "there is one device, the CPU, and every tensor is on it; leave it out"
_NO_GPU = "it does not run on a GPU; there is one device, the CPU"
_LOWBIT = "layers with quantized weights and activations, and conversion of a model to them, are in retrograd.lowbit"
_COMPILE = "write net = retrograd.compile(net); it replays recorded calls"
_NO_SCRIPT = "a model is its Python code; save its weights with retrograd.interop.save_safetensors"
_SAVE = "write retrograd.save(model.state_dict(), path)"
_LOAD = "write model.load_state_dict(retrograd.load(path)), or retrograd.interop.load_mxnet_weights for MXNet's files"
_RECORDED = "operators on tensors that require a gradient are always recorded; leave it out"
_STRIDED = "a Tensor is dense; sparse matrices are made by retrograd.sparse_coo_tensor"
_NO_COMPLEX = "there are no complex numbers"
_PAIRS = _NO_COMPLEX + "; retrograd.fft represents them as real tensors whose last axis is (real part, imaginary part)"
_EIGENVALUES = _NO_COMPLEX + "; for symmetric matrices write retrograd.linalg.eigh"


REASONS: dict[str, dict[str, str]] = {
    "torch": {
        "export": _NO_SCRIPT,
        **dict.fromkeys(("mx", "nd"), "functions of arrays are in retrograd and retrograd.nn.functional"),
        **dict.fromkeys(("sym", "symbol"), "there are no symbols; call functions on tensors, or write a Module"),
        "gluon": "layers and losses are in retrograd.nn, data sets in retrograd.data",
        "fx": "a graph is recorded when operators run; inspect it with y.grad_fn and retrograd.backward_source(y)",
        "mps": _NO_GPU,
        "xpu": _NO_GPU,
        "complex": _NO_COMPLEX,
        **dict.fromkeys(("view_as_real", "view_as_complex", "polar"), _PAIRS),
        "sparse_csr_tensor": _STRIDED,
        "vmap": "write the batch axis into your operations; gradients of each sample come from "
        "retrograd.per_sample_gradients",
        "func": "functions of gradients are in retrograd.autograd.functional",
        "profiler": "write retrograd.train.profile(model, x)",
        "quantization": _LOWBIT,
        "ao": _LOWBIT,
        "rnn_tanh": "write retrograd.nn.RNN",
        "rnn_relu": 'write retrograd.nn.RNN(..., nonlinearity="relu")',
        "lstm": "write retrograd.nn.LSTM",
        "gru": "write retrograd.nn.GRU",
    },
    "torch.Tensor": {
        "as_in_context": _ONE_DEVICE,
        "asnumpy": "it is a name of MXNet; write x.numpy()",
        "asscalar": "it is a name of MXNet; write x.item()",
        "attach_grad": "it is a name of MXNet; write x.requires_grad_()",
        "xpu": _ONE_DEVICE,
        "cfloat": _NO_COMPLEX,
        "cdouble": _NO_COMPLEX,
        "grad_dtype": "a gradient has the dtype of its tensor",
        "imag": _NO_COMPLEX,
        "to_dense": _STRIDED,
    },
    "torch.autograd": {
        "is_recording": "write retrograd.is_grad_enabled()",
        "pause": "write retrograd.no_grad()",
        "record": _RECORDED,
    },
    "torch.optim": {
        "Trainer": "write retrograd.optim.SGD(model.parameters(), lr=0.1) or another one; step() takes no batch size",
    },
    "torch.nn.functional": {
        "SoftmaxOutput": 'write cross_entropy(scores, classes, reduction="sum"), which has the same gradient',
        "LinearRegressionOutput": 'write 0.5 * mse_loss(y, target, reduction="sum") / outputs per sample',
    },
    "torch.nn.Module": {
        "collect_params": "it is a name of MXNet; write model.parameters() or model.named_parameters()",
        "grad_req": 'every parameter has its own; write for p in model.parameters(): p.grad_req = "write"',
        "initialize": "parameters have values from the start; retrograd.nn.init has other ones",
        "save_parameters": _SAVE,
        "load_parameters": _LOAD,
        "export": "write retrograd.onnx.export(model, x, path)",
        "backward": "call backward() of the loss, a tensor; it computes the gradients of all layers",
        "update": "write optimizer.step()",
        "flush_gradients": "write optimizer.zero_grad()",
        "hybridize": _COMPILE,
        "xpu": _ONE_DEVICE,
        "compile": _COMPILE,
        "register_backward_hook": "write register_full_backward_hook",
    },
    "torch.linalg": dict.fromkeys(("eig", "eigvals"), _EIGENVALUES),
    "torch.nn": {
        "L2Loss": "write retrograd.nn.MSELoss; MXNet's loss is half of it",
        "NLLLoss2d": "write retrograd.nn.NLLLoss",
        "Container": "write retrograd.nn.Module",
        "quantized": _LOWBIT,
    },
    "torch.utils.data": {
        "default_convert": "write default_collate",
    },
}
# modules of PyTorch that scripts import, and that are no attribute of the module above them before that
MODULES: dict[str, dict[str, str]] = {
    "torch": dict.fromkeys(("masked", "nested", "package"), ""),
    "torch.nn": dict.fromkeys(("intrinsic", "qat", "quantizable"), _LOWBIT),
    "torch.nn.utils": {"stateless": "assign the tensors to the attributes of the modules, and call these"},
    "torch.utils": {
        "benchmark": "write retrograd.train.profile(model, x), or time calls with timeit",
        "bottleneck": "write retrograd.train.profile(model, x)",
        "cpp_extension": "kernels are Python functions; an operator of your own is a retrograd.autograd.Function",
        "flop_counter": "write retrograd.summary(model, input_size)",
        "mobile_optimizer": "write net.eval().freeze()",
    },
}
