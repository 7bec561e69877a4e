"""A first agent: asks the model for one shell script after another, runs each, and ends when the model says DONE."""

import json
import os
import subprocess
import urllib.error
import urllib.request

RULES = "Answer with one bash script and nothing else. Its output is shown to you. Answer with the word DONE to end."


def ask(messages):
    body = {"model": os.environ["BENCH_MODEL"], "messages": messages}
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
    address = f"{os.environ['OPENAI_BASE_URL']}/chat/completions"
    request = urllib.request.Request(address, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)["choices"][0]["message"]["content"] or ""


def main():
    with open(os.environ["BENCH_TASK_FILE"], encoding="utf-8") as file:
        messages = [{"role": "system", "content": RULES}, {"role": "user", "content": file.read()}]
    for _ in range(int(os.environ["BENCH_MAX_STEPS"])):
        try:
            said = ask(messages).strip()
        except urllib.error.HTTPError as refused:
            # 402: a limit is reached, and every later call would be refused, too.
            print(f"the gateway answered {refused.code}")
            return
        if said == "DONE":
            return
        script = "\n".join(line for line in said.splitlines() if not line.startswith("```"))
        try:
            done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120, check=False)
            result = f"status {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-2000:]}"
        except subprocess.TimeoutExpired:
            result = "stopped after 120 seconds"
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": result}]


if __name__ == "__main__":
    main()
