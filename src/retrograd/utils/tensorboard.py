"""``SummaryWriter`` under PyTorch's import path; it is defined in explanation/tensorboard.py."""

from ..explanation.tensorboard import SummaryWriter

__all__ = ["SummaryWriter"]
