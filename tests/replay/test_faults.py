"""Recorded calls under interruptions, without memory, in threads and in other processes."""

from __future__ import annotations

import copy
import gc
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from time import sleep
from typing import Any

import pytest

import retrograd as rg
from comparison import bits
from replay.small import gradients, image, launches, network, same
from retrograd import nn
from retrograd.engine import recording_gate
from retrograd.nn.compilation import explain_recording

pytestmark = pytest.mark.usefixtures("without_gradients")


def interrupted(recording: Any, place: int, error: BaseException) -> Callable[[], None]:
    """Let an error interrupt the next replay before a launch; return a function that undoes it."""
    programs = [program for program, _ in (*recording.parts, *recording.back)]
    program, at = [(each, at) for each in programs for at in range(len(each.calls))][place]

    def fail(*_: Any) -> None:
        raise error

    before = program.calls[:]
    program.__init__([*before[:at], (fail, (), None), *before[at + 1 :]])
    return lambda: program.__init__(before)


@pytest.mark.parametrize("place", [0, 4, -1])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError()])
def test_an_interrupted_replay_leaves_the_next_one_right(error: BaseException, place: int) -> None:
    """Ctrl-C or lack of memory between two launches, also of the backward pass."""
    net = network()
    compiled = rg.compile(copy.deepcopy(net))
    with rg.enable_grad():
        for _ in range(2):  # recorded again for the strides of the gradient of a sum
            compiled(image()).sum().backward()
        (recording,) = compiled._recorder.found.values()
        undo = interrupted(recording, place, error)
        with pytest.raises(type(error)):
            compiled(image(1)).sum().backward()
        undo()
        found = []
        for call in (net, compiled):
            call.zero_grad()
            y = call(image(2))
            y.sum().backward()
            found.append(bits(y.detach().numpy()) + [row for rows in gradients(call) for row in rows or ()])
    assert found[0] == found[1] and not recording.lock.locked() and recording.is_free


def test_an_error_in_a_hook_of_the_result() -> None:
    net = network()
    compiled = rg.compile(copy.deepcopy(net))
    with rg.enable_grad():
        for seed in range(4):
            for call in (net, compiled):
                call.zero_grad()
                y = call(image(seed))
                if seed == 2:
                    y.register_hook(lambda g: 1 / 0)
                    with pytest.raises(ZeroDivisionError):
                        y.sum().backward()
                else:
                    (y * y).sum().backward()
            assert gradients(net) == gradients(compiled)


def test_without_memory_for_the_arena_calls_run_as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(size: int) -> None:
        raise MemoryError

    net, x = network(), image()
    compiled = rg.compile(net)
    monkeypatch.setattr("retrograd.engine.memory_planning.Arena", none)
    assert same(compiled, net, x) and "not enough memory" in explain_recording(compiled)


def test_threads_that_train() -> None:
    """Threads with a network each, which record at the same time, and threads that share one."""
    shared, wanted, failures = rg.compile(network()), {}, []

    def results(call: Any, seed: int) -> list[bytes]:
        with rg.enable_grad():
            x = image(seed).requires_grad_()
            y = call(x)
            return bits(y.detach().numpy()) + bits(rg.autograd.grad(y.sum(), x)[0].numpy())

    for seed in range(4):
        wanted[seed] = results(network(), seed)

    def work(seed: int) -> None:
        own = rg.compile(networks[seed])
        for call in [own, shared] * 15:
            if results(call, seed) != wanted[seed]:
                failures.append(seed)

    networks = [network() for _ in range(4)]
    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


def test_a_backward_pass_waits_while_another_thread_records() -> None:
    """A recording changes the parameters for a moment."""
    net, started = nn.Linear(3, 4), threading.Event()

    def function(x: rg.Tensor) -> rg.Tensor:
        y = net(x).exp()
        started.set()
        sleep(0.02)
        return y

    with rg.enable_grad():
        x = rg.randn(5, 3).requires_grad_()
        y = net(x).exp()
        wanted = bits(rg.autograd.grad(y.sum(), x, retain_graph=True)[0].numpy())
        recording = threading.Thread(target=rg.compile(function), args=(rg.randn(2, 3),))
        recording.start()
        assert started.wait(10)
        while recording.is_alive():
            assert bits(rg.autograd.grad(y.sum(), x, retain_graph=True)[0].numpy()) == wanted


