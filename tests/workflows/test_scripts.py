"""What the two commands do to a machine: the real scripts, on a PATH of nothing but what a test put there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.helpers.cells import ROOT, write_files

_TOOLS = [
    "bash",
    "chmod",
    "dirname",
    "env",
    "grep",
    "mktemp",
    "rm",
    "sed",
    "seq",
    "setsid",
    "sleep",
    "tail",
    "tee",
    "timeout",
    "true",
]
_APT_GET = """#!/bin/bash
echo "as $AS: $*" >> {log}
for word in "$@"; do
  case $word in
    bubblewrap) made="bwrap" ;;
    docker.io) made="dockerd docker" ;;
    broken) echo "E: Unable to locate package broken" >&2; exit 100 ;;
    *) made=$word ;;
  esac
  [[ " $* " = *" install "* ]] || continue
  for name in $made; do echo '#!/bin/bash' > {bin}/$name; chmod +x {bin}/$name; done
done
exit 0
"""


class Machine:
    """A folder of commands, the only ones that a script finds."""

    def __init__(self, root: Path) -> None:
        self.bin, self.log, self.skipped = root / "bin", root / "log", root / "skipped"
        self.bin.mkdir(parents=True)
        for tool in _TOOLS:
            (self.bin / tool).symlink_to(str(shutil.which(tool)))

    def add(self, name: str, text: str = "exit 0\n") -> None:
        path = write_files(self.bin, {name: text if text.startswith("#!") else f"#!/bin/bash\n{text}"}) / name
        path.chmod(0o755)

    def debian(self, *, user: int, sudo: str = "") -> None:
        """Debian's tools, a user by number, and sudo: absent, `ready`, or `asks` for a password."""
        self.add("id", f"echo {user}\n")
        self.add("apt-get", _APT_GET.format(log=self.log, bin=self.bin))
        self.add("apt-cache", "exit 100\n")
        if sudo:
            self.add("sudo", f'[ $1 = -n ] && [ {sudo} = ready ] || exit 1\nshift\nAS=root exec "$@"\n')

    def run(self, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": str(self.bin), "MLDB_SKIPPED": str(self.skipped), "AS": "caller", **variables}
        command = [str(ROOT / "scripts" / script), *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)

    def install(self, *programs: str, **variables: str) -> subprocess.CompletedProcess[str]:
        done = self.run("system_packages", *programs, **variables)
        assert done.returncode == 0, done.stderr
        return done

    @property
    def logged(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


_OPTIONS = "-qq -o DPkg::Lock::Timeout=120"
_INSTALL = f"{_OPTIONS} install --yes --no-install-recommends"

# --- packages --------------------------------------------------------------------------------------------------------


def test_root_installs_what_is_missing_and_says_so_before(machine: Machine) -> None:
    machine.debian(user=0)
    machine.add("jq")
    done = machine.install("bubblewrap", "jq", "docker")
    assert machine.logged == [
        f"as caller: {_OPTIONS} update",
        f"as caller: {_INSTALL} bubblewrap docker.io iptables",
    ]
    assert done.stdout.splitlines() == [
        "installing with apt-get: bubblewrap docker.io iptables (MLDB_NO_INSTALL=1 leaves this machine as it is)"
    ]
    assert done.stderr == ""


def test_where_all_is_there_nothing_is_called_or_said(machine: Machine) -> None:
    machine.debian(user=0)
    for name in ("bwrap", "google-chrome", "dockerd", "curl"):
        machine.add(name)
    done = machine.install("bubblewrap", "chromium", "docker", "curl")
    assert (done.stdout, done.stderr, machine.logged) == ("", "", [])


def test_a_sudo_without_a_password_is_used(machine: Machine) -> None:
    machine.debian(user=1000, sudo="ready")
    machine.install("bubblewrap")
    assert machine.logged[-1] == f"as root: {_INSTALL} bubblewrap"
    assert not machine.skipped.exists()


def test_docker_is_not_installed_for_a_user_who_could_not_use_it(machine: Machine) -> None:
    machine.debian(user=1000, sudo="ready")
    done = machine.install("curl", "docker")
    assert machine.logged[-1] == f"as root: {_INSTALL} curl"
    assert done.stderr == (
        "not installed, since this user is not in the group docker: docker; "
        "to install: sudo apt-get install docker.io iptables\n"
    )


def test_a_stopped_docker_of_the_users_own_is_left_alone(machine: Machine) -> None:
    machine.debian(user=1000, sudo="ready")
    machine.add("docker", "exit 1\n")
    assert machine.install("docker").stderr == ""
    assert machine.logged == []


@pytest.mark.parametrize("sudo", ["", "asks"])
def test_a_user_who_may_not_install_gets_one_line_with_the_command(machine: Machine, sudo: str) -> None:
    machine.debian(user=1000, sudo=sudo)
    done = machine.install("bubblewrap", "chromium", "docker")
    assert machine.logged == []
    assert done.stderr == (
        "not installed, since this needs root, or a sudo that asks for no password: bubblewrap chromium docker; "
        "to install: sudo apt-get install bubblewrap chromium docker.io iptables\n"
    )
    assert machine.skipped.read_text() == done.stderr, "for the end of `make test`"


def test_the_machine_can_be_left_as_it_is(machine: Machine) -> None:
    machine.debian(user=0)
    done = machine.install("bubblewrap", MLDB_NO_INSTALL="1")
    assert machine.logged == []
    assert "since MLDB_NO_INSTALL is set: bubblewrap; to install: sudo apt-get install bubblewrap" in done.stderr


def test_other_systems_get_one_line(machine: Machine) -> None:
    machine.add("id", "echo 0\n")
    done = machine.install("bubblewrap", "jq")
    assert done.stderr == "not installed: bubblewrap jq; install them with this system's package manager\n"


def test_one_package_that_fails_does_not_keep_the_others_away(machine: Machine) -> None:
    machine.debian(user=0)
    done = machine.install("broken", "bubblewrap")
    assert (machine.bin / "bwrap").exists()
    assert done.stderr.splitlines() == [
        "E: Unable to locate package broken",
        "not installed, since apt-get could not: broken; to install: sudo apt-get install broken",
    ]


# --- engine ----------------------------------------------------------------------------------------------------------

_ENGINE = "echo $$ > {root}/engine; trap 'echo ended > {root}/engine; exit' TERM; while :; do sleep 0.05; done\n"
_CLIENT = 'case $1 in info) [ -s {root}/engine ] && [ "$(< {root}/engine)" != ended ] ;; *) echo 1.2.3 ;; esac\n'


def with_engine(machine: Machine, root: Path, *command: str, user: int = 0) -> subprocess.CompletedProcess[str]:
    machine.add("id", f"echo {user}\n")
    machine.add("dockerd", _ENGINE.format(root=root))
    machine.add("docker", _CLIENT.format(root=root))
    return machine.run("with_engine", *command)


def test_an_engine_that_was_started_is_ended_with_the_command(machine: Machine, tmp_path: Path) -> None:
    done = with_engine(machine, tmp_path, "bash", "-c", "docker info && exit 7")
    assert done.returncode == 7, done.stderr
    assert "started Docker engine 1.2.3" in done.stdout
    assert (tmp_path / "engine").read_text() == "ended\n"


def test_an_engine_that_answers_is_used_as_it_is(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "engine").write_text("the machine's own")
    assert with_engine(machine, tmp_path, "bash", "-c", "exit 7").returncode == 7
    assert (tmp_path / "engine").read_text() == "the machine's own"


def test_users_who_are_not_root_start_none(machine: Machine, tmp_path: Path) -> None:
    assert with_engine(machine, tmp_path, "bash", "-c", "exit 7", user=1000).returncode == 7
    assert not (tmp_path / "engine").exists()


def test_an_engine_that_does_not_start_keeps_nothing_from_running(machine: Machine) -> None:
    for name, text in (("id", "echo 0"), ("docker", "exit 1"), ("dockerd", "echo no cgroups; exit 1")):
        machine.add(name, text)
    done = machine.run("with_engine", "bash", "-c", "echo went on")
    assert (done.returncode, done.stdout) == (0, "went on\n")
    assert done.stderr == "no Docker engine could be started:\nno cgroups\n"


# --- image -----------------------------------------------------------------------------------------------------------


def image(machine: Machine, docker: str, *, has: bool = False, **variables: str) -> subprocess.CompletedProcess[str]:
    machine.add("id", "echo 1000\n")
    machine.add("docker", docker)
    machine.add("mldb", f'echo "$*" >> {machine.log}\n[ "$2" = build ] || exit {0 if has else 1}\n')
    return machine.run("sandbox_image", str(machine.bin / "mldb"), **variables)


def test_an_image_that_is_there_is_kept(machine: Machine) -> None:
    assert image(machine, "exit 0\n", has=True).returncode == 0
    assert machine.logged == ["image show"]


def test_an_image_is_built_on_the_registrys_base(machine: Machine) -> None:
    done = image(machine, "exit 0\n")
    assert done.returncode == 0, done.stderr
    assert "building the image" in done.stdout
    assert machine.logged == ["image show", "image build --network default"]


def test_without_registry_and_root_one_line_says_so(machine: Machine) -> None:
    done = image(machine, "[ $1 = info ]\n", MLDB_NO_INSTALL="")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "no base for the image: no image registry can be reached, and debootstrap needs root"
    )


@pytest.mark.parametrize(
    ("docker", "no_install", "said"),
    [
        ("exit 1\n", "", "no Docker engine answers"),
        ("exit 0\n", "1", "MLDB_NO_INSTALL is set; to build it: make image"),
    ],
)
def test_no_image_is_built_where_none_can_or_may_be(machine: Machine, docker: str, no_install: str, said: str) -> None:
    done = image(machine, docker, MLDB_NO_INSTALL=no_install)
    assert done.returncode == 1
    assert said in done.stderr and len(done.stderr.splitlines()) == 1


# --- cases -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "variables", "sandbox"),
    [
        ("ok      bubblewrap  yes\nok      docker  yes", {}, "bubblewrap"),
        ("missing bubblewrap  no\nok      docker      yes", {}, "auto"),
        ("missing bubblewrap  no\nnote    docker      no", {}, "process"),
        ("missing bubblewrap  no\nnote    docker      no", {"CI": "true"}, "auto"),
        ("ok      bubblewrap  yes", {"SANDBOX": "docker"}, "docker"),
    ],
)
def test_cases_are_proven_in_what_isolates(
    machine: Machine, found: str, variables: dict[str, str], sandbox: str
) -> None:
    machine.add("mldb", f'[ $1 = doctor ] && echo "{found}" || echo "$*"\n')
    done = machine.run("prove_cases", str(machine.bin / "mldb"), **variables)
    # In CI a library that is missing is a failure, and no reason to prove less.
    more = " --complete" if "CI" in variables else ""
    assert done.stdout.splitlines()[-1] == f"cases verify --all{more} --jobs 3 --sandbox {sandbox}"
    some = machine.run("prove_cases", str(machine.bin / "mldb"), "--changed", "--seed", "7", **variables)
    assert some.stdout.splitlines()[-1] == f"cases verify --changed --seed 7{more} --jobs 3 --sandbox {sandbox}"
    assert machine.skipped.exists() == (sandbox == "process")


