"""Checkpoints that several processes write together: ``torch.distributed.checkpoint``."""

from ...absent import attach_to_module
from .storage import *
from .storage import __all__ as __all__

attach_to_module(__name__)
