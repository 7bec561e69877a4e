"""The README's block as printed, with a real installation: green without a key; red in one line that names the key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.store.branch import ResultsBranch
from tests.helpers.provider import Reply, ScriptedUpstream
from tests.workflows.rehearsal.first_use import Newcomer, readme_block
from tests.workflows.rehearsal.githost import git_host
from tests.workflows.rehearsal.stage import copy_work_tree, git

# It installs from the package index, as a newcomer's runner does.
pytestmark = [pytest.mark.act, pytest.mark.slow, pytest.mark.timeout(1800)]

TOKEN = "token-of-this-job-4711"
ASKS = """
import json, os, urllib.request
request = urllib.request.Request(
    os.environ["OPENAI_BASE_URL"] + "/chat/completions",
    json.dumps({"model": os.environ["BENCH_MODEL"], "messages": [{"role": "user", "content": "Hello?"}],
                "max_tokens": 20}).encode(),
    {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"},
)
print(urllib.request.urlopen(request).read())
"""
AGENT = {
    "agent.yaml": 'id: asks\ncommand: [python, "{agent}/main.py"]\nmodels: {main: openai/gpt-4o-mini}\n',
    "main.py": ASKS,
}
OWN = readme_block().replace("agent: react\n", "agent: ./agent.yaml\n")


@pytest.fixture(scope="module")
def action(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_work_tree(tmp_path_factory.mktemp("action"))


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runner's tool cache: empty at first."""
    return tmp_path_factory.mktemp("tools")


@pytest.fixture
def newcomer(action: Path, tools: Path, tmp_path: Path) -> Newcomer:
    return Newcomer(tmp_path / "newcomer", action, tools)


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    folder = tmp_path / "host" / "stranger" / "agent"
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--bare")
    git(folder, "config", "http.receivepack", "true")
    git(folder, "config", "uploadpack.allowFilter", "true")
    return folder


@pytest.fixture
def server(remote: Path) -> Iterator[str]:
    with git_host(remote.parents[1], TOKEN) as address:
        yield address


def test_the_block_as_printed_is_green_and_small(newcomer: Newcomer, remote: Path, server: str) -> None:
    ended = newcomer.push(readme_block(), AGENT, server, TOKEN)
    assert ended.code == 0, ended.text
    records = list(ResultsBranch(remote).records())
    assert {(it.agent.id, it.case.id, it.outcome) for it in records} == {
        ("react", "hello_world", "graded"),
        ("react", "parse_logs", "graded"),
    }
    installed = set().union(*(it.provenance.packages for it in records))
    assert "pydantic" in installed and not {"torch", "litellm", "pandas"} & installed
    assert all(it.provenance.isolated for it in records)


@pytest.mark.nightly
def test_a_live_model_without_its_key_is_one_line_that_names_it(newcomer: Newcomer, remote: Path, server: str) -> None:
    ended = newcomer.push(OWN, AGENT, server, TOKEN)
    assert ended.code != 0
    (said,) = [str(entry["arg"]) for entry in ended.commands("error")]
    assert "needs OPENAI_API_KEY, which is not set" in said
    assert "add `env: { OPENAI_API_KEY: ${{ secrets.OPENAI_API_KEY }} }` to this step" in said
    assert git(remote, "for-each-ref") == "", "a run that could not start commits nothing"


@pytest.mark.nightly
def test_with_a_provider_the_cell_is_graded(newcomer: Newcomer, remote: Path, server: str) -> None:
    with ScriptedUpstream(lambda body, protocol: Reply("Hello.")) as upstream:
        lines = "".join(f"          {name}: {value}\n" for name, value in upstream.environment().items())
        used = "      - uses: ml-dev-bench/action@v1\n"
        ended = newcomer.push(OWN.replace(used, f"{used}        env:\n{lines}"), AGENT, server, TOKEN)
    assert ended.code == 0, ended.text
    records = list(ResultsBranch(remote).records())
    assert {(it.agent.id, it.outcome, it.usage[0].calls) for it in records} == {("asks", "graded", 1)}
    assert upstream.environment()["OPENAI_API_KEY"] not in ended.text
