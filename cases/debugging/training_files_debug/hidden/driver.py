"""Asks the agent's module and data for what the Trainer asks them, inside the subject."""

from __future__ import annotations

import inspect
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

Arrays = dict[str, Any]


def _model(weights: Arrays, rate: float) -> Any:
    from cifar10_classifier import CIFAR10Classifier

    model = CIFAR10Classifier(learning_rate=rate).double()
    model.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()})
    return model


def stepped(weights: Arrays, batches: list[list[Any]], rate: float) -> list[Any]:
    """The weights after a training step for each batch, and what was logged."""
    model = _model(weights, rate).train()
    optimizer = model.configure_optimizers()
    for number, (x, labels) in enumerate(batches):
        optimizer.zero_grad()
        model.training_step([torch.from_numpy(x), torch.from_numpy(labels)], number).backward()
        optimizer.step()
    return [dict(model.state_dict()), model.take_logged()]


def validated(weights: Arrays, rounds: list[list[list[Any]]]) -> list[dict[str, float]]:
    """What is logged in several validations of one model."""
    model, told = _model(weights, 0.1).eval(), []
    for batches in rounds:
        with torch.no_grad():
            for number, (x, labels) in enumerate(batches):
                model.validation_step([torch.from_numpy(x), torch.from_numpy(labels)], number)
            model.on_validation_epoch_end()
        told.append(model.take_logged())
    return told


def arguments() -> list[list[list[str]]]:
    """Names and default values of the arguments of both classes."""
    from cifar10_classifier import CIFAR10Classifier, CIFAR10DataModule

    kinds = [inspect.signature(one).parameters for one in (CIFAR10Classifier, CIFAR10DataModule)]
    return [[[name, str(kind.default)] for name, kind in parameters.items()] for parameters in kinds]


def examples(batch_sizes: list[int], seed: int) -> list[Any]:
    """Pictures, labels and sizes of the batches: training once for each of the sizes, validation twice."""
    from cifar10_classifier import CIFAR10DataModule

    torch.manual_seed(seed)
    # In a folder where no `data` is: the one that is given counts.
    folder = Path("data").absolute()
    os.chdir(tempfile.mkdtemp())
    made = {size: CIFAR10DataModule(str(folder), batch_size=size) for size in batch_sizes}
    for data in made.values():
        data.setup("fit")
    held, found = made[batch_sizes[0]].val_dataloader, []
    for loader in (*[made[size].train_dataloader for size in batch_sizes], held, held):
        batches = list(loader())
        pictures, labels = (torch.cat([torch.as_tensor(batch[part]) for batch in batches]) for part in (0, 1))
        found.append([pictures, labels, [len(batch[0]) for batch in batches]])
    return found
