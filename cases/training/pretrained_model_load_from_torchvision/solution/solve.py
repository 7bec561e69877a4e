"""Fetch the default weights, load them into the model, save and describe it."""

import json
import os
import urllib.request
from pathlib import Path

import torch
from resnet import resnet18

BASE = os.environ["MODEL_ZOO_URL"].rstrip("/")
SAVED = Path("saved_models/resnet18.pth")


def main() -> None:
    with urllib.request.urlopen(f"{BASE}/models/index.json") as answer:
        entry = json.load(answer)["resnet18"]
    weights = entry["weights"][entry["default"]]
    state = torch.hub.load_state_dict_from_url(BASE + weights["url"], "downloads", progress=False, check_hash=True)
    model = resnet18(**entry["config"])
    model.load_state_dict(state)
    model.eval()
    SAVED.parent.mkdir(exist_ok=True)
    torch.save(model.state_dict(), SAVED)
    side = weights["transforms"]["center_crop"]
    count = sum(parameter.numel() for parameter in model.parameters())
    about = {"input_shape": [weights["transforms"]["channels"], side, side], "num_parameters": count}
    facts = {"model_name": "resnet18", "model_path": SAVED.as_posix(), "architecture": about}
    Path("model_info.json").write_text(json.dumps(facts, indent=2))


if __name__ == "__main__":
    main()
