"""Memory planning for steps: one arena for the arrays that only the steps use, including scratch memory of kernels.

An array is *internal* if a step makes it and only the steps refer to it: apart from the references of the steps there
is no strong reference to it, to a view of it or to the array that owns its memory. Gradients of parameters, optimizer
states, and arrays that the caller still has therefore stay where they are. The count is exact in CPython; the only
possible error is a surplus reference, which keeps an array out of the arena.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np

from ..arrays import Arena, Lifetime, address, empty, is_array, lay_out, of_bytes, span
from ..kernel_set import compile_deferred, formula_of
from ..specs.array_spec import arrays_in, leaves, mapped

if TYPE_CHECKING:
    from .steps import Step

NUMBERS = (bool, int, float, str)


class Memory(NamedTuple):
    """The memory use of steps in an arena.

    arrays: the number of internal arrays. bytes: their total size. scratch: the scratch bytes of all steps. least: the
    bytes alive at the most demanding step, a lower bound for any arena. arena: the block of memory.
    """

    arrays: int
    bytes: int
    scratch: int
    least: int
    arena: Arena

    def __str__(self) -> str:
        return (
            f"{self.arrays} array{'s' * (self.arrays != 1)} of {self.bytes:,} bytes and {self.scratch:,} bytes of "
            f"scratch, of which {self.least:,} are needed at once: an arena of {self.arena.memory.size:,} bytes"
        )


class PlannedStep(NamedTuple):
    """A step that runs its kernel's plan.

    memory: by plan buffer. bound: the plan's launches on the step's arrays, except those that depend on constants only.
    kept: the arrays that these have filled, and checksums of the bytes that should remain.
    """

    step: Step
    plan: Any
    memory: dict[int, np.ndarray]
    bound: Any
    kept: tuple[tuple[np.ndarray, int], ...] = ()

    @property
    def is_overwritten(self) -> bool:
        """Whether a later launch has used the memory of constants for something else."""
        return any(_checksum(array) != before for array, before in self.kept)

    def with_numbers(self) -> Callable[..., None]:
        """Return a function that runs the launches with other values of the plan's words, given by name."""
        found: Callable[..., None] = self.plan.with_numbers(self.bound)
        return found

    def again(self, step: Step) -> PlannedStep | None:
        """Return this for a copy of the step with other numeric arguments; None if they need a different plan."""
        plan = plan_if_any(step)
        same = plan is not None and (plan.buffers, plan.results) == (self.plan.buffers, self.plan.results)
        return _bind_plan(step, plan, self.memory) if same else None


class _Block:
    """Arrays that share memory: their range of bytes, and the first and last step that use them.

    made: whether the first step returned them; internal: whether, in addition, only the steps refer to them. over: the
    block whose memory this one takes over.
    """

    def __init__(self, low: int) -> None:
        self.low = self.high = low
        self.made = self.internal = False
        self.first = self.last = -1
        self.over: _Block | None = None

    def used(self, at: int, made: bool) -> None:
        if self.first < 0:
            self.first, self.made, self.internal = at, made, made
        self.last = at

    def widen(self, low: int, high: int) -> None:
        self.low, self.high = min(self.low, low), max(self.high, high)

    def take_over(self, other: _Block) -> None:
        self.over = other.over or other
        self.over.last = self.last


class _BufferLocation(NamedTuple):
    """The location of a plan's buffer when the step was recorded: its block, its first byte, and an array in it."""

    block: _Block
    start: int
    array: np.ndarray


