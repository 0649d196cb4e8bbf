"""Losses as layers: each stores the options of the ``nn.functional`` function it calls."""

from . import classification, ctc, distance, likelihood, ranking, regression
from .classification import *
from .ctc import *
from .distance import *
from .likelihood import *
from .ranking import *
from .regression import *

__all__: list[str] = []
for _family in (classification, ctc, distance, likelihood, ranking, regression):
    __all__ += _family.__all__
