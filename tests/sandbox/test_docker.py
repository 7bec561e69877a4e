"""The docker back end: how its containers are made, what is seen of them, and that none is left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import InfraError, UserError
from bench.base.install import find_data_folders
from bench.cell.run import run_cell
from bench.formats.record import Record
from bench.sandbox.choose import choose_sandbox, handed_on, open_sandbox
from bench.sandbox.docker.backend import _UNPRIVILEGED, DockerSandbox
from bench.sandbox.docker.client import find_engine
from bench.sandbox.docker.container import (
    CELL_LABEL,
    IMAGE_PYTHON,
    OWNER_LABEL,
    RUN_LABEL,
    leftovers,
    sweep,
)
from bench.sandbox.docker.engine import Engine, EngineError
from bench.sandbox.docker.images import case_tag, shared_tag
from bench.sandbox.fork import CannotFork
from bench.sandbox.job import CellEnvironment, Ended, Job
from bench.sandbox.running import run_job
from bench.sandbox.warm import Preparation, start_warm
from tests.helpers.cells import (
    ROOT,
    make_agent,
    make_case,
    make_cell,
    make_context,
    make_job,
    make_limits,
    new_token,
    not_here,
    processes_with,
    python,
    run_code,
    wait_until_gone,
    write_files,
)
from tests.helpers.docker import OwnEngine, import_small_image, own_engine
from tests.helpers.external_agents import agent_called, case_called
from tests.helpers.sampling import at_night
from tests.helpers.wheels import make_wheel
from tests.helpers.workers import assert_counted, log_of, solve

pytestmark = pytest.mark.docker


@pytest.fixture
def engine(docker: DockerSandbox) -> Engine:
    del docker
    return find_engine()


def containers(engine: Engine, label: str) -> list[dict[str, Any]]:
    """Containers with this label, running or not."""
    found: list[dict[str, Any]] = engine.call(
        "GET", "/containers/json", query={"all": "1", "filters": {"label": [label]}}
    )
    return found


def wait_for(what: Callable[[], Any], seconds: float = 30) -> Any:
    """The first true value of `what`."""
    until = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.05)
    return found


class Background:
    """A job that runs in a thread, found in the engine by a label of its own."""

    def __init__(self, engine: Engine, sandbox: DockerSandbox, job: Job) -> None:
        self.engine = engine
        self.label = f"{RUN_LABEL}={new_token()}"
        self._job = replace(job, cell_environment=replace(job.cell_environment, run=self.label.partition("=")[2]))
        self._sandbox = sandbox
        self.ended: Ended | None = None
        self.fault: InfraError | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.ended = run_job(self._sandbox, self._job)
        except InfraError as error:
            self.fault = error

    def __enter__(self) -> Background:
        self._thread.start()
        wait_for(lambda: [it for it in self.containers() if it["State"] == "running"])
        return self

    def __exit__(self, *ended: object) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()

    def containers(self) -> list[dict[str, Any]]:
        return containers(self.engine, self.label)

    def name(self) -> str:
        return str(self.containers()[0]["Names"][0]).lstrip("/")

    def inspect(self) -> dict[str, Any]:
        found: dict[str, Any] = self.engine.call("GET", f"/containers/{self.name()}/json")
        return found


def attendants() -> list[int]:
    """The attendants that this process has started."""
    return [pid for pid in processes_with("docker/attendant.py") if _parent(pid) == os.getpid()]


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


# --- how a container is made -----------------------------------------------------------------------------------------


def test_a_container_is_made_as_closed_as_the_engine_can(docker: DockerSandbox, engine: Engine, tmp_path: Path) -> None:
    setting = CellEnvironment(cell="agent/model/case/mini/1")
    job = make_job(tmp_path, ["sleep", "2"], limits=make_limits(memory_mb=300, processes=20), cell_environment=setting)
    with Background(engine, docker, job) as running:
        found = running.inspect()
    host, config = found["HostConfig"], found["Config"]
    assert found["Image"] == docker.image
    assert config["User"].split(":")[0] not in ("", "0")
    assert (host["NetworkMode"], host["ReadonlyRootfs"], host["Privileged"]) == ("none", True, False)
    assert (host["CapDrop"], host["CapAdd"]) == (["ALL"], None)
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Memory"] == host["MemorySwap"] == (300 + 300 // 32 + 64) << 20
    assert (host["PidsLimit"], host["NanoCpus"]) == (144, 10**9)
    assert host["LogConfig"]["Type"] == "none"
    assert (host["IpcMode"], host["PidMode"], host["UTSMode"]) == ("private", "", "")
    assert (config["Labels"][CELL_LABEL], config["Labels"][OWNER_LABEL]) == (setting.cell, found["Name"].lstrip("/"))
    writable = [mount["Destination"] for mount in found["Mounts"] if mount["RW"]]
    assert writable == ["/workspace"]
    assert running.ended is not None and running.ended.reason == "exit"


def test_the_kernel_agrees(docker: DockerSandbox, tmp_path: Path) -> None:
    ended = run_code(docker, tmp_path, "print(open('/proc/self/status').read())")
    facts = dict(line.split(":\t", 1) for line in ended.stdout.decode().splitlines() if ":\t" in line)
    assert [int(facts[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")] == [0] * 5
    assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2")


def test_mounts_in_memory_hold_no_devices_and_grant_no_rights(docker: DockerSandbox, tmp_path: Path) -> None:
    code = """
