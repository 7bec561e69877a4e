"""The modules of the folder that `agent.yaml` names under `shared`, imported as `shared.NAME`."""

from pathlib import Path

__path__ = [str(Path(__file__).resolve().parents[1] / "_shared" / "chat")]
