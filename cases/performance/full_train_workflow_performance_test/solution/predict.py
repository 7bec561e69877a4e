"""Name the pictures of a folder by a checkpoint alone: python predict.py CHECKPOINT FOLDER."""

import sys
from pathlib import Path

import torch
from train import features, read_pictures, views, write_table


def main(checkpoint, folder):
    saved = torch.load(checkpoint)
    state = {name: part.numpy() for name, part in saved["model_state_dict"].items()}
    paths = sorted(Path(folder).resolve().iterdir())
    seen = [features(state, view) for view in views(read_pictures(paths))]
    rows = sum((view - state["mean"]) @ state["whiten"] @ state["head"] for view in seen).argmax(axis=1)
    write_table("named.csv", {path.name: saved["classes"][row] for path, row in zip(paths, rows, strict=True)})


if __name__ == "__main__":
    main(*sys.argv[1:])
