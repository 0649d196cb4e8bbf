"""Recorded calls of functions with state in Python: changes are seen, and what a trial changes is put back."""

from __future__ import annotations

import os
import pickle
import warnings
from argparse import Namespace
from collections import OrderedDict, UserDict, UserList, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass
from io import BytesIO
from itertools import count
from logging import getLogger
from operator import attrgetter
from pathlib import Path
from threading import local
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from weakref import ref

import numpy as np
import pytest

import retrograd as rg
from comparison import bits
from retrograd import nn
from retrograd.nn import functional
from retrograd.nn.compilation import explain_recording

FACTOR = 1.0
X = rg.Tensor(np.random.default_rng(0).standard_normal((3, 4), dtype=np.float32))


@dataclass(slots=True)
class Slots:
    factor: float = 1.0


class Backward(rg.autograd.Function):
    """The product with a global number in the backward pass only."""

    @staticmethod
    def forward(ctx: Any, x: rg.Tensor) -> rg.Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, *grads: rg.Tensor) -> rg.Tensor:
        return grads[0] * FACTOR


@contextmanager
def factor() -> Iterator[float]:
    yield FACTOR


@rg.no_grad()
def decorated(x: rg.Tensor) -> rg.Tensor:
    return x * FACTOR


def in_a_block(x: rg.Tensor) -> rg.Tensor:
    with factor() as number:
        return x * number


compiled_part = rg.compile(lambda x: x * FACTOR)


