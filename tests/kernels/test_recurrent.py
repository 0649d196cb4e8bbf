"""The compiled recurrent layers against the textbook's, which tests/ops compares with the definition."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from itertools import chain
from threading import Thread
from typing import Any

import numpy as np
import pytest

from retrograd import kernels
from retrograd.kernels import textbook
from retrograd.kernels.compiled.recurrent.plan import LAYER, lanes_of, recurrent_plan
from retrograd.specs.recurrence import Recurrence, Weights, recurrence
from strategies import DTYPES

BOTH = (False, True)
# mode, options, whether there are lengths, first states, cells
LAYERS: list[tuple[str, dict[str, Any], bool, bool, bool]] = [
    ("lstm", {}, False, True, False),
    ("lstm", {"bias": False, "reverse": (True,)}, True, True, True),
    ("lstm", {"reverse": BOTH}, False, False, True),
    ("lstm", {"reverse": BOTH, "clip": (-0.2, 0.3), "clip_nan": True}, True, True, False),
    ("lstm", {"projection": 1}, True, False, True),
    ("lstm", {"projection": 3, "reverse": BOTH, "peephole": True}, True, True, True),
    ("lstm", {"peephole": True, "clip": (-0.1, 0.3)}, False, True, True),
    ("lstm", {"coupled": True, "reverse": (True,)}, True, True, False),
    ("lstm", {"coupled": True, "peephole": True, "clip": (-0.4, 0.2), "projection": 2}, False, True, True),
    ("gru", {}, False, True, False),
    ("gru", {"bias": False, "reverse": (True,)}, False, False, False),
    ("gru", {"reverse": BOTH}, True, True, False),
    ("rnn_tanh", {"reverse": BOTH}, True, True, False),
    ("rnn_tanh", {"bias": False}, False, False, False),
    ("rnn_relu", {"reverse": (True,)}, True, True, False),
    ("rnn_relu", {}, False, True, False),
]
# steps, sequences, inputs, units: one row, few rows, rows and units that fill no tile, no register, no panel
SHAPES = [(1, 1, 1, 3), (5, 1, 7, 33), (4, 3, 16, 16), (3, 7, 5, 17), (2, 19, 33, 70)]
# cut into columns, into rows and chunks of steps, into rows
LARGE = [(3, 16, 40, 300), (30, 40, 20, 33), (3, 66, 10, 180)]


def layer(
    mode: str, options: dict[str, Any], shape: tuple[int, ...], dtype: type, lengths: bool, states: bool, cells: bool
) -> tuple[Recurrence, list[Any], list[Any]]:
    """The description, the arguments of the forward pass before ``what``, and random gradients."""
    T, N, inputs, H = shape
    what = recurrence("test", mode, inputs, H, **options)
    D, outputs, rows = what.directions, what.output, what.gates * H
    rng = np.random.default_rng([*shape, *mode.encode()])

    def draw(*extents: int, scale: float = 1.0) -> np.ndarray:
        return (rng.standard_normal(extents) * scale).astype(dtype)

    weights = [
        Weights(
            draw(rows, inputs, scale=inputs**-0.5),
            draw(rows, outputs, scale=outputs**-0.5),
            draw(rows) if what.bias else None,
            draw(rows) if what.bias else None,
            draw(outputs, H, scale=H**-0.5) if what.projection else None,
            draw(what.gates - 1, H) if what.peephole else None,
        )
        for _ in range(D)
    ]
    x = draw(T, N, inputs)
    ends = rng.integers(1, T + 1, N) if lengths else None
    if ends is not None:
        x[np.arange(T)[:, None] >= ends] = np.nan  # shows if it is read
    h0, c0 = draw(D, N, outputs) if states else None, draw(D, N, H) if states and what.cells else None
    gcn, gcells = draw(D, N, H) if what.cells else None, draw(T, N, D * H) if cells and what.cells else None
    return what, [x, h0, c0, weights, ends], [draw(T, N, D * outputs), draw(D, N, outputs), gcn, gcells]


def results(set_of_kernels: Any, what: Recurrence, given: list[Any], gradients: list[Any], cells: bool) -> list[Any]:
    """Outputs and all gradients, one after the other."""
    *out, saved = set_of_kernels.recurrent(*given, what, True, cells)
    *found, of_weights = set_of_kernels.recurrent_grad(*gradients, *given, what, saved, (True,) * 4)
    return [*out, *found, *(array for weights in of_weights for array in weights)]


def assert_equal(found: list[Any], expected: list[Any], dtype: type) -> None:
    tolerance = 3e-5 if dtype is np.float32 else 1e-12
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert one.dtype == dtype and one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * max(1.0, np.abs(other).max()))


@pytest.fixture
def threads() -> Iterator[None]:
    before = kernels.get_num_threads()
    yield
    kernels.set_num_threads(before)


@pytest.mark.pairwise
@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 8), (4, 2, 7, 12), (3, 5, 16, 24), (5, 19, 33, 20), (2, 40, 9, 56)], ids=str
)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("mode", "options", "lengths", "states", "cells"), LAYERS, ids=str)
def test_without_gradients_half_a_register_of_units_has_no_padding(
    mode: str, options: dict[str, Any], lengths: bool, states: bool, cells: bool, dtype: type, shape: tuple[int, ...]
) -> None:
    """The bits are those of the forward pass of training."""
    what, given, _ = layer(mode, options, shape, dtype, lengths, states, cells)
    *found, nothing = kernels.recurrent(*given, what, False, cells)
    assert nothing is None
    *saving, _ = kernels.recurrent(*given, what, True, cells)
    *expected, _ = textbook.recurrent(*given, what, False, cells)
    assert_equal(found, expected, dtype)
    for one, other in zip(found, saving, strict=True):
        np.testing.assert_array_equal(one, other)


def test_half_a_register_of_units_is_laid_out_without_padding() -> None:
    lanes = lanes_of("f")
    plans = [
        recurrent_plan(recurrence("test", "gru", 5, 3 * lanes // 2), 2, 3, "f", save=save) for save in (False, True)
    ]
    spacings = [int(plan.words[LAYER.spacing]) for plan in plans]
    assert spacings == ([lanes // 2, lanes] if lanes >= 8 else [lanes, lanes])


@pytest.mark.parametrize("needs", [(True, True, True, True), (True, False, False, False), (False, True, True, True)])
@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("lstm", {}),
        ("lstm", {"projection": 3, "reverse": BOTH, "peephole": True}),
        ("lstm", {"coupled": True, "clip": (-0.4, 0.2)}),
        ("gru", {"reverse": BOTH}),
        ("rnn_tanh", {"bias": False}),
    ],
    ids=str,
)
def test_small_layers_soon_run_without_python(
    mode: str, options: dict[str, Any], needs: tuple[bool, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launches are the same, and so are the bits, whatever the elements are."""
    what, given, gradients = layer(mode, options, (3, 2, 5, 7), np.float32, False, True, False)
    others = [None if array is None else -array for array in given[:3]] + given[3:]

    layer_of, gradients_of = kernels.recurrent.direct.run, kernels.recurrent_grad.direct.run

    def run(given: list[Any]) -> list[Any]:
        *plain, nothing = layer_of(*given, what, False, False)
        assert nothing is None
        *out, saved = layer_of(*given, what, True, False)
        *found, of_weights = gradients_of(*gradients, *given, what, saved, needs)
        assert [array is not None for array in found[:2]] + [of_weights is not None] == [*needs[:2], needs[3]]
        return [*plain, *out, *found, *chain(*(of_weights or ()))]

    first = run(others)
    for _ in range(6):
        run(given)
    module = import_module("retrograd.kernels.compiled.recurrent.recurrent")  # the package has a function of this name
    for name in ("recurrent", "recurrent_grad"):
        monkeypatch.setattr(module, name, None)
    for found, expected in zip(run(others), first, strict=True):
        assert (found is None) == (expected is None)
        if found is not None:
            np.testing.assert_array_equal(found, expected)


