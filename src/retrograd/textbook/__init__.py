"""What the kernels mean: every kernel of ``retrograd.kernels`` in plain NumPy, same name and signature.

``retrograd.use_kernels("textbook")`` runs everything on this set, training included. The operators that call
have checked shapes and types. Inputs are never changed (but by optimiser steps); a result has their dtype.
"""

from .convolution import conv, conv_input_grad, conv_weight_grad
from .elementwise import (
    add,
    div,
    exp,
    log,
    mul,
    neg,
    power,
    relu,
    relu_grad,
    scale,
    sigmoid,
    sigmoid_grad,
    sqrt,
    sub,
    tanh,
    tanh_grad,
)
from .matmul import matmul
from .normalization import batch_norm, batch_norm_grad, channel_affine
from .optimizer import adam_step, sgd_step
from .pooling import avg_pool, avg_pool_grad, max_pool, max_pool_gather, max_pool_grad
from .reduction import max, sum
from .softmax import cross_entropy, cross_entropy_grad, log_softmax, log_softmax_grad, softmax, softmax_grad

__all__ = [
    "adam_step",
    "add",
    "avg_pool",
    "avg_pool_grad",
    "batch_norm",
    "batch_norm_grad",
    "channel_affine",
    "conv",
    "conv_input_grad",
    "conv_weight_grad",
    "cross_entropy",
    "cross_entropy_grad",
    "div",
    "exp",
    "log",
    "log_softmax",
    "log_softmax_grad",
    "matmul",
    "max",
    "max_pool",
    "max_pool_gather",
    "max_pool_grad",
    "mul",
    "neg",
    "power",
    "relu",
    "relu_grad",
    "scale",
    "sgd_step",
    "sigmoid",
    "sigmoid_grad",
    "softmax",
    "softmax_grad",
    "sqrt",
    "sub",
    "sum",
    "tanh",
    "tanh_grad",
]
