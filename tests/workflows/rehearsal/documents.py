"""Every YAML text that the project shows or hands out: its workflows and actions, templates, pages."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench.cli.init import WORKFLOWS, render
from bench.cli.init_settings import Settings
from tests.workflows.rehearsal.stage import ROOT

PIN = "0123456789abcdef0123456789abcdef01234567"
_BLOCK = re.compile(r"^(?P<indent> *)```ya?ml\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^ *```ya?ml\b", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True)
class Block:
    """A YAML block of a page."""

    name: str
    """Of the page and the block's number in it, fit for a file."""
    text: str

    @property
    def document(self) -> Any:
        return yaml.safe_load(self.text)

    @property
    def is_workflow(self) -> bool:
        return re.search(r"^jobs:", self.text, re.MULTILINE) is not None


def pages() -> list[Path]:
    """Every Markdown file of the work tree."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    return [ROOT / name for name in sorted(filter(None, listed)) if (ROOT / name).is_file()]


def blocks() -> list[Block]:
    """Every YAML block of every page."""
    found = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        slug = "-".join(page.relative_to(ROOT).with_suffix("").parts)
        matches = list(_BLOCK.finditer(text))
        assert len(matches) == len(_FENCE.findall(text)), f"{page}: a YAML block that cannot be extracted"
        for number, match in enumerate(matches, start=1):
            block = re.sub(f"^{match['indent']}", "", match["text"], flags=re.MULTILINE)
            found.append(Block(f"{slug}-{number}.yml", block))
    return found


def templates(reference: str = f"{PIN} # v1.2.3") -> dict[str, str]:
    """The workflows that `init` writes, by name."""
    settings = Settings(cron="23 2 * * *", keys=["OPENAI_API_KEY"], control="react")
    paths = [Path(f".github/workflows/mldb-{name}.yml") for name in WORKFLOWS]
    found = {path.name: render(path, settings, reference) for path in paths}
    # The night with machines of its own.
    night = next(path for path in paths if path.name == "mldb-nightly.yml")
    return {**found, "mldb-nightly-ec2.yml": render(night, settings.model_copy(update={"engine": "ec2"}), reference)}


def documented_workflows() -> list[tuple[str, str]]:
    """The YAML blocks that are whole workflows, and the templates of `init`."""
    found = [(block.name, block.text) for block in blocks() if block.is_workflow]
    return [*found, *templates().items()]


def step_actions() -> list[Path]:
    return sorted((ROOT / ".github" / "actions").glob("*/action.yml"))
