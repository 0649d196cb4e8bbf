"""Losses, one module per subject; ``nn.functional`` exports them.

``base`` contains the shared parts of elementwise losses: one pass for the loss and its mean, one for the gradient.
"""

from . import classification, ctc, margin, regression
from .classification import *
from .ctc import *
from .margin import *
from .regression import *

__all__: list[str] = []
__all__ += classification.__all__
__all__ += ctc.__all__
__all__ += regression.__all__
__all__ += margin.__all__
