def median(values: list[float]) -> float:
    raise NotImplementedError
