"""The machine's first seconds: power-off is armed before anything else, and every way ends in one.

Both parts of the user data run in bubblewrap, with nothing on their path but stand-ins that write down how they are
called.
"""

from __future__ import annotations

import email
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench.base.errors import UserError
from bench.machines.boot import boot_scripts
from bench.machines.ec2.request import MOST_BYTES, user_data
from bench.machines.lease import Lease
from bench.machines.settings import Ec2Options

CONFIGURATION = "A" * 5200
"""As long as GitHub's."""
NOW = datetime.now(UTC).replace(microsecond=0)
LEASE = Lease("ec2", "owner/agents", "12345678901", 1, "box-001", NOW + timedelta(hours=2))
_STANDINS = {
    "shutdown": "",
    "systemctl": "",
    "systemd-run": "",
    "iptables": "",
    "install": "/usr/bin/mkdir -p /run/mldb /run/mldb-hooks",
    "id": "echo 1000",
    "chmod": "",
    "pkill": "",
    "curl": "exit 22",
    "sleep": 'case "$1" in 60|5|"$INSTANT") ;; *) exec /usr/bin/sleep 20 ;; esac',
    "runuser": '[ -n "$ACTIONS_RUNNER_INPUT_JITCONFIG" ] && echo "configured" >>"$LOG"; /usr/bin/sleep "${RUNS:-0}"',
}


def options(**changes: object) -> Ec2Options:
    place = {"region": "us-east-1", "image": "ami-1", "subnets": ["subnet-1"]}
    facts = {"places": [place], "machines": {"box": {"types": ["g5.xlarge"]}}, "runner_folder": "/opt", **changes}
    return Ec2Options.model_validate(facts)


def parts(*, spot: bool = False, configuration: str = CONFIGURATION, **changes: object) -> dict[str, str]:
    """The scripts as cloud-init takes them out, by their kind."""
    data = user_data(LEASE, options(**changes), configuration, NOW, spot=spot)
    found = email.message_from_string(data)
    assert found.get_content_type() == "multipart/mixed"
    return {it.get_content_subtype(): str(it.get_payload()) for it in found.walk() if not it.is_multipart()}


Boot = Callable[..., list[str]]


@pytest.fixture
def boot(tmp_path: Path) -> Boot:
    """Runs one part and returns the calls it has made, in their order."""
    bubblewrap = shutil.which("bwrap")
    if bubblewrap is None:
        pytest.skip("bubblewrap is missing")

    def run(script: str, failing: Mapping[str, str] | None = None, **variables: str) -> list[str]:
        programs = tmp_path / "bin"
        programs.mkdir(exist_ok=True)
        # Of its own: a process of the last run may still be about to write.
        log = tmp_path / f"log-{len(list(tmp_path.glob('log-*')))}"
        log.write_text("")
        for name, body in {**_STANDINS, **(failing or {})}.items():
            note = "" if name == "id" else f'echo "{name} $*" >>"$LOG"'
            # A process of the last run may still be about to end, and a program that runs cannot be written.
            (programs / name).unlink(missing_ok=True)
            (programs / name).write_text(f"#!/bin/sh\n{note}\n{body}\n")
            (programs / name).chmod(0o755)
        for name in ("cat", "date"):
            (programs / name).unlink(missing_ok=True)
            (programs / name).symlink_to(f"/usr/bin/{name}")
        (tmp_path / "script").write_text(script)
        own = ["--ro-bind", "/", "/", "--tmpfs", "/run", "--tmpfs", "/var/lib", "--bind", str(tmp_path), str(tmp_path)]
        box = [
            bubblewrap,
            *own,
            "--proc",
            "/proc",
            "--dev",
            "/dev",
            "--unshare-pid",
            "--unshare-net",
            "--die-with-parent",
        ]
        shell = "/bin/bash" if script.startswith("#!/bin/bash") else "/bin/sh"
        env = {"PATH": str(programs), "LOG": str(log), "INSTANT": "never", **variables}
        subprocess.run([*box, shell, str(tmp_path / "script")], env=env, check=False, timeout=60, capture_output=True)
        return log.read_text().splitlines()

    return run


