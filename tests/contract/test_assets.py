"""A shared asset and a hub that serves it: built once, and loaded by the libraries that products use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.authoring import open_verifier
from bench.base.errors import InfraError, UserError
from bench.base.files import digest_folder
from bench.base.install import DataFolders
from bench.casekit.model_hub import ModelHub
from bench.casekit.services import Request, Service
from bench.cell.assets import build_asset
from bench.cell.services import running_services
from bench.cell.start_state import prepare_start
from bench.formats.case import load_case
from bench.guest.forwarding import forward, listen
from bench.judge.tensor_files import read_safetensors
from bench.sandbox.process import ProcessSandbox
from tests.helpers.cells import ROOT, make_case, write_files

TINY = ROOT / "cases" / "assets" / "tiny_bert"
BUILD = """
def build(out, seed):
    (out / "sub").mkdir()
    (out / "sub" / "weights.bin").write_bytes(bytes([seed] * 9))
"""
DATA = """
def build(public, hidden, profile, seed):
    (hidden / "seen").write_text(str(sorted(it.name for it in (hidden / "assets").iterdir())))
"""
HUB = """
from bench.casekit.model_hub import ModelHub

hub = ModelHub({"bench/tiny": "assets/tiny"})
"""


def test_an_asset_is_built_once_by_the_digest_of_its_sources(tmp_path: Path) -> None:
    counted = f"from pathlib import Path\n{BUILD}    (Path({str(tmp_path)!r}) / 'builds').open('a').write('x')\n"
    source = write_files(tmp_path / "assets" / "tiny", {"build.py": counted})
    first = build_asset(source, tmp_path / "cache")
    assert build_asset(source, tmp_path / "cache") == first and (tmp_path / "builds").read_text() == "x"
    (first / "sub" / "weights.bin").write_bytes(b"damaged")
    assert (build_asset(source, tmp_path / "cache") / "sub" / "weights.bin").read_bytes() == b"\1" * 9
    (source / "build.py").write_text(counted + "# other\n")
    assert build_asset(source, tmp_path / "cache") != first


def test_an_asset_that_cannot_be_built_says_why(tmp_path: Path) -> None:
    source = write_files(
        tmp_path / "assets" / "tiny", {"build.py": "def build(out, seed):\n    raise ValueError('no')\n"}
    )
    with pytest.raises(InfraError, match=r"the asset tiny cannot be built: (?s:.*)ValueError: no"):
        build_asset(source, tmp_path / "cache")
    assert not list((tmp_path / "cache" / "assets").glob("tiny-*"))


def test_a_case_gets_its_assets_and_changes_with_them(tmp_path: Path) -> None:
    write_files(tmp_path / "assets", {"tiny/build.py": BUILD, "open/build.py": BUILD})
    assets = {"tiny": {}, "open": {"workspace": "models/open"}}
    case = make_case(tmp_path, {"data.py": DATA}, assets=assets)
    start = prepare_start(case, "mini", 3, tmp_path / "cache")
    assert (start.hidden / "assets" / "tiny" / "sub" / "weights.bin").read_bytes() == b"\1" * 9
    assert (start.workspace / "models" / "open" / "sub" / "weights.bin").is_file()
    assert (start.hidden / "seen").read_text() == "['tiny']"
    write_files(tmp_path / "assets", {"open/build.py": BUILD + "#\n"})
    assert load_case(case.folder).digest != case.digest
    with pytest.raises(UserError, match=r"`assets\.absent`"):
        make_case(tmp_path, assets={"absent": {}})


def test_the_tiny_bert_is_the_same_everywhere_and_readable(tmp_path: Path) -> None:
    built = [build_asset(TINY, tmp_path / name) for name in ("one", "two")]
    assert digest_folder(built[0]) == digest_folder(built[1])
    tensors = read_safetensors((built[0] / "model.safetensors").read_bytes())
    config, words = (
        json.loads((built[0] / "config.json").read_text()),
        (built[0] / "vocab.txt").read_text().split("\n")[:-1],
    )
    assert len(words) == len(set(words)) == config["vocab_size"]
    assert tensors["embeddings.word_embeddings.weight"].shape == (config["vocab_size"], config["hidden_size"])
    assert (built[0] / "model.safetensors").stat().st_size < 200_000


def ask(
    hub: ModelHub, folder: Path, path: str, method: str = "GET", **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    service = Service("hub", folder, 1, folder / "hub.jsonl")
    answer = hub(Request(method, path, {}, headers, b""), service)
    return answer.status, answer.body, dict(answer.headers)


def test_no_path_leads_out_of_a_repository(tmp_path: Path) -> None:
    write_files(tmp_path, {"assets/tiny/sub/a.bin": b"0123456789", "secret.txt": "x", "assets/tiny2/b": "x"})
    hub = ModelHub({"bench/tiny": "assets/tiny"})
    address = "/bench/tiny/resolve/main"
    for name in ("../../secret.txt", "sub/../../../secret.txt", "/etc/passwd", "", "sub", "../tiny2/b", "sub/a.bin\0"):
        assert ask(hub, tmp_path, f"{address}/{name}")[0] == 404, name
    assert ask(hub, tmp_path, "/bench/tiny2/resolve/main/b")[2]["X-Error-Code"] == "RepoNotFound"
    assert ask(hub, tmp_path, "/bench/tiny/resolve/v9/sub/a.bin")[2]["X-Error-Code"] == "RevisionNotFound"
    assert ask(hub, tmp_path, f"{address}/sub/a.bin", Range="bytes=2-4")[:2] == (206, b"234")
    assert ask(hub, tmp_path, f"{address}/sub/a.bin", Range="bytes=7-")[1] == b"789"
    assert ask(hub, tmp_path, f"{address}/sub/a.bin", Range="bytes=50-60")[0] == 416
    assert ask(hub, tmp_path, f"{address}/sub/a.bin", "PUT")[0] == 405
    said = ask(hub, tmp_path, "/bench/tiny/resolve/v\r\nSet-Cookie: \u20ac/sub/a.bin")[2]
    assert said["X-Error-Message"] == "Invalid rev id: v??Set-Cookie: ?"


CLIENT = """
import sys
from huggingface_hub import HfApi, file_exists, hf_hub_download, snapshot_download
from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError

folder = snapshot_download("bench/tiny")
assert open(folder + "/sub/weights.bin", "rb").read() == b"\\1" * 9
path = hf_hub_download("bench/tiny", "sub/weights.bin")
assert HfApi().model_info("bench/tiny").sha == path.split("/snapshots/")[1][:40]
assert HfApi().list_repo_files("bench/tiny") == ["sub/weights.bin"]
assert [it.path for it in HfApi().list_repo_tree("bench/tiny", recursive=True)] == ["sub", "sub/weights.bin"]
assert file_exists("bench/tiny", "sub/weights.bin") and not file_exists("bench/tiny", "other")
for call, error in (
    (lambda: hf_hub_download("bench/tiny", "absent"), EntryNotFoundError),
    (lambda: hf_hub_download("bench/absent", "x"), RepositoryNotFoundError),
    (lambda: hf_hub_download("bench/tiny", "sub/weights.bin", revision="v9"), RevisionNotFoundError),
):
    try:
        call()
    except error:
        continue
    raise SystemExit(f"not {error}")
print("all")
"""


def run_client(hub: Path, hidden: Path, room: Path, code: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A Python program with the real libraries, whose hub is the service in the file `hub`."""
    sockets = room / "s"
    sockets.mkdir()
    with running_services(hub, ["hub"], hidden, room, sockets, 1) as paths, listen() as listener:
        forward(listener, str(paths["hub"]))
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        variables = {**os.environ, "HF_ENDPOINT": address, "HF_HOME": str(room / "home"), "NO_PROXY": "*", **env}
        command = [sys.executable, "-c", code]
        return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)


def test_the_real_library_downloads_from_it(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    write_files(tmp_path, {"services.py": HUB, "hidden/assets/tiny/sub/weights.bin": b"\1" * 9})
    done = run_client(tmp_path / "services.py", tmp_path / "hidden", tmp_path, CLIENT)
    assert done.stdout.strip() == "all", done.stderr[-2000:]
    events: list[dict[str, Any]] = [json.loads(line) for line in (tmp_path / "hub.jsonl").read_text().splitlines()]
    assert {"listed", "file", "no_file", "not_found"} <= {it["event"] for it in events}


PRODUCT = """
import os
import urllib.request


def double(x):
    address = os.environ["HF_ENDPOINT"] + "/bench/tiny/resolve/main/sub/weights.bin"
    with urllib.request.urlopen(address, timeout=20) as answer:
        return x * (1 + answer.read()[0])
"""
CHECKS = '''
from bench.judge import check, integer


@check(required=True)
def doubles(ws):
    """The weight of the model doubles a number."""
    x = ws.rng.randint(10, 10**6)
    assert integer(ws.call("answer:double", x)) == 2 * x, "not doubled"
    assert [it["file"] for it in ws.journal("hub", during="judging")][-1:] == ["sub/weights.bin"], "no download"
'''


@pytest.mark.slow
def test_a_case_whose_product_loads_from_the_hub_proves_itself(tmp_path: Path) -> None:
    files: dict[str, str | bytes | None] = {
        "check.py": CHECKS, "services.py": HUB, "solution/answer.py": PRODUCT, "hidden/driver.py": None,
        "task.md": "Complete `double(x)` in `answer.py` with the model `bench/tiny` of the hub at `HF_ENDPOINT`.\n",
    }  # fmt: skip
    write_files(tmp_path / "cases" / "assets", {"tiny/build.py": BUILD})
    hub = {"hub": {"env": "HF_ENDPOINT", "during": ["agent", "judging"]}}
    case = make_case(tmp_path / "cases", files, services=hub, assets={"tiny": {}})
    places = DataFolders(cases=tmp_path / "cases", agents=ROOT / "agents", site=ROOT / "site", cache=tmp_path / "cache")
    with open_verifier(places, ProcessSandbox()) as verifier:
        assert [(proof.name, proof.detail) for proof in verifier.verify(case) if not proof.ok] == []
