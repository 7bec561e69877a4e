def median(values: list[float]) -> float:
    return float(values[len(values) // 2])
