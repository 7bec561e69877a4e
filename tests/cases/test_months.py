"""The months of the amp case: none is given before the one before it was predicted, nor again afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.base.child import load_module
from bench.base.install import find_data_folders
from bench.casekit.services import Request, Service

SCRIPT = find_data_folders().cases / "tabular/amp_parkinsons_disease_progression_prediction/services.py"


def test_a_service_that_begins_anew_gives_no_month_twice(tmp_path: Path) -> None:
    (tmp_path / "months.json").write_text(json.dumps([{"month": month} for month in (0, 6, 12)]))
    months = load_module("services", SCRIPT).months

    def service() -> Service:
        return Service("months", tmp_path, 1, tmp_path / "months.jsonl", "judging")

    def asked(of: Service, method: str, path: str, body: Any = None) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(months(Request(method, path, {}, {}, json.dumps(body).encode()), of).body)
        return answer

    first = service()
    assert asked(first, "GET", "/month") == {"month": 0}
    assert asked(first, "POST", "/predictions", {"predictions": []}) == {"taken": 0}
    assert asked(first, "GET", "/month") == {"month": 6}
    again = service()
    assert asked(again, "GET", "/month") == {"month": 6}, "what was not predicted is open"
    assert asked(again, "POST", "/predictions", {"predictions": [["1_6", 2]]}) == {"taken": 1}
    assert asked(service(), "GET", "/month") == {"month": 12}
