"""The documentation says what is so: links resolve, commands exist, names agree with the code."""

from __future__ import annotations

import ast
import functools
import io
import os
import pkgutil
import re
import shlex
import subprocess
import sys
import tokenize
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from bench.cli.main import cli
from bench.formats.agent import AgentSpec, load_agent
from bench.formats.case import load_cases
from bench.formats.failures import FAILURES
from bench.judge import Workspace
from scripts.architecture import page as architecture
from scripts.case_cheats import page as cheats
from scripts.case_corrections import page as corrections
from scripts.casekit_reference import MODULES
from scripts.casekit_reference import page as casekit
from scripts.command_reference import reference

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    [*ROOT.glob("*.md"), *DOCS.glob("**/*.md"), *ROOT.glob("agents/**/README.md"), *ROOT.glob("cases/*/*/README.md")]
)
WRITTEN = [page for page in PAGES if page.name not in ("CONTRIBUTING.md", "CHANGELOG.md", "attacks.md", "cli.md")]
"""By hand, and by the English rules: without the page that states them, history, and what the program writes."""
PROGRAM = Path(sys.executable).with_name("ml-dev-bench")
HOLE = "…"
"""Stands in a quoted message for what differs from case to case."""


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings of a page."""
    headings = re.findall(r"^#+ +(.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_within_the_project_resolve(page: Path) -> None:
    lost = []
    for link in re.findall(r"\]\(([^)\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert lost == []


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_keep_the_english_rules_that_a_machine_can_check(page: Path) -> None:
    prose = re.sub(r"```.*?```|``.*?``|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert re.findall(r"\b(?:nobody|somebody|anybody|whoever|dearer|mend(?:s|ed)?)\b", prose, flags=re.IGNORECASE) == []


def test_the_index_leads_to_every_page() -> None:
    text = (DOCS / "README.md").read_text(encoding="utf-8")
    pages = [page.name for page in DOCS.glob("*.md") if page.name != "README.md"]
    assert [name for name in pages if f"({name})" not in text] == []


def test_the_reference_of_the_commands_is_what_the_commands_say() -> None:
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == reference(), "run `make docs` and commit docs/cli.md"


def test_the_diagrams_of_the_architecture_are_what_the_code_says() -> None:
    assert (DOCS / "architecture.md").read_text(encoding="utf-8") == architecture(), (
        "run `make docs` and commit the page"
    )
    assert architecture().count(" --> ") == 7 + 4, "eight layers, five steps of a cell"


def test_the_page_of_wrong_answers_is_what_the_cases_say() -> None:
    assert (DOCS / "case-cheats.md").read_text(encoding="utf-8") == cheats(), "run `make docs` and commit the page"


def test_the_page_of_corrections_is_what_the_cases_say() -> None:
    text = corrections()
    assert (DOCS / "corrections.md").read_text(encoding="utf-8") == text, "run `make docs` and commit the page"
    recreated = [case for case in load_cases(ROOT / "cases") if case.spec.source.benchmark != "own"]
    assert [case.id for case in recreated if f"## {case.id}\n" not in text] == [], (
        "say it in `corrections` of case.yaml"
    )


def test_the_reference_of_the_kit_is_what_the_docstrings_say() -> None:
    assert (DOCS / "casekit.md").read_text(encoding="utf-8") == casekit(), "run `make docs` and commit docs/casekit.md"
    modules = {f"casekit/{path.stem}" for path in (ROOT / "bench" / "casekit").glob("[!_]*.py")}
    assert modules <= set(MODULES)


def test_the_reference_of_the_kit_has_every_name_that_a_check_may_import() -> None:
    """What the face of the judge offers is on the page, or belongs to the runner."""
    runner = {
        "Ended",
        "PartialGrading",
        "end_judges",
        "grade_checks",
        "Envelope",
        "Verdict",
        "run_fork",
        "Grading",
        "Submission",
        "grade_submission",
        "Workspace",
        "Check",
        "lazy_face",
    }
    runner |= {"Timing", "Work", "TYPE_CHECKING", "annotations"}
    tree = ast.parse((ROOT / "bench" / "judge" / "__init__.py").read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    text = casekit()
    assert [name for name in sorted(names - runner) if f"### `{name}`" not in text] == []


def test_the_reference_has_every_command_and_option() -> None:
    sections = re.split(r"^## ", (DOCS / "cli.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    documented = {
        head: set(re.findall(r"`(--[\w-]+)`", body)) for head, _, body in (it.partition("\n") for it in sections)
    }
    found = dict(commands("ml-dev-bench", cli))
    assert len(found) > 30
    assert {path: documented.get(path, set()) >= options for path, options in found.items()} == dict.fromkeys(
        found, True
    )


def commands(path: str, command: click.Command) -> Iterator[tuple[str, set[str]]]:
    """Every command that does something, with its long options."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from commands(f"{path} {name}", child)
    else:
        yield path, {name for it in command.params for name in it.opts if name.startswith("--")}


