"""PyTorch's ``torch.backends``: whether a backend is there, and its flags, which change nothing here.

The same program gives the same bits always; products of float32 are computed in float32. Which kernels run is chosen by
``retrograd.use_kernels``.
"""

from . import cuda, cudnn, mkl, mkldnn, mps

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps"]
