"""Runs the agent's model on pictures whose labels it has never seen."""

import numpy as np
import torch
from utils import get_best_model

MEAN, STD, BATCH = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010), 250


def answers(pictures):
    """Scores for uint8 pictures, shape and sum of each tensor of the model, and whether it came in training mode."""
    torch.set_num_threads(1)
    model = get_best_model()
    if not isinstance(model, torch.nn.Module):
        return {"kind": type(model).__name__}
    training = any(part.training for part in model.modules())
    model.eval()
    mean, std = (torch.tensor(part).view(3, 1, 1) for part in (MEAN, STD))
    given = torch.from_numpy(np.array(pictures))
    with torch.no_grad():
        parts = [model((part.float() / 255 - mean) / std) for part in given.split(BATCH)]
        tensors = {name: [list(part.shape), float(part.double().sum())] for name, part in model.state_dict().items()}
    return {"scores": torch.cat(parts).float().numpy(), "tensors": tensors, "training": training}
