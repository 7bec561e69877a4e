"""A results branch as years of nights would leave it: valid lines of real size, written by templates into fast-import.

100 agents x 50 cases a night. Agents and cases change now and then, three cells in a hundred are lost, and times,
tokens, costs, digests, messages and scores differ from cell to cell, so that it packs no better than a real one.
"""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

from bench.formats.plan import public_seed
from bench.formats.record import RECORD_SCHEMA, Metric, Phase, Record
from bench.store.append import key_path
from bench.store.bundle import Manifest, SchemaRef, StoredFile, StoredTrace, exported_schemas, schema_of
from bench.store.git import AUTHOR_EMAIL, AUTHOR_NAME
from tests.helpers.records import GPT, SONNET, make_check, make_claim, make_provenance, make_record

AGENTS, CASES, NIGHTS = 100, 50, 1095
BRANCH = "mldb-results"
SUITE, SUITE_VERSION = "mini", "1"
_WORDS = ["loss", "outputs", "gradient", "schedule", "labels", "shapes", "metrics", "shard", "cache", "resume"]
_TAILS = ["finite", "present", "flow", "kept", "match", "restored", "reported", "stable"]


@dataclass
class World:
    """Who is measured on what, and how that changes; the same for the same seed."""

    seed: int
    nights: int
    agents: int = AGENTS
    cases: int = CASES
    traces: float = 0.5
    """Share of the cells whose traces are kept: failures and a sample. Each is a digest in the manifest of its night,
    and no packer makes a digest smaller than its 32 bytes."""
    last: datetime = field(default_factory=lambda: datetime.now(UTC).replace(hour=2, minute=0, second=0, microsecond=0))
    """The night that is still missing: the branch ends the day before."""

    def started(self, night: int) -> datetime:
        return self.last - timedelta(days=self.nights - night)

    def run(self, night: int) -> str:
        return f"nightly-{self.started(night):%Y%m%d}"

    def agent(self, number: int) -> str:
        return f"{['react', 'aide', 'openhands', 'planner', 'coder'][number % 5]}-{number:03d}"

    def case(self, number: int) -> str:
        return f"{_WORDS[number % 10]}_{_TAILS[number // 10 % 8]}_{number:02d}"

    def version(self, kind: str, number: int, night: int) -> str:
        """Digest of an agent (new every month or so) or a case (once a year) in that night."""
        period = 7 + number * 13 % 54 if kind == "agent" else 300 + number * 7
        return hashlib.sha256(f"{self.seed} {kind} {number} {(night + number) // period}".encode()).hexdigest()


class Template:
    """A line whose changing places are filled in."""

    def __init__(self, record: Record, changing: dict[str, Any]) -> None:
        document = record.model_dump(mode="json", by_alias=True)
        for place, name in changing.items():
            _replace(document, place.split("."), f"@@{name}@@")
        text = json.dumps(document, separators=(",", ":")).replace("%", "%%")
        self._names = [part.split("@@")[0] for part in text.split('"@@')[1:]]
        for name in self._names:
            text = text.replace(f'"@@{name}@@"', "%s", 1)
        self._text = text

    def fill(self, values: dict[str, Any]) -> str:
        return self._text % tuple([values[name] for name in self._names])


def _replace(document: Any, path: list[str], value: str) -> None:
    for name in path[:-1]:
        document = document[int(name) if name.isdigit() else name]
    document[int(path[-1]) if path[-1].isdigit() else path[-1]] = value


_ALWAYS = {
    "agent.digest": "agent_digest",
    "agent.commit": "agent_commit",
    "case.digest": "case_digest",
    "provenance.run": "run",
    "provenance.run_url": "run_url",
    "started": "started",
    "finished": "finished",
}


