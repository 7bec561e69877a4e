"""`ml-dev-bench init`: the files of an agent's repository, and whether they are still what this release writes."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench import __version__
from bench.base.errors import EXIT_FAILED, UserError
from bench.cli.options import PATH
from bench.cli.printing import print_text

if TYPE_CHECKING:
    from bench.cli.init_settings import Settings

SETTINGS = Path(".github/mldb/init.yaml")
WORKFLOWS = ("smoke", "gate", "comment", "nightly", "pages", "record")
CONTROL = "react"
"""The agent that ships with the release and is measured beside the caller's every night."""
_HEADING = """\
# What `ml-dev-bench init` was told. Change it and run `ml-dev-bench init --upgrade`, which writes the workflows again.
# agent: the description of your agent. branch: the default branch. cron: when the night begins, UTC.
# control: the agent of nightly.yaml whose own drops tell a moved model from a moved agent.
# keys: secrets of the repository that live models need (Settings, Secrets and variables, Actions).
# engine: label (the runners that nightly.yaml names) or ec2 (a machine of AWS for each shard, by machines.yaml here).
# region, budget_usd: with ec2, where AWS is logged in to, and the most that the machines of a night may cost.
"""
_OWN = re.compile(r"(?P<uses>uses: ml-dev-bench/action[\w./-]*)@v1$", re.MULTILINE)
_KEYS = re.compile(r"^(?P<indent> *)# \{\{keys\}\}\n", re.MULTILINE)
_PART = re.compile(r"^ *# \{\{(?P<engine>ec2|label)\}\}\n(?P<text>.*?)^ *# \{\{end\}\}\n", re.MULTILINE | re.DOTALL)
"""What is there for one engine alone."""
_NATIVE_KEYS = {"gemini": "GEMINI_API_KEY", "together_ai": "TOGETHERAI_API_KEY", "replay": ""}


@dataclass(frozen=True)
class Drift:
    """One workflow that is not what this release writes."""

    path: Path
    wanted: str
    found: str | None
    """None: the file is missing."""

    @property
    def diff(self) -> str:
        old, new = (self.found or "").splitlines(), self.wanted.splitlines()
        wanted = f"{self.path} as this release writes it"
        return "\n".join(difflib.unified_diff(old, new, str(self.path), wanted, n=2, lineterm=""))


@click.command()
@click.argument("folder", type=PATH, default=Path("."))
@click.option("--agent", metavar="FILE", help="Description of your agent, below FOLDER; default: mldb-agent.yml.")
@click.option("--branch", metavar="NAME", help="Default branch; default: the one that is checked out.")
@click.option(
    "--pin", metavar="COMMIT", help="Commit of the Action in place of this release's, such as that of a fork."
)
@click.option("--check", is_flag=True, help="Show how the workflows differ from what this release writes.")
@click.option("--upgrade", is_flag=True, help="Write the workflows that differ again.")
def init(folder: Path, agent: str | None, branch: str | None, pin: str | None, check: bool, upgrade: bool) -> None:
    """Write the workflows of an agent's repository: smoke, gate, comment, nightly, pages, record.

    FOLDER is the root of the repository. An agent's description and the experiments in .github/mldb are written where
    they are missing, and never changed afterwards; the workflows belong to the release. Actions are pinned by digest.

    Exit status: 0 done, or nothing differs; 1 with --check, when something differs; 2 something is in the way.
    """
    if not folder.is_dir():
        raise UserError("is not a folder", where=folder, remedy="name the root of the agent's repository")
    reference = _reference(pin)
    if not (check or upgrade):
        settings = _begin(folder, agent, branch)
        _write_all(folder, {path: render(path, settings, reference) for path in _targets()})
        return _tell_next(settings, reference)
    if agent or branch:
        raise UserError("is not for --check and --upgrade", where="--agent, --branch", remedy=f"change {SETTINGS}")
    settings = _settings_in(folder)
    drifts = find_drift(folder, settings, reference)
    for drift in drifts:
        print_text(drift.diff if drift.found is not None else f"{drift.path}: is missing")
    if not drifts:
        click.echo(f"{len(WORKFLOWS)} workflows are what ml-dev-bench {__version__} writes")
    elif upgrade:
        _require_committed(folder, [drift.path for drift in drifts if drift.found is not None])
        _write_all(folder, {drift.path: drift.wanted for drift in drifts})
    else:
        click.echo(
            f"{len(drifts)} of {len(WORKFLOWS)} workflows differ; `ml-dev-bench init --upgrade` writes them again"
        )
        sys.exit(EXIT_FAILED)


