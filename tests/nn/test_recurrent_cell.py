"""Cells and their wrappers: steps against the layers, sequences against steps."""

from __future__ import annotations

import copy
import re
from typing import Any, NamedTuple

import numpy as np
import pytest

import retrograd
from retrograd import nn
from retrograd.autograd import grad, gradcheck, gradgradcheck
from retrograd.engine.tensor import Tensor
from retrograd.nn.utils.rnn import truncated
from retrograd.ops.recurrent.composed import draw_masks
from retrograd.ops.recurrent.recurrent import recurrent_layer
from retrograd.specs.recurrence import Weights

LENGTHS = [2, 4, 1]


def normal(*shape: int, seed: int = 0, **options: Any) -> Tensor:
    return Tensor(np.random.default_rng((seed, *shape)).standard_normal(shape), **options)


def close(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(ours.array, getattr(theirs, "data", theirs), rtol=1e-9, atol=1e-12)


def flat(states: Any) -> list[Tensor]:
    return [states] if isinstance(states, Tensor) else [t for state in states for t in flat(state)]


CASES: list[tuple[str, dict[str, Any]]] = [
    ("RNN", {}),
    ("RNN", {"nonlinearity": "relu", "bias": False}),
    ("RNN", {"layer_norm": True}),
    ("LSTM", {}),
    ("LSTM", {"bias": False, "proj_size": 2}),
    ("LSTM", {"peephole": True, "clip": (-0.2, 0.3), "clip_nan": True}),
    ("LSTM", {"coupled": True, "forget_bias": 2.0}),
    ("LSTM", {"layer_norm": True}),
    ("GRU", {}),
    ("GRU", {"reset_after": False}),
    ("GRU", {"layer_norm": True}),
]


@pytest.mark.parametrize(("kind", "options"), CASES, ids=str)
def test_cells_are_the_steps_of_a_layer(kind: str, options: dict[str, Any]) -> None:
    layer = getattr(nn, kind)(3, 4, **options, dtype=np.float64)
    cell = getattr(nn, f"{kind}Cell")(3, 4, **options, dtype=np.float64)
    assert [f"{name}_l0" for name in cell.state_dict()] == list(layer.state_dict())
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in layer.state_dict().items()})
    x = normal(4, 3, 3)
    y, last = layer(x)
    state = None
    for t in range(4):
        state = cell(x[t], state)
        close(state[0] if kind == "LSTM" else state, y[t])
    for a, b in zip(flat(state), flat(last), strict=True):
        close(a, b[0])
    alone = cell(x[0, 1], tuple(s[1] for s in state) if kind == "LSTM" else state[1])
    for a, b in zip(flat(alone), flat(cell(x[0], state)), strict=True):
        close(a, b[1])
    for number, lengths in enumerate((None, LENGTHS)):
        for reverse in (False, True):
            both = nn.Unroll(cell, batch_first=bool(number), reverse=reverse)
            given = x.transpose(0, 1) if number else x
            z, end = both(given, None, lengths)
            whole = getattr(nn, kind)(3, 4, **options, bidirectional=True, dtype=np.float64)
            whole.load_state_dict({f"{k}_l0{r}": v for r in ("", "_reverse") for k, v in cell.state_dict().items()})
            expected, states = whole(x, None, lengths)
            width = expected.shape[2] // 2
            close(z.transpose(0, 1) if number else z, expected[:, :, width:] if reverse else expected[:, :, :width])
            for a, b in zip(flat(end), flat(states), strict=True):
                close(a, b[int(reverse)])


