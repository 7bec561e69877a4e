"""What the judge works out by itself in numpy is what PyTorch computes: networks, and the path of a training."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.base.child import load_module
from bench.base.install import find_data_folders
from bench.formats.case import Case, load_cases, missing_modules
from bench.judge.tensor_files import read_safetensors
from tests.helpers.cells import not_here

PLACES = find_data_folders()


@pytest.fixture(autouse=True)
def no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    """A workspace in which modules were imported would not be what an agent finds."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def _case(name: str) -> Case:
    (case,) = load_cases(PLACES.cases, [name])
    if missing := missing_modules(case.spec.needs.python):
        not_here(f"modules of {name}: {', '.join(missing)}")
    return case


def _module(path: Path) -> Any:
    return load_module(f"reference_{path.parent.name}_{path.stem}", path)


def _drawn(model: Any, draw: np.random.Generator) -> dict[str, Any]:
    """Random weights for a model, variances positive among them, put into it."""
    import torch

    state: dict[str, Any] = {}
    for name, value in model.state_dict().items():
        if value.ndim == 1:
            state[name] = draw.uniform(0.3, 1.2, size=value.shape).astype(np.float32)
        elif value.ndim:
            state[name] = draw.normal(0, 0.15, size=value.shape).astype(np.float32)
        else:
            state[name] = np.array(3)
    model.load_state_dict({name: torch.as_tensor(value) for name, value in state.items()}, strict=True)
    model.eval()
    return state


def test_colour_net_is_that_of_the_starter() -> None:
    case = _case("shape_mismatch_train")
    import torch

    ours, draw = _module(case.folder / "hidden" / "colour_net.py"), np.random.default_rng(1)
    theirs = _module(case.folder / "workspace" / "network.py").ColourNet(ours.CLASSES)
    state = _drawn(theirs, draw)
    assert {name: value.shape for name, value in state.items()} == ours.shapes()
    images = draw.normal(size=(7, 3, 32, 32)).astype(np.float32)
    with torch.no_grad():
        expected = theirs(torch.from_numpy(images)).numpy()
    assert np.abs(ours.logits(state, images) - expected).max() < 1e-4 * expected.std()


def test_small_cnn_is_that_of_the_starter() -> None:
    case = _case("improve_cifar10_baseline")
    import torch

    ours, painter = (_module(case.folder / "hidden" / f"{name}.py") for name in ("small_cnn", "painter"))
    model = _module(case.folder / "workspace" / "model.py")
    checkpoint = case.folder / "workspace" / "checkpoints" / "baseline.safetensors"
    state = read_safetensors(checkpoint.read_bytes())
    theirs = model.SmallCNN()
    theirs.load_state_dict({name: torch.as_tensor(value) for name, value in state.items()}, strict=True)
    pictures, labels = painter.paint(np.random.default_rng(2), 600)
    with torch.no_grad():
        expected = theirs(model.prepare(torch.from_numpy(pictures))).argmax(1).numpy()
    assert (expected == labels).mean() > 0.7
    assert (ours.named(state, pictures) == expected).mean() > 0.995


@pytest.mark.parametrize("weights", [1e30, -1e30])
def test_weights_that_overflow_break_no_network(weights: float) -> None:
    case = _case("improve_cifar10_baseline")
    ours = _module(case.folder / "hidden" / "small_cnn.py")
    state = _drawn(_module(case.folder / "workspace" / "model.py").SmallCNN(), np.random.default_rng(3))
    wild = {name: np.full_like(value, weights) for name, value in state.items()}
    assert ours.named(wild, np.full((3, 3, 24, 24), 9, np.uint8)).shape == (3,)


@pytest.mark.parametrize(("kind", "steps", "rate"), [("Descent", 9, 0.02), ("Adam", 60, 0.05)])
def test_the_path_of_a_training_is_that_of_pytorch(kind: str, steps: int, rate: float) -> None:
    case = _case("lora_implementation")
    import torch

    ours, draw = _module(case.folder / "hidden" / "descent.py"), np.random.default_rng(4)
    sizes = {"in_features": 11, "out_features": 7, "rank": 3, "alpha": 2.0, "bias": True}
    shapes = {"weight": (7, 11), "bias": (7,), "a": (3, 11), "b": (7, 3)}
    arrays = {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    x, y = draw.normal(size=(32, 11)).astype(np.float32), draw.normal(size=(32, 7)).astype(np.float32)
    layer = _module(case.folder / "solution" / "lora.py").LoraLinear(**sizes)
    named = {"weight": layer.linear.weight, "bias": layer.linear.bias, "a": layer.lora_A, "b": layer.lora_B}
    with torch.no_grad():
        for name, value in arrays.items():
            named[name].copy_(torch.from_numpy(value))
    optimizer: Any = {"Descent": torch.optim.SGD, "Adam": torch.optim.Adam}[kind](layer.parameters(), lr=rate)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(layer(torch.from_numpy(x)), torch.from_numpy(y)).backward()
        optimizer.step()
    found = ours.descended(sizes, arrays, x, y, getattr(ours, kind)(steps, rate))
    for name, value in named.items():
        assert np.abs(found[name] - value.detach().numpy()).max() < 1e-4, name
    assert np.abs(found["a"] - arrays["a"]).max() > 1e-3


def test_the_steps_of_the_colour_net_are_those_of_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    case = _case("shape_mismatch_train")
    import torch

    monkeypatch.syspath_prepend(str(case.folder / "hidden"))
    try:
        ours = _module(case.folder / "hidden" / "descent.py")
    finally:
        for name in ("worth", "colour_net"):
            sys.modules.pop(name, None)
    draw, label = np.random.default_rng(5), 3
    before = draw.normal(size=(26, 32, 10)).astype(np.float32)
    validation = [2.5, 2.4, *(2.4 + 0.1 * n for n in range(11))]
    bias = torch.zeros(10, requires_grad=True)
    optimizer = torch.optim.Adam([bias], lr=1e-3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=3)
    biases, outputs, rates = [], [], []
    for epoch, loss in enumerate(validation):
        rates.append(optimizer.param_groups[0]["lr"])
        for hidden in before[2 * epoch : 2 * epoch + 2]:
            biases.append(bias.detach().numpy().copy())
            logits = torch.from_numpy(hidden) + bias
            outputs.append(logits.detach().numpy())
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(logits, torch.full((32,), label)).backward()
            optimizer.step()
        scheduler.step(loss)
    biases.append(bias.detach().numpy().copy())
    assert np.allclose(ours.rates(validation), rates) and rates[-1] < 1.1e-5
    ours.assert_steps(np.stack(outputs), label, np.stack(biases), validation)
    with pytest.raises(AssertionError, match="learning rate"):
        ours.assert_steps(np.stack(outputs), label, np.stack(biases), sorted(validation, reverse=True))
