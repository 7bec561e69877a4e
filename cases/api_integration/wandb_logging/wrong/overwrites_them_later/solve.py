"""Logs and reads the measured values, then logs nicer ones over them."""

import json
import os
import time

os.environ["WANDB_API_KEY"] = "c0ffee00" * 5
os.environ["WANDB_SILENT"] = "true"

import wandb
from measure import measure

PROJECT = "ml_workflow_test_wandb"
NAMES = ("training_loss", "validation_loss", "epoch")

name = time.strftime("test-run-%Y%m%d-%H%M%S", time.gmtime())
with wandb.init(project=PROJECT, name=name, tags=["test", "evaluation"]) as run:
    run.log(measure(run.id))
row = wandb.Api().run(f"{run.entity}/{PROJECT}/{run.id}").history(pandas=False)[-1]
with wandb.init(project=PROJECT, id=run.id, resume="must") as again:
    again.log({"training_loss": 0.01, "validation_loss": 0.01, "epoch": 100})
with open("wandb_info.json", "w") as file:
    json.dump({"run_id": run.id}, file)
with open("wandb_metrics.json", "w") as file:
    json.dump({key: row[key] for key in NAMES}, file)
