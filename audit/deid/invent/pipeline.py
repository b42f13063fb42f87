"""The chain from masked notes to a corpus with names: masks are typed, texts translated and filled.

Input: a source of notes, a seed. Output: a folder with `train.jsonl`, `validation.jsonl`,
`test.jsonl`, `rest.jsonl` (notes with spans), `refused.jsonl` and `summary.json`. The source is
read twice; memory holds only some bytes for each note and patient. The answers of language models
survive a build that is stopped or killed; the next build of the same folder asks only for the rest.

Source: paper 002, section 2.1, steps 1 to 6.
"""

from __future__ import annotations

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
from audit.deid.invent.fill import ProfileTable, fill_placeholders, mark_ages
from audit.deid.invent.masks import Answerer, has_marks, translate_texts, type_masks
from audit.deid.sets.answers import ANSWERS, AnswerFile
from audit.errors import AuditError
from audit.names.people import JAPANESE, draw
from audit.notes.language import language_of
from audit.notes.patterns import read_pattern_table
from audit.notes.placeholders import has_marks as has_placeholders
from audit.notes.read import Note, NoteSource
from audit.notes.spans import TYPES
from audit.progress import Meter, Phase, Portion, ProgressListener, StopQuestion
from audit.shelf import JSON, building_folder, json_line, json_page

TRAIN, VALIDATION, TEST, REST = "train", "validation", "test", "rest"
SPLITS = (TRAIN, VALIDATION, TEST, REST)
_PAPER_EACH, _PAPER_TRAIN = 5_000, 50_000
_SHARE = 10