def test_the_first_part_arms_the_power_off_before_anything_else(boot: Boot) -> None:
    # The third timer is a process of its own, which may be slow to begin.
    calls = boot(parts()["cloud-boothook"].replace("exit 0\n", until("sleep") + "\n"))
    # The lease was made when the tests were read, and a busy machine comes to this one later.
    armed = re.fullmatch(r"shutdown -P \+(\d+)", calls[0])
    assert armed is not None and 60 <= int(armed[1]) <= 120
    assert calls[1].startswith("systemd-run --on-active=") and calls[1].endswith("systemctl poweroff --force")
    assert any(call.startswith("sleep ") for call in calls), "a third timer, which needs no service"


def test_a_clock_that_is_wrong_does_not_make_the_lease_longer(boot: Boot) -> None:
    early = parts()["cloud-boothook"].replace(str(int(LEASE.expires.timestamp())), "9999999999")
    assert boot(early)[0] == "shutdown -P +120"
    late = parts()["cloud-boothook"].replace(str(int(LEASE.expires.timestamp())), "1000000000")
    assert boot(late)[0] == "shutdown -P +1"


def test_a_machine_that_starts_again_ends_at_once(boot: Boot, tmp_path: Path) -> None:
    state = tmp_path / "state"
    script = parts()["cloud-boothook"].replace("/var/lib/mldb-boot", str(state))
    assert "systemctl poweroff --force" not in boot(script)
    assert "systemctl poweroff --force" not in boot(script), "the same start"
    state.write_text("another start\n")
    assert "systemctl poweroff --force" in boot(script)


def assert_ended(calls: list[str]) -> None:
    # The idle timer is a process of its own, which begins when it comes to it.
    calls = [call for call in calls if call != "sleep 900"]
    assert calls[0].startswith("shutdown -P +"), calls
    end = calls.index("shutdown -P now")
    assert calls[-1] == "systemctl poweroff --force --force" and calls[end + 1 :] != [], calls


FAILURES = {
    "the power-off cannot be armed": {"shutdown": 'case "$2" in +*) exit 1 ;; esac'},
    "the metadata service cannot be blocked": {"iptables": "exit 1"},
    "for containers it cannot": {"iptables": '[ "$3" = OUTPUT ]'},
    "there is no such account": {"id": "exit 1"},
    "the account is root": {"id": "echo 0"},
    "a folder cannot be made": {"install": "exit 1"},
    "the hook cannot be written": {"install": ""},
    "the hook cannot be made to run": {"chmod": "exit 1"},
    "the runner fails": {"runuser": "exit 3"},
    "the runner is killed": {"runuser": "kill -9 $$"},
    "the script is killed": {"chmod": 'kill -TERM "$PPID"'},
    "nothing fails": {},
}


@pytest.mark.parametrize("failing", FAILURES.values(), ids=FAILURES)
def test_however_the_second_part_ends_the_machine_ends(boot: Boot, failing: Mapping[str, str]) -> None:
    assert_ended(boot(parts()["x-shellscript"], failing))


def test_a_missing_runner_ends_the_machine(boot: Boot) -> None:
    assert_ended(boot(parts(runner_folder="/nowhere")["x-shellscript"]))


def test_a_shutdown_that_refuses_is_forced(boot: Boot) -> None:
    calls = boot(parts()["x-shellscript"], {"shutdown": "exit 1"})
    assert calls[-3:] == ["systemctl poweroff --force", "sleep 60", "systemctl poweroff --force --force"]


def until(text: str) -> str:
    """Shell that waits until the log has a line that begins so."""
    return f'until /usr/bin/grep -q "^{text}" "$LOG"; do /usr/bin/sleep 0.05; done'


def test_a_runner_without_a_job_is_idle_and_one_with_a_job_is_not(boot: Boot) -> None:
    script = parts(idle_minutes=7)["x-shellscript"]
    idle = boot(script, {"runuser": f'{until("shutdown -P now")}; echo "still there" >>"$LOG"'}, INSTANT="420")
    assert "still there" in idle
    # The hook runs when the job starts: here before the idle timer is over, and the job ends after it.
    started = {"runuser": f': >/run/mldb/started; {until("idle")}; /usr/bin/sleep 0.3; echo "still there" >>"$LOG"'}
    wait = 'until [ -e /run/mldb/started ]; do /usr/bin/sleep 0.05; done; echo idle >>"$LOG"'
    busy = boot(script, {**started, "sleep": f'[ "$1" = 420 ] || exit 0; {wait}'})
    assert busy.index("still there") < busy.index("shutdown -P now")


