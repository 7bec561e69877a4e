"""Calls the agent's train() inside the subject and keeps what the model predicts at every epoch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def _counted(passes: list[str]) -> None:
    """Note every backward pass from now on. The code that is counted can write here, too: a hint, and no proof."""

    def noting(function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            passes.append(function.__name__)
            return function(*args, **kwargs)

        return call

    torch.autograd.backward, torch.autograd.grad = noting(torch.autograd.backward), noting(torch.autograd.grad)


def fit(x: Any, y: Any, probe: Any, epochs: int) -> dict[str, Any]:
    """Losses, predictions at every callback and at the end, the trainable parameters, the number of backward passes."""
    passes: list[str] = []
    _counted(passes)
    from train import train

    entries, targets, unseen = torch.from_numpy(x), torch.from_numpy(y), torch.from_numpy(probe)
    told: list[float] = []
    path: list[Any] = []

    def keep(epoch: int, loss: float, model: nn.Module) -> None:
        if epoch != len(path):
            raise ValueError(f"callback number {len(path)} was given epoch {epoch}")
        with torch.no_grad():
            told.append(loss)
            path.append(model(entries).detach().clone())

    # The agent's code gets copies: changing them must not change what is compared, nor does wiping them change a model.
    given = entries.clone(), targets.clone()
    losses, model = train(*given, epochs=epochs, callback=keep)
    with torch.no_grad():
        for copy in given:
            copy.zero_()
        final, beyond = model(entries), model(unseen)
    shapes = [list(value.shape) for value in model.parameters() if value.requires_grad]
    found = {"losses": losses, "told": told, "path": path, "final": final, "beyond": beyond, "shapes": shapes}
    layers = sum(isinstance(part, nn.Linear) for part in model.modules())
    return {**found, "passes": len(passes), "layers": layers}


_told: list[list[float]] = []


class _Remembering:
    """A callback that notes its numbers and leaves gradients; what it returns, and whether it is true, mean nothing."""

    def __call__(self, epoch: int, loss: float, model: nn.Module, /) -> int:
        _told.append([epoch, loss])
        with torch.enable_grad():
            (loss * model(torch.ones(1, 1))).sum().backward()
        model.eval()
        return len(_told)

    def __len__(self) -> int:
        return 0


remember = _Remembering()


def fitted(value: Any, unseen: Any, beside: Any) -> dict[str, Any]:
    """What a call of train() has returned and told, and what the model predicts in every mode."""
    losses, model = value
    told = list(_told)
    _told.clear()
    entries = torch.from_numpy(unseen)
    predicted = []
    for mode in (True, False):
        model.train(mode)
        for gradients in (True, False):
            with torch.set_grad_enabled(gradients):
                predicted.append(model(entries).detach().clone())
    with torch.no_grad():
        place = entries[:1].clone()  # one tensor for all: what a model keeps of its last entry shows
        single = torch.cat([model(place.copy_(entry)).clone() for entry in entries])
        among = model(torch.cat([entries, torch.from_numpy(beside)]))[: len(entries)]
    kinds = sorted({type(loss).__name__ for loss in [*losses, *(loss for _, loss in told)]})
    alone = {"predicted": predicted, "single": single, "among": among}
    return {"losses": list(losses), "kinds": kinds, "told": told, **alone}


def made(value: Any, points: int, seed: int) -> dict[str, Any]:
    """The points of a call of make_data(), and the noise that its seed gives."""
    noise = 20 * torch.randn((points, 1), generator=torch.Generator().manual_seed(seed))
    return {"x": value[0], "y": value[1], "noise": noise}
