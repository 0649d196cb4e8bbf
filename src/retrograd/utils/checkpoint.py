"""Checkpointing: saved tensors are dropped in forward and recomputed in backward, as in ``torch.utils.checkpoint``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from ..engine.arguments import as_callable, as_list
from ..engine.grad_mode import is_grad_enabled
from ..engine.recompute import CheckpointedCall
from ..ops.random.random import get_rng_state, set_rng_state

__all__ = ["checkpoint", "checkpoint_sequential"]


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool = False,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Return function(*args, **kwargs) but save only the arguments; backward reruns the function as far as necessary.

    Calls may be nested, gradients flow to arguments and parameters, and derivatives of any order work. The function
    must do the same in every run; its side effects, such as updates of BatchNorm's running statistics, happen twice.

    Args:
        function: a Module or any other function of Tensors.
        use_reentrant: only False is supported.
        preserve_rng_state: draw the same random numbers in the second run.

    Raises:
        ValueError: use_reentrant is True.
        RuntimeError: in backward, if the second run differs from the first.
    """
    if use_reentrant:
        raise ValueError("checkpoint: use_reentrant=True is not supported; leave it out, the gradients are the same")
    if not is_grad_enabled():
        return function(*args, **kwargs)
    context: Callable[[], AbstractContextManager[Any]] = nullcontext
    if preserve_rng_state:
        state = get_rng_state()
        context = lambda: _random_numbers_from(state)  # noqa: E731
    as_callable("checkpoint", "function", function)
    return CheckpointedCall(function, args, kwargs, context).run()


def checkpoint_sequential(
    functions: Sequence[Callable[..., Any]],
    segments: int,
    input: Any,
    use_reentrant: bool = False,
    preserve_rng_state: bool = True,
) -> Any:
    """Apply functions in sequence, in ``segments`` parts of about equal length; all but the last are checkpointed.

    Args:
        functions: a Sequential, or a list of modules or functions of one argument.

    Raises:
        ValueError: segments is not from 1 to the number of functions; and the errors of ``checkpoint``.
    """
    steps = as_list("checkpoint_sequential", "functions", functions, "a Sequential or a list of functions")
    for place, step in enumerate(steps):
        as_callable("checkpoint_sequential", f"functions[{place}]", step)
    if isinstance(segments, bool) or not isinstance(segments, int) or not 1 <= segments <= len(steps):
        raise ValueError(
            f"checkpoint_sequential: segments={segments!r} must be an int from 1 to {len(steps)} functions"
        )

    def part(start: int, end: int) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for step in steps[start:end]:
                x = step(x)
            return x

        return run

    size = len(steps) // segments
    for start in range(0, size * (segments - 1), size):
        input = checkpoint(
            part(start, start + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state
        )
    return part(size * (segments - 1), len(steps))(input)


@contextmanager
def _random_numbers_from(state: dict[str, Any]) -> Iterator[None]:
    before = get_rng_state()
    set_rng_state(state)
    try:
        yield
    finally:
        set_rng_state(before)
