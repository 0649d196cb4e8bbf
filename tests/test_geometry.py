"""Window geometry: sizes computed by hand, the formula compared with counting, and all error messages."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from itertools import product

import numpy as np
import pytest

from retrograd.specs.geometry import (
    AdaptiveWindow,
    Window,
    as_pairs,
    as_tuple,
    conv_transpose_window,
    conv_window,
    pool_window,
)

PADDINGS = list(product((0, 1, 2), repeat=2))


def outputs_by_counting(i: int, r: int, s: int, lo: int, hi: int, d: int) -> int:
    """Count the windows that fit by stepping over the padded input."""
    count, first = 0, 0
    while first + d * (r - 1) < lo + i + hi:
        count, first = count + 1, first + s
    return count


class TestConvWindow:
    def test_sizes_by_hand(self) -> None:
        window = conv_window((224, 224), (7, 7), (2, 2), ((3, 3), (3, 3)), (1, 1), 1)
        assert window == Window((224, 224), (7, 7), (112, 112), (2, 2), (1, 1), ((3, 3), (3, 3)), 1)
        assert (window.ndim, window.taps) == (2, 49)

    def test_one_number_stands_for_all_axes(self) -> None:
        assert conv_window((8, 9, 10), 3, 2, 1, 1) == conv_window(
            (8, 9, 10), (3, 3, 3), (2, 2, 2), ((1, 1), (1, 1), (1, 1)), (1, 1, 1), 1
        )

    def test_axes_are_independent(self) -> None:
        window = conv_window((5, 9), (2, 3), (1, 2), ((0, 1), (2, 0)), (3, 2), groups=4)
        assert window.output == (5 + 1 - 3, (9 + 2 - 4 - 1) // 2 + 1)
        assert window.groups == 4

    def test_output_formula_against_counting(self) -> None:
        tried = 0
        for i, (r, s, d), (lo, hi) in product(range(1, 7), product((1, 2, 3), repeat=3), PADDINGS):
            expected = outputs_by_counting(i, r, s, lo, hi, d)
            if expected:
                assert conv_window((i,), r, s, ((lo, hi),), d).output == (expected,), (i, r, s, lo, hi, d)
                tried += 1
            else:
                with pytest.raises(ValueError, match="no output on axis 0"):
                    conv_window((i,), r, s, ((lo, hi),), d)
        assert tried > 1000

    def test_same_arguments_same_object(self) -> None:
        arguments = (8,), (3,), (1,), ((1, 1),), (1,), 2
        assert conv_window(*arguments) is conv_window(*arguments)

    def test_is_frozen(self) -> None:
        with pytest.raises(FrozenInstanceError, match="cannot assign"):
            conv_window((8,), 3).groups = 2  # type: ignore[misc]

    def test_no_output_shows_the_formula(self) -> None:
        message = r"axis 1: O = \(I \+ lo .* = \(3 \+ 1 \+ 0 - 2\*\(3 - 1\) - 1\)//2 \+ 1 = 0 must"
        with pytest.raises(ValueError, match=message):
            conv_window((9, 3), 3, 2, ((1, 0), (1, 0)), 2)

    @pytest.mark.parametrize("name", ["input", "kernel", "stride", "dilation", "groups"])
    def test_sizes_below_one(self, name: str) -> None:
        sizes = {"input": (4, 4), "kernel": (2, 2), "stride": (1, 1), "dilation": (1, 1), "groups": 1}
        sizes[name] = 0 if name == "groups" else (1, 0)
        with pytest.raises(ValueError, match=rf"{name}=.*0.* must be at least 1"):
            conv_window(**sizes)

    def test_negative_padding(self) -> None:
        with pytest.raises(ValueError, match=r"padding=\(0, -1\) must be at least 0"):
            conv_window((4,), 2, 1, ((0, -1),))


class TestConvTransposeWindow:
    def test_sizes_by_hand(self) -> None:
        window = conv_transpose_window((28, 28), (4, 4), (2, 2), ((1, 1), (1, 1)), (0, 0), (1, 1), 2)
        assert window == Window((56, 56), (4, 4), (28, 28), (2, 2), (1, 1), ((1, 1), (1, 1)), 2)

    def test_output_padding_names_one_of_several_inputs(self) -> None:
        assert [conv_transpose_window((4,), 3, 3, 1, p).input for p in (0, 1, 2)] == [(10,), (11,), (12,)]

    def test_is_the_window_of_a_convolution(self) -> None:
        for o, r, s, lo, hi, d, p in product(
            range(1, 5), range(1, 4), range(1, 4), range(2), range(2), range(1, 3), range(3)
        ):
            if p < s and (o - 1) * s - lo - hi + d * (r - 1) + p + 1 > 0:
                window = conv_transpose_window((o,), r, s, ((lo, hi),), p, d)
                assert window == conv_window(window.input, r, s, ((lo, hi),), d)

    def test_no_output_shows_the_formula(self) -> None:
        message = r"axis 0: \(size .* = \(2 - 1\)\*1 - 2 - 2 \+ 1\*\(3 - 1\) \+ 0 \+ 1 = 0 must be at least 1"
        with pytest.raises(ValueError, match=message):
            conv_transpose_window((2,), 3, 1, 2)

    def test_output_padding_too_large(self) -> None:
        message = r"output_padding=2 on axis 1 must be less than max\(stride, dilation\) = max\(2, 1\)"
        with pytest.raises(ValueError, match=message):
            conv_transpose_window((4, 4), 3, 2, 1, (1, 2))

    def test_output_padding_below_dilation(self) -> None:
        assert conv_transpose_window((4,), 3, 1, 0, 1, 2).input == (9,)

    def test_negative_output_padding(self) -> None:
        with pytest.raises(ValueError, match=r"output_padding=-1 must be at least 0"):
            conv_transpose_window((4,), 3, 2, 1, -1)

    def test_empty_argument(self) -> None:
        with pytest.raises(ValueError, match=r"size=\(0,\) must be at least 1"):
            conv_transpose_window((0,), 3)


class TestPoolWindow:
    def test_sizes_by_hand(self) -> None:
        window = pool_window((112, 112), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1))
        assert window == Window((112, 112), (3, 3), (56, 56), (2, 2), (1, 1), ((1, 1), (1, 1)))

    def test_windows_stand_side_by_side_without_stride(self) -> None:
        assert pool_window((9, 8), (3, 2)).stride == (3, 2)

    def test_padding_over_half_of_the_kernel(self) -> None:
        message = r"padding=\(0, 2\) on axis 1 .* half of the kernel.* .* = \(1\*\(3 - 1\) \+ 1\)//2 = 1;"
        with pytest.raises(ValueError, match=message):
            pool_window((8, 8), 3, 1, ((1, 1), (0, 2)))

    def test_dilation_counts_for_the_half(self) -> None:
        assert pool_window((8,), 3, 1, 2, 2).output == (8,)

    def test_dilated_window_in_the_padding_alone(self) -> None:
        message = r"output 0 on axis 0 reads padding only: its taps are at -2, ..., 1 in steps of 3"
        with pytest.raises(ValueError, match=message):
            pool_window((1,), 2, 1, 2, 3)

    def test_every_output_reads_the_input_or_is_refused(self) -> None:
        accepted = refused = 0
        for i, (r, s, d), (lo, hi) in product(range(1, 6), product((1, 2, 3), repeat=3), PADDINGS):
            if max(lo, hi) > (d * (r - 1) + 1) // 2 or not outputs_by_counting(i, r, s, lo, hi, d):
                continue
            outputs = range(outputs_by_counting(i, r, s, lo, hi, d))
            if all(any(0 <= o * s + tap * d - lo < i for tap in range(r)) for o in outputs):
                assert pool_window((i,), r, s, ((lo, hi),), d).output == (len(outputs),)
                accepted += 1
            else:
                with pytest.raises(ValueError, match="reads padding only"):
                    pool_window((i,), r, s, ((lo, hi),), d)
                refused += 1
        assert accepted > 300 and refused > 10

    def test_large_input_is_quick(self) -> None:
        assert pool_window((10**9,), 3, 1, 1).output == (10**9,)


class TestAsTuple:
    def test_repeats_one_number(self) -> None:
        assert as_tuple(3, 2, "kernel") == (3, 3)

    def test_takes_sequences_and_numpy_integers(self) -> None:
        result = as_tuple([np.int64(3), 4], 2, "kernel")
        assert result == (3, 4) and [type(n) for n in result] == [int, int]

    def test_wrong_length(self) -> None:
        with pytest.raises(ValueError, match=r"kernel=\(1, 2, 3\) has 3 entries, needs one int or 2 of them"):
            as_tuple((1, 2, 3), 2, "kernel")

    @pytest.mark.parametrize("value", [1.0, True, None, "3", (1, 2.5), (1, False)])
    def test_no_integers(self, value: object) -> None:
        with pytest.raises(TypeError, match=r"kernel=.* must be an int, or ints in a tuple"):
            as_tuple(value, 2, "kernel")  # type: ignore[arg-type]

    def test_too_small(self) -> None:
        with pytest.raises(ValueError, match=r"kernel=\(1, 0\) must be at least 1"):
            as_tuple((1, 0), 2, "kernel", at_least=1)
        assert as_tuple((1, 0), 2, "kernel") == (1, 0)


class TestAsPairs:
    def test_one_number(self) -> None:
        assert as_pairs(2, 3) == ((2, 2), (2, 2), (2, 2))

    def test_one_number_per_axis(self) -> None:
        assert as_pairs((1, 2), 2) == ((1, 1), (2, 2))

    def test_one_pair_per_axis(self) -> None:
        assert as_pairs([[1, 2], (0, 3)], 2) == ((1, 2), (0, 3))

    def test_numbers_and_pairs(self) -> None:
        assert as_pairs((1, (0, 3)), 2) == ((1, 1), (0, 3))

    def test_wrong_length(self) -> None:
        with pytest.raises(ValueError, match=r"padding=\(1, 2\) has 2 entries, needs one int, or 1 entries"):
            as_pairs((1, 2), 1)

    def test_pair_of_three(self) -> None:
        with pytest.raises(ValueError, match=r"padding=\(1, 2, 3\) has 3 entries"):
            as_pairs(((1, 2, 3),), 1)

    def test_negative(self) -> None:
        with pytest.raises(ValueError, match=r"padding=-1 must be at least 0"):
            as_pairs(-1, 2)

    @pytest.mark.parametrize("padding", ["same", 1.0, ((1, 0.5),)])
    def test_no_integers(self, padding: object) -> None:
        with pytest.raises(TypeError, match=r"padding=.* must be an int, or ints in a tuple"):
            as_pairs(padding, 1)  # type: ignore[arg-type]


class TestLargeNumbers:
    """Run time must not grow with the size of a number that the caller passes."""

    def test_largest_adaptive_window_against_counting(self) -> None:
        for i, o in product(range(1, 25), range(1, 40)):
            counted = max(-(-(at + 1) * i // o) - at * i // o for at in range(o))
            assert AdaptiveWindow((i,), (o,)).kernel == (counted,), (i, o)
        assert AdaptiveWindow((3, 10**12), (10**12, 7)).kernel == (2, 10**12 // 7 + 1)

    def test_a_kernel_far_larger_than_the_input(self) -> None:
        huge = 10**11
        assert pool_window((3,), (huge,), (1,), ((huge // 2, huge // 2),)).output == (4,)
        with pytest.raises(ValueError, match="output 0 on axis 0 reads padding only"):
            pool_window((1,), (huge,), (1,), ((7 * huge // 2 - 3,) * 2,), (7,))

    def test_windows_that_read_padding_only_against_counting(self) -> None:
        for i, r, s, d, pad in product((1, 2, 5), (1, 2, 3), (1, 2), (1, 2, 3), (0, 1, 2, 3)):
            extent = d * (r - 1) + 1
            if pad > extent // 2 or i + 2 * pad < extent:
                continue
            outputs = (i + 2 * pad - extent) // s + 1
            reads = [any(0 <= o * s + tap * d - pad < i for tap in range(r)) for o in range(outputs)]
            if all(reads):
                assert pool_window((i,), (r,), (s,), ((pad, pad),), (d,)).output == (outputs,)
            else:
                with pytest.raises(ValueError, match=f"output {reads.index(False)} on axis 0 reads padding only"):
                    pool_window((i,), (r,), (s,), ((pad, pad),), (d,))
