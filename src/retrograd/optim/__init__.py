"""Optimizers, learning rate schedulers and weight averages with PyTorch's names."""

from importlib import import_module
from typing import TYPE_CHECKING

from ..ops.signatures import explain_wrong_arguments as _explain_wrong_arguments
from ..torch_api.missing import attach_to_module
from .adafactor import Adafactor
from .adam import Adam, Adamax, AdamW, NAdam, RAdam
from .adaptive import Adadelta, Adagrad, RMSprop, Rprop
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .sgd import ASGD, SGD

if TYPE_CHECKING:
    from . import lr_scheduler, swa_utils

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
    "swa_utils",
]

_explain_wrong_arguments(
    [ASGD, LBFGS, SGD, Adadelta, Adafactor, Adagrad, Adam, AdamW, Adamax, NAdam, RAdam, RMSprop, Rprop]
)
attach_to_module(
    __name__,
    {  # loaded on first use
        "lr_scheduler": lambda: import_module(f"{__name__}.lr_scheduler"),
        "swa_utils": lambda: import_module(f"{__name__}.swa_utils"),
    },
)
