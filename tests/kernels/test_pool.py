"""The threads' protocol, threads_jit.py, run as plain Python under a scheduler that controls the order.

On a real machine, a thread is rarely preempted at the one point where that does harm. Here it can be preempted before
every access to the pool's words: each thread has a priority, the highest one runs, and a seed determines where
priorities change (Burckhardt and others 2010, "A randomized scheduler with probabilistic guarantees of finding bugs").
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from retrograd.kernels.compiled.machine import launch
from retrograd.kernels.compiled.machine import threads_jit as text

_MOST_STEPS = 50_000  # a few thousand are usual


class StuckError(Exception):
    """No thread makes progress."""


class Scheduler:
    """Lets one thread run at a time; also the mutex and the condition variable of the pool."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._yielding = self._random.choice((1, 0.1, 0.01))  # with 0.01 a thread that waits for work falls asleep
        self._gates: dict[int, threading.Semaphore] = {}
        self._priority: dict[int, float] = {}
        self._steps = self._broadcasts = 0
        self._owner: int | None = None
        self.failures: list[str] = []
        self.enter()

    def enter(self) -> int:
        """Register a thread: the calling one, or one that will start."""
        name = len(self._gates)
        self._gates[name] = threading.Semaphore(0)
        self._priority[name] = self._random.random()
        return name

    def leave(self, name: int) -> None:
        """Unregister the running thread."""
        del self._priority[name]
        self._gates[self._highest()].release()

    def _highest(self) -> int:
        return max(self._priority, key=self._priority.__getitem__)

    def wait_for_turn(self, name: int) -> None:
        _current.name = name
        self._gates[name].acquire()

    def step(self, waiting: bool = False) -> None:
        """A point at which another thread may run; it must if this one is ``waiting`` for it."""
        name: int = _current.name
        self._steps += 1
        if self._steps > _MOST_STEPS:
            self.failures.append("the threads wait for each other")
            raise StuckError
        if waiting and self._random.random() < self._yielding:
            self._priority[name] = min(self._priority.values()) - 1
        elif self._random.random() < 1 / 16:
            self._priority[name] = self._random.random()
        following = self._highest()
        if following != name:
            self._gates[following].release()
            self._gates[name].acquire()

    def lock(self, mutex: Any) -> None:
        self.step()
        while self._owner is not None:
            self.step(waiting=True)
        self._owner = _current.name

    def unlock(self, mutex: Any) -> None:
        self.step()
        self._owner = None

    def wait(self, condition: Any, mutex: Any) -> None:
        seen = self._broadcasts
        self.unlock(mutex)
        while self._broadcasts == seen:
            self.step(waiting=True)
        self.lock(mutex)

    def broadcast(self, condition: Any) -> None:
        self.step()
        self._broadcasts += 1


_current = threading.local()  # .name: the scheduler's name of this thread


