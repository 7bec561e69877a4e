"""The training behind weights.safetensors: 400 classes in 80 families, three minutes on one core.

python pretrain.py FOLDER, where FOLDER holds textures.py: the hidden folder of full_train_workflow_performance_test.
"""

import sys

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

sys.path.insert(0, sys.argv[1])
from textures import draw_world, paint

CLASSES, FAMILIES, STEPS, BATCH, NOISE = 400, 80, 2500, 256, 0.06


class Backbone(nn.Module):
    """As backbone.py computes it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 24, 3, padding=1)
        self.conv2 = nn.Conv2d(24, 48, 3, padding=1)
        self.conv3 = nn.Conv2d(48, 96, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in (self.conv1, self.conv2):
            x = nn.functional.max_pool2d(torch.relu(layer(x)), 2)
        return torch.relu(self.conv3(x)).mean((2, 3))


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rng = np.random.default_rng(1)
    world = draw_world(rng, CLASSES, FAMILIES)
    net, head = Backbone(), nn.Linear(96, CLASSES)
    for layer in (net.conv1, net.conv2, net.conv3):
        nn.init.kaiming_normal_(layer.weight)
        nn.init.zeros_(layer.bias)
    optimiser = torch.optim.AdamW([*net.parameters(), *head.parameters()], lr=3e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=STEPS, pct_start=0.1)
    for _ in range(STEPS):
        labels = rng.integers(0, CLASSES, BATCH)
        pictures = torch.from_numpy(paint(rng, world, labels, NOISE)).float() / 127.5 - 1
        loss = nn.functional.cross_entropy(head(net(pictures)), torch.from_numpy(labels))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    save_file(net.state_dict(), "weights.safetensors")


if __name__ == "__main__":
    main()
