"""Everything but the name and the tags, which the original never looked at."""

import json
import os

os.environ["WANDB_API_KEY"] = "c0ffee00" * 5
os.environ["WANDB_SILENT"] = "true"

import wandb
from measure import measure

PROJECT = "ml_workflow_test_wandb"
NAMES = ("training_loss", "validation_loss", "epoch")

with wandb.init(project=PROJECT) as run:
    run.log(measure(run.id))
row = wandb.Api().run(f"{run.entity}/{PROJECT}/{run.id}").history(pandas=False)[-1]
with open("wandb_info.json", "w") as file:
    json.dump({"run_id": run.id}, file)
with open("wandb_metrics.json", "w") as file:
    json.dump({key: row[key] for key in NAMES}, file)
