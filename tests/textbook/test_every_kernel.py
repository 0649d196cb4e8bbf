"""Properties that all textbook kernels share: dtype, fresh results, strides, no warnings, empty batches."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from formula_arguments import KERNELS, arguments
from kernels.test_specifications import CASES, WITHOUT_SPECIFICATION
from retrograd.formulas import form
from retrograd.kernels import textbook
from retrograd.kernels.interface.indexing import Indexing
from retrograd.kernels.interface.linear_algebra import LinearAlgebra
from retrograd.specs.geometry import AdaptiveWindow, conv_window, pool_window

CONV, POOL = conv_window((5, 4), 3, stride=(2, 1), padding=1, groups=2), pool_window((5, 4), 2, 1, 1)
ADAPTIVE = AdaptiveWindow((5, 4), (2, 3))
LABELS, INDICES = np.array([2, 0, 1]), np.random.default_rng(1).integers(0, 20, (3, 4, *POOL.output))

TARGETS = np.array([[2, 0, -1, 1], [-1, 0, 0, 0], [3, 2, 1, 0]])
LENGTHS = np.array([3, 1, 2])
CTC = np.array([[1, 2], [3, 3], [1, 0]]), np.array([5, 4, 3]), np.array([2, 2, 1])

COUNTS = np.array([[6, 4, 9], [2, 8, 3]])


def integers_and_truth(x: np.ndarray, a: Callable[..., np.ndarray]) -> dict[str, tuple[Any, ...]]:
    """Arguments for kernels that take or return integers and booleans, and for related kernels of floats."""
    lists = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "gcd", "lcm")
    return {
        **dict.fromkeys((*lists, "integer_powers"), (COUNTS, COUNTS[:1] - 2)),
        "bitwise_not": (COUNTS,),
        **dict.fromkeys(("integer_sum", "integer_prod"), (COUNTS, (1,), False, np.int64)),
        **dict.fromkeys(("integer_amax", "integer_amin"), (COUNTS, (1,), True)),
        **dict.fromkeys(("integer_cumsum", "integer_cumprod"), (COUNTS, 1)),
        "count_nonzero": (x, (0, 2), False, x.dtype),
        **dict.fromkeys(("all", "any"), (x, (0, 2), False)),
        **dict.fromkeys(("argmax", "argmin"), (x, 1, True)),
        "one_hot_argmax": (x, 1),
        "decisive": (x, (1, 3), True),
        "logcumsumexp": (x, 2),
        "cumulative_extreme": (x, 2, True),
        "shift": (x, 2, -1, 0.5),
        "differences": (a(5).astype(np.float64),),
        "difference_weights": (a(5).astype(np.float64), 2, x.dtype),
        **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), (x, a(5, 1))),
        **dict.fromkeys(("logical_not", "signbit", "at_zero", "unit_step", "frexp"), (x,)),
        "isclose": (x, a(5, 1), 1e-5, 1e-8, True),
        "clamp_masks": (x, a(5, 1), a(4)),
        "ldexp": (x, np.array([[2, -1, 0, 1]])),
        "nextafter": (x, a(5, 1)),
        "powers_of_number": (a(5), 2.0, x.dtype),
        "rearranged": (a(2, 3), ((2, 3), (3, 1), 0), ((3, 2), (1, 3), 0), True, None),
        "diagonal_fill": (a(2, 3), (2, 4, 4), 1, 1, 2),
        "triangle": (x, 1, True),
        "row_starts": (np.array([0, 0, 2]), 4),
        "flat_places": (COUNTS, (9, 10)),
        "nonzero_places": (x, 2),
        "coalesced_places": (COUNTS, np.array([5, 1, 5])),
        "line_sums": (COUNTS, np.array([1, 1]), 3),
        "repeated_indices": (COUNTS[0], 3),
    }


def calls(dtype: type) -> dict[str, tuple[Any, ...]]:
    """Arguments for every kernel but the optimizer steps."""
    random = np.random.default_rng(0)

    def a(*shape: int) -> np.ndarray:
        return random.uniform(0.5, 2, shape).astype(dtype)

    x, w, y, p, v = a(3, 4, 5, 4), a(6, 2, 3, 3), a(3, 6, *CONV.output), a(3, 4, *POOL.output), a(4)

    def drawn(name: str, place: int) -> np.ndarray:
        first = form(KERNELS[name]).operands[0]
        return a(2, 1, 4) if place and first != "g" else a(3, 4)  # operands broadcast, a gradient has one shape

    query, key, value, g = a(3, 4, 3, 2), a(3, 2, 5, 2), a(3, 2, 5, 6), a(3, 4, 3, 6)
    return {
        "conv": (x, w, a(6), CONV),
        "conv_clamp": (x, w, a(6), y, 20.0, 60.0, CONV),
        "conv_max_pool": (x, w, a(6), 20.0, 60.0, CONV, pool_window(CONV.output, 2)),
        "conv_input_grad": (y, w, a(4), CONV),
        "conv_input_grad_clamp": (y, w, a(4), x, 20.0, 60.0, CONV),
        "conv_weight_grad": (x, y, CONV),
        "deform_conv": (x, a(3, 36, *CONV.output), a(3, 18, *CONV.output), w, a(6), CONV),
        "deform_conv_grad": (y, x, a(3, 36, *CONV.output), a(3, 18, *CONV.output), w, CONV, (True, True, True)),
        "deform_conv_weight_grad": (x, a(3, 36, *CONV.output), a(3, 18, *CONV.output), y, CONV),
        "matmul": (a(2, 1, 3, 4), a(3, 4, 5), a(5)),
        "matmul_clamp": (a(2, 1, 3, 4), a(3, 4, 5), a(5), a(2, 3, 3, 5), 5.0, 10.0),
        "duplicate": (x,),
        "reshaped": (x, (x.size,)),
        **{name: (a(3, 4),) for name in ("bessel_gap", "entr", "hazard", "hazard_excess", "log_gamma", "log_ndtr")},
        **{name: (a(3, 4),) for name in ("i0", "i0e", "i1", "i1e")},
        **{name: (a(3, 4) / 4,) for name in ("erfinv", "ndtri")},
        "polygamma": (a(3, 4), 2),
        "igamma": (a(3, 4), a(3, 4), True),
        "gamma_density": (a(3, 4), a(3, 4)),
        "zeta": (a(3, 4) + 1, a(3, 4)),
        **{name: arguments(name, partial(drawn, name)) for name in KERNELS},
        "glu": (a(3, 4), 1),
        "glu_grad": (a(3, 2), a(3, 4), 1),
        "dropout": (x, 0.4, 1, 2),
        "dropout_grad": (x, x > 1, 0.4),
        "lines": (x, np.array([4, 0, 4]), 2),
        "csr_product": (x, 2, np.array([0, 2, 2, 3]), np.array([4, 0, 1]), a(3)),
        "csr_product_pair": (
            *(x, 2, (np.array([0, 2, 2, 3]), np.array([4, 0, 1]), a(3))),
            (np.array([0, 1, 3]), np.array([3, 0, 1]), a(3)),
        ),
        **dict.fromkeys(("sum", "mean", "prod", "amax", "amin"), (x, (0, 2), False)),
        "norm": (x, 2, (0, 2), False),
        **dict.fromkeys(("max", "min"), (x, 2)),
        **dict.fromkeys(("moments", "logsumexp"), (x, (1, 3))),
        "moments_grad": (a(3, 1, 5, 1), x, a(3, 1, 5, 1)),
        "logsumexp_grad": (a(3, 1, 5, 1), x, a(3, 1, 5, 1)),
        "ties": (a(3, 1, 5, 1), x, a(3, 1, 5, 1)),
        "spread": (a(3, 1, 5, 1), (3, 4, 5, 2)),
        "signed": (a(3, 1, 5, 1), x),
        "pick": (x, np.broadcast_to(LABELS[:, None, None, None], (3, 1, 5, 4)), 1),
        "place": (a(3, 1, 5, 4), np.broadcast_to(LABELS[:, None, None, None], (3, 1, 5, 4)), 1, 7, (0, 1, 2, 3)),
        "topk": (x, 2, 3, True),
        "kth": (x, 2, 2),
        "cumsum": (x, 2, True),
        "cumprod": (x, 1),
        "linear_scan": (x, a(3, 4, 5, 4), 2, False),
        **integers_and_truth(x, a),
        "layer_norm": (x, a(5, 4), a(5, 4), 1e-5, True),
        "layer_norm_grad": (x, a(3, 4, 5, 4), a(5, 4), a(3, 4), a(3, 4), True, True),
        "group_norm": (x, 2, v, a(4), 1e-5),
        "group_norm_grad": (x, a(3, 4, 5, 4), 2, v, a(3, 2), a(3, 2)),
        "max_pool": (x, POOL),
        "max_pool_values": (x, POOL),
        "max_pool_grad": (p, INDICES, POOL),
        "max_pool_gather": (x, INDICES),
        "max_unpool": (p, INDICES, (5, 4)),
        "avg_pool": (x, POOL, False),
        "avg_pool_grad": (p, POOL, False),
        "adaptive_max_pool": (x, ADAPTIVE),
        "adaptive_avg_pool": (x, ADAPTIVE),
        "adaptive_avg_pool_grad": (a(3, 4, 2, 3), ADAPTIVE),
        "batch_norm": (x, v, a(4), 1e-5),
        "batch_norm_grad": (a(3, 4, 5, 4), x, v, a(4), a(4)),
        "batch_norm_clamp": (x, a(3, 4, 5, 4), v, a(4), 1e-5, 0.0, 6.0),
        "batch_norm_clamp_grad": (a(3, 4, 5, 4), x, v, a(4), a(4), a(2, 4), 0.0, 6.0),
        "batch_norm_sums": (a(3, 4, 5, 4), x, v, a(4)),
        "batch_norm_input_grad": (a(3, 4, 5, 4), x, v, a(4), a(4), a(4)),
        "channel_affine": (x, v, a(4)),
        "channel_affine_clamp": (x, a(3, 4, 5, 4), v, a(4), 0.0, 6.0),
        "softmax": (x, 1),
        "log_softmax": (x, 1),
        "softmax_grad": (a(3, 4), a(3, 4), 1),
        "log_softmax_grad": (a(3, 4), a(3, 4), 1),
        "attention": (query, key, value, None, 0.5, True),
        "attention_grad": (g, query, key, value, g, a(3, 4, 3), None, 0.5, True, (True, True, True)),
        "row_products": (a(3, 4), a(3, 4)),
        "row_squares": (a(3, 4), a(3, 4), 0.1),
        "row_combination": (a(3), a(3, 4), a(3), a(3, 4), a(3)),
        "element_loss": ("gaussian", (a(3, 4), a(3, 4), a(3, 4)), (), None),
        "element_loss_grad": ("huber", 0, a(3, 4), (a(3, 4), a(3, 4)), (0.5,), None),
        "multi_margin_loss": (a(3, 4), LABELS, 2, 0.5),
        "multi_margin_loss_slopes": (a(3, 4), LABELS, 0.5),
        "multilabel_margin_loss": (a(3, 4), TARGETS),
        "multilabel_margin_loss_slopes": (a(3, 4), TARGETS),
        "ctc_loss": (-a(5, 3, 4), *CTC, 0),
        "ctc_loss_grad": (a(3), -a(5, 3, 4), *CTC, 0, a(3), -a(3, 5, 5), False),
        "cross_entropy": (a(3, 4), LABELS, 0.1),
        "cross_entropy_grad": (a(3), a(3, 4), LABELS, 0.1, a(3), a(3)),
        "nll_loss": (a(3, 4), LABELS),
        "nll_loss_grad": (a(3), a(3, 4), LABELS),
        **parts(a, dtype),
    }


def parts(a: Callable[..., np.ndarray], dtype: type) -> dict[str, tuple[Any, ...]]:
    """Arguments for the kernels of grids, windows, labels, lengths and random choices."""
    return {
        "deform_points": (a(3, 2, 9, CONV.output[0] * CONV.output[1]), CONV, 0),
        "fixed_scale": (a(4), a(4), a(4), a(4), 1e-5),
        "instance_statistics": (a(3, 4), a(3, 4), 1e-5),
        "channel_band": (a(3, 4, 5), 2, 0.5),
        "window_counts": (POOL, POOL.padding),
        "window_factors": (POOL, POOL.padding, dtype),
        "nearest_indices": (4, 7, 4 / 7, True),
        "affine_points": (a(3, 2, 3), (3, 4), False),
        "fold_points": (a(3, 4) * 5, 5, "reflection", False),
        "neighbor_indices": (a(3, 4) * 5, 1, 5, "border", True),
        "grid_corner": ((LABELS[:, None], LENGTHS[:, None]), (3, 3)),
        "steps_after": (LENGTHS, 5),
        "lengths_within": (LENGTHS, 1, 3),
        "inverse_lengths": (LENGTHS, dtype),
        "pad_rows": (np.arange(6), LENGTHS, 4),
        "row_labels_outside": (TARGETS, LENGTHS, 3),
        "labels_count": (LABELS, 2, 0),
        "labels_outside": (LABELS, 2, 0),
        "label_weights": (LABELS, a(3), 0, 3, 0.5, dtype),
        "label_goals": (LABELS, 3, 0.1, dtype),
        "zero_infinite": (a(3),),
        "multi_margin_masks": (a(3, 4) - 1, LABELS),
        "cosine_embedding_slopes": (a(3), a(3), 0.5, dtype),
        "choose": (a(3, 4) > 1, 1, 0, dtype),
        "clamp_parts": (a(3, 4), 1),
        "shortfall": (a(3, 4), 1),
        "scaled_noise": (a(3, 4), a(4), a(3, 1), dtype),
        "bernoulli": (a(3, 4), a(4), dtype),
        "count_positive": (a(3, 4) - 1,),
        "multinomial_repeated": (a(3, 4), a(3, 2) / 4),
        "multinomial_distinct": (a(3, 4), a(3, 4), 2),
    }


def run(name: str, arguments: tuple[Any, ...]) -> tuple[np.ndarray, ...]:
    results = getattr(textbook, name)(*arguments)
    return results if isinstance(results, tuple) else (results,)


def with_arrays(arguments: tuple[Any, ...], change: Callable[[np.ndarray], np.ndarray]) -> tuple[Any, ...]:
    """The arguments with every array replaced, also in tuples."""
    kinds = {np.ndarray: change, tuple: lambda value: with_arrays(value, change)}
    return tuple(kinds.get(type(value), lambda value: value)(value) for value in arguments)


def arrays_of(arguments: tuple[Any, ...]) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    with_arrays(arguments, lambda value: found.append(value) or value)  # type: ignore[func-returns-value]
    return found


def test_every_kernel_is_exported_and_covered_here() -> None:
    public = {name for name in vars(textbook) if inspect.isfunction(getattr(textbook, name))}
    # tests/kernels/test_optimizer.py, test_moves.py, test_normalization.py
    in_place = {"running_statistics", "update", "copy", "accumulate", "assign", "arithmetic", "fill"}
    nested = {"recurrent", "recurrent_grad"}  # test_recurrent.py
    codes = {"sign_bits", "quantize_codes", "lowbit_filters", "lowbit_conv"}  # tests/kernels/test_lowbit.py
    exported = set(textbook.__all__) - {"formula_kernel"}  # test_user_formula.py
    moves = {"cast", "concatenate", "pad_slice"}  # tests/kernels/test_interface.py
    indexing = {*vars(Indexing)} & exported - {*calls(np.float64)}  # test_indexing.py
    moves |= vars(LinearAlgebra).keys() & exported  # tests/kernels/test_linear_algebra.py
    sizes = {"fractional_max_pool_indices", "interpolation_matrix"}  # test_resampling.py
    by_size = {"diagonal_places", "progression", "triangle_indices", "window_function"}  # no array is given
    training = {*WITHOUT_SPECIFICATION, *[name for name, _ in CASES]}  # tests/kernels/test_specifications.py
    elsewhere = {*training, *in_place, *nested, *codes, *moves, *indexing, *sizes, *by_size}
    elsewhere |= {"norm_of_all", "first_equal"}
    assert public == exported == {*calls(np.float64), *elsewhere}


@pytest.mark.parametrize("name", calls(np.float64))
class TestEveryKernel:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_keeps_the_dtype(self, name: str, dtype: type) -> None:
        for result in run(name, calls(dtype)[name]):
            assert type(result) is np.ndarray
            integers = np.int32 if name == "frexp" else np.int64
            wanted = np.float64 if name == "differences" else dtype
            assert result.dtype == ({"i": integers, "b": np.bool_}.get(result.dtype.kind, wanted))

    def test_leaves_inputs_alone_and_returns_fresh_arrays(self, name: str) -> None:
        arguments = calls(np.float64)[name]
        before = with_arrays(arguments, np.copy)
        results = run(name, arguments)
        for value, copy in zip(arrays_of(arguments), arrays_of(before), strict=True):
            assert_array_equal(value, copy)
            assert not any(np.shares_memory(value, result) for result in results)

    def test_takes_any_strides(self, name: str) -> None:
        def channels_last(value: np.ndarray) -> np.ndarray:
            wide = np.repeat(np.moveaxis(value, 0, -1), 2, axis=0)  # same values, twice as far apart
            return np.moveaxis(wide, -1, 0)[(slice(None),) * min(1, value.ndim - 1) + (slice(None, None, 2),)]

        arguments = calls(np.float64)[name]
        strided = with_arrays(arguments, channels_last)
        for value, other in zip(run(name, arguments), run(name, strided), strict=True):
            assert_allclose(other, value, rtol=1e-12, atol=1e-14)

    def test_makes_no_warning_of_inf_and_nan(self, name: str) -> None:
        def spoiled(value: np.ndarray) -> np.ndarray:
            bad = np.array([np.inf, np.nan, -np.inf, 0], np.float32)
            return np.resize(bad, value.shape) if value.dtype.kind == "f" else value

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run(name, with_arrays(calls(np.float32)[name], spoiled))


@pytest.mark.parametrize(
    "name",
    KERNELS,
)
def test_result_without_axes_is_an_array(name: str) -> None:
    arguments = with_arrays(calls(np.float32)[name], lambda value: np.array(1, value.dtype))
    for result in run(name, arguments):
        assert type(result) is np.ndarray and result.shape == () and result.dtype in (np.float32, np.bool_)


# Kernels whose result has the batch in front, by how many of their arguments have it.
BATCHED = {
    1: [
        *("layer_norm", "group_norm", "conv", "conv_input_grad", "max_pool", "max_pool_values", "avg_pool"),
        "avg_pool_grad",
        *("softmax", "log_softmax"),
        *("adaptive_max_pool", "adaptive_avg_pool", "adaptive_avg_pool_grad"),
    ],
    2: [
        *("max_unpool", "max_pool_grad", "max_pool_gather"),
        *("softmax_grad", "log_softmax_grad", "cross_entropy", "nll_loss"),
        *("multi_margin_loss_slopes", "multilabel_margin_loss_slopes"),
    ],
    3: ["nll_loss_grad", "attention", "deform_conv"],
    4: ["deform_conv_grad"],
    6: ["attention_grad"],
}


@pytest.mark.parametrize(("batched", "name"), [(n, name) for n, names in BATCHED.items() for name in names])
def test_empty_batch(batched: int, name: str) -> None:
    arguments = calls(np.float32)[name]
    empty = (*(value[:0] for value in arguments[:batched]), *arguments[batched:])
    pairs = list(zip(run(name, empty), run(name, arguments), strict=True))
    for result, full in pairs[:-1] if name in ("cross_entropy", "nll_loss") else pairs:  # their last one is of sums
        assert result.shape == (0, *full.shape[1:]) and result.dtype == full.dtype