def _settings_in(folder: Path) -> Settings:
    from bench.base.model import read_yaml
    from bench.cli.init_settings import Settings

    return read_yaml(folder / SETTINGS, Settings)


def find_drift(folder: Path, settings: Settings, reference: str) -> list[Drift]:
    """The workflows in `folder` that are missing or differ."""
    found = []
    for path in _targets():
        wanted, present = render(path, settings, reference), folder / path
        text = present.read_text(encoding="utf-8", errors="replace") if present.is_file() else None
        if text != wanted:
            found.append(Drift(path, wanted, text))
    return found


def render(path: Path, settings: Settings, reference: str) -> str:
    """The workflow that belongs to `path`; reference: what follows `@` in `uses:` of our own actions."""
    text = (_templates() / "workflows" / path.name).read_text(encoding="utf-8")
    text = _PART.sub(lambda match: match["text"] if match["engine"] == settings.engine else "", text)
    text = _KEYS.sub(lambda match: "".join(_secret(match["indent"], key) for key in settings.keys), text)
    text = _OWN.sub(lambda match: f"{match['uses']}@{reference}", text)
    cassettes = (Path(settings.agent).parent / "cassettes" / "smoke").as_posix() + "/"
    values = {"agent": settings.agent, "branch": settings.branch, "cron": settings.cron, "cassettes": cassettes}
    values |= {"control": settings.control or '""', "region": settings.region, "budget": f"{settings.budget_usd:g}"}
    return _fill(text, values)


def _secret(indent: str, key: str) -> str:
    return f"{indent}{key}: ${{{{ secrets.{key} }}}}\n"


