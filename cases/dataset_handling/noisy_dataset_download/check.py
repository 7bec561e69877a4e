"""Is the whole archive there, and do the tables say what its label file says?"""

import json
import posixpath
import re
from collections import Counter
from pathlib import Path

from bench.judge import Labels, Workspace, check, holds_only, mapping, once, string, submission


@once
def truth(ws: Workspace) -> dict[str, dict[str, str]]:
    """`files`: path in the archive -> SHA-256. `labels`: image path -> label at 50 per cent noise."""
    loaded: dict[str, dict[str, str]] = json.loads(Path(ws.hidden("truth.json")).read_text())
    return loaded


@once
def labels_by_path(ws: Workspace) -> dict[str, str]:
    """The agent's label of every image."""
    paths = list(truth(ws)["labels"])
    name, ids = "all_noisy_labels_50.csv", {"path": paths}
    return dict(zip(paths, submission(ws, name, ids=ids, columns={"label": Labels()})["label"], strict=True))


def compare_counts(ws: Workspace, name: str, split: str) -> None:
    expected = Counter(label for path, label in truth(ws)["labels"].items() if path.startswith(f"{split}/"))
    wnids = sorted(expected)
    texts = submission(ws, name, ids={"class": wnids}, columns={"count": Labels()})["count"]
    for wnid, text in zip(wnids, (text.strip() for text in texts), strict=True):
        assert re.fullmatch("[0-9]{1,9}", text), f"{name} has the count {text[:20]!r} for {wnid}, not a whole number"
        assert int(text) == expected[wnid], (
            f"{name} says {text} for {wnid}, the {split} images so labelled are {expected[wnid]}"
        )


@check(weight=2, required=True)
def archive_was_downloaded(ws: Workspace) -> None:
    """The mirror handed out the complete archive at least once (its own journal says so)."""
    answers = [event for event in ws.journal("mirror") if event.get("event") == "archive"]
    whole = sum(event.get("complete") is True for event in answers)
    assert whole, f"the mirror was asked {len(answers)} times for the archive and never handed out all of it"


@check(weight=5, required=True)
def tree_is_complete(ws: Workspace) -> None:
    """Every file of the archive lies unchanged below dataset_path, and train and val hold nothing else."""
    path = string(mapping(ws.json("dataset_info.json")).get("dataset_path"))
    root = posixpath.normpath(path)
    assert not root.startswith(("/", "..")), f"dataset_path {path[:100]!r} is not a path inside the workspace"
    expected = truth(ws)["files"]
    holds_only(ws, root, expected, parts=("train", "val"))
    changed = [name for name, digest in expected.items() if ws.sha256(posixpath.join(root, name)) != f"sha256:{digest}"]
    assert not changed, f"{len(changed)} of {len(expected)} files differ from the archive, e.g. {changed[0]}"


@check(weight=2)
def label_table_covers_the_images(ws: Workspace) -> None:
    """The label table has the two columns and one row for each image of both splits."""
    labels_by_path(ws)


@check(weight=5, required=True)
def every_noisy_label(ws: Workspace) -> None:
    """Every row of the label table is the label at the 50 per cent rate."""
    labels, expected = labels_by_path(ws), truth(ws)["labels"]
    wrong = sorted(path for path in expected if labels[path] != expected[path])
    assert not wrong, f"{len(wrong)} of {len(expected)} labels are wrong, e.g. {labels[wrong[0]][:40]!r} for {wrong[0]}"


@check(weight=3, required=True)
def train_counts(ws: Workspace) -> None:
    """Training images are counted by their noisy label."""
    compare_counts(ws, "train_class_counts.csv", "train")


@check(weight=2, required=True)
def validation_counts(ws: Workspace) -> None:
    """Validation images are counted by their label."""
    compare_counts(ws, "validation_class_counts.csv", "val")