def place_in_arena(
    steps: Sequence[Step], constants: Sequence[np.ndarray] = (), varying: Collection[int] = ()
) -> tuple[list[Step], list[PlannedStep], Memory]:
    """Return the steps with their internal arrays in an arena, the steps that run by a plan, and the memory use.

    constants: arrays whose elements never change. Launches that depend only on them run now, and not again, except
    those of the steps with the numbers ``varying``.
    """
    referenced = _referenced_elsewhere(steps)
    blocks = _blocks(steps, referenced)
    plans = _plans(steps, blocks)
    held = {id(root(array)) for array in constants}
    once = {at: {} if at in varying else _constant_launches(steps[at], plan, held) for at, (plan, _) in plans.items()}
    kept = {at: {place.buffer for places in found.values() for place in places} for at, found in once.items()}
    _overwrite_operands(steps, plans, blocks)
    unique = {id(block): block for block in blocks.values() if block.internal}
    internal = [block for block in unique.values() if block.over is None]
    scratch = [
        (at, number, plan.buffer_bytes(number))
        for at, (plan, _) in plans.items()
        for number, buffer in enumerate(plan.buffers)
        if buffer.kind in ("scratch", "each") and number not in kept[at]
    ]
    lifetimes = [Lifetime(block.high - block.low, block.first, block.last) for block in internal]
    lifetimes += [Lifetime(count, at, at) for at, _, count in scratch]
    layout = lay_out(lifetimes)
    arena = Arena(layout.bytes)
    parts = [arena.part(offset, one.bytes) for offset, one in zip(layout.offsets, lifetimes, strict=True)]
    part_of = dict(zip(map(id, internal), parts, strict=False))
    part_of |= {key: part_of[id(block.over)] for key, block in unique.items() if block.over is not None}
    moved: dict[int, np.ndarray] = {}

    def in_arena(leaf: Any) -> Any:
        block = blocks.get(id(leaf))
        if block is None or not block.internal:
            return leaf
        if id(leaf) not in moved:
            start = address(leaf) - block.low
            moved[id(leaf)] = y = of_bytes(part_of[id(block)], leaf.shape, leaf.dtype, start, leaf.strides)
            y.flags.writeable = leaf.flags.writeable
        return moved[id(leaf)]

    moved_steps = [
        step._replace(**{name: mapped(getattr(step, name), in_arena) for name in _ARRAY_FIELDS}) for step in steps
    ]
    memory: dict[int, dict[int, np.ndarray]] = {at: {} for at in plans}
    for at, (plan, targets) in plans.items():
        for number, (block, start, array) in targets.items():
            part = part_of.get(id(block))
            begin = start - block.low
            memory[at][number] = array if part is None else part[begin : begin + plan.buffers[number].bytes]
    for (at, number, _), part in zip(scratch, parts[len(internal) :], strict=True):
        memory[at][number] = part
    for at, (plan, _) in plans.items():
        memory[at] |= {number: Arena(plan.buffer_bytes(number)).memory for number in kept[at]}
    compile_deferred([plan for plan, _ in plans.values()])
    by_plan = [_bind_plan(moved_steps[at], plan, memory[at], once[at]) for at, (plan, _) in plans.items()]
    total = sum([block.high - block.low for block in unique.values()])
    return moved_steps, by_plan, Memory(len(unique), total, sum([each[2] for each in scratch]), layout.least, arena)


_ARRAY_FIELDS = ("args", "kwargs", "result")  # the fields of a step that contain arrays


def _arrays(values: Any) -> Iterator[np.ndarray]:
    """Yield the arrays that have elements."""
    return (each for each in leaves(values) if isinstance(each, np.ndarray) and each.size)


def _referenced_elsewhere(steps: Sequence[Step]) -> set[int]:
    """Return the ids of the steps' arrays, and of the owners of their memory, that are also referenced elsewhere."""
    # References from dead cycles would count. While automatic collection is off, what was recorded is young.
    gc.collect(2 if gc.isenabled() else 0)
    found: list[np.ndarray] = []
    counts: dict[int, int] = {}  # id of an array -> the number of references from the steps
    seen: set[int] = set()
    stack: list[Any] = [*steps]
    while stack:
        value = stack.pop()
        if isinstance(value, np.ndarray):
            if id(value) not in counts:
                found.append(value)
                stack.append(value.base)
            counts[id(value)] = counts.get(id(value), 0) + 1
        elif isinstance(value, (tuple, list, dict)) and id(value) not in seen:
            seen.add(id(value))
            stack += value.values() if isinstance(value, dict) else value
    value = None
    found.append(empty(0, np.uint8))  # an array without other references
    alone = sys.getrefcount(found[-1])
    return {id(found[at]) for at in range(len(counts)) if sys.getrefcount(found[at]) > alone + counts[id(found[at])]}


