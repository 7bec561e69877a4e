"""The actions that need no model: files, scripts, and the end."""

from __future__ import annotations

from collections.abc import Callable

from .action import Action, ActionFault, Arguments, FinalAnswer, whole_number
from .files import Files
from .people import REQUEST_HELP, asked
from .shared.execution import OutputLimit, Ran, run_python

MOST_LINES = 100
_OUTPUT = OutputLimit(longest=30_000, kept=30_000)
_STATEMENT_S = 120.0
_SCRIPT = "name of a Python script, with its folder, relative to the workspace"
_FILE = "name of a file, with its folder, relative to the workspace"


class PlainActions:
    def __init__(self, files: Files, script_s: Callable[[], float], ask_url: str = "") -> None:
        self._files = files
        self._script_s = script_s
        """How long a script, or an answer, may take that is started now."""
        self._ask_url = ask_url

    def all(self) -> list[Action]:
        return [*self._on_files(), *self._on_scripts(), *self._on_people()]

    def _on_files(self) -> list[Action]:
        return [
            Action("List Files", "Show what is in a folder.", {"dir_path": "name of the folder, such as ."},
                   "one name a line; folders end with a slash", self._list),
            Action("Read File", "Read a whole file.", {"file_name": _FILE}, "the content", self._read),
            Action("Write File", "Write a whole file; an older one is replaced.",
                   {"file_name": _FILE, "content": "the whole content"}, "whether it worked", self._write),
            Action("Append File", "Add text at the end of a file.",
                   {"file_name": _FILE, "content": "what to add"}, "whether it worked", self._append),
            Action("Copy File", "Copy a file or folder.",
                   {"source": "what to copy", "destination": "name of the copy"}, "whether it worked", self._copy),
            Action("Undo Edit Script", "Take back the last change of a file; can be done again and again.",
                   {"script_name": _SCRIPT}, "the content as it is now", self._undo),
            Action("Inspect Script Lines", f"Look at lines of a file, at most {MOST_LINES} of them.",
                   {"script_name": _FILE, "start_line_number": "first line, from 1",
                    "end_line_number": "last line, included"},
                   "the lines with their numbers, and how many the file has", self._inspect),
        ]  # fmt: skip

    def _on_scripts(self) -> list[Action]:
        return [
            Action("Execute Script", "Run a Python script that is in the workspace.", {"script_name": _SCRIPT},
                   "what it printed, errors included, and its status", self._execute),
            Action("Python REPL", "Run a piece of Python in a process of its own; nothing is remembered from one to the"
                   " next.", {"command": "the Python code"}, "what it printed, errors included", self._statement),
            Action("Final Answer", "Hand in the workspace as it is now. This ends the work.",
                   {"final_answer": "what was achieved and how it was confirmed"}, "nothing", _final),
        ]  # fmt: skip

    def _on_people(self) -> list[Action]:
        """Only where the run offers it: elsewhere a question would be a wasted step."""
        if not self._ask_url:
            return []
        return [
            Action(REQUEST_HELP, "Ask the person who watches over this work; few questions are answered.",
                   {"request": "one question that can be answered in a few sentences"}, "the answer", self._request),
        ]  # fmt: skip

    def _request(self, given: Arguments) -> str:
        return asked(self._ask_url, given["request"], self._script_s())

    def _list(self, given: Arguments) -> str:
        return self._files.listing(given["dir_path"]) or "[the folder is empty]"

    def _read(self, given: Arguments) -> str:
        return self._files.read(given["file_name"]) or "[the file is empty]"

    def _write(self, given: Arguments) -> str:
        self._files.write(given["file_name"], given["content"])
        return f"{given['file_name']} is written{syntax_note(given['file_name'], given['content'])}"

    def _append(self, given: Arguments) -> str:
        self._files.append(given["file_name"], given["content"])
        return f"the text is added to {given['file_name']}"

    def _copy(self, given: Arguments) -> str:
        self._files.copy(given["source"], given["destination"])
        return f"{given['source']} is copied to {given['destination']}"

    def _undo(self, given: Arguments) -> str:
        text = self._files.undo(given["script_name"])
        return f"the last change is taken back; {given['script_name']} is now:\n{text}"

    def _inspect(self, given: Arguments) -> str:
        lines = self._files.read(given["script_name"]).splitlines()
        start = whole_number(given["start_line_number"], "start_line_number")
        end = min(whole_number(given["end_line_number"], "end_line_number"), len(lines))
        if start < 1 or start > end:
            raise ActionFault(f"there are no such lines; the file has {len(lines)}")
        if end - start + 1 > MOST_LINES:
            raise ActionFault(f"at most {MOST_LINES} lines at once; the file has {len(lines)}")
        shown = "\n".join(f"{number:5d}  {lines[number - 1]}" for number in range(start, end + 1))
        return f"lines {start} to {end} of {len(lines)}:\n{shown}"

    def _execute(self, given: Arguments) -> str:
        path = self._files.path(given["script_name"])
        if not path.is_file():
            raise ActionFault(f"there is no script {given['script_name']!r}")
        # From the workspace, whatever folder the script is in: that is what its paths are relative to.
        return _told(run_python([self._files.shown(path)], self._files.root, self._script_s(), _OUTPUT))

    def _statement(self, given: Arguments) -> str:
        limit = min(self._script_s(), _STATEMENT_S)
        return _told(run_python(["-c", given["command"]], self._files.root, limit, _OUTPUT))


def syntax_note(name: str, text: str) -> str:
    """A word about Python that will not compile, so that it is noticed at once."""
    if not name.endswith(".py"):
        return ""
    try:
        compile(text, name, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"; warning: this is not valid Python: {error}"
    return ""


def _told(ran: Ran) -> str:
    ended = "it was ended by the time limit" if ran.status is None else f"it ended with status {ran.status}"
    return f"The script printed:\n{ran.output or '[nothing]'}\n[{ended} after {ran.seconds:.1f} s]"


def _final(given: Arguments) -> str:
    raise FinalAnswer(given["final_answer"])
