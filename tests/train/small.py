"""A tiny training task."""

import numpy as np

from retrograd import nn
from retrograd.data import TensorDataset
from retrograd.ops.random.random import default_generator
from retrograd.train import ImageTask, Settings, Trainer


def noisy(images: np.ndarray) -> np.ndarray:
    return images + default_generator.normal(0, 0.1, images.shape).astype(np.float32)


def small_task(hidden: int = 3) -> ImageTask:
    random = np.random.default_rng(1)
    labels = random.integers(0, 2, 32)
    images = (random.normal(size=(32, 1, 4, 4)) + labels[:, None, None, None]).astype(np.float32)
    model = nn.Sequential(
        nn.Conv2d(1, hidden, 3),
        nn.BatchNorm2d(hidden),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(4 * hidden, 2),
    )
    train, held_out = TensorDataset(images[:20], labels[:20]), TensorDataset(images[20:], labels[20:])
    return ImageTask(
        name="small",
        title="Small & quick",
        classes=("low", "high"),
        model=model,
        train=train,
        held_out=held_out,
        augment=noisy,
        source="made <up>",
    )


SMALL = Settings(epochs=3, batch_size=6, lr=0.01, seed=4, kernels="textbook")


def bits(trainer: Trainer) -> dict[str, bytes]:
    return {name: tensor.array.tobytes() for name, tensor in trainer.model.state_dict().items()}
