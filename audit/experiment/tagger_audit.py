"""What a generative tagger gives away: the name attack on a model that learned to copy notes.

A generative tagger is a causal model that was tuned on identified notes, so it is audited like one,
beside the model that it was tuned from. It learns from the tokens of its answer alone: it reads the
note before the answer without a loss. The attacker knows the text around note and answer, and asks
for a name at three places (`PLACES`).

Input: an order. Output: tables in a folder, and audits in the store of results. Without a tagger of
the user's, one is tuned on the demo hospital's notes, and another, the null, on the same notes with
other names. Everything is stored, so what was stopped goes on where it was. Torch is imported only
where models run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
from pydantic import Field, model_validator

from audit.attack.contexts import list_first_tokens
from audit.attack.measure_types import Measured, Number, Part
from audit.attack.plan import choose_prompt, list_phases
from audit.attack.question import (
    AuditRequest,
    ContinuationSettings,
    SamplingSettings,
    question_digest,
)
from audit.deid.find.causal_model import directory_digest, make_frame
from audit.deid.find.tagger import MODEL
from audit.deid.find.tagger_facts import GenerativeFacts
from audit.deid.learn.tagger_task import TaggerTask, TuningSettings
from audit.errors import AuditCancelled, AuditError
from audit.experiment.leakage import read_hospital_notes
from audit.home import DEMO_HOSPITAL, results_dir
from audit.models.inspect import compute_model_digest
from audit.models.library import Tokenizer
from audit.models.registry import load_tokenizer
from audit.names.candidates import Candidates
from audit.names.controls import draw_names
from audit.names.files import read_names
from audit.names.pools import pool_for
from audit.notes.formats import format_jsonl_line, write_tags
from audit.notes.passages import Passage, Passages, read_passages
from audit.notes.spans import IDENTIFIER, Span, TaggedDocument, build_document
from audit.progress import Meter, Phase, ProgressListener, StopQuestion, combine_phases
from audit.report.name_table import numbers
from audit.report.report import AuditReport
from audit.run import run_audit
from audit.shelf import private_folder, write_private, write_whole
from audit.stats import NO_ESTIMATE, Rate
from audit.tables import UNDEFINED, decimal, format_counts, format_estimate, markdown_table
from audit.task import MAX_SEED, Contact, Device, Question, Task, queue_of, read_file_states
from audit.text import fold_letters, written_name
from audit.words import Language
from cache.store import Store

ANSWER, AFTER_NOTE, NOTE = "answer", "after note", "note"
PLACES = (ANSWER, AFTER_NOTE, NOTE)
"""Where the attacker asks for a name in scenario 2.

`ANSWER`: in an answer to an empty note. `AFTER_NOTE`: in the answer to the de-identified note.
`NOTE`: in the note, whose tokens the tagger reads and does not learn.
"""
GIVEN, OWN, NULL = "given", "tagger", "null"
"""The arms: a tagger of the user's; one of the demo's notes; one of these with other names."""
_STAND_IN = "[NAME]"
"""What stands for the name in a de-identified note."""
TUNING = TuningSettings(
    n_epochs=10.0,
    batch=16,
    micro_batch=16,
    learning_rate=5e-4,
    warmup_share=0.02,
    schedule="constant",
    precision="float32",
    language="en",
)
"""Tuning of the demo hospital's small model; a rate for models of a million parameters."""
FROM_ORDER = ("seed", "language")
"""Settings of the tuning that are those of the order."""
_SHARE_APART = 0.1


