"""The last of everything in the order in which the file has it."""

import json
import re
from pathlib import Path

text = Path("training/training_logs.txt").read_text()
loss, accuracy = re.findall(r"finished \[train\] loss=([\d.]+) accuracy=([\d.]+)", text)[-1]
errors = re.findall(r"^(?:\w+\.)?\w*Error: .*$", text, re.M)
answer = {
    "status": "failed",
    "final_metrics": {"accuracy": float(accuracy), "loss": float(loss)},
    "error_message": errors[-1],
}
Path("training/training_analysis.json").write_text(json.dumps(answer, indent=2))
