"""The chain from masked notes to a corpus with names: typed, translated, filled, split.

Comes in: a source of notes, a seed. Goes out: a folder with `train.jsonl`, `validation.jsonl`,
`test.jsonl`, `rest.jsonl` (notes with spans), `refused.jsonl` and `summary.json`. The source is
read twice; memory does not grow with the notes but by some bytes for each note and patient.
Where language models are asked, their answers stay when a build is stopped or killed, and the next
one of the same folder asks for the others alone.

Source: paper 002, section 2.1, steps 1 to 6.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from pydantic import computed_field

from audit.corpus.build import corpus_folder
from audit.deid.fill import (
    FilledNote,
    NoteContext,
    ProfileTable,
    filled,
    profile_of_note,
    with_marked_ages,
)
from audit.deid.masks import (
    Answerer,
    MaskTyper,
    NoTranslation,
    RuleTyper,
    Translator,
    masked_note,
    with_types,
)
from audit.deid.masks import has_marks as has_typed_marks
from audit.errors import AuditError
from audit.names.people import JAPANESE, draw, identity_of, namesakes_expected
from audit.notes.dates import parsed_day
from audit.notes.placeholders import has_marks
from audit.notes.read import Note, NoteSource
from audit.notes.spans import IDENTIFIER, TYPES
from audit.progress import Meter, ProgressListener, StopQuestion
from audit.shelf import building_folder
from audit.tables import RowNote
from audit.task import Record

TRAIN, VALIDATION, TEST, REST = "train", "validation", "test", "rest"
SPLITS = (TRAIN, VALIDATION, TEST, REST)
_PAPER_EACH, _PAPER_TRAIN = 5_000, 50_000
_SHARE = 10


class SplitSizes(NamedTuple):
    """How many notes each split has."""

    n_validation: int
    n_test: int
    n_train: int


def usual_sizes(*, n_notes: int, n_single: int) -> SplitSizes:
    """Return the paper's sizes, 5,000 and 5,000 and 50,000, or less where there are fewer notes.

    `n_single` are notes of patients who have no other.
    """
    each = min(_PAPER_EACH, n_single // _SHARE)
    return SplitSizes(each, each, min(_PAPER_TRAIN, n_notes - 2 * each))


def split_notes(n_notes: int, *, single: Sequence[bool], sizes: SplitSizes, seed: int) -> bytes:
    """Return the split of each note, in the source's order, as its place in `SPLITS`.

    `single` says for each note whether its patient has no other: only those are held out. What is
    left over is "rest". AuditError where there are too few notes.
    """
    order = sorted(range(n_notes), key=lambda place: (draw(seed, "split", str(place)), place))
    alone = [place for place in order if single[place]]
    n_held_out = sizes.n_validation + sizes.n_test
    if n_held_out > len(alone):
        raise AuditError(
            (
                "{n_held_out} notes are to be held out, but only {n_alone} are of "
                "patients who have a single note."
            ),
            where="splits",
            do="Choose smaller sizes for validation and test.",
            n_held_out=n_held_out,
            n_alone=len(alone),
        )
    split = bytearray([SPLITS.index(REST)]) * n_notes
    for number, place in enumerate(alone[:n_held_out]):
        split[place] = SPLITS.index(VALIDATION if number < sizes.n_validation else TEST)
    rest = [place for place in order if split[place] == SPLITS.index(REST)]
    if sizes.n_train > len(rest):
        raise AuditError(
            "{n_train} notes are to be trained on, but only {n_rest} are left.",
            where="splits",
            do="Choose a smaller size for training.",
            n_train=sizes.n_train,
            n_rest=len(rest),
        )
    for place in rest[: sizes.n_train]:
        split[place] = SPLITS.index(TRAIN)
    return bytes(split)


class LeakCheck(Record):
    """What splits share.

    Attributes
    ----------
    n_shared_patients, n_shared_notes, n_shared_texts
        Patients, identifiers of notes and whole texts that are in more than one of training,
        validation and test: all three must be 0 but for texts that the source has twice.
    n_names, n_seen_names
        Different full names in validation and test, and those that are in training too (namesakes,
        and staff of several patients): the measurement tells them apart.
    """

    n_shared_patients: int
    n_shared_notes: int
    n_shared_texts: int
    n_names: int
    n_seen_names: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def is_clean(self) -> bool:
        """Whether no patient, no note and no text crosses a split."""
        return not (self.n_shared_patients or self.n_shared_notes or self.n_shared_texts)


class LeakCounter:
    """Reads the notes of all splits one by one, and counts what crosses them.

    Keeps 8 bytes for each different patient, note, text and name, and what Python needs for them.
    """

    def __init__(self) -> None:
        self._seen: dict[str, dict[int, int]] = {w: {} for w in ("patient", "note", "text", "name")}

    def add(
        self, split: str, *, patient: str, doc_id: str, text: str, names: Iterable[str]
    ) -> None:
        """Take in a note; those of the rest are in no split."""
        if split == REST:
            return
        folded = (("name", "".join(name.split()).casefold()) for name in names)
        for what, value in (("patient", patient), ("note", doc_id), ("text", text), *folded):
            key, seen = draw(0, what, value), self._seen[what]
            seen[key] = seen.get(key, 0) | 1 << SPLITS.index(split)

    def check(self) -> LeakCheck:
        """Return what was counted."""
        n_patients, n_notes, n_texts = (
            sum(bits.bit_count() > 1 for bits in self._seen[what].values())
            for what in ("patient", "note", "text")
        )
        train = 1 << SPLITS.index(TRAIN)
        held_out = [bits for bits in self._seen["name"].values() if bits & ~train]
        return LeakCheck(
            n_shared_patients=n_patients, n_shared_notes=n_notes, n_shared_texts=n_texts,
            n_names=len(held_out), n_seen_names=sum(bool(bits & train) for bits in held_out),
        )  # fmt: skip


class ChainSummary(Record):
    """Counts of a corpus with names; no name and no text of a note.

    Attributes
    ----------
    n_notes, n_refused, n_patients
        Of the source; patients are those that the source names.
    n_templates
        Notes without masks that got a Japanese header and mentions.
    n_restored
        Masks that were no personal information and hold text again.
    unknown
        Masks that stayed, by category.
    n_marks_left
        Typed placeholders of no known name, which stayed.
    n_passages, n_passages_kept
        Of the translation: asked for, and left in their language.
    n_spans, kinds, splits
        Spans by type, values by the name of their kind of mask, notes by split.
    namesakes_per_100_000
        People of 100,000 who share somebody's full name, on average, by the tables of names.
    digests
        SHA-256 of each file.
    """

    seed: int
    locale: str
    n_notes: int
    n_refused: int
    n_patients: int
    n_templates: int
    n_restored: int
    unknown: dict[str, int]
    n_marks_left: int
    n_passages: int
    n_passages_kept: int
    n_spans: dict[str, int]
    kinds: dict[str, int]
    splits: dict[str, int]
    leaks: LeakCheck
    namesakes_per_100_000: float
    digests: dict[str, str]


@dataclass(frozen=True, eq=False)
class Surveyed:
    """What the first pass found.

    Attributes
    ----------
    has_blanks
        Whether blanks are masks: no note has a placeholder.
    split
        For each note the number of its split in `SPLITS`.
    has_same_ids
        Whether two notes have the same name.
    """

    profiles: ProfileTable
    has_blanks: bool
    split: bytes
    has_same_ids: bool


def survey(
    source: NoteSource, *, sizes: SplitSizes | None, seed: int, on_bytes: Callable[[int], None]
) -> Surveyed:
    """Read all notes once; without sizes the splits have the paper's, or less."""
    profiles, owners = ProfileTable(), array("q")
    patients: dict[str, int] = {}
    ids: set[int] = set()
    has_placeholders = False
    for note in source.read(on_bytes=on_bytes):
        if isinstance(note, RowNote):
            continue
        profiles.add(note)
        # A note without a patient is a patient of its own.
        owners.append(
            patients.setdefault(note.patient_id, len(patients)) if note.patient_id else -1
        )
        ids.add(hash(note.note_id))
        has_placeholders = has_placeholders or has_marks(note.text)
    if not owners:
        raise AuditError("No row is a note.", where="notes")
    is_only = [profiles.n_notes(patient) == 1 for patient in patients]
    single = [own < 0 or is_only[own] for own in owners]
    wanted = sizes or usual_sizes(n_notes=len(owners), n_single=sum(single))
    split = split_notes(len(owners), single=single, sizes=wanted, seed=seed)
    return Surveyed(profiles, not has_placeholders, split, len(ids) < len(owners))