class TaggerAuditTask(Task):
    """The settings of an audit of a generative tagger."""

    job = "tagger_audit"

    out: Path = Field(description="a new folder for taggers and tables, or a stopped run's")
    base: Path | None = None
    """Directory of the causal model that the tagger is tuned from; None: the demo hospital's."""
    tagger: Path | None = None
    """Folder of a tagger that is trained; None: one is tuned on the demo hospital's notes."""
    names: Path | None = Field(
        default=None, description="with --tagger: list of the people in the notes that it learned"
    )
    passages: Path | None = Field(
        default=None, description="with --tagger: de-identified passages of these notes"
    )
    language: Language = Field(
        default="en", description="of the demo hospital, of tags and instruction"
    )
    tuning: TuningSettings = TUNING
    n_inputs: int = Field(
        default=40, ge=1, le=10_000_000, description="scenario 2: passages, for each place"
    )
    n_documents: int = Field(
        default=300, ge=1, le=10_000_000, description="scenario 1: documents to write"
    )
    prompt: str = Field(
        default="",
        max_length=10_000,
        description="scenario 1: how the copied notes begin; without it, as those of the demo do",
    )
    seed: int = Field(
        default=0, ge=0, le=MAX_SEED, description="of other names, tunings and attacks"
    )
    device: Device = Field(default="auto", description="of tunings and attacks")

    @model_validator(mode="after")
    def _check(self) -> Self:
        order_settings = {name: getattr(self, name) for name in FROM_ORDER}
        object.__setattr__(self, "tuning", self.tuning.with_(**order_settings))
        has_lists = self.names is not None, self.passages is not None
        if any(has_lists) and not (all(has_lists) and self.tagger and self.base):
            raise AuditError(
                "Names and passages belong to a tagger that is trained, and to its general model.",
                where="names",
                do="Give names, passages, the tagger and the model that it was tuned from.",
            )
        if self.base is None and self.language != "en":
            raise AuditError(
                "The demo hospital has causal models in English only.",
                where="language",
                do="Choose English, or give a causal model.",
            )
        return self

    @property
    def general(self) -> Path:
        """Directory of the model that the tagger is tuned from."""
        return self.base or DEMO_HOSPITAL / "en" / "causal" / "general"

    @property
    def arms(self) -> tuple[str, ...]:
        """The taggers that are audited."""
        return (OWN, NULL) if self.tagger is None else (GIVEN,)

    def read_candidates(self) -> Candidates:
        """The list of names."""
        if self.names is not None:
            return read_names(self.names.read_bytes(), subject="names").candidates
        path = DEMO_HOSPITAL / self.language / "names.csv"
        return read_names(path.read_bytes(), subject="demo names").candidates.with_source(
            "invented"
        )

    def read_passages(self) -> Passages:
        """The passages of the de-identified notes."""
        path = self.passages or DEMO_HOSPITAL / self.language / "passages.jsonl"
        return read_passages(path.read_bytes(), subject="passages", file_name=path.name)

    @property
    def shown_prompt(self) -> str:
        """How the copied notes begin, in scenario 1."""
        return self.prompt or choose_prompt(
            self.read_candidates(), is_causal=True, general=self.general
        )

    def question(self) -> Question:
        """Return the question; its folder is part of it."""
        if self.tagger is not None:
            refuse_other_model(self.tagger, general=self.general)
        excluded = {"out", "device"}
        settings = {name: value for name, value in self.plain().items() if name not in excluded}
        lists = read_file_states(self.tagger, self.names, self.passages, where="tagger")
        return self.make_question(
            label=self.general.name,
            device=queue_of(self.device),
            about=[
                question_digest(settings),
                lists,
                compute_model_digest(self.general),
                str(self.out),
            ],
        )

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Tune and audit, or do the rest of it; return the digests of the audits."""
        with Store(results_dir()) as store:
            tables = run_tagger_audit(
                self,
                store=store,
                progress=contact.listen,
                should_stop=contact.should_stop,
                say=contact.say,
            )
        return tuple(row.digest for row in tables.leaks)


@dataclass(frozen=True)
class PromptTexts:
    """The texts that a tagger reads around a note, as the attacker writes them.

    `head` stands before the note, `middle` between note and answer, `tag` before a name in the
    answer.
    """

    head: str
    middle: str
    tag: str

    def header(self, place: str) -> str:
        """Return the text before a passage in which the attacker asks at a place."""
        return self.head + self.middle if place == ANSWER else self.head

    def frame_passage(self, passage: Passage, *, place: str, note: str) -> Passage:
        """Return a passage as it stands at a place; `note` is that of the passage, de-identified.

        A tagger tags the name in its answer, so the tag belongs to the text before the name.
        """
        if place == NOTE:
            return passage
        question = note + self.middle if place == AFTER_NOTE else ""
        return replace(passage, left=question + passage.left + self.tag)


def read_prompt_texts(tokenizer: Tokenizer, *, language: Language) -> PromptTexts:
    """Return the texts around a note in the prompt of a tagger.

    Raises AuditError if they are split into other tokens than the tagger learned with.
    """
    frame, first = make_frame(tokenizer, language=language), list_first_tokens(tokenizer)
    head = frame.head[len(first) :] if frame.head[: len(first)] == first else frame.head
    texts = tuple(_write_tokens(tokenizer, ids) for ids in (head, frame.middle))
    tagged = write_tags(
        build_document("", text="x", spans=[Span(0, 1, IDENTIFIER)]), language=language
    )
    return PromptTexts(texts[0], texts[1], tag=tagged.partition("x")[0])


def _write_tokens(tokenizer: Tokenizer, ids: tuple[int, ...]) -> str:
    """Return the text that a tokenizer splits into exactly these tokens."""
    text = tokenizer.decode(
        list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
    )
    if tuple(tokenizer(text, add_special_tokens=False)["input_ids"]) != ids:
        raise AuditError(
            "The instruction of this tagger cannot be written as a text that its tokenizer "
            "splits into the same tokens.",
            where="tagger",
            do="Audit its model with the command run, and give the instruction as --header.",
        )
    return str(text)


def frame_passages(
    passages: Passages, texts: PromptTexts, *, place: str, tokenizer: Tokenizer, n_note_tokens: int
) -> Passages:
    """Return the passages as they stand at a place of the tagger's prompt.

    The de-identified note before an answer ends where a window of the tagger's training does,
    after `n_note_tokens` tokens.
    """

    def write_note(passage: Passage) -> str:
        text = passage.left + _STAND_IN + passage.right
        offsets = tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).offsets
        window = offsets[:n_note_tokens]
        n_chars = window[-1][1] if len(window) < len(offsets) else len(text)
        return text[: max(n_chars, len(passage.left) + len(_STAND_IN))]

    framed = (
        texts.frame_passage(passage, place=place, note=write_note(passage))
        for passage in passages.passages
    )
    return replace(passages, passages=tuple(framed))


def rename_patients(
    documents: tuple[TaggedDocument, ...], *, listed: Candidates, seed: int
) -> tuple[TaggedDocument, ...]:
    """Return notes with other names of the generator in the place of the patients'.

    A patient has the same other name in all notes, and no other name is on the list.
    """
    listed_names = {fold_letters(listed.full_name(row)) for row in range(len(listed))}
    owners = sorted({_name_owner(document) for document in documents if _has_patient(document)})
    other_names = draw_names(
        pool_for(listed),
        n=len(owners),
        seed=seed,
        accepts=lambda first, last: fold_letters(written_name(first, last)) not in listed_names,
        purpose="other names of a tagger's notes",
    )
    other_name_of = {owner: other_names.full_name(row) for row, owner in enumerate(owners)}
    renamed = []
    for document in documents:
        text, end, spans = "", 0, list[Span]()
        for span in document.spans:
            text += document.text[end : span.start]
            is_patient = span.label == IDENTIFIER
            span_text = document.text[span.start : span.end]
            span_text = other_name_of[_name_owner(document)] if is_patient else span_text
            spans.append(Span(len(text), len(text) + len(span_text), span.label))
            text, end = text + span_text, span.end
        renamed.append(replace(document.with_spans(spans), text=text + document.text[end:]))
    return tuple(renamed)


def _has_patient(document: TaggedDocument) -> bool:
    return any(span.label == IDENTIFIER for span in document.spans)


def _name_owner(document: TaggedDocument) -> str:
    return document.patient_id or ""


def tune_tagger(
    order: TaggerAuditTask,
    arm: str,
    *,
    progress: ProgressListener = lambda _: None,
    should_stop: StopQuestion = lambda: False,
) -> Path:
    """Tune the tagger of an arm, or go on with a tuning that was stopped; return its folder.

    A tenth of the notes without a patient's name are held apart, so that every listed member is in
    the notes that are learned.
    """
    from audit.deid.learn.tuning import train_generative

    documents = read_hospital_notes(order.language).documents
    if arm == NULL:
        documents = rename_patients(documents, listed=order.read_candidates(), seed=order.seed)
    free = [document for document in documents if not _has_patient(document)]
    apart = {document.doc_id for document in free[: round(_SHARE_APART * len(free))]}
    folder, files = private_folder(order.out / arm), private_folder(order.out / f"{arm}-notes")
    paths = {False: files / "gold.jsonl", True: files / "apart.jsonl"}
    for is_apart, path in paths.items():
        lines = (format_jsonl_line(d) for d in documents if (d.doc_id in apart) == is_apart)
        write_whole(path, "".join(lines).encode())
    task = TaggerTask(
        settings=order.tuning,
        gold=(paths[False],),
        validation=(paths[True],),
        start=order.general,
        title=f"demo {order.language}: {arm}",
        out=folder,
        device=order.device,
    )
    train_generative(task, order.tuning, progress=progress, should_stop=should_stop)
    return folder


class TaggerRow(Part):
    """One tagger: how it was tuned; losses are those of answers, in nats a token."""

    arm: str
    digest: str
    n_notes: int
    n_windows: int
    n_steps: int
    loss: Number
    first_validation: Number
    validation: Number


class TaggerLeakRow(Part):
    """One audit of a tagger beside its general model.

    `place` is one of `PLACES`, or "" in scenario 1. The AUCs are those of the fixed score against
    easy and hard controls. `people` and `controls` count names with q of at most 5 %; people are
    all names that are no controls.
    """

    arm: str
    scenario: int
    place: str
    verdict: str
    easy: Measured
    hard: Measured
    people: Rate
    controls: Rate
    digest: str


def make_tagger_row(arm: str, facts: GenerativeFacts) -> TaggerRow:
    """Return the row of a tagger, from its `tagger.json`."""
    training, measured = facts.training, facts.measured

    def count(name: str) -> int:
        return int(str(training.get(name) or 0))

    def loss(name: str) -> float:
        return float(str(measured.get(name) or math.nan))

    return TaggerRow(
        arm=arm,
        digest=facts.digest(),
        n_notes=count("n_notes"),
        n_windows=count("n_windows"),
        n_steps=count("n_steps"),
        loss=loss("loss"),
        first_validation=loss("first_validation"),
        validation=loss("validation"),
    )


def make_leak_row(arm: str, place: str, report: AuditReport) -> TaggerLeakRow:
    """Return the row of an audit, from its report."""
    strata, fixed = report.measures.strata, report.fixed_score
    aucs = {
        kind: strata[kind].scores[fixed].auc if kind in strata else NO_ESTIMATE
        for kind in ("easy", "hard")
    }
    is_flagged = np.array(report.stands_out, dtype=np.bool_)
    truth = numbers(report.names["is_member"])
    rates = [
        Rate(int(is_flagged[rows].sum()), int(rows.sum())) for rows in (truth != 0, truth == 0)
    ]
    return TaggerLeakRow(
        arm=arm,
        scenario=report.scenario.number,
        place=place,
        verdict=report.verdict.state,
        people=rates[0],
        controls=rates[1],
        digest=report.digest,
        **aucs,
    )


def refuse_other_model(tagger: Path, *, general: Path) -> GenerativeFacts:
    """Return the facts of a generative tagger; refuse one that another model was tuned to."""
    facts = GenerativeFacts.of_folder(tagger)
    if facts.training.get("base") != directory_digest(general):
        raise AuditError(
            "This tagger was tuned from another model.",
            where="--model",
            do="Give the directory of the model that it was tuned from.",
        )
    return facts


def make_request(
    order: TaggerAuditTask, model: Path, *, facts: GenerativeFacts, place: str
) -> AuditRequest:
    """Return the question about a tagger's model; `place` is "" in scenario 1."""
    tokenizer = load_tokenizer(order.general)
    texts = read_prompt_texts(tokenizer, language=facts.language)
    passages: Passages | None = None
    if place:
        passages = frame_passages(
            order.read_passages(),
            texts,
            place=place,
            tokenizer=tokenizer,
            n_note_tokens=facts.n_note_tokens,
        )
    return AuditRequest(
        scenario_number=2 if place else 1,
        general=order.general,
        hospital=model,
        candidates=order.read_candidates(),
        passages=passages,
        sampling=SamplingSettings(
            n_documents=order.n_documents,
            header=texts.header(ANSWER),
            prompt=order.shown_prompt + ("" if facts.language == "ja" else " ") + texts.tag,
        ),
        continuation=ContinuationSettings(n_inputs=order.n_inputs, header=texts.header(place)),
        seed=order.seed,
        device=order.device,
    )


