"""How fast: the compiled kernels. Arrays in, arrays out, under the signatures of ``retrograd.textbook``.

A wrapper module (``convolution.py``) cuts the work into tasks by shape; the module of the same name in ``compiled/``
holds what one task does. At the bottom stand ``simd/`` (vectors as values), ``microkernel.py`` (the batch-reduce
matrix product), ``launch.py`` (threads, loading) and ``scratch.py`` (memory for tasks); ``cache.py`` keeps machine code
on disk. Importing this package imports neither Numba nor any machine code.
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
from .launch import get_num_threads, set_num_threads
from .matmul import matmul
from .normalization import batch_norm, batch_norm_grad, channel_affine
from .optimizer import adam_step, sgd_step
from .pooling import avg_pool, avg_pool_grad, max_pool, max_pool_gather, max_pool_grad
from .precompile import warmup
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
    "get_num_threads",
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
    "set_num_threads",
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
    "warmup",
]
