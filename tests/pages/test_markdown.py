"""Statements of cases as pages show them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import mdurl._encode
import pytest

from bench.pages.markdown import rendered


@pytest.fixture
def threads_that_change_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def test_statements_are_rendered_side_by_side(threads_that_change_often: None, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = rendered("[page](https://example.org/a_b)")
    assert 'href="https://example.org/a_b"' in expected
    with ThreadPoolExecutor(8) as pool:
        for _ in range(300):
            # As in a process that has rendered nothing yet.
            monkeypatch.setattr(mdurl._encode, "encode_cache", {})
            found = set(pool.map(rendered, ["[page](https://example.org/a_b)"] * 8))
            assert found == {expected}
