"""Three more epochs of what the baseline has had forty-four of."""

import runpy
import sys

sys.argv = [
    "train_baseline.py", "--epochs", "3", "--start", "checkpoints/baseline.safetensors",
    "--out", "checkpoints/best.safetensors",
]  # fmt: skip
runpy.run_path("train_baseline.py", run_name="__main__")