@pytest.mark.parametrize(("kind", "options"), [case for case in CASES if "layer_norm" not in case[1]], ids=str)
def test_the_composed_gradient_of_a_step_equals_the_kernel(kind: str, options: dict[str, Any]) -> None:
    """Of the step, with states that depend on the input, and of either result alone."""
    cell = getattr(nn, f"{kind}Cell")(3, 4, **options, dtype=np.float64)
    x, outputs = normal(2, 3, requires_grad=True), cell.spec.output
    h, c = normal(2, outputs, seed=1) * x[:, :1], normal(2, 4, seed=2) * x[:, 1:2]
    results = flat(cell(x, (h, c) if kind == "LSTM" else h))
    leaves = [x, h, *([c] if kind == "LSTM" else []), *cell.parameters()]
    for some in (results, results[:1], results[1:]):
        gs = [normal(*result.array.shape, seed=9) for result in some]
        fused = grad(some, leaves, gs, retain_graph=True, allow_unused=True) if some else []
        again = grad(some, leaves, gs, create_graph=True, allow_unused=True) if some else []
        for found, expected in zip(again, fused, strict=True):
            # w_hr has no part in c: the kernel says 0
            values = 0.0 if found is None else found.array
            np.testing.assert_allclose(expected.array, values, rtol=1e-10, atol=1e-12)
    gradcheck(lambda x: sum((t * t).sum() for t in flat(cell(x))), [x])
    gradgradcheck(lambda x: sum((t * t).sum() for t in flat(cell(x))), [x])


DRAWN: list[tuple[str, dict[str, Any]]] = [
    ("RNN", {"zoneout": 0.4}),
    ("RNN", {"recurrent_dropout": 0.5}),
    ("LSTM", {"zoneout": (0.3, 0.0)}),
    ("LSTM", {"zoneout": (0.0, 0.3), "recurrent_dropout": 0.4, "proj_size": 2}),
    ("LSTM", {"recurrent_dropout": 0.4, "layer_norm": True, "peephole": False}),
    ("GRU", {"zoneout": 0.3, "reset_after": False}),
    ("GRU", {"recurrent_dropout": 0.5}),
]


@pytest.mark.parametrize(("kind", "options"), DRAWN, ids=str)
def test_what_cells_draw(kind: str, options: dict[str, Any]) -> None:
    """In eval mode, cells compute the layer's expectation; in training, the operator's step with the cell's masks."""
    layer = getattr(nn, kind)(3, 4, **options, dtype=np.float64).eval()
    cell = getattr(nn, f"{kind}Cell")(3, 4, **options, dtype=np.float64).eval()
    cell.load_state_dict({name.removesuffix("_l0"): value for name, value in layer.state_dict().items()})
    x = normal(5, 3, 3)
    close(nn.Unroll(cell)(x, None, [5, 2, 3])[0], layer(x, None, [5, 2, 3])[0])
    cell.train()
    y, _ = nn.Unroll(cell)(x)
    assert np.abs(y.array - layer(x)[0].array).max() > 1e-3
    weights = [Weights(*[None if name is None else getattr(cell, name) for name in cell._names])]
    retrograd.manual_seed(4)
    y, _ = nn.Unroll(cell)(x)
    retrograd.manual_seed(4)
    h: Any = None
    c: Any = None
    recurrent: Any = None
    for t in range(5):
        masks = draw_masks(x[t : t + 1], cell.spec, recurrent)
        assert masks is not None
        recurrent = masks.recurrent  # one for all steps
        _, h, c, _ = recurrent_layer(x[t : t + 1], h, c, weights, cell.spec, masks=masks)
        close(y[t], h[0])
    for key in set(options) & {"zoneout", "recurrent_dropout"}:
        assert f"{key}=" in repr(cell)


def test_the_mask_of_a_cell_begins_with_a_sequence() -> None:
    cell = nn.GRUCell(3, 30, recurrent_dropout=0.5, dtype=np.float64)
    x, h = normal(2, 3), normal(2, 30)

    def last() -> np.ndarray:
        return cell(x, h).array

    first = last()
    np.testing.assert_array_equal(last(), first)
    cell.eval()
    cell(x)
    np.testing.assert_array_equal(cell.train()(x, h).array, first)  # a sequence in eval mode draws nothing
    cell(x)
    assert (last() != first).any()
    first = last()
    cell.reset()
    assert (last() != first).any()
    copied = copy.deepcopy(cell)
    np.testing.assert_array_equal(copied(x, h).array, last())
    with pytest.raises(ValueError, match="mask of recurrent dropout was drawn for 2 sequences, but this step has 1"):
        cell(x[:1], h[:1])


