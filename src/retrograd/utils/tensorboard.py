"""``retrograd.utils.tensorboard.SummaryWriter``, which is in explanation/tensorboard.py."""

from ..explanation.tensorboard import SummaryWriter

__all__ = ["SummaryWriter"]

__path__: list[str] = []  # PyTorch has modules below it, see torch_api/imports.py
