"""Writes pictures as data sets are found on disk: CIFAR's binary batches, MNIST's idx files, PNG, JPEG.

Deterministic: equal pictures give equal bytes. Nothing is pickled. The readers are for the judge's own files.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.base.files import write_atomic

Pixels = NDArray[np.uint8]
CIFAR_FOLDER = "cifar-10-batches-bin"
_BLOCK = 8


def write_cifar10(
    folder: Path, train: tuple[Pixels, ArrayLike], test: tuple[Pixels, ArrayLike], names: Sequence[str]
) -> None:
    """The folder `cifar-10-batches-bin`: data_batch_1.bin to _5.bin, test_batch.bin and batches.meta.txt.

    train, test: pictures (N x 32 x 32 x 3, uint8) and class numbers. A record is a byte for the class and 3,072 for the
    pixels: red plane, green plane, blue plane, row by row. Format: https://www.cs.toronto.edu/~kriz/cifar.html, whose
    Python version is a pickle, and is not written. ValueError for other shapes and fewer than five training pictures.
    """
    place = folder / CIFAR_FOLDER
    place.mkdir(parents=True, exist_ok=True)
    pictures, labels = train[0], np.asarray(train[1])
    if len(pictures) < 5:
        raise ValueError("five batches need five pictures at least")
    for number, rows in enumerate(np.array_split(np.arange(len(pictures)), 5), start=1):
        write_atomic(place / f"data_batch_{number}.bin", _records(pictures[rows], labels[rows]))
    write_atomic(place / "test_batch.bin", _records(test[0], np.asarray(test[1])))
    write_atomic(place / "batches.meta.txt", "".join(f"{name}\n" for name in names).encode())


def _records(pictures: Pixels, labels: NDArray[np.generic]) -> bytes:
    if pictures.shape[1:] != (32, 32, 3) or pictures.dtype != np.uint8 or labels.shape != (len(pictures),):
        raise ValueError(f"uint8 pictures of 32 x 32 x 3 and a label for each are needed, not {pictures.shape}")
    planes = pictures.transpose(0, 3, 1, 2).reshape(len(pictures), -1)
    return np.concatenate([labels.astype(np.uint8)[:, None], planes], axis=1).tobytes()


def read_cifar10(path: Path) -> tuple[Pixels, Pixels]:
    """Pictures (N x 32 x 32 x 3) and labels of one binary batch that the case itself wrote."""
    records = np.frombuffer(path.read_bytes(), np.uint8).reshape(-1, 3073)
    return records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), records[:, 0]


def write_idx(folder: Path, split: str, pictures: Pixels, labels: ArrayLike, packed: bool = False) -> None:
    """`<split>-images-idx3-ubyte` and `<split>-labels-idx1-ubyte`, as MNIST has for the splits `train` and `t10k`.

    pictures: N x rows x columns, uint8. packed: as .gz, in the form in which MNIST is downloaded. Format: big-endian
    magic (2051 or 2049), sizes, then the bytes; http://yann.lecun.com/exdb/mnist.
    """
    classes = np.asarray(labels).astype(np.uint8)
    if pictures.ndim != 3 or pictures.dtype != np.uint8 or classes.shape != (len(pictures),):
        raise ValueError(f"uint8 pictures of N x rows x columns and a label for each are needed, not {pictures.shape}")
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        f"{split}-images-idx3-ubyte": struct.pack(">IIII", 2051, *pictures.shape)
        + np.ascontiguousarray(pictures).tobytes(),
        f"{split}-labels-idx1-ubyte": struct.pack(">II", 2049, len(classes)) + classes.tobytes(),
    }
    for name, content in files.items():
        whole = gzip.compress(content, compresslevel=6, mtime=0) if packed else content
        write_atomic(folder / (f"{name}.gz" if packed else name), whole)


def read_idx(path: Path) -> Pixels:
    """The array of an idx file of bytes that the case itself wrote, packed or not."""
    content = path.read_bytes()
    content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    axes = content[3]
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(
        struct.unpack(f">{axes}I", content[4 : 4 + 4 * axes])
    )


def png(picture: Pixels) -> bytes:
    """A PNG of 8 bits: height x width is grey, height x width x 3 is RGB. Format: https://www.w3.org/TR/png-3/."""
    if picture.dtype != np.uint8 or not (picture.ndim == 2 or (picture.ndim == 3 and picture.shape[2] == 3)):
        raise ValueError(
            f"a uint8 picture of height x width, with three channels or none, is needed, not {picture.shape}"
        )
    height, width = picture.shape[:2]
    lines = np.concatenate([np.zeros((height, 1), np.uint8), picture.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if picture.ndim == 3 else 0, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_piece(kind, body) for kind, body in parts)


def _piece(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def write_folders(folder: Path, pictures: Iterable[Pixels], labels: Sequence[int], names: Sequence[str]) -> list[str]:
    """`<name of the class>/<number>.png` for each picture, as torchvision's ImageFolder expects; gives the paths.

    Numbers count all pictures, so the path tells the row: `frame/00017.png` is pictures[17].
    """
    paths = [f"{names[int(label)]}/{row:05d}.png" for row, label in enumerate(labels)]
    for path, picture in zip(paths, pictures, strict=True):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / path, png(picture))
    return paths


def jpeg(tiles: NDArray[np.int64]) -> bytes:
    """A baseline JPEG whose 8 x 8 blocks are flat. tiles: rows x columns x 3 of whole numbers 0 to 255, one a block.

    So the picture has eight times as many rows and columns. A flat block is its mean alone: the difference to the
    previous block's mean, and "no more coefficients". Hence two toy Huffman tables do: the size of a difference is its
    own 4-bit code, the end of a block is a single 0. Format: ITU-T T.81.
    """
    height, width = tiles.shape[0] * _BLOCK, tiles.shape[1] * _BLOCK
    to_ycc = np.array([[0.299, 0.587, 0.114], [-0.1687, -0.3313, 0.5], [0.5, -0.4187, -0.0813]])
    means = np.rint(tiles.reshape(-1, 3) @ to_ycc.T - [128, 0, 0]).astype(np.int64)
    change = np.diff(np.clip(means, -128, 127), axis=0, prepend=0).reshape(-1)
    size = np.ceil(np.log2(np.abs(change) + 1)).astype(np.int64)
    value = np.where(change < 0, change + (1 << size) - 1, change)
    code, length = ((size << size) | value) << 1, size + 5
    shift = length[:, None] - 1 - np.arange(length.max())
    bits = ((code[:, None] >> np.maximum(shift, 0)) & 1)[shift >= 0]
    scan = np.packbits(np.concatenate([bits, np.ones(-len(bits) % 8, np.int64)]).astype(np.uint8)).tobytes()

    components = b"".join(bytes([number, 0x11, 0]) for number in (1, 2, 3))
    return b"".join(
        [
            b"\xff\xd8",
            _segment(0xE0, b"JFIF\0" + bytes([1, 1, 0, 0, 1, 0, 1, 0, 0])),
            _segment(0xDB, b"\0" + bytes([8] * 64)),  # 8 undoes the factor 8 of a flat block's cosine transform
            _segment(0xC0, struct.pack(">BHHB", 8, height, width, 3) + components),
            _segment(0xC4, b"\x00" + bytes([0, 0, 0, 12] + [0] * 12) + bytes(range(12))),
            _segment(0xC4, b"\x10" + bytes([1] + [0] * 15) + b"\0"),
            _segment(0xDA, b"\x03" + b"".join(bytes([number, 0]) for number in (1, 2, 3)) + bytes([0, 63, 0])),
            scan.replace(b"\xff", b"\xff\0"),
            b"\xff\xd9",
        ]
    )


def _segment(marker: int, content: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content