@pytest.mark.pairwise
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("mode", "options", "lengths", "states", "cells"), LAYERS, ids=str)
def test_against_the_textbook(
    mode: str, options: dict[str, Any], lengths: bool, states: bool, cells: bool, dtype: type, shape: tuple[int, ...]
) -> None:
    what, given, gradients = layer(mode, options, shape, dtype, lengths, states, cells)
    before = [None if array is None else array.copy() for array in given[:3]]
    found = results(kernels, what, given, gradients, cells)
    assert_equal(found, results(textbook, what, given, gradients, cells), dtype)
    for array, copy in zip(given, before, strict=False):
        np.testing.assert_array_equal(array, copy)
    y, *rest = kernels.recurrent(*given, what, False, cells)  # without what the backward pass needs, the same bits
    for one, other in zip([y, *rest[:3]], found, strict=False):
        np.testing.assert_array_equal(one, other)
    assert rest[3] is None


@pytest.mark.parametrize("shape", LARGE, ids=str)
@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh", "projection"])
def test_large_ones_in_pieces(mode: str, shape: tuple[int, ...]) -> None:
    options: dict[str, Any] = {"reverse": BOTH}
    if mode == "projection":
        options["projection"] = shape[3] - 20
    mode = "lstm" if mode == "projection" else mode
    what, given, gradients = layer(mode, options, shape, np.float64, True, True, False)
    assert_equal(
        results(kernels, what, given, gradients, False), results(textbook, what, given, gradients, False), np.float64
    )


