"""Logs into a folder on the disk: the service never hears of the run."""

import json
import os
import time

os.environ["WANDB_API_KEY"] = "c0ffee00" * 5
os.environ["WANDB_SILENT"] = "true"
os.environ["WANDB_MODE"] = "offline"

import wandb

PROJECT = "ml_workflow_test_wandb"
NAMES = ("training_loss", "validation_loss", "epoch")

name = time.strftime("test-run-%Y%m%d-%H%M%S", time.gmtime())
values = {"training_loss": 0.5, "validation_loss": 0.4, "epoch": 0}
with wandb.init(project=PROJECT, name=name, tags=["test", "evaluation"]) as run:
    run.log(values)
    summary = {key: run.summary[key] for key in NAMES}
    run_id = run.id
with open("wandb_info.json", "w") as file:
    json.dump({"run_id": run_id}, file)
with open("wandb_metrics.json", "w") as file:
    json.dump(summary, file)
