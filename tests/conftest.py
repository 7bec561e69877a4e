"""Fixtures that several files of tests share."""

from __future__ import annotations

import pytest

from bench.sandbox.bubblewrap import BubblewrapSandbox
from bench.sandbox.choice import probe_bubblewrap
from bench.sandbox.job import Sandbox
from bench.sandbox.process import ProcessSandbox
from tests.kit import not_here


def _bubblewrap() -> BubblewrapSandbox:
    probe = probe_bubblewrap()
    if not probe.works:
        not_here(f"bubblewrap: {probe.detail}")
    return BubblewrapSandbox()


@pytest.fixture(params=["bubblewrap", "process"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """Each back end in turn."""
    return _bubblewrap() if request.param == "bubblewrap" else ProcessSandbox()


@pytest.fixture(params=["bubblewrap", pytest.param("process", marks=pytest.mark.slow)])
def any_sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """For tests of what stands on a sandbox: the isolating one always, the other among the slow tests."""
    return _bubblewrap() if request.param == "bubblewrap" else ProcessSandbox()


@pytest.fixture
def bubblewrap() -> BubblewrapSandbox:
    return _bubblewrap()


@pytest.fixture
def plain() -> ProcessSandbox:
    return ProcessSandbox()
