"""Cases of linear algebra, against elimination, expansions and polynomials written out here."""

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
    Refusal(ValueError, "must end in equal extents: (..., N, N)", TALL),
    Refusal(ValueError, "must have at least 2 axes", V[0]),
]

SOLVING = [
    Op(
        "linalg.inv",
        linalg.inv,
        A,
        oracle=inverse,
        errors=[*REFUSALS, Refusal(linalg.LinAlgError, "inv: the matrix A[1] is singular", SINGULAR)],
    ),
    Op(
        "inverse",
        retrograd.inverse,
        A,
        oracle=inverse,
        errors=[
            Refusal(ValueError, "inverse: input.shape=(2, 5, 3) must end in equal extents", TALL),
            Refusal(linalg.LinAlgError, "inverse: the matrix is singular and has no inverse; use linalg.pinv", ZERO),
        ],
    ),
    Op("linalg.inv_ex", lambda x: linalg.inv_ex(x)[0], A, oracle=inverse, errors=REFUSALS),
    Op(
        "linalg.solve",
        linalg.solve,
        A,
        B,
        oracle=eliminated,
        batch=(0, 1),
        errors=[
            Refusal(ValueError, "B.shape=(2, 5, 3) must be (..., 4, K) or (..., 4), for A.shape=(2, 4, 4)", A, TALL),
            Refusal(linalg.LinAlgError, "solve: the matrix A[1] is singular", SINGULAR, ZERO),
        ],
    ),
    Op(
        "linalg.solve: vectors",
        linalg.solve,
        A,
        V,
        batch=(0, 1),
        oracle=lambda a, b: eliminated(a, b[..., None])[..., 0],
    ),
    Op(
        "linalg.solve: from the right",
        linalg.solve,
        A[0],
        normal(2, 3, 4),
        kwargs={"left": False},
        batch=(1,),
        oracle=lambda a, b, left: eliminated(a.T, b.swapaxes(-1, -2)).swapaxes(-1, -2),
        errors=[Refusal(ValueError, "solve: B.shape=(2, 4, 3) must be (..., K, 4)", A, B, left=False)],
    ),
    Op("linalg.solve_ex", lambda a, b: linalg.solve_ex(a, b)[0], A, B, oracle=eliminated, batch=(0, 1)),
    Op(
        "linalg.solve_triangular",
        linalg.solve_triangular,
        A,
        B,
        kwargs={"upper": True},
        batch=(0, 1),
        errors=[
            Refusal(ValueError, "solve_triangular: A.shape=(2, 5, 3) must end in equal extents", TALL, B, upper=True),
            Refusal(linalg.LinAlgError, "solve_triangular: the matrix A[1] is singular", SINGULAR, ZERO, upper=True),
        ],
        oracle=lambda a, b, upper: eliminated(np.triu(a), b),
        rtol=1e-8,
        single=1e-2,
    ),
    # a matrix of as many rows as there are matrices is one right side of them all, and not a vector for each
    *[
        Op(f"{name}: one right side", function, SQUARES, normal(3, 3), batch=(), oracle=oracle)
        for name, function, oracle in (
            (
                "linalg.solve_triangular",
                lambda a, b: linalg.solve_triangular(a, b, upper=True),
                lambda a, b: eliminated(np.triu(a), b),
            ),
            (
                "triangular_solve",
                lambda a, b: retrograd.triangular_solve(b, a),
                lambda a, b: (eliminated(np.triu(a), b), a),
            ),
            (
                "cholesky_solve",
                lambda a, b: retrograd.cholesky_solve(b, a),
                lambda a, b: eliminated(np.tril(a) @ np.tril(a).swapaxes(-1, -2), b),
            ),
        )
    ],
    Op(
        "triangular_solve: one matrix",
        lambda a, b: retrograd.triangular_solve(b, a),
        SQUARES[0],
        normal(2, 3, 4),
        batch=(),
        oracle=lambda a, b: (eliminated(np.triu(a), b), np.stack((a, a))),
    ),
    Op(
        "linalg.solve_triangular: unit diagonal",
        linalg.solve_triangular,
        A,
        normal(2, 3, 4),
        batch=(0, 1),
        kwargs={"upper": False, "left": False, "unitriangular": True},
        oracle=lambda a, b, **_: eliminated((np.tril(a, -1) + np.eye(4)).swapaxes(-1, -2), b.swapaxes(-1, -2)).swapaxes(
            -1, -2
        ),
    ),
    Op(
        "triangular_solve",
        lambda b, a: retrograd.triangular_solve(b, a, True, True)[0],
        B,
        S,
        batch=(0, 1),
        oracle=lambda b, a: eliminated(np.triu(a).swapaxes(-1, -2), b),
    ),
    Op(
        "cholesky_solve",
        retrograd.cholesky_solve,
        B,
        S,
        batch=(0, 1),
        oracle=lambda b, a: eliminated(np.tril(a) @ np.tril(a).swapaxes(-1, -2), b),
    ),
    Op(
        "cholesky_inverse",
        retrograd.cholesky_inverse,
        S,
        True,
        oracle=lambda a, _: inverse(np.triu(a).swapaxes(-1, -2) @ np.triu(a)),
        errors=[Refusal(ValueError, "cholesky_inverse: L.shape=(2, 5, 3) must end in equal extents", TALL)],
    ),
    Op("linalg.pinv", linalg.pinv, TALL, oracle=pseudo, errors=REFUSALS[1:]),
    Op("linalg.pinv: symmetric", linalg.pinv, S, kwargs={"hermitian": True}, oracle=lambda a, hermitian: inverse(a)),
    Op(
        "linalg.pinv: of a lower rank",
        lambda x: linalg.pinv(x @ retrograd.transpose(x, -1, -2)),
        TALL,
        batch=(),
        oracle=lambda x: pseudo(x.swapaxes(-1, -2)) @ pseudo(x),
        rtol=1e-8,
        single=1e-2,
    ),
    Op(
        "linalg.pinv: limits",
        lambda x, rtol=None: linalg.pinv(x, rtol=rtol),
        TALL,
        oracle=pseudo,
        errors=[
            Refusal(ValueError, "pinv: rtol.shape=(3,) must broadcast to (2,), one for each matrix", TALL, V[0, :3]),
            Refusal(ValueError, "pinv: rtol.shape=(4, 2) must broadcast to (2,), one", TALL, normal(4, 2)),
        ],
    ),
    Op("pinverse", retrograd.pinverse, WIDE, oracle=pseudo),
    Op(
        "linalg.lstsq",
        lambda a, b: linalg.lstsq(a, b, driver="gelsd")[:2],
        TALL,
        normal(2, 5, 2),
        batch=(),
        oracle=lambda a, b: (pseudo(a) @ b, ((a @ pseudo(a) @ b - b) ** 2).sum(-2)),
    ),
    Op(
        "linalg.lstsq: no residuals",
        lambda a, b: linalg.lstsq(a, b)[:2],
        TALL,
        normal(2, 5, 2),
        batch=(),
        oracle=lambda a, b: (pseudo(a) @ b, np.zeros(0)),
    ),
    Op(
        "linalg.lstsq: vectors",
        lambda a, b: linalg.lstsq(a, b)[0],
        WIDE,
        normal(2, 3),
        batch=(0, 1),
        oracle=lambda a, b: (pseudo(a) @ b[..., None])[..., 0],
    ),
    Op(
        "linalg.tensorinv",
        linalg.tensorinv,
        normal(6, 2, 3),
        1,
        batch=(),
        oracle=lambda a, _: inverse(a.reshape(6, 6)).reshape(2, 3, 6),
        errors=[
            Refusal(ValueError, "the first ind=2 extents of A.shape=(2, 5, 3) multiply to 10, the others to 3", TALL),
            Refusal(ValueError, "tensorinv: ind=0 must be an int of at least 1", TALL, 0),
        ],
    ),
    Op(
        "linalg.tensorsolve",
        linalg.tensorsolve,
        normal(2, 6, 3),
        normal(2, 3),
        (1,),
        batch=(),
        oracle=lambda a, b, _: eliminated(a.swapaxes(1, 2).reshape(6, 6), b.reshape(6, 1)).ravel(),
        errors=[
            Refusal(ValueError, "A.shape=(2, 5, 3) must be B.shape=(2, 5, 3) followed by extents that", TALL, TALL)
        ],
    ),
]