def test_the_configuration_is_in_no_command_line(boot: Boot) -> None:
    calls = boot(parts()["x-shellscript"])
    assert "configured" in calls and not [call for call in calls if CONFIGURATION[:100] in call]


def test_on_a_spot_notice_the_shard_is_told_to_end(boot: Boot) -> None:
    notice = {"curl": "echo token"}
    calls = boot(parts(spot=True)["x-shellscript"], {**notice, "runuser": until("pkill")})
    assert "pkill -TERM -o -u runner -f bench action run-shard" in calls
    assert "X-aws-ec2-metadata-token" in "".join(calls)
    assert not [call for call in boot(parts()["x-shellscript"], notice) if call.startswith(("curl", "pkill"))]


def test_the_size_is_what_ec2_takes() -> None:
    assert len(user_data(LEASE, options(), CONFIGURATION, NOW, spot=True).encode()) < MOST_BYTES
    with pytest.raises(UserError, match=r"shard box-001: user data has \d+ bytes, and EC2 takes 16384"):
        parts(configuration="A" * 14_000)
    with pytest.raises(UserError, match="is not base 64"):
        parts(configuration="';shutdown -c;'")


def cluster_parts(**changes: object) -> tuple[str, str]:
    """The scripts where a cluster's own agent deletes the machine."""
    return boot_scripts(LEASE, options(**changes), CONFIGURATION, NOW, ends="cluster", early_s=600)


@pytest.mark.parametrize(
    "failing", [FAILURES[it] for it in ("the account is root", "the runner fails", "nothing fails")]
)
def test_in_a_cluster_the_end_is_that_of_the_job_and_not_a_power_off(boot: Boot, failing: Mapping[str, str]) -> None:
    first, second = cluster_parts()
    assert boot(first)[0].startswith("shutdown -P +")
    calls = boot(second, failing, MLDB_RUNNER_CONFIGURATION="A")
    assert calls[0].startswith("shutdown -P +"), "armed all the same"
    assert "pkill -KILL -u runner" in calls and "shutdown -P now" not in calls
    assert not [call for call in calls if "poweroff" in call]


def test_in_a_pod_without_a_power_switch_the_runner_starts(boot: Boot) -> None:
    calls = boot(cluster_parts()[1], {"shutdown": "exit 127"}, MLDB_RUNNER_CONFIGURATION="A")
    assert "configured" in calls
    assert CONFIGURATION not in "".join(cluster_parts())


@pytest.mark.parametrize("timer", ["idle", "end of the lease"])
def test_in_a_cluster_a_timer_ends_the_runner(boot: Boot, timer: str) -> None:
    """Without a job, and so long before the end of the lease that the deletion comes before the power-off."""
    second = cluster_parts(idle_minutes=7)[1]
    # The lease was made when the tests were read, up to an hour ago.
    lease = "[0-9][0-9][0-9][0-9]"
    instant = f"420) ;; {lease}|5" if timer == "idle" else f"{lease}) ;; 420|5"
    sleeps = f'case "$1" in {instant}*) exec /usr/bin/sleep 20 ;; esac'
    runner = f'{until("pkill -KILL")}; echo "still there" >>"$LOG"'
    calls = boot(second, {"sleep": sleeps, "runuser": runner}, MLDB_RUNNER_CONFIGURATION="A")
    assert "pkill -KILL -u runner" in calls


def test_only_the_runner_is_kept_from_the_metadata_that_a_cluster_needs(boot: Boot) -> None:
    calls = boot(cluster_parts()[1], MLDB_RUNNER_CONFIGURATION="A")
    assert "iptables -w -I OUTPUT -d 169.254.169.254 -m owner --uid-owner runner -j REJECT" in calls
    calls = boot(parts()["x-shellscript"])
    assert "iptables -w -I OUTPUT -d 169.254.169.254 -m owner ! --uid-owner 0 -j REJECT" in calls
