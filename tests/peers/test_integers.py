"""int64 and bool: we compute what PyTorch computes, in the same type, and refuse what it refuses."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as peer

import retrograd
import retrograd.nn.functional as ours
from peers.compare import assert_close
from retrograd.ops.pointwise import arithmetic, comparison, exponential, piecewise, rounding, trigonometry

OPERATORS = sorted(
    name
    for family in (comparison, arithmetic, piecewise, exponential, rounding, exponential, trigonometry)
    for name in family.__all__
    if hasattr(torch, name)
)
ACTIVATIONS = (
    *("elu", "selu", "celu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu"),
    *("logsigmoid", "mish", "relu6", "rrelu", "silu", "softplus", "softshrink", "softsign", "tanhshrink", "relu"),
)
NUMBERS = np.random.default_rng(5).integers(-4, 5, (4, 3, 2))
INPUTS = {
    "int64": NUMBERS[..., 0],
    "bool": NUMBERS[..., 0] > 0,
    "int64, turned": np.ascontiguousarray(NUMBERS[..., 1].T).T[::-1],
    "empty int64": NUMBERS[:0, :, 0],
    "empty bool": NUMBERS[:0, :, 0] > 0,
    "0-d int64": np.array(3),
    "0-d bool": np.array(True),
}
OTHERS: dict[str, Any] = {
    **INPUTS,
    "float32": NUMBERS[..., 1].astype(np.float32) / 2,
    "float64": NUMBERS[..., 1] / 2,
    "0-d float32": np.array(1.5, np.float32),
    "0-d float64": np.array(2.5),
    "int": 2,
    "float": 1.5,
    "truth value": True,
}
# what is computed here although PyTorch refuses it, because it has a value
MORE = {"fmod", "remainder", "isclose", "allclose", "round", "fmax", "fmin", "sub", "subtract"}
REFUSED = (TypeError, ValueError, ZeroDivisionError)


def _outcome(function: Callable[..., Any], convert: Callable[[Any], Any], operands: Any, errors: Any) -> Any:
    """The result, or the error as an exception."""
    try:
        return function(*[convert(x) if isinstance(x, np.ndarray) else x for x in operands])
    except errors as error:
        return error


def _compare(name: str, function: Any, theirs: Any, operands: tuple[Any, ...], what: str) -> bool:
    """Whether PyTorch computes it; then the two are equal, else the error says what is wrong."""
    wanted = _outcome(theirs, lambda x: torch.tensor(x.copy()), operands, (RuntimeError, TypeError))
    if isinstance(wanted, TypeError):  # PyTorch has no such form
        return False
    with np.errstate(all="ignore"):
        found = _outcome(function, retrograd.from_numpy, operands, REFUSED)
    if isinstance(wanted, Exception):
        assert isinstance(found, Exception) or name in MORE, f"{what}: computed, PyTorch says {wanted}"
        return False
    assert not isinstance(found, Exception), f"{what}: {found}"
    if isinstance(wanted, torch.Tensor):
        assert_close(found, wanted, what, 2e-6)
    return True


def _operands(count: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    tables = [INPUTS if count == 1 else OTHERS, *[OTHERS] * (count - 1)]
    for labels in itertools.product(*tables):
        operands = tuple(table[label] for table, label in zip(tables, labels, strict=True))
        kinds = [x.dtype.kind for x in operands if isinstance(x, np.ndarray)]
        if any(kind in "ib" for kind in kinds):
            yield ", ".join(labels), operands


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_of_every_type(name: str) -> None:
    function, theirs = getattr(retrograd, name), getattr(torch, name)
    computed = 0
    for count in (1, 2) if name not in ("logit", "nan_to_num") else (1,):  # whose second argument is no operand
        for label, operands in _operands(count):
            if name == "pow" and count == 2:  # integers have no negative powers, truth values no powers
                if operands[1] is True:
                    continue
                if isinstance(operands[1], np.ndarray):
                    operands = (operands[0], np.asarray(abs(operands[1])))
            computed += _compare(name, function, theirs, operands, f"{name} of {label}")
    assert computed or name in ("addcmul", "addcdiv", "lerp", "where", "frac")


@pytest.mark.parametrize("name", ["addcmul", "addcdiv", "clamp", "where"])
def test_three_operands(name: str) -> None:
    few = ("int64", "bool", "float32", "float64", "0-d int64", "0-d float64", "int", "float")
    for labels in itertools.product(few, repeat=3):
        operands = tuple(OTHERS[label] for label in labels)
        if name == "clamp" and len({isinstance(x, np.ndarray) for x in operands[1:]}) > 1:
            continue  # a tensor without axes beside a number is a number to PyTorch, one with axes refused
        if any(isinstance(x, np.ndarray) and x.dtype.kind in "ib" for x in operands):
            _compare(name, getattr(retrograd, name), getattr(torch, name), operands, f"{name} of {labels}")


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    for label, x in INPUTS.items():
        _compare(name, getattr(ours, name), getattr(peer, name), (x,), f"{name} of {label}")


A, B, V = NUMBERS[..., 0], NUMBERS[..., 1].T, NUMBERS[0, :, 0]
IMAGE = np.random.default_rng(6).integers(-9, 10, (2, 4, 7, 6))
KERNEL = np.random.default_rng(7).integers(-9, 10, (6, 2, 3, 2))
SIGNS, SQUARE = np.where(A > 0, 1, -1), np.random.default_rng(8).integers(-9, 10, (4, 4))
Call = Callable[[Any, Any], Any]
HALF: Any = {"float": A.astype(np.float32) + 0.5, "double": A + 0.25}

# of (library, its functional), applied to the arrays
CALLS: dict[str, tuple[Call, tuple[Any, ...]]] = {
    "addmm": (lambda lib, f: lambda x, a, b: lib.addmm(x, a, b, beta=2, alpha=-3.7), (SQUARE, A, B)),
    "addmv": (lambda lib, f: lib.addmv, (A[:, 0], A, V)),
    "addbmm": (lambda lib, f: lib.addbmm, (SQUARE, np.stack([A, A + 1]), np.stack([B, B - 1]))),
    "baddbmm": (
        lambda lib, f: lambda x, a, b: lib.baddbmm(x, a, b, beta=0),
        (SQUARE, np.stack([A, A]), np.stack([B, B])),
    ),
    "addr": (lambda lib, f: lambda x, a, b: lib.addr(x, a, b, beta=2, alpha=3), (SQUARE[:, :3], A[:, 0], V)),
    "addr, mixed": (
        lambda lib, f: lambda x, a, b: lib.addr(x, a, b, alpha=0.5),
        (SQUARE[:, :3], HALF["float"][:, 0], V),
    ),
    "addr, bool": (lambda lib, f: lambda x, a, b: lib.addr(x, a, b, alpha=2), (SQUARE[:, :3] > 5, A[:, 0] > 0, V > 0)),
    "add, alpha of bool": (lambda lib, f: lambda x, y: lib.add(x, y, alpha=2), (A > 0, A > 1)),
    "sub, alpha": (lambda lib, f: lambda x, y: lib.sub(x, y, alpha=-2), (A, A + 1)),
    "matmul": (lambda lib, f: lib.matmul, (np.stack([A, A]), B)),
    "mm": (lambda lib, f: lib.mm, (A, B)),
    "mv": (lambda lib, f: lib.mv, (A, V)),
    "dot": (lambda lib, f: lib.dot, (V, V)),
    "bmm": (lambda lib, f: lib.bmm, (np.stack([A, A]), np.stack([B, B]))),
    "inner": (lambda lib, f: lib.inner, (A, V)),
    "inner, 0-d": (lambda lib, f: lib.inner, (A, np.array(2.5, np.float32))),
    "outer": (lambda lib, f: lib.outer, (V > 0, V)),
    "ger": (lambda lib, f: lib.ger, (V, V.astype(np.float32))),
    "cross": (lambda lib, f: lambda x: lib.cross(x, x + 1, dim=1), (A,)),
    "tensordot": (lambda lib, f: lambda x, y: lib.tensordot(x, y, ([0, 1], [1, 0])), (A, B)),
    "einsum": (lambda lib, f: lambda x, y: lib.einsum("ij,jk,k->i", x, y, y[0]), (A, B)),
    "einsum, diagonal": (lambda lib, f: lambda x: lib.einsum("ii->i", x), (SQUARE,)),
    "einsum, bool": (lambda lib, f: lambda x, y: lib.einsum("i,j->ij", x, y), (V > 0, V > 1)),
    "einsum, mixed": (lambda lib, f: lambda x, y: lib.einsum("i,j->ij", x, y), (V, HALF["float"][0])),
    "linear": (lambda lib, f: f.linear, (A, SQUARE[:, :3], A[:, 0])),
    "bilinear": (lambda lib, f: f.bilinear, (A, A, np.stack([SQUARE[:3, :3]] * 2), V[:2])),
    "conv2d": (
        lambda lib, f: lambda x, w: f.conv2d(x, w, stride=(2, 1), padding=1, dilation=(1, 2), groups=2),
        (IMAGE, KERNEL),
    ),
    "conv2d of one": (lambda lib, f: f.conv2d, (IMAGE[0, :2], KERNEL, KERNEL[:, 0, 0, 0])),
    "conv1d": (lambda lib, f: lambda x, w: f.conv1d(x, w, padding="same"), (IMAGE[0, :, :2], KERNEL[..., 0])),
    "conv3d": (lambda lib, f: lambda x, w: f.conv3d(x, w, stride=2), (IMAGE[None], KERNEL[:2, :, None])),
    "conv_transpose1d": (
        lambda lib, f: lambda x, w: f.conv_transpose1d(x, w, stride=2),
        (IMAGE[0, :, :6], KERNEL[..., 0]),
    ),
    "conv_transpose2d": (
        lambda lib, f: lambda x, w: f.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1, groups=2),
        (IMAGE, KERNEL[:4]),
    ),
    "max_pool2d": (lambda lib, f: lambda x: f.max_pool2d(x, 3, 2, 1, 1, True), (IMAGE,)),
    "max_pool2d, indices": (lambda lib, f: lambda x: f.max_pool2d(x, 2, return_indices=True)[1], (IMAGE,)),
    "max_pool3d": (lambda lib, f: lambda x: f.max_pool3d(x, 2), (IMAGE,)),
    "avg_pool1d": (lambda lib, f: lambda x: f.avg_pool1d(x, 3, 2), (IMAGE[0],)),
    "avg_pool2d": (lambda lib, f: lambda x: f.avg_pool2d(x, 3, 2, 1), (IMAGE,)),
    "avg_pool2d, inside": (lambda lib, f: lambda x: f.avg_pool2d(x, 3, 2, 1, True, False), (IMAGE,)),
    "avg_pool2d, ceil": (lambda lib, f: lambda x: f.avg_pool2d(x, (2, 3), 2, 1, True), (IMAGE,)),
    "avg_pool2d, divisor": (lambda lib, f: lambda x: f.avg_pool2d(x, 2, divisor_override=-3), (IMAGE[0],)),
    "avg_pool3d": (lambda lib, f: lambda x: f.avg_pool3d(x, 2), (IMAGE,)),
    "lp_pool2d": (lambda lib, f: lambda x: f.lp_pool2d(x, 2, 2), (IMAGE,)),
    "lp_pool2d, inf": (lambda lib, f: lambda x: f.lp_pool2d(x, float("inf"), 2), (IMAGE,)),
    "unfold, bool": (lambda lib, f: lambda x: f.unfold(x, 2, padding=1), (IMAGE > 0,)),
    "fold, bool": (lambda lib, f: lambda x: f.fold(x, (3, 3), 2), (IMAGE[:, :, 0, :4] > 5,)),
    "local_response_norm": (lambda lib, f: lambda x: f.local_response_norm(x, 3, 0.5), (IMAGE,)),
    "threshold": (lambda lib, f: lambda x: f.threshold(x, -1.5, 2.7), (A,)),
    "hardtanh": (lambda lib, f: lambda x: f.hardtanh(x, -1.5, 2.7), (A,)),
    "logit": (lambda lib, f: lambda x: lib.logit(x, 0.25), (A,)),
    "logsumexp": (lambda lib, f: lambda x: lib.logsumexp(x, 0), (A,)),
    "softmin": (lambda lib, f: lambda x: f.softmin(x, 0, dtype=x.float().dtype), (A,)),
    "trapezoid": (lambda lib, f: lib.trapezoid, (A,)),
    "trapezoid, places": (lambda lib, f: lib.trapezoid, (A, SQUARE[:, :3])),
    "trapezoid, mixed": (lambda lib, f: lambda x, y: lib.trapezoid(x, y, dim=0), (A, HALF["float"])),
    "embedding": (lambda lib, f: f.embedding, (np.array([[0, 3], [1, 1]]), A)),
    "embedding, bool": (lambda lib, f: f.embedding, (np.array([[0, 3], [1, 1]]), A > 0)),
    "dropout2d, eval": (lambda lib, f: lambda x: f.dropout2d(x, 0.5, False), (IMAGE,)),
    "pairwise_distance": (lambda lib, f: f.pairwise_distance, (A + 2**40, A[::-1] + 2**40)),
    "pairwise_distance, mixed": (lambda lib, f: lambda x, y: f.pairwise_distance(x, y, 1.0), (A, HALF["double"])),
    "cosine_similarity, mixed": (lambda lib, f: f.cosine_similarity, (A > 0, HALF["float"])),
    "l1_loss": (lambda lib, f: lambda x, y: f.l1_loss(x, y, reduction="sum"), (A + 2**60, A[::-1])),
    "l1_loss, mixed": (lambda lib, f: f.l1_loss, (A, HALF["float"])),
    "mse_loss, mixed": (lambda lib, f: f.mse_loss, (HALF["float"], HALF["double"])),
    "mse_loss, integers": (lambda lib, f: f.mse_loss, (HALF["float"], A > 0)),
    "smooth_l1_loss": (lambda lib, f: f.smooth_l1_loss, (A, HALF["float"])),
    "huber_loss": (lambda lib, f: f.huber_loss, (HALF["float"], A)),
    "poisson_nll_loss": (lambda lib, f: lambda x, y: f.poisson_nll_loss(x, y, full=True), (A, abs(A))),
    "gaussian_nll_loss": (lambda lib, f: f.gaussian_nll_loss, (A, A + 1, np.abs(HALF["float"]) + 1)),
    "margin_ranking_loss": (lambda lib, f: f.margin_ranking_loss, (A + 2**40, A[::-1] + 2**40, SIGNS)),
    "triplet_margin_loss": (lambda lib, f: f.triplet_margin_loss, (A, A + 1, HALF["float"])),
    "cosine_embedding_loss": (lambda lib, f: f.cosine_embedding_loss, (A, A[::-1], SIGNS[:, 0])),
    "hinge_embedding_loss": (
        lambda lib, f: lambda x, y: f.hinge_embedding_loss(x, y, margin=2.5, reduction="none"),
        (A, SIGNS),
    ),
    "hinge_embedding_loss, bool": (lambda lib, f: f.hinge_embedding_loss, (HALF["float"], SIGNS > 0)),
    "soft_margin_loss, bool": (lambda lib, f: f.soft_margin_loss, (HALF["float"], SIGNS > 0)),
    "multilabel_soft_margin_loss": (lambda lib, f: f.multilabel_soft_margin_loss, (HALF["float"], np.abs(SIGNS))),
    "diff, mixed": (lambda lib, f: lambda x, y: lib.diff(x, prepend=y, append=x > 0), (A, HALF["double"])),
    "max": (lambda lib, f: lib.max, (A, A[::-1])),
    "min": (lambda lib, f: lambda x, y: x.min(y), (A, HALF["float"])),
    "max, other": (lambda lib, f: lambda x, y: lib.max(x, other=y), (A > 0, np.array(2))),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str) -> None:
    call, arrays = CALLS[name]
    before = [x.copy() for x in arrays]
    strided = [np.repeat(x, 2, -1)[..., ::2] if x.ndim else x for x in arrays]
    wanted = call(torch, peer)(*[torch.tensor(x.copy()) for x in arrays])
    for given in (arrays, strided):
        assert_close(call(retrograd, ours)(*[retrograd.from_numpy(x) for x in given]), wanted, name, 2e-6)
    for x, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(x, copy)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_losses_of_every_type(name: str, reduction: str) -> None:
    few = [np.asarray(A, kind) for kind in ("int64", "bool", "float32", "float64")]
    mine, theirs = (partial(getattr(library, name), reduction=reduction) for library in (ours, peer))
    computed = 0
    for x, y in itertools.product(few, [y[::-1] for y in few]):
        computed += _compare(name, mine, theirs, (x, y), f"{name} of {x.dtype} and {y.dtype}")
    assert computed >= 8


def test_larger_and_smaller_of_two_have_gradients() -> None:
    from peers.compare import assert_agree, distinct

    x, y = distinct(3, 4), distinct(4, seed=1)
    for name in ("max", "min"):
        assert_agree(getattr(retrograd, name), getattr(torch, name), x, y)
        assert_agree(lambda a, b, n=name: getattr(a, n)(other=b), lambda a, b, n=name: getattr(a, n)(other=b), x, x)
