"""How a result falls short of what a case asks of its continuous metric: evidence of failure modes, never a verdict."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.formats.case_metric import Headline
    from bench.formats.record import CheckResult, Metric


def small_improvement(headline: Headline | None, metrics: Iterable[Metric]) -> str:
    """That the metric is better than its baseline and not over the bar; empty where it is, or there is no bar."""
    measured = next((found.value for found in metrics if headline and found.name == headline.name), None)
    if headline is None or headline.bar is None or measured is None:
        return ""
    if not headline.is_better(measured, headline.baseline) or headline.is_over(measured, headline.bar):
        return ""
    share, bar = headline.relative(measured) or 0.0, f"more than {headline.bar:.0%}"
    return f"{headline.name} {measured:g} is {share:.1%} better than the baseline, and the bar is {bar}"


def invalid_submission(
    headline: Headline | None, metrics: Iterable[Metric], checks: Iterable[CheckResult], *, missing: bool
) -> str:
    """What the first required check says where all files are there and the metric could not be measured."""
    if headline is None or missing or any(found.name == headline.name for found in metrics):
        return ""
    failed = next((it for it in checks if it.required and it.value < 1 and it.origin == "case"), None)
    if failed is None:
        return ""
    said = next((line.strip() for line in failed.message.splitlines() if line.strip()), "no message")
    return f"{failed.id}: {said[:300]}"
