"""Studies: comparisons of several networks trained on the same images, with a page about the result.

``retrograd study low-bit mnist5k`` and ``retrograd study feedback mnist5k`` run them.
"""

from .feedback_alignment import RECIPE as _FEEDBACK
from .feedback_alignment import feedback
from .low_bit import RECIPE as _LOW_BIT
from .low_bit import low_bit
from .study import Recipe, Study, write_study

# name on the command line -> the function and its default recipe
STUDIES = {"low-bit": (low_bit, _LOW_BIT), "feedback": (feedback, _FEEDBACK)}

__all__ = ["STUDIES", "Recipe", "Study", "feedback", "low_bit", "write_study"]
