"""Cases of products of vectors, matrices and tensors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import retrograd
from conformance.table import Layer, Op, Refusal, normal
from retrograd import nn
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name

A, B = normal(4, 3), normal(3, 5)
BATCH1, BATCH2 = normal(2, 4, 3), normal(2, 3, 5)
U, V = normal(4), normal(5)
X = normal(4, 5, seed=2)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(M, K) (K, N), element by element."""
    return np.array([[(a[m] * b[:, n]).sum() for n in range(b.shape[1])] for m in range(len(a))]).reshape(
        len(a), b.shape[1]
    )


def products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.array([product(x, y) for x, y in zip(a, b, strict=True)]).reshape(len(a), a.shape[1], b.shape[2])


def summed(equation: str, *operands: np.ndarray) -> np.ndarray:
    """einsum with letters only, by a walk over all their values."""
    left, output = equation.split("->")
    words = left.split(",")
    extents = {c: 1 for word in words for c in word}
    for word, x in zip(words, operands, strict=True):
        extents.update({c: n for c, n in zip(word, x.shape, strict=True) if n != 1})
    letters = sorted(extents)
    y = np.zeros([extents[c] for c in output])
    for values in itertools.product(*[range(extents[c]) for c in letters]):
        at = dict(zip(letters, values, strict=True))
        terms = [
            x[tuple(at[c] if n > 1 else 0 for c, n in zip(word, x.shape, strict=True))]
            for word, x in zip(words, operands, strict=True)
        ]
        y[tuple(at[c] for c in output)] += np.prod(terms)
    return y


def einsum(equation: str, *operands: np.ndarray, same: str = "", **options: Any) -> Op:
    """same: the equation with letters only."""
    return Op(
        f"einsum: {equation}",
        retrograd.einsum,
        equation,
        *operands,
        oracle=lambda _, *xs: summed(same or equation, *xs),
        batch=(),
        **options,
    )


