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


def trained(weights: Arrays, epochs: list[list[Any]], rate: float) -> list[Any]:
    """Logged values and weights after each epoch of batches for training and for validation."""
    # Another model of the class, whose validation is broken off, is none of this one's.
    model, other, told = _model(weights, rate), _model(weights, rate).eval(), []
    optimizer = model.configure_optimizers()
    for parts in epochs:
        training, validation = ([[torch.from_numpy(x) for x in batch] for batch in part] for part in parts)
        model.train()
        for number, batch in enumerate(training):
            optimizer.zero_grad()
            model.training_step(batch, number).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for number, batch in enumerate(validation):
                other.validation_step(training[0], number)
                model.validation_step(batch, number)
            model.on_validation_epoch_end()
        told.append([model.take_logged(), {name: part.clone() for name, part in model.state_dict().items()}])
    return told


def descended(weights: Arrays, gradients: list[Arrays], rate: float) -> Arrays:
    """The weights after a step of the optimizer with each of the gradients."""
    model = _model(weights, rate).train()
    optimizer = model.configure_optimizers()
    for given in gradients:
        optimizer.zero_grad()
        for name, part in model.named_parameters():
            part.grad = torch.from_numpy(given[name])
        optimizer.step()
    return dict(model.state_dict())


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
    first, found = made[batch_sizes[0]], []
    pairs = [(data.train_dataloader, data.val_dataloader) for data in (made[size] for size in batch_sizes)]
    for make, other in (*pairs, *[(first.val_dataloader, first.train_dataloader)] * 2):
        # The other is there as well: what one gives must not depend on which was made last.
        loader, _ = make(), other()
        batches = list(loader)
        pictures, labels = (torch.cat([torch.as_tensor(batch[part]) for batch in batches]) for part in (0, 1))
        found.append([pictures, labels, [len(batch[0]) for batch in batches]])
    return found
