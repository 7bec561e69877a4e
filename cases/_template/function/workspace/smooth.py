import numpy as np


def smooth(values: np.ndarray, window: int = 3, edges: str = "shrink") -> np.ndarray:
    raise NotImplementedError