class Model:
    """A pool whose threads run the source of threads_jit.py under a scheduler; a launch is identified by its record."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pool = launch._Pool()
        self.scheduler = Scheduler(0)
        self._left: dict[int, set[int]] = {}  # tasks of a launch that no thread has run
        self._busy: set[tuple[int, int]] = set()  # who uses which part of the scratch memory of a launch
        self._now = 0
        words = self.pool._words

        def atomic(action: Callable[..., Any]) -> Callable[..., Any]:
            def apply(address: int, index: int, *values: int) -> Any:
                self.scheduler.step()
                return action(index, *values)

            return apply

        def add(index: int, value: int) -> int:
            words[index] += value
            return int(words[index]) - value

        def exchange_if(index: int, expected: int, value: int) -> bool:
            same = bool(words[index] == expected)
            words[index] = value if same else words[index]
            return same

        def lock(mutex: Any) -> None:
            self.scheduler.lock(mutex)

        def unlock(mutex: Any) -> None:
            self.scheduler.unlock(mutex)

        def broadcast(condition: Any) -> None:
            self.scheduler.broadcast(condition)

        replaced = {
            "get": atomic(words.__getitem__),
            "put": atomic(words.__setitem__),
            "add": atomic(add),
            "exchange_if": atomic(exchange_if),
            "call": self._call,
            "pause": lambda: self.scheduler.step(waiting=True),
            "new_record": lambda: 0,
            "_now": self._clock,
            "_yield": lambda: None,
            "_lock": lock,
            "_unlock": unlock,
            "_wait": lambda condition, mutex: self.scheduler.wait(condition, mutex),
            "_broadcast": broadcast,
        }
        for name, replacement in replaced.items():
            monkeypatch.setattr(text, name, replacement)
        monkeypatch.setattr(self.pool, "native", lambda function, arguments: self.pool.address)  # nobody calls it
        monkeypatch.setattr(launch, "threading", SimpleNamespace(Thread=self._thread))
        libc = SimpleNamespace(pthread_mutex_lock=lock, pthread_mutex_unlock=unlock, pthread_cond_broadcast=broadcast)
        monkeypatch.setattr(launch.ctypes, "CDLL", lambda name: libc)

    def _clock(self, clock: int, time: int) -> int:
        self._now += launch._PATIENCE
        return self._now

    def _call(self, entry: int, task: int, worker: int, record: int) -> None:
        if task in self._left.get(record, ()) and (record, worker) not in self._busy and entry == -record:
            self._left[record].remove(task)
        else:
            self.scheduler.failures.append(f"task {task} of launch {record} by thread {worker}: not to be done")
        self._busy.add((record, worker))
        self.scheduler.step()
        self._busy.discard((record, worker))

    def _thread(self, target: Any = None, args: tuple[int, ...] = (), **_: Any) -> Any:
        """As threading.Thread, for threads that serve."""
        return self.thread(lambda: text.serve(*args))

    def thread(self, work: Callable[[], None]) -> Any:
        scheduler = self.scheduler
        name, over = scheduler.enter(), threading.Event()

        def run() -> None:
            scheduler.wait_for_turn(name)
            try:
                work()
            except StuckError:
                pass
            finally:
                over.set()
                scheduler.leave(name)

        def join() -> None:
            while not over.is_set():
                scheduler.step(waiting=True)

        thread = threading.Thread(target=run, daemon=True)

        def start() -> None:
            thread.start()
            scheduler.step()

        return SimpleNamespace(start=start, join=join)

    def launch(self, record: int, tasks: int) -> None:
        """What the compiled ``launch`` does."""
        self._left[record] = set(range(tasks))
        if self.pool._words[text.STARTED] == 0:
            self.pool.start()
        text.run(self.pool.address, -record, tasks, record)
        if self._left[record]:
            self.scheduler.failures.append(f"launch {record} ended without its tasks {sorted(self._left[record])}")
        del self._left[record]

    def set_num_threads(self, count: int) -> None:
        self.pool.stop()
        self.pool.use(count)

    def check(self, seed: int, play: Callable[[Model], None]) -> None:
        """Run ``play`` under the schedule of ``seed``."""
        self.scheduler = Scheduler(seed)
        _current.name = 0
        try:
            play(self)
            self.set_num_threads(1)
        except StuckError:
            pass
        assert not self.scheduler.failures, f"seed {seed}: {self.scheduler.failures[:3]}"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Model]:
    yield Model(monkeypatch)


def _other_numbers_of_threads(model: Model) -> None:
    record = 1
    for count in (3, 2, 4):
        model.set_num_threads(count)
        for tasks in (7, 2):
            model.launch(record, tasks)
            record += 1


def _two_callers(model: Model) -> None:
    model.set_num_threads(3)
    model.launch(1, 2)

    def other() -> None:
        for record in (2, 3):
            model.launch(record, 4)

    caller = model.thread(other)
    caller.start()
    for record in (4, 5):
        model.launch(record, 5)
    caller.join()


@pytest.mark.parametrize("play", [_other_numbers_of_threads, _two_callers])
def test_every_task_is_done_once(model: Model, play: Callable[[Model], None]) -> None:
    """By one thread, with its own part of the scratch memory, before the launch ends; and the launch ends."""
    for seed in range(200):
        model.check(seed, play)
