"""Datasets, samplers and the data loader; image transforms; bundled and user-supplied images, text and series."""

from ..ops.signatures import explain_wrong_arguments as _explain_wrong_arguments
from . import transforms
from .dataset import ChainDataset, ConcatDataset, Dataset, IterableDataset, Subset, TensorDataset, random_split
from .digits import Digits, MNIST5k, load_digits, load_mnist5k
from .fetch import default_collate
from .images import ImageFolder, ImageFolderError
from .loader import DataLoader
from .sampler import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from .series import Series, SeriesError, load_sunspots, read_series
from .text import Corpus, TextError, load_pydoc, read_text
from .workers import WorkerInfo, get_worker_info

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "Corpus",
    "DataLoader",
    "Dataset",
    "Digits",
    "DistributedSampler",
    "ImageFolder",
    "ImageFolderError",
    "IterableDataset",
    "MNIST5k",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "Series",
    "SeriesError",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "TextError",
    "WeightedRandomSampler",
    "WorkerInfo",
    "default_collate",
    "get_worker_info",
    "load_digits",
    "load_mnist5k",
    "load_pydoc",
    "load_sunspots",
    "random_split",
    "read_series",
    "read_text",
    "transforms",
]

_explain_wrong_arguments(globals()[name] for name in __all__)
