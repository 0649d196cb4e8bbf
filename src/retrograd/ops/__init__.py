"""What is differentiable: each operator's forward and backward side by side, one family a file.

kernel_set chooses the kernels. The operators are in elementwise, inplace, reduction, shape, broadcasting, gather,
matmul, convolution, pooling, normalization, softmax, loss and dropout; comparison, creation and random hold what has
no gradient, methods gives it all to Tensor, and gradients gives the engine what it adds and copies with.
"""

from . import gradients, methods
from .broadcasting import expand
from .comparison import eq, ge, gt, le, lt, ne
from .convolution import conv, conv_input_grad, conv_weight_grad
from .creation import (
    arange,
    from_numpy,
    full,
    ones,
    ones_like,
    rand,
    randint,
    randn,
    randperm,
    tensor,
    zeros,
    zeros_like,
)
from .dropout import dropout
from .dtype import cast
from .elementwise import add, div, exp, log, mul, neg, pow, relu, scale, sigmoid, sqrt, sub, tanh
from .kernel_set import active_kernels, kernels, use_kernels
from .loss import cross_entropy, mse_loss, nll
from .matmul import linear, matmul
from .normalization import batch_norm, channel_affine
from .pooling import avg_pool, max_pool
from .random import default_generator, get_rng_state, manual_seed, set_rng_state
from .reduction import argmax, max, mean, sum
from .shape import clone, flatten, getitem, permute, reshape, squeeze, transpose, unsqueeze
from .softmax import log_softmax, softmax

__all__ = [
    "active_kernels",
    "add",
    "arange",
    "argmax",
    "avg_pool",
    "batch_norm",
    "cast",
    "channel_affine",
    "clone",
    "conv",
    "conv_input_grad",
    "conv_weight_grad",
    "cross_entropy",
    "default_generator",
    "div",
    "dropout",
    "eq",
    "exp",
    "expand",
    "flatten",
    "from_numpy",
    "full",
    "ge",
    "get_rng_state",
    "getitem",
    "gradients",
    "gt",
    "kernels",
    "le",
    "linear",
    "log",
    "log_softmax",
    "lt",
    "manual_seed",
    "matmul",
    "max",
    "max_pool",
    "mean",
    "methods",
    "mse_loss",
    "mul",
    "ne",
    "neg",
    "nll",
    "ones",
    "ones_like",
    "permute",
    "pow",
    "rand",
    "randint",
    "randn",
    "randperm",
    "relu",
    "reshape",
    "scale",
    "set_rng_state",
    "sigmoid",
    "softmax",
    "sqrt",
    "squeeze",
    "sub",
    "sum",
    "tanh",
    "tensor",
    "transpose",
    "unsqueeze",
    "use_kernels",
    "zeros",
    "zeros_like",
]
