"""Folders that are hard to walk, to name and to remove."""

from __future__ import annotations

import os
import time

import facts

_MOST_FILES = 1_000_000
_PER_FOLDER = 2000


def many_files() -> None:
    """A million small files, or as many as the time allows."""
    until = time.monotonic() + facts.FACTS["limits"]["agent_s"] * 0.6
    made = 0
    while made < _MOST_FILES and time.monotonic() < until:
        folder = facts.WORKSPACE / f"crowd-{made // _PER_FOLDER}"
        folder.mkdir()
        handle = os.open(folder, os.O_RDONLY)
        for number in range(_PER_FOLDER):
            os.close(os.open(str(number), os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=handle))
        os.close(handle)
        made += _PER_FOLDER
    facts.say("made", files=made)


def deep_folders() -> None:
    """Folders nested deeper than a path can name and than a program can recurse, some of them locked."""
    for start, depth, name in ((facts.WORKSPACE, 5000, "d"), (facts.WORKSPACE, 300, "e" * 200), (facts.OUT, 3000, "d")):
        os.chdir(start)
        for number in range(depth):
            os.mkdir(name)
            os.chdir(name)
            if number % 500 == 499:
                open("file", "w").close()
        os.chmod(".", 0)
    os.chdir("/")


def odd_names() -> None:
    """Names that are not UTF-8, not printable, not short, or look like options."""
    names = [
        b"\xff\xfe\xfd",
        b"caf\xe9.json",
        b"line\nbreak",
        b"tab\tand\rreturn",
        b"\x1b[2Jscreen",
        b"-rf",
        b"--help",
        b"a" * 255,
        b" ",
        b"...",
        b"con:aux*?",
        "\u202egnp.exe".encode(),
        b"\xed\xa0\x80",
        b"'; touch x; '",
        b"$(touch x)",
    ]
    root = os.fsencode(facts.WORKSPACE)
    for name in names:
        open(os.path.join(root, name), "w").close()
        os.makedirs(os.path.join(root, b"dir-" + name[:200], name), exist_ok=True)
    for path in facts.outputs():
        twin = os.fsencode(path) + b"\xff"
        open(twin, "w").close()
