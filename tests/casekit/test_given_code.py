"""What is given in a file stays, whatever is written around it."""

from __future__ import annotations

import pytest

from bench.casekit.given_code import altered

GIVEN = '''
import math

SCALE = 2.0


class Net(Base):
    """A net."""

    width = 3

    def __init__(self) -> None:
        self.rate = 0.5

    def forward(self, x):
        """To do."""
        raise NotImplementedError


def save(net, path):
    if path:
        write(net, path)
'''
FORWARD = "        raise NotImplementedError\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (FORWARD, "        return SCALE * x\n"),
        ("import math\n", "import json\nimport math\n"),
        ('    """A net."""\n', "    # A net that was written.\n"),
        ("        self.rate = 0.5\n", "        self.rate = (\n            0.5\n        )\n"),
        ("\n\ndef save", "\n\ndef helper(x):\n    return x\n\n\ndef save"),
        (FORWARD, f"{FORWARD}\n    def helper(self):\n        return 1\n"),
        (FORWARD, f"{FORWARD}\n\nif __name__ == '__main__':\n    number = 3\n"),
    ],
)
def test_what_is_free(old: str, new: str) -> None:
    assert old in GIVEN
    assert altered(GIVEN, GIVEN.replace(old, new), {"Net.forward"}) == []


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("SCALE = 2.0", "SCALE = 2", ["SCALE"]),
        ("width = 3", "width = 4", ["Net.width"]),
        ("self.rate = 0.5", "self.rate = 0.6", ["Net.__init__"]),
        ("class Net(Base)", "class Net(Other)", ["Net"]),
        ("    if path:\n        write(net, path)\n", "    write(net, path)\n", ["save"]),
        ("def save", "def keep", ["save"]),
        ("\n\ndef save", "\n\nNet.__init__ = other\n\n\ndef save", ["Net.__init__"]),
        ("\n\ndef save", "\n\nSCALE *= 2\n\n\ndef save", ["SCALE"]),
        ("\n\ndef save", "\n\nOTHER, SCALE = 1, 3\n\n\ndef save", ["SCALE"]),
        ("        write(net, path)\n", "        write(net, path)\n\n\nfrom elsewhere import keep as save\n", ["save"]),
        (FORWARD, f"{FORWARD}\n    try:\n        pass\n    finally:\n        width = 9\n", ["Net.width"]),
        (
            "        write(net, path)\n",
            "        write(net, path)\n\n\nif True:\n    def save(net, path):\n        pass\n",
            ["save"],
        ),
        (
            "        write(net, path)\n",
            "        write(net, path\n",
            ["the whole file, which is no Python that can be read"],
        ),
    ],
)
def test_what_is_named(old: str, new: str, names: list[str]) -> None:
    assert old in GIVEN
    assert altered(GIVEN, GIVEN.replace(old, new), {"Net.forward"}) == names


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ("try:\n    fail()\nexcept* OSError:\n    def save(net, path):\n        pass\n", ["save"]),
        ("match 1:\n    case _:\n        def save(net, path):\n            pass\n", ["save"]),
        ("match 9:\n    case SCALE:\n        pass\n", ["SCALE"]),
        ("match [9, 8]:\n    case [_, *SCALE]:\n        pass\n", ["SCALE"]),
        ("match {}:\n    case {**SCALE}:\n        pass\n", ["SCALE"]),
        ("for SCALE in [9]:\n    pass\n", ["SCALE"]),
        ("for Net.__init__ in [print]:\n    pass\n", ["Net.__init__"]),
        ("with other() as (SCALE, more):\n    pass\n", ["SCALE"]),
        ("try:\n    fail()\nexcept OSError as SCALE:\n    pass\n", ["SCALE"]),
        ("(SCALE := 9)\n", ["SCALE"]),
        ("if (SCALE := 9):\n    pass\n", ["SCALE"]),
        ("print([SCALE := it for it in [9]])\n", ["SCALE"]),
        ("@(save := keep)\ndef other():\n    pass\n", ["save"]),
        ("del SCALE\n", ["SCALE"]),
        ("class Net(Base):\n    width = 3\n\n    def forward(self, x):\n        return x\n", ["Net", "Net.width"]),
        # What is put back may never run.
        ("SCALE = 9\nif not SCALE:\n    SCALE = 3\n", ["SCALE"]),
        # A class reaches out of itself.
        ("class Other:\n    global SCALE\n    SCALE = 9\n", ["SCALE"]),
        ("class Other:\n    Net.__init__ = print\n", ["Net.__init__"]),
        ("class Other:\n    SCALE = 9\n    Net = None\n", []),
        ("def other():\n    global SCALE\n    SCALE = 9\n", ["SCALE"]),
        ("def other():\n    del Net.width\n", ["Net.width"]),
        ("def other():\n    SCALE = Net = 9\n", []),
        ("import SCALE.part\n", ["SCALE"]),
        ("from other import *\n", ["SCALE", "Net", "Net.width", "Net.__init__", "save"]),
        # Names of a comprehension and of a lambda are their own.
        ("print([SCALE for SCALE in [9]], lambda SCALE: SCALE)\n", []),
        ("for number in [9]:\n    other = number\n", []),
    ],
)
def test_whatever_a_statement_binds_again_is_named(more: str, names: list[str]) -> None:
    assert altered(GIVEN, GIVEN + more, {"Net.forward"}) == names


def test_a_star_before_what_is_given_takes_nothing_away() -> None:
    assert altered(GIVEN, f"from other import *\n{GIVEN}", {"Net.forward"}) == []


def test_what_is_to_be_written_is_named_where_it_is_not_said() -> None:
    assert altered(GIVEN, GIVEN.replace(FORWARD, "        return x\n"), set()) == ["Net.forward"]
