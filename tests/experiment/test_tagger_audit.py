"""What an own generative tagger gives away: its prompt, its notes, and a whole tiny audit."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.attack import metrics, scenarios
from audit.attack.contexts import list_first_tokens, make_continuation_task
from audit.cli.command_line import parse_words
from audit.deid.find.causal_model import encode_text, make_frame
from audit.deid.find.tagger_facts import GenerativeFacts
from audit.errors import AuditCancelled, AuditError
from audit.experiment import leakage, tagger_audit
from audit.experiment.tagger_audit import (
    AFTER_NOTE,
    ANSWER,
    NOTE,
    NULL,
    OWN,
    PLACES,
    TABLES_MD,
    TUNING,
    TaggerAudit,
    TaggerAuditTask,
    frame_passages,
    make_request,
    read_prompt_texts,
    refuse_other_model,
    rename_patients,
    run_tagger_audit,
)
from audit.home import DEMO_HOSPITAL
from audit.models.registry import load_tokenizer
from audit.notes.passages import read_passages
from audit.notes.spans import IDENTIFIER
from audit.training.loop import Learner
from cache.store import Store
from tests.experiment.tiny_leakage import demo_notes
from tests.one_thread import one_thread

__all__ = ["one_thread"]
BASE = DEMO_HOSPITAL / "en" / "causal" / "general"
PASSAGE = b'{"text": "service : gout hpi : [NAME] is a 38 year old male .", "name_id": 0}\n'


def tokens_before_name(place: str, *, n_note_tokens: int = 1000) -> list[int]:
    """Return the tokens that the attack's models read before a name at a place."""
    tokenizer, order = load_tokenizer(BASE), TaggerAuditTask(out=Path("out"))
    texts = read_prompt_texts(tokenizer, language="en")
    passages = read_passages(PASSAGE, file_name="p.jsonl")
    framed = frame_passages(
        passages, texts, place=place, tokenizer=tokenizer, n_note_tokens=n_note_tokens
    )
    listed = order.read_candidates().rows(range(20))
    task = make_continuation_task(
        listed,
        framed.passages,
        tokenizer=tokenizer,
        is_known=np.ones(20, dtype=np.bool_),
        n_listed=20,
        max_tokens=512,
        header=texts.header(place),
        seed=0,
    )
    return list(task.contexts[0])


def test_an_attacker_reads_before_a_name_what_the_tagger_learned_before_it() -> None:
    tokenizer = load_tokenizer(BASE)
    frame = make_frame(tokenizer, language="en")
    left = "service : gout hpi : "
    copied = encode_text(tokenizer, left + "<identifier>")[:-1]
    assert frame.head[:1] == list_first_tokens(tokenizer)
    expected = [*frame.head, *frame.middle, *copied]
    assert tokens_before_name(ANSWER) == expected
    note = encode_text(tokenizer, f"{left}[NAME] is a 38 year old male .")
    assert tokens_before_name(AFTER_NOTE) == [*frame.head, *note, *frame.middle, *copied]
    in_note = tokens_before_name(NOTE)
    assert in_note == [*frame.head, *encode_text(tokenizer, left.rstrip())]


def test_a_note_before_the_answer_is_no_longer_than_a_window_of_the_training() -> None:
    all_tokens, cut_tokens = (tokens_before_name(AFTER_NOTE, n_note_tokens=n) for n in (1000, 14))
    note_tokens = encode_text(
        load_tokenizer(BASE), "service : gout hpi : [NAME] is a 38 year old male ."
    )
    assert len(all_tokens) - len(cut_tokens) == len(note_tokens) - 14 > 0


def test_the_null_learns_the_same_notes_with_names_of_nobody_on_the_list() -> None:
    notes, listed = demo_notes("en"), TaggerAuditTask(out=Path("out")).read_candidates()
    renamed = rename_patients(notes.documents, listed=listed, seed=0)
    names = {listed.full_name(row) for row in range(len(listed))}
    new_name_of: dict[str | None, set[str]] = {}
    for document, renamed_note in zip(notes.documents, renamed, strict=True):
        assert [span.label for span in document.spans] == [
            span.label for span in renamed_note.spans
        ]
        end, other_end = 0, 0
        for span, new in zip(document.spans, renamed_note.spans, strict=True):
            assert document.text[end : span.start] == renamed_note.text[other_end : new.start]
            name, new_name = (
                document.text[span.start : span.end],
                renamed_note.text[new.start : new.end],
            )
            if span.label == IDENTIFIER:
                assert name in names and new_name not in names
                new_name_of.setdefault(document.patient_id, set()).add(new_name)
            else:
                assert name == new_name
            end, other_end = span.end, new.end
        assert document.text[end:] == renamed_note.text[other_end:]
    assert len(new_name_of) == notes.n_patients
    assert all(len(new_names) == 1 for new_names in new_name_of.values())
    assert rename_patients(notes.documents, listed=listed, seed=1) != renamed


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"language": "ja"}, "in English only"),
        ({"names": Path("names.csv")}, "belong to a tagger"),
        ({"names": Path("n"), "passages": Path("p"), "tagger": Path("t")}, "belong to a tagger"),
    ],
)
def test_an_order_that_contradicts_itself_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(AuditError, match=message):
        TaggerAuditTask(out=Path("out"), **wrong)


