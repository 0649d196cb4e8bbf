from __future__ import annotations

from typing import Any

import numpy as np

import retrograd
from conformance.table import Op, Refusal, distinct, normal, uniform

X, FAR, SPREAD = normal(3, 4, 2), uniform(0.5, 2.0, 3, 4, 2), distinct(3, 4, 2)
MANY = (normal(40, 33, 31),)  # more than one task of a kernel
TALL = (normal(3000, 17),)
WHOLE = np.array([[3, -1, 2, 2], [0, 2, 2, -1]])
ZEROS = np.where(np.arange(24).reshape(3, 4, 2) % 9 == 4, 0.0, FAR * np.sign(X))  # one, two and none in a line
COPIES = np.array([[1.0, 2.0, 2.0, 0.5], [3.0, 0.5, 3.0, 3.0]])
NO_AXIS = Refusal(IndexError, "dim=3 is out of range; 3 axes allow -3 to 2", X, dim=3)
TWICE = Refusal(ValueError, "names an axis of a 3-d tensor twice", X, dim=(0, -3))
NOTHING = Refusal(ValueError, "has no element to choose from along dim=1", X[:, :0], dim=1)
KEPT = {"dim": 1, "keepdim": True}


def ties(x: np.ndarray) -> np.ndarray:
    return np.round(x * 2) / 2


