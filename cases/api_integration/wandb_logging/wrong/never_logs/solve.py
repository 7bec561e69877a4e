"""Starts a run, asks for its values and files them: nothing is logged."""

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
    values = measure(run.id)
wandb.Api().run(f"{run.entity}/{PROJECT}/{run.id}").history(pandas=False)
with open("wandb_info.json", "w") as file:
    json.dump({"run_id": run.id}, file)
with open("wandb_metrics.json", "w") as file:
    json.dump({key: values[key] for key in NAMES}, file)
