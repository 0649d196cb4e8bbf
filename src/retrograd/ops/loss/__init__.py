"""Losses, a file for each subject; ``nn.functional`` offers them.

``base`` holds what the losses of single elements share: one pass for the loss and its mean, one for the gradient.
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
