"""Linear algebra: values, gradients and second gradients, and functions without gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd
from peers.compare import assert_agree, assert_close, normal

A, B, V = normal(2, 4, 4), normal(2, 4, 3), normal(2, 4)
S = A @ A.swapaxes(-1, -2) + 4 * np.eye(4)
TALL, WIDE = normal(5, 3), normal(3, 5)


def even(x: Any) -> Any:
    return (x + x.mT) / 2


CALLS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "inv": (lambda m, x: m.linalg.inv(x), (A,)),
    "inverse": (lambda m, x: x.inverse(), (A,)),
    "solve": (lambda m, x, y: m.linalg.solve(x, y), (A, B)),
    "solve, vectors": (lambda m, x, y: m.linalg.solve(x, y), (A, V)),
    "solve, from the right": (lambda m, x, y: m.linalg.solve(x, y, left=False), (A, normal(2, 3, 4))),
    "solve, broadcast": (lambda m, x, y: m.linalg.solve(x, y), (A[0], B)),
    "solve_triangular": (lambda m, x, y: m.linalg.solve_triangular(x, y, upper=True), (A, B)),
    "solve_triangular, 1": (lambda m, x, y: m.linalg.solve_triangular(x, y, upper=False, unitriangular=True), (A, B)),
    "triangular_solve": (lambda m, x, y: m.triangular_solve(y, x, transpose=True)[0], (A, B)),
    "cholesky": (lambda m, x: m.linalg.cholesky(x), (S,)),
    "cholesky, upper": (lambda m, x: m.linalg.cholesky(x, upper=True), (S,)),
    "torch.cholesky": (lambda m, x: m.linalg.cholesky_ex(x).L, (S,)),
    "cholesky_solve": (lambda m, x, y: m.cholesky_solve(x, y.tril()), (B, S)),
    "cholesky_inverse": (lambda m, x: m.cholesky_inverse(x.triu(), upper=True), (S,)),
    "pinv": (lambda m, x: m.linalg.pinv(x), (TALL,)),
    "pinv, symmetric": (lambda m, x: m.linalg.pinv(even(x), hermitian=True), (S,)),
    "pinverse": (lambda m, x: m.pinverse(x), (WIDE,)),
    "lstsq": (lambda m, x, y: m.linalg.lstsq(x, y).solution, (TALL, normal(5, 2))),
    "qr, q": (lambda m, x: m.linalg.qr(x)[0], (TALL,)),
    "qr, r": (lambda m, x: m.linalg.qr(x).R, (TALL,)),
    "qr, wide": (lambda m, x: m.linalg.qr(x)[1], (WIDE,)),
    "qr, complete": (lambda m, x: m.linalg.qr(x, "complete")[0], (WIDE,)),
    "lu, l": (lambda m, x: m.linalg.lu(x).L, (A,)),
    "lu, u": (lambda m, x: m.linalg.lu(x)[2], (A,)),
    "lu, wide": (lambda m, x: m.linalg.lu(x)[2], (WIDE,)),
    "lu, tall": (lambda m, x: m.linalg.lu(x)[1], (TALL,)),
    "lu, large": (lambda m, x: m.linalg.lu(x).U, (normal(70, 60),)),
    "lu_factor": (lambda m, x: m.linalg.lu_factor(x).LU, (A,)),
    "lu_factor_ex": (lambda m, x: m.linalg.lu_factor_ex(x).LU, (TALL,)),
    "torch.lu": (lambda m, x: m.lu(x)[0], (WIDE,)),
    "x.lu": (lambda m, x: x.lu(get_infos=True)[0], (A,)),
    "lu_unpack": (lambda m, x: m.lu_unpack(*m.linalg.lu_factor(x)).L, (A,)),
    "lu_solve": (lambda m, x, y: m.linalg.lu_solve(*m.linalg.lu_factor(x), y), (A, B)),
    "lu_solve, adjoint": (lambda m, x, y: m.linalg.lu_solve(*m.linalg.lu_factor(x), y, adjoint=True), (A[0], B)),
    "lu_solve, right": (lambda m, x, y: m.linalg.lu_solve(*m.linalg.lu_factor(x), y.mT, left=False), (A, B)),
    "torch.lu_solve": (lambda m, x, y: m.lu_solve(y, *m.linalg.lu_factor(x)), (A, B)),
    "x.lu_solve": (lambda m, x, y: y.lu_solve(*x.lu()), (A, B)),
    "householder_product": (lambda m, x, y: m.linalg.householder_product(x, y), (TALL, normal(3))),
    "orgqr": (lambda m, x, y: m.orgqr(x, y) + x.orgqr(y), (normal(2, 5, 3), normal(2, 2))),
    "ormqr": (lambda m, x, y, z: m.ormqr(x, y, z), (TALL, normal(3), normal(5, 2))),
    "ormqr, right": (lambda m, x, y, z: x.ormqr(y, z, False, True), (TALL, normal(3), normal(2, 5))),
    "eigh": (lambda m, x: m.linalg.eigh(even(x))[0], (A,)),
    "eigh, vectors": (lambda m, x: m.linalg.eigh(even(x), "U").eigenvectors ** 2, (A,)),
    "svd": (lambda m, x: m.linalg.svd(x).S, (TALL,)),
    "svd, u": (lambda m, x: m.linalg.svd(x, full_matrices=False)[0] ** 2, (TALL,)),
    "svd, vh": (lambda m, x: m.linalg.svd(x, full_matrices=False)[2] ** 2, (WIDE,)),
    "torch.svd": (lambda m, x: x.svd()[2] ** 2, (WIDE,)),
    "svdvals": (lambda m, x: m.linalg.svdvals(x), (WIDE,)),
    "det": (lambda m, x: m.det(x), (A,)),
    "slogdet": (lambda m, x: m.linalg.slogdet(x).logabsdet, (A,)),
    "logdet": (lambda m, x: m.logdet(x), (S,)),
    "matrix_exp": (lambda m, x: m.matrix_exp(x), (A,)),
    "matrix_exp, far": (lambda m, x: m.linalg.matrix_exp(x * 10), (A,)),
    "matrix_power": (lambda m, x: m.matrix_power(x, 5), (A,)),
    "matrix_power, 0": (lambda m, x: m.matrix_power(x, 0) * x, (A,)),
    "solve_triangular, one right side": (
        lambda m, x, y: m.linalg.solve_triangular(x, y, upper=True),
        (A[:, :2, :2], B[0, :2]),
    ),
    "triangular_solve, one right side": (lambda m, x, y: m.triangular_solve(y, x)[0], (A[:, :2, :2], B[0, :2])),
    "cholesky_solve, one right side": (lambda m, x, y: m.cholesky_solve(x, y.tril()), (B[0, :2], S[:, :2, :2])),
    "matrix_power, inverse": (lambda m, x: m.linalg.matrix_power(x, -3), (A,)),
    "multi_dot": (lambda m, x, y, z: m.linalg.multi_dot([x, y, z]), (TALL, WIDE, normal(5))),
    "cond": (lambda m, x: m.linalg.cond(x), (TALL,)),
    "vecdot": (lambda m, x, y: m.linalg.vecdot(x, y, dim=1), (A, A[0])),
    "cross": (lambda m, x, y: m.linalg.cross(x, y), (TALL, TALL[:1])),
    "diagonal": (lambda m, x: m.linalg.diagonal(x, offset=-1), (A,)),
    "vander": (lambda m, x: m.linalg.vander(x, N=4), (V,)),
    "tensorinv": (lambda m, x: m.linalg.tensorinv(x, ind=1), (normal(6, 2, 3),)),
    "tensorsolve": (lambda m, x, y: m.linalg.tensorsolve(x, y, (1,)), (normal(2, 6, 3), normal(2, 3))),
}


@pytest.mark.filterwarnings("ignore:torch.(triangular_solve|lu|lu_solve) is deprecated")
@pytest.mark.parametrize("name", CALLS)
def test_linalg(name: str) -> None:
    call, arrays = CALLS[name]
    assert_agree(lambda *x: call(retrograd, *x), lambda *x: call(torch, *x), *arrays, tolerance=1e-9)


EMPTY = np.zeros((0, 2, 2))
TRACKED: dict[str, tuple[Callable[[Any, Any], Any], np.ndarray]] = {
    "slogdet": (lambda m, x: m.linalg.slogdet(x), A),
    "slogdet of none": (lambda m, x: m.linalg.slogdet(x), EMPTY),
    "slogdet of no elements": (lambda m, x: m.slogdet(x), np.zeros((0, 0))),
    "matrix_power, 0": (lambda m, x: m.matrix_power(x, 0), A),
    "lstsq": (lambda m, x: m.linalg.lstsq(x, x[..., :1]), TALL),
    "lstsq, the right side alone": (lambda m, x: m.linalg.lstsq(x.detach(), x), TALL),
    "lstsq, residuals": (lambda m, x: m.linalg.lstsq(x, x[..., :1], driver="gelsd"), TALL),
    "lstsq, no driver": (lambda m, x: m.linalg.lstsq(x, x), WIDE),
    "cholesky_ex": (lambda m, x: m.linalg.cholesky_ex(x), S),
    "inv_ex": (lambda m, x: m.linalg.inv_ex(x), A),
    "solve_ex": (lambda m, x: m.linalg.solve_ex(x, x), A),
    "svd": (lambda m, x: m.linalg.svd(x), TALL),
    "eigh": (lambda m, x: m.linalg.eigh(x), S),
    "qr": (lambda m, x: m.linalg.qr(x), TALL),
    "cond": (lambda m, x: (m.linalg.cond(x),), A),
    "unique": (lambda m, x: m.unique(x, return_inverse=True, return_counts=True), V),
    "unique_consecutive": (lambda m, x: m.unique_consecutive(x, return_inverse=True, return_counts=True), V),
    "frexp": (lambda m, x: m.frexp(x), V),
    "nextafter": (lambda m, x: (m.nextafter(x, x.detach() + 1),), V),
    "sort": (lambda m, x: m.sort(x), V),
    "mode": (lambda m, x: m.mode(x), V),
    "var_mean": (lambda m, x: m.var_mean(x), V),
}


@pytest.mark.parametrize("name", TRACKED)
def test_which_results_require_a_gradient(name: str) -> None:
    call, array = TRACKED[name]
    ours = call(retrograd, retrograd.tensor(array, requires_grad=True))
    theirs = call(torch, torch.tensor(array, requires_grad=True))
    assert [tuple(y.shape) for y in ours] == [tuple(y.shape) for y in theirs]
    assert [y.requires_grad for y in ours] == [y.requires_grad for y in theirs]


SINGULAR = np.stack((np.diag([3.0, 2, 1]), np.diag([3.0, 0, 1])))
NO_GRADIENT: dict[str, Callable[[Any, Any], Any]] = {
    "lu": lambda m, x: m.linalg.lu(x).P,
    "lu_factor_ex": lambda m, x: m.linalg.lu_factor_ex(x).LU,
    "lu_factor_ex, pivots": lambda m, x: m.linalg.lu_factor_ex(x.flip(1)).pivots,
    "lu_factor_ex, info": lambda m, x: m.linalg.lu_factor_ex(x).info,
    "lu, infos": lambda m, x: x[0, :2].lu(get_infos=True)[2],
    "lu_unpack": lambda m, x: m.lu_unpack(*m.linalg.lu_factor_ex(x[:, :2])[:2], unpack_data=False).P,
    "lu_unpack, nothing": lambda m, x: m.lu_unpack(*m.linalg.lu_factor_ex(x)[:2], True, False)[0],
    "geqrf": lambda m, x: m.geqrf(x.cumsum(1)).a,
    "geqrf, tau": lambda m, x: x.cumsum(1)[:, :2].geqrf().tau,
    "ldl_factor_ex, info": lambda m, x: m.linalg.ldl_factor_ex(x).info,
    "cond 1": lambda m, x: m.linalg.cond(x[0], 1),
    "cond fro": lambda m, x: m.linalg.cond(x, "fro"),
    "inv_ex": lambda m, x: m.linalg.inv_ex(x).info != 0,
    "solve_ex": lambda m, x: m.linalg.solve_ex(x, x).info != 0,
    "cholesky_ex": lambda m, x: m.linalg.cholesky_ex(x).info != 0,
    "det": lambda m, x: m.linalg.det(x),
    "slogdet": lambda m, x: m.linalg.slogdet(x).logabsdet,
    "matrix_rank": lambda m, x: m.linalg.matrix_rank(x),
    "matrix_rank, limit": lambda m, x: m.linalg.matrix_rank(x, atol=1.5),
    "matrix_rank, old limit": lambda m, x: m.linalg.matrix_rank(x, 1.5, True),
    "pinv": lambda m, x: m.linalg.pinv(x),
    "pinv, limit": lambda m, x: m.linalg.pinv(x, rtol=0.5),
    "svd": lambda m, x: m.linalg.svd(x[:, :2]).Vh.abs(),
    "lstsq": lambda m, x: m.linalg.lstsq(x[:, :, :2], x[:, :, 2:], driver="gelsd").singular_values,
    "lstsq, rank": lambda m, x: m.linalg.lstsq(x[:, :, :2], x[:, :, 2:]).rank,
    "lstsq, residuals": lambda m, x: m.linalg.lstsq(x[0, :, :2], x[1, :, 1:], driver="gels").residuals,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NO_GRADIENT)
def test_singular_matrices(name: str, dtype: type) -> None:
    call, x = NO_GRADIENT[name], SINGULAR.astype(dtype)
    assert_close(call(retrograd, retrograd.tensor(x)), call(torch, torch.tensor(x)), name)


def test_the_sign_of_a_determinant_has_a_gradient_of_0() -> None:
    x = retrograd.tensor(A, requires_grad=True)
    sign, _ = retrograd.linalg.slogdet(x)
    (found,) = retrograd.autograd.grad(sign, x, retrograd.tensor([2.0, -3.0]).double())
    np.testing.assert_array_equal(found.array, np.zeros_like(A))
    singular = retrograd.zeros(2, 2, requires_grad=True)
    (found,) = retrograd.autograd.grad(retrograd.linalg.slogdet(singular).sign, singular)
    np.testing.assert_array_equal(found.array, np.zeros((2, 2)))


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (40, 5, 5), (3, 12, 12), (0, 3, 3), (2, 0, 0)], ids=str)
def test_ldl(shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    x = (x + x.swapaxes(-1, -2)) * np.where(np.eye(shape[-1]) > 0, 0.1, 1)  # most have blocks of two rows
    right = normal(*shape[:-1], 2)
    found, wanted = (m.linalg.ldl_factor(m.tensor(x)) for m in (retrograd, torch))
    assert_close(found.LD, wanted.LD, "LD", tolerance=1e-8)
    assert_close(found.pivots, wanted.pivots, "pivots")
    ours, theirs = retrograd.linalg.ldl_solve(*found, retrograd.tensor(right)), torch.tensor(right)
    assert_close(ours, torch.linalg.ldl_solve(*wanted, theirs) if x.size else theirs, "ldl_solve", tolerance=1e-7)
