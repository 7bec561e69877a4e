"""The tools that the model may call: their descriptions, the check of their arguments, and their use."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast

import workspace_files
from processes import Processes
from prompts import LONGEST_OBSERVATION
from shared.texts import cut

Kind = Literal["string", "integer", "number"]
Value: TypeAlias = str | int | float
Arguments: TypeAlias = Mapping[str, Value]
_RUN_S = 200
_LONGEST_WAIT_S = 600
_TREE_DEPTH = 3


class Submitted(Exception):
    """The model says that it is done; the text is its summary."""


class BadArguments(Exception):
    """What is wrong with the arguments of a call, for the model to read."""


@dataclass(frozen=True)
class Parameter:
    name: str
    kind: Kind
    about: str
    required: bool = True


@dataclass(frozen=True)
class Tool:
    name: str
    about: str
    parameters: tuple[Parameter, ...]
    use: Callable[[Arguments], str]

    def schema(self) -> dict[str, object]:
        """The tool in OpenAI's spelling."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.about,
                "parameters": {
                    "type": "object",
                    "properties": {
                        item.name: {"type": item.kind, "description": item.about} for item in self.parameters
                    },
                    "required": [item.name for item in self.parameters if item.required],
                    "additionalProperties": False,
                },
            },
        }

    def read(self, text: str) -> Arguments:
        """The arguments in `text`, or `BadArguments`."""
        try:
            given = json.loads(text or "{}")
        except (ValueError, RecursionError) as error:
            raise BadArguments(f"the arguments are not valid JSON ({error}); send one JSON object") from None
        if not isinstance(given, dict):
            raise BadArguments("the arguments must be one JSON object")
        known = {item.name: item for item in self.parameters}
        if unknown := sorted(set(given) - set(known)):
            raise BadArguments(f"unknown arguments {', '.join(unknown)}; known: {', '.join(known) or 'none'}")
        if missing := [item.name for item in self.parameters if item.required and given.get(item.name) is None]:
            raise BadArguments(f"missing arguments: {', '.join(missing)}")
        return {name: _checked(known[name], value) for name, value in given.items() if value is not None}