class CellWriter:
    """The lines of one agent on one case."""

    def __init__(self, world: World, agent: int, case: int) -> None:
        self._checks = 3 + case % 6
        self._skill = 0.25 + 0.7 * ((agent * 37 + case * 11) % 97) / 97
        self._priced = agent % 7 != 0
        model = (SONNET, GPT)[agent % 2] if self._priced else None
        facts: dict[str, Any] = {
            "agent": world.agent(agent),
            "case": world.case(case),
            "model": model,
            "category": ("debugging", "implementation", "training", "datasets")[case % 4],
            "seed": public_seed(SUITE_VERSION, world.case(case), 1),
            "phases": [
                Phase(name=name, start="2026-01-01T00:00:00Z", seconds=1)
                for name in ("prepare", "agent", "snapshot", "judge")
            ],
            "provenance": make_provenance("x").model_copy(update={"suite": SUITE, "suite_version": SUITE_VERSION}),
        }
        graded = make_record(
            **facts,
            cost_status="exact",
            checks=[make_check(f"{_WORDS[i]}_is_{_TAILS[(i + case) % 8]}", 1.0) for i in range(self._checks)],
            metrics=[Metric(name="accuracy", value=0.5)] if case % 3 == 0 else [],
            claims=[make_claim()] if case % 5 == 0 else [],
        )
        self._graded = Template(graded, {**_ALWAYS, **self._changing(case)})
        lost = {**_ALWAYS, **{f"phases.{i}.{what}": f"p{i}{what}" for i in range(4) for what in ("start", "seconds")}}
        self._lost = Template(make_record(**facts, outcome="infra", cost_usd=0.0), lost)
        self._case = case

    def _changing(self, case: int) -> dict[str, str]:
        places = {name: name for name in ("judge_seed", "success", "score", "stop_reason")}
        for i in range(self._checks):
            places |= {f"checks.{i}.{what}": f"c{i}{what}" for what in ("value", "message", "seconds")}
        for i in range(4):
            places |= {f"phases.{i}.{what}": f"p{i}{what}" for what in ("start", "seconds")}
        if case % 3 == 0:
            places["metrics.0.value"] = "metric"
        if case % 5 == 0:
            places |= {"claims.0.claimed": "metric", "claims.0.measured": "measured"}
        if self._priced:
            tokens = {f"usage.0.tokens.{name}": name for name in ("input_uncached", "cache_read", "output")}
            places |= tokens | {
                "usage.0.calls": "steps",
                "usage.0.cost_usd": "cost",
                "cost_usd": "cost",
                "steps": "steps",
            }
        return places

    def line(self, common: dict[str, Any], when: datetime, rng: random.Random) -> str:
        """One line, without its line break."""
        values = dict(common)
        seconds = [1.5 * rng.random(), 20 + 400 * rng.random(), rng.random(), 2 + 6 * rng.random()]
        base = when + timedelta(seconds=rng.randrange(14_000))
        values["started"] = _instant(base)
        for i, taken in enumerate(seconds):
            values[f"p{i}start"], values[f"p{i}seconds"] = _instant(base), round(taken, 4)
            base += timedelta(seconds=taken)
        values["finished"] = _instant(base)
        if rng.random() < 0.03:
            return self._lost.fill(values)
        passed = 0
        for i in range(self._checks):
            well = rng.random() < self._skill
            passed += well
            values[f"c{i}value"] = 1.0 if well else 0.0
            values[f"c{i}message"] = '""' if well else f'"expected less than 1e-3, found {rng.random():.6g}"'
            values[f"c{i}seconds"] = round(rng.random(), 4)
        values["success"] = "true" if passed == self._checks else "false"
        values["score"] = round(passed / self._checks, 6)
        values["stop_reason"] = '"finished"' if rng.random() < 0.9 else '"step_limit"'
        values["judge_seed"] = rng.getrandbits(32)
        values["metric"] = values["measured"] = round(rng.random(), 6)
        steps = rng.randint(4, 40)
        values["steps"], values["cost"] = steps, round(steps * 0.03 * rng.random(), 6)
        values["input_uncached"], values["cache_read"] = rng.randrange(90_000), rng.randrange(400_000)
        values["output"] = rng.randrange(30_000)
        return self._graded.fill(values)


def _instant(moment: datetime) -> str:
    return f'"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"'


def agent_nights(world: World, agent: int, nights: range) -> Iterator[tuple[int, str]]:
    """Each night's file of one agent."""
    writers = [CellWriter(world, agent, case) for case in range(world.cases)]
    rng = random.Random(f"{world.seed} {agent} {nights.start}")
    for night in nights:
        version = world.version("agent", agent, night)
        common: dict[str, Any] = {
            "agent_digest": f'"sha256:{version}"',
            "agent_commit": f'"{version[:40]}"',
            "run": f'"{world.run(night)}"',
            "run_url": f'"https://github.com/o/r/actions/runs/{10_000_000 + night * 7919}"',
        }
        when = world.started(night)
        lines = []
        for case, writer in enumerate(writers):
            common["case_digest"] = f'"sha256:{world.version("case", case, night)}"'
            lines.append(writer.line(common, when, rng))
        lines.sort()
        yield night, "\n".join(lines) + "\n"


