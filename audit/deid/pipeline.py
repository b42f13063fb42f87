"""The chain from masked notes to a corpus with names: typed, translated, filled, split.

Comes in: a source of notes, a seed. Goes out: a folder with `train.jsonl`, `validation.jsonl`,
`test.jsonl`, `rest.jsonl` (notes with spans), `refused.jsonl` and `summary.json`. The source is
read twice; memory does not grow with the notes but by some bytes for each note and patient.
Where language models are asked, their answers stay when a build is stopped or killed, and the next
one of the same folder asks for the others alone.

Source: paper 002, section 2.1, steps 1 to 6.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from audit.corpus.build import CorpusFile, corpus_folder, patient_key
from audit.deid.answers import ANSWERS, AnswerFile
from audit.deid.copies import json_line
from audit.deid.fill import ProfileTable, filled, with_marked_ages
from audit.deid.masks import Answerer, has_marks, translated, typed_notes
from audit.deid.release import language_of
from audit.errors import AuditError
from audit.names.people import JAPANESE, draw
from audit.notes.patterns import read_pattern_table
from audit.notes.placeholders import has_marks as has_placeholders
from audit.notes.read import Note, NoteSource
from audit.notes.spans import TYPES
from audit.progress import Meter, Phase, Portion, ProgressListener, StopQuestion
from audit.shelf import building_folder

TRAIN, VALIDATION, TEST, REST = "train", "validation", "test", "rest"
SPLITS = (TRAIN, VALIDATION, TEST, REST)
_PAPER_EACH, _PAPER_TRAIN = 5_000, 50_000
_SHARE = 10


def split_notes(is_alone: Sequence[bool], *, seed: int) -> bytes:
    """Return the split of each note, in the source's order, as its place in `SPLITS`.

    `is_alone` says for each note whether its patient has no other: only those are held out. Sizes
    are the paper's, 5,000 for validation and for test and 50,000 to train, or less where there are
    fewer notes. What is left over is "rest".
    """
    each = min(_PAPER_EACH, sum(is_alone) // _SHARE)
    draws = [draw(seed, "split", str(place)) for place in range(len(is_alone))]
    order = np.argsort(np.array(draws, dtype=np.uint64), kind="stable")
    held_out = order[np.take(is_alone, order)][: 2 * each]
    split = np.full(len(is_alone), SPLITS.index(REST), dtype=np.uint8)
    split[held_out[:each]] = SPLITS.index(VALIDATION)
    split[held_out[each:]] = SPLITS.index(TEST)
    rest = order[split[order] == SPLITS.index(REST)]
    split[rest[:_PAPER_TRAIN]] = SPLITS.index(TRAIN)
    return split.tobytes()


_PARTS, _TABLE = read_pattern_table(__file__)
_KEPT, _SENTENCE = (re.compile(_PARTS[name]) for name in ("KEPT", "SENTENCE"))
_NAMES = {"age": "Age", "sex": "Sex", "date": "Date"}
_TEXTS = {part: [text.replace(r"\n", "\n") for _, text in texts] for part, texts in _TABLE.items()}
_MAX_MENTIONS = 3


def with_template(text: str, *, seed: int, note: str) -> str:
    """Return a Japanese text with a header, up to three mentions and a close, the note's own.

    Braces in the text become brackets, so that nothing in it is taken for a placeholder.
    """

    def one_of(part: str, *place: str) -> str:
        return _TEXTS[part][draw(seed, part, note, *place) % len(_TEXTS[part])]

    body = _KEPT.sub(
        lambda match: f"{{{{{_NAMES[match.lastgroup or 'date']}|={match[0]}}}}}",
        text.replace("{{", "［［").replace("}}", "］］"),
    )
    ends = [match.end() for match in _SENTENCE.finditer(body)] or [len(body)]
    mentions: dict[int, str] = {}
    for place in map(str, range(draw(seed, "mentions", note) % (_MAX_MENTIONS + 1))):
        end = ends[draw(seed, "mention place", note, place) % len(ends)]
        # At a line's end the mention is a line of its own.
        line_end = "\n" if body[:end].endswith("\n") else ""
        mentions[end] = one_of("mention", place) + line_end
    for end in sorted(mentions, reverse=True):
        body = body[:end] + mentions[end] + body[end:]
    return one_of("header") + body + one_of("close")


class LanguageModel(Protocol):
    """Answers prompts, one for one; its answers depend on what its digest is of, not on chance."""

    digest: str
    n_batch: int

    def __call__(self, prompts: list[str]) -> list[str]:
        """Return an answer for each prompt."""


def asked(
    model: LanguageModel, answers: AnswerFile, portion: Callable[..., None], prompts: Sequence[str]
) -> list[str]:
    """Return an answer for each prompt, asked in batches of like length, none twice.

    `portion` is told after each batch which share of the prompts is done, and whether its answers
    were kept already.
    """
    order = sorted(set(prompts), key=lambda prompt: (len(prompt), prompt))
    found: dict[str, str] = {}
    for start in range(0, len(order), model.n_batch):
        batch = order[start : start + model.n_batch]
        texts, is_known = answers.of([model.digest, *batch], partial(model, batch))
        found.update(zip(batch, texts, strict=True))
        portion(len(found) / len(order), is_cached=is_known)
    portion(1.0, is_cached=True)
    return [found[prompt] for prompt in prompts]


REFUSED, SUMMARY = "refused.jsonl", "summary.json"
SPLIT_FILES = {split: f"{split}.jsonl" for split in SPLITS}
FILES = (*SPLIT_FILES.values(), REFUSED, SUMMARY)
SURVEY, FILL = "reading who the notes are about", "filling names in"
_BATCH_NOTES = 32


def build_named(
    source: NoteSource,
    *,
    out: Path,
    seed: int = 0,
    locale: str = JAPANESE,
    typer: LanguageModel | None = None,
    translator: LanguageModel | None = None,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> dict[str, Any]:
    """Make a corpus with names and return its summary; the folder, which must be empty, is new.

    `typer` and `translator` are language models that are asked what stood at masks, and to
    translate into Japanese; without them rules type masks, and nothing is translated.

    The summary has counts, no name and no text of a note. `n_templates` Japanese notes without
    masks got a header and mentions; `n_restored` masks were no personal information and hold text
    again; `unknown` ones stayed, by category, and so did `n_marks_left` typed placeholders of no
    known name; of `n_passages` that were to be translated `n_passages_kept` were left in their
    language.

    `progress` and `should_stop` are asked for each batch of notes and of a model's prompts; the
    unit is bytes of the source. When a person stops, nothing is left but a model's answers.
    """
    models = [one for one in (typer, translator) if one]
    n, seconds = source.n_bytes, 1e-2 if models else 1e-6  # models take hours
    plan = [
        Phase(SURVEY, n, 1e-7, SURVEY),
        Phase(FILL, n, seconds, f"{FILL}, {len(models)} models"),
    ]
    meter = Meter(plan, listener=progress, should_stop=should_stop)
    with (
        corpus_folder(out, names=FILES, kept=ANSWERS) as files,
        closing(AnswerFile(building_folder(out) / ANSWERS)) as answers,
    ):
        run = _Chain(source, files, meter, seed=seed, locale=locale)
        meter.finish(SURVEY)
        run.fill(answers, typer=typer, translator=translator, n_units=float(n))
        meter.finish(FILL)
        summary = run.summary()
        text = json.dumps(summary, indent=1, ensure_ascii=False) + "\n"
        files[SUMMARY].write(text.encode())
    return summary


class _Chain:
    """The first pass when it is made, steps 2 to 5 for batch after batch, and what is counted."""

    def __init__(
        self,
        source: NoteSource,
        files: Mapping[str, CorpusFile],
        meter: Meter,
        *,
        seed: int,
        locale: str,
    ) -> None:
        """Read who the notes are about, and split them."""
        self._source, self._files, self._meter = source, files, meter
        self._seed, self._locale, self._profiles = seed, locale, ProfileTable()
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        owners, ids = array("q"), set[int]()
        self._has_blanks = True  # `___` are masks where no note has a placeholder
        for note in source.read(on_bytes=partial(meter.add, SURVEY)):
            if isinstance(note, Note):
                self._profiles.add(note)
                owners.append(hash(note.patient_id))
                ids.add(hash(note.note_id))
                self._has_blanks = self._has_blanks and not has_placeholders(note.text)
        if not owners:
            raise AuditError("No row is a note.", where="notes")
        # A note without a patient is alone, as the only one of its patient is.
        nobody, n_notes = hash(""), Counter(owners)
        is_alone = [owner == nobody or n_notes[owner] == 1 for owner in owners]
        self._split = split_notes(is_alone, seed=seed)
        self._has_same_ids = len(ids) < len(owners)

    def fill(
        self,
        answers: AnswerFile,
        *,
        typer: LanguageModel | None,
        translator: LanguageModel | None,
        n_units: float,
    ) -> None:
        """Write all notes; each model has an equal part of the units of a batch."""
        notes, n_left = self._notes(), len(self._split)
        n_models = bool(typer) + bool(translator)
        while batch := list(islice(notes, _BATCH_NOTES)):
            n_left -= len(batch)
            if n_left < 0:
                raise _changed()
            units = n_units * len(batch) / len(self._split) / max(1, n_models)

            def asking(model: LanguageModel, *, units: float = units) -> Answerer:
                return partial(asked, model, answers, Portion(self._meter, FILL, units))

            texts = self._typed(batch, asking(typer) if typer else None)
            if translator:
                done = translated(texts, ask=asking(translator))
                texts = [one.text for one in done]
                self._counts[""].update(
                    n_passages=sum(one.n_passages for one in done),
                    n_passages_kept=sum(one.n_kept for one in done),
                )
            for note, text in zip(batch, texts, strict=True):
                self._write(note, text)
            self._meter.add(FILL, 0.0 if n_models else units)
        if n_left:
            raise _changed()

    def _notes(self) -> Iterator[Note]:
        """Yield the notes, and write down the rows that are none."""
        for note in self._source.read(on_bytes=lambda n: self._meter.add(FILL, 0.0)):
            if isinstance(note, Note):
                yield note
            else:
                self._counts[""]["n_refused"] += 1
                self._files[REFUSED].write(json_line(asdict(note)))

    def _typed(self, notes: Sequence[Note], ask: Answerer | None) -> list[str]:
        texts = [note.text for note in notes]
        found = typed_notes(texts, has_blanks=self._has_blanks, ask=ask)
        for i, (note, typed) in enumerate(zip(notes, found, strict=True)):
            self._counts["unknown"].update(typed.unknown)
            self._counts[""]["n_restored"] += typed.n_restored
            if typed.n_masks or has_marks(note.text) or language_of(note.text) != "ja":
                texts[i] = with_marked_ages(typed.text)
            else:
                self._counts[""]["n_templates"] += 1
                key = f"{patient_key(note)}/{note.row}"
                texts[i] = with_template(note.text, seed=self._seed, note=key)
        return texts

    def _write(self, note: Note, text: str) -> None:
        """Fill a note and write it into the file of its split."""
        try:
            context = self._profiles.context(note, seed=self._seed, locale=self._locale)
        except KeyError:
            raise _changed() from None
        done = filled(text, context=context)
        split = SPLITS[self._split[self._counts[""]["n_notes"]]]
        doc_id = f"{note.note_id}#{note.row}" if self._has_same_ids else note.note_id
        self._counts[""].update(n_notes=1, n_marks_left=done.n_left)
        self._counts["splits"][split] += 1
        self._counts["spans"].update(span.label for span in done.spans)
        self._counts["kinds"].update(span.kind for span in done.spans)
        patient = {"patient_id": note.patient_id} if note.patient_id else {}
        spans = [asdict(span) for span in done.spans]
        line = {"doc_id": doc_id, "text": done.text, **patient, "spans": spans}
        self._files[SPLIT_FILES[split]].write(json_line(line))

    def summary(self) -> dict[str, Any]:
        """Return what was counted, with the SHA-256 of each file."""
        names = (
            "n_notes",
            "n_refused",
            "n_templates",
            "n_restored",
            "n_marks_left",
            "n_passages",
            "n_passages_kept",
        )
        unknown, kinds = (
            dict(sorted(self._counts[what].items(), key=lambda x: (-x[1], x[0])))
            for what in ("unknown", "kinds")
        )
        return {
            "seed": self._seed,
            "locale": self._locale,
            "n_patients": len(self._profiles),
            **{name: self._counts[""][name] for name in names},
            "unknown": unknown,
            "n_spans": {name: self._counts["spans"][name] for name in TYPES},
            "kinds": kinds,
            "splits": {name: self._counts["splits"][name] for name in SPLITS},
            "digests": {name: self._files[name].digest for name in FILES if name != SUMMARY},
        }


def _changed() -> AuditError:
    return AuditError("The notes changed while they were read.", where="notes")
