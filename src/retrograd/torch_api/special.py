"""Special functions under PyTorch's names: ``torch.special``."""

from __future__ import annotations

from typing import Final

from ..ops import log_softmax, logsumexp, softmax  # these also accept axis for dim
from ..ops.pointwise.exponential import erf, erfc, exp2, expm1, log1p, logit, sigmoid, sinc, xlogy
from ..ops.pointwise.rounding import round
from ..ops.signatures import add_forms
from ..ops.special import (
    digamma,
    entr,
    erfinv,
    i0,
    i0e,
    i1,
    i1e,
    igamma,
    igammac,
    lgamma,
    log_ndtr,
    mvlgamma,
    ndtr,
    ndtri,
    polygamma,
    xlog1py,
    zeta,
)
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

modified_bessel_i0: Final = i0
modified_bessel_i1: Final = i1
expit: Final = sigmoid
psi: Final = digamma
gammaln: Final = lgamma
gammainc: Final = igamma
gammaincc: Final = igammac
multigammaln: Final = mvlgamma

add_forms(globals(), "special")
attach_to_module(__name__)