# ---- What a call reads -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("holder", "read", "write"),
    [
        (SimpleNamespace(factor=1.0), lambda it: it.factor, lambda it, to: setattr(it, "factor", to)),
        (Namespace(factor=1.0), lambda it: it.factor, lambda it, to: setattr(it, "factor", to)),
        (Slots(), lambda it: it.factor, lambda it, to: setattr(it, "factor", to)),
        (OrderedDict(a=1.0), lambda it: it["a"], lambda it, to: it.update(a=to)),
        (defaultdict(float, a=1.0), lambda it: it["a"], lambda it, to: it.update(a=to)),
        (deque([1.0]), lambda it: it[0], lambda it, to: it.__setitem__(0, to)),
        (np.ones(3, np.float32), lambda it: float(it[1]), lambda it, to: it.fill(to)),
        (bytearray(b"\x01"), lambda it: float(it[0]) - 2.0, lambda it, to: it.__setitem__(0, int(to) + 2)),
        (np.ones(5000), lambda it: float(it[1]), lambda it, to: it.fill(to)),
        (ContextVar("factor", default=1.0), lambda it: it.get(), lambda it, to: it.set(to)),
        (local(), lambda it: it.__dict__.get("factor", 1.0), lambda it, to: setattr(it, "factor", to)),
        (os.environ, lambda it: float(os.environ.get("A_FACTOR", "1")), lambda it, to: it.update(A_FACTOR=str(to))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_changed_objects(holder: Any, read: Callable[[Any], float], write: Callable[[Any, float], Any]) -> None:
    holder = holder if isinstance(holder, (ContextVar, local, os._Environ)) else deepcopy(holder)

    def function(x: rg.Tensor) -> rg.Tensor:
        return x * read(holder)

    compiled = rg.compile(function)
    with patch.dict(os.environ):
        for number in (1.0, 1.0, 3.0, 3.0, -2.0):
            write(holder, number)
            assert bits(compiled(X).numpy()) == bits((X * number).numpy())


@pytest.mark.parametrize("call", [decorated, in_a_block, lambda x: compiled_part(x)])
def test_numbers_of_wrapped_functions(call: Callable[[rg.Tensor], rg.Tensor], monkeypatch: Any) -> None:
    compiled = rg.compile(lambda x: call(x) + 1)
    for number in (1.0, 1.0, 3.0, 3.0):
        monkeypatch.setitem(globals(), "FACTOR", number)
        assert bits(compiled(X).numpy()) == bits((X * number + 1).numpy())


def test_numbers_of_a_backward_pass(monkeypatch: Any) -> None:
    compiled = rg.compile(lambda x: Backward.apply(x) * 2)
    for number in (1.0, 1.0, 3.0, 3.0):
        monkeypatch.setitem(globals(), "FACTOR", number)
        x = X.clone().requires_grad_()
        compiled(x).sum().backward()
        assert x.grad is not None and x.grad.unique().tolist() == [2 * number]


def test_replaced_defaults_and_code() -> None:
    def function(x: rg.Tensor, a: float = 2.0, *, b: float = 3.0) -> rg.Tensor:
        return x * a + b

    compiled = rg.compile(function)
    assert bits(compiled(X).numpy()) == bits((X * 2 + 3).numpy())
    function.__defaults__ = (5.0,)
    assert bits(compiled(X).numpy()) == bits((X * 5 + 3).numpy())
    function.__kwdefaults__ = {"b": 7.0}
    assert bits(compiled(X).numpy()) == bits((X * 5 + 7).numpy())
    function.__code__ = (lambda x, a, *, b: x - a).__code__
    assert bits(compiled(X).numpy()) == bits((X - 5).numpy())


def test_replaced_functions_and_methods(monkeypatch: Any) -> None:
    """Of the library, as tests replace them."""
    compiled, net = rg.compile(lambda x: functional.relu(x)), rg.compile(nn.Sequential(nn.Tanh()))
    assert bits(compiled(X).numpy()) == bits(X.relu().numpy()) and bits(net(X).numpy()) == bits(X.tanh().numpy())
    monkeypatch.setattr(functional, "relu", lambda x: x * 3)
    monkeypatch.setattr(nn.Tanh, "forward", lambda self, x: x * 5)
    assert bits(compiled(X).numpy()) == bits((X * 3).numpy()) and bits(net(X).numpy()) == bits((X * 5).numpy())


def a_step() -> tuple[nn.Parameter, rg.optim.SGD, Callable[[rg.Tensor], None]]:
    parameter = nn.Parameter(X.clone())
    optimizer = rg.optim.SGD([parameter], lr=0.1)

    def step(x: rg.Tensor) -> None:
        optimizer.zero_grad()
        (parameter * parameter * x).sum().backward()
        optimizer.step()

    return parameter, optimizer, step


def test_a_replaced_step_of_an_optimizer() -> None:
    found = []
    for compile in (rg.compile, lambda function: function):
        parameter, optimizer, step = a_step()
        called = compile(step)
        for _ in range(3):
            called(X)
        optimizer.zero_grad = lambda set_to_none=True: None
        called(X)
        own = optimizer.step
        optimizer.step = lambda own=own: (own(), own())[0]
        called(X)
        found.append(bits(parameter.detach().numpy()))
    assert found[0] == found[1]


class Options:
    full_name, name = "factor", "fac"

    def __init__(self) -> None:
        self.factor = 1.0


def helper(options: Options, x: rg.Tensor) -> rg.Tensor:
    return x * options.factor


def test_an_object_that_is_passed_on() -> None:
    """Only the helper reads the attribute."""

    class Net(nn.Module):
        def __init__(self, options: Options) -> None:
            super().__init__()
            self.options = options

        def forward(self, x: rg.Tensor) -> rg.Tensor:
            return helper(self.options, x)

    options = Options()
    functions = lambda x: helper(options, x), lambda x: helper([options][0], x), Net(options)
    for compiled in map(rg.compile, functions):
        for options.factor in (1.0, 1.0, 3.0, 3.0):
            assert bits(compiled(X).numpy()) == bits((X * options.factor).numpy())


class Shared:
    """One instance, which the class makes at the first call."""

    one: Any = None

    def __new__(cls) -> Shared:
        cls.one = cls.one or super().__new__(cls)
        return cls.one

    def __init__(self) -> None:
        self.factor = FACTOR


class Scaled(nn.Linear):
    def __call__(self, x: Any) -> Any:
        return super().__call__(x) * FACTOR


def matched(x: rg.Tensor, options: Options) -> rg.Tensor:
    match options:
        case Options(factor=number):
            return x * number
    return x


@pytest.mark.parametrize(
    "read",
    [
        lambda x, options: x * getattr(options, "factor"),  # noqa: B009
        lambda x, options: x * vars(options)["factor"],
        lambda x, options: x * options.__dict__["factor"],
        lambda x, options: x * attrgetter("factor")(options),
        lambda x, options: x * getattr(options, "fac" + options.full_name[3:]),
        lambda x, options: x * getattr(options, f"{options.name}tor", 0.0),
        lambda x, options: x * getattr(options, options.full_name),
        lambda x, options: x * [getattr(options, name) for name in ("name", options.full_name)][-1],
        lambda x, options: x * attrgetter(options.full_name)(options),
        lambda x, options: x * globals()["FACTOR"],
        matched,
        lambda x, options: x * UserDict(a=options.factor)["a"],
        lambda x, options: x * Shared().factor,
    ],
)
def test_attributes_by_name(read: Callable[..., rg.Tensor], monkeypatch: Any) -> None:
    options = Options()
    compiled = rg.compile(lambda x: read(x, options))
    for number in (1.0, 1.0, 3.0, 3.0):
        options.factor = number
        monkeypatch.setitem(globals(), "FACTOR", number)
        assert bits(compiled(X).numpy()) == bits((X * number).numpy())


class Named(nn.Module):
    """Calls methods whose names it puts together."""

    def __init__(self) -> None:
        super().__init__()
        self.kind = "plain"

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        return getattr(self, "run_" + self.kind)(x) + getattr(self, self.kind)(x)

    def run_plain(self, x: rg.Tensor) -> rg.Tensor:
        return x * FACTOR

    def plain(self, x: rg.Tensor) -> rg.Tensor:
        return x * FACTOR


def test_methods_by_names_that_are_put_together(monkeypatch: Any) -> None:
    compiled = rg.compile(Named())
    for number in (1.0, 1.0, 3.0, 3.0):
        monkeypatch.setitem(globals(), "FACTOR", number)
        assert bits(compiled(X).numpy()) == bits((X * number * 2).numpy())


def test_a_replaced_forward_of_a_layer(monkeypatch: Any) -> None:
    monkeypatch.setattr(nn.Identity, "forward", lambda self, x: x * FACTOR)
    compiled = rg.compile(nn.Sequential(nn.Identity()))
    for number in (1.0, 1.0, 3.0, 3.0):
        monkeypatch.setitem(globals(), "FACTOR", number)
        assert bits(compiled(X).numpy()) == bits((X * number).numpy())


def test_many_methods(monkeypatch: Any) -> None:
    """The first call looked at them once for each subset of their attributes."""
    count = 30
    members: dict[str, Any] = {f"scale{i}": 1.0 for i in range(count)}
    for i in range(count):
        exec(f"def method{i}(self, x): return x * self.scale{i}", members)
    lines = [f"    x = self.method{i}(x)" for i in range(count)]
    exec("\n".join(["def forward(self, x):", *lines, "    return x"]), members)
    del members["__builtins__"]
    net = type("Net", (nn.Module,), members)()
    compiled = rg.compile(net)
    for number in (1.0, 1.0, 3.0, 3.0):
        monkeypatch.setattr(type(net), "scale7", number)
        assert bits(compiled(X).numpy()) == bits((X * number).numpy())


@pytest.mark.parametrize("holder", [UserDict(a=1.0), UserList([1.0])])
def test_containers_of_collections(holder: Any) -> None:
    held = deepcopy(holder)
    place = "a" if isinstance(held, UserDict) else 0
    compiled = rg.compile(lambda x: x * held[place])
    for number in (1.0, 1.0, 3.0, 3.0):
        held[place] = number
        assert bits(compiled(X).numpy()) == bits((X * number).numpy())


def test_a_call_of_a_subclass(monkeypatch: Any) -> None:
    layer = Scaled(4, 2)
    compiled, plain = rg.compile(nn.Sequential(layer)), nn.Sequential(layer)
    for number in (1.0, 1.0, 3.0, 3.0):
        monkeypatch.setitem(globals(), "FACTOR", number)
        assert bits(compiled(X).detach().numpy()) == bits(plain(X).detach().numpy())


def test_an_activation_function_of_a_layer(monkeypatch: Any) -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, activation=lambda x: x * FACTOR)
    compiled = rg.compile(layer)
    for number in (1.0, 1.0, 3.0, 3.0):
        monkeypatch.setitem(globals(), "FACTOR", number)
        assert bits(compiled(X).detach().numpy()) == bits(layer(X).detach().numpy())


def test_a_frozen_module_reads_numbers_at_each_call(monkeypatch: Any) -> None:
    class Net(nn.Module):
        def forward(self, x: rg.Tensor) -> rg.Tensor:
            return x * FACTOR

    frozen = Net().eval().freeze()
    for number in (1.0, 1.0, 3.0, 3.0):
        monkeypatch.setitem(globals(), "FACTOR", number)
        assert bits(frozen(X).numpy()) == bits((X * number).numpy())


@pytest.mark.parametrize("is_step", [False, True])
def test_a_scaler_of_losses(is_step: bool) -> None:
    """Its scale is read at each call, and a trial is no step."""
    found = []
    for make in (lambda step: step, rg.compile):
        weight = nn.Parameter(rg.tensor([1.0, 2.0]))
        opt, scaler = rg.optim.SGD([weight], 0.125), rg.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)

        def step(x: rg.Tensor, weight: Any = weight, opt: Any = opt, scaler: Any = scaler) -> rg.Tensor:
            if not is_step:
                return scaler.scale((weight * x).tanh().sum())
            opt.zero_grad()
            scaler.scale((weight * x).tanh().sum()).backward()
            scaler.step(opt)
            scaler.update()
            return weight * 1.0

        call, results = make(step), []
        with rg.enable_grad():
            for seed in range(6):
                results.append([scaler.get_scale(), call(rg.tensor([seed + 0.5, 1.0])).tolist()])
                if not is_step:
                    scaler.update(3.0 * seed + 1)
        found.append(results)
    assert found[0] == found[1]