@dataclass(frozen=True, eq=False)
class TaggerAudit:
    """The results: rows of the taggers, and rows of their audits in the order of the arms."""

    order: TaggerAuditTask
    taggers: tuple[TaggerRow, ...]
    leaks: tuple[TaggerLeakRow, ...]

    def files(self) -> dict[str, bytes]:
        """Return the contents of the files by name."""
        rows = {
            name: [row.to_json() for row in getattr(self, name)] for name in ("taggers", "leaks")
        }
        order = {k: v for k, v in self.order.plain().items() if k not in ("out", "device")}
        text = json.dumps({"schema": 1, "order": order, **rows}, ensure_ascii=False, indent=1)
        return {TABLES_JSON: f"{text}\n".encode(), TABLES_MD: tables_markdown(self).encode()}


TABLES_JSON, TABLES_MD = "tables.json", "tables.md"
QUESTIONS = (*PLACES, "")
"""The audits of an arm: scenario 2 at each place, then scenario 1."""
_TUNING_SECONDS = 300.0


def run_tagger_audit(
    order: TaggerAuditTask,
    *,
    store: Store,
    progress: ProgressListener = lambda _: None,
    should_stop: StopQuestion = lambda: False,
    say: Callable[[str], None] = lambda _: None,
) -> TaggerAudit:
    """Tune and audit, or do the rest of it; `say` gets a sentence after each stage."""
    meter = Meter(_yield_stages(order), listener=progress)
    taggers, leaks = [], []
    for arm in order.arms:
        if should_stop():
            raise AuditCancelled
        if order.tagger is None:
            folder = tune_tagger(
                order,
                arm,
                progress=meter.make_listener(arm, f"{arm}: "),
                should_stop=should_stop,
            )
            meter.finish(arm)
            facts = GenerativeFacts.of_folder(folder)
        else:
            folder = order.tagger
            facts = refuse_other_model(folder, general=order.general)
        taggers.append(make_tagger_row(arm, facts))
        say(f"{arm}: {taggers[-1].n_steps} steps, loss {taggers[-1].loss:.3f}.")
        for place in QUESTIONS:
            stage = _audit_stage(arm, place)
            report = run_audit(
                make_request(order, folder / MODEL, facts=facts, place=place),
                store=store,
                progress=meter.make_listener(stage, f"{stage}: "),
                should_stop=should_stop,
            )
            meter.finish(stage)
            leaks.append(make_leak_row(arm, place, report))
            say(f"{stage}: {report.verdict.in_short('en')} {report.verdict.english}")
    audit = TaggerAudit(order, tuple(taggers), tuple(leaks))
    write_private(audit.files(), private_folder(order.out))
    return audit