MATRICES = [
    Op("matmul", retrograd.matmul, A, B, oracle=product, large=(normal(200, 70), normal(70, 130))),
    Op(
        "matmul: broadcast",
        retrograd.matmul,
        BATCH1[:, None],
        BATCH2[0],
        oracle=lambda a, b: np.array([[product(x, b) for x in row] for row in a]).reshape(*a.shape[:3], 5),
        large=(normal(30, 20, 7), normal(30, 7, 20)),
        errors=[
            Refusal(ValueError, "matmul: the last axis of input has 3, the matching axis of other has 4", A, A),
            Refusal(ValueError, "each needs at least one axis", normal(), A),
        ],
    ),
    Op("matmul: vectors", retrograd.matmul, U, X, oracle=lambda a, b: product(a[None], b)[0], batch=()),
    Op("matmul: many small ones", retrograd.matmul, normal(40, 2, 3), normal(40, 3, 2), oracle=products, batch=(0, 1)),
    Op(
        "mm",
        retrograd.mm,
        A,
        B,
        oracle=product,
        errors=[
            Refusal(ValueError, "mm: input.shape=(4,) has 1 axes, needs 2; matmul broadcasts", U, B),
            Refusal(ValueError, "mm: 3 and 4 must be equal; input.shape=(4, 3), mat2.shape=(4, 3)", A, A),
        ],
    ),
    Op(
        "bmm",
        retrograd.bmm,
        BATCH1,
        BATCH2,
        oracle=products,
        batch=(0, 1),
        large=(normal(300, 8, 9), normal(300, 9, 8)),
        errors=[Refusal(ValueError, "bmm: 2 and 1 must be equal", BATCH1, BATCH2[:1])],
    ),
    Op("mv", retrograd.mv, A, B[:, 0], oracle=lambda a, v: product(a, v[:, None])[:, 0]),
    Op(
        "dot",
        retrograd.dot,
        U,
        X[:, 0],
        oracle=lambda a, b: (a * b).sum(),
        batch=(0, 1),
        errors=[Refusal(ValueError, "dot: 4 and 5 must be equal; input.shape=(4,), tensor.shape=(5,)", U, V)],
    ),
    Op("inner", retrograd.inner, BATCH1, normal(6, 3), oracle=lambda a, b: (a[..., None, :] * b).sum(-1)),
    Op("outer", retrograd.outer, U, V, oracle=lambda a, b: a[:, None] * b),
    Op(
        "ger",
        retrograd.ger,
        U,
        V,
        oracle=lambda a, b: a[:, None] * b,
        errors=[Refusal(ValueError, "ger: vec2.shape=(4, 3) has 2 axes, needs 1", U, A)],
    ),
    Op(
        "addmm",
        retrograd.addmm,
        V,
        A,
        B,
        kwargs={"beta": 0.5, "alpha": -2.0},
        batch=(1,),
        oracle=lambda x, a, b, beta, alpha: beta * x + alpha * product(a, b),
        integers=True,
        errors=[
            Refusal(ValueError, "addmm: shapes (4,) and (4, 5) do not broadcast", U, A, B),
            Refusal(ValueError, "addmm: input.shape=(2, 4, 3) does not broadcast to the product's shape", BATCH1, A, B),
            Refusal(TypeError, "addmm: beta is str, needs a number", X, A, B, beta="1"),
        ],
    ),
    Op(
        "addmm: beta 0 ignores NaN",
        lambda a, b: retrograd.addmm((a @ b).detach() * float("nan"), a, b, beta=0),
        A,
        B,
        oracle=product,
        batch=(),
    ),
    Op("addmv", retrograd.addmv, U, A, B[:, 0], batch=(0, 1), oracle=lambda x, a, v: x + product(a, v[:, None])[:, 0]),
    Op(
        "addbmm",
        retrograd.addbmm,
        X,
        BATCH1,
        BATCH2,
        kwargs={"beta": 2.0},
        batch=(1, 2),
        oracle=lambda x, a, b, beta: beta * x + products(a, b).sum(0),
    ),
    Op(
        "baddbmm",
        retrograd.baddbmm,
        X,
        BATCH1,
        BATCH2,
        kwargs={"alpha": 3.0},
        batch=(1, 2),
        oracle=lambda x, a, b, alpha: x + alpha * products(a, b),
    ),
    Op(
        "addr",
        retrograd.addr,
        X,
        U,
        V,
        kwargs={"alpha": 3.0},
        batch=(0, 1),
        oracle=lambda x, a, b, alpha: x + alpha * a[:, None] * b,
    ),
    Op(
        "cross",
        retrograd.cross,
        normal(2, 3, 4),
        normal(3, 1),
        oracle=lambda a, b: np.stack(
            [a[:, (i + 1) % 3] * b[(i + 2) % 3] - a[:, (i + 2) % 3] * b[(i + 1) % 3] for i in range(3)], 1
        ),
        integers=True,
        errors=[
            Refusal(ValueError, "cross: no axis of shape (4, 5) has extent 3", X, X),
            Refusal(ValueError, "cross: input.shape=(4, 3) has extent 4 along dim=0, needs 3; name the axis", A, A, 0),
            Refusal(ValueError, "cross: other.shape=(4, 1) has extent 1 along dim=1, needs 3", A, A[:, :1], 1),
            Refusal(ValueError, "cross: other.shape=(1,) has extent 1 along dim=-1, needs 3", A, A[0, :1], -1),
        ],
    ),
    Op("tensordot", retrograd.tensordot, BATCH1, normal(4, 3, 2), oracle=lambda a, b: summed("bmk,mkn->bn", a, b)),
    Op(
        "tensordot: axes",
        retrograd.tensordot,
        BATCH1,
        normal(3, 5, 2),
        ([0, 2], [-1, 0]),
        batch=(),
        oracle=lambda a, b, d: summed("bmk,knb->mn", a, b),
        errors=[
            Refusal(ValueError, "tensordot: axis 0 of a has 4, axis 0 of b has 3", A, B, ([0], [0])),
            Refusal(ValueError, "tensordot: dims=3 must be from 0 to 2", A, B, 3),
            Refusal(ValueError, "must be an int or two lists with equally many axes", A, B, ([0], [0, 1])),
            Refusal(ValueError, "names an axis twice", A, B, ([0, 0], [0, 1])),
        ],
    ),
    Op("tensordot: none", retrograd.tensordot, U, V, 0, oracle=lambda a, b, d: a[:, None] * b),
]