def middle(x: np.ndarray, axis: int | None = None) -> Any:
    count = x.size if axis is None else x.shape[axis]
    return np.take(np.sort(x, axis), (count - 1) // 2, axis)


def log_add_up(x: np.ndarray, axis: int) -> np.ndarray:
    return np.log(np.cumsum(np.exp(x), axis))


OPERATORS = [
    Op("sum", retrograd.sum, X, oracle=np.sum, linear=True, batch=(0,), integers=True, large=MANY,
       errors=[NO_AXIS, TWICE, Refusal(TypeError, "dim='a' must be an int", X, dim="a")]),
    Op("sum: kept", retrograd.sum, X, kwargs={"dim": (0, 2), "keepdim": True}, linear=True, integers=True, large=MANY,
       oracle=lambda x, dim, keepdim: x.sum(dim, keepdims=True)),
    Op("sum: another type", lambda x, dtype="float64": retrograd.sum(x, 1, dtype=dtype).to(x.dtype), X,
       linear=True, oracle=lambda x: x.sum(1), integers=True,
       errors=[Refusal(TypeError, "dtype='int4' is not an element type", X, dtype="int4")]),
    Op("mean", retrograd.mean, X, oracle=np.mean, linear=True, batch=(), large=MANY, errors=[NO_AXIS, TWICE]),
    Op("mean: axes", retrograd.mean, X, kwargs={"dim": (1, 2)}, oracle=lambda x, dim: x.mean(dim), linear=True,
       large=MANY),
    Op("prod", retrograd.prod, FAR, oracle=np.prod, integers=True, errors=[NO_AXIS, TWICE],
       large=(uniform(0.9, 1.1, 20, 33),)),
    Op("prod: axis", retrograd.prod, X, kwargs=KEPT, oracle=lambda x, dim, keepdim: x.prod(1, keepdims=True),
       integers=True, large=(uniform(0.5, 1.5, 40, 33, 31),)),
    Op("prod: axes", retrograd.prod, X, kwargs={"dim": (0, 2)}, oracle=lambda x, dim: x.prod(dim), integers=True),
    Op("prod: zeros", retrograd.prod, ZEROS, kwargs={"dim": (0, 1)}, oracle=lambda x, dim: x.prod(dim), integers=True),
    Op("nansum", retrograd.nansum, X, kwargs={"dim": 1}, oracle=lambda x, dim: np.nansum(x, dim), linear=True,
       integers=True),
    Op("nanmean", retrograd.nanmean, X, kwargs={"dim": (0, 2)}, oracle=lambda x, dim: x.mean(dim), linear=True,
       batch=()),
    Op("count_nonzero", retrograd.count_nonzero, WHOLE, kwargs={"dim": 1},
       oracle=lambda x, dim: np.count_nonzero(x, dim), errors=[Refusal(IndexError, "dim=2 is out of", WHOLE, dim=2)]),
    Op("all", retrograd.all, WHOLE, oracle=np.all, errors=[Refusal(TypeError, "all: input is list", [1, 2])]),
    Op("all: kept", retrograd.all, WHOLE, kwargs=KEPT, oracle=lambda x, dim, keepdim: x.all(1, keepdims=True)),
    Op("any", retrograd.any, WHOLE, kwargs={"dim": (0, 1)}, oracle=lambda x, dim: x.any(dim),
       errors=[Refusal(TypeError, "any: input is int", 3)]),
    Op("any: kept", retrograd.any, WHOLE > 2, kwargs=KEPT, oracle=lambda x, dim, keepdim: x.any(1, keepdims=True)),
    # ------------------------------------------------------------------------------------------- extremes
    Op("max", retrograd.max, SPREAD, oracle=np.max, batch=(), integers=True, large=MANY,
       errors=[NOTHING, NO_AXIS, Refusal(ValueError, "max: keepdim=True needs dim; amax keeps", X, keepdim=True)]),
    Op("max: axis", retrograd.max, SPREAD, kwargs={"dim": 1}, integers=True, large=MANY,
       oracle=lambda x, dim: (x.max(dim), x.argmax(dim))),
    Op("max: first axis, kept", retrograd.max, SPREAD, kwargs={"dim": 0, "keepdim": True}, batch=(), integers=True,
       oracle=lambda x, dim, keepdim: (x.max(0, keepdims=True), x.argmax(0, keepdims=True)), large=MANY),
    Op("min", retrograd.min, SPREAD, oracle=np.min, batch=(), integers=True, large=MANY, errors=[NOTHING, NO_AXIS]),
    Op("min: axis", retrograd.min, SPREAD, kwargs={"dim": -1}, integers=True, large=TALL,
       oracle=lambda x, dim: (x.min(dim), x.argmin(dim))),
    Op("amax", retrograd.amax, SPREAD, kwargs={"dim": (0, 1)}, oracle=lambda x, dim: x.max(dim), batch=(),
       integers=True, large=MANY, errors=[NOTHING, NO_AXIS, TWICE]),
    Op("amin", retrograd.amin, SPREAD, kwargs=KEPT, oracle=lambda x, dim, keepdim: x.min(1, keepdims=True),
       integers=True, large=MANY, errors=[NOTHING]),
    Op("aminmax", retrograd.aminmax, SPREAD, kwargs={"dim": 1}, oracle=lambda x, dim: (x.min(dim), x.max(dim)),
       integers=True, errors=[NOTHING]),
    Op("argmax", retrograd.argmax, ties(X), oracle=np.argmax, batch=(), integers=True, order=0, large=(ties(MANY[0]),),
       errors=[NOTHING]),
    Op("argmax: axis", retrograd.argmax, ties(X), kwargs=KEPT, integers=True, order=0, large=(ties(MANY[0]),),
       oracle=lambda x, dim, keepdim: x.argmax(1, keepdims=True)),
    Op("argmin", retrograd.argmin, ties(X), oracle=np.argmin, batch=(), integers=True, order=0, errors=[NOTHING]),
    Op("argmin: axis", retrograd.argmin, ties(X), kwargs={"dim": 0}, oracle=lambda x, dim: x.argmin(0), batch=(),
       integers=True, order=0),
    # ------------------------------------------------------------------------------------------- statistics
    Op("var", retrograd.var, X, oracle=lambda x: np.var(x, ddof=1), batch=(), large=MANY, rounding=1e-13,
       errors=[NO_AXIS, TWICE,
               Refusal(ValueError, "unbiased=True and correction=1 are alternatives", X, unbiased=True, correction=1),
               Refusal(TypeError, "correction='a' must be a number", X, correction="a")]),
    Op("var: axes", retrograd.var, X, kwargs={"dim": (0, 2), "correction": 0, "keepdim": True}, batch=(), large=MANY,
       oracle=lambda x, dim, correction, keepdim: np.var(x, dim, keepdims=True)),
    Op("var: far from 0", lambda x: retrograd.var(x + 1e4, 1), X, oracle=lambda x: np.var(x, 1, ddof=1), rtol=1e-7,
       single=2e-3, order=0, integers=True),
    Op("std", retrograd.std, X, kwargs={"dim": 1, "unbiased": False}, oracle=lambda x, dim, unbiased: np.std(x, 1),
       large=MANY, rounding=1e-13),
    Op("var_mean", retrograd.var_mean, X, kwargs={"dim": 1}, large=MANY,
       oracle=lambda x, dim: (np.var(x, 1, ddof=1), x.mean(1))),
    Op("std_mean", retrograd.std_mean, X, oracle=lambda x: (np.std(x, ddof=1), x.mean()), batch=(),
       errors=[Refusal(TypeError, "dim=True must be an int", X, dim=True, unbiased=False)]),
    Op("logsumexp", retrograd.logsumexp, X, kwargs={"dim": 1}, oracle=lambda x, dim: np.log(np.exp(x).sum(1)),
       large=MANY, errors=[NO_AXIS, TWICE]),
    Op("logsumexp: axes", retrograd.logsumexp, X, kwargs={"dim": (0, 2), "keepdim": True}, batch=(), large=MANY,
       oracle=lambda x, dim, keepdim: np.log(np.exp(x).sum((0, 2), keepdims=True))),
    Op("norm", retrograd.norm, X, oracle=lambda x: np.sqrt((x * x).sum()), batch=(), large=MANY,
       errors=[NO_AXIS, TWICE, Refusal(ValueError, "p='max' must be a number", X, p="max"),
               Refusal(ValueError, "norm: ord=nan must be a number", X, p=float("nan")),
               Refusal(ValueError, "ord=inf needs one", X[:0], p=float("inf"))]),
    Op("norm: 1", retrograd.norm, FAR * np.sign(X), kwargs={"p": 1, "dim": 1}, large=MANY,
       oracle=lambda x, p, dim: np.abs(x).sum(1)),
    Op("norm: 2 of columns", retrograd.norm, X, kwargs={"p": 2.0, "dim": 0}, large=MANY, batch=(),
       oracle=lambda x, p, dim: np.sqrt((x * x).sum(0))),
    Op("norm: 3", retrograd.norm, FAR * np.sign(X), kwargs={"p": 3, "dim": (0, 2), "keepdim": True}, batch=(),
       oracle=lambda x, p, dim, keepdim: (np.abs(x) ** 3).sum((0, 2), keepdims=True) ** (1 / 3)),
    Op("norm: -2", retrograd.norm, FAR, kwargs={"p": -2, "dim": 1}, oracle=lambda x, p, dim: (x**-2.0).sum(1) ** -0.5),
    Op("norm: inf", retrograd.norm, SPREAD, kwargs={"p": float("inf"), "dim": 1}, order=0,
       oracle=lambda x, p, dim: np.abs(x).max(1)),
    Op("norm: count", retrograd.norm, ties(X), kwargs={"p": 0}, oracle=lambda x, p: (x != 0).sum() * 1.0, order=0),
    Op("quantile", retrograd.quantile, SPREAD, 0.3, oracle=np.quantile, batch=(),
       errors=[Refusal(ValueError, "q=1.5 must be from 0 to 1", X, 1.5),
               Refusal(TypeError, "quantile: q is str, needs", X, "a"),
               Refusal(ValueError, "interpolation='cubic' must be linear", X, 0.5, interpolation="cubic"),
               Refusal(ValueError, "no element to choose from", X[:0], 0.5)]),
    Op("quantile: axis", retrograd.quantile, SPREAD, 0.7, kwargs=KEPT, batch=(0,),
       oracle=lambda x, q, dim, keepdim: np.quantile(x, q, 1, keepdims=True)),
    Op("quantile: several",
       lambda x: retrograd.quantile(x, retrograd.tensor(np.array([0.1, 0.5, 0.5]), dtype=x.dtype), 1), SPREAD,
       oracle=lambda x: np.quantile(x, [0.1, 0.5, 0.5], 1)),
    # ------------------------------------------------------------------------------------------- scans
    Op("cumsum", retrograd.cumsum, X, 1, oracle=np.cumsum, linear=True, integers=True, large=(*MANY, 1),
       errors=[Refusal(IndexError, "dim=3 is out of range", X, 3)]),
    Op("cumsum: rows", retrograd.cumsum, X, -1, oracle=np.cumsum, linear=True, integers=True, large=(*MANY, 2)),
    Op("cumprod", retrograd.cumprod, FAR, 1, oracle=np.cumprod, integers=True,
       large=(uniform(0.9, 1.1, 40, 33, 31), 1)),
    Op("cumprod: rows, zeros", retrograd.cumprod, np.swapaxes(ZEROS, 1, 2), -1, oracle=np.cumprod, integers=True),
    Op("logcumsumexp", retrograd.logcumsumexp, X, 1, oracle=log_add_up,
       errors=[Refusal(IndexError, "dim=-4 is out of range", X, -4)]),
    Op("cummax", retrograd.cummax, SPREAD, 1, integers=True, batch=(0,),
       oracle=lambda x, dim: (np.maximum.accumulate(x, 1),
                              np.maximum.accumulate(np.where(x == np.maximum.accumulate(x, 1),
                                                             np.arange(4)[:, None], 0), 1))),
    Op("cummin", lambda x: retrograd.cummin(x, 2)[0], SPREAD, integers=True,
       oracle=lambda x: np.minimum.accumulate(x, 2)),
    Op("diff", retrograd.diff, X, 2, 1, oracle=np.diff, linear=True, integers=True,
       errors=[Refusal(ValueError, "n=-1 must be an int of at least 0", X, -1)]),
    Op("diff: with more", retrograd.diff, X, 1, 2, normal(3, 4, 1), normal(3, 4, 3), linear=True, batch=(0, 1, 2),
       oracle=np.diff, integers=True,
       errors=[Refusal(ValueError, "prepend.shape=(3, 1, 2) must equal input.shape", X, 1, 2, X[:, :1], X),
               Refusal(TypeError, "diff: append is int, needs a Tensor", X, 1, 2, X, 3)]),
    Op("trapezoid", retrograd.trapezoid, X, kwargs={"dx": 0.5, "dim": 1}, linear=True,
       oracle=lambda y, dx, dim: (y[:, 1:] + y[:, :-1]).sum(1) / 4,
       errors=[Refusal(TypeError, "dx='a' must be a number", X, dx="a")]),
    Op("trapezoid: places", retrograd.trapezoid, X, normal(4), kwargs={"dim": 1}, batch=(0,),
       oracle=lambda y, x, dim: ((y[:, 1:] + y[:, :-1]) / 2 * np.diff(x)[:, None]).sum(1),
       errors=[Refusal(ValueError, "x.shape=(3,) must be (4,), or broadcast", X, normal(3), dim=1),
               Refusal(ValueError, "x and dx are both given", X, normal(2), dx=1.0)]),
    # ------------------------------------------------------------------------------------------- order
    Op("sort", retrograd.sort, SPREAD, kwargs={"dim": 1}, integers=True,
       oracle=lambda x, dim: (np.sort(x, 1), np.argsort(x, 1))),
    Op("sort: descending", retrograd.sort, SPREAD, kwargs={"descending": True, "stable": True}, integers=True,
       oracle=lambda x, descending, stable: (-np.sort(-x), np.argsort(-x, kind="stable"))),
    Op("argsort", retrograd.argsort, ties(X), kwargs={"stable": True}, integers=True,
       order=0,
       oracle=lambda x, stable: np.argsort(x, kind="stable")),
    Op("topk", retrograd.topk, SPREAD, 2, 1, integers=True,
       oracle=lambda x, k, dim: (-np.sort(-x, 1)[:, :2], np.argsort(-x, 1)[:, :2]),
       errors=[Refusal(ValueError, "k=5 must be an int from 0 to 4, the extent of axis dim=1", X, 5, 1)]),
    Op("topk: smallest", retrograd.topk, SPREAD, 3, kwargs={"dim": 0, "largest": False}, batch=(), integers=True,
       oracle=lambda x, k, dim, largest: (np.sort(x, 0), np.argsort(x, 0))),
    Op("kthvalue", retrograd.kthvalue, SPREAD, 2, 1, integers=True,
       oracle=lambda x, k, dim: (np.sort(x, 1)[:, 1], np.argsort(x, 1)[:, 1]),
       errors=[Refusal(ValueError, "k=0 must be an int from 1 to 4", X, 0, 1)]),
    Op("median", retrograd.median, SPREAD, oracle=middle, batch=(), integers=True,
       errors=[Refusal(ValueError, "median: keepdim=True needs dim", X, keepdim=True), NOTHING]),
    Op("median: axis", retrograd.median, SPREAD, kwargs={"dim": 1}, integers=True,
       oracle=lambda x, dim: (middle(x, 1), middle(np.argsort(x, 1).argsort(1), 1) * 0 + np.argsort(x, 1)[:, 1])),
    Op("nanmedian", lambda x: retrograd.nanmedian(x, 0)[0], SPREAD, oracle=lambda x: middle(x, 0), batch=(),
       integers=True),
    Op("mode", retrograd.mode, COPIES, integers=True, order=0, batch=(0,),
       oracle=lambda x: (np.array([2.0, 3.0])[: len(x)], np.array([2, 3])[: len(x)])),
    Op("unique", retrograd.unique, COPIES, kwargs={"return_inverse": True, "return_counts": True}, integers=True,
       order=0, batch=(),
       oracle=lambda x, **_: (np.array([0.5, 1, 2, 3]), np.array([[1, 2, 2, 0], [3, 0, 3, 3]]), np.array([2, 1, 2, 3])),
       errors=[Refusal(IndexError, "dim=2 is out of range", COPIES, dim=2)]),
    Op("searchsorted", retrograd.searchsorted, np.array([0.0, 1.0, 1.0, 2.5]), COPIES, integers=True, order=0, batch=(),
       oracle=lambda s, v: np.array([[1, 3, 3, 1], [4, 1, 4, 4]]),
       errors=[Refusal(ValueError, "must be equal but for the last axis", COPIES, normal(3, 2)),
               Refusal(ValueError, "side='left' must be", COPIES, COPIES, side="left", right=True),
               Refusal(TypeError, "searchsorted: input is str", COPIES, "a")]),
    Op("bucketize", retrograd.bucketize, COPIES, np.array([0.5, 1.0, 2.5]), kwargs={"right": True}, integers=True,
       order=0, oracle=lambda x, b, right: np.array([[2, 2, 2, 1], [3, 1, 3, 3]])[: len(x)],
       errors=[Refusal(ValueError, "boundaries.shape=(2, 4) must have one axis", COPIES, COPIES)]),
    Op("histc", retrograd.histc, COPIES, 5, 0.0, 2.5, order=0, batch=(),
       oracle=lambda x, bins, low, high: np.array([0.0, 2.0, 1.0, 0.0, 2.0]),
       errors=[Refusal(ValueError, "bins=0 must be an int", COPIES, 0),
               Refusal(ValueError, "range from min=2.0 to max=1.0", COPIES, 3, 2.0, 1.0)]),
    Op("bincount", retrograd.bincount, np.array([1, 3, 1]), batch=(),
       oracle=lambda x: np.array([0, 2, 0, 1]),
       errors=[Refusal(ValueError, "no negative element", np.array([1, -1])),
               Refusal(TypeError, "bincount: input is float64, needs an int64 Tensor", COPIES),
               Refusal(ValueError, "weights.shape=(2, 4) must equal", np.array([1, 2]), COPIES),
               Refusal(ValueError, "minlength=-1 must be", np.array([1, 2]), minlength=-1)]),
]  # fmt: skip