def test_the_default_dtype() -> None:
    compiled = rg.compile(lambda x: x * rg.ones(4))
    try:
        for dtype in (rg.float32, rg.float64, rg.float32):
            rg.set_default_dtype(dtype)
            assert compiled(X).dtype == dtype
    finally:
        rg.set_default_dtype(rg.float32)


# ---- What a trial changes --------------------------------------------------------------------------------------------


def test_a_trial_does_not_count() -> None:
    """Numbers, lists, dicts and attributes that a call changes: as after one call."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls, self.kept = 0, {"sums": [0.0]}

        def forward(self, x: rg.Tensor) -> rg.Tensor:
            self.calls += 1
            self.kept["sums"].append(x.sum().item())
            return x * self.calls

    net, calls, sums, total = Net(), 0, [1.0], count(1)

    def function(x: rg.Tensor) -> rg.Tensor:
        nonlocal calls
        calls += 1
        sums.append(calls)
        return x * calls

    for compiled in (rg.compile(net), rg.compile(function), rg.compile(lambda x: x * next(total))):
        for number in range(1, 5):
            assert bits(compiled(X).numpy()) == bits((X * number).numpy())
    assert calls == 4 and sums == [1.0, 1, 2, 3, 4]
    assert net.calls == 4 and net.kept == {"sums": [0.0] + [X.sum().item()] * 4}


def test_a_count_in_an_array() -> None:
    calls = np.zeros(1)

    def function(x: rg.Tensor) -> rg.Tensor:
        calls[0] += 1
        return x * float(calls[0])

    compiled = rg.compile(function)
    for number in range(1, 5):
        assert bits(compiled(X).numpy()) == bits((X * number).numpy())


def test_a_value_cached_by_the_first_call() -> None:
    cache: dict[str, rg.Tensor] = {}

    def function(x: rg.Tensor) -> rg.Tensor:
        if "first" not in cache:
            cache["first"] = x.detach() * 1
        return x + cache["first"]

    compiled = rg.compile(function)
    for other in (X, X * 2, X * 3):
        assert bits(compiled(other).numpy()) == bits((other + X).numpy())


def test_an_attribute_that_is_only_written() -> None:
    trainer = SimpleNamespace(last=None)

    def function(x: rg.Tensor) -> rg.Tensor:
        trainer.last = y = x * 2
        return y

    compiled = rg.compile(function)
    for number in (1.0, 2.0, 3.0):
        compiled(X * number)
        assert trainer.last is not None and bits(trainer.last.numpy()) == bits((X * number * 2).numpy())


def test_a_state_made_later() -> None:
    """Momentum that begins after the first step: the trial leaves no buffer behind."""
    found = []
    for compile in (rg.compile, lambda function: function):
        parameter, optimizer, step = a_step()
        called = compile(step)
        for momentum in (0.0, 0.5, 0.5, 0.5):
            optimizer.param_groups[0]["momentum"] = momentum
            called(X)
        found.append(bits(parameter.detach().numpy()))
    assert found[0] == found[1]


def test_lazy_modules_get_their_values_first() -> None:
    plain = nn.Sequential(nn.LazyLinear(3))
    compiled = rg.compile(deepcopy(plain))
    for number in (1.0, 2.0, 3.0):
        rg.manual_seed(0)
        y = compiled(X * number)
        rg.manual_seed(0)
        assert bits(y.detach().numpy()) == bits(plain(X * number).detach().numpy())
    assert "launches" in explain_recording(compiled)


def written(x: rg.Tensor, write: Callable[[Any, BytesIO], None]) -> bytes:
    file = BytesIO()
    write(x, file)
    return file.getvalue()


@pytest.mark.parametrize(
    "read",
    [
        lambda x: len(str(x)) > 75,
        lambda x: len(f"{x}") > 75,
        lambda x: len(x._repr_html_()) > 75,
        lambda x: len(np.array2string(x)) > 75,
        lambda x: np.array_equal(x, X),
        lambda x: np.histogram(x, [0, 1.5])[0][0] > 4,
        lambda x: np.interp(0.5, [0, 1], x[0, :2]) > 0.5,
        lambda x: pickle.dumps(x) == pickle.dumps(X),
        lambda x: written(x, rg.save) == written(X, rg.save),
        lambda x: written(x, lambda y, file: np.save(file, y)) == written(X, lambda y, file: np.save(file, y)),
    ],
)
def test_choices_by_elements_that_other_code_reads(read: Callable[[rg.Tensor], bool]) -> None:
    """A trial finds the same choice for other numbers, so the read itself must be seen."""

    def chosen(x: rg.Tensor) -> rg.Tensor:
        return x * 2 if read(x) else x * 3

    compiled = rg.compile(chosen)
    for x in (X + 1, X + 1, X, X * 1e-5, X):
        assert bits(compiled(x).numpy()) == bits(chosen(x).numpy())
    assert "runs as usual, since Python reads" in explain_recording(compiled)
    assert np.shape(X) == (3, 4) and not rg.record_steps(np.shape, X).reads


def test_a_result_with_a_gradient_of_its_own() -> None:
    net = nn.Linear(4, 2)

    def under_no_grad(x: rg.Tensor) -> rg.Tensor:
        with rg.enable_grad():
            return net(x).tanh()

    compiled = rg.compile(under_no_grad)
    for seed in range(3):
        net.zero_grad()
        with rg.no_grad():
            y = compiled(X * seed)
        y.sum().backward()
        assert net.weight.grad is not None
    assert "its result requires a gradient" in explain_recording(compiled)


def test_reasons(tmp_path: Path) -> None:
    numbers, owner = iter(range(9)), Slots
    weak, log, text = ref(owner), getLogger(__name__), tmp_path / "factor"
    text.write_text("2")
    for function, reason in (
        (lambda x: x * next(numbers), "range_iterator, whose values are not known"),
        (lambda x: (log.debug("a call"), x * 2)[1], "a logger, whose messages"),
        (lambda x: x * weak()().factor, "ReferenceType, whose values are not known"),
        (lambda x: x * globals()["FACTOR"], "the function uses globals"),
        (lambda x: x * float(text.read_text()), "the function uses read_text"),
        (lambda x: (warnings.warn("a call", stacklevel=1), x * 2)[1], "the function uses warn"),
    ):
        compiled = rg.compile(function)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled(X)
        assert reason in explain_recording(compiled)
