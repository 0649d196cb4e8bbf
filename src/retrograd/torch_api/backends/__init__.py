"""``torch.backends``: availability of backends, and their flags, which have no effect here.

The same program always gives the same bits; products of float32 are computed in float32. ``retrograd.use_kernels``
chooses the kernels.
"""

from . import cuda, cudnn, mkl, mkldnn, mps

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps"]