_HEADERS = (
    "患者氏名：{{Patient Name}}　フリガナ：{{Patient Name Kana}}\n"
    "生年月日：{{Birth Date}}　性別：{{Sex}}\n"
    "患者ID：{{Record Number}}\n住所：〒{{Postal Code}} {{Address}}\n電話：{{Telephone}}\n\n",
    "【患者】{{Patient Name}}様（{{Patient Name Half Kana}}）{{Age}}歳 {{Sex}}\n"
    "【カルテ番号】{{Record Number}}\n【入院日】{{Admission Date}}\n【退院日】{{Discharge Date}}\n"
    "【主治医】{{Physician Name 1}}\n\n",
    "{{Hospital Name}}　{{Ward}}\nID {{Record Number}}　{{Patient Name}}　殿\n"
    "{{Birth Date}}生（{{Age}}歳）\n検査日：{{Examination Date}}　依頼医：{{Physician Name 1}}\n\n",
    "紹介患者：{{Patient Name}}（{{Patient Name Romaji}}）\n職業：{{Occupation}}\n"
    "保険者番号：{{Insurer Number}}　記号・番号：{{Insured Number}}\n"
    "緊急連絡先：{{Family Member Name 1}}（{{Telephone 1}}）\n\n",
    "No.{{Record Number}} {{Patient Initials}} {{Age}}歳{{Sex}}\n"
    "撮影日 {{Examination Date}}　読影医 {{Physician Surname 2}}\n\n",
    "氏名　{{Patient Name}}\n個人番号　{{My Number}}\n基礎年金番号　{{Pension Number}}\n"
    "現住所　{{Address}}\n勤務先　{{Company}}\n\n",
)
_MENTIONS = (
    "{{Patient Surname}}さんに結果を説明した。",
    "{{Patient Surname}}氏の同意を得た。",
    "{{Family Member Name 1}}さん（家族）にも同席していただいた。",
    "{{Physician Surname 1}}医師に相談した。",
    "{{Examination Date}}に{{Hospital Name 1}}より紹介された。",
    "{{Patient Name}}様は{{City}}在住である。",
    "次回は{{Date}}に{{Physician Surname 2}}が診察する。",
)
_CLOSES = (
    "\n\n以上\n{{Hospital Name}}　{{Physician Name 1}}",
    "\n\n記載者：{{Physician Name 1}}　{{Discharge Date}}\n連絡先：{{Telephone 2}}",
    "\n\n読影：{{Physician Name 2}}（確認：{{Physician Surname 1}}）",
    "\n\n問い合わせ：{{Email 1}}　FAX {{Fax 2}}",
    "",
)
_MAX_MENTIONS = 3

