"""Creates a run, logs what the service measured for it, and reads the same values back."""

import json
import os
import time
from pathlib import Path

os.environ["WANDB_API_KEY"] = "c0ffee00" * 5
os.environ["WANDB_SILENT"] = "true"

import wandb
from measure import measure

PROJECT = "ml_workflow_test_wandb"
NAMES = ("training_loss", "validation_loss", "epoch")
INFO, METRICS = Path("wandb_info.json"), Path("wandb_metrics.json")


def create_and_log() -> None:
    """Keeps the id in a file first: everything after that goes by the file."""
    name = time.strftime("test-run-%Y%m%d-%H%M%S", time.gmtime())
    with wandb.init(project=PROJECT, name=name, tags=["test", "evaluation"]) as run:
        INFO.write_text(json.dumps({"run_id": run.id, "name": name, "entity": run.entity, "project": run.project}))
        run.log(measure(json.loads(INFO.read_text())["run_id"]))


def read_back() -> None:
    """The last row that holds all three names is what the run has logged."""
    info = json.loads(INFO.read_text())
    run = wandb.Api().run(f"{info['entity']}/{info['project']}/{info['run_id']}")
    row = list(run.scan_history(keys=list(NAMES)))[-1]
    METRICS.write_text(json.dumps({name: row[name] for name in NAMES}, indent=2))


create_and_log()
read_back()
