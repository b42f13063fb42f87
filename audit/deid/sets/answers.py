"""A file of model answers that survives a stopped or killed run; the next run asks the rest."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from audit.shelf import digest_json

ANSWERS = "answers.jsonl"


class AnswerFile:
    """A private file of lines `[key, answer]`; memory holds only the offset of each line.

    A line that a killed run left incomplete at the end of the file is removed.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.fdopen(os.open(path, flags, 0o600), "r+b")
        self._places: dict[str, int] = {}
        end = 0
        for line in self._file:
            try:
                key, _ = json.loads(line)
            except (ValueError, TypeError):
                break
            if not line.endswith(b"\n"):
                break
            self._places[key] = end
            end += len(line)
        self._file.truncate(end)

    @staticmethod
    def key(question: object) -> str:
        """Return the key of a question, a digest of its JSON."""
        return digest_json(question, sort_keys=False)[:32]

    def __contains__(self, key: str) -> bool:
        """Whether the file has an answer for this key."""
        return key in self._places

    def get(self, key: str) -> Any:
        """Return the answer for a key; None if there is none."""
        if key not in self._places:
            return None
        self._file.seek(self._places[key])
        return json.loads(self._file.readline())[1]

    def keep(self, key: str, answer: Any) -> None:
        """Write an answer to the file; it survives if the process is killed afterwards."""
        self._places[key] = self._file.seek(0, os.SEEK_END)
        self._file.write(json.dumps([key, answer]).encode("ascii") + b"\n")
        self._file.flush()

    def get_or_ask(self, question: object, ask: Callable[[], Any]) -> tuple[Any, bool]:
        """Return the answer to a question, and whether the file had it; else ask and keep it.

        Question and answer are JSON values.
        """
        key = self.key(question)
        if key in self:
            return self.get(key), True
        answer = ask()
        self.keep(key, answer)
        return answer, False

    def close(self) -> None:
        """Close the file."""
        self._file.close()
