"""The models in their three roles, asked for one text at a time."""

from __future__ import annotations

from .settings import Role, Settings
from .shared.chat_model import Answer, ChatModel, PromptRefused, Question
from .shared.events import Events

BLOCK = 10_000
_TEMPERATURES: dict[Role, float] = {"main": 0.5, "fast": 0.01, "edit": 0.01}


class Models:
    def __init__(self, settings: Settings, chat: ChatModel, events: Events) -> None:
        self._settings = settings
        self._chat = chat
        self._events = events

    @property
    def calls_left(self) -> int | None:
        """None: as many as one likes."""
        return None if self._settings.calls is None else self._settings.calls - self._chat.calls

    def ask(self, role: Role, prompt: str, purpose: str, stop: str = "") -> Answer:
        question = Question(self._settings.models[role], prompt, _TEMPERATURES[role], stop=stop)
        answer = self._chat.ask(question)
        self._events.write("answer", role=role, purpose=purpose, text=answer.text, usage=answer.usage)
        return answer

    def fast(self, prompt: str, purpose: str) -> str:
        """The fast model's text; says so when the provider would not take the prompt."""
        try:
            return self.ask("fast", prompt, purpose).text.strip() or "[the model said nothing]"
        except PromptRefused as refusal:
            return f"[the model could not be asked: {refusal}]"


def blocks(text: str, size: int = BLOCK) -> list[str]:
    """`text` in pieces of whole lines, each of at most `size` characters; a longer line is cut."""
    found: list[str] = []
    for line in text.splitlines(keepends=True):
        for piece in (line[start : start + size] for start in range(0, len(line), size)):
            if found and len(found[-1]) + len(piece) <= size:
                found[-1] += piece
            else:
                found.append(piece)
    return found