DECOMPOSITIONS = [
    Op("linalg.cholesky", lambda x: linalg.cholesky(even(x)), S, oracle=triangle),
    Op(
        "linalg.cholesky: not definite",
        linalg.cholesky,
        S,
        order=0,
        oracle=triangle,
        errors=[
            *REFUSALS,
            Refusal(linalg.LinAlgError, "cholesky: the matrix A[1] is not positive definite; make", SINGULAR),
        ],
    ),
    Op(
        "linalg.cholesky_ex",
        lambda x: linalg.cholesky_ex(even(x), upper=True)[0],
        S,
        oracle=lambda a: triangle(a).swapaxes(-1, -2),
    ),
    Op("cholesky", lambda x: retrograd.cholesky(even(x), True), S, oracle=lambda a: triangle(a).swapaxes(-1, -2)),
    Op(
        "linalg.qr",
        lambda x: positive(*linalg.qr(x)),
        TALL,
        oracle=lambda a: (orthonormal(a), orthonormal(a).swapaxes(-1, -2) @ a),
    ),
    Op(
        "linalg.qr: wide",
        lambda x: positive(*linalg.qr(x, "complete")),
        WIDE,
        oracle=lambda a: (orthonormal(a), orthonormal(a).swapaxes(-1, -2) @ a),
    ),
    Op(
        "linalg.qr: complete",
        linalg.qr,
        TALL,
        "complete",
        order=0,
        batch=(),
        errors=[Refusal(ValueError, "qr: mode='full' must be 'reduced', 'complete' or 'r'", TALL, "full")],
    ),
    Op("qr", lambda x: positive(*retrograd.qr(x))[0], TALL, oracle=orthonormal),
    Op("linalg.svd", lambda x: product(*linalg.svd(x, full_matrices=False)), WIDE, oracle=lambda a: a),
    Op(
        "linalg.svd: all columns",
        lambda x: product(linalg.svd(x)[0][..., :3], *linalg.svd(x)[1:]),
        TALL,
        batch=(),
        oracle=lambda a: a,
    ),
    Op(
        "linalg.svdvals",
        linalg.svdvals,
        TALL,
        oracle=singular,
        errors=[Refusal(ValueError, "svdvals: driver='gesvd' is for GPUs; there is one device", A, driver="gesvd")],
    ),
    Op("svd", lambda x: product(*retrograd.svd(x)[:2], retrograd.svd(x)[2].mT), TALL, oracle=lambda a: a),
    Op("linalg.eigh", lambda x: assembled(*linalg.eigh(even(x))), S, oracle=lambda a: a),
    Op("linalg.eigvalsh", lambda x: linalg.eigvalsh(even(x), "U"), S, oracle=roots),
    Op(
        "linalg.eigvalsh: other triangle",
        linalg.eigvalsh,
        S,
        order=0,
        oracle=roots,
        errors=[*REFUSALS, Refusal(ValueError, "eigvalsh: UPLO='M' must be 'L' or 'U'", S, "M")],
    ),
    Op(
        "linalg.matrix_rank",
        linalg.matrix_rank,
        np.stack((np.diag([1.0, 2e-3, 0]), np.diag([1.0, 0.5, 2]))),
        order=0,
        kwargs={"atol": 1e-3},
        oracle=lambda a, atol: np.array([2, 3])[: len(a)],
    ),
]


