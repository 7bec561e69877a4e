"""What SkyPilot's API server takes and answers, from the package itself: `tests/helpers/skypilot/protocol.json`.

    python -m venv /tmp/sky && /tmp/sky/bin/pip install skypilot==0.14.1
    /tmp/sky/bin/python scripts/sky_protocol.py             write the file anew
    /tmp/sky/bin/python scripts/sky_protocol.py --check     whether it is what this package says; status 1 where not
    /tmp/sky/bin/python scripts/sky_protocol.py --read      what SkyPilot reads out of a task on standard input, as JSON

SkyPilot cannot be installed beside this project (it needs click below 8.2), so this runs with an interpreter of its
own, and imports nothing of this project.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parents[1] / "tests" / "helpers" / "skypilot" / "protocol.json"
_PATHS = ("/launch", "/status", "/down", "/optimize", "/api/get", "/api/status", "/api/cancel", "/api/health")
_PREFIX = "#/components/schemas/"


def main() -> int:
    if sys.argv[1:] == ["--read"]:
        print(json.dumps(read_task(sys.stdin.read())))
        return 0
    text = json.dumps(protocol(), indent=1, sort_keys=True) + "\n"
    if sys.argv[1:] == ["--check"]:
        return int(TARGET.read_text(encoding="utf-8") != text)
    TARGET.write_text(text, encoding="utf-8")
    return 0


def protocol() -> dict[str, Any]:
    """Versions, the calls that are used, and the shapes of tasks and answers."""
    import sky
    from sky.schemas.api.responses import StatusResponse
    from sky.server import constants, server
    from sky.server.requests import requests
    from sky.utils import schemas, status_lib

    whole = server.app.openapi()
    paths = {path: {verb: _call(it) for verb, it in whole["paths"][path].items()} for path in _PATHS}
    kept: dict[str, Any] = {}
    wanted = _references(paths)
    while wanted:
        name = wanted.pop()
        if name not in kept:
            kept[name] = whole["components"]["schemas"][name]
            wanted += _references(kept[name])
    return {
        "version": sky.__version__,
        "api_version": constants.API_VERSION,
        "oldest_api_version": constants.MIN_COMPATIBLE_API_VERSION,
        "request_statuses": [it.value for it in requests.RequestStatus],
        "cluster_statuses": [it.value for it in status_lib.ClusterStatus],
        "cluster": StatusResponse.model_json_schema(),
        "task": schemas.get_task_schema(),
        "resources": schemas.get_resources_schema(),
        "paths": paths,
        "components": {"schemas": kept},
    }


def _call(operation: dict[str, Any]) -> dict[str, Any]:
    return {name: operation[name] for name in ("parameters", "requestBody", "responses") if name in operation}


def _references(part: Any) -> list[str]:
    return re.findall(rf'"{_PREFIX}([^"]+)"', json.dumps(part))


def read_task(text: str) -> list[dict[str, Any]]:
    """What SkyPilot understands each offer of the task to be; it raises what it does not take."""
    from sky.utils import dag_utils

    (task,) = dag_utils.load_dag_from_yaml_str(text).tasks
    found = []
    for it in task.resources:
        ends = it.autostop_config
        cloud = str(it.cloud)
        valid = [it.cloud.is_label_valid(key, value)[0] for key, value in (it.labels or {}).items()]
        found.append(
            {
                "cloud": cloud,
                "labels": it.labels,
                "labels_valid": all(valid),
                "max_hourly_cost": it.max_hourly_cost,
                "use_spot": it.use_spot,
                "accelerators": it.accelerators,
                "autostop": None if ends is None else [ends.enabled, ends.idle_minutes, ends.down],
                "pod_config": it.cluster_config_overrides.get("kubernetes", {}).get("pod_config"),
            }
        )
    return found


if __name__ == "__main__":
    sys.exit(main())