def test_the_order_decides_seed_and_language_of_the_tuning() -> None:
    order = TaggerAuditTask(out=Path("out"), base=BASE, language="ja", seed=7)
    assert (order.tuning.seed, order.tuning.language) == (7, "ja")
    assert order.arms == (OWN, NULL)
    _, options = parse_words(
        ["deid", "selfaudit", "--out", "out", "--gen-epochs", "3", "--seed", "7", "--lora"]
    )
    assert (options["gen_n_epochs"], options["seed"], options["lora"]) == (3, 7, True)


def test_a_tagger_that_another_model_was_tuned_to_is_refused(tmp_path: Path) -> None:
    facts = GenerativeFacts(model="", training={"base": "0" * 64})
    (tmp_path / "tagger.json").write_bytes(facts.file())
    with pytest.raises(AuditError, match="tuned from another model"):
        refuse_other_model(tmp_path, general=BASE)


SMALL_NOTES = 24
ORDER = TaggerAuditTask(
    out=Path("out"),
    tuning=TUNING.with_(n_epochs=0.4, batch=4, micro_batch=4, checkpoint_every=1),
    n_inputs=2,
    n_documents=20,
    device="cpu",
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    notes = demo_notes("en")
    named = [d for d in notes.documents if any(span.label == IDENTIFIER for span in d.spans)]
    free = [d for d in notes.documents if d not in named]
    few = (*named[:SMALL_NOTES], *free[:10])
    monkeypatch.setattr(metrics, "N_REPLICATES", 100)
    monkeypatch.setattr(scenarios, "N_PAIR_REFERENCE", 100)
    monkeypatch.setattr(scenarios, "MIN_PAIR_REFERENCE", 40)
    monkeypatch.setattr(
        tagger_audit, "read_hospital_notes", lambda language: leakage.HospitalNotes(language, few)
    )
    yield


@pytest.mark.slow
def test_a_tagger_and_its_null_are_tuned_and_audited_and_a_stopped_run_goes_on(
    small: None, one_thread: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(folder: Path, **changes: Any) -> TaggerAudit:
        with Store(folder / "store") as store:
            return run_tagger_audit(ORDER.with_(out=folder / "out"), store=store, **changes)

    sentences: list[str] = []
    audit = run(tmp_path / "whole", say=sentences.append)
    assert [row.arm for row in audit.taggers] == [OWN, NULL]
    assert len({row.digest for row in audit.taggers}) == 2
    assert audit.taggers[0].n_notes == SMALL_NOTES + 9  # a tenth of the notes without a name
    assert [(row.arm, row.place) for row in audit.leaks] == [
        (arm, place) for arm in (OWN, NULL) for place in (*PLACES, "")
    ]
    assert len({row.digest for row in audit.leaks}) == 8
    assert all(row.people.n_total == 130 for row in audit.leaks)
    assert len(sentences) == 10
    text = b"".join(audit.files().values()).decode()
    listed = ORDER.read_candidates()
    assert not any(listed.full_name(row) in text for row in range(len(listed)))
    assert (tmp_path / "whole" / "out" / TABLES_MD).read_bytes() == audit.files()[TABLES_MD]

    n_told = 0

    def should_stop() -> bool:
        nonlocal n_told
        n_told += 1
        return n_told > 4

    with pytest.raises(AuditCancelled):
        run(tmp_path / "stopped", should_stop=should_stop)
    assert run(tmp_path / "stopped").files() == audit.files()

    # The same tagger, handed over as one that is trained already, gives the same answers.
    monkeypatch.setattr(Learner, "step", None)
    shutil.copytree(tmp_path / "whole" / "out" / OWN, tmp_path / "given")
    given_order = ORDER.with_(tagger=tmp_path / "given", out=tmp_path / "whole" / "again")
    with Store(tmp_path / "whole" / "store") as store:
        trained_audit = run_tagger_audit(given_order, store=store)
    assert [row.digest for row in trained_audit.leaks] == [row.digest for row in audit.leaks[:4]]
    request = make_request(
        given_order,
        tmp_path / "given" / "model",
        facts=GenerativeFacts.of_folder(tmp_path / "given"),
        place="",
    )
    assert request.sampling.prompt.endswith("hpi : <identifier>")
