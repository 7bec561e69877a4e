"""The saved folder is compared with the hub's repository, and the description with that."""

import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.judge import Workspace, check, close, integer, mapping, once, read_pretrained, sequence, string

NAME, INFO = "bench/bert-base-uncased", "model_info.json"
FACTS = ("hidden_size", "num_attention_heads", "num_hidden_layers", "vocab_size")
KINDS = {
    "config": r"config\.json",
    "weights": r"(.*\.safetensors|pytorch_model.*\.bin)(\.index\.json)?",
    "tokenizer": r"tokenizer_config\.json|vocab\.txt|tokenizer\.json",
}
FORMS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def of_hub(ws: Workspace, file: str) -> Path:
    return Path(ws.hidden(f"uncased/{file}"))


@once
def weights(ws: Workspace) -> dict[str, Any]:
    from safetensors.numpy import load_file

    return {name: part for shard in SHARDS for name, part in load_file(of_hub(ws, shard)).items()}


def info(ws: Workspace) -> dict[str, Any]:
    return mapping(ws.json(INFO), keys=["model_name", "model_path", "files", "architecture"])


def folder(ws: Workspace) -> str:
    path = string(info(ws)["model_path"])
    plain = posixpath.normpath(path)
    assert path and plain != "." and not plain.startswith(("/", "..")), (
        f"model_path {path[:100]!r} is no folder of its own"
    )
    return plain


@once
def saved(ws: Workspace) -> Any:
    forms = [form for form in FORMS if ws.exists(f"{folder(ws)}/{form}")]
    assert len(forms) == 1, f"the weights are there as {forms}, not in one form"
    return read_pretrained(ws, folder(ws), max_mb=20)


def assert_kept(ws: Workspace, file: str, found: dict[str, Any]) -> None:
    """What the hub's file says is said; libraries add to it."""
    truth = json.loads(of_hub(ws, file).read_text())
    wrong = [key for key, value in truth.items() if key not in found or found[key] != value]
    assert not wrong, f"{file} differs from the hub's in {wrong}"


def vocabularies(ws: Workspace) -> Iterator[dict[str, int]]:
    """Ids of the saved tokenizer's words, by each file that has them: libraries take the one or the other."""
    plain, whole = (f"{folder(ws)}/{file}" for file in ("vocab.txt", "tokenizer.json"))
    if ws.exists(plain):
        words = ws.text(plain, max_mb=1).split("\n")
        yield {word.rstrip("\r"): number for number, word in enumerate(words) if word.strip()}
    if ws.exists(whole) or not ws.exists(plain):
        model = mapping(mapping(ws.json(whole), keys=["model"])["model"], keys=["vocab"])
        yield {word: integer(number) for word, number in mapping(model["vocab"]).items()}
        assert_cuts_alike(ws, mapping(ws.json(whole)))


def assert_cuts_alike(ws: Workspace, whole: dict[str, Any]) -> None:
    """What tokenizer.json says of cleaning and cutting a text is what the hub's settings mean to a BERT."""
    kept = [key for key in ("truncation", "padding") if whole.get(key) is not None]
    assert not kept, f"tokenizer.json has {kept}: not every text gets all its ids, or only these"
    lacks = [key for key in ("normalizer", "pre_tokenizer", "post_processor") if not whole.get(key)]
    assert not lacks, f"tokenizer.json has no {lacks}"
    settings = json.loads(of_hub(ws, "tokenizer_config.json").read_text())
    wanted: dict[str, dict[str, Any]] = {
        "model": {"type": "WordPiece", "unk_token": "[UNK]"}
        | {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100},
        "normalizer": {"lowercase": settings["do_lower_case"], "strip_accents": settings["strip_accents"]}
        | {"clean_text": True, "handle_chinese_chars": True},
    }
    for part, values in wanted.items():
        # Files of early versions give the model no type.
        found = {"type": "WordPiece"} | mapping(whole[part])
        # A normalizer can be put together of other parts, which are not looked into.
        if part == "model" or found["type"] == "BertNormalizer":
            odd = [key for key, value in values.items() if found.get(key) != value]
            assert not odd, f"tokenizer.json: {part} has {odd} other than the hub's tokenizer"


@check(weight=2, required=True)
def model_was_fetched(ws: Workspace) -> None:
    """The hub handed out both shards of the uncased model (its own record)."""
    events = [event for event in ws.journal("hub") if event.get("event") == "file" and event["method"] == "GET"]
    got = {event["file"] for event in events if event["repository"] == NAME}
    missing = sorted(set(SHARDS) - got)
    assert not missing, f"{missing} of {NAME} were never fetched; fetched were {sorted(got)[:6]}"


@check(weight=3, required=True)
def architecture_is_right(ws: Workspace) -> None:
    """The description has the model's name and the four sizes of its configuration."""
    assert string(info(ws)["model_name"]) == NAME, f"model_name is {info(ws)['model_name'][:60]!r}"
    found, config = mapping(info(ws)["architecture"], keys=FACTS), json.loads(of_hub(ws, "config.json").read_text())
    for key in FACTS:
        value = integer(found[key])
        assert value == config[key], f"{key} is {value}, the configuration has {config[key]}"


@check(weight=2, required=True)
def listed_files_exist(ws: Workspace) -> None:
    """Every listed path is a saved file, below model_path, and no file of the three kinds is left out."""
    lists = mapping(info(ws)["files"], keys=list(KINDS))
    there = [path for path in ws.files() if posixpath.dirname(path) == folder(ws)]
    for kind, pattern in KINDS.items():
        paths = [posixpath.normpath(string(path)) for path in sequence(lists[kind])]
        assert paths, f"files has no path for {kind}"
        for path in paths:
            assert path.startswith(f"{folder(ws)}/") and ws.exists(path), f"{kind}: {path[:100]!r} is no saved file"
        left = [path for path in there if re.fullmatch(pattern, posixpath.basename(path)) and path not in paths]
        assert not left, f"{kind} leaves out {left[:3]}"


@check(weight=6, required=True)
def weights_equal_the_hubs(ws: Workspace) -> None:
    """The saved weights have the names, types and values of the hub's, and its configuration."""
    assert_kept(ws, "config.json", mapping(saved(ws).config))
    found, wanted = saved(ws).arrays, weights(ws)
    odd = sorted(set(found) ^ set(wanted))
    assert not odd, f"{len(odd)} names are missing or too many, e.g. {odd[:2]}"
    for name, part in wanted.items():
        assert found[name].dtype == np.float32, f"{name} is {found[name].dtype}, not float32"
        close(found[name], part, rtol=0, atol=1e-8, what=name)


@check(weight=4, required=True)
def tokenizer_gives_the_same_ids(ws: Workspace) -> None:
    """The saved tokenizer has the words of the hub's under the same ids, and its settings."""
    words = of_hub(ws, "vocab.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    wanted = {word: number for number, word in enumerate(words)}
    for found in vocabularies(ws):
        wrong = [word for word in wanted if found.get(word) != wanted[word]]
        assert not wrong, f"{len(wrong)} of {len(wanted)} words have other ids, e.g. {wrong[0]!r}"
        assert len(found) == len(wanted), f"the tokenizer has {len(found)} words, the hub's {len(wanted)}"
    assert_kept(ws, "tokenizer_config.json", mapping(ws.json(f"{folder(ws)}/tokenizer_config.json")))
