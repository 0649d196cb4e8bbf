"""``retrograd.utils.tensorboard.SummaryWriter``, which stands in explanation/tensorboard."""

from ..explanation.tensorboard.writer import SummaryWriter

__all__ = ["SummaryWriter"]

__path__: list[str] = []  # PyTorch has modules below it, see torch_api/imports.py
