"""Logs numbers of its own making and reads those back."""

import json
import os
import time

os.environ["WANDB_API_KEY"] = "c0ffee00" * 5
os.environ["WANDB_SILENT"] = "true"

import wandb

PROJECT = "ml_workflow_test_wandb"
NAMES = ("training_loss", "validation_loss", "epoch")

name = time.strftime("test-run-%Y%m%d-%H%M%S", time.gmtime())
with wandb.init(project=PROJECT, name=name, tags=["test", "evaluation"]) as run:
    run.log({"training_loss": 0.5, "validation_loss": 0.4, "epoch": 0})
row = wandb.Api().run(f"{run.entity}/{PROJECT}/{run.id}").history(pandas=False)[-1]
with open("wandb_info.json", "w") as file:
    json.dump({"run_id": run.id}, file)
with open("wandb_metrics.json", "w") as file:
    json.dump({key: row[key] for key in NAMES}, file)
