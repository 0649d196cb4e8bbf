"""Training: fit(), callbacks, gradient statistics, checkpoints, and the command line's tasks and trainer."""

from .callbacks import BestWeights, Callback, CosineSchedule, EarlyStopping, LRScheduler, ModelCheckpoint
from .checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from .diagnostics import LayerTime, TrainingError, profile
from .fit import Fit, History, fit
from .gradients import GradientMonitor, GradientStatistics, LayerGradients, true_gradients
from .image_classification import ImageTask
from .progress import Progress, make_progress
from .task import Settings, Task
from .trainer import Stopped, Trainer

__all__ = [
    "BestWeights",
    "Callback",
    "CheckpointError",
    "CosineSchedule",
    "EarlyStopping",
    "Fit",
    "GradientMonitor",
    "GradientStatistics",
    "History",
    "ImageTask",
    "LRScheduler",
    "LayerGradients",
    "LayerTime",
    "ModelCheckpoint",
    "Progress",
    "Settings",
    "Stopped",
    "Task",
    "Trainer",
    "TrainingError",
    "fit",
    "load_checkpoint",
    "make_progress",
    "profile",
    "save_checkpoint",
    "true_gradients",
]
