"""Linear algebra: against elimination, expansions and polynomials written out here."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import retrograd
from conformance.table import Op, Refusal, normal
from retrograd import linalg

A = normal(2, 4, 4, seed=3)
S = A @ A.swapaxes(-1, -2) / 4 + np.eye(4)
TALL, WIDE = normal(2, 5, 3), normal(2, 3, 5)
B, V = normal(2, 4, 3), normal(2, 4)
ZERO = np.zeros((2, 2))
SQUARES = normal(3, 3, 3) + 3 * np.eye(3)
SINGULAR = np.stack((np.eye(2), ZERO))


def eliminated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x with a x = b, by Gauss-Jordan elimination."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = np.broadcast_to(a, lead + a.shape[-2:]), np.broadcast_to(b, lead + b.shape[-2:])
    y = np.empty(b.shape)
    for place in np.ndindex(b.shape[:-2]):
        n = a.shape[-1]
        rows = np.concatenate((a[place], b[place]), 1)
        for i in range(n):
            pivot = i + abs(rows[i:, i]).argmax()
            rows[[i, pivot]] = rows[[pivot, i]]
            rows[i] /= rows[i, i]
            for j in {*range(n)} - {i}:
                rows[j] -= rows[j, i] * rows[i]
        y[place] = rows[:, n:]
    return y


def inverse(a: np.ndarray) -> np.ndarray:
    return eliminated(a, np.broadcast_to(np.eye(a.shape[-1]), a.shape))


def expanded(a: np.ndarray) -> np.ndarray:
    """The determinant as a sum over permutations."""
    n = a.shape[-1]
    total = np.zeros(a.shape[:-2])
    for order in itertools.permutations(range(n)):
        swaps = sum(order[i] > order[j] for i in range(n) for j in range(i + 1, n))
        total = total + (-1) ** swaps * np.prod([a[..., i, order[i]] for i in range(n)], 0)
    return total


def triangle(a: np.ndarray) -> np.ndarray:
    """The Cholesky factor, element by element."""
    y = np.zeros_like(a)
    for i in range(a.shape[-1]):
        for j in range(i + 1):
            rest = a[..., i, j] - (y[..., i, :j] * y[..., j, :j]).sum(-1)
            y[..., i, j] = rest**0.5 if i == j else rest / y[..., j, j]
    return y


def orthonormal(a: np.ndarray) -> np.ndarray:
    """q of a = q r with a positive diagonal of r, by Gram and Schmidt."""
    columns: list[np.ndarray] = []
    for i in range(min(a.shape[-2:])):
        rest = a[..., i] - sum((a[..., i] * q).sum(-1, keepdims=True) * q for q in columns)
        columns.append(rest / (rest**2).sum(-1, keepdims=True) ** 0.5)
    return np.stack(columns, -1)


def roots(a: np.ndarray) -> np.ndarray:
    """The eigenvalues of symmetric matrices, ascending: roots of the characteristic polynomial of Faddeev-LeVerrier."""
    y = np.empty(a.shape[:-1])
    for place in np.ndindex(a.shape[:-2]):
        n, m, c = a.shape[-1], np.zeros(a.shape[-2:]), [1.0]
        for k in range(1, n + 1):
            m = a[place] @ m + c[-1] * np.eye(n)
            c.append(-np.trace(a[place] @ m) / k)
        y[place] = np.sort(np.roots(c).real)
    return y


def singular(a: np.ndarray) -> np.ndarray:
    small = a if a.shape[-2] < a.shape[-1] else a.swapaxes(-1, -2)
    return roots(small @ small.swapaxes(-1, -2))[..., ::-1] ** 0.5


def pseudo(a: np.ndarray) -> np.ndarray:
    """Of full rank: (aT a)^-1 aT or aT (a aT)^-1."""
    at = a.swapaxes(-1, -2)
    return inverse(at @ a) @ at if a.shape[-2] >= a.shape[-1] else at @ inverse(a @ at)


def series(a: np.ndarray) -> np.ndarray:
    """The exponential: the sum of powers over factorials, of a / 1024, squared ten times."""
    y = term = np.broadcast_to(np.eye(a.shape[-1]), a.shape)
    for k in range(1, 20):
        term = term @ a / (1024.0 * k)
        y = y + term
    for _ in range(10):
        y = y @ y
    return y


def positive(q: Any, r: Any) -> tuple[Any, Any]:
    """q and r with a positive diagonal of r, which makes them unique."""
    sign = r.diagonal(0, -2, -1).sign().detach()
    return q * sign.unsqueeze(-2), r * sign.unsqueeze(-1)


def even(x: Any) -> Any:
    """The symmetric matrix with the lower triangle of x: derivatives along it are those of symmetric matrices."""
    return x.tril() + x.tril(-1).mT if isinstance(x, retrograd.Tensor) else x


REFUSALS = [
    Refusal(ValueError, "must end in a square: (..., N, N)", TALL),
    Refusal(ValueError, "must have at least 2 axes", V[0]),
]

SOLVING = [
    Op("linalg.inv", linalg.inv, A, oracle=inverse, errors=[
        *REFUSALS, Refusal(linalg.LinAlgError, "inv: the matrix A[1] is singular", SINGULAR)
    ]),
    Op("inverse", retrograd.inverse, A, oracle=inverse, errors=[
        Refusal(ValueError, "inverse: input.shape=(2, 5, 3) must end in a square", TALL),
        Refusal(linalg.LinAlgError, "inverse: the matrix is singular, it has no inverse; use linalg.pinv", ZERO),
    ]),
    Op("linalg.inv_ex", lambda x: linalg.inv_ex(x)[0], A, oracle=inverse, errors=REFUSALS),
    Op("linalg.solve", linalg.solve, A, B, oracle=eliminated, batch=(0, 1), errors=[
        Refusal(ValueError, "B.shape=(2, 5, 3) must be (..., 4, K) or (..., 4), for A.shape=(2, 4, 4)", A, TALL),
        Refusal(linalg.LinAlgError, "solve: the matrix A[1] is singular", SINGULAR, ZERO),
    ]),
    Op("linalg.solve: vectors", linalg.solve, A, V, batch=(0, 1),
       oracle=lambda a, b: eliminated(a, b[..., None])[..., 0]),
    Op("linalg.solve: from the right", linalg.solve, A[0], normal(2, 3, 4), kwargs={"left": False}, batch=(1,),
       oracle=lambda a, b, left: eliminated(a.T, b.swapaxes(-1, -2)).swapaxes(-1, -2), errors=[
        Refusal(ValueError, "solve: B.shape=(2, 4, 3) must be (..., K, 4)", A, B, left=False)
    ]),
    Op("linalg.solve_ex", lambda a, b: linalg.solve_ex(a, b)[0], A, B, oracle=eliminated, batch=(0, 1)),
    Op("linalg.solve_triangular", linalg.solve_triangular, A, B, kwargs={"upper": True}, batch=(0, 1), errors=[
        Refusal(ValueError, "solve_triangular: A.shape=(2, 5, 3) must end in a square", TALL, B, upper=True),
        Refusal(linalg.LinAlgError, "solve_triangular: the matrix A[1] is singular", SINGULAR, ZERO, upper=True),
       ], oracle=lambda a, b, upper: eliminated(np.triu(a), b), rtol=1e-8, single=1e-2),
    # a matrix of as many rows as there are matrices is one right side of them all, and not a vector for each
    *[Op(f"{name}: one right side", function, SQUARES, normal(3, 3), batch=(), oracle=oracle)
      for name, function, oracle in (
        ("linalg.solve_triangular", lambda a, b: linalg.solve_triangular(a, b, upper=True),
         lambda a, b: eliminated(np.triu(a), b)),
        ("triangular_solve", lambda a, b: retrograd.triangular_solve(b, a),
         lambda a, b: (eliminated(np.triu(a), b), a)),
        ("cholesky_solve", lambda a, b: retrograd.cholesky_solve(b, a),
         lambda a, b: eliminated(np.tril(a) @ np.tril(a).swapaxes(-1, -2), b)),
    )],
    Op("triangular_solve: one matrix", lambda a, b: retrograd.triangular_solve(b, a), SQUARES[0], normal(2, 3, 4),
       batch=(), oracle=lambda a, b: (eliminated(np.triu(a), b), np.stack((a, a)))),
    Op("linalg.solve_triangular: unit diagonal", linalg.solve_triangular, A, normal(2, 3, 4), batch=(0, 1),
       kwargs={"upper": False, "left": False, "unitriangular": True},
       oracle=lambda a, b, **_: eliminated(
           (np.tril(a, -1) + np.eye(4)).swapaxes(-1, -2), b.swapaxes(-1, -2)
       ).swapaxes(-1, -2)),
    Op("triangular_solve", lambda b, a: retrograd.triangular_solve(b, a, True, True)[0], B, S, batch=(0, 1),
       oracle=lambda b, a: eliminated(np.triu(a).swapaxes(-1, -2), b)),
    Op("cholesky_solve", retrograd.cholesky_solve, B, S, batch=(0, 1),
       oracle=lambda b, a: eliminated(np.tril(a) @ np.tril(a).swapaxes(-1, -2), b)),
    Op("cholesky_inverse", retrograd.cholesky_inverse, S, True,
       oracle=lambda a, _: inverse(np.triu(a).swapaxes(-1, -2) @ np.triu(a)), errors=[
        Refusal(ValueError, "cholesky_inverse: L.shape=(2, 5, 3) must end in a square", TALL)
    ]),
    Op("linalg.pinv", linalg.pinv, TALL, oracle=pseudo, errors=REFUSALS[1:]),
    Op("linalg.pinv: symmetric", linalg.pinv, S, kwargs={"hermitian": True}, oracle=lambda a, hermitian: inverse(a)),
    Op("linalg.pinv: of a lower rank", lambda x: linalg.pinv(x @ x.mT), TALL, batch=(),
       oracle=lambda x: pseudo(x.swapaxes(-1, -2)) @ pseudo(x), rtol=1e-8, single=1e-2),
    Op("linalg.pinv: limits", lambda x, rtol=None: linalg.pinv(x, rtol=rtol), TALL, oracle=pseudo,
       errors=[Refusal(ValueError, "pinv: rtol.shape=(3,) must broadcast to (2,), one for each matrix", TALL, V[0, :3]),
               Refusal(ValueError, "pinv: rtol.shape=(4, 2) must broadcast to (2,), one", TALL, normal(4, 2))]),
    Op("pinverse", retrograd.pinverse, WIDE, oracle=pseudo),
    Op("linalg.lstsq", lambda a, b: linalg.lstsq(a, b, driver="gelsd")[:2], TALL, normal(2, 5, 2), batch=(),
       oracle=lambda a, b: (pseudo(a) @ b, ((a @ pseudo(a) @ b - b) ** 2).sum(-2))),
    Op("linalg.lstsq: no residuals", lambda a, b: linalg.lstsq(a, b)[:2], TALL, normal(2, 5, 2), batch=(),
       oracle=lambda a, b: (pseudo(a) @ b, np.zeros(0))),
    Op("linalg.lstsq: vectors", lambda a, b: linalg.lstsq(a, b)[0], WIDE, normal(2, 3), batch=(0, 1),
       oracle=lambda a, b: (pseudo(a) @ b[..., None])[..., 0]),
    Op("linalg.tensorinv", linalg.tensorinv, normal(6, 2, 3), 1, batch=(),
       oracle=lambda a, _: inverse(a.reshape(6, 6)).reshape(2, 3, 6), errors=[
        Refusal(ValueError, "the first ind=2 extents of A.shape=(2, 5, 3) multiply to 10, the others to 3", TALL),
        Refusal(ValueError, "tensorinv: ind=0 must be an int of at least 1", TALL, 0),
    ]),
    Op("linalg.tensorsolve", linalg.tensorsolve, normal(2, 6, 3), normal(2, 3), (1,), batch=(),
       oracle=lambda a, b, _: eliminated(a.swapaxes(1, 2).reshape(6, 6), b.reshape(6, 1)).ravel(), errors=[
        Refusal(ValueError, "A.shape=(2, 5, 3) must be B.shape=(2, 5, 3) and extents that multiply to 30", TALL, TALL)
    ]),
]  # fmt: skip

DECOMPOSITIONS = [
    Op("linalg.cholesky", lambda x: linalg.cholesky(even(x)), S, oracle=triangle),
    Op("linalg.cholesky: not definite", linalg.cholesky, S, order=0, oracle=triangle, errors=[
        *REFUSALS, Refusal(linalg.LinAlgError, "cholesky: the matrix A[1] is not positive definite; make", SINGULAR)
    ]),
    Op("linalg.cholesky_ex", lambda x: linalg.cholesky_ex(even(x), upper=True)[0], S,
       oracle=lambda a: triangle(a).swapaxes(-1, -2)),
    Op("cholesky", lambda x: retrograd.cholesky(even(x), True), S, oracle=lambda a: triangle(a).swapaxes(-1, -2)),
    Op("linalg.qr", lambda x: positive(*linalg.qr(x)), TALL,
       oracle=lambda a: (orthonormal(a), orthonormal(a).swapaxes(-1, -2) @ a)),
    Op("linalg.qr: wide", lambda x: positive(*linalg.qr(x, "complete")), WIDE,
       oracle=lambda a: (orthonormal(a), orthonormal(a).swapaxes(-1, -2) @ a),),
    Op("linalg.qr: complete", linalg.qr, TALL, "complete", order=0, batch=(), errors=[
        Refusal(ValueError, "qr: mode='full' must be 'reduced', 'complete' or 'r'", TALL, "full")
    ]),
    Op("qr", lambda x: positive(*retrograd.qr(x))[0], TALL, oracle=orthonormal),
    Op("linalg.svd", lambda x: product(*linalg.svd(x, full_matrices=False)), WIDE, oracle=lambda a: a),
    Op("linalg.svd: all columns", lambda x: product(linalg.svd(x)[0][..., :3], *linalg.svd(x)[1:]), TALL, batch=(),
       oracle=lambda a: a),
    Op("linalg.svdvals", linalg.svdvals, TALL, oracle=singular, errors=[
        Refusal(ValueError, "svdvals: driver='gesvd' is for GPUs; there is one device", A, driver="gesvd")
    ]),
    Op("svd", lambda x: product(*retrograd.svd(x)[:2], retrograd.svd(x)[2].mT), TALL, oracle=lambda a: a),
    Op("linalg.eigh", lambda x: assembled(*linalg.eigh(even(x))), S, oracle=lambda a: a),
    Op("linalg.eigvalsh", lambda x: linalg.eigvalsh(even(x), "U"), S, oracle=roots),
    Op("linalg.eigvalsh: other triangle", linalg.eigvalsh, S, order=0, oracle=roots, errors=[
        *REFUSALS, Refusal(ValueError, "eigvalsh: UPLO='M' must be 'L' or 'U'", S, "M")
    ]),
    Op("linalg.matrix_rank", linalg.matrix_rank, np.stack((np.diag([1.0, 2e-3, 0]), np.diag([1.0, 0.5, 2]))), order=0,
       kwargs={"atol": 1e-3}, oracle=lambda a, atol: np.array([2, 3])[: len(a)]),
]  # fmt: skip


def product(u: Any, s: Any, vh: Any) -> Any:
    return (u * s.unsqueeze(-2)) @ vh


def assembled(values: Any, vectors: Any) -> Any:
    return (vectors * values.unsqueeze(-2)) @ vectors.mT


def norms(a: np.ndarray, p: float) -> np.ndarray:
    return abs(a).sum(-2 if p == 1 else -1).max(-1)


FUNCTIONS = [
    *[Op(name, function, A, oracle=expanded, errors=REFUSALS[:1]) for name, function in (
        ("linalg.det", linalg.det), ("det", retrograd.det),
    )],
    Op("linalg.det: singular", linalg.det, np.where(np.eye(4) > 0, A, A[:, :1, :]) * [1, 1, 1, 0], order=1, batch=(),
       oracle=expanded),
    *[Op(name, lambda x, function=function: (function(x).sign, function(x).logabsdet), A,
         oracle=lambda a: (np.sign(expanded(a)), np.log(abs(expanded(a))))) for name, function in (
        ("linalg.slogdet", linalg.slogdet), ("slogdet", retrograd.slogdet),
    )],
    Op("logdet", retrograd.logdet, S, oracle=lambda a: np.log(expanded(a))),
    *[Op(name, function, A, oracle=series, errors=REFUSALS[:1]) for name, function in (
        ("linalg.matrix_exp", linalg.matrix_exp), ("matrix_exp", retrograd.matrix_exp),
    )],
    Op("linalg.matrix_exp: far", linalg.matrix_exp, A * np.array([[[0.01]], [[8.0]]]), oracle=series, rtol=1e-8),
    *[Op(name, function, A, 5, oracle=lambda a, n: a @ a @ a @ a @ a) for name, function in (
        ("linalg.matrix_power", linalg.matrix_power), ("matrix_power", retrograd.matrix_power),
    )],
    Op("linalg.matrix_power: inverse", linalg.matrix_power, S, -2,
       oracle=lambda a, n: inverse(a) @ inverse(a), errors=[
        Refusal(linalg.LinAlgError, "matrix_power: the matrix A[1] is singular", SINGULAR, -1),
        Refusal(TypeError, "matrix_power: n=0.5 must be an int", S, 0.5),
    ]),
    Op("linalg.matrix_power: none", linalg.matrix_power, S, 0, oracle=lambda a, n: 0 * a + np.eye(4)),
    Op("linalg.multi_dot", lambda *x: linalg.multi_dot(x), normal(5), TALL[0], WIDE[0], normal(5, 2), batch=(),
       oracle=lambda a, b, c, d: ((a @ b) @ c) @ d, errors=[
        Refusal(ValueError, "multi_dot: 1 tensors are given, needs at least 2", TALL[0]),
        Refusal(ValueError, "tensors[0].shape=(5, 3) and tensors[1].shape=(5, 3) do not fit: 3 and 5 must", *TALL),
        Refusal(ValueError, "tensors[1].shape=(4,) must be a matrix, or a vector at an end", WIDE[0], V[0], TALL[0]),
    ]),
    Op("chain_matmul", retrograd.chain_matmul, TALL[0], WIDE[0], normal(5, 2), batch=(),
       oracle=lambda a, b, c: a @ b @ c),
    Op("linalg.cond", linalg.cond, TALL, oracle=lambda a: singular(a)[..., 0] / singular(a)[..., -1], errors=[
        Refusal(ValueError, "cond: p='l2' must be None or one of 'fro', 'nuc'", A, "l2"),
    ]),
    Op("linalg.cond: 1", linalg.cond, A, 1, oracle=lambda a, p: norms(a, p) * norms(inverse(a), p)),
    Op("linalg.cond: singular", linalg.cond, SINGULAR, np.inf, order=0, batch=(),
       oracle=lambda a, p: np.array([1, np.inf])),
    *[Op(f"linalg.cond: no elements, {p}", linalg.cond, np.zeros((2, 0, 0)), p, oracle=lambda a, p: np.zeros(len(a)))
      for p in (None, -2, "fro", 1)],
    Op("linalg.vecdot", linalg.vecdot, A, A[0], kwargs={"dim": 1}, batch=(0,), oracle=lambda a, b, dim: (a * b).sum(1)),
    Op("linalg.vecdot: numbers", linalg.vecdot, np.array(2.0), np.array(-3.0), batch=(), oracle=lambda a, b: a * b),
    Op("linalg.cross", linalg.cross, TALL, TALL[:1], oracle=np.cross, batch=(0,)),
    Op("linalg.diagonal", linalg.diagonal, A, kwargs={"offset": 1},
       oracle=lambda a, offset: np.stack([a[:, i, i + 1] for i in range(3)], -1), linear=True),
    Op("linalg.vander", linalg.vander, V, kwargs={"N": 3},
       oracle=lambda x, N: x[..., None] ** np.arange(3.0), errors=[
        Refusal(ValueError, "vander: N=0 must be at least 1", V, N=0)
    ]),
    Op("linalg.vander: a number", linalg.vander, np.array(3.0), kwargs={"N": 3}, batch=(),
       oracle=lambda x, N: np.array([[1, x, x * x]])),
    *[Op(f"{name}: truth values", lambda x, function=function: function(x, N=3), np.array([True, False]), batch=(),
         oracle=lambda x, name=name: np.array([[1, 1, 1], [1, 0, 0]])[:, :: 1 if "." in name else -1])
      for name, function in (("linalg.vander", linalg.vander), ("vander", retrograd.vander))],
    Op("vander", retrograd.vander, V[0], 3, oracle=lambda x, n: x[:, None] ** np.array([2.0, 1, 0]), errors=[
        Refusal(ValueError, "vander: x.shape=(2, 4) must have one axis", V),
        Refusal(ValueError, "vander: N=-1 must be at least 0", V[0], -1),
    ]),
    Op("vander: increasing", retrograd.vander, V[0], None, True, batch=(),
       oracle=lambda x, *_: x[:, None] ** np.arange(4)),
    Op("linalg.matmul", linalg.matmul, A, B, batch=(0, 1),
       oracle=lambda a, b: (a[..., None] * b[..., None, :, :]).sum(-2)),
    Op("linalg.norm", linalg.norm, A, oracle=lambda a: (a**2).sum() ** 0.5, batch=()),
    Op("linalg.vector_norm", linalg.vector_norm, A, 3, 1, oracle=lambda a, p, d: (abs(a) ** 3).sum(1) ** (1 / 3)),
    Op("linalg.matrix_norm", linalg.matrix_norm, A, 1, oracle=norms),
]  # fmt: skip

OPERATORS = [*SOLVING, *DECOMPOSITIONS, *FUNCTIONS]
