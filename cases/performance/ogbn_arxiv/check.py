"""Measures the accuracy of submission.csv, and of train.py on a network nobody has seen before; counts its epochs."""

import ast
import sys
from typing import Any

import numpy as np
from papers import FIELDS, LABELS, TABLES, files, papers, renumbered

from bench.casekit import labels_counted
from bench.casekit.metrics import accuracy
from bench.casekit.programs import left_alone
from bench.judge import Given, Numbers, check, drawn, integer, mapping, once, sequence, string, submission

BASELINE, STRONG = 0.632, 0.89
BAR = 1.1 * BASELINE
EPOCHS = 10
APART = 0.06  # between the accuracies of two trainings
LEAST, MOST = 5600, 6400  # papers of the other network
RUN_S = 60
GIVEN = {f"networks/ogbn_arxiv/{name}.csv.gz" for name in TABLES}
LIBRARIES = {"numpy", "pandas", "torch"}
COUNTER = ("counted_run.py", "labels_counted.py")


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
    network, inputs = _another_network(ws)
    ran = _run(ws, inputs)
    _count(ws, "epochs_on_another_network", ran, len(network.fields) - len(network.test))
    share = accuracy(network.fields[network.test], _fields(ran, network.test.tolist()))
    ws.metric("accuracy_on_another_network", share)
    assert share > BAR, f"accuracy {share:.4f} on another network, wanted more than {BAR:.4f}"


@drawn
def _another_network(given: Given) -> tuple[Any, dict[str, bytes]]:
    """A network and its files."""
    rng = given.numpy_rng("another network")
    network = papers(rng, int(rng.integers(LEAST, MOST)))
    return network, files(network)


@check(guard=True)
def at_most_ten_epochs(ws: Any) -> None:
    """No other library trains and no other process, and torch derives losses of at most ten times the known labels."""
    _assert_known(_imported(ws))
    ran = _counted(ws)
    _count(ws, "epochs", ran, int(_truth(ws)["known"][0]))
    given = set(_programs(ws))
    left = [path for path in ran.files() if path.endswith(".py") and path not in COUNTER]
    left = [path for path in left if path not in given or ran.sha256(path) != ws.sha256(path)]
    assert not left, f"train.py writes {left[0][:60]}, so that its next run finds what this one has left"


@check(weight=10, required=True)
def submission_is_the_programs(ws: Any) -> None:
    """train.py, run once more with the fields numbered in another order, is as often right, but for luck."""
    truth = _truth(ws)
    again = accuracy(_order(ws)[truth["fields"]], _fields(_counted(ws), truth["nodes"].tolist()))
    assert abs(again - _accuracy(ws)) <= APART, (
        f"with the fields numbered in another order train.py has the accuracy {again:.4f}, submission.csv "
        f"{_accuracy(ws):.4f}"
    )


@check(guard=True)
def networks_as_given(ws: Any) -> None:
    """networks/ has no other files than it had, and a run of train.py leaves these as they are."""
    more = [path for path in ws.files() if path.startswith("networks/") and path not in GIVEN]
    assert not more, f"networks/ must stay as it is, {more[0][:80]} is new"
    left_alone(_counted(ws), {path: ws.original(path).read_bytes() for path in GIVEN} | _relabelled(ws))


@once
def _counted(ws: Any) -> Any:
    """train.py on the files that it was given, with other numbers for the fields: kept answers are wrong then."""
    return _run(ws, _relabelled(ws))


@once
def _order(ws: Any) -> Any:
    """The number that each field gets."""
    return ws.numpy_rng("order of the fields").permutation(FIELDS)


@once
def _relabelled(ws: Any) -> dict[str, bytes]:
    """The file of the known fields, with their other numbers."""
    return {LABELS: renumbered(ws.original(LABELS).read_bytes(), _order(ws))}


def _run(ws: Any, inputs: dict[str, bytes]) -> Any:
    """train.py, with a count of the labels that it goes through and of the libraries that it asks for."""
    counter = dict(zip(COUNTER, (ws.hidden(COUNTER[0]), labels_counted.source()), strict=True))
    return ws.run(["python", COUNTER[0]], timeout=RUN_S, inputs=inputs | counter, remove=_left_behind(ws)).ok()


def _count(ws: Any, name: str, ran: Any, known: int) -> None:
    # By where each of them lies: a file of the program's own may have the name of a library.
    _assert_known({string(it) for it in sequence(ran.json("libraries.json"))})
    assert ran.json("processes.json") is False, "train.py starts other processes: training there is not counted"
    labels = integer(mapping(ran.json("counted.json"), keys=["labels", "together"])["together"], low=0)
    ws.metric(name, labels / known)
    assert labels <= EPOCHS * known, f"the training went through {labels} labels: {labels / known:.1f} epochs"


def _assert_known(packages: set[str]) -> None:
    odd = sorted(packages - LIBRARIES - set(sys.stdlib_module_names))
    assert not odd, f"the programs import {odd[:4]}, wanted none but the standard library and {sorted(LIBRARIES)}"


def _left_behind(ws: Any) -> list[str]:
    """What is neither a program nor given: a network that was trained before, or what was found before."""
    return [path for path in ws.files() if not path.endswith(".py") and path not in GIVEN]


@once
def _programs(ws: Any) -> dict[str, ast.Module]:
    found: dict[str, ast.Module] = {}
    for path in sorted(path for path in ws.files() if path.endswith(".py")):
        try:
            found[path] = ast.parse(ws.program(path))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise AssertionError(f"{path[:60]} is not Python") from None
    return found


def _imported(ws: Any) -> set[str]:
    """Top-level packages that a program of the workspace imports, beside the workspace's own modules."""
    found: set[str] = set()
    for node in (node for tree in _programs(ws).values() for node in ast.walk(tree)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return {name.partition(".")[0] for name in found} - _own(ws)


def _own(ws: Any) -> set[str]:
    return {part.removesuffix(".py") for path in _programs(ws) for part in path.split("/")}


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