found = {line.split()[1]: line.split()[3].split(",") for line in open("/proc/mounts")}
print(all({"nosuid", "nodev", "rw"} <= set(found[place]) for place in ("/tmp", "/home/agent", "/dev/shm")))
print("ro" in found["/"])
"""
    assert run_code(docker, tmp_path, code).stdout == b"True\nTrue\n"


def test_nobody_else_can_read_what_a_job_is_told(docker: DockerSandbox, engine: Engine, tmp_path: Path) -> None:
    secret = new_token()
    job = make_job(tmp_path, ["sleep", "2"], env={"OPENAI_API_KEY": secret})
    with Background(engine, docker, job) as running:
        assert secret not in json.dumps(running.inspect())
        assert processes_with(secret) == []
    ended = run_code(docker, tmp_path, "import os; print(os.environ['KEY'])", env={"KEY": secret})
    assert ended.stdout.decode().strip() == secret


@pytest.mark.skipif(os.getuid() != 0, reason="only a runner that is root lends its files to another user")
def test_files_of_the_job_belong_to_the_runner_afterwards(docker: DockerSandbox, tmp_path: Path) -> None:
    write_files(tmp_path, {"given.txt": "x", "folder/given.txt": "x"})
    code = """
import os
os.makedirs("locked/" + "/".join(["deep"] * 30))
os.symlink("/etc/passwd", "link")
open("given.txt", "a").write("y")
os.chmod("locked", 0)
"""
    ended = run_code(docker, tmp_path, code)
    assert ended.code == 0, ended.stderr
    owners = {os.lstat(path).st_uid for path in [tmp_path, *tmp_path.rglob("*")]}
    assert owners == {0}
    assert os.stat("/etc/passwd").st_uid == 0
    assert (tmp_path / "given.txt").read_text() == "xy"


# --- limits ----------------------------------------------------------------------------------------------------------


def test_a_fork_in_a_container_knows_the_containers_beside_it(docker: DockerSandbox, tmp_path: Path) -> None:
    """What other cells do there is not other work on the machine."""
    (tmp_path / "arena/one").mkdir(parents=True)
    limits = make_limits()
    try:
        preparation = Preparation((), tmp_path / "arena", limits)
        with start_warm(docker, preparation) as warm, warm.fork(tmp_path / "arena/one", limits) as running:
            assert running.control.groups_beside() or not running.control.counts_cpu()
    except CannotFork:
        not_here("namespaces in containers")


def test_memory_that_belongs_to_no_process_is_limited(docker: DockerSandbox, tmp_path: Path) -> None:
    code = """
for n in range(60):
    open(f"/dev/shm/{n}", "wb").write(b"x" * (10 << 20))
"""
    ended = run_code(docker, tmp_path, code, limits=make_limits(memory_mb=200, disk_mb=1000))
    assert ended.reason == "memory_limit", (ended.code, ended.stderr)


def test_tasks_are_capped_by_the_kernel_where_nobody_looks(docker: DockerSandbox, tmp_path: Path) -> None:
    code = """
