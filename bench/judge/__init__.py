"""What a case's check.py imports. Standard library only: a grading must start in milliseconds."""

from bench.judge.checks import Check, check
from bench.judge.values import array, integer, mapping, number, numbers, sequence, string
from bench.judge.workspace import Workspace

__all__ = [
    "Check",
    "Workspace",
    "array",
    "check",
    "integer",
    "mapping",
    "number",
    "numbers",
    "sequence",
    "string",
]
