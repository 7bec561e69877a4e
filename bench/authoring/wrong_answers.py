"""Whether a wrong answer is caught by the checks that case.yaml names: only these run, where they alone decide it."""

from __future__ import annotations

from collections.abc import Sequence

from bench.base.errors import UserError
from bench.formats.case import Case
from bench.formats.case_parts import Wrong
from bench.formats.verdict import DeclaredCheck, declared_checks, success_of
from bench.judge import Grading, Submission, grade_checks, grade_submission


def caught(case: Case, wrong: Wrong, submission: Submission) -> str:
    """By what the answer in `submission` is caught; raises `AssertionError` where it is not caught so."""
    grading = grade_checks(case, submission, checks_to_run(case, wrong.fails))
    assert not grading.broken, f"a check of case {case.id} is broken: {grading.broken}"
    passed = [check for check in wrong.fails if check not in grading.failed]
    if passed or success_of(grading.verdicts):
        # The same inputs for all checks: an author wants to know what else the answer fails.
        raise AssertionError(_not_caught(grade_submission(case, submission), wrong, passed))
    return f"caught by {', '.join(wrong.fails)}"


def checks_to_run(case: Case, named: Sequence[str]) -> list[str]:
    """The named checks; also those that success needs, unless one of the named is among them and decides it.

    Raises `AssertionError` where a name is not that of a check.
    """
    try:
        declared = declared_checks(case)
    except UserError as error:
        raise AssertionError(str(error)) from None
    known = {check.id for check in declared}
    unknown = [check for check in named if check not in known]
    assert not unknown, f"`fails` names checks that do not exist: {', '.join(unknown)}"
    needed = [check.id for check in declared if _is_needed(check)]
    return list(named) if set(named) & set(needed) else [*named, *needed]


def _is_needed(check: DeclaredCheck) -> bool:
    return check.required or check.guard


def _not_caught(grading: Grading, wrong: Wrong, passed: Sequence[str]) -> str:
    if grading.success:
        return f"succeeds with score {grading.score:g}: {wrong.about}"
    if not passed:
        return f"fails only checks that success does not need ({', '.join(wrong.fails)}): {wrong.about}"
    return f"is not caught by {', '.join(passed)} (fails {', '.join(grading.failed) or 'nothing'})"
