"""What a case needs of a machine is told before its agent begins."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench.cell.needs import unmet_needs
from bench.formats.case_parts import Needs
from bench.sandbox.process import ProcessSandbox

_TIMED = Needs(cpu_time=True)
_BUBBLEWRAP: Any = SimpleNamespace(name="bubblewrap", isolated=True)
_DOCKER: Any = SimpleNamespace(name="docker", isolated=True)


def test_time_must_be_counted_where_it_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[bool] = []
    group = SimpleNamespace(counts_cpu=True, remove=lambda: removed.append(True))
    monkeypatch.setattr("bench.cell.needs.new_group", lambda limits: group)
    assert unmet_needs(_TIMED, sandbox=_BUBBLEWRAP) == ""
    assert removed == [True]
    group.counts_cpu = False
    assert "CPU time cannot be counted" in unmet_needs(_TIMED, sandbox=_BUBBLEWRAP)
    monkeypatch.setattr("bench.cell.needs.new_group", lambda limits: None)
    assert "--sandbox docker" in unmet_needs(_TIMED, sandbox=_BUBBLEWRAP)


def test_an_engine_counts_and_what_does_not_isolate_ranks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.cell.needs.new_group", lambda limits: None)
    for sandbox in (_DOCKER, ProcessSandbox(), None):
        assert unmet_needs(_TIMED, sandbox=cast(Any, sandbox)) == ""
    assert unmet_needs(Needs(), sandbox=_BUBBLEWRAP) == ""