def _yield_stages(order: TaggerAuditTask) -> Iterator[Phase]:
    """Yield the phases in order; the general model stands for taggers that are not tuned yet."""
    facts = GenerativeFacts(model="", language=order.language)
    if order.tagger is not None:
        facts = GenerativeFacts.of_folder(order.tagger)
    attacks = {
        place: list(list_phases(make_request(order, order.general, facts=facts, place=place)))
        for place in QUESTIONS
    }
    for arm in order.arms:
        if order.tagger is None:
            yield Phase(arm, _TUNING_SECONDS, kind="tuning a tagger", has_own_meter=True)
        for place, phases in attacks.items():
            yield combine_phases(_audit_stage(arm, place), phases, kind="attack")


def _audit_stage(arm: str, place: str) -> str:
    return f"{arm}, scenario 2, {place}" if place else f"{arm}, scenario 1"


def tables_markdown(audit: TaggerAudit) -> str:
    """Return the tables with 95 % intervals, as Markdown."""
    order = audit.order
    parts = [
        f"Passages {order.n_inputs}, documents {order.n_documents:,}, seed {order.seed}.",
        "**How each tagger was tuned**",
        markdown_table(
            ("Tagger", "Notes", "Windows", "Steps", "Loss", "Apart, before", "Apart, after"),
            [
                (
                    row.arm,
                    row.n_notes,
                    row.n_windows,
                    row.n_steps,
                    *(
                        decimal(loss, digits=2)
                        for loss in (row.loss, row.first_validation, row.validation)
                    ),
                )
                for row in audit.taggers
            ],
        ),
        "**What each tagger gives away**",
        markdown_table(
            (
                "Tagger",
                "Scenario",
                "Place",
                "Verdict",
                "AUC easy",
                "AUC hard",
                "People",
                "Controls",
            ),
            [
                (
                    row.arm,
                    row.scenario,
                    row.place or UNDEFINED,
                    row.verdict,
                    *(format_estimate(x, digits=2, between=" to ") for x in (row.easy, row.hard)),
                    format_counts(row.people),
                    format_counts(row.controls),
                )
                for row in audit.leaks
            ],
        ),
        "Losses are in nats a token of the answers. People and controls are counted with q of at "
        "most 0.05. In brackets 95 % intervals over names: they know nothing of another tuning. "
        "`answer`: in the answer to an empty note. `after note`: in the answer to the "
        "de-identified note. `note`: in the note, whose tokens the tagger does not learn. The null "
        "was tuned on the same notes with other names.",
    ]
    return "\n\n".join(parts) + "\n"