def split_notes(is_alone: Sequence[bool], *, seed: int) -> bytes:
    """Return the split of each note, in the order of the source, as its place in `SPLITS`.

    `is_alone` says for each note whether its patient has no other note: only such notes are held
    out. Sizes are those of the paper, 5,000 each for validation and test and 50,000 for training,
    or less if there are fewer notes. All other notes are "rest".
    """
    n_per_split = min(_PAPER_EACH, sum(is_alone) // _SHARE)
    draws = [draw(seed, "split", str(place)) for place in range(len(is_alone))]
    order = np.argsort(np.array(draws, dtype=np.uint64), kind="stable")
    held_out = order[np.take(is_alone, order)][: 2 * n_per_split]
    split = np.full(len(is_alone), SPLITS.index(REST), dtype=np.uint8)
    split[held_out[:n_per_split]] = SPLITS.index(VALIDATION)
    split[held_out[n_per_split:]] = SPLITS.index(TEST)
    rest = order[split[order] == SPLITS.index(REST)]
    split[rest[:_PAPER_TRAIN]] = SPLITS.index(TRAIN)
    return split.tobytes()


_PARTS, _TABLE = read_pattern_table(__file__)
_KEPT, _SENTENCE = (re.compile(_PARTS[name]) for name in ("KEPT", "SENTENCE"))
_NAMES = {"age": "Age", "sex": "Sex", "date": "Date"}
_TEXTS = {part: [text.replace(r"\n", "\n") for _, text in texts] for part, texts in _TABLE.items()}
_MAX_MENTIONS = 3


def add_template(text: str, *, seed: int, note: str) -> str:
    """Return a Japanese text with a header, up to three mentions and a close drawn for the note.

    Double braces in the text become brackets, so that nothing in it is taken for a placeholder.
    """

    def draw_text(part: str, *place: str) -> str:
        return _TEXTS[part][draw(seed, part, note, *place) % len(_TEXTS[part])]

    body = _KEPT.sub(
        lambda match: f"{{{{{_NAMES[match.lastgroup or 'date']}|={match[0]}}}}}",
        text.replace("{{", "［［").replace("}}", "］］"),
    )
    ends = [match.end() for match in _SENTENCE.finditer(body)] or [len(body)]
    mentions: dict[int, str] = {}
    for place in map(str, range(draw(seed, "mentions", note) % (_MAX_MENTIONS + 1))):
        end = ends[draw(seed, "mention place", note, place) % len(ends)]
        # A mention at the end of a line becomes a line of its own.
        line_end = "\n" if body[:end].endswith("\n") else ""
        mentions[end] = draw_text("mention", place) + line_end
    for end in sorted(mentions, reverse=True):
        body = body[:end] + mentions[end] + body[end:]
    return draw_text("header") + body + draw_text("close")


class LanguageModel(Protocol):
    """Answers each prompt; the answers depend only on what its digest covers, not on chance."""

    digest: str
    n_batch: int

    def __call__(self, prompts: list[str]) -> list[str]:
        """Return an answer for each prompt."""


def ask_in_batches(
    model: LanguageModel, answers: AnswerFile, portion: Callable[..., None], prompts: Sequence[str]
) -> list[str]:
    """Return an answer for each prompt; ask in batches of similar length, and nothing twice.

    After each batch `portion` receives the share of prompts that are done, and whether the answers
    of the batch were in the file already.
    """
    order = sorted(set(prompts), key=lambda prompt: (len(prompt), prompt))
    answer_by_prompt: dict[str, str] = {}
    for start in range(0, len(order), model.n_batch):
        batch = order[start : start + model.n_batch]
        texts, is_known = answers.get_or_ask([model.digest, *batch], partial(model, batch))
        answer_by_prompt.update(zip(batch, texts, strict=True))
        portion(len(answer_by_prompt) / len(order), is_cached=is_known)
    portion(1.0, is_cached=True)
    return [answer_by_prompt[prompt] for prompt in prompts]


REFUSED, SUMMARY = "refused.jsonl", "summary.json"
SPLIT_FILES = {split: f"{split}.jsonl" for split in SPLITS}
FILES = (*SPLIT_FILES.values(), REFUSED, SUMMARY)
SURVEY, FILL = "reading who the notes are about", "filling names in"
_BATCH_NOTES = 32


def build_named(
    source: NoteSource,
    *,
    folder: Path,
    seed: int = 0,
    locale: str = JAPANESE,
    typer: LanguageModel | None = None,
    translator: LanguageModel | None = None,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> dict[str, Any]:
    """Make a corpus with names in a new or empty folder, and return its summary.

    `typer` is a language model that says what stood at masks, `translator` one that translates
    into Japanese. Without them rules type the masks, and nothing is translated.

    The summary has counts, but no name and no text of a note. `n_templates` Japanese notes without
    masks got a header and mentions. `n_restored` masks hid no personal information and are text
    again. `unknown` counts by category the masks that stayed; `n_marks_left` typed placeholders
    with unknown names stayed too. `n_passages_kept` of `n_passages` passages were not translated.

    `progress` and `should_stop` are called for each batch of notes and of prompts; the unit is
    bytes of the source. After a stop only the answers of models stay on the disk.
    """
    models = [model for model in (typer, translator) if model]
    n, seconds = source.n_bytes, 1e-2 if models else 1e-6  # models take hours
    plan = [
        Phase(SURVEY, n, 1e-7, SURVEY),
        Phase(FILL, n, seconds, f"{FILL}, {len(models)} models"),
    ]
    meter = Meter(plan, listener=progress, should_stop=should_stop)
    with (
        corpus_folder(folder, names=FILES, lasting_file=ANSWERS) as files,
        closing(AnswerFile(building_folder(folder) / ANSWERS)) as answers,
    ):
        run = _Chain(source, files, meter, seed=seed, locale=locale)
        meter.finish(SURVEY)
        run.fill(answers, typer=typer, translator=translator, n_units=float(n))
        meter.finish(FILL)
        summary = run.summary()
        files[SUMMARY].write(json_page(summary))
    return summary


class _Chain:
    """One build: the constructor makes the first pass, `fill` makes steps 2 to 5 in batches."""

    def __init__(
        self,
        source: NoteSource,
        files: Mapping[str, CorpusFile],
        meter: Meter,
        *,
        seed: int,
        locale: str,
    ) -> None:
        """Read the patients of the notes, and split the notes."""
        self._source, self._files, self._meter = source, files, meter
        self._seed, self._locale, self._profiles = seed, locale, ProfileTable()
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        owners, ids = array("q"), set[int]()
        self._has_blanks = True  # `___` is a mask only if no note has a placeholder
        for note in source.read(on_bytes=partial(meter.add, SURVEY)):
            if isinstance(note, Note):
                self._profiles.add(note)
                owners.append(hash(note.patient_id))
                ids.add(hash(note.note_id))
                self._has_blanks = self._has_blanks and not has_placeholders(note.text)
        if not owners:
            raise AuditError("No row is a note.", where="notes")
        # A note without a patient counts as the only note of a patient.
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
        """Write all notes; in the progress each model has an equal share of a batch."""
        notes, n_left = self._read_notes(), len(self._split)
        n_models = bool(typer) + bool(translator)
        while batch := list(islice(notes, _BATCH_NOTES)):
            n_left -= len(batch)
            if n_left < 0:
                raise _changed_notes_error()
            units = n_units * len(batch) / len(self._split) / max(1, n_models)

            def asking(model: LanguageModel, *, units: float = units) -> Answerer:
                return partial(ask_in_batches, model, answers, Portion(self._meter, FILL, units))

            texts = self._type_masks(batch, asking(typer) if typer else None)
            if translator:
                translations = translate_texts(texts, ask=asking(translator))
                texts = [translation.text for translation in translations]
                self._counts[""].update(
                    n_passages=sum(translation.n_passages for translation in translations),
                    n_passages_kept=sum(translation.n_kept for translation in translations),
                )
            for note, text in zip(batch, texts, strict=True):
                self._write(note, text)
            self._meter.add(FILL, 0.0 if n_models else units)
        if n_left:
            raise _changed_notes_error()

    def _read_notes(self) -> Iterator[Note]:
        """Yield the notes, and write refused rows to their file."""
        for note in self._source.read(on_bytes=lambda n: self._meter.add(FILL, 0.0)):
            if isinstance(note, Note):
                yield note
            else:
                self._counts[""]["n_refused"] += 1
                self._files[REFUSED].write(json_line(asdict(note)))

    def _type_masks(self, notes: Sequence[Note], ask: Answerer | None) -> list[str]:
        texts = [note.text for note in notes]
        typed_notes = type_masks(texts, has_blanks=self._has_blanks, ask=ask)
        for i, (note, typed) in enumerate(zip(notes, typed_notes, strict=True)):
            self._counts["unknown"].update(typed.unknown)
            self._counts[""]["n_restored"] += typed.n_restored
            if typed.n_masks or has_marks(note.text) or language_of(note.text) != "ja":
                texts[i] = mark_ages(typed.text)
            else:
                self._counts[""]["n_templates"] += 1
                key = f"{patient_key(note)}/{note.row}"
                texts[i] = add_template(note.text, seed=self._seed, note=key)
        return texts

    def _write(self, note: Note, text: str) -> None:
        """Fill a note and write it into the file of its split."""
        try:
            context = self._profiles.context(note, seed=self._seed, locale=self._locale)
        except KeyError:
            raise _changed_notes_error() from None
        filled_note = fill_placeholders(text, context=context)
        split = SPLITS[self._split[self._counts[""]["n_notes"]]]
        doc_id = f"{note.note_id}#{note.row}" if self._has_same_ids else note.note_id
        self._counts[""].update(n_notes=1, n_marks_left=filled_note.n_left)
        self._counts["splits"][split] += 1
        self._counts["spans"].update(span.label for span in filled_note.spans)
        self._counts["kinds"].update(span.kind for span in filled_note.spans)
        patient = {"patient_id": note.patient_id} if note.patient_id else {}
        spans = [asdict(span) for span in filled_note.spans]
        line: dict[str, JSON] = {
            "doc_id": doc_id,
            "text": filled_note.text,
            **patient,
            "spans": spans,
        }
        self._files[SPLIT_FILES[split]].write(json_line(line))

    def summary(self) -> dict[str, Any]:
        """Return the counts, with the SHA-256 of each file."""
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
            dict(sorted(self._counts[counter_name].items(), key=lambda x: (-x[1], x[0])))
            for counter_name in ("unknown", "kinds")
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


def _changed_notes_error() -> AuditError:
    return AuditError("The notes changed while they were read.", where="notes")