def make_branch(world: World, bare: Path, progress: Callable[[str], None]) -> None:
    """The branch in a new bare repository, agent by agent, so that a file is packed against the night before's."""
    subprocess.run(["git", "init", "-q", "--bare", "--template=", f"--initial-branch={BRANCH}", str(bare)], check=True)
    settings = ["-c", "core.compression=6", "-c", "pack.depth=50", "-c", "fastimport.unpackLimit=0"]
    command = ["git", "-C", str(bare), *settings, "fast-import", "--quiet", "--depth=50"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        with process.stdin as stream:
            stored = _write_blobs(world, stream, progress)
            _write_commits(world, stream, stored)
    if process.returncode:
        raise RuntimeError(f"fast-import ended with {process.returncode}")


@dataclass(frozen=True)
class _Stored:
    mark: int
    size: int
    digest: str


def _write_blobs(world: World, stream: IO[bytes], progress: Callable[[str], None]) -> dict[tuple[int, int], _Stored]:
    stored: dict[tuple[int, int], _Stored] = {}
    for agent in range(world.agents):
        for night, text in agent_nights(world, agent, range(world.nights)):
            content = text.encode()
            if agent == 0 and night == 0:
                for line in text.splitlines():
                    Record.model_validate_json(line)
            mark = len(stored) + 1
            stream.write(b"blob\nmark :%d\ndata %d\n" % (mark, len(content)))
            stream.write(content)
            digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
            stored[night, agent] = _Stored(mark, len(content), digest)
        progress(f"{agent + 1} of {world.agents} agents written")
    return stored


def _write_commits(world: World, stream: IO[bytes], stored: dict[tuple[int, int], _Stored]) -> None:
    previous: str | None = None
    for night in range(world.nights):
        files = {
            f"runs/{world.started(night):%Y/%m/%d}/{world.run(night)}-1-{world.agent(agent)}.jsonl": agent
            for agent in range(world.agents)
        }
        manifest = _manifest(world, night, {path: stored[night, agent] for path, agent in files.items()}, previous)
        content = manifest.to_bytes()
        previous = f"sha256:{hashlib.sha256(content).hexdigest()}"
        when = int(world.started(night).timestamp()) + 20_000
        message = (
            f"Results of {manifest.run}, attempt 1\n\nManifest-Digest: {previous}\nManifest: {manifest.path}\n".encode()
        )
        stream.write(f"commit refs/heads/{BRANCH}\ncommitter {AUTHOR_NAME} <{AUTHOR_EMAIL}> {when} +0000\n".encode())
        stream.write(b"data %d\n%s" % (len(message), message))
        for path, agent in files.items():
            stream.write(f"M 100644 :{stored[night, agent].mark} {path}\n".encode())
        own = {manifest.path: content, key_path(manifest.key): f"{manifest.path}\n".encode()}
        if night == 0:
            own |= {f"schema/{name}.json": text for name, text in exported_schemas().items()}
        for path, text in own.items():
            stream.write(b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(text), text))


def _manifest(world: World, night: int, files: dict[str, _Stored], previous: str | None) -> Manifest:
    run = world.run(night)
    return Manifest(
        run=run,
        attempt=1,
        started=f"{world.started(night):%Y-%m-%dT%H:%M:%SZ}",
        record_schema=SchemaRef(
            version=RECORD_SCHEMA, digest=f"sha256:{hashlib.sha256(schema_of(Record)).hexdigest()}"
        ),
        files=[
            StoredFile(
                path=path, agent=path[:-6].split("-1-", 1)[1], digest=it.digest, size=it.size, records=world.cases
            )
            for path, it in sorted(files.items())
        ],
        outcomes={"graded": world.agents * world.cases},
        provenance=[make_provenance(run)],
        traces=_traces(world, night),
        previous=previous,
    )


def _traces(world: World, night: int) -> list[StoredTrace]:
    rng = random.Random(f"{world.seed} traces {night}")
    stored = []
    for agent in range(world.agents):
        for case in range(world.cases):
            if rng.random() >= world.traces:
                continue
            digest = rng.randbytes(32).hex()
            place = f"https://github.com/o/r/releases/download/traces/{digest}.tar.gz"
            cell = f"{world.agent(agent)}/sonnet/{world.case(case)}/mini/1"
            size = rng.randrange(2_000_000)
            stored.append(
                StoredTrace(cell=cell, digest=f"sha256:{digest}", size=size, stored=size // 5 + 7, place=place)
            )
    return sorted(stored, key=lambda trace: trace.cell)
