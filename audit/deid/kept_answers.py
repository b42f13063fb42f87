"""A language model's answers while a corpus is built: kept as they come, so that none is lost.

Comes in: prompts, a file in the growing folder. Goes out: answers, those of an earlier build that
was stopped or killed out of the file. Torch-free.

The unit is a batch of prompts, under the digest of the model and of all of its prompts: an answer
may depend by rounding on the prompts beside it, and so a build that goes on has the bytes of one
that was never stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from audit.deid.translation_step import Answerer
from audit.progress import Meter

BatchListener = Callable[[float, bool], None]
"""Told after each batch: its share of the prompts of this call, and whether its answers were there
already."""


class AskedModel:
    """A language model that is asked in batches of like length; a prompt once in a call.

    Parameters
    ----------
    model
        Answers prompts; the answers must not depend on chance.
    digest
        Of all that decides its answers.
    n_at_once
        Prompts of a batch.
    """

    def __init__(self, model: Answerer, *, digest: str, n_at_once: int) -> None:
        self._model, self._digest, self._n_at_once = model, digest, n_at_once
        self._file: AnswerFile | None = None
        self._on_batch: BatchListener = lambda share, is_known: None

    def __call__(self, prompts: Sequence[str]) -> list[str]:
        """Return an answer for each prompt, in the order of the prompts."""
        order = sorted(dict.fromkeys(prompts), key=lambda prompt: (len(prompt), prompt))
        found: dict[str, str] = {}
        for start in range(0, len(order), self._n_at_once):
            batch = order[start : start + self._n_at_once]
            answers, is_known = self._answered(batch)
            found.update(zip(batch, answers, strict=True))
            self._on_batch(len(batch) / len(order), is_known)
        return [found[prompt] for prompt in prompts]

    def keep_in(self, file: AnswerFile | None, on_batch: BatchListener) -> None:
        """Keep answers in a file from now on, and take from it what it has; None for no file."""
        self._file, self._on_batch = file, on_batch

    def _answered(self, batch: list[str]) -> tuple[list[str], bool]:
        if self._file is None:
            return self._model(batch), False
        content = json.dumps([self._digest, *batch]).encode("ascii")
        key = hashlib.sha256(content).hexdigest()[:32]
        kept = self._file.get(key)
        if kept is not None and len(kept) == len(batch):
            return kept, True
        answers = self._model(batch)
        self._file.add(key, answers)
        return answers, False


class AnswerFile:
    """Lines `[key, answers]`, private; in memory is where each of them begins.

    Parameters
    ----------
    path
        A file that may be there: what a kill left half written at its end is cut off.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.fdopen(os.open(path, flags, 0o600), "r+b")
        os.fchmod(self._file.fileno(), 0o600)
        self._places: dict[bytes, int] = {}
        self._end = 0
        for line in self._file:
            entry = _entry(line)
            if entry is None:
                break
            self._places[bytes.fromhex(entry[0])] = self._end
            self._end += len(line)
        self._file.truncate(self._end)

    def __len__(self) -> int:
        """Return how many batches are kept."""
        return len(self._places)

    def get(self, key: str) -> list[str] | None:
        """Return the answers under a key of 32 hexadecimal digits, if they are kept."""
        place = self._places.get(bytes.fromhex(key))
        if place is None:
            return None
        self._file.seek(place)
        entry = _entry(self._file.readline())
        return None if entry is None or entry[0] != key else entry[1]

    def add(self, key: str, answers: Sequence[str]) -> None:
        """Append answers; a kill after this does not lose them."""
        line = json.dumps([key, list(answers)]).encode("ascii") + b"\n"
        self._file.seek(self._end)
        self._file.write(line)
        self._file.flush()
        self._places[bytes.fromhex(key)] = self._end
        self._end += len(line)

    def close(self) -> None:
        """Close, with all answers on the disk for good."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


def _entry(line: bytes) -> tuple[str, list[str]] | None:
    """Return a line's key and answers; None where it is not whole."""
    try:
        key, answers = json.loads(line)
        is_whole = line.endswith(b"\n") and len(bytes.fromhex(key)) == 16
    except (ValueError, TypeError):
        return None
    if not is_whole or not isinstance(answers, list):
        return None
    return (key, answers) if all(isinstance(one, str) for one in answers) else None


@contextmanager
def answers_kept(
    models: Sequence[AskedModel], path: Path, *, on_batch: BatchListener
) -> Iterator[None]:
    """Let models keep their answers in one file during the block; without models there is none."""
    if not models:
        yield
        return
    file = AnswerFile(path)
    try:
        for model in models:
            model.keep_in(file, on_batch)
        yield
    finally:
        for model in models:
            model.keep_in(None, lambda share, is_known: None)
        file.close()


class FillMeter:
    """Counts the second pass of the chain as notes are done, and within them as answers come.

    Parameters
    ----------
    n_units
        Of a note, of the meter's phase.
    models
        Each has an equal part of the units of a batch of notes.
    """

    def __init__(
        self, meter: Meter, phase: str, *, n_units: float, models: Sequence[AskedModel]
    ) -> None:
        self._meter, self._phase, self._n_units = meter, phase, n_units
        self._n_models = len(models)
        self._units = self._left = 0.0
        self._is_again = bool(models)

    def read(self, n_bytes: int) -> None:
        """Give a sign that the source is read; a person may stop there."""
        self._meter.add(self._phase, 0.0)

    def begin(self, n_notes: int) -> None:
        """Begin a batch of notes."""
        self._units = self._left = self._n_units * n_notes

    def answered(self, share: float, is_known: bool) -> None:
        """Count a part of a model's prompts of this batch."""
        # Until the first new answer everything was done by an earlier build.
        self._is_again = self._is_again and is_known
        units = min(self._left, self._units * share / self._n_models)
        self._left -= units
        self._meter.add(self._phase, units, is_cached=is_known)

    def end(self) -> None:
        """Count what is left of the batch of notes."""
        left, self._left = self._left, 0.0
        self._meter.add(self._phase, left, is_cached=self._is_again)
