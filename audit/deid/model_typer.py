"""Types masks with a local language model: the prompt, and the reading of its answer.

Comes in: notes with masks, and a function that answers prompts. Goes out: an answer for each mask;
where the model gives none that is understood, the rules' answer stands.

Source: paper 002, section 2.1, steps 1 and 2 (the paper's own prompt is in its appendix B).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from audit.corpora.placeholders import BLANK
from audit.deid.mask_kinds import KINDS, known_kind
from audit.deid.mask_types import MaskAnswer, MaskedNote, RuleTyper
from audit.deid.translation_step import Answerer

_CONTEXT_CHARS = 240
_MAX_MASKS = 40
_MAX_TEXT_CHARS = 80
PROMPT = (
    "Parts of a clinical note were masked. Each mask is written [[1]], [[2]] and so on. Say for "
    "each mask what stood there, one line each, as in\n1: Patient Name\n2: TEXT 7.4\n"
    "Use TEXT with a fitting value where it was no personal information (a laboratory value). "
    "Put a number behind a name to tell two people apart, as in Physician Name 2. "
    "Write only such lines, with these names: {kinds}.\n\nNote:\n{note}\n\nMasks:\n"
)
_LINE = re.compile(r"^\W{0,4}(\d{1,3})\W{0,3}\s*[:：.)]\s*(.{1,200}?)\s*$", re.MULTILINE)
_TEXT = re.compile(r"text\b\s*[:：]?\s*(.*)$", re.IGNORECASE)
_NUMBERED = re.compile(r"(.*?)\s*(\d{1,3})?$", re.DOTALL)
_MARKS = "{}[]<>*`'\" "


@dataclass(frozen=True)
class _Question:
    """A stretch of a note: which masks of it are asked for, and the prompt."""

    note: int
    places: tuple[int, ...]
    prompt: str


class ModelTyper:
    """Types masks by a language model's reading, and by rules where it does not answer.

    Parameters
    ----------
    answers
        Of the model.

    Attributes
    ----------
    n_asked, n_answered
        Masks that the model was asked about, and those with an answer that was understood.
    """

    def __init__(self, answers: Answerer) -> None:
        self._answers = answers
        self._rules = RuleTyper()
        self.n_asked = self.n_answered = 0

    def types(self, notes: Sequence[MaskedNote]) -> list[tuple[MaskAnswer, ...]]:
        """Return for each note one answer for each of its masks."""
        found = [list(answers) for answers in self._rules.types(notes)]
        questions = [one for i, note in enumerate(notes) for one in _questions(note, i)]
        replies = self._answers([question.prompt for question in questions])
        for question, reply in zip(questions, replies, strict=True):
            read = read_answer(reply)
            self.n_asked += len(question.places)
            for number, place in enumerate(question.places, start=1):
                if number in read:
                    self.n_answered += 1
                    found[question.note][place] = read[number]
        return [tuple(answers) for answers in found]


def read_answer(reply: str) -> dict[int, MaskAnswer]:
    """Return what a reply says of each mask, by its number; the first line for a mask counts.

    Lines that are not understood are left out.
    """
    found: dict[int, MaskAnswer] = {}
    for line in _LINE.finditer(reply):
        answer = _answer(line[2].strip(_MARKS))
        if answer is not None:
            found.setdefault(int(line[1]), answer)
    return found


def _answer(words: str) -> MaskAnswer | None:
    text = _TEXT.match(words)
    if text:
        value = text[1].strip(_MARKS)[:_MAX_TEXT_CHARS]
        return MaskAnswer(None, text=value) if value else None
    numbered = _NUMBERED.fullmatch(words)
    kind = known_kind(words)
    if kind is not None or numbered is None:
        return None if kind is None else MaskAnswer(kind)
    kind = known_kind(numbered[1])
    return None if kind is None else MaskAnswer(kind, number=numbered[2] or "")


def _questions(note: MaskedNote, number: int) -> Iterator[_Question]:
    # Only what no category tells is asked for; far apart masks are asked for apart.
    asked = [i for i, p in enumerate(note.places) if p.category == BLANK or p.kind == "unknown"]
    group: list[int] = []
    for i in asked:
        is_far = group and note.places[i].start - note.places[group[-1]].stop > 2 * _CONTEXT_CHARS
        if group and (is_far or len(group) == _MAX_MASKS):
            yield _Question(number, tuple(group), _prompt(note, group))
            group = []
        group.append(i)
    if group:
        yield _Question(number, tuple(group), _prompt(note, group))


def _prompt(note: MaskedNote, group: Sequence[int]) -> str:
    first, last = note.places[group[0]], note.places[group[-1]]
    done = max(0, first.start - _CONTEXT_CHARS)
    pieces = []
    for number, i in enumerate(group, start=1):
        place = note.places[i]
        pieces += [note.text[done : place.start], f"[[{number}]]"]
        done = place.stop
    pieces.append(note.text[done : last.stop + _CONTEXT_CHARS])
    return PROMPT.format(kinds=", ".join(KINDS), note="".join(pieces))
