"""Special functions under PyTorch's names: ``torch.special``."""

from __future__ import annotations

from ..ops import log_softmax, logsumexp, softmax  # which take axis for dim, too
from ..ops.arguments.forms import add_forms
from ..ops.pointwise.rounding import round
from ..ops.pointwise.transcendental import erf, erfc, exp2, expm1, log1p, logit, sigmoid, sinc, xlogy
from ..ops.special.bessel import i0, i0e, i1, i1e
from ..ops.special.gamma import digamma, igamma, igammac, lgamma, mvlgamma, polygamma, zeta
from ..ops.special.normal import entr, erfinv, log_ndtr, ndtr, ndtri, xlog1py
from .missing import attach_to_module

__all__ = [
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "sinc",
    "softmax",
    "xlog1py",
    "xlogy",
    "zeta",
]

modified_bessel_i0, modified_bessel_i1 = i0, i1
expit, psi, gammaln, gammainc, gammaincc, multigammaln = sigmoid, digamma, lgamma, igamma, igammac, mvlgamma

add_forms(globals(), "special")
attach_to_module(__name__)
