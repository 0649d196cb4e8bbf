"""The kernel interface: each kernel is in both sets under one signature, and its results match the declaration."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from conformance.test_types import CASES, as_function
from retrograd.formulas import FUSED, POINTWISE
from retrograd.kernel_set import Listener, kernels, use_kernels
from retrograd.kernels import compiled, textbook
from retrograd.kernels.interface import KERNELS, Interface, Kernel, spec_of
from retrograd.testing.function_call import outputs_of

FORMULAS = POINTWISE | FUSED
OUTSIDE = {"get_num_threads", "set_num_threads", "warmup"}  # functions of the compiled set that are not kernels


def parameters(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_has_its_signature_in_both_sets(name: str) -> None:
    kernel = KERNELS[name]
    assert parameters(kernel.declaration) == parameters(getattr(textbook, name))
    if hasattr(compiled, name):  # else the textbook kernel is used
        assert parameters(kernel.declaration) == parameters(getattr(compiled, name))
    assert (kernel.__doc__ or "").strip() and (kernel.spec is None) == bool(kernel.host)
    assert getattr(Interface, name, kernel) is kernel


@pytest.mark.parametrize("name", [name for name, kernel in KERNELS.items() if kernel.spec])
def test_a_specification_takes_the_arguments_by_name(name: str) -> None:
    if name not in FORMULAS and name != "update":  # those take operands in their order
        names = dict.fromkeys(parameters(KERNELS[name].declaration))
        inspect.signature(KERNELS[name].spec).bind(**names)  # type: ignore[arg-type]


@pytest.mark.parametrize(("shape", "over"), [((4, 1), 1), ((4, 1, 3), 2), ((1, 5), 2), ((4, 1, 1), 2)])
def test_statistics_of_layers_of_one_element(shape: tuple[int, ...], over: int) -> None:
    weight = np.ones(shape[-over:], np.float32)
    given = np.ones(shape, np.float32), weight, weight, 1e-5, True
    for kernel in (compiled.layer_norm, textbook.layer_norm):
        assert KERNELS["layer_norm"].spec(*spec_of(given)) == spec_of(kernel(*given))  # type: ignore[misc]


def test_every_kernel_is_listed() -> None:
    assert {*compiled.__all__} - OUTSIDE <= {*KERNELS} == {*textbook.__all__}
    assert isinstance(Interface.softmax, Kernel) and repr(Interface.softmax) == "<kernel softmax>"
    assert {*KERNELS} <= {*dir(kernels)}
    assert callable(kernels.softmax) and kernels.softmax is kernels.softmax


class Checking(Listener):
    """Compares every result with the specification."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.checked: set[str] = set()

    def call(self, name: str, kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        declared = KERNELS.get(name)
        given = spec_of(args), {key: spec_of(value) for key, value in kwargs.items()}
        result = kernel(*args, **kwargs)
        if declared is not None and declared.spec is not None:
            self.checked.add(name)
            expected = declared.spec(*given[0], **given[1])
            if bare(expected) != bare(spec_of(result)):
                self.wrong.append(f"{name}{given}: {spec_of(result)}, said {expected}")
        return result


def bare(spec: Any) -> Any:
    """The specification with lists as tuples."""
    return [bare(each) for each in spec] if isinstance(spec, (tuple, list)) else spec


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kernel_set", ["textbook", pytest.param("compiled", marks=pytest.mark.nightly)])
def test_results_are_as_specified(kernel_set: str) -> None:
    """In all operators of the conformance tables, forward and backward."""
    checking = Checking()
    with use_kernels(kernel_set), checking, np.errstate(all="ignore"):
        for case in CASES:
            if case.form is not as_function or case.label != case.name:
                continue
            tensors = [rg.Tensor(array.copy(), requires_grad=array.dtype.kind == "f") for array in case.call.arrays]
            try:
                results = [y for y in outputs_of(case.form(case.call, tensors)) if y.requires_grad]
                if results:
                    rg.autograd.backward(results, [rg.randn_like(y) for y in results])
            except (TypeError, ValueError, IndexError, RuntimeError, NotImplementedError):
                continue  # entries that test refusals
    assert not checking.wrong, "\n".join(checking.wrong[:20])
    assert len(checking.checked) > 200