SUMS = [
    einsum(
        "ij,jk->ik",
        A,
        B,
        errors=[
            Refusal(ValueError, "einsum: equation 'ij,jk': it is for 2 operands, there are 1", "ij,jk", A),
            Refusal(ValueError, "'ijk' does not name the 2 axes of operand 0", "ijk->i", A),
            Refusal(ValueError, "the axes 'i' have 4 and 3 elements", "ij,ik->jk", A, B),
            Refusal(ValueError, "the result has 'z' which no operand has", "ij->iz", A),
            Refusal(ValueError, "the result has 'i' twice", "ij->ii", A),
            Refusal(ValueError, "'i1' must consist of letters and at most one ...", "i1->i", A),
            Refusal(ValueError, "the axes 'i' of one operand have different extents", "ii->i", A),
            Refusal(ValueError, "einsum: there is no operand", "ij->ij"),
            Refusal(TypeError, "einsum: equation is Tensor, needs a str", A, [0, 1]),
        ],
    ),
    einsum("ij,jk", A, B, same="ij,jk->ik"),
    einsum("ba,ac", A, B, same="ba,ac->bc"),
    einsum("bij,bjk->bik", BATCH1, BATCH2),
    einsum("bij,bjk->kb", BATCH1, BATCH2),
    einsum("ij,ij->", A, A + 1),
    einsum("ij,ij->ij", A, A + 1),
    einsum("ij,i->ji", A, U),
    einsum("i,j->ij", U, V),
    einsum("ij->j", A),
    einsum("ij->ji", A),
    einsum("ij->ij", A),
    einsum("ii->i", A[:3]),
    einsum("ii", A[:3], same="ii->"),
    einsum("iji->j", normal(3, 2, 3)),
    einsum("iijj->ij", normal(3, 3, 2, 2)),
    einsum("ij,jk,kl->il", A, B, normal(5, 2)),
    einsum("bij,bkj,bkl->bil", BATCH1, normal(2, 5, 3), normal(2, 5, 2)),
    einsum("ij,kl,jk,i->l", A, normal(5, 2), B, U),
    einsum("i,i,i->i", U, U + 1, U - 1),
    einsum("...ij,...jk->...ik", BATCH1, BATCH2, same="aij,ajk->aik"),
    einsum("...ij,jk", BATCH1, B, same="aij,jk->aik"),
    einsum("b...,...->b", BATCH1, normal(4, 3), same="bij,ij->b"),
    einsum("i...->...", BATCH1, same="bij->ij"),
    einsum("ij,kj->ik", A, normal(2, 1), same="ij,kj->ik"),
    einsum("...i,...i->...", normal(2, 1, 3), normal(4, 3), same="bxi,ai->ba"),
    Op(
        "einsum",
        retrograd.einsum,
        "nchw, oc -> nohw",
        normal(2, 3, 2, 2),
        normal(4, 3),
        oracle=lambda _, x, w: summed("nchw,oc->nohw", x, w),
        batch=(0,),
        large=("nchw, oc -> nohw", normal(4, 30, 20, 20), normal(40, 30)),
    ),
]

OPERATORS = [
    *[
        Op(
            f"cdist: p={p}",
            retrograd.cdist,
            normal(2, 3, 4),
            normal(5, 4),
            p,
            oracle=lambda a, b, p: np.linalg.norm(a[..., :, None, :] - b[..., None, :, :], p, -1),
        )
        for p in (1.0, 2.0, float("inf"))
    ],
    Op(
        "cdist",
        retrograd.cdist,
        A,
        normal(5, 3),
        oracle=lambda a, b: np.sqrt(((a[:, None] - b) ** 2).sum(-1)),
        errors=[
            Refusal(ValueError, "cdist: x1.shape=(4, 3), x2.shape=(3, 5) must be (..., P, M) and (..., R, M)", A, B),
            Refusal(ValueError, "cdist: p=-1 must be at least 0", A, A, -1),
        ],
    ),
    Op(
        "pdist",
        F.pdist,
        A,
        oracle=lambda a: np.array([np.sqrt(((a[i] - a[j]) ** 2).sum()) for i in range(4) for j in range(i + 1, 4)]),
        batch=(),
        errors=[
            Refusal(ValueError, "pdist: input.shape=(4,) must have two axes: (N, M)", U),
            Refusal(ValueError, "pdist: p=-1 must be at least 0", A, -1),
        ],
    ),
    *MATRICES,
    *SUMS,
    Op(
        "linear",
        F.linear,
        A,
        normal(2, 3),
        normal(2),
        oracle=lambda x, w, b: product(x, w.T) + b,
        large=(normal(300, 70), normal(90, 70), normal(90)),
        errors=[
            Refusal(ValueError, "linear: input has 3 features in its last axis, weight expects 2", A, normal(4, 2))
        ],
    ),
    Op(
        "bilinear",
        F.bilinear,
        A,
        normal(4, 2),
        normal(5, 3, 2),
        V,
        batch=(0, 1),
        oracle=lambda x, y, w, b: summed("ni,oij,nj->no", x, w, y) + b,
        errors=[
            Refusal(ValueError, "bilinear: input1.shape=(4, 3), input2.shape=(3, 5)", A, B, normal(5, 3, 2)),
            Refusal(
                ValueError,
                "bilinear: bias.shape=(4,), weight.shape=(5, 3, 2) expects (5,)",
                A,
                normal(4, 2),
                normal(5, 3, 2),
                U,
            ),
        ],
    ),
]

LAYERS = [
    Layer(
        "Bilinear",
        lambda: nn.Bilinear(3, 2, 5),
        A,
        normal(4, 2),
        batch=(0, 1),
        oracle=lambda x, y, w, b: summed("ni,oij,nj->no", x, w, y) + b,
    ),
]