import threading
wait = threading.Event()
try:
    for _ in range(400):
        threading.Thread(target=wait.wait, daemon=True).start()
except RuntimeError:
    print("refused")
"""
    ended = run_code(docker, tmp_path, code, limits=make_limits(processes=20))
    assert ended.stdout == b"refused\n"
    assert ended.reason == "process_limit"


# --- ends ------------------------------------------------------------------------------------------------------------


def test_no_container_is_left(docker: DockerSandbox, engine: Engine, tmp_path: Path) -> None:
    setting = CellEnvironment(run=new_token())
    for code in ("pass", "raise SystemExit(3)", "import time; time.sleep(30)"):
        run_code(docker, tmp_path, code, cell_environment=setting, limits=make_limits(wall_s=2))
    assert containers(engine, f"{RUN_LABEL}={setting.run}") == []


def test_the_job_cannot_end_what_watches_it(docker: DockerSandbox, tmp_path: Path) -> None:
    code = """
import os, signal
for number in range(1, 32):
    try:
        os.kill(1, number)
    except OSError:
        pass
try:
    os.listdir("/proc/1/fd")
except PermissionError:
    print("hidden")
"""
    ended = run_code(docker, tmp_path, code)
    assert (ended.reason, ended.code, ended.stdout) == ("exit", 0, b"hidden\n")


def test_a_container_that_is_killed_from_outside_is_no_fault_of_the_job(
    docker: DockerSandbox, engine: Engine, tmp_path: Path
) -> None:
    with Background(engine, docker, make_job(tmp_path, ["sleep", "20"])) as running:
        wait_for(lambda: processes_with("sleep\0" + "20"))
        engine.call("POST", f"/containers/{running.name()}/kill")
    assert running.fault is not None and running.fault.cause == "sandbox_error"
    assert running.containers() == []


def test_a_killed_attendant_takes_its_container_with_it(docker: DockerSandbox, engine: Engine, tmp_path: Path) -> None:
    token = new_token()
    job = make_job(tmp_path, ["python", "-c", "import time; time.sleep(30)", token])
    with Background(engine, docker, job) as running:
        wait_for(lambda: processes_with(token))
        for pid in attendants():
            os.kill(pid, signal.SIGKILL)
    assert running.fault is not None and running.fault.cause == "sandbox_error"
    assert wait_until_gone(token) == []
    assert running.containers() == []


_RUNNER = """
import sys
from pathlib import Path
from bench.sandbox.docker.backend import DockerSandbox
from bench.sandbox.job import CellEnvironment
from tests.helpers.cells import run_code
code = "open('up', 'w'); import time; time.sleep(40)"
run_code(DockerSandbox(), Path(sys.argv[1]), code, sys.argv[2], cell_environment=CellEnvironment(run=sys.argv[2]))
"""


@pytest.fixture
def killable(docker: DockerSandbox, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A runner in a process of its own whose job is up, and the job's token."""
    del docker
    token = new_token()
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(python("-c", _RUNNER, str(tmp_path), token), cwd=ROOT, env=env) as runner:
        wait_for((tmp_path / "up").exists)
        yield runner, token
        runner.kill()


def test_the_container_of_a_killed_runner_is_removed_at_once(
    engine: Engine, killable: tuple[subprocess.Popen[bytes], str]
) -> None:
    runner, token = killable
    runner.send_signal(signal.SIGKILL)
    assert wait_until_gone(token) == []
    wait_for(lambda: not containers(engine, f"{RUN_LABEL}={token}"))


def test_what_a_runner_and_its_attendant_leave_is_removed_by_the_next(
    engine: Engine, killable: tuple[subprocess.Popen[bytes], str]
) -> None:
    runner, token = killable
    mine = [pid for pid in processes_with("docker/attendant.py") if _parent(pid) == runner.pid]
    assert len(mine) == 1
    # In this order, or the attendant would clean up.
    os.kill(mine[0], signal.SIGSTOP)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    os.kill(mine[0], signal.SIGKILL)
    assert wait_until_gone(token) == []
    left = containers(engine, f"{RUN_LABEL}={token}")
    assert len(left) == 1
    name = left[0]["Names"][0].lstrip("/")
    assert name in leftovers(engine)
    assert name in sweep(engine)
    assert containers(engine, f"{RUN_LABEL}={token}") == []


