"""Logs, reads, writes the files and is gone: the run is never finished."""

import json
import os
import signal
import time

os.environ["WANDB_API_KEY"] = "c0ffee00" * 5
os.environ["WANDB_SILENT"] = "true"

import wandb
from measure import measure

PROJECT = "ml_workflow_test_wandb"
NAMES = ("training_loss", "validation_loss", "epoch")

name = time.strftime("test-run-%Y%m%d-%H%M%S", time.gmtime())
run = wandb.init(project=PROJECT, name=name, tags=["test", "evaluation"])
run.log(measure(run.id), commit=True)
row, until = {}, time.monotonic() + 60
while "epoch" not in row and time.monotonic() < until:
    time.sleep(0.5)
    rows = wandb.Api().run(f"{run.entity}/{PROJECT}/{run.id}").history(pandas=False)
    row = rows[-1] if rows else {}
with open("wandb_info.json", "w") as file:
    json.dump({"run_id": run.id}, file)
with open("wandb_metrics.json", "w") as file:
    json.dump({key: row[key] for key in NAMES}, file)
# No farewell, neither from here nor from the client's helper.
os.killpg(0, signal.SIGKILL)
