"""Studies: several networks trained on the same images, side by side, with a report.

``retrograd study low-bit mnist5k`` and ``retrograd study feedback mnist5k`` run them.
"""

from .feedback import feedback
from .study import Recipe, Study, write_study

__all__ = ["Recipe", "Study", "feedback", "write_study"]
