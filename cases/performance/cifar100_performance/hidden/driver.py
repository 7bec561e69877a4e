"""Runs the agent's model on pictures whose labels it has never seen."""

import numpy as np
import torch
from utils import get_best_model

MEAN, STD, BATCH = (0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761), 250


def answers(pictures):
    """Logits for uint8 pictures; whether the model is in training mode; and shape and sum of each of its tensors."""
    torch.set_num_threads(1)
    model = get_best_model()
    if not isinstance(model, torch.nn.Module):
        return {"kind": type(model).__name__}
    mean, std = (torch.tensor(part).view(3, 1, 1) for part in (MEAN, STD))
    given = torch.from_numpy(np.array(pictures))
    training = any(part.training for part in model.modules())
    with torch.no_grad():
        parts = [model((part.float() / 255 - mean) / std)["logits"] for part in given.split(BATCH)]
        tensors = {name: [list(part.shape), float(part.double().sum())] for name, part in model.state_dict().items()}
    return {"logits": torch.cat(parts).float().numpy(), "tensors": tensors, "training": training}
