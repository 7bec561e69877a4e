"""Runs beside the agent's module, in the sandbox. Holds no expected answer; what it returns is a claim."""


def median_and_argument(values: list[float]) -> dict[str, object]:
    import stats

    return {"median": stats.median(values), "argument": values}
