"""In-place methods that PyTorch also offers as functions: ``retrograd.relu_(x)`` is ``x.relu_()``."""

from __future__ import annotations

from typing import Final

from ..engine.tensor import Tensor

__all__ = [
    "abs_",
    "acos_",
    "acosh_",
    "addmv_",
    "arccos_",
    "arccosh_",
    "arcsin_",
    "arcsinh_",
    "arctan_",
    "arctanh_",
    "as_strided_",
    "asin_",
    "asinh_",
    "atan_",
    "atanh_",
    "ceil_",
    "clamp_",
    "clamp_max_",
    "clamp_min_",
    "clip_",
    "conj_physical_",
    "cos_",
    "cosh_",
    "deg2rad_",
    "detach_",
    "erf_",
    "erfc_",
    "exp2_",
    "exp_",
    "expm1_",
    "fill_",
    "fix_",
    "floor_",
    "frac_",
    "gcd_",
    "i0_",
    "index_put_",
    "lcm_",
    "ldexp_",
    "log10_",
    "log1p_",
    "log2_",
    "log_",
    "logit_",
    "nan_to_num_",
    "neg_",
    "negative_",
    "rad2deg_",
    "reciprocal_",
    "relu_",
    "resize_as_",
    "round_",
    "rsqrt_",
    "sigmoid_",
    "sin_",
    "sinc_",
    "sinh_",
    "sqrt_",
    "square_",
    "tan_",
    "tanh_",
    "trunc_",
    "xlogy_",
    "zero_",
]

abs_: Final = Tensor.abs_
acos_: Final = Tensor.acos_
acosh_: Final = Tensor.acosh_
addmv_: Final = Tensor.addmv_
arccos_: Final = Tensor.arccos_
arccosh_: Final = Tensor.arccosh_
arcsin_: Final = Tensor.arcsin_
arcsinh_: Final = Tensor.arcsinh_
arctan_: Final = Tensor.arctan_
arctanh_: Final = Tensor.arctanh_
as_strided_: Final = Tensor.as_strided_
asin_: Final = Tensor.asin_
asinh_: Final = Tensor.asinh_
atan_: Final = Tensor.atan_
atanh_: Final = Tensor.atanh_
ceil_: Final = Tensor.ceil_
clamp_: Final = Tensor.clamp_
clamp_max_: Final = Tensor.clamp_max_
clamp_min_: Final = Tensor.clamp_min_
clip_: Final = Tensor.clip_
conj_physical_: Final = Tensor.conj_physical_
cos_: Final = Tensor.cos_
cosh_: Final = Tensor.cosh_
deg2rad_: Final = Tensor.deg2rad_
detach_: Final = Tensor.detach_
erf_: Final = Tensor.erf_
erfc_: Final = Tensor.erfc_
exp2_: Final = Tensor.exp2_
exp_: Final = Tensor.exp_
expm1_: Final = Tensor.expm1_
fill_: Final = Tensor.fill_
fix_: Final = Tensor.fix_
floor_: Final = Tensor.floor_
frac_: Final = Tensor.frac_
gcd_: Final = Tensor.gcd_
i0_: Final = Tensor.i0_
index_put_: Final = Tensor.index_put_
lcm_: Final = Tensor.lcm_
ldexp_: Final = Tensor.ldexp_
log10_: Final = Tensor.log10_
log1p_: Final = Tensor.log1p_
log2_: Final = Tensor.log2_
log_: Final = Tensor.log_
logit_: Final = Tensor.logit_
nan_to_num_: Final = Tensor.nan_to_num_
neg_: Final = Tensor.neg_
negative_: Final = Tensor.negative_
rad2deg_: Final = Tensor.rad2deg_
reciprocal_: Final = Tensor.reciprocal_
relu_: Final = Tensor.relu_
resize_as_: Final = Tensor.resize_as_
round_: Final = Tensor.round_
rsqrt_: Final = Tensor.rsqrt_
sigmoid_: Final = Tensor.sigmoid_
sin_: Final = Tensor.sin_
sinc_: Final = Tensor.sinc_
sinh_: Final = Tensor.sinh_
sqrt_: Final = Tensor.sqrt_
square_: Final = Tensor.square_
tan_: Final = Tensor.tan_
tanh_: Final = Tensor.tanh_
trunc_: Final = Tensor.trunc_
xlogy_: Final = Tensor.xlogy_
zero_: Final = Tensor.zero_