_DIGIT = "[0-9０-９]"
_ERA = "(?:明治|大正|昭和|平成|令和|[MTSHR])"
_KEPT = re.compile(
    rf"(?P<age>(?<![.．0-9０-９]){_DIGIT}{{1,3}}\s?(?:歳代|歳|才)(?:{_DIGIT}{{1,2}}[ヶか]月)?)"
    r"|(?P<sex>男性|女性|男児|女児)"
    rf"|(?P<date>(?:{_ERA}\s?{_DIGIT}{{1,2}}|{_DIGIT}{{4}})\s?年(?:\s?{_DIGIT}{{1,2}}\s?月"
    rf"(?:\s?{_DIGIT}{{1,2}}\s?日)?)?|(?<!{_DIGIT}){_DIGIT}{{4}}[/／.．]{_DIGIT}{{1,2}}[/／.．]"
    rf"{_DIGIT}{{1,2}}(?!{_DIGIT})|(?<!{_DIGIT}){_DIGIT}{{1,2}}月{_DIGIT}{{1,2}}日)"
)
_NAMES = {"age": "Age", "sex": "Sex", "date": "Date"}
# No decimal point (３．５), and not inside brackets.
_SENTENCE = re.compile(r"(?:。|(?<!\d)．|．(?!\d))(?=[^」）)\]]|\Z)\n?")