def test_padding_has_no_influence() -> None:
    x = normal(4, 3, 2)
    x.array[np.arange(4)[:, None] >= LENGTHS] = np.nan
    cell = nn.Unroll(nn.GRUCell(2, 3, dtype=np.float64))
    x.requires_grad = True
    y, _ = cell(x, None, LENGTHS)
    y.backward(normal(*y.shape))
    assert np.isfinite(y.array).all() and np.isfinite(x.grad.array).all()
    assert not y.array[np.arange(4)[:, None] >= LENGTHS].any()
    assert np.isfinite(cell.cell.weight_ih.grad.array).all()


@pytest.mark.parametrize("merge", ["concat", "sum", "mul", "ave", None])
def test_bidirectional(merge: str | None) -> None:
    one, two = nn.LSTMCell(2, 3, dtype=np.float64), nn.LSTMCell(2, 3, dtype=np.float64)
    x, hx = normal(4, 3, 2), [(normal(3, 3, seed=n), normal(3, 3, seed=n + 1)) for n in (1, 3)]
    both = nn.Bidirectional(one, two, merge)
    y, states = both(x, tuple(hx), LENGTHS)
    a, end_a = nn.Unroll(one)(x, hx[0], LENGTHS)
    b, end_b = nn.Unroll(two, reverse=True)(x, hx[1], LENGTHS)
    p, q = a.array, b.array
    expected = {"concat": np.concatenate([p, q], 2), "sum": p + q, "mul": p * q, "ave": (p + q) / 2, None: None}[merge]
    if merge is None:
        close(y[0], a)
        close(y[1], b)
    else:
        close(y, expected)
    for mine, theirs in zip(flat(states), flat((end_a, end_b)), strict=True):
        close(mine, theirs)
    first = nn.Bidirectional(one, two, merge, batch_first=True)
    z, _ = first(x.transpose(0, 1), tuple(hx), LENGTHS)
    for mine, theirs in zip(flat(z), flat(y), strict=True):
        close(mine.transpose(0, 1), theirs)


def test_a_second_sequence_after_an_update() -> None:
    """numpy-ml's cells fail at the second sequence after update(), its BidirectionalLSTM at the second forward."""
    both = nn.Bidirectional(nn.LSTMCell(2, 3, dtype=np.float64), nn.LSTMCell(2, 3, dtype=np.float64))
    optimizer = retrograd.optim.SGD(both.parameters(), lr=0.1)
    for steps in (4, 3, 5):
        y, _ = both(normal(steps, 2, 2))
        optimizer.zero_grad()
        (y * y).sum().backward()
        optimizer.step()
    assert all(np.isfinite(p.array).all() for p in both.parameters())


def test_a_cell_of_ones_own() -> None:
    """(output, state) with a state that is a tuple, a function, and a state that is only the output."""

    def counting(x: Tensor, state: Any) -> Any:
        total, count = (x, Tensor(np.ones(x.shape[:1]))) if state is None else (state[0] + x, state[1] + 1)
        return total / count.reshape(-1, 1), (total, count)

    x = normal(4, 3, 2)
    y, (total, count) = nn.Unroll(counting)(x, None, LENGTHS)
    assert count.tolist() == LENGTHS
    close(y[1, 1], x.array[:2, 1].mean(0))
    close(total[1], x.array[:, 1].sum(0))
    z, _ = nn.Unroll(lambda x, h: x if h is None else x + h)(x)
    close(z, np.cumsum(x.array, 0))
    close(nn.Unroll(lambda x, h: x if h is None else x + h)(x[:, 0])[0], np.cumsum(x.array[:, 0], 0))


