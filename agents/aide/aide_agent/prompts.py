"""Everything that is said to the models. Sections are nested maps that become Markdown."""

from __future__ import annotations

import importlib.util
import random
from dataclasses import dataclass
from typing import TypeAlias

from .journal import Journal, Node
from .shared.texts import cut

Sections: TypeAlias = "dict[str, str | list[str] | Sections]"

_LONGEST_MEMORY = 20_000
_MOST_FILES = 60
_PACKAGES = {
    "numpy": "numpy", "pandas": "pandas", "scikit-learn": "sklearn", "statsmodels": "statsmodels", "torch": "torch",
    "torchvision": "torchvision", "torch-geometric": "torch_geometric", "timm": "timm", "xgboost": "xgboost",
    "lightgbm": "lightgbm", "bayesian-optimization": "bayes_opt",
}  # fmt: skip

_WORKER = (
    "You are an experienced machine-learning engineer, as strong in competitions as in everyday development. Below is a"
    " task about the files of a workspace."
)
_DRAFT = f"{_WORKER} Think of an original and sound way to solve it, and write it as one Python program."
_IMPROVE = f"{_WORKER} A program that works is given. Make it better: first say by which change, then write it."
_DEBUG = f"{_WORKER} The program below failed. Say what is wrong with it and how you mend it, then write it anew."
_REVIEW = (
    "You are an experienced machine-learning engineer. Below are a task, a program that was written for it, and what it"
    " printed. Judge whether the run failed or shows a fault, and what it achieved."
)
_FORMAT = (
    "First the plan in plain sentences (3 to 5 of them), then a single fenced Python block with the whole program that"
    " carries it out. Nothing else: no headings, no further text after the block."
)


@dataclass(frozen=True)
class Budget:
    """What is left, told to the model so that it can plan with it."""

    script_s: float
    steps: int
    left_s: float


@dataclass(frozen=True)
class Facts:
    """What stays the same in all prompts of a search."""

    task: str
    preview: str
    starters: str
    folds: int


def draft(facts: Facts, journal: Journal, budget: Budget, generator: random.Random) -> str:
    sections: Sections = {
        "Role": _DRAFT,
        "Task": facts.task,
        "Earlier attempts": _memory(journal),
        "How to answer": _FORMAT,
        "Advice for the plan": [
            "This is one of the first attempts: keep the design simple, without ensembles and without a search for"
            " hyper-parameters.",
            "Take another road than the earlier attempts did, but measure success in the same way.",
            "3 to 5 sentences.",
            "Choose a measure that tells how well the task is solved, unless the task names one.",
            "No exploratory data analysis.",
            "Everything that the task mentions is in the current folder already; there is nothing to unpack or fetch.",
        ],
        "Requirements for the program": _requirements(facts, budget),
        "Packages": _packages(generator),
        **_files(facts, with_data=True),
    }
    return render(sections)


def improve(facts: Facts, journal: Journal, budget: Budget, parent: Node) -> str:
    sections: Sections = {
        "Role": _IMPROVE,
        "Task": facts.task,
        "Earlier attempts": _memory(journal),
        "The program so far": _fenced(parent.code),
        "How to answer": _FORMAT,
        "Advice for the plan": [
            "Change exactly one thing, so small and definite that a run shows whether it helped.",
            "Learn from the earlier attempts; do not repeat what they tried.",
            "3 to 5 sentences on the change and why it should help.",
            "No exploratory data analysis.",
        ],
        "Requirements for the program": _requirements(facts, budget),
        **_files(facts, with_data=False),
    }
    return render(sections)


def debug(facts: Facts, budget: Budget, parent: Node) -> str:
    sections: Sections = {
        "Role": _DEBUG,
        "Task": facts.task,
        "The program that failed": _fenced(parent.code),
        "What it printed": _fenced(output_of(parent)),
        "What a reviewer said": parent.analysis or "nothing",
        "How to answer": _FORMAT,
        "Advice for the plan": [
            "3 to 5 sentences on the cause and its remedy.",
            "Mend the fault; keep the rest of the design.",
            "No exploratory data analysis.",
        ],
        "Requirements for the program": _requirements(facts, budget),
        **_files(facts, with_data=True),
    }
    return render(sections)


