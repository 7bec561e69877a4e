"""Command-line agents as they are: what each program's tools are called, and a scripted model that solves cases.

    script = Conversation(turns("claude_code", "hello_world"))

The model looks at the workspace (and at its environment, which the tests search for the key), writes the solution's
file by the program's own tool, runs it in the program's shell, and says that it is done. Each answer costs other
tokens, so that a lost one is noticed.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench.formats.agent import Agent
from bench.formats.agent_lookup import find_agent
from bench.formats.case import load_cases
from bench.gateway import GatewaySpec
from bench.gateway.config import State
from tests.helpers.cells import ROOT
from tests.helpers.provider import PRICES, Reply, ToolCall, Usage

Json = dict[str, Any]
WORKSPACE = "/workspace"
I_SEE = Reply("I see.")
LOOK = 'ls -la; env > "$BENCH_OUT_DIR/environment.txt"'
PRICES_OF = {
    "anthropic/claude-sonnet-4-5": PRICES,
    "openai/gpt-5.5": {"input": 5.0, "output": 30.0, "cache_read": 0.5},
    "openai/gpt-4o-mini": {"input": 0.15, "output": 0.6, "cache_read": 0.075},
    "gemini/gemini-2.5-pro": {"input": 1.25, "output": 10.0, "cache_read": 0.125},
}
"""US dollars per million tokens, as the providers publish them."""
AFTER = {"hello_world": "python hello.py", "nan_loss_debug": "python test_model.py"}


@dataclass(frozen=True)
class Program:
    """How a program wants to hear it."""

    protocol: str
    write: Callable[[str, str, str | None], ToolCall]
    """The call that writes a file: its name, its new text, its old one."""
    shell: Callable[[str], ToolCall]
    read: Callable[[str], ToolCall] | None = None
    """The call that must come before an existing file is written."""
    delegate: Callable[[str], ToolCall] | None = None
    """The call that starts a subagent with a prompt."""
    report: Reply = I_SEE
    """How the subagent ends."""
    refusals: int = 1
    """Calls that it makes after the first one that a limit refuses, itself included."""


def _patch(name: str, text: str, old: str | None) -> ToolCall:
    lines = [f"+{line}" for line in text.splitlines()]
    if old is not None:
        lines = ["@@", *(f"-{line}" for line in old.splitlines()), *lines]
    kind = "Add" if old is None else "Update"
    body = "\n".join(["*** Begin Patch", f"*** {kind} File: {name}", *lines, "*** End Patch"])
    return ToolCall("apply_patch", body, custom=True)


def _called(name: str, *fields: str, **more: Any) -> Callable[..., ToolCall]:
    return lambda *values: ToolCall(name, {**dict(zip(fields, values, strict=False)), **more})


def _file_tool(name: str, path: str, text: str, prefix: str = f"{WORKSPACE}/") -> Callable[..., ToolCall]:
    return lambda file, content, old: ToolCall(name, {path: f"{prefix}{file}", text: content})


def _read_tool(name: str, path: str) -> Callable[[str], ToolCall]:
    return lambda file: ToolCall(name, {path: f"{WORKSPACE}/{file}"})


def _spawned(prompt: str) -> ToolCall:
    """Vibe offers its subagents to the scripts that the model writes."""
    arg = json.dumps({"name": "part", "message": prompt})
    return ToolCall("run_typescript", {"code": f"async function main() {{ return await tools.agents.spawn({arg}); }}"})


PROGRAMS = {
    "claude_code": Program(
        "messages",
        _file_tool("Write", "file_path", "content"),
        _called("Bash", "command", description="A command"),
        _read_tool("Read", "file_path"),
        _called("Agent", "prompt", description="A part", subagent_type="general-purpose"),
    ),
    "codex": Program(
        "responses",
        _patch,
        _called("exec_command", "cmd"),
        delegate=lambda prompt: ToolCall("spawn_agent", {"message": prompt}, namespace="multi_agent_v1"),
        refusals=2,
    ),
    "opencode": Program(
        "chat",
        _file_tool("write", "filePath", "content"),
        _called("bash", "command", description="A command"),
        _read_tool("read", "filePath"),
        _called("task", "prompt", description="A part", subagent_type="general"),
    ),
    "qwen_code": Program(
        "chat",
        _file_tool("write_file", "file_path", "content"),
        _called("run_shell_command", "command", is_background=False, description="A command"),
        _read_tool("read_file", "file_path"),
        _called("agent", "prompt", description="A part", subagent_type="general-purpose"),
    ),
    "gemini_cli": Program(
        "google",
        _file_tool("write_file", "file_path", "content"),
        _called("run_shell_command", "command", description="A command"),
        _read_tool("read_file", "file_path"),
        _called("invoke_agent", "prompt", agent_name="generalist"),
        Reply("I see.", [ToolCall("complete_task", {"result": "I see."})]),
    ),
    "mistral_vibe": Program(
        "chat",
        _file_tool("write_file", "path", "content"),
        _called("bash", "command"),
        delegate=_spawned,
    ),
    "mini_swe_agent": Program(
        "chat",
        lambda name, text, old: ToolCall("bash", {"command": f"cat > {name} <<'END_OF_FILE'\n{text}END_OF_FILE"}),
        _called("bash", "command"),
    ),
}  # fmt: skip


def solution_of(case: str) -> tuple[str, str, str | None]:
    """Name, text and old text of the one file that solves a case."""
    folder = load_cases(ROOT / "cases", [case])[0].folder
    (script,) = (folder / "solution").iterdir()
    old = folder / "workspace" / script.name
    return script.name, script.read_text(), old.read_text() if old.is_file() else None


def turns(name: str, case: str) -> list[Reply]:
    """The answers that solve a case: a look, the file, a run of it, and a text."""
    file, text, old = solution_of(case)
    if name == "aider":
        return [Reply(f"This solves it.\n\n{file}\n```python\n{text}```\n")]
    program = PROGRAMS[name]
    calls = [program.shell(LOOK)]
    if old is not None and program.read is not None:
        calls.append(program.read(file))
    calls += [program.write(file, text, old), program.shell(AFTER[case])]
    if name == "mini_swe_agent":
        return [
            Reply("Next.", [call]) for call in [*calls, program.shell("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")]
        ]
    return [*(Reply("Next.", [call]) for call in calls), Reply("It is done.")]


@dataclass
class Conversation:
    """A model that gives its answers one after the other, and then says that it is done; each costs other tokens."""

    answers: Sequence[Reply]
    faults: dict[int, Reply] = field(default_factory=dict)
    """By the number of the request, from 1: what it is answered with instead."""
    requests: int = 0
    given: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: Json, protocol: str) -> Reply:
        with self._lock:
            self.requests += 1
            usage = Usage(
                input=1000 + 7 * self.requests,
                output=50 + self.requests,
                cache_read=300 * (self.requests % 2),
                cache_write_5m=11 * self.requests if protocol == "messages" else 0,
                reasoning=3 if protocol != "messages" else 0,
            )
            if (fault := self.faults.get(self.requests)) is not None:
                return replace(fault, usage=usage)
            return replace(self.choose(request), usage=usage)

    def choose(self, request: Json) -> Reply:
        """The answer to a request that is not met by a fault."""
        answer = self.answers[self.given] if self.given < len(self.answers) else Reply("It is done.")
        self.given += 1
        return answer


@dataclass
class Delegation(Conversation):
    """A model that also answers a subagent, which is told by its prompt `mark`, in a conversation of its own."""

    mark: str = "SUBAGENT-7"
    report: Reply = I_SEE
    seen: threading.Event = field(default_factory=threading.Event)

    def __call__(self, request: Json, protocol: str) -> Reply:
        if self._asked_by_subagent(request):
            self.seen.set()
        elif self.given > 1:
            # The call that starts it was answered: a program that does not wait for its subagent must not end before.
            self.seen.wait(60)
        return super().__call__(request, protocol)

    def choose(self, request: Json) -> Reply:
        return self.report if self._asked_by_subagent(request) else super().choose(request)

    def _asked_by_subagent(self, request: Json) -> bool:
        turns = request.get("messages") or request.get("input") or request.get("contents") or []
        said = [it.get("content") or it.get("parts") for it in turns if it.get("role") == "user"]
        parts = [part for it in said if isinstance(it, list) for part in it if isinstance(part, dict)]
        texts = [it for it in said if isinstance(it, str)] + [str(part.get("text", "")) for part in parts]
        return any(self.mark in text for text in texts)


def cli_agent(name: str, model: str = "") -> Agent:
    """An agent that ships, with another model for its main role if one is named."""
    agent = find_agent(name, ROOT / "agents")
    if not model:
        return agent
    return replace(agent, spec=agent.spec.model_copy(update={"models": {"main": model}}))


@dataclass
class NoGateway:
    """In the gateway's place a wire to the provider: what a program sends when nobody is between them."""

    key: str
    name: str
    """The model, as the provider knows it."""

    def alias(self, role: str) -> str:
        return self.name

    real_name = alias

    def role_key(self, role: str) -> str:
        return self.key

    def should_stop(self) -> bool:
        return False

    def settle(self, interrupted: Callable[[], bool]) -> None:
        """Every call has gone by."""

    def state(self) -> State:
        return State(usage=[], notes=[])


@contextlib.contextmanager
def wired(spec: GatewaySpec, port: int, key: str, name: str) -> Iterator[NoGateway]:
    """Forward connections to the gateway's Unix socket to a port of this machine, byte by byte."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(spec.socket))
        spec.socket.chmod(0o666)
        listener.listen(64)
        threading.Thread(target=_accept, args=(listener, port), daemon=True).start()
        yield NoGateway(key, name)


def _accept(listener: socket.socket, port: int) -> None:
    with contextlib.suppress(OSError):
        while True:
            near, _ = listener.accept()
            far = socket.create_connection(("127.0.0.1", port))
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=_pump, args=(source, target), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
