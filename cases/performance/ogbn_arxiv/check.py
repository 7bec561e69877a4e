"""Measures the accuracy of submission.csv, and of train.py on a network nobody has seen before; counts its epochs."""

import ast
import sys
from typing import Any

import numpy as np
from papers import FIELDS, TABLES, files, papers

from bench.casekit import labels_counted
from bench.casekit.metrics import accuracy
from bench.casekit.programs import kept_as_given
from bench.judge import Numbers, check, integer, mapping, once, submission

BASELINE, STRONG = 0.632, 0.89
BAR = 1.1 * BASELINE
EPOCHS = 10
SAME = 0.85  # two trainings of the reference with other seeds agreed on 97 %
LEAST, MOST = 5600, 6400  # papers of the other network
RUN_S = 60
STARTERS = {"subprocess", "multiprocessing", "ProcessPoolExecutor"}
OS_STARTERS = ("fork", "system", "popen", "posix_spawn", "spawn", "exec")
GIVEN = {f"networks/ogbn_arxiv/{name}.csv.gz" for name in TABLES}
LIBRARIES = {"numpy", "pandas", "torch"}
COUNTER = ("torch.py", "labels_counted.py")


@check(weight=10, required=True)
def submission_is_complete(ws: Any) -> None:
    """submission.csv has the two columns, and one field for every test paper."""
    _submitted(ws)


@check(weight=20)
def better_than_the_starter(ws: Any) -> float:
    """Credit for the accuracy on the test papers: from 0 at the starter's 0.632 to 1 at 0.89."""
    return float(ws.scale(_accuracy(ws), floor=BASELINE, target=STRONG))


@check(weight=30, required=True)
def ten_percent_better(ws: Any) -> None:
    """The accuracy on the test papers is more than 10 % above the starter's."""
    assert _accuracy(ws) > BAR, f"accuracy {_accuracy(ws):.4f}, wanted more than {BAR:.4f}"


@check(weight=30, required=True)
def program_learns_on_another_network(ws: Any) -> None:
    """train.py, run on a network with other fields, words and citations, gets above the same bar."""
    rng = ws.numpy_rng("another network")
    network = papers(rng, int(rng.integers(LEAST, MOST)))
    ran = _run(ws, files(network))
    _count(ws, "epochs_on_another_network", ran, len(network.fields) - len(network.test))
    share = accuracy(network.fields[network.test], _fields(ran, network.test.tolist()))
    ws.metric("accuracy_on_another_network", share)
    assert share > BAR, f"accuracy {share:.4f} on another network, wanted more than {BAR:.4f}"


@check(guard=True)
def at_most_ten_epochs(ws: Any) -> None:
    """Only torch trains, in one process, and its losses are derived for at most ten times the known labels."""
    odd = sorted(_imported(ws) - LIBRARIES)
    assert not odd, f"the programs import {odd[:4]}, wanted none but the standard library and {sorted(LIBRARIES)}"
    others = sorted(_starting(ws))
    assert not others, f"the programs use {others[:4]}: training in other processes is not counted"
    ran = _counted(ws)
    _count(ws, "epochs", ran, int(_truth(ws)["known"][0]))
    given = set(_programs(ws))
    left = [path for path in ran.files() if path.endswith(".py") and path not in COUNTER]
    left = [path for path in left if path not in given or ran.sha256(path) != ws.sha256(path)]
    assert not left, f"train.py writes {left[0][:60]}, so that its next run finds what this one has left"


@check(weight=10, required=True)
def submission_is_the_programs(ws: Any) -> None:
    """train.py, run once more on the files it was given, names the same fields, but for the luck of a draw."""
    again = _fields(_counted(ws), _truth(ws)["nodes"].tolist())
    agree = accuracy(again, _submitted(ws))
    assert agree >= SAME, f"train.py gives {agree:.1%} of the fields of submission.csv again, wanted {SAME:.0%}"


@check(guard=True)
def networks_as_given(ws: Any) -> None:
    """networks/ has no other files than it had, and a run of train.py leaves these as they are."""
    kept_as_given(ws, "networks", GIVEN, lambda: _counted(ws))


@once
def _counted(ws: Any) -> Any:
    """train.py on the files that it was given."""
    return _run(ws, {})


def _run(ws: Any, inputs: dict[str, bytes]) -> Any:
    """train.py, with a count of the labels that it goes through."""
    counter = dict(zip(COUNTER, (ws.hidden("counted_torch.py"), labels_counted.source()), strict=True))
    return ws.run(["python", "train.py"], timeout=RUN_S, inputs=inputs | counter, remove=_left_behind(ws)).ok()


def _count(ws: Any, name: str, ran: Any, known: int) -> None:
    labels = integer(mapping(ran.json("counted.json"), keys=["labels", "together"])["together"], low=0)
    ws.metric(name, labels / known)
    assert labels <= EPOCHS * known, f"the training went through {labels} labels: {labels / known:.1f} epochs"


def _left_behind(ws: Any) -> list[str]:
    """What is neither a program nor given: a network that was trained before, or what was found before."""
    return [path for path in ws.files() if not path.endswith(".py") and path not in GIVEN]


@once
def _programs(ws: Any) -> dict[str, ast.Module]:
    found: dict[str, ast.Module] = {}
    for path in sorted(path for path in ws.files() if path.endswith(".py")):
        try:
            found[path] = ast.parse(ws.text(path))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise AssertionError(f"{path[:60]} is not Python") from None
    return found


def _modules(ws: Any) -> set[str]:
    """The full names of all modules that a program of the workspace imports or imports from."""
    found: set[str] = set()
    for tree in _programs(ws).values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def _imported(ws: Any) -> set[str]:
    """Top-level packages that are imported, beside the workspace's own modules and the standard library."""
    own = {part.removesuffix(".py") for path in _programs(ws) for part in path.split("/")}
    return {name.partition(".")[0] for name in _modules(ws)} - own - set(sys.stdlib_module_names)


def _starting(ws: Any) -> set[str]:
    """Names by which programs start other processes."""
    found = {name for name in _modules(ws) if STARTERS & set(name.split("."))}
    for tree in _programs(ws).values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                of_os = isinstance(node.value, ast.Name) and node.value.id == "os" and node.attr.startswith(OS_STARTERS)
                found |= {node.attr} if of_os or node.attr in STARTERS else set()
    return found


def _fields(folder: Any, nodes: list[int]) -> Any:
    """The field of each of `nodes`, in their order."""
    columns = {"field": Numbers(low=0, high=FIELDS - 1, whole=True)}
    return submission(folder, "submission.csv", ids={"node": nodes}, columns=columns)["field"]


@once
def _truth(ws: Any) -> dict[str, Any]:
    with np.load(ws.hidden("answers.npz").path) as file:
        return dict(file)


@once
def _submitted(ws: Any) -> Any:
    return _fields(ws, _truth(ws)["nodes"].tolist())


@once
def _accuracy(ws: Any) -> float:
    share = accuracy(_truth(ws)["fields"], _submitted(ws))
    ws.metric("accuracy", share)
    return share