def test_a_function_that_waits_for_a_thread_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread waits until nobody records, and the recorded function waits for the thread."""
    monkeypatch.setattr(recording_gate, "_LONGEST", 0.05)
    net, x = nn.Linear(3, 4), rg.randn(5, 3)

    def function(x: rg.Tensor) -> rg.Tensor:
        found: list[rg.Tensor] = []
        worker = threading.Thread(target=lambda: found.append(gradient(x)))
        worker.start()
        worker.join()
        return net(x).exp().sum(1) @ found[0]

    def gradient(x: rg.Tensor) -> rg.Tensor:
        with rg.enable_grad():
            given = x.detach().requires_grad_()
            return rg.autograd.grad(net(given).exp().sum(), given)[0]

    compiled = rg.compile(function)
    for _ in range(3):
        assert bits(compiled(x).numpy()) == bits(function(x).numpy())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_replays() -> None:
    net = network()
    compiled = rg.compile(net)
    wanted = {seed: bits(net(image(seed)).numpy()) for seed in range(3)}
    compiled(image()), compiled(image())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of threads
        child = os.fork()
    if child == 0:
        right = all(bits(compiled(image(seed)).numpy()) == wanted[seed] for seed in (1, 2))
        other = bits(compiled(image(0, 1, 3, 9, 9)).numpy()) == bits(net(image(0, 1, 3, 9, 9)).numpy())  # recorded here
        os._exit(0 if right and other else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert bits(compiled(image(1)).numpy()) == wanted[1]


def test_a_recording_without_gradients_is_not_used_with_them() -> None:
    net = network()
    compiled = rg.compile(copy.deepcopy(net))
    for enabled in (False, True, False, True):
        with rg.set_grad_enabled(enabled):
            for call in (net, compiled):
                call.zero_grad()
                y = call(image(3))
                assert y.requires_grad == enabled
                if enabled:
                    y.square().sum().backward()
        assert gradients(net) == gradients(compiled)


def test_decisions_that_change_with_each_call() -> None:
    """After some calls whose values lead to other decisions than recorded, the function is no longer replayed."""

    def picked(x: rg.Tensor) -> rg.Tensor:
        codes = (x[:, 0] > 0).long() - 1
        return x[rg.tensor([0, 1]), codes] * 2  # negative codes are counted from the end

    compiled = rg.compile(picked)
    for seed in range(12):
        x = image(seed, 2, 3).abs() * (1 if seed == 0 else -1)
        assert bits(compiled(x).numpy()) == bits(picked(x).numpy())
    assert "other decisions from call to call" in explain_recording(compiled)


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="a training step visits all objects there")
@pytest.mark.parametrize("is_step", [False, True])
def test_a_recording_collects_only_what_it_made(is_step: bool) -> None:
    net = nn.Linear(3, 3)
    optimizer = rg.optim.SGD(net.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = net(x).sum()
        loss.backward()
        optimizer.step()
        return loss

    compiled = rg.compile(step if is_step else net)
    gc.disable()  # or automatic collection might find it
    try:
        older = [weakref.WeakSet()]
        older += [older]
        dead = weakref.ref(older[0])
        gc.collect()
        del older
        with rg.enable_grad():
            for _ in range(3):
                compiled(rg.ones(2, 3))
        assert launches(compiled) == 1 and dead() is not None and not gc.isenabled()
        gc.collect()
        assert dead() is None
    finally:
        gc.enable()


def test_automatic_collection_is_off_while_it_records() -> None:
    """Objects that the user has frozen stay so."""
    seen: SimpleQueue[bool] = SimpleQueue()  # which a recording cannot put back

    def function(x: Any, fails: bool = False) -> Any:
        seen.put(gc.isenabled())
        if fails:
            raise ValueError("no")
        return x * 2

    compiled, frozen = rg.compile(function), gc.get_freeze_count()
    compiled(rg.ones(3))
    with pytest.raises(ValueError, match="no"):
        compiled(rg.ones(3), True)
    found = [seen.get() for _ in range(seen.qsize())]
    assert not any(found) and len(found) > 2 and gc.isenabled()
    assert frozen - 1000 < gc.get_freeze_count() <= frozen  # one that dies leaves the count
