"""Training: fit(), callbacks, gradient statistics, checkpoints, and the command line's tasks and trainer."""

from ..ops.signatures import explain_wrong_arguments as _explain_wrong_arguments
from .callbacks import BestWeights, Callback, CosineSchedule, EarlyStopping, LRScheduler, ModelCheckpoint
from .checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from .diagnostics import LayerTime, TrainingError, profile
from .fit import Fit, History, fit
from .gradients import GradientMonitor, GradientStatistics, LayerGradients, true_gradients
from .image_classification import ImageTask
from .inference import Forecast, ImageRun, SeriesRun, TextRun, load_run
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
    "Forecast",
    "GradientMonitor",
    "GradientStatistics",
    "History",
    "ImageRun",
    "ImageTask",
    "LRScheduler",
    "LayerGradients",
    "LayerTime",
    "ModelCheckpoint",
    "Progress",
    "SeriesRun",
    "Settings",
    "Stopped",
    "Task",
    "TextRun",
    "Trainer",
    "TrainingError",
    "fit",
    "load_checkpoint",
    "load_run",
    "make_progress",
    "profile",
    "save_checkpoint",
    "true_gradients",
]

_explain_wrong_arguments(globals()[name] for name in __all__)
