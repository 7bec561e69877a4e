"""The modules of the folder that `agent.yaml` names under `shared`, imported as `mlab_agent.shared.NAME`."""

from pathlib import Path

__path__ = [str(Path(__file__).resolve().parents[2] / "_shared" / "chat")]
