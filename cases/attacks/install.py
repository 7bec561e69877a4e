"""Attacks from the agent's own packages, whose build scripts run before the agent does."""

from __future__ import annotations

import importlib

import facts


def backend() -> None:
    """A build backend that looks for keys and hidden files, calls home, and leaves a daemon for the steps to come."""
    try:
        package = importlib.import_module("installed_loot")
    except ImportError as error:
        facts.void(f"the package was not installed: {error}")
        return
    for word in package.LOOT:
        facts.keep(word.encode())
    for what in package.REACHED:
        facts.reached(what)
