import statistics

from bench.judge import Workspace, check, mapping, number, numbers


def lists(ws: Workspace) -> list[list[float]]:
    """Fresh lists of odd and even length."""
    return [[round(ws.rng.uniform(-99, 99), 3) for _ in range(length)] for length in (1, 2, 7, 10, 31)]


@check(weight=3, required=True)
def median_is_right(ws: Workspace) -> None:
    """The median of five lists the agent has not seen, of odd and even length."""
    for values in lists(ws):
        found = number(ws.call("stats:median", values))
        expected = statistics.median(values)
        assert abs(found - expected) < 1e-9, f"median of {values[:4]}... is {expected}, not {found}"


@check(weight=1)
def argument_is_left_alone(ws: Workspace) -> None:
    """The caller's list is the same afterwards, by the word of the process that was called."""
    values = lists(ws)[3]
    # The driver shares a process with stats.py: what it returns is a claim, so the median is compared here, too.
    answer = mapping(ws.drive("driver.py:median_and_argument", values), ["median", "argument"])
    found = number(answer["median"])
    assert abs(found - statistics.median(values)) < 1e-9, f"the median is {statistics.median(values)}, not {found}"
    assert numbers(answer["argument"]) == values, "the list was changed"
