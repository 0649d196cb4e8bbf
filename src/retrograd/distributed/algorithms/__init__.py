"""PyTorch's path to the hooks that exchange gradients, and to ``Join``: ``torch.distributed.algorithms``."""

from . import ddp_comm_hooks as ddp_comm_hooks
from . import join as join
