"""Training from the command line: tasks, the trainer, checkpoints and the report."""

from .checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from .faults import TrainingError
from .interrupt import Stopped
from .profile import LayerTime, profile
from .progress import Progress, make_progress
from .task import Settings, Task
from .trainer import Trainer

__all__ = [
    "CheckpointError",
    "LayerTime",
    "Progress",
    "Settings",
    "Stopped",
    "Task",
    "Trainer",
    "TrainingError",
    "load_checkpoint",
    "make_progress",
    "profile",
    "save_checkpoint",
]
