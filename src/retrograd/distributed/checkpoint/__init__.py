"""Checkpoints that several processes write together: ``torch.distributed.checkpoint``."""

from ...torch_api.missing import attach_to_module
from .storage import *
from .storage import __all__ as __all__

attach_to_module(__name__)
