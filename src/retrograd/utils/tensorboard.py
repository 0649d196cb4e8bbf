"""``SummaryWriter`` under PyTorch's import path; it is defined in explanation/tensorboard.py."""

from ..explanation.tensorboard import SummaryWriter

__all__ = ["SummaryWriter"]

__path__: list[str] = []  # PyTorch has submodules here, see torch_api/imports.py
