"""RNN, LSTM, GRU, their cells and packed sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils import rnn as peer

import retrograd
from peers.compare import assert_agree, assert_close, normal
from retrograd.nn.utils import rnn as ours

KINDS = ["RNN", "LSTM", "GRU"]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"num_layers": 2, "bidirectional": True},
    {"num_layers": 3, "batch_first": True},
    {"bias": False, "bidirectional": True},
]


def pair(kind: str, *sizes: int, dtype: str = "float64", **options: Any) -> tuple[Any, Any]:
    """The same layer twice, with the same weights, which go from there to here and back."""
    mine = getattr(retrograd.nn, kind)(*sizes, **options, dtype=getattr(np, dtype))
    yours = getattr(torch.nn, kind)(*sizes, **options, dtype=getattr(torch, dtype))
    assert list(mine.state_dict()) == list(yours.state_dict())
    assert repr(mine) == repr(yours)
    mine.load_state_dict({key: value.numpy() for key, value in yours.state_dict().items()})
    yours.load_state_dict({key: torch.tensor(value.array) for key, value in mine.state_dict().items()})
    return mine, yours


def compare_gradients(mine: Any, yours: Any, tolerance: float | None = None) -> None:
    for (name, p), (_, q) in zip(mine.named_parameters(), yours.named_parameters(), strict=True):
        assert_close(p.grad, q.grad, f"gradient of {name}", tolerance)


def backward_of_all(outputs: Any, tensor: Any) -> None:
    """From random upstream gradients of every output."""
    total = 0
    for seed, y in enumerate(outputs):
        dtype = np.dtype(str(y.dtype).split(".")[-1])
        total = total + (y * tensor(normal(*y.shape, seed=70 + seed, dtype=dtype))).sum()
    total.backward()  # type: ignore[attr-defined]


def flat(result: Any) -> list[Any]:
    if isinstance(result, (tuple, list)):
        return [t for item in result for t in flat(item)]
    return [result]


CASES = [(kind, options) for kind in KINDS for options in OPTIONS]
CASES += [("RNN", {"nonlinearity": "relu"}), ("LSTM", {"proj_size": 2, "num_layers": 2, "bidirectional": True})]


@pytest.mark.parametrize("form", ["batch", "alone", "no states"])
@pytest.mark.parametrize(("kind", "options"), CASES, ids=str)
def test_layers(kind: str, options: dict[str, Any], form: str) -> None:
    mine, yours = pair(kind, 3, 4, **options)
    rows = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    lead = () if form == "alone" else (2,)
    shape = (5, 3) if form == "alone" else (2, 5, 3) if options.get("batch_first") else (5, 2, 3)
    arrays = [normal(*shape)]
    if form != "no states":
        arrays.append(normal(rows, *lead, options.get("proj_size") or 4, seed=1))
        if kind == "LSTM":
            arrays.append(normal(rows, *lead, 4, seed=2))

    def call(module: Any, which: int) -> Any:
        def run(x: Any, *states: Any) -> Any:
            hx = None if not states else states if kind == "LSTM" else states[0]
            return flat(module(x, hx))[which]

        return run

    for which in range(3 if kind == "LSTM" else 2):
        assert_agree(call(mine, which), call(yours, which), *arrays, second=which == 0 and form == "batch")
    xs, ps = [retrograd.tensor(a, requires_grad=True) for a in arrays], [torch.tensor(a) for a in arrays]
    for module, values, tensor in ((mine, xs, retrograd.tensor), (yours, ps, torch.tensor)):
        hx = None if len(values) == 1 else tuple(values[1:]) if kind == "LSTM" else values[1]
        backward_of_all(flat(module(values[0], hx)), tensor)
    compare_gradients(mine, yours)


@pytest.mark.parametrize("enforce_sorted", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences(kind: str, enforce_sorted: bool) -> None:
    mine, yours = pair(kind, 3, 4, 2, bidirectional=True)
    lengths = [5, 4, 4, 1] if enforce_sorted else [2, 5, 1, 4]
    arrays = [normal(5, 4, 3), normal(4, 4, 4, seed=1), normal(4, 4, 4, seed=2)]

    def run(module: Any, library: Any, with_lengths: bool, which: int) -> Any:
        def function(x: Any, h: Any, c: Any) -> Any:
            hx = (h, c) if kind == "LSTM" else h + 0 * c
            if with_lengths:
                return flat(module(x, hx, lengths))[which]
            packed = library.pack_padded_sequence(x, lengths, enforce_sorted=enforce_sorted)
            y, states = module(packed, hx)
            return library.pad_packed_sequence(y)[0] if which == 0 else flat(states)[which - 1]

        return function

    for which in range(3 if kind == "LSTM" else 2):
        for with_lengths in (False, True):
            assert_agree(run(mine, ours, with_lengths, which), run(yours, peer, False, which), *arrays, second=False)
    compare = []
    for module, library, tensor in ((mine, ours, retrograd.tensor), (yours, peer, torch.tensor)):
        packed = library.pack_padded_sequence(tensor(arrays[0]), lengths, enforce_sorted=enforce_sorted)
        y, _ = module(packed)
        (y.data * tensor(normal(*y.data.shape, seed=9))).sum().backward()
        compare.append(y)
    compare_gradients(mine, yours)
    for key in ("data", "batch_sizes", "sorted_indices", "unsorted_indices"):
        a, b = (getattr(y, key) for y in compare)
        assert (a is None) == (b is None)
        if a is not None:
            assert_close(a, b, key)


@pytest.mark.parametrize("batch_first", [False, True])
def test_packing_and_padding(batch_first: bool) -> None:
    x, lengths = normal(4, 5, 2), [3, 1, 4, 4, 2]
    given = x.swapaxes(0, 1).copy() if batch_first else x
    results = []
    for library, tensor in ((ours, retrograd.tensor), (peer, torch.tensor)):
        found = []
        packed = library.pack_padded_sequence(tensor(given), lengths, batch_first, enforce_sorted=False)
        found += list(packed)
        found += library.pad_packed_sequence(packed, batch_first, -1.0, total_length=6)
        many = [tensor(normal(n, 2, seed=n)) for n in lengths]
        for side in ("right", "left"):
            found.append(library.pad_sequence(many, batch_first, 2.0, side))
        found += library.unpad_sequence(library.pad_sequence(many, batch_first), tensor(np.array(lengths)), batch_first)
        found += list(library.pack_sequence(many, enforce_sorted=False))
        found += library.unpack_sequence(library.pack_sequence(many, enforce_sorted=False))
        found.append(library.invert_permutation(tensor(np.array([2, 0, 1]))))
        results.append(found)
    for number, (a, b) in enumerate(zip(*results, strict=True)):
        assert_close(a, b, f"result {number}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [True, False])
def test_cells(kind: str, bias: bool) -> None:
    mine, yours = pair(f"{kind}Cell", 3, 4, bias)
    for lead in ((2,), ()):
        arrays = [normal(*lead, 3), normal(*lead, 4, seed=1), normal(*lead, 4, seed=2)][: 3 if kind == "LSTM" else 2]

        def run(module: Any, which: int) -> Any:
            return lambda x, *h: flat(module(x, h if kind == "LSTM" else h[0]))[which]

        for which in range(2 if kind == "LSTM" else 1):
            assert_agree(run(mine, which), run(yours, which), *arrays)
        assert_close(flat(mine(retrograd.tensor(arrays[0])))[-1], flat(yours(torch.tensor(arrays[0])))[-1], "no state")


def test_relu_cell() -> None:
    mine, yours = pair("RNNCell", 3, 4, nonlinearity="relu")
    assert_agree(mine, yours, normal(2, 3), normal(2, 4))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(7, 1, 5, 33), (9, 20, 16, 64), (3, 70, 40, 48)])
def test_float32(kind: str, shape: tuple[int, int, int, int]) -> None:
    """Sizes with more than one panel and block of rows, with remainders of all kinds."""
    steps, batch, features, units = shape
    mine, yours = pair(kind, features, units, bidirectional=True, dtype="float32")
    x = normal(steps, batch, features, dtype=np.float32)
    assert_agree(lambda x: mine(x)[0], lambda x: yours(x)[0], x, second=False)
    for module, tensor in ((mine, retrograd.tensor), (yours, torch.tensor)):
        backward_of_all(flat(module(tensor(x))), tensor)
    compare_gradients(mine, yours)


def test_layers_start_as_the_peer() -> None:
    retrograd.manual_seed(0)
    torch.manual_seed(0)
    for kind in (*KINDS, "LSTMCell"):
        mine = getattr(retrograd.nn, kind)(50, 60).state_dict()
        for key, value in getattr(torch.nn, kind)(50, 60).state_dict().items():
            a, b = mine[key].numpy(), value.numpy()
            bound = 60**-0.5
            assert np.abs(a).max() <= bound and np.abs(b).max() <= bound, key
            assert abs(a.std() - b.std()) <= 0.1 * b.std() + 0.1 * bound * (b.size < 300), key
