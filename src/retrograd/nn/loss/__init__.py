"""Losses as layers: each stores the options of the ``nn.functional`` function it calls."""

from . import classification, ctc, distance, likelihood, ranking, regression
from .classification import *
from .ctc import *
from .distance import *
from .likelihood import *
from .ranking import *
from .regression import *

__all__: list[str] = []
__all__ += classification.__all__
__all__ += ctc.__all__
__all__ += distance.__all__
__all__ += likelihood.__all__
__all__ += ranking.__all__
__all__ += regression.__all__
