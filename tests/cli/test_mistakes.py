"""More than a hundred mistakes: each is one line with place, fault and remedy, and none makes a record."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bench.cli.main import main
from tests.helpers.terminal import on_terminal

PROGRAM = Path(sys.executable).with_name("ml-dev-bench")
NOWHERE = "http://127.0.0.1:9"


@dataclass(frozen=True)
class Mistake:
    """A command, and what its one line must contain."""

    command: str
    place: str
    fault: str
    remedy: str
    environment: Mapping[str, str] = field(default_factory=dict)
    status: int = 2


def of_agent(folder: str, fault: str, remedy: str) -> Mistake:
    """A fault of the agent in the folder `folder`, which a run must meet before its first cell."""
    return Mistake(
        f"run --agent ./{folder} --case hello_world --sandbox process", f"{folder}/agent.yaml", fault, remedy
    )


def of_case(case: str, place: str, fault: str, remedy: str) -> Mistake:
    return Mistake(f"run --agent nop --case {case} --sandbox process", place, fault, remedy)


def of_model(model: str, place: str, fault: str, remedy: str, **environment: str) -> Mistake:
    command = f"run --agent react --model {model} --case hello_world --sandbox process --check"
    return Mistake(command, place, fault, remedy, environment)


RUN = "run --agent nop --case hello_world --sandbox process"
PLAN = "plan agents=nop suites=smoke --no-seed-secret"
MISTAKES = [
    # agent.yaml
    of_agent("typo", "field `comand`: unknown field", "did you mean `command`?"),
    of_agent("typo_in_block", "field `environment.requirments`", "did you mean `requirements`?"),
    of_agent("text_for_list", "field `command`: 'python agent.py'", "write it as `[one, two]`"),
    of_agent("list_for_mapping", "field `models`", "write lines of `name: value`"),
    of_agent("bare_model", "'gpt-4o': is not a model", "write provider/name"),
    of_agent("spaces", "field `id`: 'My Agent'", "must be 1 to 64 of a-z"),
    of_agent("no_id", "field `id`", "is required; add it"),
    of_agent("latin", "not UTF-8 at byte 20, in line 2", "save it as UTF-8"),
    of_agent("open_bracket", "is not YAML: line 3", "fix the syntax"),
    of_agent("tab", "is not YAML: line 2", "fix the syntax"),
    of_agent("empty", "must be a mapping, but is empty", "write lines of `field: value`"),
    of_agent("list", "must be a mapping, but is a list", "write lines of `field: value`"),
    of_agent("missing", "no such file", "create it or correct the path"),
    of_agent("folder", "it is not a regular file", "name a file"),
    of_agent("old_python", "no Python 3.5", "`uv python install 3.5`"),
    of_agent("dup_key", "line 3 repeats the key `id`", "keep one of them"),
    of_agent("dotted", "field `id`: 'my.agent'", "must be 1 to 64 of a-z"),
    of_agent("number_id", "field `id`: 7: must be a text", "write it in quotes"),
    of_agent("yes_id", "field `id`: True: must be a text", "write it in quotes"),
    of_agent("no_command", "field `command`: must be a list", "write it as `[one, two]`"),
    of_agent("empty_command", "field `command`: is empty", "write at least one entry"),
    of_agent("number_argument", "field `command.1`: 3: must be a text", "write it in quotes"),
    of_agent("float_python", "field `environment.python`: 3.1: must be a text", "write it in quotes"),
    of_agent("list_environment", "field `environment`: must be a mapping", "write lines of `name: value`"),
    of_agent("utf16", "not UTF-8 at byte 0, in line 1", "save it as UTF-8"),
    of_agent("nul", 'control characters are not allowed in "<unicode string>"', "fix the syntax"),
    of_agent("tag", "line 1 has a tag (`!!python/object/apply:os.system`)", "write the value without it"),
    of_agent("alias", "line 1 has an anchor or an alias", "write the value out where it is used"),
    of_agent("two", "holds 2 documents", "keep one of them"),
    of_agent("foreign_shared", "field `shared`: 'nope' is not of the form", "move the folder into _shared/"),
    of_agent("loop", "Too many levels of symbolic links", "correct the path"),
    of_agent("no_requirements", "'req.txt' is not a file in the agent's folder", "add the file or correct its name"),
    # its command
    of_agent("no_bit", "'go.sh' may not be executed", "`chmod +x go.sh`"),
    of_agent("no_script", "'agent.py' does not exist", "add the file, or correct the command"),
    of_agent("no_program", "'nodejs20' is not on this machine", "install it"),
    of_agent("windows", "has the line ends of Windows", "`sed -i"),
    of_agent("no_shebang", "does not say what runs it", "#!/bin/sh"),
    of_agent("bad_shebang", "/usr/bin/pyhton3 is not a program here", "correct its first line"),
    of_agent("bad_env", "pyhton3 is not a program here", "correct its first line"),
    of_agent("empty_program", "field `command`: its first part is empty", "begin it with a program"),
    of_agent("misspelt_place", "nothing takes the place of {agnet} in '{agnet}/go.sh'", "did you mean {agent}/?"),
    of_agent("relative", "'agent.py' is looked for in the workspace", "write `{agent}/agent.py`"),
    of_agent("dot_slash", "'./run.sh' is looked for in the workspace", "write `{agent}/run.sh`, and add run.sh"),
    # names
    Mistake("run --agent reactt --case hello_world", "/agents", "no agent 'reactt'", "did you mean react?"),
    Mistake("run --agent plain --case hello_world", "/agents", "no agent 'plain'", "./plain does not hold"),
    Mistake("agents show reactt", "/agents", "no agent 'reactt'", "did you mean react?"),
    Mistake("run --agent nop --suite smok", "/cases/suites", "no suite 'smok'", "did you mean smoke?"),
    Mistake("suites show smok", "/cases/suites", "no suite 'smok'", "did you mean smoke?"),
    Mistake(f"{PLAN} suites=smok", "/cases/suites", "no suite 'smok'", "did you mean smoke?"),
    Mistake("suites show ../suites/smoke", "/cases/suites", "no suite '../suites/smoke'", "known: demo"),
    Mistake("run --experiment paper/react-gpt4o", "/suites", "no experiment 'paper/react-gpt4o'", "react-gpt-4o?"),
    Mistake("plan paper/react-gpt4o", "/suites", "no experiment 'paper/react-gpt4o'", "mean paper/react-gpt-4o?"),
    Mistake("compare made/done", "made/done", "does not hold an arm 'base'", "name two runs, or make two arms"),
    Mistake("compare made/done made/done --agent nope", "made/done", "a record of agent nope", "name one that"),
    Mistake("results show made/done --arm head", "--arm", "no record is of the arm 'head'", "drop --arm"),
    Mistake("results trace made/done", "made/done", "a cell with model calls", "`results explain` tells"),
    Mistake("results explain made/done helo", "made/done", "no finished cell has 'helo'", "from: nop/none/hello_world"),
    of_case("hello_world,parse_logs", "/cases", "no case 'hello_world,parse_logs'", "did you mean 'hello_world'?"),
    of_case("hello_world --profile full", "hello_world/case.yaml", "not have the profile 'full'", "--profile mini"),
    of_case("helo_world", "/cases", "no case 'helo_world'", "did you mean 'hello_world'?"),
    of_case("tag:visoin", "/cases", "no case matches 'tag:visoin'", "did you mean tag:vision?"),
    of_case("category:debuging", "/cases", "no case matches", "did you mean category:debugging?"),
    of_case("'debug*'", "/cases", "no case matches 'debug*'", "near it: "),
    Mistake("cases verify hello_wrld", "/cases", "no case 'hello_wrld'", "did you mean 'hello_world'?"),
    Mistake("human start helo_world", "/cases", "no case 'helo_world'", "did you mean 'hello_world'?"),
    Mistake("human start tag:vision", "/cases", "'tag:vision' means", "name one: "),
    Mistake("cases new debuging/mine", "cases new", "'debuging' is not a category", "did you mean debugging?"),
    Mistake("cases new mine", "cases new", "'mine' is not a name for a case", "use category/id"),
    Mistake("results show empty.git --branch mldb-reslts", "empty.git", "no branch 'mldb-reslts'", "run --results"),
    Mistake("results show code.git --branch mian", "code.git", "no branch 'mian'", "did you mean main?"),
    Mistake("trends code.git --branch mian", "code.git", "no branch 'mian'", "did you mean main?"),
    Mistake("results query 'SELECT 1' --results code.git --branch mian", "code.git", "no branch 'mian'", "main?"),
    Mistake("site build code.git --branch mian --out pages", "code.git", "no branch 'mian'", "did you mean main?"),
    # the command line
    Mistake("runn --agent nop", "ml-dev-bench", "no such command 'runn'", "did you mean run?"),
    Mistake("cases lst", "ml-dev-bench cases", "no such command 'lst'", "did you mean list?"),
    Mistake("run --agnet nop", "ml-dev-bench run", "no such option --agnet", "did you mean --agent?"),
    Mistake("run nop", "ml-dev-bench run", "unexpected extra argument (nop)", "put the name of its option before it"),
    Mistake("cases show", "ml-dev-bench cases show", "missing argument 'CASE'", "--help` explains"),
    Mistake("schema recrd", "ml-dev-bench schema", "'recrd' is not one of", "did you mean record?"),
    Mistake("run --agent nop --sandbox bubblewarp", "--sandbox", "'bubblewarp' is not", "did you mean bubblewrap?"),
    Mistake(f"{PLAN} --sandbox bubblewarp", "--sandbox", "'bubblewarp' is not one of", "did you mean bubblewrap?"),
    Mistake(f"{RUN} --trials 0", "--trials", "0 is not in the range", "--help` explains"),
    Mistake(f"{RUN} --jobs two", "--jobs", "'two' is not a valid integer", "--help` explains"),
    Mistake(f"{RUN} --trials 99999999999999999999", "--trials", "is not in the range", "--help` explains"),
    Mistake(f"{RUN} --max-run-cost nan", "--max-run-cost", "nan is not a finite number", "--help` explains"),
    Mistake(f"{RUN} --max-run-minutes inf", "--max-run-minutes", "inf is not a finite number", "--help` explains"),
    Mistake("compare made/done made/done --alpha nan", "--alpha", "nan is not a finite number", "--help` explains"),
    Mistake(f"{RUN} --base", "ml-dev-bench run", "option --base has no value", "write one after it"),
    Mistake("schema", "ml-dev-bench schema", "missing argument", "name one of agent, case"),
    Mistake(f"{RUN} --snapshots every=0", "--snapshots", "'every=0' is not a rule", "write every=5"),
    Mistake(f"{RUN} --ask nobody.yaml", "nobody.yaml", "no such file", "create it or correct the path"),
    Mistake("init . --pin abc", "--pin", "'abc' is not a commit", "give its 40 hexadecimal digits"),
    Mistake("run --resume made/done --agent nop", "--resume", "the run itself says what to run", "drop --agent"),
    Mistake(
        "run --resume made/done --sandbox bubblewrap", "--sandbox", "the run began in the process sandbox",
        "resume with --sandbox process",
    ),
    Mistake(f"{RUN} --name 'My Run'", "--name", "'My Run' is not 1 to 64 of a-z", "--help` explains"),
    Mistake(f"{RUN} --out ''", "--out", "the path is empty", "is a variable not set?"),
    Mistake("run --agent nop --until-decided", "--until-decided", "needs two arms", "name the other agent with --base"),
    Mistake(f"{RUN} --case hello_world", "run", "is asked for twice", "name each agent and case once"),
    # files and folders
    Mistake(f"{RUN} --out a_file", "a_file", "is not a folder", "name another folder"),
    Mistake(f"{RUN} --out a_file/runs", "a_file", "is not a folder", "name another folder"),
    Mistake(f"{RUN} --out /proc/runs", "/proc", "cannot be written to", "name another folder"),
    Mistake(f"{RUN} --results a_file", "a_file", "is not a git repository", "name another path with --results"),
    Mistake(f"{RUN} --results plain", "plain", "is not a git repository", "name one"),
    Mistake(f"{RUN} --results empty.git --branch 'a b'", "--branch", "`a b` is not a branch name", "mldb-results"),
    Mistake(f"{RUN} --cases a_file", "a_file", "is not a folder", "give --cases"),
    Mistake(f"{RUN} --cases plain", "plain", "no case 'hello_world'", "it does not hold a case"),
    Mistake(RUN, "a_file", "File exists", "name another path", {"ML_DEV_BENCH_CACHE": "a_file"}),
    Mistake(f"{PLAN} --out a_file/plan.json", "a_file", "File exists", "name another path"),
    Mistake(f"{PLAN} --out plain", "plain", "Is a directory", "name a file, not a folder"),
    Mistake("human start hello_world --out a_file", "a_file", "Not a directory", "name another path"),
    Mistake("results export a_file/x.csv --results code.git --branch main", "a_file", "File exists", "another path"),
    Mistake("results export x.xls --results empty.git", "x.xls", "does not tell the format", "--format csv"),
    Mistake("results show nowhere", "nowhere", "no such repository or run folder", "name the repository"),
    Mistake("results show a_file", "a_file", "is not a git repository", "name one"),
    Mistake("run --resume runs", "runs", "no run.json", "did you mean runs/night-2?"),
    Mistake("run --resume made/blocked", "made/blocked/cells", "File exists", "name another path"),
    Mistake(f"{RUN} --out made --name done", "made/done", "holds a run already", "go on with --resume"),
    Mistake("results explain made/broken", "made/broken/cells/", "Invalid JSON", "--resume puts it aside"),
    Mistake("summary made/broken", "made/broken/cells/", "Invalid JSON", "--resume puts it aside"),
    Mistake("human submit plain", "plain", "is not inside an attempt", "cd into the workspace"),
    Mistake("site serve plain", "plain", "does not hold a built site", "run `ml-dev-bench site build` first"),
    Mistake("run --resume a_file", "a_file", "cannot be read", "name the folder of a run"),
    Mistake("run --resume runs/night-1", "runs/night-1/run.json", "Invalid JSON", "start a new run"),
    Mistake("summary plain", "plain", "no run.json", "name the folder of a run"),
    Mistake("compare first second", "first", "is neither a run folder nor a file here", "correct its path"),
    Mistake("site build empty.git --out a_file", "a_file", "was not made by site build", "name a new or empty folder"),
    Mistake("cases patch hello_world mine --from nowhere", "nowhere", "is not a folder", "cases answer --out"),
    # plans
    Mistake("plan nope.yaml", "nope.yaml", "no such file", "create it or correct the path"),
    Mistake("plan nop", "nop", "no such file", "write key=value, such as agents=nop"),
    Mistake("plan twice.yaml", "twice.yaml", "line 2 repeats the key `agents`", "keep one of them"),
    Mistake("plan list/agent.yaml", "list/agent.yaml", "must be a mapping, but is a list", "write lines of"),
    Mistake("plan plain", "plain", "it is not a regular file", "name a file"),
    Mistake(f"{PLAN} =5", "plan", "'=5' is not an override", "write key=value, such as trials=5"),
    Mistake(f"{PLAN} trials=1e999", "experiment", "field `trials`: '1e999'", "must be a whole number"),
    Mistake(f"{PLAN} budget.usd=nan", "experiment", "field `budget.usd`: 'nan'", "must be a finite number"),
    Mistake(f"{PLAN} machines=gpu", "experiment", "field `machines.0`: 'gpu'", "write lines of `name: value`"),
    Mistake("run-shard plan.json cpu-009", "run-shard", "no shard 'cpu-009'", "did you mean cpu-001?"),
    Mistake(
        "run-shard plan.json cpu-001 --sandbox process", "--sandbox", "run in bubblewrap, not in process",
        "plan again with `plan --sandbox process`",
    ),
    Mistake("plan agents=nop trails=5", "experiment", "field `trails`: unknown field", "did you mean `trials`?"),
    Mistake("plan agents=nop trials=many", "experiment", "field `trials`: 'many'", "must be a whole number"),
    Mistake("plan agents=nop mode=ful", "experiment", "field `mode`: 'ful' must be one of", "did you mean 'full'?"),
    Mistake("plan agents=nop budget.usd=-1", "experiment", "field `budget.usd`: -1", "greater than or equal to 0"),
    Mistake("plan bare_model/agent.yaml", "agent.yaml", "field `id`: unknown field", "known: agents, base"),
    Mistake("run-shard nope.json cpu-001", "nope.json", "cannot be read", "make one with `plan --out`"),
    Mistake("run-shard a_file cpu-001", "a_file", "Invalid JSON", "make one with `plan --out`"),
    # models and addresses
    of_model("gpt-4o", "--model", "'gpt-4o' is not a model", "write provider/name"),
    of_model("openai/gpt-4o", "openai/gpt-4o", "needs OPENAI_API_KEY, which is not set", "set it"),
    of_model("mian=openai/gpt-4o", "--model", "does not have a role 'mian'", "its roles: main"),
    of_model("openai/", "--model", "'openai/' is not a model", "write provider/name"),
    of_model("replay/demoo", "react/cassettes", "no cassettes 'demoo'", "did you mean replay/demo?"),
    of_model(
        "openai/gpt-4o", "OPENAI_BASE_URL", "127.0.0.1:9) is not an http(s) address", "write it as http://",
        OPENAI_API_KEY="x", OPENAI_BASE_URL="me:secret@127.0.0.1:9",
    ),
    of_model(
        "openai/gpt-4o", f"{NOWHERE}/v1", "does not answer", "correct the address",
        OPENAI_API_KEY="x", OPENAI_BASE_URL=f"{NOWHERE}/v1",
    ),
    of_model("openai/gpt-4o", "nope.json", "no such file", "create it", OPENAI_API_KEY="x", MLDB_PRICES="nope.json"),
    Mistake(f"results show {NOWHERE}/x.git", f"{NOWHERE}/x.git", "unable to access", "check the address"),
]  # fmt: skip


_AGENTS = {
    "typo": "id: typo\ncomand: [sh]\n",
    "typo_in_block": "id: x\ncommand: [sh]\nenvironment: {requirments: r.txt}\n",
    "text_for_list": "id: x\ncommand: python agent.py\n",
    "list_for_mapping": "id: x\ncommand: [sh]\nmodels: [openai/gpt-4o]\n",
    "bare_model": "id: x\ncommand: [sh]\nmodels: {main: gpt-4o}\n",
    "spaces": "id: My Agent\ncommand: [sh]\n",
    "no_id": "command: [sh]\n",
    "latin": "id: x\ncommand: [sh, \xe9]\n",
    "open_bracket": "id: x\ncommand: [sh\nfoo: bar\n",
    "tab": "id: x\n\tcommand: [sh]\n",
    "empty": "",
    "list": "- id: x\n",
    "old_python": 'id: x\ncommand: [python]\nenvironment: {python: "3.5"}\n',
    "dup_key": "id: x\ncommand: [sh]\nid: y\n",
    "dotted": "id: my.agent\ncommand: [sh]\n",
    "number_id": "id: 7\ncommand: [sh]\n",
    "yes_id": "id: yes\ncommand: [sh]\n",
    "no_command": "id: x\ncommand:\n",
    "empty_command": "id: x\ncommand: []\n",
    "number_argument": "id: x\ncommand: [sh, 3]\n",
    "float_python": "id: x\ncommand: [python]\nenvironment: {python: 3.10}\n",
    "list_environment": "id: x\ncommand: [sh]\nenvironment: [torch]\n",
    "utf16": "\xff\xfei\0d\0",
    "nul": "id: x\0\ncommand: [sh]\n",
    "tag": "!!python/object/apply:os.system [true]\n",
    "alias": "id: &it x\ncommand: [*it]\n",
    "two": "id: x\ncommand: [sh]\n---\nid: y\n",
    "foreign_shared": "id: x\ncommand: [sh]\nshared: [nope]\n",
    "empty_program": 'id: x\ncommand: [""]\n',
    "misspelt_place": 'id: x\ncommand: ["{agnet}/go.sh"]\n',
    "no_requirements": "id: x\ncommand: [python]\nenvironment: {requirements: req.txt}\n",
    "no_script": 'id: x\ncommand: [python, "{agent}/agent.py"]\n',
    "no_program": "id: x\ncommand: [nodejs20]\n",
    "relative": "id: x\ncommand: [python, agent.py]\n",
    "dot_slash": "id: x\ncommand: [./run.sh]\n",
}
_SCRIPTS = {
    "no_bit": "#!/bin/sh\n",
    "windows": "#!/bin/sh\r\necho\r\n",
    "no_shebang": "echo hello\n",
    "bad_shebang": "#!/usr/bin/pyhton3\n",
    "bad_env": "#!/usr/bin/env pyhton3\n",
    "works": "#!/bin/sh\necho 'print(\"Hello, World!\")' > hello.py\n",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which all mistakes can be made."""
    root = tmp_path_factory.mktemp("world")
    agents = {**_AGENTS, **dict.fromkeys(_SCRIPTS, 'id: x\ncommand: ["{agent}/go.sh"]\n')}
    for name, text in agents.items():
        (root / name).mkdir()
        (root / name / "agent.yaml").write_bytes(text.encode("latin-1"))
    for name, text in _SCRIPTS.items():
        (root / name / "go.sh").write_text(text)
        (root / name / "go.sh").chmod(0o644 if name == "no_bit" else 0o755)
    (root / "relative" / "agent.py").touch()
    (root / "loop").symlink_to("loop")
    (root / "twice.yaml").write_text("agents: [nop]\nagents: [react]\n")
    make_runs(root)
    (root / "folder" / "agent.yaml").mkdir(parents=True)
    for name in ("missing", "plain", "runs/night-2"):
        (root / name).mkdir(parents=True)
    (root / "plain" / "notes.txt").write_text("not a repository")
    (root / "a_file").write_text("{broken")
    for name in ("night-1", "night-2"):
        (root / "runs" / name).mkdir(exist_ok=True)
        (root / "runs" / name / "run.json").write_text("{broken")
    for name in ("empty.git", "code.git"):
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", name], cwd=root, check=True)
    tree = subprocess.run(["git", "mktree"], cwd=root / "code.git", input=b"", capture_output=True, check=True)
    commit = [
        "git",
        "-c",
        "user.name=x",
        "-c",
        "user.email=x@x",
        "commit-tree",
        tree.stdout.decode().strip(),
        "-m",
        "x",
    ]
    made = subprocess.run(commit, cwd=root / "code.git", capture_output=True, check=True).stdout.decode().strip()
    subprocess.run(["git", "update-ref", "refs/heads/main", made], cwd=root / "code.git", check=True)
    return root


