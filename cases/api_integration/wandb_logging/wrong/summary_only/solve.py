"""Sets the summary of the run by hand: its page shows the values, its history is empty."""

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
    run.summary.update(measure(run.id))
summary = wandb.Api().run(f"{run.entity}/{PROJECT}/{run.id}").summary
row = {key: summary[key] for key in NAMES}
with open("wandb_info.json", "w") as file:
    json.dump({"run_id": run.id}, file)
with open("wandb_metrics.json", "w") as file:
    json.dump({key: row[key] for key in NAMES}, file)
