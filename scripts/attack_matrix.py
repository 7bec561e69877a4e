"""Writes docs/attacks.md from docs/attacks.json: `python -m scripts.attack_matrix docs/attacks.md`, or `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.attack.catalogue import load_catalogue
from bench.attack.matrix import Everything, read_matrix, write_matrix
from bench.base.install import find_data_folders
from bench.formats.case import load_cases


def main(page: Path) -> None:
    cases = find_data_folders().cases
    every = Everything(load_catalogue(cases / "attacks").attacks, [case.id for case in load_cases(cases)])
    write_matrix(page, read_matrix(page), every)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
