"""A whole agent on the official openai client: one tool, a loop, the benchmark's variables.

Ends with 0: done; 1: the model did not answer; 4: no time left.
"""

import json
import os
import subprocess
import sys
import time

import openai

SYSTEM = "Solve the task with the tool `run`. Nobody can answer questions. When you are done, answer in one sentence."
RUN = {
    "name": "run",
    "description": "Run a command with bash, in the workspace.",
    "parameters": {
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
    },
}


def run(arguments: str, deadline: float) -> str:
    """What the command printed, cut in the middle, with its status. Bad arguments are told to the model."""
    try:
        command = json.loads(arguments)["command"]
        left = max(deadline - time.time() - 5, 1)
        done = subprocess.run(
            ["bash", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, timeout=min(600, left), check=False
        )
    except (ValueError, LookupError, TypeError, OSError, subprocess.TimeoutExpired) as error:
        return f"error: {error}"
    text = (done.stdout + done.stderr).decode("utf-8", "replace")
    shown = text if len(text) <= 8000 else f"{text[:4000]}\n[{len(text) - 8000} characters cut]\n{text[-4000:]}"
    return f"{shown}\n[status {done.returncode}]"


def main() -> int:
    client = openai.OpenAI(max_retries=0)  # address and key from OPENAI_BASE_URL and OPENAI_API_KEY
    deadline = float(os.environ["BENCH_DEADLINE"])
    with open(os.environ["BENCH_TASK_FILE"], encoding="utf-8") as file:
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": file.read()}]
    while time.time() < deadline:
        try:
            answer = client.chat.completions.create(
                model=os.environ["BENCH_MODEL"], messages=messages, tools=[{"type": "function", "function": RUN}]
            )
        except openai.OpenAIError as error:  # 402 is a limit of the run: stop asking
            print(error, file=sys.stderr)
            return 1
        message = answer.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return 0
        for call in message.tool_calls:
            result = run(call.function.arguments, deadline)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    return 4


if __name__ == "__main__":
    sys.exit(main())
