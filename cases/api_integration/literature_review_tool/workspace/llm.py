"""One question to the language model; see language_model.txt for what it understands."""

import json
import os
import urllib.request


def ask(text: str) -> str:
    """The model's answer to one message."""
    body = {"model": "reader", "messages": [{"role": "user", "content": text}]}
    request = urllib.request.Request(
        os.environ["LLM_URL"].rstrip("/") + "/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]
