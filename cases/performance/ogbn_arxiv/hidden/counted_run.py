"""Runs train.py as `python train.py` does, and notes what it goes through.

counted.json has the labels of its losses, libraries.json the libraries that its programs ask for, whichever way they
name them; those that a library asks for are the library's own affair. processes.json says, when all is done, whether it
had children.
"""

import importlib
import json
import os
import runpy
import sys
import sysconfig
from importlib.machinery import PathFinder
from pathlib import Path
from types import FrameType

FIELDS = 16
OWN, STANDARD = os.path.abspath(sys.path.pop(0)), sysconfig.get_path("stdlib")


class Libraries:
    """Stands before the finders of modules and finds none."""

    def __init__(self, into: str) -> None:
        self.found: set[str] = set()
        self.into = Path(into).absolute()
        self.into.write_text("[]")

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Note a module that lies neither in the program's folder nor in one of its packages."""
        if path is None and name not in self.found and not by_a_library(sys._getframe(1)):
            spec = PathFinder.find_spec(name)
            if spec is None:
                return
            # A folder without __init__.py has no origin.
            places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
            if not all(place.startswith(OWN + os.sep) for place in places):
                self.found.add(name)
                self.into.write_text(json.dumps(sorted(self.found)))


def by_a_library(frame: FrameType | None) -> bool:
    """Whether the nearest code that is not Python's own is an installed library's."""
    while frame is not None:
        file = frame.f_code.co_filename
        if "site-packages" in file and not file.startswith(OWN):
            return True
        if not file.startswith(("<", STANDARD)):
            return False
        frame = frame.f_back
    return False


torch = importlib.import_module("torch")
sys.path.insert(0, OWN)
counter = importlib.import_module("labels_counted")
counter.note_children("processes.json")  # before the program, so that it is told last
counter.begin(torch, FIELDS, "counted.json", steps=True)
sys.meta_path.insert(0, Libraries("libraries.json"))
sys.argv = ["train.py"]
runpy.run_path(os.path.join(OWN, "train.py"), run_name="__main__")