def with_template(text: str, *, seed: int, note: str) -> str:
    """Return a Japanese text with a header, up to three mentions and a close, the note's own.

    Braces in the text become brackets, so that nothing in it is taken for a placeholder.
    """

    def one_of(texts: Sequence[str], purpose: str, *place: str) -> str:
        return texts[draw(seed, purpose, note, *place) % len(texts)]

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
        mentions[end] = one_of(_MENTIONS, "mention", place) + line_end
    for end in sorted(mentions, reverse=True):
        body = body[:end] + mentions[end] + body[end:]
    return one_of(_HEADERS, "header") + body + one_of(_CLOSES, "close")


BatchListener = Callable[[float, bool], None]
"""Told after each batch: its share of the prompts of this call, and whether its answers were there
already."""


class AskedModel:
    """A language model that is asked in batches of like length; a prompt once in a call.

    Its answers must not depend on chance, but on what the digest is of.
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
            content = json.dumps([self._digest, *batch]).encode("ascii")
            key = hashlib.sha256(content).hexdigest()[:32]
            answers = self._file.get(key) if self._file else None
            is_known = answers is not None and len(answers) == len(batch)
            if answers is None or not is_known:
                answers = self._model(batch)
                if self._file:
                    self._file.add(key, answers)
            found.update(zip(batch, answers, strict=True))
            self._on_batch(len(batch) / len(order), is_known)
        return [found[prompt] for prompt in prompts]

    @contextmanager
    def keeping(self, file: AnswerFile, on_batch: BatchListener) -> Iterator[None]:
        """Keep answers in a file during the block, and take from it what it has."""
        before = self._on_batch
        self._file, self._on_batch = file, on_batch
        try:
            yield
        finally:
            self._file, self._on_batch = None, before


class AnswerFile:
    """Lines `[key, answers]`, private; in memory is where each of them begins.

    What a kill left half written at the end of the file is cut off.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.fdopen(os.open(path, flags, 0o600), "r+b")
        os.fchmod(self._file.fileno(), 0o600)
        self._places: dict[str, int] = {}
        end = 0
        for line in self._file:
            key, answers = _entry(line)
            if answers is None:
                break
            self._places[key] = end
            end += len(line)
        self._file.truncate(end)

    def get(self, key: str) -> list[str] | None:
        """Return the answers under a key of 32 hexadecimal digits, if they are kept."""
        if key not in self._places:
            return None
        self._file.seek(self._places[key])
        return _entry(self._file.readline())[1]

    def add(self, key: str, answers: Sequence[str]) -> None:
        """Append answers; a kill after this does not lose them."""
        self._places[key] = self._file.seek(0, os.SEEK_END)
        self._file.write(json.dumps([key, list(answers)]).encode("ascii") + b"\n")
        self._file.flush()

    def close(self) -> None:
        """Close, with all answers on the disk for good."""
        os.fsync(self._file.fileno())
        self._file.close()


def _entry(line: bytes) -> tuple[str, list[str] | None]:
    """Return a line's key and answers; None for the answers where it is not whole."""
    try:
        key, answers = json.loads(line)
        is_whole = line.endswith(b"\n") and len(bytes.fromhex(key)) == 16
        return key, answers if is_whole and all(isinstance(one, str) for one in answers) else None
    except (ValueError, TypeError):
        return "", None


class FillMeter:
    """Counts the second pass of the chain as notes are done, and within them as answers come.

    `n_units` are those of a note; each of `n_models` has an equal part of them.
    """

    def __init__(self, meter: Meter, phase: str, *, n_units: float, n_models: int) -> None:
        self._meter, self._phase, self._n_units = meter, phase, n_units
        self._n_models = n_models
        self._units = self._left = 0.0
        self._is_again = n_models > 0

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


