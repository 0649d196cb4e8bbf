"""``retrograd.utils.tensorboard.SummaryWriter``, which stands in explain/tensorboard."""

from ..explain.tensorboard.writer import SummaryWriter

__all__ = ["SummaryWriter"]
