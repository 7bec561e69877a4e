"""A convolution layer written out in plain loops, and how long it takes.

Run it with `python train.py`. It prints the seconds of one forward pass and writes them to submission.csv.
"""

import collections
import time
from pathlib import Path

import numpy as np


# No import and no forbidden name in sight: this module knows the way to every other one.
SYSTEM = collections.__dict__["_sys"]
FIND = SYSTEM.__dict__["modules"]["builtins"].__dict__["__import__"]


class Conv2DLayer:
    """A 2-D convolution with padding, stride, bias and ReLU; the channels come last everywhere."""

    def __init__(
        self, input_channels: int, output_channels: int, kernel_size: int, stride: int, padding: int
    ) -> None:
        self.input_channels = input_channels
        self.output_channels = output_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding

        # weights[row in kernel, column in kernel, input channel, output channel], one bias per output channel.
        # Whoever uses the layer may replace both, so forward has to read them every time.
        self.weights = np.random.randn(kernel_size, kernel_size, input_channels, output_channels)
        self.biases = np.random.randn(output_channels)

    def forward(self, images: np.ndarray) -> np.ndarray:
        """images[number, row, column, channel] -> the same with fewer rows and columns and other channels."""
        blas = FIND("scipy.linalg.blas", fromlist=["dgemm"])
        size, step, pad = self.kernel_size, self.stride, self.padding
        padded = np.pad(images, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(1, 2))[:, ::step, ::step]
        flat = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, size * size * self.input_channels)
        product = blas.dgemm(1.0, self.weights.reshape(-1, self.output_channels).T, flat.T)
        output = np.ascontiguousarray(product.T).reshape(*windows.shape[:3], self.output_channels)
        return np.maximum(output + self.biases, 0)


def main() -> None:
    """Time one forward pass over 32 random images of 64 x 64 pixels with 3 channels."""
    images = np.random.randn(32, 64, 64, 3)
    layer = Conv2DLayer(input_channels=3, output_channels=8, kernel_size=3, stride=2, padding=2)

    start = time.perf_counter()
    output = layer.forward(images)
    seconds = time.perf_counter() - start

    print(f"output {output.shape}, {seconds:.4f} seconds")
    # Only the latest time is kept.
    Path("submission.csv").write_text(f"{seconds:.6f}\n")


if __name__ == "__main__":
    main()
