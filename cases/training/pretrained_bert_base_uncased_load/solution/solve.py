"""Fetch the repository, save it as a folder, describe it."""

import json
import os
import urllib.request
from pathlib import Path

HUB, NAME = os.environ["HF_ENDPOINT"].rstrip("/"), "bench/bert-base-uncased"
OUT = Path("saved_model")
FACTS = ["hidden_size", "num_attention_heads", "num_hidden_layers", "vocab_size"]


def fetch(path: str) -> bytes:
    with urllib.request.urlopen(f"{HUB}/{path}", timeout=60) as answer:
        return answer.read()


def main() -> None:
    OUT.mkdir(exist_ok=True)
    files: dict[str, list[str]] = {"config": [], "weights": [], "tokenizer": []}
    for entry in json.loads(fetch(f"api/models/{NAME}"))["siblings"]:
        file = entry["rfilename"]
        content = fetch(f"{NAME}/resolve/main/{file}")
        (OUT / file).write_bytes(content)
        kind = {"config.json": "config", "vocab.txt": "tokenizer", "tokenizer_config.json": "tokenizer"}.get(file)
        if kind or file.startswith("model"):
            files[kind or "weights"].append((OUT / file).as_posix())
    config = json.loads((OUT / "config.json").read_text())
    info = {"model_name": NAME, "model_path": OUT.as_posix(), "files": files}
    info["architecture"] = {key: config[key] for key in FACTS}
    Path("model_info.json").write_text(json.dumps(info, indent=2))


if __name__ == "__main__":
    main()