def test_the_citation_is_valid_by_its_schema() -> None:
    check = Path(sys.executable).with_name("check-jsonschema")
    command = [str(check), "--builtin-schema", "vendor.citation-file-format", str(ROOT / "CITATION.cff")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("bubblewrap")
def test_the_quickstart_fits_a_screen_and_every_command_in_it_works(tmp_path: Path) -> None:
    text = (DOCS / "quickstart.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 40
    (agent,) = blocks(text, "yaml")
    (tmp_path / "my-agent").mkdir()
    (tmp_path / "my-agent" / "agent.yaml").write_text(agent)
    (tmp_path / ".venv").symlink_to(PROGRAM.parents[1])
    first, *commands, last = [line[2:] for block in blocks(text, "console") for line in block.splitlines()]
    # The last step of CI's own script.
    assert first == "make demo"
    assert "make demo" in (ROOT / ".ci" / "run").read_text()
    script = "\n".join(["set -e", *commands])
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 2 graded cells succeeded; 0 without a verdict" in done.stdout
    assert "my-agent on hello_world, trial 1: success" in done.stdout
    serve = [str(PROGRAM), *shlex.split(last, comments=True)[1:], "--port", "0"]
    with subprocess.Popen(serve, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[0]
            with urllib.request.urlopen(address, timeout=60) as page:
                assert "my-agent" in page.read().decode()
        finally:
            server.terminate()


@functools.cache
def texts_of_the_program() -> tuple[str, ...]:
    """Every string in the source of the program, with a hole where a value is put in."""
    sources = [*(ROOT / "bench").rglob("*.py"), *(ROOT / "tests").glob("browser/test_pages.py")]
    return tuple(text for path in sources for text in strings(ast.parse(path.read_text(encoding="utf-8"))))


def strings(node: ast.AST) -> Iterator[str]:
    for child in ast.walk(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.value
        elif isinstance(child, ast.JoinedStr):
            yield "".join(str(it.value) if isinstance(it, ast.Constant) else HOLE for it in child.values)


def remarks(path: Path, pattern: str) -> Iterator[str]:
    """Docstrings and comments of a source file, all of a page; nothing of one that has no line of this pattern."""
    source = path.read_text(encoding="utf-8")
    if not re.search(pattern, source, re.MULTILINE):
        return
    if path.suffix != ".py":
        yield source
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def exists(name: str) -> bool:
    """Whether `name` is a module of the program, or something in one."""
    try:
        pkgutil.resolve_name(name)
    except ImportError:
        return False
    except AttributeError:
        head, _, last = name.rpartition(".")
        return exists(head) and last in getattr(pkgutil.resolve_name(head), "__annotations__", {})
    return True


def test_every_module_that_a_page_a_docstring_or_a_comment_names_exists() -> None:
    paths = [*PAGES, *(path for room in ("bench", "scripts", "tests") for path in (ROOT / room).rglob("*.py"))]
    paths = [path for path in paths if path.name != "CHANGELOG.md"]
    texts = [(path, text) for path in paths for text in remarks(path, r"^(?!from |import ).*bench\.")]
    dotted = [(path, name) for path, text in texts for name in re.findall(r"(?<![\w./-])bench(?:\.(?!yml)\w+)+", text)]
    assert len(dotted) > 20
    assert [f"{path.relative_to(ROOT)}: {name}" for path, name in dotted if not exists(name)] == []


def test_every_class_that_a_remark_names_with_its_module_is_in_that_module() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "bench").rglob("*.py")}
    classes = {(path.stem, name) for path, text in sources.items() for name in re.findall(r"class (\w+)", text)}
    named = [
        (str(path.relative_to(ROOT)), module, name)
        for path in sources
        for text in remarks(path, r"`\w+\.[A-Z]")
        for module, name in re.findall(r"`(\w+)\.([A-Z]\w+)`", text)
    ]
    assert [it for it in named if it[1:] not in classes] == []


def test_every_message_in_troubleshooting_is_one_of_the_program() -> None:
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = [message.strip() for _, message in re.findall(r"\*\*(`+)(.+?)\1\*\*", text)]
    assert len(quoted) > 40
    assert [message for message in quoted if not any(message in said for said in texts_of_the_program())] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "run --agent nop --case hello_world --sandbox bubblewrap",
            "no isolating sandbox works here: bwrap is not installed",
        ),
        ("run --resume . --sandbox process", "no run.json"),
        ("results show gone.git", "no such repository or run folder"),
        ("site serve .", "does not hold a built site"),
    ],
)
def test_a_message_in_troubleshooting_is_what_the_command_prints(tmp_path: Path, words: str, message: str) -> None:
    command = [str(PROGRAM), *words.split()]
    environment = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert message in done.stderr
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    assert all(part in page for part in message.split(": "))