# --- two at a time ---------------------------------------------------------------------------------------------------

BESIDE = str(ROOT / "scripts" / "beside")


@pytest.mark.parametrize(
    ("first", "second", "code"), [("true", "true", 0), ("exit 3", "true", 3), ("true", "exit 4", 4)]
)
def test_both_are_heard_and_one_that_fails_is_enough(first: str, second: str, code: int) -> None:
    commands = ["sh", "-c", f"sleep 0.3; echo one; {first}", "--", "sh", "-c", f"echo two; {second}"]
    done = subprocess.run([BESIDE, *commands], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "one\ntwo\n", "")


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_who_ends_them_ends_both_and_hears_what_was_said(sent: signal.Signals, code: int) -> None:
    """Each tells its id, and then waits for the end of a pipe that only the two hold open."""
    held, theirs = os.pipe()
    waits = ["sh", "-c", "echo $$; exec sleep 100"]
    with subprocess.Popen([BESIDE, *waits, "--", *waits], stdout=subprocess.PIPE, text=True, pass_fds=[theirs]) as both:
        os.close(theirs)
        assert both.stdout is not None
        assert both.stdout.readline().strip().isdigit()
        both.send_signal(sent)
        said = both.stdout.read()
    assert both.returncode == code
    assert said == "" or said.strip().isdigit()
    assert os.read(held, 1) == b"", "neither is there any more"
    os.close(held)


@pytest.mark.parametrize("arguments", [[], ["true"], ["true", "--"], ["--", "true"]])
def test_one_of_two_is_a_line_of_usage(arguments: list[str]) -> None:
    done = subprocess.run([BESIDE, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (2, "usage: scripts/beside COMMAND... -- COMMAND...\n")
