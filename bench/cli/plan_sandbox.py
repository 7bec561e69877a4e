"""Which sandbox a plan asks for: one for all of its shards, since records from two cannot be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.base.errors import UserError

if TYPE_CHECKING:
    from bench.formats.plan import Cell


def decided_sandbox(asked: str, cells: Sequence[Cell], *, elsewhere: bool) -> str:
    """The sandbox by name; of `auto` the one that every shard can be told now.

    elsewhere: the shards run on other machines, of which this one knows only what the Action prepares on each.
    """
    from bench.formats.plan import ANY_SANDBOX
    from bench.sandbox import choose_sandbox

    if asked != ANY_SANDBOX:
        return asked
    # No other sandbox starts the image of an agent.
    if any(cell.agent.spec.environment.image for cell in cells):
        return "docker"
    if elsewhere:
        return "bubblewrap"
    try:
        return choose_sandbox(ANY_SANDBOX).name
    except UserError:
        # The shards are refused where it does not work, with the remedy.
        return "bubblewrap"
