"""Datasets, samplers and the loader that makes batches; image transforms; the images that come with packages."""

from . import transforms
from .collate import default_collate
from .dataset import ChainDataset, ConcatDataset, Dataset, IterableDataset, Subset, TensorDataset, random_split
from .digits import Digits, load_digits
from .images import ImageFolder, ImageFolderError
from .loader import DataLoader
from .mnist import MNIST5k, load_mnist5k
from .sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from .worker import WorkerInfo, get_worker_info

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "Digits",
    "ImageFolder",
    "ImageFolderError",
    "IterableDataset",
    "MNIST5k",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "default_collate",
    "get_worker_info",
    "load_digits",
    "load_mnist5k",
    "random_split",
    "transforms",
]
