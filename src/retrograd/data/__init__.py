"""Datasets, samplers and the loader that makes batches; the digits that come with the package."""

from .collate import default_collate
from .dataset import ConcatDataset, Dataset, Subset, TensorDataset, random_split
from .digits import Digits, load_digits
from .loader import DataLoader
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = [
    "BatchSampler",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "Digits",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "Subset",
    "TensorDataset",
    "default_collate",
    "load_digits",
    "random_split",
]
