"""Probes call what task.md promises in every promised way, and nothing that it does not promise."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.judge import Probe
from bench.judge.grading import Grading
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import judge, make_case

SIGNATURE = "scaled(values, factor=2, offset=0)"
CHECK = '''
import numpy as np

from bench.judge import Made, Probe, array, check, run_command

SCALED = Probe(
    "scaled(values, factor=2, offset=0)",
    target="answer:scaled",
    observe="driver.py:shown",
    promised={"sizes": "any length", "inputs": "not changed", "integers": "or integers", "repeats": "each call anew"},
)


def right(values, extra, found):
    expected = values["values"] * float(values["factor"]) + values["offset"] + extra[0]
    assert np.allclose(array(found, shape=expected.shape), expected), "the values are not scaled"


def extra(values):
    return [len(values["values"])]


@check(required=True)
def forms(ws):
    """Every form."""
    SCALED.signature(ws, {"values": np.arange(4.0), "factor": 3, "offset": 5}, extra, right)


@check(required=True)
def kinds(ws):
    """Every kind."""
    for size in (0, 1, 5000):
        SCALED.compare(ws, "sizes", {"values": np.ones(size)}, extra, right)
    SCALED.compare(ws, "integers", {"values": np.arange(3)}, extra, right)
    SCALED.repeats(ws, {"values": np.arange(3.0)}, {"values": np.arange(5.0), "factor": 7}, extra, right)


@check(required=True)
def command(ws):
    """The script writes its file."""
    assert run_command(ws, "python answer.py", outputs=["out.txt"]).text("out.txt") == "done", "it is not done"
'''
TASK = "# Scale\n\nComplete `scaled(values, factor=2, offset=0)` in `answer.py`: floats or integers, any length, "
TASK += "not changed, each call anew. Run `python answer.py`.\n"
PROMISES = [
    {"quote": TASK.partition("\n\n")[2].strip(), "checks": ["forms", "kinds"]},
    {"quote": "`python answer.py`", "checks": ["command"]},
]
DRIVER = "def shown(value, more):\n    return value + more\n"
MAIN = '\nif __name__ == "__main__":\n    open("out.txt", "w").write("done")\n'
RIGHT = "def scaled(values, factor=2, offset=0):\n    return values * float(factor) + offset\n" + MAIN


def graded(folder: Path, answer: str, check: str = CHECK, promises: object = PROMISES) -> Grading:
    case = make_case(folder, {"task.md": TASK, "check.py": check, "hidden/driver.py": DRIVER}, promises=promises)
    return judge(case, folder, {"answer.py": answer, "out.txt": "done"}, ProcessSandbox())


@pytest.mark.parametrize(
    "answer",
    [
        RIGHT,
        # However it is written: only what it does counts.
        "def scaled(*args, **more):\n    names = dict(zip(('values', 'factor', 'offset'), args), **more)\n"
        "    return names['values'] * float(names.get('factor', 2)) + names.get('offset', 0)\n" + MAIN,
        "class Scaled:\n    def __call__(self, values, factor=2, offset=0):\n"
        "        return values * float(factor) + offset\nscaled = Scaled()\n" + MAIN,
    ],
    ids=["plain", "any arguments", "an object"],
)
def test_a_right_answer_passes_however_it_is_written(tmp_path: Path, answer: str) -> None:
    grading = graded(tmp_path, answer)
    assert (grading.broken, [it.message for it in grading.verdicts if it.message]) == ("", [])


@pytest.mark.parametrize(
    ("old", "new", "fails", "said"),
    [
        ("factor=2", "factor=3", "forms", "scaled with values by name: the values"),
        ("factor=2, offset=0", "offset=0, factor=2", "forms", "values by position, factor by position, offset by pos"),
        ("offset=0", "shift=0, offset=0", "forms", "by position"),
        ("    return", "    values += 1; values -= 1 - 1e-9\n    return", "kinds", "an input was changed"),
        ("    return", "    values = values[:4000]\n    return", "kinds", "shape"),
        ("(values, factor=2, offset=0):\n", "(values, factor=2, offset=0, seen=[]):\n    seen.append(factor)\n"
         "    factor = seen[-2] if len(seen) == 3 else factor\n", "kinds", "not scaled"),
        ('open("out.txt", "w").write("done")', "pass", "command", "does not write out.txt"),
        ('open("out.txt", "w").write("done")', "raise SystemExit(3)", "command", "status 3"),
    ],
)  # fmt: skip
def test_a_near_miss_is_caught_with_the_call_that_shows_it(
    tmp_path: Path, old: str, new: str, fails: str, said: str
) -> None:
    grading = graded(tmp_path, RIGHT.replace(old, new))
    messages = {it.id: it.message for it in grading.verdicts if it.value < 1}
    assert grading.broken == "" and said in messages[fails]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (SIGNATURE, "scaled(values, factor=2, offset=1)", "no promise of case.yaml quotes 'scaled("),
        ('"any length"', '"every length"', "the probe of sizes: no promise"),
        ('ws, "sizes"', 'ws, "dtypes"', "no words that promise 'dtypes'"),
        ('"python answer.py"', '"python other.py"', "no promise of case.yaml quotes 'python other.py'"),
    ],
)
def test_what_no_promise_backs_is_a_fault_of_the_case(tmp_path: Path, old: str, new: str, said: str) -> None:
    grading = graded(tmp_path, RIGHT, CHECK.replace(old, new))
    assert said in grading.broken


def test_an_excused_promise_backs_nothing(tmp_path: Path) -> None:
    excused = [{"quote": PROMISES[0]["quote"], "excused": "given"}, PROMISES[1]]
    assert "do not probe it" in graded(tmp_path, RIGHT, promises=excused).broken


@pytest.mark.parametrize(
    ("promise", "kinds", "said"),
    [
        ("f(x)", {"colours": "any"}, "kinds of probes are"),
        ("f", {}, "is not a signature"),
        ("f(x, 1)", {}, "is not a signature"),
        ("f(x", {}, "is not a signature"),
        ("f(x, n=TWO)", {}, "malformed node"),
        ("f()", {}, "no parameters"),
    ],
)
def test_a_probe_needs_a_signature(promise: str, kinds: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Probe(promise, target="a:f", promised=kinds)


def test_parameters_come_from_the_promise() -> None:
    probe = Probe('f(x, y, epochs=20, data="a b", on=True, none=None)', target="a:f")
    assert list(probe.parameters) == ["x", "y", "epochs", "data", "on", "none"]
    assert list(probe.parameters.values())[2:] == [20, "a b", True, None]


@pytest.mark.slow
def test_modes_and_gradients_of_a_module(tmp_path: Path) -> None:
    check = '''
from bench.judge import Probe, Tensor, check
import numpy as np
PROBE = Probe("Layer(size=2)", target="answer:Layer", observe="driver.py:shown",
              promised={"modes": "any length", "gradients": "not changed"})

def right(values, extra, found):
    assert found == [[1.0] * values["size"], "Tensor"], f"it gives {found}"

@check(required=True)
def modes(ws):
    """Every mode."""
    PROBE.settings(ws, {"size": 3}, lambda values: [Tensor(np.ones(values["size"]))], right)
'''
    driver = "def shown(layer, x):\n    return [layer(x).tolist(), type(x).__name__]\n"
    answer = (
        "import torch\nclass Layer(torch.nn.Module):\n    def __init__(self, size=2):\n        super().__init__()\n"
    )
    answer += "    def forward(self, x):\n        return x\n"
    task = TASK.replace("`scaled", "`Layer(size=2)` or `scaled")
    promises = [{**PROMISES[0], "quote": task.partition("\n\n")[2].strip(), "checks": ["modes"]}]
    files = {"task.md": task, "check.py": check, "hidden/driver.py": driver}
    case = make_case(tmp_path, files, promises=promises, preload=["torch"], limits={"memory_mb": 4000})

    def messages(text: str) -> list[str]:
        grading = judge(case, tmp_path, {"answer.py": text}, ProcessSandbox())
        assert grading.broken == ""
        return [verdict.message for verdict in grading.verdicts if verdict.value < 1]

    assert messages(answer) == []
    assert "in eval mode: it gives" in messages(answer.replace("return x", "return x if self.training else 2 * x"))[0]
    off = answer.replace("return x", "return x if torch.is_grad_enabled() else 2 * x")
    assert "without gradients: it gives" in messages(off)[0]
