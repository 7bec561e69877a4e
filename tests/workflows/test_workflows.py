"""Every workflow of this project, its action, its forms, and every workflow in its documentation, linted."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from bench.formats.agent import AgentSpec
from bench.machines.settings import MachineSettings
from bench.plan.experiment import Experiment
from tests.workflows.rehearsal.documents import blocks, documented_workflows, step_actions, templates
from tests.workflows.rehearsal.stage import ROOT, git, tool

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))
_REHEARSAL = ROOT / "tests" / "workflows" / "rehearsal"
STRANGER = _REHEARSAL / "stranger" / ".github" / "workflows" / "bench.yml"
NIGHT = _REHEARSAL / "nightly" / ".github" / "workflows" / "night.yml"
MATRIX = ROOT / ".github" / "workflows" / "matrix.yml"
ACTIONS = [ROOT / "action.yml", *sorted((ROOT / ".github" / "actions").rglob("action.y*ml"))]
FORMS = [path for path in sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")) if path.name != "config.yml"]
_TOKEN = re.compile(r"inputs\.token|github\.token|secrets\.|ACTIONS_(RUNTIME|ID_TOKEN)")
_RUNS_AGENTS = re.compile(r"ml-dev-bench/action(/\.github/actions/run)?@|bench (action )?run\b|'uses': '\./'")
_IGNORED = re.compile(r"# *zizmor: *ignore\[[\w, -]+\](.*)")
_USES = re.compile(r"uses: *(?P<action>[\w./-]+)@(?P<ref>\S+)(?: +# (?P<version>\S+))?")


@pytest.fixture(scope="module")
def workflows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that holds the project's workflows, its action, and those of the documentation."""
    root = tmp_path_factory.mktemp("lint")
    git(root, "init", "--quiet")
    folder = root / ".github" / "workflows"
    folder.mkdir(parents=True)
    for path in WORKFLOWS:
        (folder / path.name).write_bytes(path.read_bytes())
    for name, text in documented_workflows():
        (folder / name).write_text(text, encoding="utf-8")
    for path in ACTIONS:
        (root / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
        (root / path.relative_to(ROOT)).write_bytes(path.read_bytes())
    (root / ".github" / "zizmor.yml").write_bytes((ROOT / ".github" / "zizmor.yml").read_bytes())
    return root


def lint(*command: str, cwd: Path = ROOT) -> None:
    done = subprocess.run(
        [tool(command[0]), *command[1:]], cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_is_something_to_lint() -> None:
    assert {path.name for path in WORKFLOWS} >= {"ci.yml", "pages.yml"}
    assert any(name.startswith("docs-github-action-") for name, _ in documented_workflows())
    assert len(templates()) == 6 + 1 and step_actions()
    assert len(FORMS) >= 2


def test_actionlint_finds_nothing(workflows: Path) -> None:
    lint("actionlint", "-shellcheck=", "-pyflakes=", cwd=workflows)
    lint("actionlint", "-shellcheck=", "-pyflakes=", str(STRANGER), str(NIGHT))


def test_zizmor_finds_nothing(workflows: Path) -> None:
    lint("zizmor", "--offline", "--no-progress", "--strict-collection", "--persona", "pedantic", ".", cwd=workflows)


def test_every_ignored_finding_has_a_reason() -> None:
    texts = [path.read_text(encoding="utf-8") for path in [*WORKFLOWS, *ACTIONS]]
    found = [it for text in [*texts, *(text for _, text in documented_workflows())] for it in _IGNORED.findall(text)]
    assert found, "the triggers of comment and pages are ignored"
    assert all(len(reason.split()) >= 5 for reason in found), found
    config = yaml.safe_load((ROOT / ".github" / "zizmor.yml").read_text(encoding="utf-8"))
    assert set(config["rules"]) == {"unpinned-uses"}, "an ignore belongs beside its line, with a reason"


def test_every_block_of_every_page_is_what_it_shows(workflows: Path) -> None:
    """Agents and experiments hold to their schemas, steps are linted in a job, and everything else is YAML."""
    kinds: dict[str, int] = defaultdict(int)
    for block in blocks():
        document = block.document
        assert document is not None, block.name
        if isinstance(document, list) and any("uses" in it or "run" in it for it in document):
            job = {"name": "a", "runs-on": "ubuntu-24.04", "timeout-minutes": 5, "steps": document}
            whole = {"name": "a", "on": "workflow_dispatch", "permissions": {}, "jobs": {"a": job}}
            (workflows / ".github" / "workflows" / block.name).write_text(yaml.safe_dump(whole), encoding="utf-8")
            lint("actionlint", "-shellcheck=", "-pyflakes=", cwd=workflows)
            kinds["steps"] += 1
        elif isinstance(document, dict) and "command" in document:
            AgentSpec.model_validate(document)
            kinds["agents"] += 1
        elif isinstance(document, dict) and "suites" in document:
            Experiment.model_validate(document)
            kinds["experiments"] += 1
        elif isinstance(document, dict) and {"ec2", "batch", "sky"} & set(document):
            MachineSettings.model_validate(document)
            kinds["machines"] += 1
        kinds["blocks"] += 1
    assert kinds["agents"] >= 3 and kinds["machines"] >= 3 and kinds["blocks"] > 10


def test_names_that_two_blocks_of_the_machines_page_share_are_the_same() -> None:
    """The scale set is the label of the experiment, and the class of the experiment is in the machines file."""
    found = [it.document for it in blocks() if it.name.startswith("docs-machines-")]
    (values,) = [it for it in found if "runnerScaleSetName" in it]
    classes = {machine["name"]: machine for it in found if "suites" in it for machine in it["machines"]}
    assert classes["arc"]["labels"] == [values["runnerScaleSetName"]]
    limits = values["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == classes["arc"]["gpus"] and int(limits["cpu"]) == classes["arc"]["cpus"]
    (settings,) = [it for it in found if "ec2" in it]
    assert set(settings["ec2"]["machines"]) <= set(classes)


def test_the_schemas_hold(workflows: Path) -> None:
    found = sorted((workflows / ".github" / "workflows").glob("*.yml"))
    lint("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, found), str(STRANGER))
    timed = "custom.github-workflows-require-timeout"
    lint("check-jsonschema", "--builtin-schema", timed, *map(str, found), str(STRANGER))
    stand_ins = sorted((ROOT / "tests" / "workflows" / "rehearsal").glob("*/action.yml"))
    lint("check-jsonschema", "--builtin-schema", "vendor.github-actions", *map(str, [*ACTIONS, *stand_ins]))
    lint("check-jsonschema", "--builtin-schema", "vendor.github-issue-forms", *map(str, FORMS))
    config = ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"
    lint("check-jsonschema", "--builtin-schema", "vendor.github-issue-config", str(config))


def test_a_finding_would_be_seen(workflows: Path, tmp_path: Path) -> None:
    """The linters are really asked: each refuses what it exists to refuse."""
    git(tmp_path, "init", "--quiet")
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    steps = [{"run": "echo ${{ github.event.head_commit.message }}"}, {"run": "echo ${{ nothing.x }}"}]
    bad = {"on": "push", "jobs": {"a": {"runs-on": "ubuntu-24.04", "steps": steps}}}
    (folder / "bad.yml").write_text(yaml.safe_dump(bad), encoding="utf-8")
    with pytest.raises(AssertionError, match="undefined variable"):
        lint("actionlint", "-shellcheck=", "-pyflakes=", cwd=tmp_path)
    with pytest.raises(AssertionError, match="template-injection"):
        lint("zizmor", "--offline", "--no-progress", ".", cwd=tmp_path)
    with pytest.raises(AssertionError, match="timeout"):
        lint("check-jsonschema", "--builtin-schema", "custom.github-workflows-require-timeout", str(folder / "bad.yml"))


def test_every_workflow_starts_without_rights_and_every_checkout_forgets_its_token() -> None:
    texts = [path.read_text(encoding="utf-8") for path in [*WORKFLOWS, STRANGER, NIGHT]]
    for text in [*texts, *(text for _, text in documented_workflows())]:
        document = yaml.safe_load(text)
        assert document["permissions"] == {}, text
        assert "pull_request_target" not in text
        for job in document["jobs"].values():
            # A job that calls a reusable workflow may not have a time-out: that workflow's jobs have theirs.
            assert ("timeout-minutes" in job) != ("uses" in job), text
            for step in job.get("steps", []):
                if step.get("uses", "").startswith("actions/checkout@"):
                    assert step["with"]["persist-credentials"] is False, text


def test_actions_of_others_are_pinned_and_one_version_is_one_commit() -> None:
    pins: dict[str, set[tuple[str, str]]] = defaultdict(set)
    texts = [path.read_text(encoding="utf-8") for path in [*WORKFLOWS, *ACTIONS]]
    for text in [*texts, *(text for _, text in documented_workflows())]:
        for match in _USES.finditer(text):
            if not match["action"].startswith(("ml-dev-bench/", "./")):
                assert re.fullmatch(r"[0-9a-f]{40}", match["ref"]), match[0]
                assert re.fullmatch(r"v\d+\.\d+\.\d+", match["version"] or ""), f"{match[0]}: no version comment"
                pins[match["action"]].add((match["ref"], match["version"]))
    assert pins
    assert all(len(versions) == 1 for versions in pins.values()), pins


def test_no_script_of_the_action_holds_an_expression() -> None:
    """zizmor finds the dangerous ones; here not one is wanted, whatever it stands for."""
    token_steps = set()
    for path in ACTIONS:
        steps = yaml.safe_load(path.read_text(encoding="utf-8"))["runs"]["steps"]
        assert all("${{" not in step.get("run", "") for step in steps), path
        holding = (step for step in steps if "MLDB_TOKEN" in step.get("env", {}))
        token_steps |= {f"{path.parent.name}/{step['id']}" for step in holding}
    assert token_steps >= {"plan/plan", "collect/collect", "site/site"}
    assert not [name for name in token_steps if name.startswith(("run/", "provision/", "release/", "sweep/"))]
    root = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["runs"]["steps"]
    assert [step["id"] for step in root if "MLDB_TOKEN" in step.get("env", {})] == ["publish"]


@pytest.mark.parametrize("workflow", [MATRIX, MATRIX.with_name("round.yml")], ids=lambda path: path.stem)
def test_the_job_of_a_matrix_that_runs_agents_holds_no_right_and_one_job_writes(workflow: Path) -> None:
    every = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    jobs = {name: job for name, job in every.items() if "uses" not in job}
    assert all(job["uses"].partition("@")[0].endswith("/round.yml") for name, job in every.items() if name not in jobs)
    writing = [name for name, job in jobs.items() if "write" in job["permissions"].values()]
    assert writing == ["collect"]
    assert jobs["run"]["permissions"] == {"contents": "read"}, "the agent's files are checked out"
    text = str(jobs["run"])
    assert "github.token" not in text and "GITHUB_TOKEN" not in text
    assert not _TOKEN.search(str(jobs["run"].get("env", "")))
    secrets = set(re.findall(r"secrets\.(\w+)", text))
    assert secrets == {"MLDB_SEED_SECRET", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY"}
    for name, job in jobs.items():
        # Keys of providers are where models are called, and nowhere else.
        assert name == "run" or "_API_KEY" not in str(job), name
    uploads = [step for step in jobs["run"]["steps"] if "upload-artifact" in step.get("uses", "")]
    assert all("/scratch/**" in step["with"]["path"] for step in uploads) and len(uploads) == 1


def test_no_token_is_there_while_anything_of_an_agent_can_live() -> None:
    """Neither before the agents' last process has ended, nor when nothing is known of that."""
    steps = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["runs"]["steps"]
    order = [step.get("id", "") for step in steps]
    with_token = [number for number, step in enumerate(steps) if _TOKEN.search(str(step))]
    assert with_token == [order.index("publish")] and order.index("run") < order.index("publish")
    # Without `if`: after a failed step, such as a runner that was killed, GitHub starts it not.
    assert "if" not in steps[order.index("publish")]
    assert "continue-on-error" not in steps[order.index("run")]
    texts = [path.read_text(encoding="utf-8") for path in [*WORKFLOWS, STRANGER]]
    for text in [*texts, *(text for _, text in documented_workflows())]:
        document = yaml.safe_load(text)
        for job in document["jobs"].values():
            if any(_RUNS_AGENTS.search(str(step)) for step in job.get("steps", [])):
                assert not _TOKEN.search(str(document.get("env"))), text
                assert not _TOKEN.search(str(job.get("env"))), text


def test_the_page_on_security_names_every_right_that_init_gives() -> None:
    page = (ROOT / "docs" / "github-security.md").read_text(encoding="utf-8")
    cells = [[it.strip() for it in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("| ")]
    told = {row[0]: row[1] for row in cells[1:]}
    given = {}
    machines = dict.fromkeys(("sweep", "provision", "release"), "machines")
    for path in sorted((ROOT / "caller" / "workflows").glob("*.yml")):
        jobs = yaml.safe_load(re.sub(r"\{\{\w+\}\}", "x", path.read_text(encoding="utf-8")))["jobs"]
        for name, job in jobs.items():
            workflow = path.stem.removeprefix("mldb-")
            row = f"{workflow}: {machines.get(name, name)}"
            given[row if row in told else workflow] = job["permissions"]
    assert {row: dict(re.findall(r"`([\w-]+): (\w+)`", said)) for row, said in told.items()} == given


def test_no_upload_of_records_holds_what_killed_cells_left() -> None:
    """Artifacts of a public repository are public, and scratch has hidden data of the cases."""
    found = 0
    texts = [path.read_text(encoding="utf-8") for path in [*WORKFLOWS, STRANGER, NIGHT]]
    for text in [*texts, *(text for _, text in documented_workflows())]:
        steps = [step for job in yaml.safe_load(text)["jobs"].values() for step in job.get("steps", [])]
        for path in (str(it["with"]["path"]) for it in steps if "/upload-artifact@" in it.get("uses", "")):
            if "outputs.records }}" in path:
                found += 1
                assert re.search(r"^!\$\{\{ steps\.\w+\.outputs\.records \}\}/\*\*/scratch/\*\*$", path, re.M), text
    assert found > 5


def test_no_job_that_signs_or_writes_installs_or_builds() -> None:
    """Every step of such a job can ask for its identity: what is built with must not be among them."""
    signing = []
    for path in WORKFLOWS:
        for name, job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items():
            rights = job.get("permissions", {})
            if "write" in rights.values():
                signing += [f"{path.stem}/{name}"] if "id-token" in rights else []
                scripts = " ".join(step.get("run", "") for step in job.get("steps", []))
                assert not re.search(r"\bpip3? |-m build|\bmake\b|\bnpm ", scripts), f"{path.name}: {name}"
    assert {"release/attest", "pages/deploy", "leaderboard/site"} == set(signing)


@pytest.mark.parametrize("name", ["plan", "provision", "run", "collect", "site", "release", "sweep", "refuse-rerun"])
def test_the_page_of_the_matrix_names_every_input_and_output(name: str) -> None:
    action = yaml.safe_load((ROOT / ".github" / "actions" / name / "action.yml").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "matrix.md").read_text(encoding="utf-8")
    assert f"`ml-dev-bench/action/.github/actions/{name}@v1`" in page
    section = page.partition(f"### {name}\n")[2].partition("\n### ")[0]
    for word in (*action["inputs"], *action.get("outputs", ())):
        assert f"`{word}`" in section or word in ("python", "python-environment", "extras"), (name, word)


def test_the_documentation_names_every_input_and_output() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "github-action.md").read_text(encoding="utf-8")
    for name in (*action["inputs"], *action["outputs"]):
        assert f"| `{name}` |" in page, name
    for name, facts in action["inputs"].items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        default = facts.get("default", "")
        if default and "${{" not in default:
            assert f"`{default}`" in row, row