class State(NamedTuple):
    h: Tensor
    steps: Tensor


def test_a_state_with_names() -> None:
    cell = nn.GRUCell(2, 3, dtype=np.float64)

    def named(x: Tensor, state: State | None) -> tuple[Tensor, State]:
        h = cell(x, None if state is None else state.h)
        return h, State(h, Tensor(np.ones(len(h))) if state is None else state.steps + 1.0)

    x = normal(4, 3, 2)
    for wrapped in (named, nn.ZoneoutCell(named), nn.VariationalDropoutCell(named)):
        y, state = nn.Unroll(wrapped)(x, None, LENGTHS)
        close(y, nn.Unroll(cell)(x, None, LENGTHS)[0])
        assert type(state) is State and state.steps.tolist() == LENGTHS
        for _, state in truncated(nn.Unroll(wrapped), x, 3, lengths=LENGTHS):
            assert type(state) is State
        assert state.steps.tolist() == LENGTHS


def test_residual_cell() -> None:
    cell = nn.GRUCell(3, 3, dtype=np.float64)
    x, h = normal(2, 3), normal(2, 3, seed=1)
    y, state = nn.ResidualCell(cell)(x, h)
    close(state, cell(x, h))
    close(y, cell(x, h).array + x.array)
    lstm = nn.LSTMCell(3, 3, dtype=np.float64)
    y, (h, c) = nn.ResidualCell(lstm)(x)
    close(y, h.array + x.array)
    close(c, lstm(x)[1])


def test_zoneout_cell() -> None:
    cell = nn.LSTMCell(3, 50, dtype=np.float64)
    x, hx = normal(4, 3), (normal(4, 50), normal(4, 50, seed=1))
    new = cell(x, hx)
    module = nn.ZoneoutCell(cell, [0.3, 0.0])
    y, (h, c) = module(x, hx)
    close(c, new[1])
    kept = h.array == hx[0].array
    assert 0.15 < kept.mean() < 0.45 and y is h
    np.testing.assert_array_equal(h.array[~kept], new[0].array[~kept])
    y, (h, c) = module.eval()(x, hx)
    close(h, 0.7 * new[0].array + 0.3 * hx[0].array)
    both = nn.ZoneoutCell(nn.RNNCell(3, 4, dtype=np.float64), 0.5)
    y, h = both(x)
    assert y is h and (h.array == 0).any()


def test_variational_dropout_cell() -> None:
    cell = nn.VariationalDropoutCell(nn.RNNCell(30, 40, dtype=np.float64), 0.5, 0.5, 0.5)
    x = Tensor(np.broadcast_to(normal(1, 2, 30).array, (4, 2, 30)).copy())
    layer = nn.Unroll(cell)
    y, _ = layer(x)
    dropped = y.array == 0
    assert 0.3 < dropped[0].mean() < 0.7
    np.testing.assert_array_equal(dropped, np.broadcast_to(dropped[:1], dropped.shape))
    again = layer(x)[0].array == 0
    assert (again[0] != dropped[0]).any()
    inputs = cell._masks["drop_inputs"].array
    assert set(np.unique(inputs)) == {0.0, 2.0}
    cell.eval()
    close(layer(x)[0], nn.Unroll(cell.cell)(x)[0])
    lstm = nn.VariationalDropoutCell(nn.LSTMCell(3, 40, dtype=np.float64), drop_states=0.5)
    h, c = normal(2, 40), normal(2, 40, seed=1)
    y, state = lstm(normal(2, 3), (h, c))
    close(y, lstm.cell(normal(2, 3), (h * lstm._masks["drop_states"], c))[0])


