"""The program that an agent left, run once more: on inputs of the judge, or on those it was given, which must stay."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any


def learns_again(
    ws: Any,
    argv: Sequence[str],
    inputs: Mapping[str, Any],
    timeout: float,
    kept: Sequence[str] = (),
    most_kb: int = 100,
) -> Any:
    """A command with the Python files of the workspace, the files `kept` and `inputs` alone; what it left.

    inputs: bytes, str or a hidden file for each path; what lies in their folders is not there. timeout: CPU seconds.
    AssertionError when the Python files, names included, have more than `most_kb`, the program fails, or it changes one
    of its inputs or of `kept`, or puts a file into a folder of the inputs.
    """
    sources = [name for name in ws.files() if name.endswith(".py")]
    # Thousands of empty files can carry a network in their names.
    size = sum(ws.path(name).stat().st_size + len(name.encode()) for name in sources)
    assert size <= most_kb * 1000, f"the Python files have {size:,} bytes, wanted at most {most_kb},000"
    folders = {name.split("/")[0] for name in inputs if "/" in name}
    others = _whole([name for name in ws.files() if name not in {*sources, *kept}], {*sources, *kept})
    ran = ws.run(argv, timeout=timeout, inputs=inputs, remove=sorted(others | folders)).ok()
    left_alone(ran, inputs)
    changed = [name for name in kept if not ran.exists(name) or ran.sha256(name) != ws.sha256(name)]
    assert not changed, f"the program changed {changed[0]}, which must stay as it is"
    return ran


def _whole(others: Collection[str], wanted: Collection[str]) -> set[str]:
    """`others`, or the highest folders above them that have nothing of `wanted`: a folder left empty is there, too."""
    needed = {parent for name in wanted for parent in _folders(name)}
    return {next((it for it in _folders(name) if it not in needed), name) for name in others}


def _folders(name: str) -> list[str]:
    """The folders that a file lies in, from the highest on."""
    parts = name.split("/")[:-1]
    return ["/".join(parts[: end + 1]) for end in range(len(parts))]


def left_alone(ran: Any, inputs: Mapping[str, Any]) -> None:
    """AssertionError when a finished command changed one of its inputs, or put a file into a folder of theirs."""
    for name, content in inputs.items():
        if isinstance(content, bytes | str):
            wanted = content.encode("utf-8") if isinstance(content, str) else content
        else:
            wanted = content.read_bytes()
        same = ran.exists(name) and ran.bytes(name) == wanted
        assert same, f"the program changed {name}, which must stay as it is"
    folders = tuple({f"{name.split('/')[0]}/" for name in inputs if "/" in name})
    added = [name for name in ran.files() if name.startswith(folders) and name not in inputs]
    assert not added, f"the program put {added[0]} into a folder that must stay as it is"


def kept_as_given(ws: Any, inputs: Mapping[str, Any], run: Callable[[], Any]) -> None:
    """AssertionError when the agent left a new file in a folder of `inputs`, or its program changes or adds one.

    run: gives what the program left on `inputs`. When that raises an AssertionError nothing is said of it here: another
    check is to say why the program fails.
    """
    folders = {name.split("/")[0] for name in inputs if "/" in name}
    more = [name for name in ws.files() if name.split("/")[0] in folders and name not in inputs]
    assert not more, f"{more[0][:80]} is new, in a folder that must stay as it is"
    try:
        ran = run()
    except AssertionError:
        return
    left_alone(ran, inputs)
