"""gradcheck and gradgradcheck: gradients against central differences, with a report that names the fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .arguments import as_list, as_truth
from .checker import Check, irregular, outputs_of
from .grad_mode import enable_grad
from .report import GradcheckError, GradcheckFault, GradcheckReport
from .sweep import grad
from .tensor import Tensor, wrap

__all__ = ["GradcheckError", "GradcheckFault", "GradcheckReport", "gradcheck", "gradgradcheck"]

_ATOL = 1e-5
_RTOL = 1e-3


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = _ATOL,
    rtol: float = _RTOL,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_layouts: bool = True,
    sharp: bool | None = None,
    surrogate: Callable[..., Any] | None = None,
) -> GradcheckReport:
    """Compare the gradients of `func` with central differences (f(x + eps) - f(x - eps)) / (2 eps), entry by
    entry.

    The whole Jacobian is built from one sweep per output element and two calls per input element, so inputs
    should be small. Then: the function is deterministic; forward and backward modify neither inputs nor
    upstream gradient; a zero upstream gradient gives zero; the gradient is linear in the upstream gradient;
    inputs and upstream gradients with other strides give the same. The inputs may be used through a closure:
    their `array` is replaced during the check.

    Args:
        func: called with the inputs, returns a Tensor or a tuple or list of them; outputs that do not require
            a gradient are not checked.
        inputs: those Tensors among them that require a gradient are checked; they must be float64.
        eps: the step; for a linear function 1 gives exact differences, with atol=1e-12.
        atol, rtol: an entry is right if |analytic - numeric| <= atol + rtol * |numeric|.
        nondet_tol: how much two runs may differ.
        check_layouts: also run with other strides.
        sharp: also fail when a gradient deviates within the tolerances, but far more than the numeric one is
            uncertain, for example by a factor of 1.001. Default: only with tolerances no looser than the
            standard ones.
        surrogate: the function whose gradient `func` declares as its own, as a straight-through estimator does:
            the central differences are those of surrogate(*inputs), which returns outputs of the same shapes.
            Choose inputs away from its kinks.

    Returns:
        The report, which is true if all is right and prints as text.

    Raises:
        GradcheckError: a check failed (raise_exception=True), with the report as its text.
        ValueError: an input or output is not float64, there is nothing to check, or the outputs of the
            surrogate have other shapes.
        TypeError: `func` or the surrogate returns something other than Tensors or cannot be called, or a flag
            is not a bool.
    """
    sharpened = _check_flags("gradcheck", raise_exception, check_layouts, sharp, atol, rtol)
    if isinstance(inputs, Tensor):
        inputs = (inputs,)
    inputs = as_list("gradcheck", "inputs", inputs, "a Tensor or a list of them")
    checked = _check_inputs(inputs, "gradcheck")
    if surrogate is not None and not callable(surrogate):
        raise TypeError(f"gradcheck: surrogate is {type(surrogate).__name__}, expected a function of the inputs")
    check = Check(func, tuple(inputs), checked, eps, atol, rtol, nondet_tol, sharpened, check_layouts, False, surrogate)
    name = "gradcheck" if surrogate is None else "gradcheck against the surrogate"
    return _report(name, check, raise_exception)


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = _ATOL,
    rtol: float = _RTOL,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_layouts: bool = True,
    sharp: bool | None = None,
) -> GradcheckReport:
    """gradcheck of the gradient: second derivatives with respect to the inputs and to the upstream gradients.

    The function checked maps (inputs, grad_outputs) to grad(outputs, inputs, grad_outputs,
    create_graph=True); its outputs are the gradients of the inputs that require one, its inputs are those of
    `func` and then `grad_outputs`.

    Args:
        grad_outputs: the upstream gradients, float64 (default: fixed irregular numbers).
        The others, and what is returned, are those of `gradcheck`.

    Raises:
        GradcheckError, ValueError, TypeError: as `gradcheck`.
    """
    sharpened = _check_flags("gradgradcheck", raise_exception, check_layouts, sharp, atol, rtol)
    if isinstance(inputs, Tensor):
        inputs = (inputs,)
    inputs = tuple(as_list("gradgradcheck", "inputs", inputs, "a Tensor or a list of them"))
    positions = _check_inputs(inputs, "gradgradcheck")
    wanted = [inputs[position] for position in positions]
    with enable_grad():
        outputs = [output for output in outputs_of(func, inputs) if output._requires_grad]
    if not outputs:
        raise ValueError("gradgradcheck: no output of func requires a gradient")
    if grad_outputs is None:
        upstream = [Tensor(irregular(output.shape, 3 + k), requires_grad=True) for k, output in enumerate(outputs)]
    else:
        items = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)
        if len(items) != len(outputs):
            raise ValueError(
                f"gradgradcheck: {len(items)} grad_outputs for {len(outputs)} outputs that require grad; "
                "pass one for each"
            )
        upstream = [Tensor(item.array, requires_grad=True) for item in items]

    def gradient(*arguments: Any) -> tuple[Tensor, ...]:
        values = [output for output in outputs_of(func, arguments[: len(inputs)]) if output._requires_grad]
        gradients = grad(values, wanted, arguments[len(inputs) :], create_graph=True, allow_unused=True)
        return tuple([wrap(np.zeros_like(x.array)) if g is None else g for g, x in zip(gradients, wanted, strict=True)])

    arguments = (*inputs, *upstream)
    positions = [*positions, *range(len(inputs), len(arguments))]
    check = Check(gradient, arguments, positions, eps, atol, rtol, nondet_tol, sharpened, check_layouts, True)
    return _report("gradgradcheck (outputs are the gradients of the inputs)", check, raise_exception)


def _report(name: str, check: Check, raise_exception: bool) -> GradcheckReport:
    report = GradcheckReport(name)
    with _private_arrays(check.inputs), enable_grad():
        report.faults.extend(check.run())
    if raise_exception and report.faults:
        raise GradcheckError(report)
    return report


def _check_flags(caller: str, raise_exception: Any, check_layouts: Any, sharp: Any, atol: float, rtol: float) -> bool:
    """Refuse flags that are not bools; whether to be sharp."""
    as_truth(caller, "raise_exception", raise_exception)
    as_truth(caller, "check_layouts", check_layouts)
    return (atol <= _ATOL and rtol <= _RTOL) if sharp is None else as_truth(caller, "sharp", sharp)


def _check_inputs(inputs: Sequence[Any], caller: str) -> list[int]:
    """The positions of the inputs that require a gradient."""
    positions = []
    for position, item in enumerate(inputs):
        if not isinstance(item, Tensor) or not item._requires_grad:
            continue
        if item.array.dtype != np.float64:
            raise ValueError(
                f"{caller}: inputs[{position}] is {item.array.dtype}; central differences need float64: "
                "Tensor(array.astype(np.float64), requires_grad=True)"
            )
        if item._grad_req == "null":
            raise ValueError(f'{caller}: inputs[{position}] has grad_req "null" and gets no gradient; set it to "add"')
        positions.append(position)
    if not positions:
        raise ValueError(f"{caller}: no input requires a gradient; pass Tensor(array, requires_grad=True)")
    return positions


@contextmanager
def _private_arrays(inputs: Sequence[Any]) -> Iterator[None]:
    """Inside, the tensors hold contiguous copies, so that the caller's arrays are not touched."""
    arrays = {id(item): (item, item.array) for item in inputs if isinstance(item, Tensor)}
    try:
        for item, array in arrays.values():
            item.array = np.array(array, order="C")
        yield
    finally:
        for item, array in arrays.values():
            item.array = array