def test_wrapped_cells_are_twice_differentiable() -> None:
    retrograd.manual_seed(0)
    cell = nn.ResidualCell(nn.ZoneoutCell(nn.VariationalDropoutCell(nn.GRUCell(2, 2, dtype=np.float64), 0.3), 0.3))
    layer = nn.Bidirectional(cell, cell)

    def function(x: Tensor) -> Tensor:
        retrograd.manual_seed(3)
        return layer(x, None, [2, 3])[0].cos().sum()

    gradgradcheck(function, [normal(3, 2, 2, requires_grad=True)])


X = normal(4, 3, 2)


def cell_of(kind: str, *sizes: int, **options: Any) -> Any:
    return getattr(nn, f"{kind}Cell")(*sizes, dtype=np.float64, **options)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.LSTMCell(0, 2), ValueError, "LSTMCell: input_size=0 must be an int of at least 1"),
        (lambda: nn.GRUCell(2, True), ValueError, "GRUCell: hidden_size=True must be"),
        (lambda: nn.RNNCell(2, 2, nonlinearity="sin"), ValueError, "RNNCell: nonlinearity='sin' must be"),
        (lambda: nn.LSTMCell(2, 2, False, forget_bias=1.0), ValueError, "forget_bias=1.0 needs bias=True"),
        (lambda: nn.LSTMCell(2, 2, zoneout=(0.1, 0.2, 0.3)), ValueError, "LSTMCell: zoneout=(0.1, 0.2, 0.3) must be"),
        (lambda: nn.GRUCell(2, 2, zoneout=(0.1, 0.2)), ValueError, "GRUCell: zoneout of the cell needs a cell state"),
        (lambda: nn.RNNCell(2, 2, recurrent_dropout=1.0), ValueError, "recurrent dropout has probability 1.0"),
        (lambda: nn.LSTM(2, 2, zoneout="0.1"), ValueError, "LSTM: zoneout='0.1' must be a probability"),
        (lambda: nn.LSTMCell(2, 2, clip=0.5), ValueError, "LSTMCell: clip=0.5 must be a pair of numbers"),
        (lambda: nn.LSTM(2, 2, clip=(1,)), ValueError, "LSTM: clip=(1,) must be a pair of numbers"),
        (lambda: nn.LSTM(2, 2, clip=(0, "1")), ValueError, "LSTM: clip=(0, '1') must be a pair of numbers"),
        (lambda: nn.LSTM(2, 2, recurrent_dropout="a"), ValueError, "LSTM: recurrent_dropout='a' must be a probability"),
        (lambda: nn.LSTM(2, 2, recurrent_dropout={}), ValueError, "LSTM: recurrent_dropout={} must be a probability"),
        (lambda: nn.GRUCell(2, 2, recurrent_dropout=[0.1]), ValueError, "GRUCell: recurrent_dropout=[0.1] must be"),
        (lambda: nn.LSTMCell(2, 2, proj_size="1"), ValueError, "LSTMCell: proj_size='1' must be an int of at least 0"),
        (lambda: nn.LSTM(2, 2, zoneout=(0.1, True)), ValueError, "LSTM: zoneout has probability True"),
        (lambda: nn.LSTM(2, 2, forget_bias=float("nan")), ValueError, "LSTM: forget_bias=nan must be a number"),
        (lambda: nn.GRU(2, 2, checkpoint=0), ValueError, "GRU: checkpoint=0 must be an int of at least 1, 'auto'"),
        (lambda: nn.LSTMCell(2, 2, clip=(2, 1)), ValueError, "LSTMCell: clip=(2, 1) must not"),
        (lambda: cell_of("RNN", 2, 4)(X), ValueError, "RNNCell: input.shape=(4, 3, 2), needs (N, 2), or without"),
        (lambda: cell_of("RNN", 2, 4)(X.array), TypeError, "RNNCell: input must be a Tensor, got ndarray"),
        (lambda: cell_of("RNN", 2, 4)(X[0], X[0]), ValueError, "RNNCell: h.shape=(3, 2), needs (3, 4)"),
        (lambda: cell_of("RNN", 2, 4)(X[0], 1), TypeError, "RNNCell: h must be a Tensor of shape (3, 4), got int"),
        (lambda: cell_of("LSTM", 2, 4)(X[0], X[0]), ValueError, "LSTMCell: hx must be a pair (h, c), got Tensor"),
        (
            lambda: cell_of("LSTM", 2, 4)(X[0], (normal(3, 4), X[0])),
            ValueError,
            "LSTMCell: c.shape=(3, 2), needs (3, 4)",
        ),
        (lambda: nn.Unroll(3), TypeError, "Unroll: cell must be a module or function cell(x, state), got int"),
        (lambda: nn.Unroll(lambda x, h: 3)(X), TypeError, "returned int, expected a Tensor or a tuple of Tensors"),
        (lambda: nn.Unroll(cell_of("RNN", 2, 4))(X.array), TypeError, "Unroll: input must be a Tensor, got ndarray"),
        (lambda: nn.Unroll(cell_of("RNN", 2, 4))(X[:0]), ValueError, "input.shape=(0, 3, 2) has no steps"),
        (lambda: nn.Unroll(cell_of("RNN", 2, 4))(X[0, 0]), ValueError, "input.shape=(2,), needs (T, ...)"),
        (lambda: nn.Unroll(cell_of("RNN", 2, 4), True)(X[0]), ValueError, "input.shape=(3, 2), needs (N, T, ...)"),
        (lambda: nn.Unroll(cell_of("RNN", 2, 4))(X, None, [0, 1, 1]), ValueError, "Unroll: lengths[0]=0"),
        (lambda: nn.Bidirectional(None, None), TypeError, "Unroll: cell must be a module or function"),
        (lambda: nn.Bidirectional(len, len, "max"), ValueError, "Bidirectional: merge='max' must be 'concat', 'sum'"),
        (lambda: nn.Bidirectional(len, len)(X, X), ValueError, "hx must be a pair, one state per direction"),
        (lambda: nn.ResidualCell(1), TypeError, "ResidualCell: cell must be a function cell(x, state), got int"),
        (
            lambda: nn.ResidualCell(cell_of("RNN", 2, 4))(X[0]),
            ValueError,
            "ResidualCell: the output of the cell has shape (3, 4), input (3, 2)",
        ),
        (lambda: nn.ZoneoutCell(len, 1.0), ValueError, "ZoneoutCell: zoneout=1.0 must be a probability"),
        (lambda: nn.ZoneoutCell(len, [0.1, -1]), ValueError, "zoneout=-1 must be a probability"),
        (
            lambda: nn.ZoneoutCell(cell_of("RNN", 2, 4), [0.1, 0.2])(X[0]),
            ValueError,
            "zoneout=[0.1, 0.2], but the state has 1 entries",
        ),
        (lambda: nn.VariationalDropoutCell(len, 0.1, 2.0), ValueError, "drop_states=2.0 must be a probability"),
    ],
)
def test_refusals(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_masks_of_another_batch_are_refused() -> None:
    cell = nn.VariationalDropoutCell(cell_of("RNN", 2, 4), 0.5)
    _, h = cell(X[0])
    with pytest.raises(ValueError, match=r"masks were drawn for the shape \(3, 2\), but this step has \(2, 2\)"):
        cell(X[0, :2], h[:2])


def test_reprs() -> None:
    assert repr(nn.LSTMCell(2, 3, False)) == "LSTMCell(2, 3, bias=False)"
    assert repr(nn.RNNCell(2, 3, nonlinearity="relu")) == "RNNCell(2, 3, nonlinearity=relu)"
    assert "reset_after=False" in repr(nn.GRUCell(2, 3, reset_after=False))
    text = repr(nn.Bidirectional(nn.ZoneoutCell(nn.RNNCell(2, 3), 0.2), nn.RNNCell(2, 3), "sum", batch_first=True))
    for part in ("merge='sum', batch_first=True", "zoneout=0.2", "(forward_layer): Unroll", "reverse=True"):
        assert part in text
