"""``retrograd.utils.tensorboard.SummaryWriter``, which stands in explanation/tensorboard."""

from ..aliases import alias_modules
from ..explanation.tensorboard.writer import SummaryWriter

__all__ = ["SummaryWriter"]

alias_modules(__name__, ("writer",), __name__)