@pytest.mark.parametrize(
    "order", ["falling", "rising", "one goes on", "all end at once", "some have ended", "all have"]
)
@pytest.mark.parametrize(
    ("mode", "options"),
    [("lstm", {"reverse": BOTH}), ("lstm", {"projection": 3, "reverse": (True,)}), ("gru", {}), ("rnn_relu", {})],
    ids=str,
)
def test_lengths_in_every_order(mode: str, options: dict[str, Any], order: str) -> None:
    """A step skips no sequences, its last ones, or all of them; 600 rows are more than one chunk."""
    for T, N, inputs, H in ((60, 27, 5, 17), (9, 13, 3, 40), (4, 1, 2, 3), (7, 2, 20, 5)):
        what, given, gradients = layer(mode, options, (T, N, inputs, H), np.float64, True, True, False)
        ends = given[4]
        ends.sort()
        if order == "falling":
            ends[:] = ends[::-1].copy()
        elif order == "one goes on":
            ends[:], ends[N // 2] = 1, T
        elif order == "all end at once":
            ends[:] = T // 2
        elif order == "some have ended":  # as in the pieces of a long sequence
            ends[N // 2 :] = 0
        elif order == "all have":
            ends[:] = 0
        given[0][...] = np.random.default_rng(T).standard_normal((T, N, inputs))
        given[0][np.arange(T)[:, None] >= ends] = np.nan  # shows if it is read
        assert_equal(
            results(kernels, what, given, gradients, False),
            results(textbook, what, given, gradients, False),
            np.float64,
        )


def test_some_are_cut_into_rows_and_some_into_columns() -> None:
    cuts = set()
    for T, N, inputs, H in LARGE:
        words = recurrent_plan(recurrence("test", "lstm", inputs, H), T, N, "d").words
        cuts.add((bool(words[LAYER.row_blocks] > 1), bool(words[LAYER.column_blocks] > 1)))
    assert cuts == {(True, False), (False, True)}


@pytest.mark.pairwise
@pytest.mark.parametrize("lengths", [False, True], ids=["all steps", "lengths"])
@pytest.mark.parametrize("options", [{}, {"projection": 150, "reverse": BOTH}], ids=str)
@pytest.mark.parametrize("shape", LARGE, ids=str)
def test_the_bits_do_not_depend_on_threads(
    options: dict[str, Any], shape: tuple[int, ...], lengths: bool, threads: None
) -> None:
    if options.get("projection", 0) > shape[3]:
        options = {**options, "projection": shape[3] - 1}
    what, given, gradients = layer("lstm", options, shape, np.float32, lengths, True, False)
    found = []
    for count in (1, 2, 2, 3):
        kernels.set_num_threads(count)
        found.append(results(kernels, what, given, gradients, False))
        without_gradients = kernels.recurrent(*given, what, False, False)[:3]
        for one, two in zip(found[0], without_gradients, strict=False):
            np.testing.assert_array_equal(one, two)
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("lengths", [False, True], ids=["all steps", "lengths"])
@pytest.mark.parametrize(
    ("mode", "options", "shape"),
    [
        ("lstm", {}, (5, 4, 3, 131)),
        ("lstm", {"projection": 101, "reverse": BOTH}, (4, 3, 7, 150)),
        ("lstm", {"coupled": True, "peephole": True}, (4, 1, 5, 200)),
        ("gru", {"reverse": (True,)}, (4, 8, 17, 90)),
        ("rnn_tanh", {}, (6, 11, 2, 161)),
    ],
    ids=str,
)
def test_threads_share_the_columns_of_few_rows(
    mode: str, options: dict[str, Any], shape: tuple[int, ...], lengths: bool, threads: None
) -> None:
    what, given, gradients = layer(mode, options, shape, np.float32, lengths, True, False)
    columns = [recurrent_plan(what, *shape[:2], "f", lengths, count).columns for count in (1, 4)]
    assert columns[0] == 1 < columns[1]
    kernels.set_num_threads(1)
    expected = results(kernels, what, given, gradients, False)
    assert_equal(expected, results(textbook, what, given, gradients, False), np.float32)
    for count in (2, 3, 4):
        kernels.set_num_threads(count)
        for one, other in zip(results(kernels, what, given, gradients, False), expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_inputs_are_computed_in_chunks_if_every_thread_has_its_rows() -> None:
    what = recurrence("test", "lstm", 20, 33)
    chunks = [recurrent_plan(what, 30, 40, "f", threads=threads).chunk for threads in (0, 1, 2)]
    assert chunks[0] == 0 and 1 < chunks[1] == chunks[2] < 30
    assert recurrent_plan(recurrence("test", "lstm", 40, 300), 3, 16, "f", threads=2).chunk == 0  # cut into columns


def test_two_threads_of_python_at_once(threads: None) -> None:
    """The second launch runs all its tasks in one thread, in order: no task may wait for a later one."""
    kernels.set_num_threads(2)
    what, given, gradients = layer("lstm", {}, LARGE[0], np.float32, False, True, False)
    expected = results(kernels, what, given, gradients, False)
    found: list[list[Any]] = []

    def run() -> None:
        for _ in range(10):
            found.append(results(kernels, what, given, gradients, False))

    callers = [Thread(target=run) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(found) == 30
    for one in found:
        for array, other in zip(one, expected, strict=True):
            np.testing.assert_array_equal(array, other)


@pytest.mark.parametrize("missing", range(4))
def test_a_gradient_that_is_none_is_zero(missing: int) -> None:
    what, given, gradients = layer("lstm", {"reverse": BOTH}, (4, 3, 5, 6), np.float64, True, True, True)
    zeros = [np.zeros_like(g) if i == missing else g for i, g in enumerate(gradients)]
    gradients[missing] = None
    expected = results(kernels, what, given, zeros, True)
    for one, other in zip(results(kernels, what, given, gradients, True), expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("wanted", range(4))
def test_only_what_is_wanted(wanted: int) -> None:
    what, given, gradients = layer("lstm", {}, (4, 3, 5, 6), np.float64, False, True, False)
    saved = kernels.recurrent(*given, what, True, False)[4]
    everything = kernels.recurrent_grad(*gradients, *given, what, saved, (True,) * 4)
    ask = tuple(i == wanted for i in range(4))
    for i, (one, other) in enumerate(
        zip(kernels.recurrent_grad(*gradients, *given, what, saved, ask), everything, strict=True)
    ):
        assert (one is None) == (i != wanted)
        if one is not None:
            np.testing.assert_array_equal(
                np.concatenate([a.ravel() for a in _flat(one)]), np.concatenate([a.ravel() for a in _flat(other)])
            )


def _flat(found: Any) -> list[np.ndarray]:
    if isinstance(found, np.ndarray):
        return [found]
    return [array for weights in found for array in weights if array is not None]


def test_arrays_of_any_strides() -> None:
    what, given, gradients = layer("gru", {"reverse": BOTH}, (4, 3, 5, 6), np.float64, False, True, False)
    expected = results(kernels, what, given, gradients, False)
    weights = [Weights(*(None if a is None else np.asfortranarray(a) for a in w)) for w in given[3]]
    x, h0 = given[0][:, ::-1][:, ::-1], np.asfortranarray(given[1])
    gy = np.asfortranarray(gradients[0])
    found = results(kernels, what, [np.asfortranarray(x), h0, None, weights, None], [gy, *gradients[1:]], False)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_twice_backward() -> None:
    what, given, gradients = layer("lstm", {"projection": 4}, (4, 3, 5, 6), np.float64, False, True, False)
    saved = kernels.recurrent(*given, what, True, False)[4]
    first, second = (kernels.recurrent_grad(*gradients, *given, what, saved, (True,) * 4) for _ in range(2))
    np.testing.assert_array_equal(first[0], second[0])


@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh"])
def test_the_last_backward_may_write_over_the_gates(mode: str) -> None:
    what, given, gradients = layer(mode, {"reverse": BOTH}, (4, 3, 5, 19), np.float32, True, True, False)
    saved = kernels.recurrent(*given, what, True, False)[4]
    *first, of_weights = kernels.recurrent_grad(*gradients, *given, what, saved, (True,) * 4)
    *second, of_weights_too = kernels.recurrent_grad(*gradients, *given, what, saved, (True,) * 4, True)
    for one, other in zip([*first, *_flat(of_weights)], [*second, *_flat(of_weights_too)], strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh"])
def test_gradients_that_fade_away_become_zero(mode: str) -> None:
    """Arithmetic with denormal numbers is a hundred times slower. Outside of the kernel they are kept."""
    what, given, _ = layer(mode, {}, (200, 3, 2, 5), np.float32, False, False, False)
    given[3] = [Weights(*(None if array is None else array * np.float32(0.2) for array in given[3][0]))]
    gy = np.zeros((200, 3, 5), np.float32)
    gy[-1] = 1e-3
    saved = kernels.recurrent(*given, what, True, False)[4]
    gx, *_ = kernels.recurrent_grad(gy, None, None, None, *given, what, saved, (True,) * 4)
    expected, *_ = textbook.recurrent_grad(
        gy, None, None, None, *given, what, textbook.recurrent(*given, what, True, False)[4], (True,) * 4
    )
    assert gx[150:].all() and not gx[0].any()
    np.testing.assert_allclose(gx, expected, rtol=1e-4, atol=1e-36)
    tiny = np.finfo(np.float32).tiny  # a product of a normal number and a weight may be below it, for a step or two
    denormal, usual = (((g != 0) & (np.abs(g) < tiny)).any(axis=(1, 2)).sum() for g in (gx, expected))
    assert 2 * denormal < usual
    assert kernels.exp(np.full(1000, -100.0, np.float32)).all()
    assert (np.float32(1e-38) * np.float32(0.01)) > 0


@pytest.mark.parametrize("mode", ["lstm", "gru"])
def test_no_sequences(kernel_set: Any, mode: str) -> None:
    what, given, gradients = layer(mode, {"reverse": BOTH}, (3, 0, 5, 6), np.float32, False, True, False)
    y, hn, *_, saved = kernel_set.recurrent(*given, what, True, False)
    assert y.shape == (3, 0, 12) and hn.shape == (2, 0, 6)
    gx, gh0, _, gw = kernel_set.recurrent_grad(*gradients, *given, what, saved, (True,) * 4)
    assert gx.shape == (3, 0, 5) and gh0.shape == (2, 0, 6)
    assert all(not array.any() for array in _flat(gw))


def test_what_another_kernel_set_saved_is_refused() -> None:
    what, given, gradients = layer("lstm", {}, (2, 2, 3, 4), np.float32, False, True, False)
    saved = textbook.recurrent(*given, what, True, False)[4]
    with pytest.raises(TypeError, match="recurrent_grad: the forward pass ran on another kernel set"):
        kernels.recurrent_grad(*gradients, *given, what, saved, (True,) * 4)


def test_nan_in_the_cell_state_becomes_the_upper_end() -> None:
    what, given, _ = layer(
        "lstm", {"clip": (-0.5, 0.25), "clip_nan": True}, (1, 2, 3, 4), np.float32, False, True, False
    )
    given[2][0, 1, 2] = np.nan
    _, _, cn, _, _ = kernels.recurrent(*given, what, False, False)
    assert cn[0, 1, 2] == 0.25 and np.isfinite(cn).all()


@pytest.mark.parametrize(
    ("mode", "options", "lengths", "states", "cells"), [each for each in LAYERS if each[0] != "rnn_relu"]
)
def test_an_infinite_input_saturates_the_gates(
    mode: str, options: dict[str, Any], lengths: bool, states: bool, cells: bool
) -> None:
    """The padding units of a panel, whose weights are 0, compute 0 * inf = NaN, which must not reach other units."""
    for shape in ((4, 3, 4, 17), (3, 1, 4, 33), (3, 7, 5, 5)):
        what, given, gradients = layer(mode, options, shape, np.float64, lengths, states, cells)
        given[0][1, 0, 2] = np.inf
        *outputs, saved = kernels.recurrent(*given, what, True, cells)
        *expected_outputs, expected_saved = textbook.recurrent(*given, what, True, cells)
        *found, of_weights = kernels.recurrent_grad(*gradients, *given, what, saved, (True,) * 4)
        *expected, expected_weights = textbook.recurrent_grad(*gradients, *given, what, expected_saved, (True,) * 4)
        pairs = zip(
            [*outputs, *found, *_flat(of_weights)],
            [*expected_outputs, *expected, *_flat(expected_weights)],
            strict=True,
        )
        for one, other in pairs:
            if one is not None:
                np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
        assert np.isfinite(expected_outputs[0]).all() and np.isfinite(expected[0]).all()
