"""The temporary memory of the forms of a convolution, and the choice of one that fits a limit.

Counted are the arrays that a form makes besides its result, for operands in the library's memory order: weights and
tiles that are transformed, packed or copied, and partial sums; those of each thread, once for each core of the
machine. Not counted are tables of some kilobytes, and copies of operands in another order.

A limit changes bits only if another form is chosen: partial sums are computed one after another and added in order, all
other arrays are allocated whole.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil

from ....specs.geometry import Window
from . import by_line, depthwise, direct, fold, planar, winograd

JOBS = ("conv", "conv_input_grad", "conv_weight_grad")


@lru_cache(maxsize=4096)
def temporary(
    form: str, job: str, window: Window, batch: int, inputs: int, outputs: int, dtype: str
) -> tuple[int, int]:
    """Bytes that a form uses without a limit, and the least that it needs."""
    shape = batch, inputs, outputs, dtype
    sums = job == "conv_weight_grad"
    if form == "winograd":
        found = winograd.temporary(window, job, *shape)
    elif form == "planar":
        found = planar.temporary(window, job, *shape)
    elif form == "fold":
        found = fold.temporary(window, *shape)
    elif form == "narrow":
        found = direct.row_grad_bytes(window, *shape) if sums else by_line.temporary(window, *shape)
    elif form == "line":
        found = by_line.pointwise_bytes(*(inputs, outputs) if job == "conv" else (outputs, inputs), dtype)
    elif form == "depthwise":
        return depthwise.temporary(window, job, *shape)
    elif sums:
        return direct.weight_grad_bytes(window, *shape)
    else:
        found = direct.gather_bytes(window, *shape, job == "conv_input_grad")
    if sums and form in ("planar", "narrow"):  # if numbers are not finite, the direct form runs as well
        most, least = direct.weight_grad_bytes(window, *shape)
        return max(found, most), max(found, least)
    return found, found


def within(
    limit: int,
    algorithm: str,
    forms: dict[str, tuple[str, ...]],
    job: str,
    window: Window,
    batch: int,
    inputs: int,
    outputs: int,
    dtype: str,
) -> str:
    """The first of the forms of a job whose memory fits the limit; ``forms`` has those of all three.

    ``algorithm``: what was asked for, named in the message.

    Raises:
        ValueError: for one of the three jobs no form fits. All are checked, so that a limit accepted by the forward
            pass suffices for the gradients, too.
    """
    shape = batch, inputs, outputs, dtype
    least = max(min(temporary(form, each, window, *shape)[1] for form in forms[each]) for each in JOBS)
    if limit < least:
        megabytes = ceil(least / 2**20 * 1e4) / 1e4
        raise ValueError(
            f"{job}: workspace={limit} bytes is too little for algorithm={algorithm!r}: this convolution and "
            f"its gradients take at least {least} bytes ({megabytes:.4f} MB); give that, or None for no limit"
        )
    return next(form for form in forms[job] if temporary(form, job, window, *shape)[1] <= limit)


def taken(
    form: str, limit: int | None, job: str, window: Window, batch: int, inputs: int, outputs: int, dtype: str
) -> int:
    """Bytes that a form uses within a limit, or without one."""
    most, least = temporary(form, job, window, batch, inputs, outputs, dtype)
    if limit is None or most <= limit:
        return most
    return max(least, limit // least * least) if form in ("direct", "depthwise") else least