def _fill(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace("{{" + name + "}}", value)
    return text


def _targets() -> list[Path]:
    return [Path(f".github/workflows/mldb-{name}.yml") for name in WORKFLOWS]


def _templates() -> Path:
    from bench.base.install import find_templates

    return find_templates()


def _reference(pin: str | None) -> str:
    """What our own actions are pinned to: a commit, or `v1` where this is not a release."""
    if pin is not None:
        if not re.fullmatch(r"[0-9a-f]{40}", pin):
            raise UserError(f"{pin!r} is not a commit", where="--pin", remedy="give its 40 hexadecimal digits")
        return f"{pin} # not a release"
    file = _templates() / "release.json"
    if file.is_file():
        from bench.base.model import read_json
        from bench.cli.init_settings import Release

        release = read_json(file, Release, remedy="reinstall ml-dev-bench")
        return f"{release.commit} # v{release.version}"
    return "v1 # not a release: a released `ml-dev-bench init --upgrade` writes its commit here"


def _begin(folder: Path, agent: str | None, branch: str | None) -> Settings:
    """The settings of a new repository, and the files that are the caller's own from now on."""
    import yaml

    from bench.base.model import validate
    from bench.cli.init_settings import Settings

    taken = [path for path in [SETTINGS, *_targets()] if (folder / path).exists()]
    if taken:
        fault = f"{taken[0]} exists already"
        raise UserError(fault, where=folder, remedy="run `ml-dev-bench init --upgrade`, or move the file away")
    told = {"agent": Path(agent or "mldb-agent.yml").as_posix(), "branch": branch or _branch(folder)}
    settings = validate({**told, "cron": _cron(folder)}, Settings, where="--agent, --branch")
    if not (folder / settings.agent).is_file():
        _write_starter(folder, agent)
    models = _models(folder / settings.agent)
    main = models.get("main", "")
    keys = sorted({key for model in models.values() if (key := secret_of(model))})
    settings = settings.model_copy(update={"keys": keys, "control": CONTROL if main else ""})
    files: dict[Path, str] = {}
    # A control that calls another model would tell nothing of this one's model.
    values = {
        "agent": json.dumps(settings.agent),
        "agents": ", ".join([json.dumps(settings.agent), *([CONTROL] if main else [])]),
        "models": main,
    }
    for name in ("gate", "nightly"):
        path = SETTINGS.with_name(f"{name}.yaml")
        if not (folder / path).exists():
            template = (_templates() / "mldb" / f"{name}.yaml").read_text(encoding="utf-8")
            files[path] = _fill(template, values)
    text = yaml.safe_dump(settings.model_dump(), sort_keys=False)
    _write_all(folder, {**files, SETTINGS: _HEADING + text})
    return settings


def _write_starter(folder: Path, agent: str | None) -> None:
    """A first agent, for a repository that has none."""
    if agent:
        raise UserError("is not a file", where=folder / agent, remedy="correct --agent, or leave it out")
    if (folder / "mldb_agent.py").exists():
        raise UserError("exists already", where=folder / "mldb_agent.py", remedy="name your agent with --agent")
    names = ("mldb-agent.yml", "mldb_agent.py")
    _write_all(folder, {Path(name): (_templates() / name).read_text(encoding="utf-8") for name in names})


def _models(agent: Path) -> dict[str, str]:
    from bench.formats.agent import load_agent

    return load_agent(agent).spec.models


def secret_of(model: str) -> str:
    """The secret that calls of `model` need, by litellm's custom; empty for a replayed one."""
    provider = model.partition("/")[0]
    return _NATIVE_KEYS.get(provider, f"{re.sub('[^A-Z0-9]', '_', provider.upper())}_API_KEY")


def _branch(folder: Path) -> str:
    return _git(folder, "symbolic-ref", "--quiet", "--short", "HEAD") or "main"


def _cron(folder: Path) -> str:
    """A minute of the night of this repository's own: schedules at full hours are late, or dropped."""
    number = int(hashlib.sha256((_git(folder, "remote", "get-url", "origin") or folder.name).encode()).hexdigest(), 16)
    return f"{5 + number % 50} {1 + number // 50 % 4} * * *"


def _git(folder: Path, *arguments: str) -> str:
    """What git says of the caller's repository; empty where it says nothing."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _require_committed(folder: Path, paths: list[Path]) -> None:
    """Raise `UserError` for a file whose content would be lost, since git does not have it."""
    for path in paths:
        if _git(folder, "status", "--porcelain", "--", path.as_posix()):
            remedy = "commit it first, or remove it; the new content is shown above"
            raise UserError("has changes that are not committed", where=folder / path, remedy=remedy)


def _write_all(folder: Path, files: Mapping[Path, str]) -> None:
    from bench.base.files import write_atomic

    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / path, text.encode())
        click.echo(f"wrote {path}")


def _tell_next(settings: Settings, reference: str) -> None:
    click.echo("next: commit these files and open a pull request; the smoke needs no key")
    if settings.keys:
        click.echo(f"for gate, nightly and record: gh secret set {' && gh secret set '.join(settings.keys)}")
    click.echo("the secret of the seeds: openssl rand -hex 32 | gh secret set MLDB_SEED_SECRET")
    click.echo("the leaderboard: Settings, Pages, Source: GitHub Actions")
    if reference.startswith("v1 "):
        click.echo("the workflows follow the branch v1, since this ml-dev-bench is not a release", err=True)
