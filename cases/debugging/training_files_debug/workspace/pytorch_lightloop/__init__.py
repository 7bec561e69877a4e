"""Lightloop 1, for programs that still need it."""

from pytorch_lightloop.data import LightloopDataModule
from pytorch_lightloop.module import LightloopModule
from pytorch_lightloop.trainer import Trainer

__version__ = "1.9.4"
__all__ = ["LightloopDataModule", "LightloopModule", "Trainer"]
