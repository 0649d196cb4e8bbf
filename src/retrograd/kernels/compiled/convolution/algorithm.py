"""Choice of the algorithm for a convolution: the cheapest one, by a cost model of shapes and dtype, without timing.

Costs are counted in multiply-adds of whole vectors. The model counts three things: an algorithm's products, the values
that it transforms, and the weights that it reads from memory. No other file chooses: ``choose`` decides for a call,
``passages`` describes the choice for ``conv_plan``.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

from ....specs.convolution_options import Options, suits
from ....specs.geometry import Window
from ..machine.microkernel import tile
from . import by_line, fold, narrow, planar, winograd
from .winograd_plan import PAIRS, POINTS_OF_TWO, tiles_of
from .workspace import JOBS, taken, within

_TRANSFORM = 450  # of one vector of channels of a tile, forward or inverse
_WEIGHT_LINE = 60  # of one vector of the transformed weights: computed, written and read again
_GAIN = 0.9  # the transforms must save a tenth: they are less accurate


@lru_cache(maxsize=4096)
def costs(window: Window, batch: int, inputs: int, outputs: int, dtype: str, job: str = "conv") -> dict[str, float]:
    """The algorithms that can compute a job of a convolution, and what each costs."""
    lanes = tile(dtype, "rows", 1).lanes
    depth, columns = inputs // window.groups, outputs // window.groups
    vectors = -(-columns // lanes)
    pixels = batch * prod(window.output)
    name = next(name for name in ("depthwise", "pointwise", "direct") if suits(name, window, inputs, outputs))
    if name == "depthwise":
        work = pixels * window.taps * -(-inputs // lanes)
    else:
        work = pixels * window.taps * window.groups * depth * vectors
    found = {name: float(work)}
    if winograd.can(window):
        slices, inputs_read = batch * prod(window.output[:-2]), batch * prod(window.input[:-2])
        tiles, points = 1, 1
        for extent in window.output[-2:]:
            sizes = tiles_of(extent)
            tiles, points = tiles * len(sizes), points * sum(size + 2 for size in sizes)
        taps = window.taps // 9
        products = slices * points * taps * depth * vectors
        transforms = tiles * (inputs_read * -(-depth // lanes) + slices * vectors)
        lines = PAIRS * taps * depth * vectors
        found["winograd"] = float(products + transforms * _TRANSFORM + lines * _WEIGHT_LINE)
    elif job == "conv_input_grad" and winograd.can_by_phases(window):
        tiles, vectors = batch * winograd.tiles_of_phases(window), -(-inputs // lanes)
        products = tiles * POINTS_OF_TWO * outputs * vectors
        moved = tiles * (-(-outputs // lanes) + vectors) * _TRANSFORM * POINTS_OF_TWO / PAIRS
        found["winograd"] = products + moved + 4 * POINTS_OF_TWO * outputs * vectors * _WEIGHT_LINE
    return found


@lru_cache(maxsize=4096)
def choose(
    job: str, window: Window, options: Options, batch: int, inputs: int, outputs: int, dtype: str, dense: bool = True
) -> str:
    """The algorithm of a job, or the form of the direct one: "planar", "narrow", "fold" or "line".

    ``dense``: the tensor that is read is dense and channels-last, as the library's own are; "line" needs that.

    Raises:
        ValueError: the algorithm of ``options`` cannot compute it, or their limit of memory is too small.
    """
    shape = batch, inputs, outputs, dtype
    if options.workspace is None:
        return forms(job, window, options.algorithm, *shape, dense)[0]
    found = {each: forms(each, window, options.algorithm, *shape, dense) for each in JOBS}
    return within(options.workspace, options.algorithm, found, job, window, *shape)


def forms(
    job: str, window: Window, forced: str, batch: int, inputs: int, outputs: int, dtype: str, dense: bool = True
) -> tuple[str, ...]:
    """The forms that can compute a job, the best first; the others are for memory limits that it exceeds.

    Raises:
        ValueError: the algorithm ``forced``, one of ``options.ALGORITHMS``, cannot compute it.
    """
    found = costs(window, batch, inputs, outputs, dtype, job)
    plain = next(iter(found))
    if forced == "winograd" and job != "conv_input_grad" and winograd.can_by_phases(window):
        forced = "exact"  # of these, the transforms compute only the input gradient
    if forced not in ("auto", "exact", "direct", *found):
        raise ValueError(
            f"{job}: algorithm={forced!r} cannot compute this convolution; choose one of {', '.join(sorted(found))}, "
            f"'direct' or 'auto' (kernel {window.kernel}, stride {window.stride}, dilation {window.dilation}, "
            f"groups {window.groups}, channels {inputs} to {outputs}, output {window.output})"
        )
    if forced == "winograd":
        return ("winograd",)
    if plain == "depthwise":
        return ("depthwise",)
    others = _direct_forms(job, window, batch, inputs, outputs, dtype, dense)
    if forced == "auto" and found.get("winograd", found[plain]) < _GAIN * found[plain]:
        return ("winograd", *others)
    return others


def products(algorithm: str, window: Window, batch: int, inputs: int, outputs: int) -> int:
    """Multiplications, without those of the transforms; the same for all jobs of an algorithm."""
    pairs = batch * inputs // window.groups * outputs
    if algorithm == "winograd" and winograd.can_by_phases(window):
        return pairs * winograd.tiles_of_phases(window) * POINTS_OF_TWO
    if algorithm == "winograd":
        points = prod(sum(size + 2 for size in tiles_of(extent)) for extent in window.output[-2:])
        return pairs * prod(window.output[:-2]) * points * (window.taps // 9)
    return pairs * window.taps * prod(window.output)


class Passage(NamedTuple):
    """The computation chosen for a job: the algorithm, its form, multiplications, bytes of temporary memory."""

    algorithm: str
    form: str
    multiplications: int
    memory: int


def passages(window: Window, options: Options, batch: int, inputs: int, outputs: int, dtype: str) -> dict[str, Passage]:
    """The ``Passage`` of each of the three jobs.

    Raises:
        ValueError: as ``choose``.
    """
    shape = batch, inputs, outputs, dtype
    plain = next(iter(costs(window, *shape)))
    found = {}
    for job in JOBS:
        form = choose(job, window, options, *shape)
        name = form if form == "winograd" else plain
        count = products(name, window, batch, inputs, outputs)
        memory = taken(form, options.workspace, job, window, *shape)
        found[job] = Passage(name, "" if form in (name, "direct") else form, count, memory)
    return found


def _direct_forms(
    job: str, window: Window, batch: int, inputs: int, outputs: int, dtype: str, dense: bool
) -> tuple[str, ...]:
    gradient = job == "conv_input_grad"
    written = (inputs if gradient else outputs) // window.groups
    if planar.applies(written, window, gradient, dtype):
        return "planar", "direct"
    if fold.applies(written, window) if gradient else narrow.is_narrow(inputs, window):
        return "fold" if gradient else "narrow", "direct"
    if dense and job != "conv_weight_grad" and by_line.is_line(window, batch, inputs, outputs, dtype):
        return "line", "direct"
    return ("direct",)
