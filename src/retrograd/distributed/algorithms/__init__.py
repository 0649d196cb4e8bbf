"""PyTorch's path to the hooks that exchange gradients: ``torch.distributed.algorithms``."""

from . import ddp_comm_hooks as ddp_comm_hooks
