"""Convolution and transposed convolution in 1, 2 and 3 dimensions: values, gradients, second gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as peer

import retrograd
import retrograd.nn.functional as ours
from peers.compare import assert_agree, normal
from retrograd.specs.convolution_options import TEXTBOOK_ALGORITHMS
from strategies import Case, conv_case, evenly

# The geometries of tests/kernels/test_convolution_grid.py.
COUNT, EACH = 300, 10


def _compare(number: int, positions: int) -> None:
    """Geometry ``number``: convolution, or as often the transposed convolution of which it is the gradient."""
    case = conv_case(evenly(number)[0], positions)
    dtype = np.float32 if number % 5 == 0 else np.float64
    # the textbook set, by one of its algorithms
    algorithm = ("auto", *TEXTBOOK_ALGORITHMS)[number // 2 % 5] if retrograd.active_kernels() == "textbook" else "auto"
    transposed, second = number % 2 == 1, dtype == np.float64 and case.batch > 0
    call = _conv_transpose if transposed else _conv
    made = case.inputs if transposed else case.outputs
    arrays = [normal(*(case.y if transposed else case.x), dtype=dtype), normal(*case.w, seed=1, dtype=dtype)]
    arrays += [normal(made, seed=2, dtype=dtype)] * case.bias
    try:
        assert_agree(*call(case, algorithm), *arrays, second=second)
    except BaseException as error:
        error.add_note(f"geometry {number}: {case}, transposed: {transposed}, algorithm: {algorithm}")
        raise


def _conv(case: Case, algorithm: str) -> tuple[Any, Any]:
    """The function here, and the one there, where one padding has to do for both sides."""
    window, name = case.window, f"conv{case.window.ndim}d"
    around = [side for pair in reversed(window.padding) for side in pair]

    def ours_of(x: Any, w: Any, b: Any = None) -> Any:
        options = window.stride, window.padding, window.dilation, window.groups
        return getattr(ours, name)(x, w, b, *options, algorithm=algorithm)

    def theirs_of(x: Any, w: Any, b: Any = None) -> Any:
        return getattr(peer, name)(peer.pad(x, around), w, b, window.stride, 0, window.dilation, window.groups)

    return ours_of, theirs_of


def _conv_transpose(case: Case, algorithm: str) -> tuple[Any, Any]:
    """The same; there, padding is cut off a result with none."""
    window, name = case.window, f"conv_transpose{case.window.ndim}d"
    whole = [
        (o - 1) * s + d * (r - 1) + 1
        for o, s, d, r in zip(window.output, window.stride, window.dilation, window.kernel, strict=True)
    ]
    padded = [i + lo + hi for i, (lo, hi) in zip(window.input, window.padding, strict=True)]
    extra = tuple(wanted - there for wanted, there in zip(padded, whole, strict=True))
    inside = (..., *(slice(lo, lo + i) for i, (lo, _) in zip(window.input, window.padding, strict=True)))

    def ours_of(x: Any, w: Any, b: Any = None) -> Any:
        options = window.stride, window.padding, extra, window.groups, window.dilation
        return getattr(ours, name)(x, w, b, *options, algorithm=algorithm)

    def theirs_of(x: Any, w: Any, b: Any = None) -> Any:
        return getattr(peer, name)(x, w, b, window.stride, 0, extra, window.groups, window.dilation)[inside]

    return ours_of, theirs_of


@pytest.mark.parametrize("part", range(COUNT // EACH))
def test_geometries(part: int) -> None:
    for number in range(EACH * part, EACH * part + EACH):
        _compare(number, 100)


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(50))
def test_geometries_nightly(part: int) -> None:
    for number in range(1000 + 100 * part, 1100 + 100 * part):
        _compare(number, 300)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")  # PyTorch's, of itself
@pytest.mark.parametrize("kernel", [(1, 2), (3, 4), (2, 5)], ids=str)
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_named_padding(kernel: tuple[int, int], padding: str) -> None:
    arrays = normal(2, 3, 7, 6), normal(4, 3, *kernel, seed=1)
    assert_agree(
        lambda x, w: ours.conv2d(x, w, padding=padding), lambda x, w: peer.conv2d(x, w, padding=padding), *arrays
    )


def test_asymmetric_padding_is_padding_before() -> None:
    arrays = normal(2, 3, 7, 6), normal(4, 3, 3, 2, seed=1)

    def padded(x: Any, w: Any) -> Any:
        return peer.conv2d(peer.pad(x, (3, 0, 1, 2)), w, stride=2)

    assert_agree(lambda x, w: ours.conv2d(x, w, stride=2, padding=((1, 2), (3, 0))), padded, *arrays)


def test_without_batch_axis() -> None:
    assert_agree(ours.conv2d, peer.conv2d, normal(3, 7, 6), normal(4, 3, 3, 2, seed=1), normal(4, seed=2))


def test_empty_batch() -> None:
    assert_agree(
        ours.conv2d, peer.conv2d, normal(0, 3, 7, 6), normal(4, 3, 3, 2, seed=1), normal(4, seed=2), second=False
    )


@pytest.mark.parametrize("channels", [(16, 16), (64, 64), (3, 40), (33, 17)], ids=str)
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_channels_of_real_networks(channels: tuple[int, int], kernel: int) -> None:
    ci, co = channels
    arrays = normal(2, ci, 13, 15, dtype=np.float32), normal(co, ci, kernel, kernel, seed=1, dtype=np.float32)
    assert_agree(
        lambda x, w: ours.conv2d(x, w, padding=kernel // 2),
        lambda x, w: peer.conv2d(x, w, padding=kernel // 2),
        *arrays,
    )


def test_depthwise_of_real_networks() -> None:
    arrays = normal(2, 40, 13, 15, dtype=np.float32), normal(40, 1, 3, 3, seed=1, dtype=np.float32)
    assert_agree(
        lambda x, w: ours.conv2d(x, w, padding=1, groups=40),
        lambda x, w: peer.conv2d(x, w, padding=1, groups=40),
        *arrays,
    )


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_padding_modes_of_layers(ndim: int, mode: str) -> None:
    x, name = normal(2, 4, *(5, 6, 4)[:ndim]), f"Conv{ndim}d"
    for options in (
        {"padding": (2, 1, 1)[:ndim]},
        {"padding": 2, "stride": 2, "groups": 2},
        {"padding": "same", "dilation": 2},
    ):
        layer = getattr(retrograd.nn, name)(4, 6, 3, padding_mode=mode, dtype=np.float64, **options)
        other = getattr(torch.nn, name)(4, 6, 3, padding_mode=mode, dtype=torch.float64, **options)
        state = {key: torch.tensor(value.array) for key, value in layer.state_dict().items()}
        other.load_state_dict(state)
        assert_agree(layer, other, x)
        assert_agree(layer, other, x[0])


def test_output_size_of_layers() -> None:
    x = normal(2, 3, 4, 5)
    layer = retrograd.nn.ConvTranspose2d(3, 2, (3, 4), stride=(2, 3), padding=1, dilation=(1, 2), dtype=np.float64)
    other = torch.nn.ConvTranspose2d(3, 2, (3, 4), stride=(2, 3), padding=1, dilation=(1, 2), dtype=torch.float64)
    other.load_state_dict({key: torch.tensor(value.array) for key, value in layer.state_dict().items()})
    for size in ((7, 17), (8, 18), (7, 19), (2, 2, 8, 17)):
        assert_agree(lambda x, size=size: layer(x, size), lambda x, size=size: other(x, size), x)


# Ci, further arguments of both libraries, shape of the input
LAZY = [
    ("LazyLinear", (3,), {}, (4, 5)),
    ("LazyConv2d", (4, 3), {"groups": 2, "stride": 2}, (2, 6, 7, 5)),
    ("LazyConvTranspose1d", (4, 3), {"groups": 2}, (6, 7)),
    ("LazyBatchNorm2d", (), {}, (3, 4, 2, 2)),
    ("LazyInstanceNorm1d", (), {"affine": True}, (3, 4, 5)),
]


@pytest.mark.filterwarnings("ignore:Lazy modules are a new feature:UserWarning")
@pytest.mark.parametrize(("name", "given", "options", "shape"), LAZY, ids=[case[0] for case in LAZY])
def test_lazy_layers(name: str, given: tuple[Any, ...], options: dict[str, Any], shape: tuple[int, ...]) -> None:
    """Names, texts, state before and after; their state loads into ours, and ours into theirs."""
    x = normal(*shape, dtype=np.float32)
    layer, other = getattr(retrograd.nn, name)(*given, **options), getattr(torch.nn, name)(*given, **options)
    assert repr(layer) == repr(other)
    assert list(layer.state_dict()) == list(other.state_dict())
    for part in ("weight", "bias"):
        assert repr(getattr(layer, part)) == repr(getattr(other, part))
    other(torch.tensor(x))
    layer.load_state_dict({key: value.numpy() for key, value in other.state_dict().items()})
    assert_agree(layer, other, x, second=False)
    assert repr(layer) == repr(other)
    fresh = getattr(torch.nn, name)(*given, **options)
    fresh(torch.tensor(x))
    fresh.load_state_dict({key: torch.tensor(value.array) for key, value in layer.state_dict().items()})
    assert_agree(layer, fresh, x, second=False)
