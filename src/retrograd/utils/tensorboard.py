"""``retrograd.utils.tensorboard.SummaryWriter``, which stands in explanation/tensorboard."""

from ..explanation.tensorboard.writer import SummaryWriter

__all__ = ["SummaryWriter"]
