"""An agent that asks its model, and an answer for it."""

from __future__ import annotations

from tests.helpers.provider import Reply, Usage

AGENT = """
import json, os, pathlib, sys, time, urllib.error, urllib.request

def ask(path, stream=False):
    base, key = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
    body = {"model": os.environ["BENCH_MODEL"], "max_tokens": 100, "stream": stream}
    body["messages"] = [{"role": "user", "content": open(os.environ["BENCH_TASK_FILE"]).read()}]
    request = urllib.request.Request(f"{base}/{path}", json.dumps(body).encode(), {"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request) as response:
        return response.read()

pathlib.Path(os.environ["BENCH_OUT_DIR"], "env.json").write_text(json.dumps(dict(os.environ)))
pathlib.Path(os.environ["BENCH_OUT_DIR"], "proc.txt").write_bytes(
    b"".join(p.read_bytes() for p in pathlib.Path("/proc").glob("[0-9]*/environ") if os.access(p, os.R_OK))
    if sys.argv[1:] == ["look"] else b""
)
pathlib.Path("answer.py").write_text("def double(x):\\n    return 2 * x\\n")
"""
GOOD = Reply("hello", usage=Usage(100, 50))
