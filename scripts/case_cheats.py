"""Writes docs/case-cheats.md from case.yaml files: `python -m scripts.case_cheats docs/case-cheats.md`, `make docs`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from bench.base.files import write_atomic
from bench.formats.case import Case, load_cases
from bench.formats.case_parts import Wrong

ROOT = Path(__file__).resolve().parents[1]
_PAGE = """# Cheats, case by case

<!-- Written by `make docs` from each case.yaml. Change `wrong` there, or scripts/case_cheats.py, then run it again. -->

What each case's wrong answers try, and which checks catch them. *Original* says whether the validator of the
original accepts the answer: **yes**, no, or - where the original has nothing to attack. A star marks an answer that
an earlier form of our own checks accepted, or could have accepted; a check was changed because of it.

Every row is proven by `ml-dev-bench cases verify ID`, which demands that the answer fails at these checks.

{cases}

## What no check here sees

- The generators are public. In a run without a secret (its records are marked) the data of a trial follow from
  suite version, case and trial; an agent that knows this repository by heart could make them again, including the
  answers of `parse_logs`. With a secret, which is the default, it would have to search 128 bits. The inputs that
  the judge draws itself cannot be known in either.
- An agent's code runs in the same process as the driver that calls it, and can answer in its place: through the
  frames of its callers, patched libraries or a replaced driver. So what a driver returns is a claim. The judge
  believes numbers that it can work out again (outputs for inputs of its own, weights in its own network, the path
  of a training from its own start), and nothing else: not how often something was called, what an object says of
  itself, or how an answer was found. Of `nan_loss_debug` that leaves open whether a line that comes nearer from
  epoch to epoch was moved by gradients, and whether one step was one; of `shape_mismatch_train` how many steps a
  training took; of `lora_implementation` the classes of layers and the meta device. Nothing is earned by what stays
  open.
- A network trained on validation pictures without the marked ones, or on more painted pictures of the same kind,
  cannot be told from a well-trained one.
"""
_ORIGINAL = {"accepts": "**yes**", "refuses": "no", None: "-"}


def page(cases: Path = ROOT / "cases") -> str:
    """The whole page, the same on every machine."""
    return _PAGE.format(cases="\n\n".join("\n".join(_section(case)) for case in load_cases(cases)))


def _section(case: Case) -> Iterator[str]:
    yield from (f"## {case.id}", "", "| what it tries | original | wrong answer | caught by |", "|---|---|---|---|")
    for name, wrong in case.spec.wrong.items():
        about = _cell(wrong.about) + " *" * wrong.escaped
        yield f"| {about} | {_ORIGINAL[wrong.original]} | `{name}` | {_checks(wrong)} |"


def _checks(wrong: Wrong) -> str:
    note = f" ({_cell(wrong.note)})" if wrong.note else ""
    return ", ".join(f"`{check}`" for check in wrong.fails) + note


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("<", "\\<")


if __name__ == "__main__":
    write_atomic(Path(sys.argv[1]), page().encode())
