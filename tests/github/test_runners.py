"""Runners just in time: a configuration is told, or nothing stays and one line says why."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from bench.base.errors import UserError
from bench.github.runners import AppKey, open_runners
from tests.helpers.github_rest import TOKEN, Service, github_rest


@pytest.fixture
def hub() -> Iterator[Service]:
    with github_rest("owner/agents") as service:
        yield service


def names() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"mldb-{next(numbers)}"


def register(hub: Service, *, organisation: str = "", group: int = 1, credential: str | AppKey = TOKEN) -> list[float]:
    waits: list[float] = []
    with open_runners(
        "owner/agents",
        credential,
        organisation=organisation,
        group=group,
        api=hub.api,
        pause_s=0,
        wait=waits.append,
    ) as runners:
        made = runners.register(names(), "mldb-own")
        assert len(made.configuration) > 3000 and hub.runners.records[made.id]["name"] == made.name
        assert hub.runners.records[made.id]["labels"] == [{"id": 0, "name": "mldb-own", "type": "custom"}]
    return waits


@pytest.mark.parametrize("organisation", ["", "owner"])
def test_a_repository_and_an_organisation_register_alike(hub: Service, organisation: str) -> None:
    register(hub, organisation=organisation)
    root = "/orgs/owner" if organisation else "/repos/owner/agents"
    assert hub.asked == [("POST", f"{root}/actions/runners/generate-jitconfig")]


def test_an_app_asks_for_the_rights_it_needs_and_no_more(hub: Service) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    register(hub, credential=AppKey("5", key.private_bytes(*form).decode()))
    assert hub.app_rights == [{"administration": "write", "actions": "read"}]
    with pytest.raises(UserError, match="give the whole private key in PEM"):
        register(hub, credential=AppKey("5", "-----BEGIN"))


def test_an_answer_that_is_lost_leaves_no_record_behind(hub: Service) -> None:
    hub.runners.add("of others")
    hub.runners.lost_answers = 2
    assert register(hub) == [1.0, 2.0]
    assert [it["name"] for it in hub.runners.records.values()] == ["of others", "mldb-3"]


def test_a_name_that_exists_is_not_asked_for_again(hub: Service) -> None:
    hub.runners.add("mldb-1")
    with open_runners("owner/agents", TOKEN, api=hub.api, pause_s=0, wait=lambda _: None) as runners:
        assert runners.register(names(), "own").name == "mldb-2"


def test_a_rate_limit_is_waited_for(hub: Service) -> None:
    faults = iter([(403, "You have exceeded a secondary rate limit."), None])
    hub.fault = lambda method, path: next(faults, None) if method == "POST" else None
    assert register(hub) == [1.0]


@pytest.mark.parametrize(
    ("group", "enabled", "said"),
    [(1, False, "must be allowed in its settings"), (2, True, "403"), (9, True, "number of the runner group")],
)
def test_a_refusal_is_not_repeated(hub: Service, group: int, enabled: bool, said: str) -> None:
    hub.runners.enabled = enabled
    with pytest.raises(UserError, match=said):
        register(hub, group=group)
    assert [method for method, _ in hub.asked].count("POST") == 1
    assert not hub.runners.records


def test_a_service_that_stays_away_is_given_up_and_leaves_nothing(hub: Service) -> None:
    hub.runners.lost_answers = 99
    with pytest.raises(UserError, match="503"):
        register(hub)
    assert not hub.runners.records


def test_what_is_gone_is_removed_and_what_works_is_not(hub: Service) -> None:
    busy = hub.runners.add("busy", busy=True)["id"]
    with open_runners("owner/agents", TOKEN, api=hub.api, pause_s=0) as runners:
        runners.remove(4711)
        with pytest.raises(UserError, match="currently running a job"):
            runners.remove(busy)


def test_an_attempt_has_ended_when_its_run_has_or_a_later_one_began(hub: Service) -> None:
    hub.actions.make_run(1, "a" * 40)
    hub.actions.make_run(2, "a" * 40, attempt=2)["status"] = "in_progress"
    with open_runners("owner/agents", TOKEN, api=hub.api, pause_s=0) as runners:
        assert [runners.has_ended("1", 1), runners.has_ended("2", 1), runners.has_ended("2", 2)] == [True, True, False]
        with pytest.raises(UserError, match="404"):
            runners.has_ended("3", 1)
