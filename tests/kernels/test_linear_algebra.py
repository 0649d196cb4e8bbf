"""Linear algebra, Fourier transforms and windows: shared properties, errors, and recorded steps."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import retrograd as rg
from retrograd import linalg
from retrograd.kernel_set import kernels
from retrograd.kernels import textbook
from retrograd.kernels.interface import KERNELS, spec_of
from retrograd.kernels.interface.linear_algebra import LinearAlgebra

NAMES = [name for name in vars(LinearAlgebra) if name in KERNELS]


def calls(dtype: Any) -> dict[str, tuple[Any, ...]]:
    """Arguments for every kernel but ``zero_masked_rows``."""
    random, kind = np.random.default_rng(0), np.dtype(dtype)

    def a(*shape: int) -> np.ndarray:
        return random.uniform(0.5, 2, shape).astype(dtype)

    square, tall, half = a(2, 4, 4), a(2, 5, 3), a(5, 3)
    definite = square @ square.swapaxes(-1, -2) + 4 * np.eye(4, dtype=dtype)
    limit, order = np.zeros((), dtype), np.array([[2, 0, 1], [0, 1, 2]])
    return {
        **dict.fromkeys(("inverse", "determinant", "log_determinant", "cofactors", "matrix_exp"), (square,)),
        **dict.fromkeys(("singular_matrices", "zero_pivot"), (square,)),
        **dict.fromkeys(("cholesky", "bad_minor", "ldl_factor"), (definite,)),
        **dict.fromkeys(("svd", "svd_complement", "geqrf"), (tall,)),
        "solve": (square, a(3, 1, 4, 2)),
        "pseudo_inverse": (tall, limit, limit),
        "singular_rank": (a(2, 3), limit, np.full(2, 0.9, dtype)),
        "singular_values": (tall, False),
        "eigh": (definite, True),
        "qr": (tall, True),
        "lu_factor": (tall, True),
        "lu_order": (np.array([[3, 2], [2, 3]], np.int32), 4),
        "inverse_permutation": (order,),
        "permutation_matrix": (order, kind),
        "ldl_structure": (np.array([[-3, -3, 3], [2, 2, 3]], np.int32),),
        "complex_fft": (a(3, 4, 2), (0, 1), False, 0.5),
        "real_fft": (a(3, 4, 2), 1, True, 0.5),
        "half_sum": (a(3, 4, 2), 1, 7, False, 0.5),
        "half_weights": (6, kind),
        **dict.fromkeys(("fft_frequencies", "rfft_frequencies"), (5, 0.5, kind)),
        **dict.fromkeys(("triangular_window", "sine_window"), (5, 4, kind)),
        "cosine_window": (5, 5, (0.5, 0.5), kind),
        **dict.fromkeys(("exponential_window", "gaussian_window"), (5, 2.0, 1.5, kind)),
        "kaiser_window": (5, 4, 3.0, kind),
        **dict.fromkeys(("is_zero", "signum", "largest", "pair_indices"), (half,)),
        "short_lengths": (half, 1.0),
        "largest_slope": (half, half.max(-1)),
        "causal_bias": (a(2, 3, 4),),
        "mask_bias": (a(2, 3) > 1, kind),
    }


def run(name: str, arguments: tuple[Any, ...]) -> tuple[np.ndarray, ...]:
    found = getattr(textbook, name)(*arguments)
    return found if type(found) is tuple else (found,)


def changed(arguments: tuple[Any, ...], change: Callable[[np.ndarray], np.ndarray]) -> tuple[Any, ...]:
    return tuple(change(value) if isinstance(value, np.ndarray) else value for value in arguments)


def test_every_kernel_is_covered_here() -> None:
    assert {*NAMES} == {*calls(np.float64), "zero_masked_rows"}


@pytest.mark.parametrize("name", calls(np.float64))
class TestEveryKernel:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_has_the_result_that_is_specified(self, name: str, dtype: type) -> None:
        arguments = calls(dtype)[name]
        spec = KERNELS[name].spec
        assert spec is not None
        expected = spec(*spec_of(arguments))
        found = getattr(textbook, name)(*arguments)
        assert spec_of(found) == expected and all(type(each) is np.ndarray for each in run(name, arguments))

    def test_leaves_inputs_alone_and_returns_fresh_arrays(self, name: str) -> None:
        arguments = calls(np.float64)[name]
        before = changed(arguments, np.copy)
        results = run(name, arguments)
        for value, copy in zip(arguments, before, strict=True):
            if isinstance(value, np.ndarray):
                assert_array_equal(value, copy)
                assert not any(np.shares_memory(value, result) for result in results)

    def test_takes_any_strides(self, name: str) -> None:
        arguments = calls(np.float64)[name]
        strided = changed(arguments, lambda value: np.repeat(value.T, 2, axis=-1)[..., ::2].T if value.ndim else value)
        for value, other in zip(run(name, arguments), run(name, strided), strict=True):
            assert_allclose(other, value, rtol=1e-12, atol=1e-14)


# transforms of infinity warn, and so does a negative square
@pytest.mark.parametrize(
    "name", sorted(calls(np.float64).keys() - {"complex_fft", "real_fft", "half_sum", "short_lengths"})
)
def test_no_warning_of_inf_and_nan(name: str) -> None:
    def spoiled(value: np.ndarray) -> np.ndarray:
        bad = np.array([np.inf, np.nan, -np.inf, 0], np.float32)
        return np.resize(bad, value.shape) if value.dtype.kind == "f" else value

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(name, changed(calls(np.float32)[name], spoiled))


GOOD, ZERO = np.array([[2.0, 1.0], [1.0, 2.0]]), np.zeros((2, 2))
SIDE = np.ones((2, 1))


@pytest.mark.parametrize(
    ("name", "arguments"), [("inverse", ()), ("cholesky", ()), ("solve", (SIDE,))], ids=lambda value: str(value)[:9]
)
def test_the_first_matrix_that_is_refused(name: str, arguments: tuple[Any, ...]) -> None:
    kernel = getattr(textbook, name)
    stack = np.array([[GOOD, GOOD, GOOD], [GOOD, ZERO, ZERO]])
    y, first = kernel(stack, *arguments)
    assert first.shape == () and first == 4 and np.isnan(y).all()
    assert spec_of((y, first)) == KERNELS[name].spec(*spec_of((stack, *arguments)))  # type: ignore[misc]
    assert kernel(ZERO, *arguments)[1] == 0 and kernel(GOOD, *arguments)[1] == kernel(stack[0], *arguments)[1] == -1
    assert kernel(stack[:, :0], *arguments)[1] == -1


def test_the_message_names_the_matrix() -> None:
    stack = rg.tensor(np.array([[GOOD, GOOD, GOOD], [GOOD, ZERO, ZERO]]))
    with pytest.raises(linalg.LinAlgError, match=r"inv: the matrix A\[1, 1\] is singular"):
        linalg.inv(stack)
    with pytest.raises(linalg.LinAlgError, match=r"factors of A\[1, 1\] cannot solve equations"):
        linalg.lu_factor(stack)
    assert linalg.lu_factor_ex(stack).info.tolist() == [[0, 0, 0], [0, 1, 1]]


def test_eigenvalues_that_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """LAPACK returns NaN or refuses, depending on its version."""

    def eigh(a: np.ndarray, triangle: str) -> Any:
        if not np.isfinite(a).all():
            raise np.linalg.LinAlgError
        return original(a, triangle)

    original = np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", eigh)
    stack = np.array([GOOD, np.full((2, 2), np.nan)])
    values, vectors, first = textbook.eigh(stack, False)
    assert np.isnan(values).all() and np.isnan(vectors).all() and first == 1
    assert spec_of((values, vectors, first)) == KERNELS["eigh"].spec(*spec_of((stack, False)))  # type: ignore[misc]
    with pytest.raises(linalg.LinAlgError, match=r"eigh: the matrix A\[1\] is not finite"):
        linalg.eigh(rg.tensor(stack))


def test_the_rank_of_a_matrix_that_is_not_finite() -> None:
    stack = rg.tensor(np.array([GOOD, [[1.0, np.nan], [np.nan, 1.0]]]))
    for hermitian in (False, True):
        assert linalg.matrix_rank(stack, hermitian=hermitian).tolist() == [2, 0]


def test_rows_that_are_masked_altogether() -> None:
    x = np.array([[-np.inf, -np.inf], [np.nan, -np.inf], [1.0, -np.inf]])
    y = np.array([[np.nan, np.nan], [np.nan, np.nan], [1.0, 0.0]])
    kernels.zero_masked_rows(y, x)
    assert_array_equal(y, [[0, 0], [np.nan, np.nan], [1, 0]])
    kernels.zero_masked_rows(y[:, :0], x[:, :0])


SQUARE = np.array(
    [[[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]], [[2.0, 0.5, 0.0], [0.5, 5.0, 1.0], [0.0, 1.0, 3.0]]]
)

COMPUTATIONS: dict[str, Callable[[rg.Tensor], rg.Tensor]] = {
    "inv": linalg.inv,
    "solve": lambda x: linalg.solve(x, x[0]),
    "cholesky": lambda x: linalg.cholesky(x).detach(),
    "det": linalg.det,
    "slogdet": lambda x: linalg.slogdet(x).logabsdet,
    "matrix_exp": lambda x: linalg.matrix_exp(x).detach(),
    "pinv": linalg.pinv,
    "matrix_rank": linalg.matrix_rank,
    "svdvals": linalg.svdvals,
    "eigvalsh": linalg.eigvalsh,
    "lu_factor": lambda x: linalg.lu_factor(x).LU.detach(),
    "ldl_factor": lambda x: linalg.ldl_factor(x).LD.detach(),
    "rfft": lambda x: rg.fft.rfft(x),
    "fft2": lambda x: rg.fft.fft2(x[..., :2], dim=(0, 1)),
    "pairwise_distance": lambda x: rg.nn.functional.pairwise_distance(x[0], x[1]),
    "cosine_similarity": lambda x: rg.nn.functional.cosine_similarity(x[0], x[1]),
}


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_steps_run_again(name: str) -> None:
    """Forward and backward, with other elements."""

    def compute() -> tuple[rg.Tensor, ...]:
        y = COMPUTATIONS[name](x)
        return (y, rg.autograd.grad(y, x, rg.ones_like(y))[0]) if y.requires_grad else (y,)

    x = rg.tensor(SQUARE, requires_grad=True)
    steps = rg.record_steps(compute)
    x.detach()[...] = rg.tensor(SQUARE[::-1].copy()) * 1.5
    steps.run()
    for found, expected in zip(steps.result, compute(), strict=True):
        assert_array_equal(found.numpy(force=True), expected.numpy(force=True))


def test_windows_and_frequencies_are_steps() -> None:
    for make, kernel in (
        (lambda: rg.signal.windows.hann(4), "cosine_window"),
        (lambda: rg.fft.fftfreq(4), "fft_frequencies"),
    ):
        assert [step.kernel for step in rg.record_steps(make)] == [kernel]
    assert math.isclose(float(rg.signal.windows.gaussian(1)[0]), 1)
