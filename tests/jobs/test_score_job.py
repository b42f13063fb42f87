"""The job "score": what makes two orders one question, what a stop keeps, all its sources."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from audit.deid import scoring
from audit.deid.copies import CopyReading, Piece, read_pieces
from audit.deid.given import clear_given, given_path, keep_given, keep_notes, keep_outputs
from audit.deid.rules import RuleTagger
from audit.deid.score import SCORES, Source
from audit.deid.scoring import ScoreTask
from audit.deid.taggers import KnownTagger
from audit.errors import AuditCancelled, AuditError
from audit.home import HOME_VARIABLE
from audit.jobs.kinds import KINDS
from audit.notes.formats import write_files, write_jsonl, write_tags
from audit.notes.spans import Span, TaggedDocument
from audit.progress import Progress
from audit.task import SHORT, Contact
from tests.deid.make_scores import content_of, files_of, gold_notes, predicted_notes, quiet

RULES = KnownTagger("rules", "rules", "", RuleTagger().digest)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    monkeypatch.setattr(scoring, "known_taggers", lambda: (RULES,))


def contact(seen: list[Progress], *, stop_at: float = 2.0) -> Contact:
    return Contact(
        lambda progress, part: seen.append(progress),
        lambda: bool(seen) and seen[-1].share >= stop_at,
        lambda text: None,
    )


def order(golds: Sequence[TaggedDocument], **more: object) -> ScoreTask:
    sides: dict[str, object] = {
        "gold": Source(kind="given", ref=keep_notes(golds).digest),
        "predicted": Source(kind="tagger", ref="rules"),
        "n_replicates": 50,
    }
    return ScoreTask(**{**sides, **more})  # type: ignore[arg-type]


def test_an_order_becomes_a_kept_score_once() -> None:
    question = order(gold_notes(), title="A ward").question()
    plain = json.loads(json.dumps(question.order))
    assert question.kind in KINDS and question.label == "rules" and question.device == SHORT
    wanted = order(gold_notes(), title="A ward").with_(score_id=plain["score_id"])
    assert ScoreTask.ordered(plain) == wanted
    assert "山田" not in json.dumps(plain, ensure_ascii=False)
    seen: list[Progress] = []
    (score_id,) = ScoreTask.answer(plain, contact(seen))
    assert SCORES.get(score_id).tagger["name"] == "rules" and seen[-1].share == 1
    assert {one.phase for one in seen} <= {
        "reading the gold notes", "tagging the notes", "comparing the spans", "drawing intervals",
    }  # fmt: skip
    stamp = SCORES.get(score_id).created
    assert ScoreTask.answer(plain, contact([])) == (score_id,)
    assert SCORES.get(score_id).created == stamp


def test_what_makes_another_question() -> None:
    golds = gold_notes()
    one = order(golds).question()
    assert order(golds, title="T").question().digest == one.digest
    others = [
        order(golds, seed=1), order(golds, matcher="document_order"),
        order(golds, has_five_types=True), order(golds, label_map={"age": ""}),
        order(gold_notes(11)),
        order(golds, predicted=Source(kind="given", ref=keep_notes(golds).digest)),
    ]  # fmt: skip
    digests = {other.question().digest for other in others}
    assert len(digests | {one.digest}) == 7
    with pytest.raises(AuditError, match="no such tagger"):
        order(golds, predicted=Source(kind="tagger", ref="trained/000000000000")).question()
    with pytest.raises(AuditError, match="no longer kept"):
        order(golds, gold=Source(kind="given", ref="0" * 64)).question()
    with pytest.raises(AuditError, match="matcher"):
        order(golds, matcher="no such")


def test_a_stopped_tagging_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "_BATCH_NOTES", 4)
    monkeypatch.setattr("audit.progress._REPORT_SECONDS", 0.0)
    golds = gold_notes(40)
    plain = order(golds).question().order
    asked: list[int] = []
    tag = RuleTagger.tag

    def counted(self: RuleTagger, texts: Sequence[str]) -> object:
        asked.append(len(texts))
        return tag(self, texts)

    monkeypatch.setattr(RuleTagger, "tag", counted)
    with pytest.raises(AuditCancelled):
        ScoreTask.answer(plain, contact([], stop_at=0.5))
    n_before = sum(asked)
    making = SCORES.home() / f".{plain['score_id']}.making"
    assert 0 < n_before < 40 and set(files_of(making).values()) == {0o600}
    lines = (making / "predicted.jsonl").read_bytes()
    (making / "predicted.jsonl").write_bytes(lines + b'{"doc_id": "half')
    (score_id,) = ScoreTask.answer(plain, contact([]))
    assert sum(asked) == 40 and not making.exists()
    whole = content_of(score_id)["summary"]
    SCORES.place(score_id).rename(SCORES.home() / ".away")
    (again,) = ScoreTask.answer(plain, contact([]))
    assert content_of(again)["summary"] == whole and sum(asked) == 80


def test_labels_are_mapped_and_unknown_ones_are_told() -> None:
    golds = [
        note.with_spans(
            Span(
                s.start,
                s.end,
                {"identifier": "PATIENT", "contact": "Rocket"}.get(s.label, s.label),
            )
            for s in note.spans
        )
        for note in gold_notes()
    ]
    wanted = order(
        golds,
        predicted=Source(kind="given", ref=keep_notes(predicted_notes(gold_notes())).digest),
        has_five_types=True,
        label_map={"linkage_code": ""},
    )
    (score_id,) = ScoreTask.answer(wanted.question().order, quiet())
    content = content_of(score_id)
    assert content["unknown_labels"] == ["Rocket"]
    rows = content["summary"]["criteria"]["label_relaxed"]["matrix"]["rows"]
    assert "identifier" in rows and "Rocket" in rows and "PATIENT" not in rows


def test_names_seen_in_training_are_counted_apart() -> None:
    golds, predicted = gold_notes(), predicted_notes(gold_notes())
    wanted = order(
        golds,
        predicted=Source(kind="given", ref=keep_notes(predicted).digest),
        training=Source(kind="given", ref=keep_notes(golds[:1]).digest),
    )
    (score_id,) = ScoreTask.answer(wanted.question().order, quiet())
    (names,) = (
        one for one in content_of(score_id)["seen"]["labels"] if one["label"] == "identifier"
    )
    # 山田太郎 stands in note 0 alone, and is missed there; of the other eleven three are.
    assert names["seen"] == [0, 1] and names["unseen"] == [8, 11]


def test_copies_of_a_model_are_aligned_and_exact_ones_counted_apart() -> None:
    golds = gold_notes(6)
    outputs = [{"doc_id": note.doc_id, "output": write_tags(note, language="ja")} for note in golds]
    outputs[1]["output"] = outputs[1]["output"].replace("主訴", "理由")
    del outputs[5]
    data = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in outputs).encode()
    given = keep_outputs(data, what="predicted notes")
    assert given.n_notes == 5
    wanted = order(golds, predicted=Source(kind="outputs", ref=given.digest))
    (score_id,) = ScoreTask.answer(wanted.question().order, quiet())
    content = content_of(score_id)
    assert content["copies"]["statuses"]["exact"] == 4 and content["n_gold_only"] == 1
    missed = {
        key: content[key]["criteria"]["strict"]["together"]["n_missed"]
        for key in ("summary", "verbatim")
    }
    assert missed == {"summary": 4, "verbatim": 8}


class Copyist:
    """A tagger that copies notes with their tags, one of them with a word changed."""

    name, labels, n_notes_at_once = "copyist", ("identifier",), 2
    digest = "c" * 64

    def __init__(self, golds: Sequence[TaggedDocument]) -> None:
        self.outputs = {note.text: write_tags(note, language="ja") for note in golds}
        self.outputs[golds[1].text] = self.outputs[golds[1].text].replace("主訴", "理由")
        self.n_read = 0

    def tag(self, texts: Sequence[str]) -> object:
        raise AssertionError("a tagger that writes copies is asked for them")

    def read(
        self, notes: Sequence[TaggedDocument], *, should_stop: object = None
    ) -> list[CopyReading]:
        self.n_read += len(notes)
        return [
            read_pieces(note, [Piece(start=0, end=len(note.text), output=self.outputs[note.text])])
            for note in notes
        ]


def test_a_tagger_that_writes_copies_is_measured_in_both_ways(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    golds = gold_notes(6)
    copyist = Copyist(golds)
    monkeypatch.setattr(scoring, "load_tagger", lambda tagger_id: copyist)
    monkeypatch.setattr("audit.progress._REPORT_SECONDS", 0.0)
    plain = order(golds).question().order
    with pytest.raises(AuditCancelled):
        ScoreTask.answer(plain, contact([], stop_at=0.4))
    n_before = copyist.n_read
    assert 0 < n_before < 6
    (score_id,) = ScoreTask.answer(plain, contact([]))
    content = content_of(score_id)
    assert copyist.n_read == 6
    assert content["copies"]["statuses"]["exact"] == 5 and content["copies"]["n_notes"] == 6
    missed = {
        key: content[key]["criteria"]["strict"]["together"]["n_missed"]
        for key in ("summary", "verbatim")
    }
    assert missed == {"summary": 0, "verbatim": 4}
    assert "copies.jsonl" not in files_of(SCORES.place(score_id))


def test_every_format_is_read_and_no_name_becomes_a_path() -> None:
    golds = [
        TaggedDocument(note.doc_id, note.text.replace("\n", " "), note.spans)
        for note in gold_notes(3)
    ]
    expected = keep_notes([note.with_spans(note.spans) for note in golds])
    for form in ("brat", "i2b2", "inline"):
        given = keep_given(archive(write_files(golds, form=form)), name="x.zip", what="gold notes")
        assert (given.n_notes, given.n_spans) == (3, 12), form
        if form != "i2b2":
            assert given.labels == expected.labels
    hostile = archive({"../../../evil.jsonl": write_jsonl(golds).encode(), "__MACOSX/a": b"x"})
    given = keep_given(hostile, name="x.zip", what="gold notes")
    assert given.digest == expected.digest
    assert given_path(given.digest).stat().st_mode & 0o777 == 0o600
    assert sorted(p.name for p in SCORES.home().parent.parent.iterdir()) == ["home"]


def test_files_that_are_refused_do_not_tell_names() -> None:
    text = write_jsonl(gold_notes(2))
    bad = text.replace('"start": 5', '"start": 5000')
    cases = [
        (b"", "x.jsonl"), (b"\0\1", "x.jsonl"), (bad.encode(), "山田太郎.jsonl"),
        (archive({"山田太郎.jsonl": bad.encode()}), "x.zip"), (b"PK\3\4broken", "x.zip"),
        (archive({}), "x.zip"), (b"T1\tName 0 2\tab", "山田.ann"), (b"x", "山田.pdf"),
        ((text + text).encode(), "x.jsonl"),
    ]  # fmt: skip
    for content, name in cases:
        with pytest.raises(AuditError) as refused:
            keep_given(content, name=name, what="gold notes")
        assert "山田" not in str(refused.value)
    for content in (b"{}", b'{"doc_id": "1"}', b"\n\n", b'["output"]'):
        with pytest.raises(AuditError):
            keep_outputs(content, what="predicted notes")


def test_what_was_given_long_ago_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = keep_notes(gold_notes(1)), keep_notes(gold_notes(2))
    monkeypatch.setattr("audit.deid.given.KEPT_SECONDS", -1.0)
    clear_given(keep=[new.digest])
    assert given_path(new.digest).is_file()
    with pytest.raises(AuditError, match="no longer kept"):
        given_path(old.digest)


def test_a_zip_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("audit.deid.given.MAX_UNPACKED_BYTES", 1000)
    with pytest.raises(AuditError, match="too large when unpacked"):
        keep_given(archive({"a.jsonl": b" " * 10_000}), name="a.zip", what="gold notes")
    monkeypatch.setattr("audit.deid.given.MAX_FILES", 1)
    with pytest.raises(AuditError, match="more than 1 files"):
        keep_given(archive({"a.jsonl": b"", "b.jsonl": b""}), name="a.zip", what="gold notes")


def test_two_makers_of_one_score_do_not_meet() -> None:
    plain = order(gold_notes()).question().order
    with (
        SCORES.making(plain["score_id"]),
        pytest.raises(AuditError, match="written already"),
    ):
        ScoreTask.answer(plain, quiet())


def archive(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as found:
        for name, content in files.items():
            found.writestr(name, content)
    return buffer.getvalue()