REFUSED, SUMMARY = "refused.jsonl", "summary.json"
ANSWERS = "answers.jsonl"
SPLIT_FILES = {split: f"{split}.jsonl" for split in SPLITS}
FILES = (*SPLIT_FILES.values(), REFUSED, SUMMARY)
SURVEY, FILL = "reading who the notes are about", "filling names in"
_BATCH_NOTES = 32
_MODEL_WEIGHT = 20.0


@dataclass(frozen=True)
class ChainOrder:
    """How a corpus with names is made: by rules and without translation, if nothing is said.

    Attributes
    ----------
    locale
        One of `audit.names.people.LOCALES`.
    has_template
        Whether notes without any mask get a Japanese header and mentions.
    sizes
        Of the splits; None for the paper's, or less where there are fewer notes.
    models
        The language models that typer and translator ask, so that their answers are kept.
    """

    seed: int = 0
    locale: str = JAPANESE
    has_template: bool = True
    sizes: SplitSizes | None = None
    typer: MaskTyper = field(default_factory=RuleTyper)
    translator: Translator = field(default_factory=NoTranslation)
    models: tuple[AskedModel, ...] = ()


def build_named(
    source: NoteSource,
    *,
    out: Path,
    order: ChainOrder,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> ChainSummary:
    """Make a corpus with names; the folder, which must be empty, appears when it is whole.

    `progress` and `should_stop` are asked for each batch of notes and of a model's prompts; the
    unit is bytes of the source. When a person stops, nothing is left but a model's answers.
    """
    # Models take hours where the first pass takes a minute: it is no part of the time left then.
    n_fill = source.n_bytes * (_MODEL_WEIGHT if order.models else 1.0)
    totals = {SURVEY: float(source.n_bytes), FILL: n_fill}
    meter = Meter(totals, listener=progress, should_stop=should_stop)

    def on_survey(n: int) -> None:
        meter.add(SURVEY, n, is_cached=bool(order.models))

    with corpus_folder(out, names=FILES, kept=ANSWERS if order.models else "") as files:
        surveyed = survey(source, sizes=order.sizes, seed=order.seed, on_bytes=on_survey)
        meter.finish(SURVEY)
        chain = _Chain(order, surveyed)
        n_units, n_models = n_fill / len(surveyed.split), len(order.models)
        gauge = FillMeter(meter, FILL, n_units=n_units, n_models=n_models)
        with ExitStack() as stack:
            if order.models:
                answers = stack.enter_context(closing(AnswerFile(building_folder(out) / ANSWERS)))
                for model in order.models:
                    stack.enter_context(model.keeping(answers, gauge.answered))
            for batch in chain.batches(source, gauge):
                for name, line in batch:
                    files[name].write(line)
        meter.finish(FILL)
        digests = {name: files[name].digest for name in FILES if name != SUMMARY}
        summary = chain.summary(digests)
        text = json.dumps(summary.plain(), indent=1, ensure_ascii=False) + "\n"
        files[SUMMARY].write(text.encode())
    return summary


class _Chain:
    """Steps 2 to 5 for batch after batch, and what is counted on the way."""

    def __init__(self, order: ChainOrder, surveyed: Surveyed) -> None:
        self._order, self._surveyed, self._leaks = order, surveyed, LeakCounter()
        self._counts, self._unknown = Counter[str](), Counter[str]()
        self._spans, self._kinds, self._splits = Counter[str](), Counter[str](), Counter[str]()

    def batches(
        self, source: NoteSource, gauge: FillMeter
    ) -> Iterator[Iterable[tuple[str, bytes]]]:
        """Yield for each batch of notes, and each refused row, files and lines for them."""
        notes: list[Note] = []
        for note in source.read(on_bytes=gauge.read):
            if isinstance(note, RowNote):
                self._counts["n_refused"] += 1
                yield [(REFUSED, _line(asdict(note)))]
                continue
            notes.append(note)
            if len(notes) == _BATCH_NOTES:
                yield self._lines(notes, gauge)
                notes = []
        if notes:
            yield self._lines(notes, gauge)
        if self._counts["n_notes"] != len(self._surveyed.split):
            raise _changed()

    def _lines(self, notes: Sequence[Note], gauge: FillMeter) -> Iterator[tuple[str, bytes]]:
        gauge.begin(len(notes))
        n_done = self._counts["n_notes"]
        if n_done + len(notes) > len(self._surveyed.split):
            raise _changed()
        texts = self._order.translator.translate(self._typed(notes))
        for place, (note, text) in enumerate(zip(notes, texts, strict=True), start=n_done):
            done = filled(text.text, context=self._context(note))
            split = SPLITS[self._surveyed.split[place]]
            doc_id = f"{note.note_id}#{note.row}" if self._surveyed.has_same_ids else note.note_id
            self._counts.update(
                n_notes=1, n_marks_left=done.n_left, n_passages=text.n_passages,
                n_passages_kept=text.n_kept,
            )  # fmt: skip
            self._splits[split] += 1
            self._spans.update(span.label for span in done.spans)
            self._kinds.update(span.kind for span in done.spans)
            names = [value for span, value in zip(done.spans, done.values, strict=True)
                     if span.label == IDENTIFIER]  # fmt: skip
            self._leaks.add(split, patient=_owner(note), doc_id=doc_id, text=done.text, names=names)
            yield SPLIT_FILES[split], named_line(done, doc_id=doc_id, note=note)
        gauge.end()

    def _typed(self, notes: Sequence[Note]) -> list[str]:
        masked = [masked_note(note.text, has_blanks=self._surveyed.has_blanks) for note in notes]
        answers = self._order.typer.types(masked)
        texts: list[str] = []
        for note, one, types in zip(notes, masked, answers, strict=True):
            if not one.places and self._order.has_template and not has_typed_marks(note.text):
                self._counts["n_templates"] += 1
                key = f"{_owner(note)}/{note.row}"
                texts.append(with_template(note.text, seed=self._order.seed, note=key))
                continue
            typed = with_types(one, types)
            self._unknown.update(typed.unknown)
            self._counts["n_restored"] += typed.n_restored
            texts.append(with_marked_ages(typed.text))
        return texts

    def _context(self, note: Note) -> NoteContext:
        seed, owner, locale = self._order.seed, _owner(note), self._order.locale
        try:
            known = (
                self._surveyed.profiles.profile(note.patient_id, seed=seed)
                if note.patient_id
                else profile_of_note(note, seed=seed)
            )
        except KeyError:
            raise _changed() from None
        return NoteContext(
            seed=seed,
            identity=identity_of(seed, owner, known.profile, locale=locale),
            stay=f"{owner}/{note.admission_id}",
            note=f"{owner}/{note.row}",
            near=parsed_day(note.chart_time) or known.first_day,
            interval=known.interval,
            locale=locale,
        )

    def summary(self, digests: dict[str, str]) -> ChainSummary:
        """Return what was counted, with the SHA-256 of each file."""
        names = ("n_notes", "n_refused", "n_templates", "n_restored", "n_marks_left", "n_passages",
                 "n_passages_kept")  # fmt: skip
        namesakes = namesakes_expected(locale=self._order.locale)
        return ChainSummary(
            seed=self._order.seed,
            locale=self._order.locale,
            n_patients=len(self._surveyed.profiles),
            **{name: self._counts[name] for name in names},
            unknown=_ranked(self._unknown),
            n_spans={name: self._spans[name] for name in TYPES},
            kinds=_ranked(self._kinds),
            splits={name: self._splits[name] for name in SPLITS},
            leaks=self._leaks.check(),
            namesakes_per_100_000=round(namesakes, 3),
            digests=digests,
        )


def named_line(done: FilledNote, *, doc_id: str, note: Note) -> bytes:
    """Return a note with names as a line of JSONL, as `deid score` and taggers read it."""
    patient = {"patient_id": note.patient_id} if note.patient_id else {}
    spans = [asdict(span) for span in done.spans]
    return _line({"doc_id": doc_id, "text": done.text, **patient, "spans": spans})


def _line(record: object) -> bytes:
    text = json.dumps(record, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "surrogatepass")


def _ranked(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _owner(note: Note) -> str:
    return f"patient:{note.patient_id}" if note.patient_id else f"note:{note.row}"


def _changed() -> AuditError:
    return AuditError("The notes changed while they were read.", where="notes")