class ToolBelt:
    """All tools, with the folder that the model has changed to."""

    def __init__(self, workspace: Path, processes: Processes) -> None:
        self._workspace = workspace
        self._folder = workspace
        self._processes = processes
        self._tools = {tool.name: tool for tool in self._make()}

    def schemas(self) -> list[dict[str, object]]:
        return [tool.schema() for tool in self._tools.values()]

    def use(self, name: str, arguments: str) -> str:
        """What the model is shown of the call; never an exception but `Submitted`."""
        tool = self._tools.get(name)
        if tool is None:
            return f"error: there is no tool {name[:60]!r}; there are: {', '.join(self._tools)}"
        try:
            return cut(tool.use(tool.read(arguments)), LONGEST_OBSERVATION) or "[no output]"
        except BadArguments as error:
            return cut(f"error: {error}", LONGEST_OBSERVATION)
        except (OSError, ValueError) as error:
            return cut(f"error: {_without_folder(error, self._workspace)}", LONGEST_OBSERVATION)

    def _make(self) -> list[Tool]:
        return [*self._command_tools(), *self._file_tools(), *self._other_tools()]

    def _command_tools(self) -> list[Tool]:
        command = Parameter("command", "string", "what bash shall run")
        maybe = Parameter("command", "string", "what bash shall run after the wait", required=False)
        number = Parameter("number", "integer", "as `list_processes` shows it")
        timeout = Parameter("timeout", "number", f"seconds; {_RUN_S} unless told", required=False)
        seconds = Parameter("seconds", "number", f"how long; at most {_LONGEST_WAIT_S}")
        return [
            Tool("run", "Run a command and see its output. It gets no input, and what it leaves running is ended.",
                 (command, timeout), self._run),
            Tool("spawn", "Start a long command, such as a training, in the background. Its output goes to a log file.",
                 (command,), lambda given: self._processes.spawn(str(given["command"]), self._folder)),
            Tool("wait_and_run", "Wait, then run a command if one is given, such as the end of a log.",
                 (seconds, maybe), self._wait_and_run),
            Tool("list_processes", "The state of everything spawned.", (), lambda given: self._processes.describe()),
            Tool("kill_process", "End a spawned process and all it started.", (number,),
                 lambda given: self._processes.kill(int(given["number"]))),
        ]  # fmt: skip

    def _file_tools(self) -> list[Tool]:
        path = Parameter("path", "string", "relative to the current folder")
        start = Parameter("start", "integer", "first line, counted from 1")
        end = Parameter("end", "integer", "last line, included")
        first = Parameter("start", "integer", "first line, 1 unless told", required=False)
        last = Parameter("end", "integer", "last line, included; the end of the file unless told", required=False)
        content = Parameter("content", "string", "the whole new content")
        text = Parameter("text", "string", "the lines to put there")
        return [
            Tool("write_file", "Write a whole file; missing folders are made.", (path, content),
                 lambda given: workspace_files.write_file(self._path(given), str(given["content"]))),
            Tool("read_file", "Read a file, or a range of its lines, with numbers.", (path, first, last), self._read),
            Tool("edit_file", "Replace the lines from `start` to `end`, both included, by `text`, counting lines as "
                 "the file now has them; `end` = `start` - 1 inserts.",
                 (path, start, end, text), self._edit),
        ]  # fmt: skip

    def _other_tools(self) -> list[Tool]:
        place = Parameter("path", "string", "the folder; the current one unless told", required=False)
        depth = Parameter("depth", "integer", f"levels; {_TREE_DEPTH} unless told", required=False)
        folder = Parameter("path", "string", "the folder to go to, relative to the current one")
        summary = Parameter("summary", "string", "what was done and how it was verified")
        return [
            Tool("tree", "Show files and folders with their sizes.", (place, depth), self._tree),
            Tool("change_directory", "Change the current folder of all tools.", (folder,), self._change_directory),
            Tool("submit", "End the work: the workspace is judged as it is now.", (summary,), _submit),
        ]

    def _run(self, given: Arguments) -> str:
        return self._processes.run(str(given["command"]), self._folder, float(given.get("timeout", _RUN_S)))

    def _wait_and_run(self, given: Arguments) -> str:
        waited = self._processes.sleep(min(float(given["seconds"]), _LONGEST_WAIT_S))
        command = given.get("command")
        return f"{waited}\n{self._processes.run(str(command), self._folder, _RUN_S)}" if command else waited

    def _read(self, given: Arguments) -> str:
        start, end = int(given.get("start", 1)), given.get("end")
        return workspace_files.read_file(self._path(given), start, None if end is None else int(end))

    def _edit(self, given: Arguments) -> str:
        return workspace_files.edit_file(self._path(given), int(given["start"]), int(given["end"]), str(given["text"]))

    def _tree(self, given: Arguments) -> str:
        return workspace_files.tree(self._path({"path": ".", **given}), int(given.get("depth", _TREE_DEPTH)))

    def _change_directory(self, given: Arguments) -> str:
        folder = self._path(given).resolve()
        if not folder.is_dir():
            return f"error: {given['path']!r} is not a folder"
        self._folder = folder
        inside = folder.is_relative_to(self._workspace)
        return f"now in {folder.relative_to(self._workspace) if inside else folder}"

    def _path(self, given: Arguments) -> Path:
        return self._folder / os.path.expandvars(str(given["path"]))


def _submit(given: Arguments) -> str:
    raise Submitted(str(given["summary"]))


def _checked(parameter: Parameter, value: object) -> Value:
    kinds: dict[Kind, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float)}
    if isinstance(value, bool) or not isinstance(value, kinds[parameter.kind]):
        raise BadArguments(f"argument {parameter.name} must be of type {parameter.kind}, is {type(value).__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise BadArguments(f"argument {parameter.name} must be a finite number")
    return cast(Value, value)


def _without_folder(error: Exception, workspace: Path) -> str:
    """The message without the place of the workspace, which means nothing to the model."""
    return str(error).replace(f"{workspace}{os.sep}", "").replace(str(workspace), ".")
