"""Trains a small message-passing network on small graphs and predicts the pointers of larger ones."""

import csv

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

WIDTH, ROUNDS, RATE, EPOCHS, BATCH = 8, 1, 1e-2, 8, 25


class Network(nn.Module):
    """Nodes exchange messages over edges; then each node is weighed as the pointer of each pair."""

    def __init__(self) -> None:
        super().__init__()
        self.message = nn.Linear(WIDTH + 1, WIDTH)
        self.update = nn.Linear(2 * WIDTH, WIDTH)
        self.pair = nn.Linear(WIDTH + 2, 4 * WIDTH)
        self.step = nn.Linear(WIDTH + 1, 4 * WIDTH)
        self.score = nn.Linear(4 * WIDTH, 1)

    def forward(self, weights: torch.Tensor) -> torch.Tensor:
        """weights: graphs x nodes x nodes. Gives graphs x source x target x pointer, -inf where there is no edge."""
        graphs, size, _ = weights.shape
        edges, own = weights > 0, torch.eye(size).expand(graphs, size, size)
        states = torch.zeros(graphs, size, WIDTH)
        for _ in range(ROUNDS):
            sent = torch.cat([states[:, None].expand(-1, size, -1, -1), weights[..., None]], dim=-1)
            got = (F.relu(self.message(sent)) * edges[..., None]).amax(dim=2)
            states = F.relu(self.update(torch.cat([states, got], dim=-1)))
        near = torch.cat([states[:, None].expand(-1, size, -1, -1), weights[..., None]], dim=-1)
        far = torch.cat([near, own[..., None]], dim=-1)
        joined = self.pair(far)[:, :, None] + self.step(near)[:, None]
        scores = self.score(F.relu(joined))[..., 0]
        return scores.masked_fill(~edges[:, None], -torch.inf)


def read(name: str) -> dict[str, torch.Tensor]:
    with np.load(f"graphs/{name}.npz") as file:
        return {key: torch.from_numpy(file[key]) for key in file.files}


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    train, test = read("train"), read("test")
    model = Network()
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    for epoch in range(EPOCHS):
        losses = []
        for rows in torch.randperm(len(train["sizes"])).split(BATCH):
            known = train["pointers"][rows]
            asked = known >= 0
            loss = F.cross_entropy(model(train["weights"][rows])[asked], known[asked])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}")
    lines = []
    with torch.no_grad():
        for graph, (size, weights) in enumerate(zip(test["sizes"].tolist(), test["weights"], strict=True)):
            named = model(weights[None, :size, :size])[0].argmax(dim=-1)
            pairs = [(source, target) for source in range(size) for target in range(size) if source != target]
            lines += [(f"{graph}:{source}:{target}", int(named[source, target])) for source, target in pairs]
    with open("submission.csv", "w", newline="") as file:
        csv.writer(file).writerows([("pair", "pointer"), *lines])


if __name__ == "__main__":
    main()
