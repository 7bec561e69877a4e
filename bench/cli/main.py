"""Entry of `ml-dev-bench` (short: `mldb`), and its smallest command: `schema`."""

from __future__ import annotations

import contextlib
import importlib
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from bench import __version__
from bench.base.errors import EXIT_INTERRUPTED, EXIT_USAGE, UserError
from bench.cli.groups import LazyGroup
from bench.cli.interrupts import Interrupted
from bench.cli.start_note import start_note

_COMMANDS = {
    "action": ("bench.cli.action", "action", "The steps of the GitHub Action."),
    "agents": ("bench.cli.agents", "agents", "List and show agents."),
    "cases": ("bench.cli.cases", "cases", "List, show, verify and make cases."),
    "compare": ("bench.cli.compare", "compare", "Tell whether an agent got better, worse or more expensive."),
    "demo": ("bench.cli.demo", "demo", "Run the demo suite and build its leaderboard."),
    "doctor": ("bench.cli.doctor", "doctor", "Tell what this machine can do, and how to fix the rest."),
    "human": ("bench.cli.human", "human", "Solve a case yourself."),
    "image": ("bench.cli.image", "image", "Build the image of the docker sandbox."),
    "init": ("bench.cli.init", "init", "Write the workflows of an agent's repository."),
    "plan": ("bench.cli.plan", "plan", "Turn an experiment into shards, with time and price."),
    "power": ("bench.cli.power", "power", "Plan how many trials and cases a drop can be seen with."),
    "results": ("bench.cli.results", "results", "Show stored results."),
    "run": ("bench.cli.run", "run", "Run agents on cases."),
    "run-shard": ("bench.cli.run_shard", "run_shard", "Run one shard of a plan."),
    "schema": ("bench.cli.main", "schema", "Print the JSON Schema of a file format."),
    "smoke": ("bench.cli.smoke", "smoke", "Prove without a key that agents start, use the gateway, and end."),
    "site": ("bench.cli.pages", "site", "Build and serve the leaderboard."),
    "suites": ("bench.cli.suites", "suites", "List and show suites."),
    "summary": ("bench.cli.run", "summary", "Print a run as Markdown."),
    "trends": ("bench.cli.trends", "trends", "Find steps in nightly series, and keep issues about them."),
}
_FORMATS = {
    "agent": ("bench.formats.agent", "AgentSpec"),
    "case": ("bench.formats.case", "CaseSpec"),
    "cassette": ("bench.gateway.backends.cassettes", "Cassette"),
    "decision": ("bench.store.decisions", "Decision"),
    "event": ("bench.formats.events", "Event"),
    "manifest": ("bench.store.bundle", "Manifest"),
    "record": ("bench.formats.record", "Record"),
    "run": ("bench.formats.plan", "RunPlan"),
    "shards": ("bench.store.collect", "Shards"),
    "suite": ("bench.formats.suite", "Suite"),
    "trace": ("bench.gateway.steps", "TraceSteps"),
}


@click.group(cls=LazyGroup, commands_of=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ml-dev-bench")
def cli() -> None:
    """A continuous benchmark of AI agents on machine-learning development work.

    Exit status: 0 done; 1 the answer is no (a case does not verify, cells were lost); 2 the command, a file or
    the set-up is wrong; 130 interrupted.
    """


@click.command()
@click.argument("name", type=click.Choice(sorted(_FORMATS)))
def schema(name: str) -> None:
    """Print the JSON Schema of a file format."""
    from bench.cli.printing import print_json

    module, model = _FORMATS[name]
    document: dict[str, Any] = getattr(importlib.import_module(module), model).model_json_schema(by_alias=True)
    print_json({"$schema": "https://json-schema.org/draft/2020-12/schema", **document})


def _interrupted(words: Sequence[str], error: BaseException) -> str:
    """What to say after an interrupt: the command that continues it, where there is one."""
    # click raises its own `Abort` from the interrupt.
    for it in (error, error.__cause__):
        if isinstance(it, Interrupted):
            return f"interrupted; `{it.command}` continues the run"
    if words[:1] == ["run-shard"]:
        return f"interrupted; `{shlex.join(['ml-dev-bench', *words])}` continues the shard"
    return "interrupted"


def main() -> None:
    """Run the command line; a user's mistake is one line on standard error."""
    from bench.cli.mistakes import (
        colours_wanted,
        name_fault,
        open_standard_streams,
        silence_output,
        system_fault,
        usage_line,
    )

    open_standard_streams()
    try:
        with start_note(sys.argv[1:]):
            cli.main(standalone_mode=False, color=None if colours_wanted() else False)
    except UserError as error:
        _refuse(str(error))
    except click.ClickException as error:
        _refuse(usage_line(error, sys.argv[1:]))
    except (KeyboardInterrupt, click.Abort) as error:
        click.echo(_interrupted(sys.argv[1:], error), err=True)
        sys.stdout.flush()
        # Not sys.exit(), which would wait for threads of cells, whose sandboxes end with this process.
        os._exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        # The reader, such as `head`, has enough.
        silence_output()
        sys.exit(0)
    except click.exceptions.Exit as leave:
        sys.exit(leave.exit_code)
    except (OSError, UnicodeEncodeError) as error:
        if os.environ.get("MLDB_TRACEBACK"):
            raise
        _refuse(str(system_fault(error) if isinstance(error, OSError) else name_fault(error)))


def _refuse(line: str) -> NoReturn:
    from bench.cli.mistakes import silence_output
    from bench.cli.printing import fitted

    with contextlib.suppress(OSError):
        click.echo(fitted(f"error: {line}", sys.stderr), err=True)
    try:
        sys.stdout.flush()
    except OSError:
        silence_output()
    sys.exit(EXIT_USAGE)