def review(facts: Facts, node: Node) -> str:
    sections: Sections = {
        "Role": _REVIEW,
        "Task": facts.task,
        "The program": _fenced(node.code),
        "What it printed": _fenced(output_of(node)),
        "What it did to files": node.files[:_MOST_FILES] or "nothing",
        "The metric": [
            "Take the number from the output alone; never estimate it.",
            "If the task has no measure of its own, the metric is the share of its requirements, from 0 to 1, that the"
            " output shows to be met, and larger is better.",
            "Zero is a value like any other; null means that there is none.",
        ],
    }
    return render(sections)


def output_of(node: Node) -> str:
    """The output with the facts of the run, as models and readers see it."""
    ended = "was ended by its time limit" if node.status is None else f"ended with status {node.status}"
    fault = f"\n[{node.fault}]" if node.fault else ""
    return f"{node.output}\n[the program {ended} after {node.seconds:.1f} s]{fault}".lstrip("\n")


def _requirements(facts: Facts, budget: Budget) -> list[str]:
    said = [
        "Carry out the plan, and print the measure on data that was held out of training. Where the task has no such"
        " measure, let the program check its own result against the requirements and print how many of how many hold.",
        "One program that stands alone; leave nothing out and nothing to be filled in.",
        "It runs in a copy of the workspace, which is its current folder, as the task describes it. Use relative paths"
        " only. What it creates, changes or deletes there becomes the result: all files that the task wants, under"
        " the names that it wants.",
        "If the task wants the program itself as a file, such as `train.py`, let its first line be `# file: train.py`;"
        " it is then stored and run under that name, replacing a file of the workspace. Code that others import must"
        ' not run on import: put what only a run needs under `if __name__ == "__main__":`.',
        "Other source files are changed by writing them anew from within the program.",
        f"It must be done within {duration(budget.script_s)}; it gets no input, and no network beyond the task's.",
        "Put files that are not part of the result into a temporary folder (module `tempfile`).",
    ]
    if facts.folds > 1:
        said.append(f"Where it suits the task and the time, measure by {facts.folds}-fold cross-validation.")
    left = f", {duration(budget.left_s)}" if budget.left_s != float("inf") else ""
    return [*said, f"What is left for the whole search, this attempt included: {budget.steps} attempts{left}."]


def _files(facts: Facts, with_data: bool) -> Sections:
    sections: Sections = {}
    if facts.starters:
        sections["Programs in the workspace"] = facts.starters
    if with_data:
        sections["Data overview"] = facts.preview
    return sections


def _packages(generator: random.Random) -> str:
    """Those that are here, in an order of their own each time, so that none is favoured by its place."""
    here = [name for name, module in _PACKAGES.items() if importlib.util.find_spec(module) is not None]
    if not here:
        return "The standard library alone."
    generator.shuffle(here)
    torch = " For neural networks take PyTorch." if "torch" in here else ""
    return f"Installed are, beside the standard library: {', '.join(here)}.{torch}"


def _memory(journal: Journal) -> str:
    """Plan, findings and metric of each good attempt, the latest kept when there are too many."""
    parts = [f"Plan: {node.plan}\nFindings: {node.analysis}\nMetric: {node.metric}" for node in journal.good]
    while len("\n---\n".join(parts)) > _LONGEST_MEMORY and len(parts) > 1:
        parts.pop(0)
    return cut("\n---\n".join(parts), _LONGEST_MEMORY) or "None that worked."


def _fenced(text: str) -> str:
    return f"````\n{text.rstrip()}\n````"


def duration(seconds: float) -> str:
    """In words, as exact as it needs to be."""
    whole = max(int(seconds), 1)
    parts = [(whole // 3600, "hour"), (whole % 3600 // 60, "minute"), (whole % 60, "second")]
    return " ".join(f"{count} {unit}{'s' if count > 1 else ''}" for count, unit in parts if count)


def render(sections: Sections, depth: int = 1) -> str:
    """Headings by depth, lists as bullets."""
    parts: list[str] = []
    for heading, content in sections.items():
        if isinstance(content, dict):
            text = render(content, depth + 1)
        else:
            text = content if isinstance(content, str) else "\n".join(f"- {item}" for item in content)
        parts.append(f"{'#' * depth} {heading}\n\n{text.strip()}")
    return "\n\n".join(parts)
