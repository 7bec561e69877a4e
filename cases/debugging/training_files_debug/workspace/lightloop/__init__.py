"""Lightloop 2: a loop around PyTorch. What has changed since version 1 is told in lightloop/CHANGES.md."""

from lightloop.callbacks import Callback, EarlyStopping, ModelCheckpoint
from lightloop.data import DataModule
from lightloop.loggers import TrackerLogger
from lightloop.module import Module
from lightloop.trainer import Trainer

__version__ = "2.1.0"
__all__ = ["Callback", "DataModule", "EarlyStopping", "ModelCheckpoint", "Module", "TrackerLogger", "Trainer"]