def test_every_cause_of_a_lost_cell_has_a_remedy() -> None:
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", text, flags=re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"\w+", row)} == set(FAILURES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_examples_exist(page: Path) -> None:
    lines = [
        line[2:]
        for block in blocks(page.read_text(encoding="utf-8"), "console")
        for line in block.splitlines()
        if line.startswith("$ ml-dev-bench")
    ]
    for line in [part.strip() for whole in lines for part in whole.split("&&")]:
        words = shlex.split(line, comments=True)[1:]
        command: click.Command = cli
        context = click.Context(cli)
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            found = command.get_command(context, words.pop(0))
            assert found is not None, line
            command = found
        known = {option for parameter in command.params for option in parameter.opts}
        assert [word for word in words if word.startswith("--") and word.split("=")[0] not in known] == [], line


def test_every_agent_example_is_valid(tmp_path: Path) -> None:
    found = 0
    for page in PAGES:
        for block in blocks(page.read_text(encoding="utf-8"), "yaml"):
            if "\ncommand:" in block:
                (tmp_path / "agent.yaml").write_text(block)
                for name in ("requirements.txt", "package-lock.json"):
                    (tmp_path / name).touch()
                assert isinstance(load_agent(tmp_path).spec, AgentSpec)
                found += 1
    assert found >= 2


def test_every_method_of_the_workspace_that_is_documented_exists() -> None:
    text = (ROOT / "docs" / "adding-a-case.md").read_text(encoding="utf-8")
    table = text[text.index("| `ws.` | gives |") : text.index("Rules that keep")]
    names = {
        name
        for cell in re.findall(r"^\| (`.*?`) \|", table, flags=re.MULTILINE)
        for name in re.findall(r"`([a-z_0-9]+)", cell)
    } - {"ws"}
    attributes = {"rng", "seed", "profile"}
    assert names >= {"call", "drive", "run", "hidden", "json", "journal", "claim", "scale"}
    assert [name for name in names - attributes if not hasattr(Workspace, name)] == []


def test_every_outcome_of_the_failure_table_is_explained() -> None:
    text = (ROOT / "docs" / "concepts.md").read_text(encoding="utf-8")
    for outcome in {failure.outcome for failure in FAILURES.values()} | {"graded"}:
        assert f"| `{outcome}` |" in text


def test_readme_names_the_two_commands_that_the_makefile_has() -> None:
    readme, makefile = (ROOT / "README.md").read_text(), (ROOT / "Makefile").read_text()
    for target in ("demo", "test"):
        assert f"$ make {target}" in readme
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
    assert "make test" in (ROOT / ".ci" / "run").read_text()