def test_containers_of_living_runners_are_not_swept(docker: DockerSandbox, engine: Engine, tmp_path: Path) -> None:
    with Background(engine, docker, make_job(tmp_path, ["sleep", "2"])) as running:
        assert running.name() not in sweep(engine)
        assert len(running.containers()) == 1
    assert running.ended is not None and running.ended.code == 0


# --- interpreters of agents ------------------------------------------------------------------------------------------


def test_the_cases_interpreter_is_the_images_own(docker: DockerSandbox, tmp_path: Path) -> None:
    code = "import sys, numpy, pandas, sklearn, safetensors, torch, wandb; print(sys.executable, sys.prefix)"
    ended = run_code(docker, tmp_path, code, limits=make_limits(memory_mb=3000, wall_s=60))
    assert ended.code == 0, ended.stderr
    assert ended.stdout.decode().split() == [IMAGE_PYTHON, str(Path(IMAGE_PYTHON).parents[1])]
    assert docker.interpreter(Path(sys.executable)) == IMAGE_PYTHON


def test_an_agents_own_environment_is_found_at_its_place(docker: DockerSandbox, tmp_path: Path) -> None:
    venv = tmp_path / "environment"
    subprocess.run(python("-m", "venv", "--without-pip", str(venv)), check=True)
    write_files(next(venv.glob("lib/*/site-packages")), {"mine.py": "WORD = 'of the environment'"})
    (tmp_path / "work").mkdir()
    job = make_job(
        tmp_path / "work",
        [str(venv / "bin" / "python"), "-c", "import mine, sys; print(mine.WORD, sys.prefix)"],
        interpreters=[venv / "bin" / "python"],
    )
    ended = run_job(docker, job)
    assert (ended.code, ended.stdout.decode()) == (0, f"of the environment {venv}\n"), ended.stderr


def test_an_interpreter_that_does_not_start_in_the_image_is_our_fault(docker: DockerSandbox, tmp_path: Path) -> None:
    broken = write_files(tmp_path, {"environment/bin/python": "#!/no/such/program\n"}) / "environment/bin/python"
    broken.chmod(0o755)
    (tmp_path / "work").mkdir()
    with pytest.raises(InfraError, match="does not start in the image"):
        run_job(docker, make_job(tmp_path / "work", ["true"], interpreters=[broken]))


def test_only_the_base_of_an_environment_is_asked_whether_it_starts(docker: DockerSandbox, tmp_path: Path) -> None:
    """What the build has put into the environment is the agent's: it runs as the agent, or not at all."""
    venv = tmp_path / "environment"
    subprocess.run(python("-m", "venv", "--without-pip", str(venv)), check=True)
    evil = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}"
    write_files(venv / "evil", {f"{evil}/encodings/__init__.py": "import posix\nposix._exit(1)\n", f"{evil}/os.py": ""})
    write_files(venv, {"pyvenv.cfg": f"home = {venv}/evil/bin\n", "evil/bin/x": "", f"evil/{evil}/lib-dynload/x": ""})
    (tmp_path / "work").mkdir()
    ended = run_job(docker, make_job(tmp_path / "work", ["true"], interpreters=[venv / "bin" / "python"]))
    assert (ended.reason, ended.code) == ("exit", 0), ended


def test_an_interpreter_is_asked_as_the_job_is_run(docker: DockerSandbox, tmp_path: Path) -> None:
    """Under the job's filter and limits; none of its processes is left when the job starts."""
    facts = 'import os; open("/workspace/asked", "w").write(open("/proc/self/status").read())'
    daemon = "if os.fork() == 0:\n    os.setsid()\n    os.closerange(0, 9)\n    os.execvp('sleep', ['sleep', '300'])\n"
    script = f"#!{IMAGE_PYTHON}\n{facts}\n{daemon}"
    asked = write_files(tmp_path, {"environment/bin/python": script}) / "environment/bin/python"
    asked.chmod(0o755)
    (tmp_path / "work").mkdir()
    code = "import glob; print([it for it in glob.glob('/proc/[0-9]*/cmdline') if open(it, 'rb').read(5) == b'sleep'])"
    job = make_job(tmp_path / "work", [IMAGE_PYTHON, "-c", code], interpreters=[asked])
    ended = run_job(docker, job)
    assert (ended.code, ended.stdout) == (0, b"[]\n"), ended
    assert "Seccomp_filters:\t2" in (tmp_path / "work" / "asked").read_text()


