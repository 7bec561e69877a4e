"""No agent has its cell lost, whatever it does; and a provider that is really down loses every cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.sandbox.job import Sandbox
from tests.helpers.lost import meet_outage, try_way
from tests.helpers.lost_ways import OUTAGES, WAYS
from tests.helpers.sampling import every_third

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", every_third(WAYS))
def test_no_agent_chooses_to_be_lost(tmp_path: Path, bubblewrap: Sandbox, name: str) -> None:
    record = try_way(tmp_path, bubblewrap, WAYS[name])
    assert (record.outcome, record.cause, record.tries) == ("graded", "", []), record.error


@pytest.mark.parametrize("name", ["kills its parent", "kills itself", "resets its stream and exits 1"])
def test_nor_without_isolation(tmp_path: Path, plain: Sandbox, name: str) -> None:
    record = try_way(tmp_path, plain, WAYS[name])
    assert (record.outcome, record.tries) == ("graded", []), record.error


@pytest.mark.parametrize("name", ["kills all it may", "poisoned request, status 403", "resets its stream and exits 1"])
def test_nor_in_any_isolation(tmp_path: Path, isolating: Sandbox, name: str) -> None:
    record = try_way(tmp_path, isolating, WAYS[name])
    assert (record.outcome, record.tries) == ("graded", []), record.error


@pytest.mark.parametrize("name", every_third(OUTAGES))
def test_an_outage_of_the_provider_is_no_verdict(tmp_path: Path, plain: Sandbox, name: str) -> None:
    record = meet_outage(tmp_path, plain, OUTAGES[name])
    assert (record.outcome, record.cause) == ("infra", "gateway_error")
    assert "known-good request was not answered" in record.error


def test_an_outage_that_a_crash_follows_at_once_is_found_at_the_end(tmp_path: Path, plain: Sandbox) -> None:
    script = "threading.Thread(target=ask, daemon=True).start()\ntime.sleep(0.3)\nos._exit(1)"
    record = meet_outage(tmp_path, plain, OUTAGES["hanging"], script)
    assert (record.outcome, record.cause) == ("infra", "gateway_error")
