"""Every kernel by name: its signature, the shapes and types of its results, and what it computes, in one line.

``kernels.softmax(x, axis)`` (see ``retrograd.kernel_set``) calls the kernel of this name in the active set. The
textbook set implements it in plain NumPy, the compiled set in machine code; both have the signature below. An array
that a kernel changes in place is named in ``writes`` or ``changes``.
"""

from __future__ import annotations

from ...formulas import FUSED, POINTWISE
from ...specs.array_spec import Array, Spec, arrays_in, layout_of, leaves, mapped, spec_of
from .indexing import Indexing
from .kernel import KERNELS, Kernel, elementwise
from .layers import Layers
from .linear_algebra import LinearAlgebra
from .memory import Memory
from .numeric import Numeric
from .training import Training

__all__ = ["KERNELS", "Array", "Interface", "Kernel", "Spec", "arrays_in", "layout_of", "leaves", "mapped", "spec_of"]


class Interface(Layers, Training, Numeric, Memory, Indexing, LinearAlgebra):
    """The kernels. x is the input, w a weight, g the gradient to the result; gx, gw, ... are gradients."""


KERNELS.update({name: Kernel(name, formula, elementwise(formula)) for name, formula in (POINTWISE | FUSED).items()})