def make_runs(root: Path) -> None:
    """A plan, a run, the same with a damaged record, and one in whose way a file is."""
    for command in (f"{RUN} --out made --name done", f"{PLAN} --sandbox bubblewrap --out plan.json"):
        subprocess.run([PROGRAM, *command.split()], cwd=root, check=True, capture_output=True, timeout=300)
    for name in ("broken", "blocked"):
        shutil.copytree(root / "made/done", root / "made" / name)
    (record,) = (root / "made/broken/cells").glob("*.json")
    record.write_bytes(record.read_bytes()[:100])
    shutil.rmtree(root / "made/blocked/cells")
    (root / "made/blocked/cells").touch()


@pytest.fixture
def at_home(world: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The world as the current folder, without anything of the caller's environment that decides a message."""
    for name in list(os.environ):
        if name.startswith(("GITHUB_", "MLDB_", "OPENAI_", "ANTHROPIC_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ML_DEV_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(world)
    before = signal.getsignal(signal.SIGTERM)
    yield world
    signal.signal(signal.SIGTERM, before)


def one_line(said: str) -> str:
    """The line of the error; what stands before it may be a note, progress, or the sandbox's name."""
    *before, last = said.strip().splitlines()
    assert last.startswith("error: "), said
    assert not any(line.startswith("error") for line in before), said
    return last


def test_the_table_is_as_long_as_it_must_be() -> None:
    assert len({mistake.command + str(mistake.environment) for mistake in MISTAKES}) == len(MISTAKES) >= 130


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda it: " ".join([*it.environment, it.command]))
def test_a_mistake_is_one_line_with_place_fault_and_remedy(
    mistake: Mistake, at_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    records = sorted(at_home.rglob("cells/*.json"))
    for name, value in mistake.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["ml-dev-bench", *shlex.split(mistake.command)])
    with pytest.raises(SystemExit) as left:
        main()
    said = capsys.readouterr()
    assert left.value.code == mistake.status, said.err
    assert "Traceback" not in said.out + said.err and "secret" not in said.err
    line = one_line(said.err)
    places = [line.find(part) for part in (mistake.place, mistake.fault, mistake.remedy)]
    assert -1 not in places, line
    # The remedy comes last, and is whole.
    assert places[2] > places[1], line
    assert sorted(at_home.rglob("cells/*.json")) == records


@pytest.mark.parametrize(
    ("shell", "status", "said"),
    [
        ("{mldb} cases list > /dev/full", 2, "error: output: No space left on device (make room"),
        ("{mldb} cases list >&-", 0, ""),
        ("{mldb} suites list <&-", 0, ""),
        ('env -i PATH="$PATH" {mldb} suites list >/dev/null', 0, ""),
        ("LC_ALL=C {mldb} suites show sm\u00f6ke", 2, "no suite 'sm"),
        ("{mldb} cases list | head -1 >/dev/null; exit ${{PIPESTATUS[0]}}", 0, ""),
        ("PYTHONIOENCODING=ascii {mldb} cases show hello_world >/dev/null", 0, ""),
        (
            "mkdir gone; cd gone; rmdir ../gone; {mldb} suites show $'smok\\xff'",
            2,
            "no suite 'smok\\udcff' (did you mean",
        ),
        (
            "mkdir gone; cd gone; rmdir ../gone; {mldb} run --agent nop --case hello_world --sandbox process",
            2,
            "error: the current folder: was removed (change to a folder that exists)",
        ),
        (
            "{mldb} run --agent nop --case hello_world --sandbox process --out $'r\\xff'",
            2,
            "its name is not UTF-8 (name another folder for the run)",
        ),
    ],
)
def test_no_surrounding_of_a_command_makes_a_traceback(shell: str, status: int, said: str, tmp_path: Path) -> None:
    command = shell.format(mldb=shlex.quote(str(PROGRAM)))
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, timeout=120, check=False)
    told = done.stderr.decode()
    assert done.returncode == status, told
    assert said in told and "Traceback" not in told and "Exception ignored" not in told
    assert list(tmp_path.rglob("cells/*.json")) == []


def test_a_script_needs_no_environment(
    at_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"run --agent ./works --case hello_world --sandbox process --require-success --out {tmp_path / 'runs'}"
    monkeypatch.setattr(sys, "argv", ["ml-dev-bench", *command.split()])
    main()
    assert "1 of 1 graded cells succeeded" in capsys.readouterr().out


_MAIN = """
import sys
from bench.cli.main import main
sys.argv = ["ml-dev-bench", *{words!r}]
try:
    main()
except SystemExit as left:
    print(f"status {{left.code}}")
"""


def test_a_narrow_terminal_breaks_a_mistake_between_words() -> None:
    words = ["suites", "show", "../suites/smoke"]
    lines = on_terminal(_MAIN.format(words=words), width=40).split("\r\n")
    # The place is one word, and longer than the terminal.
    assert max(len(line) for line in lines if "/cases/" not in line) <= 40
    assert " ".join(line.strip() for line in lines).rstrip().endswith("mlagentbench, smoke) status 2")


@pytest.mark.parametrize(
    ("environment", "colours"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colours_are_for_terminals_that_want_them(environment: dict[str, Any], colours: bool) -> None:
    said = on_terminal(_MAIN.format(words=["doctor"]), **environment)
    assert "bubblewrap" in said
    assert ("\x1b[32m" in said) == colours, said
