"""Trains the classifier for two epochs: `python train.py`."""

import json
import logging
from pathlib import Path

import torch
from lightloop import EarlyStopping, ModelCheckpoint, TrackerLogger, Trainer

from cifar10_classifier import CIFAR10Classifier, CIFAR10DataModule


def main() -> None:
    logging.basicConfig(filename="training.log", filemode="w", level=logging.INFO, format="%(message)s")
    torch.manual_seed(7)
    logger = TrackerLogger("cifar10-training")
    callbacks = [
        EarlyStopping("val_loss", patience=5),
        ModelCheckpoint("checkpoints", "cifar10-{epoch:02d}-{val_loss:.2f}"),
    ]
    data, model = CIFAR10DataModule("data", batch_size=32), CIFAR10Classifier(learning_rate=1e-2)
    Trainer(max_epochs=2, logger=logger, callbacks=callbacks).fit(model, data)
    info = {"project_id": logger.project, "run_id": logger.run_id, "run_url": logger.url}
    Path("wandb_info.json").write_text(json.dumps(info, indent=2) + "\n")


if __name__ == "__main__":
    main()
