"""Losses, a file for each subject; ``nn.functional`` offers them.

``elements`` holds what the losses of single elements share: one pass for the loss and its mean, one for the gradient.
"""

from . import binary, classification, ctc, likelihood, margin, ranking, regression
from .binary import *
from .classification import *
from .ctc import *
from .likelihood import *
from .margin import *
from .ranking import *
from .regression import *

__all__: list[str] = []
__all__ += binary.__all__
__all__ += classification.__all__
__all__ += ctc.__all__
__all__ += likelihood.__all__
__all__ += margin.__all__
__all__ += ranking.__all__
__all__ += regression.__all__