def pivoted(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P, L and U by elimination, and the row with the largest element exchanged with row j in step j."""
    m, n = a.shape[-2:]
    k = min(m, n)
    p, lower, upper = (np.zeros((*a.shape[:-2], *size)) for size in ((m, m), (m, k), (k, n)))
    for place in np.ndindex(a.shape[:-2]):
        rows, rest = list(range(m)), a[place].copy()
        for j in range(k):
            best = max(range(j, m), key=lambda i: abs(rest[i, j]))
            for swapped in (rest, lower[place]):
                swapped[[j, best]] = swapped[[best, j]]
            rows[j], rows[best] = rows[best], rows[j]
            lower[(*place, j, j)], upper[(*place, j)] = 1, rest[j]
            for i in range(j + 1, m):
                lower[(*place, i, j)] = rest[i, j] / rest[j, j]
                rest[i] -= lower[(*place, i, j)] * rest[j]
        p[(*place, rows, range(m))] = 1
    return p, lower, np.triu(upper)


def together(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """L without its diagonal, and U, in one matrix."""
    y = np.zeros((*lower.shape[:-1], upper.shape[-1]))
    y[..., : lower.shape[-1]] += np.tril(lower, -1)
    y[..., : upper.shape[-2], :] += upper
    return y


def exchanges(p: np.ndarray, k: int) -> np.ndarray:
    """The pivots of the permutation P: in step j, the place of the row that belongs to place j."""
    y = np.zeros((*p.shape[:-2], k), np.int32)
    for place in np.ndindex(p.shape[:-2]):
        wanted, now = list(p[place].argmax(0)), list(range(p.shape[-1]))
        for j in range(k):
            at = now.index(wanted[j])
            now[j], now[at] = now[at], now[j]
            y[(*place, j)] = at + 1
    return y


def lu_factors(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    p, lower, upper = pivoted(a)
    return together(lower, upper), exchanges(p, min(a.shape[-2:]))


def from_factors(lu: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    """A, from its factors: the product of L and U, with the exchanges undone from the last on."""
    y = (np.tril(lu, -1) + np.eye(lu.shape[-1])) @ np.triu(lu)
    for place in np.ndindex(y.shape[:-2]):
        for j, row in reversed(list(enumerate(pivots[place] - 1))):
            y[place][[j, row]] = y[place][[row, j]]
    return y


def reflected(a: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """The product of all reflections 1 - tau v vT."""
    m = a.shape[-2]
    y = np.zeros((*a.shape[:-2], m, m)) + np.eye(m)
    for j in range(tau.shape[-1]):
        v = np.where(np.arange(m) > j, a[..., j], np.arange(m) == j)
        y = y - tau[..., j, None, None] * (y @ v[..., :, None]) * v[..., None, :]
    return y


def reflections(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """R and the vectors, column by column: each reflection turns a column into (beta, 0, ..., 0)."""
    *lead, m, n = a.shape
    y, tau = a.copy(), np.zeros((*lead, min(m, n)))
    for j in range(min(m - 1, n)):
        first, length = y[..., j, j], (y[..., j:, j] ** 2).sum(-1) ** 0.5
        beta = -np.sign(first) * length
        tau[..., j] = (beta - first) / beta
        v = np.concatenate((np.ones((*lead, 1)), y[..., j + 1 :, j] / (first - beta)[..., None]), -1)
        rest = y[..., j:, j:]
        rest = rest - tau[..., j, None, None] * v[..., :, None] * (v[..., None, :] @ rest)
        y[..., j:, j:] = rest
        y[..., j + 1 :, j] = v[..., 1:]
    return y, tau


def definite(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """L and D of a matrix with a dominant diagonal, of which no rows are exchanged."""
    c = triangle(a)
    d = np.diagonal(c, 0, -2, -1)
    places = np.broadcast_to(np.arange(1, a.shape[-1] + 1), a.shape[:-1])
    return np.tril(c / d[..., None, :], -1) + np.eye(a.shape[-1]) * (d**2)[..., None, :], places.astype(np.int32)


REFLECTED, TAU = normal(2, 5, 3, seed=6), normal(2, 3, seed=7)
DOMINANT = S + 8 * np.eye(4)
INDEFINITE = (A + A.swapaxes(-1, -2)) * (1 - 0.95 * np.eye(4))  # its pivots have blocks of two rows
FACTORS, PIVOTS = lu_factors(A)
NO_PIVOTS = np.ones((2, 3), np.int64)

FACTORIZATIONS = [
    Op(
        "linalg.lu",
        linalg.lu,
        A,
        oracle=pivoted,
        errors=[Refusal(ValueError, "lu: A.shape=(4,) must have at least 2 axes", V[0])],
    ),
    Op("linalg.lu: tall", linalg.lu, TALL, oracle=pivoted),
    Op("linalg.lu: wide", linalg.lu, WIDE, oracle=pivoted, large=(normal(2, 70, 90),), single=1e-2),
    Op(
        "linalg.lu: without exchanges",
        lambda x: linalg.lu(x, pivot=False)[1:],
        DOMINANT,
        oracle=lambda a: pivoted(a)[1:],
    ),
    Op(
        "linalg.lu_factor",
        linalg.lu_factor,
        A,
        oracle=lu_factors,
        errors=[
            Refusal(
                linalg.LinAlgError,
                "lu_factor: element 2 of the diagonal of U is 0, so the factors of A[1] cannot solve",
                np.stack((np.eye(2), np.ones((2, 2)))),
            ),
            Refusal(linalg.LinAlgError, "factors of A cannot solve equations; use linalg.lu or", ZERO),
        ],
    ),
    Op("linalg.lu_factor: tall", linalg.lu_factor, TALL, oracle=lu_factors),
    Op("linalg.lu_factor_ex", lambda a: linalg.lu_factor_ex(a)[:2], WIDE, oracle=lu_factors),
    Op(
        "linalg.lu_factor_ex: singular",
        linalg.lu_factor_ex,
        SINGULAR,
        order=0,
        batch=(),
        oracle=lambda a: (a, np.array([[1, 2], [1, 2]], np.int32), np.array([0, 1], np.int32)),
        errors=[
            Refusal(linalg.LinAlgError, "lu_factor_ex: element 1 of the diagonal of U is 0", ZERO, check_errors=True)
        ],
    ),
    Op(
        "lu",
        lambda a: retrograd.lu(a)[0],
        A,
        oracle=lambda a: lu_factors(a)[0],
        errors=[Refusal(linalg.LinAlgError, "lu: element 1 of the diagonal of U is 0", ZERO)],
    ),
    Op(
        "lu: infos",
        lambda a: retrograd.lu(a, get_infos=True)[2],
        SINGULAR,
        order=0,
        batch=(),
        oracle=lambda a: np.array([0, 1], np.int32),
    ),
    Op(
        "lu_unpack",
        retrograd.lu_unpack,
        *lu_factors(TALL),
        batch=(0, 1),
        oracle=lambda lu, pivots: (
            pivoted(TALL[: len(lu)])[0],
            np.tril(lu, -1) + np.eye(5, 3),
            np.triu(lu[..., :3, :]),
        ),
        linear=True,
        errors=[
            Refusal(TypeError, "lu_unpack: LU_pivots is float64, needs integers: the pivots of", A, V),
            Refusal(
                ValueError,
                "lu_unpack: LU_pivots.shape=(2, 3) must be (2, 4), for LU_data.shape=(2, 4, 4)",
                A,
                NO_PIVOTS,
            ),
            Refusal(
                ValueError,
                "lu_unpack: LU_pivots lie between 1 and 6, but must be rows from 1 to 5",
                TALL,
                5 * NO_PIVOTS + np.array([1, 0, -4]),
            ),
        ],
    ),
    Op(
        "linalg.lu_solve",
        linalg.lu_solve,
        FACTORS,
        PIVOTS,
        B,
        batch=(0, 1, 2),
        oracle=lambda lu, p, b: eliminated(from_factors(lu, p), b),
        errors=[
            Refusal(
                ValueError, "lu_solve: B.shape=(2, 5, 3) must be (..., 4, K), for LU.shape=(2, 4, 4)", A, PIVOTS, TALL
            ),
            Refusal(ValueError, "lu_solve: B.shape=(2, 5, 3) must be (..., K, 4)", A, PIVOTS, TALL, left=False),
            Refusal(ValueError, "lu_solve: LU.shape=(2, 5, 3) must end in equal extents", TALL, PIVOTS, B),
            Refusal(
                linalg.LinAlgError, "lu_solve: the matrix A[1] is singular", SINGULAR, NO_PIVOTS[:, :2] * [1, 2], ZERO
            ),
        ],
    ),
    Op(
        "linalg.lu_solve: broadcast",
        linalg.lu_solve,
        FACTORS[0],
        PIVOTS[0],
        B,
        kwargs={"adjoint": True},
        batch=(2,),
        oracle=lambda lu, p, b, adjoint: eliminated(from_factors(lu, p).T, b),
    ),
    *[
        Op(
            f"linalg.lu_solve: right, {adjoint}",
            linalg.lu_solve,
            FACTORS,
            PIVOTS,
            WIDE[:1, :, :4],
            batch=(),
            kwargs={"left": False, "adjoint": adjoint},
            oracle=lambda lu, p, b, left, adjoint: eliminated(
                from_factors(lu, p) if adjoint else from_factors(lu, p).swapaxes(-1, -2), b.swapaxes(-1, -2)
            ).swapaxes(-1, -2),
        )
        for adjoint in (False, True)
    ],
    Op(
        "lu_solve",
        retrograd.lu_solve,
        B,
        FACTORS,
        PIVOTS,
        batch=(0, 1, 2),
        oracle=lambda b, lu, p: eliminated(from_factors(lu, p), b),
        errors=[
            Refusal(
                ValueError,
                "lu_solve: b.shape=(2, 5, 3) must be (..., 4, K), for LU_data.shape=(2, 4, 4)",
                TALL,
                A,
                PIVOTS,
            )
        ],
    ),
    Op(
        "linalg.ldl_factor",
        lambda x: linalg.ldl_factor(even(x)),
        DOMINANT,
        oracle=definite,
        errors=[
            Refusal(
                linalg.LinAlgError, "ldl_factor: element 1 of D is 0, so A is singular; linalg.ldl_factor_ex", ZERO
            ),
        ],
    ),
    Op(
        "linalg.ldl_factor: one triangle",
        linalg.ldl_factor,
        np.tril(DOMINANT),
        order=0,
        errors=REFUSALS,
        oracle=lambda a: definite(a + np.tril(a, -1).swapaxes(-1, -2)),
    ),
    Op("linalg.ldl_factor: blocks of two", lambda x: linalg.ldl_factor(even(x)).LD, INDEFINITE),
    Op(
        "linalg.ldl_factor: by hand",
        linalg.ldl_factor,
        np.array([[[0, 2.0], [2, 0]], [[1, 2], [2, 5]]]),
        order=0,
        oracle=lambda a: (
            np.array([[[0, 0], [2, 0]], [[5, 0], [0.4, 0.2]]])[: len(a)],
            np.array([[-2, -2], [2, 2]], np.int32)[: len(a)],
        ),
    ),
    Op("linalg.ldl_factor_ex", lambda x: linalg.ldl_factor_ex(even(x))[:2], DOMINANT, oracle=definite),
    Op(
        "linalg.ldl_factor_ex: singular",
        linalg.ldl_factor_ex,
        SINGULAR,
        order=0,
        batch=(),
        oracle=lambda a: (a, np.array([[1, 2], [1, 2]], np.int32), np.array([0, 1], np.int32)),
        errors=[
            Refusal(linalg.LinAlgError, "ldl_factor_ex: element 1 of D is 0, so A[1] is", SINGULAR, check_errors=True)
        ],
    ),
    Op(
        "linalg.ldl_solve",
        lambda a, b: linalg.ldl_solve(*linalg.ldl_factor(even(a)), b),
        INDEFINITE,
        B,
        batch=(0, 1),
        oracle=eliminated,
        rtol=1e-9,
        single=1e-2,
    ),
    Op(
        "linalg.ldl_solve: messages",
        linalg.ldl_solve,
        *definite(DOMINANT),
        B[0],
        batch=(),
        oracle=lambda ld, p, b: eliminated(
            (np.tril(ld, -1) + np.eye(4))
            * np.diagonal(ld, 0, 1, 2)[:, None, :]
            @ (np.tril(ld, -1) + np.eye(4)).swapaxes(-1, -2),
            b,
        ),
        errors=[
            Refusal(TypeError, "ldl_solve: pivots is float64, needs integers", A, V, B),
            Refusal(
                ValueError, "ldl_solve: pivots.shape=(2, 3) must be (2, 4), for LD.shape=(2, 4, 4)", A, NO_PIVOTS, B
            ),
            Refusal(ValueError, "ldl_solve: B.shape=(2, 5, 3) must be (..., 4, K)", A, PIVOTS, TALL),
            Refusal(
                ValueError,
                "pivots=[1, 1] cannot be those of an LDL factorization of 2 rows: entry 1 must be from 2",
                SINGULAR,
                np.ones((2, 2), np.int64),
                SINGULAR,
            ),
            Refusal(
                ValueError,
                "entry 0 must be from 1 to 2, or negative and equal to its successor",
                ZERO,
                np.array([-2, 2]),
                ZERO,
            ),
            Refusal(linalg.LinAlgError, "ldl_solve: the matrix is singular", ZERO, np.array([1, 2]), ZERO),
        ],
    ),
    *[
        Op(
            name,
            function,
            REFLECTED,
            TAU,
            batch=(0, 1),
            oracle=lambda a, tau: reflected(a, tau)[..., :3],
            errors=[
                Refusal(ValueError, f"{label}.shape=(2, 3, 5) must not have more columns than rows", WIDE, TAU),
                Refusal(
                    ValueError,
                    f"tau.shape=(4,) must be (2, K) with K at most 3, for {label}.shape=(2, 5, 3)",
                    TALL,
                    V[0],
                ),
            ],
        )
        for name, function, label in (
            ("linalg.householder_product", linalg.householder_product, "A"),
            ("orgqr", retrograd.orgqr, "input"),
        )
    ],
    Op(
        "linalg.householder_product: fewer reflections",
        linalg.householder_product,
        REFLECTED,
        TAU[:, :2],
        batch=(0, 1),
        oracle=lambda a, tau: reflected(a, tau)[..., :3],
    ),
    Op(
        "linalg.householder_product: none",
        linalg.householder_product,
        REFLECTED,
        0 * TAU,
        batch=(0, 1),
        oracle=lambda a, tau: np.broadcast_to(np.eye(5, 3), a.shape),
    ),
    *[
        Op(f"geqrf{what}", retrograd.geqrf, a, oracle=reflections)
        for what, a in (
            ("", TALL),
            (": wide", WIDE),
            (": square", A),
        )
    ],
    Op(
        "ormqr",
        retrograd.ormqr,
        REFLECTED,
        TAU,
        normal(2, 5, 4),
        batch=(0, 1, 2),
        oracle=lambda a, tau, c: reflected(a, tau) @ c,
        errors=[
            Refusal(
                ValueError,
                "ormqr: other.shape=(2, 4, 3) must be (2, 5, N) for left=True and input.shape=(2, 5, 3)",
                TALL,
                TAU,
                B,
            ),
            Refusal(
                ValueError, "ormqr: other.shape=(2, 4, 3) must be (2, M, 5) for left=False", TALL, TAU, B, left=False
            ),
        ],
    ),
    *[
        Op(
            f"ormqr: left={left}, transpose={transpose}",
            retrograd.ormqr,
            REFLECTED,
            TAU,
            c,
            left,
            transpose,
            batch=(0, 1, 2),
            oracle=lambda a, tau, c, left, transpose: operated(reflected(a, tau), c, left, transpose),
        )
        for left, transpose, c in ((True, True, TALL), (False, False, WIDE), (False, True, WIDE))
    ],
    Op(
        "linalg.solve_triangular: as many matrices as rows",
        linalg.solve_triangular,
        normal(3, 3, 3) + 3 * np.eye(3),
        normal(3, 3),
        kwargs={"upper": True},
        batch=(),
        oracle=lambda a, b, upper: eliminated(np.triu(a), b),
    ),
    Op(
        "cholesky_solve: as many matrices as rows",
        retrograd.cholesky_solve,
        normal(3, 3),
        normal(3, 3, 3) + 3 * np.eye(3),
        batch=(),
        oracle=lambda b, a: eliminated(np.tril(a) @ np.tril(a).swapaxes(-1, -2), b),
    ),
    Op(
        "cholesky_inverse: as many matrices as rows",
        retrograd.cholesky_inverse,
        normal(3, 3, 3) + 3 * np.eye(3),
        batch=(),
        oracle=lambda a: inverse(np.tril(a) @ np.tril(a).swapaxes(-1, -2)),
    ),
]


def operated(q: np.ndarray, c: np.ndarray, left: bool, transpose: bool) -> np.ndarray:
    q = q.swapaxes(-1, -2) if transpose else q
    return q @ c if left else c @ q


def product(u: Any, s: Any, vh: Any) -> Any:
    return (u * s.unsqueeze(-2)) @ vh


def assembled(values: Any, vectors: Any) -> Any:
    return (vectors * values.unsqueeze(-2)) @ vectors.mT


def norms(a: np.ndarray, p: float) -> np.ndarray:
    return abs(a).sum(-2 if p == 1 else -1).max(-1)


FUNCTIONS = [
    *[
        Op(name, function, A, oracle=expanded, errors=REFUSALS[:1])
        for name, function in (
            ("linalg.det", linalg.det),
            ("det", retrograd.det),
        )
    ],
    Op(
        "linalg.det: singular",
        linalg.det,
        np.where(np.eye(4) > 0, A, A[:, :1, :]) * [1, 1, 1, 0],
        order=1,
        batch=(),
        oracle=expanded,
    ),
    *[
        Op(
            name,
            lambda x, function=function: (function(x).sign, function(x).logabsdet),
            A,
            oracle=lambda a: (np.sign(expanded(a)), np.log(abs(expanded(a)))),
        )
        for name, function in (
            ("linalg.slogdet", linalg.slogdet),
            ("slogdet", retrograd.slogdet),
        )
    ],
    Op("logdet", retrograd.logdet, S, oracle=lambda a: np.log(expanded(a))),
    *[
        Op(name, function, A, oracle=series, errors=REFUSALS[:1])
        for name, function in (
            ("linalg.matrix_exp", linalg.matrix_exp),
            ("matrix_exp", retrograd.matrix_exp),
        )
    ],
    Op("linalg.matrix_exp: far", linalg.matrix_exp, A * np.array([[[0.01]], [[8.0]]]), oracle=series, rtol=1e-8),
    *[
        Op(name, function, A, 5, oracle=lambda a, n: a @ a @ a @ a @ a)
        for name, function in (
            ("linalg.matrix_power", linalg.matrix_power),
            ("matrix_power", retrograd.matrix_power),
        )
    ],
    Op(
        "linalg.matrix_power: inverse",
        linalg.matrix_power,
        S,
        -2,
        oracle=lambda a, n: inverse(a) @ inverse(a),
        errors=[
            Refusal(linalg.LinAlgError, "matrix_power: the matrix A[1] is singular", SINGULAR, -1),
            Refusal(TypeError, "matrix_power: n=0.5 must be an int", S, 0.5),
        ],
    ),
    Op("linalg.matrix_power: none", linalg.matrix_power, S, 0, oracle=lambda a, n: 0 * a + np.eye(4)),
    Op(
        "linalg.multi_dot",
        lambda *x: linalg.multi_dot(x),
        normal(5),
        TALL[0],
        WIDE[0],
        normal(5, 2),
        batch=(),
        oracle=lambda a, b, c, d: ((a @ b) @ c) @ d,
        errors=[
            Refusal(ValueError, "multi_dot: got 1 tensors, needs at least 2", TALL[0]),
            Refusal(ValueError, "tensors[0].shape=(5, 3) and tensors[1].shape=(5, 3) do not fit: 3 and 5 must", *TALL),
            Refusal(
                ValueError, "tensors[1].shape=(4,) must be a matrix, or a vector at an end", WIDE[0], V[0], TALL[0]
            ),
        ],
    ),
    Op(
        "chain_matmul",
        retrograd.chain_matmul,
        TALL[0],
        WIDE[0],
        normal(5, 2),
        batch=(),
        oracle=lambda a, b, c: a @ b @ c,
    ),
    Op(
        "linalg.cond",
        linalg.cond,
        TALL,
        oracle=lambda a: singular(a)[..., 0] / singular(a)[..., -1],
        errors=[
            Refusal(ValueError, "cond: p='l2' must be None or one of 'fro', 'nuc'", A, "l2"),
        ],
    ),
    Op("linalg.cond: 1", linalg.cond, A, 1, oracle=lambda a, p: norms(a, p) * norms(inverse(a), p)),
    Op(
        "linalg.cond: singular",
        linalg.cond,
        SINGULAR,
        np.inf,
        order=0,
        batch=(),
        oracle=lambda a, p: np.array([1, np.inf]),
    ),
    *[
        Op(f"linalg.cond: no elements, {p}", linalg.cond, np.zeros((2, 0, 0)), p, oracle=lambda a, p: np.zeros(len(a)))
        for p in (None, -2, "fro", 1)
    ],
    Op("linalg.vecdot", linalg.vecdot, A, A[0], kwargs={"dim": 1}, batch=(0,), oracle=lambda a, b, dim: (a * b).sum(1)),
    Op("linalg.vecdot: numbers", linalg.vecdot, np.array(2.0), np.array(-3.0), batch=(), oracle=lambda a, b: a * b),
    Op("linalg.cross", linalg.cross, TALL, TALL[:1], oracle=np.cross, batch=(0,)),
    Op(
        "linalg.diagonal",
        linalg.diagonal,
        A,
        kwargs={"offset": 1},
        oracle=lambda a, offset: np.stack([a[:, i, i + 1] for i in range(3)], -1),
        linear=True,
    ),
    Op(
        "linalg.vander",
        linalg.vander,
        V,
        kwargs={"N": 3},
        oracle=lambda x, N: x[..., None] ** np.arange(3.0),
        errors=[Refusal(ValueError, "vander: N=0 must be at least 1", V, N=0)],
    ),
    Op(
        "linalg.vander: a number",
        linalg.vander,
        np.array(3.0),
        kwargs={"N": 3},
        batch=(),
        oracle=lambda x, N: np.array([[1, x, x * x]]),
    ),
    *[
        Op(
            f"{name}: truth values",
            lambda x, function=function: function(x, N=3),
            np.array([True, False]),
            batch=(),
            oracle=lambda x, name=name: np.array([[1, 1, 1], [1, 0, 0]])[:, :: 1 if "." in name else -1],
        )
        for name, function in (("linalg.vander", linalg.vander), ("vander", retrograd.vander))
    ],
    Op(
        "vander",
        retrograd.vander,
        V[0],
        3,
        oracle=lambda x, n: x[:, None] ** np.array([2.0, 1, 0]),
        errors=[
            Refusal(ValueError, "vander: x.shape=(2, 4) must have one axis", V),
            Refusal(ValueError, "vander: N=-1 must be at least 0", V[0], -1),
        ],
    ),
    Op(
        "vander: increasing",
        retrograd.vander,
        V[0],
        None,
        True,
        batch=(),
        oracle=lambda x, *_: x[:, None] ** np.arange(4),
    ),
    Op(
        "linalg.matmul",
        linalg.matmul,
        A,
        B,
        batch=(0, 1),
        oracle=lambda a, b: (a[..., None] * b[..., None, :, :]).sum(-2),
    ),
    Op("linalg.norm", linalg.norm, A, oracle=lambda a: (a**2).sum() ** 0.5, batch=()),
    Op("linalg.vector_norm", linalg.vector_norm, A, 3, 1, oracle=lambda a, p, d: (abs(a) ** 3).sum(1) ** (1 / 3)),
    Op("linalg.matrix_norm", linalg.matrix_norm, A, 1, oracle=norms),
]

OPERATORS = [*SOLVING, *DECOMPOSITIONS, *FACTORIZATIONS, *FUNCTIONS]
