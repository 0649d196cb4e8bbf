"""Hooks for ``DistributedDataParallel.register_comm_hook``: how gradients are exchanged, and in how many bytes."""

from . import default_hooks as default_hooks
from . import top_k as top_k
from .default_hooks import allreduce_hook, bf16_compress_hook, fp16_compress_hook
from .top_k import TopK, topk_hook

__all__ = ["TopK", "allreduce_hook", "bf16_compress_hook", "fp16_compress_hook", "topk_hook"]