@pytest.mark.slow
@pytest.mark.nightly
def test_an_agent_with_packages_of_its_own_works_in_a_container(
    docker: DockerSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = make_context(tmp_path, docker)
    context = replace(context, folders=replace(context.folders, cache=find_data_folders().cache))
    cell = make_cell(agent_called("mini_swe_agent"), case_called("hello_world"))
    record, upstream = solve(cell, context, monkeypatch)
    assert record.success, (record.error, log_of(cell, context))
    assert_counted(record, upstream)


# --- images ----------------------------------------------------------------------------------------------------------


def test_the_judge_opens_the_sandbox_that_was_chosen(docker: DockerSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in handed_on("docker").items():
        monkeypatch.setenv(name, value)
    opened = open_sandbox("docker")
    assert (opened.name, opened.image) == ("docker", docker.image)
    assert docker.image.startswith("sha256:")


def test_a_record_names_the_image(docker: DockerSandbox, tmp_path: Path) -> None:
    script = "open('answer.py', 'w').write('def double(x): return 2 * x')"
    context = make_context(tmp_path, docker)
    context = replace(context, provenance=context.provenance.model_copy(update={"image": docker.image}))
    record = run_cell(make_cell(make_agent(tmp_path, script), make_case(tmp_path)), context)
    assert (record.outcome, record.success) == ("graded", True), record.error
    assert Record.model_validate_json(record.to_line()).provenance.image == docker.image


def test_an_image_that_is_not_there_is_a_mistake_with_a_remedy(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLDB_IMAGE", "no/such-image:1")
    with pytest.raises(UserError, match=r"no/such-image:1.*build or pull"):
        DockerSandbox(engine)
    with pytest.raises(UserError, match="no/such-image:1"):
        choose_sandbox("docker")
    assert choose_sandbox("auto").name != "docker"


def test_an_engine_that_does_not_answer_is_a_mistake_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(UserError, match="start the engine"):
        choose_sandbox("docker")
    monkeypatch.setenv("DOCKER_HOST", "tcp://198.51.100.7:2375")
    with pytest.raises(UserError, match="name a Unix socket"):
        choose_sandbox("docker")


def test_another_definition_is_another_name(tmp_path: Path) -> None:
    definition = write_files(tmp_path, {"one/environment/requirements.txt": "a\n"}) / "one" / "environment"
    first = case_tag("sha256:0", definition)
    assert first.startswith("ml-dev-bench/case-one:")
    assert case_tag("sha256:1", definition) != first
    (definition / "requirements.txt").write_text("b\n")
    assert case_tag("sha256:0", definition) != first
    assert shared_tag().startswith("ml-dev-bench/environment:")


_USES_TINYTHING = """
from bench.judge import check


@check(required=True)
def imports_what_the_case_adds(ws):
    \"\"\"The module that the case's own image adds is there.\"\"\"
    assert ws.run(["python", "-c", "import tinything, numpy; print(tinything.WORD)"]).ok().stdout.strip()
"""


@pytest.mark.slow
def test_a_case_adds_packages_to_the_image(docker: DockerSandbox, engine: Engine, tmp_path: Path) -> None:
    case = make_case(tmp_path / "cases", {"environment/requirements.txt": "tinything\n", "check.py": _USES_TINYTHING})
    cell = make_cell(make_agent(tmp_path, "import tinything"), case)
    context = make_context(tmp_path, docker)
    record = run_cell(cell, context)
    assert (record.outcome, record.cause) == ("skipped", "needs_missing")
    assert f"image build --case {case.id}" in record.error
    make_wheel(tmp_path)
    env = {**os.environ, "PIP_FIND_LINKS": str(tmp_path), "PIP_NO_INDEX": "1"}
    command = python("-m", "bench", "image", "build", "--case", case.id, "--cases", str(tmp_path / "cases"))
    made = subprocess.run([*command, "--network", "none"], env=env, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    name = made.stdout.strip()
    try:
        assert name == case_tag(docker.image, case.part("environment"))
        record = run_cell(cell, context)
        assert (record.outcome, record.success) == ("graded", True), record.error
    finally:
        engine.call("DELETE", f"/images/{name}", query={"force": "1"})


# --- an engine that goes away ----------------------------------------------------------------------------------------


_SLOW = """
import time
time.sleep({seconds})
open("answer.py", "w").write("def double(x): return 2 * x")
"""


@pytest.fixture
def second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnEngine]:
    """An engine that the test may stop, with a small image; sandboxes that are made now use it."""
    with own_engine(tmp_path) as engine:
        image = import_small_image(engine, tmp_path)
        monkeypatch.setenv("MLDB_IMAGE", image)
        for name, value in engine.variables.items():
            monkeypatch.setenv(name, value)
        yield engine


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, at_night(signal.SIGTERM)], ids=["killed", "stopped"])
def test_a_cell_outlives_a_restart_of_the_engine(second: OwnEngine, tmp_path: Path, how: signal.Signals) -> None:
    token = new_token()
    agent = make_agent(tmp_path, _SLOW.format(seconds=4), command=["python", "{agent}/main.py", token])
    case = make_case(
        tmp_path, {"hidden/driver.py": "def doubled(x):\n    import answer\n    return answer.double(x)\n"}
    )
    cell, context = make_cell(agent, case), make_context(tmp_path, DockerSandbox())
    records: list[Record] = []
    thread = threading.Thread(target=lambda: records.append(run_cell(cell, context)))
    thread.start()
    wait_for(lambda: processes_with(token))
    second.stop(how)
    assert wait_until_gone(token) == []
    second.start()
    thread.join(120)
    assert len(records) == 1
    record = records[0]
    assert [it.cause for it in record.tries] == ["sandbox_error"]
    assert (record.outcome, record.success) == ("graded", True) or record.outcome == "infra", record.error
    wait_for(lambda: not second.containers())
    assert wait_until_gone(token) == []


@pytest.mark.slow
def test_an_engine_that_stays_away_is_an_infrastructure_failure(second: OwnEngine, tmp_path: Path) -> None:
    token = new_token()
    agent = make_agent(tmp_path, _SLOW.format(seconds=20), command=["python", "{agent}/main.py", token])
    cell, context = make_cell(agent, make_case(tmp_path)), make_context(tmp_path, DockerSandbox())
    records: list[Record] = []
    thread = threading.Thread(target=lambda: records.append(run_cell(cell, context)))
    thread.start()
    wait_for(lambda: processes_with(token))
    second.stop(signal.SIGKILL)
    thread.join(60)
    assert [(record.outcome, record.cause) for record in records] == [("infra", "sandbox_error")]
    assert wait_until_gone(token) == []
    second.start()
    # Whoever attended the container waits for the engine, to remove it.
    wait_for(lambda: not second.containers())


def test_requests_that_the_engine_refuses_say_why(engine: Engine) -> None:
    with pytest.raises(EngineError, match=r"(?i)no such container") as caught:
        engine.call("GET", "/containers/no-such-container/json")
    assert caught.value.status == 404
    engine.remove("no-such-container")


def test_ci_has_an_engine() -> None:
    """So that nothing of this is left out unseen."""
    try:
        image = DockerSandbox().image
    except UserError as error:
        not_here(f"docker: {error}")
    assert re.fullmatch("sha256:[0-9a-f]{64}", image)


def test_each_job_has_a_user_of_its_own(docker: DockerSandbox, tmp_path: Path) -> None:
    """What the kernel counts by user, one job could use up for all."""
    if os.getuid() != 0:
        pytest.skip("only root can lend its jobs other users")
    seen = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        ended = run_code(docker, tmp_path / name, "import os; open('made', 'w'); print(os.getuid(), os.getgid())")
        seen.append(ended.stdout.split())
        assert (tmp_path / name / "made").stat().st_uid == 0
    assert seen[0] != seen[1]
    assert all(uid == gid and int(uid) in _UNPRIVILEGED for uid, gid in seen)
