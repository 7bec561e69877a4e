"""Fixtures that several files of tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.choose import probe_bubblewrap, probe_docker
from bench.sandbox.docker.backend import DockerSandbox
from bench.sandbox.job import Sandbox
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import not_here
from tests.helpers.fuzz import Tally, report
from tests.helpers.skips import summarize

# A busy machine must not fail a test that is right, and a test fails for every reader or for none.
settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("steady")


def _bubblewrap() -> BubblewrapSandbox:
    probe = probe_bubblewrap()
    if not probe.works:
        not_here(f"bubblewrap: {probe.detail} ({probe.remedy})")
    return BubblewrapSandbox()


def _docker() -> DockerSandbox:
    probe = probe_docker()
    if not probe.works:
        not_here(f"docker: {probe.detail.removeprefix('docker: ')}")
    return DockerSandbox()


def _named(name: str) -> Sandbox:
    if name == "docker":
        return _docker()
    return _bubblewrap() if name == "bubblewrap" else ProcessSandbox()


def pytest_configure() -> None:
    """A runner of jobs may start us in the background with interrupts ignored, and children would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_docker_variant(item: pytest.Item) -> bool:
    return (
        isinstance(item, pytest.Function)
        and getattr(item, "callspec", None) is not None
        and (item.callspec.params.get("any_sandbox") == "docker")
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each worker begins with its part of the slow tests, and quick ones fill the gaps at the end.

    `--dist worksteal` hands out as many blocks as there are workers, so that a module's fixtures are made about once.
    """
    for number, item in enumerate(filter(_is_docker_variant, items)):
        if number % 3:
            item.add_marker(pytest.mark.nightly)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    slow = [item for item in items if item.get_closest_marker("slow")]
    quick = [item for item in items if not item.get_closest_marker("slow")]
    items[:] = [
        item
        for worker in range(workers)
        for some in (slow, quick)
        for item in some[len(some) * worker // workers : len(some) * (worker + 1) // workers]
    ]


@pytest.fixture(params=["bubblewrap", pytest.param("docker", marks=pytest.mark.docker), "process"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """Each back end in turn."""
    return _named(request.param)


@pytest.fixture(params=["bubblewrap", pytest.param("docker", marks=pytest.mark.docker)])
def isolating(request: pytest.FixtureRequest) -> Sandbox:
    """Each back end that isolates."""
    return _named(request.param)


@pytest.fixture(
    params=[
        "bubblewrap",
        pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.slow]),
        pytest.param("process", marks=[pytest.mark.slow, pytest.mark.nightly]),
    ]
)
def any_sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """For tests of what stands on a sandbox: bubblewrap and every third in Docker on a push, the others at night."""
    return _named(request.param)


@pytest.fixture(
    params=[
        "bubblewrap",
        pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.nightly]),
        pytest.param("process", marks=[pytest.mark.slow, pytest.mark.nightly]),
    ]
)
def variant_sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """For the many variants of a test whose few other forms run in every sandbox: the variants do so at night."""
    return _named(request.param)


@pytest.fixture
def strongest() -> str:
    """For tests of commands, which need some sandbox: what --sandbox says to get the strongest that works here."""
    return "auto" if probe_bubblewrap().works or probe_docker().works else "process"


@pytest.fixture
def docker() -> DockerSandbox:
    return _docker()


@pytest.fixture(scope="session")
def bubblewrap() -> BubblewrapSandbox:
    return _bubblewrap()


@pytest.fixture
def plain() -> ProcessSandbox:
    return ProcessSandbox()


@pytest.fixture
def tally(record_property: Callable[[str, object], None]) -> Iterator[Tally]:
    """What one parser did with its examples; all of them are listed at the end of the run."""
    counted = Tally()
    yield counted
    record_property("fuzz", counted.row())


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The table of the fuzzed parsers, and what was skipped."""
    failed = {it.nodeid for it in terminalreporter.getreports("failed")}
    rows = {
        it.nodeid: (dict(it.user_properties)["fuzz"], it.nodeid not in failed)
        for it in terminalreporter.getreports("")
        if "fuzz" in dict(it.user_properties)
    }
    if rows:
        terminalreporter.section("fuzzed parsers")
        for line in report(rows):
            terminalreporter.line(line)
    summarize(terminalreporter)