def _blocks(steps: Sequence[Step], referenced: set[int]) -> dict[int, _Block]:
    """Return the block of every array by its id. Arrays with one owner or overlapping bytes share a block."""
    arrays = {id(each): each for step in steps for each in _arrays((step.args, step.kwargs, step.result))}
    spans: dict[int, tuple[int, int]] = {}  # id of an owner -> the span of all its arrays
    for array in arrays.values():
        low, high = span(array)
        before = spans.get(owner := id(root(array)), (low, high))
        spans[owner] = min(low, before[0]), max(high, before[1])
    of_owner: dict[int, _Block] = {}
    block = _Block(-1)
    for owner in sorted(spans, key=spans.__getitem__):
        if spans[owner][0] >= block.high:
            block = _Block(spans[owner][0])
        block.widen(*spans[owner])
        of_owner[owner] = block
    found = {key: of_owner[id(root(array))] for key, array in arrays.items()}
    for at, step in enumerate(steps):
        for made, values in ((False, (step.args, step.kwargs)), (True, step.result)):
            for array in _arrays(values):
                found[id(array)].used(at, made)
    for key, array in arrays.items():
        each: Any = array
        while isinstance(each, np.ndarray) and id(each) not in referenced:
            each = each.base
        if each is not None:  # referenced elsewhere, or the memory does not belong to NumPy
            found[key].internal = False
    return found


def root(array: np.ndarray) -> np.ndarray:
    """Return the array whose memory a view covers."""
    while (base := array.base) is not None and is_array(base):
        array = base
    return array


def _plans(steps: Sequence[Step], blocks: dict[int, _Block]) -> dict[int, tuple[Any, dict[int, _BufferLocation]]]:
    """Return the plans that reproduce their recorded step, and the locations of the buffers of results.

    The other steps are called: those without a plan, and those that take or return something other than arrays and
    numbers.
    """
    found: dict[int, tuple[Any, dict[int, _BufferLocation]]] = {}
    objects: set[int] = set()
    for at, step in enumerate(steps):
        plan: Any = None
        if not any(id(each) in objects for each in leaves((step.args, step.kwargs))):
            plan = plan_if_any(step)
        targets = None if plan is None else _targets(at, step, plan, blocks)
        if targets is not None:
            found[at] = plan, targets
            for number, (block, start, _) in targets.items():
                if block.internal:
                    block.widen(start, start + plan.buffers[number].bytes)
        others = [each for each in leaves(step.result) if not isinstance(each, (np.ndarray, *NUMBERS))]
        objects.update(map(id, others))
    return found


def _targets(at: int, step: Step, plan: Any, blocks: dict[int, _Block]) -> dict[int, _BufferLocation] | None:
    """Locate the buffers of a step's results; return None if its plan lays them out differently than the step did."""
    found: dict[int, _BufferLocation] = {}
    inputs = {each.buffer: (each, x) for each, x in zip(plan.inputs, plan_inputs(step), strict=True)}
    results = [*leaves(step.result)]
    if len(results) != len(plan.places()):
        return None
    for y, where in zip(results, plan.places(), strict=True):
        if not isinstance(y, np.ndarray):
            if not isinstance(y, NUMBERS) or y != where:
                return None
        elif not hasattr(where, "buffer") or not _has_layout(y, where):
            return None
        elif y.size and where.buffer in inputs:
            given, x = inputs[where.buffer]
            if address(y) - where.begin != address(x) - given.begin:
                return None
        elif y.size:
            block, start = blocks[id(y)], address(y) - where.begin
            whole = span(y) == (start, start + plan.buffers[where.buffer].bytes)
            before = found.get(where.buffer, _BufferLocation(block, start, y))
            # a formula may write over what it reads: element by element
            is_new = (block.made and block.first == at) or formula_of(step.kernel) is not None
            if not is_new or before[:2] != (block, start):
                return None
            found[where.buffer] = _BufferLocation(block, start, y) if whole else before
    if len({id(each.block) for each in found.values()}) < len(found):
        return None
    for number, (block, start, array) in found.items():
        # no byte outside the result is written
        if not block.internal and span(array) != (start, start + plan.buffers[number].bytes):
            return None
    return found


def _overwrite_operands(
    steps: Sequence[Step], plans: Mapping[int, tuple[Any, Mapping[int, _BufferLocation]]], blocks: Mapping[int, _Block]
) -> None:
    """Let results take over the memory of operands that no later step reads, where the plan allows it."""
    taken: set[int] = set()
    for at, (plan, targets) in plans.items():
        given = {each.buffer: x for each, x in zip(plan.inputs, plan_inputs(steps[at]), strict=True)}
        for result, operand in plan.over:
            if result not in targets or operand not in given:
                continue
            y, (start, end), old = targets[result].block, span(x := given[operand]), blocks.get(id(x))
            if old is None or id(old) in taken or old.last != at or y.over is not None:
                continue
            whole = (start, end) == (old.low, old.high) and targets[result].start == y.low
            views = [each for each in _arrays((steps[at].args, steps[at].kwargs)) if blocks[id(each)] is old]
            same = all((span(each), each.strides) == ((start, end), x.strides) for each in views)
            new = y.internal and y.first == at and y.high - y.low == end - start
            if old.internal and new and whole and same:
                y.take_over(old)
                taken.add(id(old))


def _has_layout(y: np.ndarray, where: Any) -> bool:
    """Return whether an array has the layout of a plan's buffer; strides along an extent of 1 do not matter."""
    steps = zip(y.shape, y.strides, where.strides, strict=False)
    other = [extent for extent, step, planned in steps if extent > 1 and step != planned]
    return (y.shape, y.dtype) == (where.shape, where.dtype) and not other


def plan_if_any(step: Step) -> Any:
    """Return the plan of a step; None if there is none or it is a Python call."""
    try:
        plan = step.plan()
    except TypeError:
        return None
    return plan if hasattr(plan, "buffers") else None


def plan_inputs(step: Step) -> list[np.ndarray]:
    """Return the arrays of a step that its plan takes."""
    return [*arrays_in((step.args, {name: value for name, value in step.kwargs.items() if name != "keep"}))]


def _constant_launches(step: Step, plan: Any, held: set[int]) -> dict[int, list[Any]]:
    """Return the launches of a plan that depend only on constants, by the id of their memory, and their results."""
    if not held or step.changed:
        return {}
    inputs = zip(plan.inputs, plan_inputs(step), strict=True)
    found: dict[int, list[Any]] = plan.constant_launches(
        {place.buffer for place, array in inputs if id(root(array)) in held}
    )
    return found


def _bind_plan(
    step: Step, plan: Any, memory: dict[int, np.ndarray], once: Mapping[int, Sequence[Any]] | None = None
) -> PlannedStep:
    bound = plan.bound(*plan_inputs(step), memory=memory)
    if not once:
        return PlannedStep(step, plan, memory, bound)
    kept: list[tuple[np.ndarray, int]] = []
    for at, places in once.items():
        bound.run_one(at)
        kept += [(array, _checksum(array)) for array in (place.of(memory) for place in places)]
    return PlannedStep(step, plan, memory, bound.without(once), tuple(kept))


def _checksum(array: np.ndarray) -> int:
    return crc32(array.ravel(order="K").view(np.uint8).data)
