"""What a tagger did not copy of a note is marked by the default one, or the note is withheld."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.deid.find import taggers
from audit.deid.find.copies import CopyReading, Piece, ShareListener, read_pieces
from audit.deid.find.tagger import tag_and_check
from audit.deid.find.taggers import BackedTagger, find_tagger, load_tagger, unite_spans
from audit.deid.find.windows import Window
from audit.deid.redact.release import Release
from audit.deid.sets.tagged_sets import tag_text
from audit.deid.sets.tagging import tag_notes
from audit.errors import AuditError
from audit.notes.folding import fold_text
from audit.notes.read import open_notes
from audit.notes.sentences import find_sentences
from audit.notes.spans import TYPES, Span, TaggedDocument, Tags, drop_overlaps, merge_spans
from audit.progress import StopQuestion

NOTES = (
    "Patient: John Smith, MRN 4471902. He was seen by Dr. Mary Jones on 04/11/2024.",
    "氏名：高橋健一　2024年5月3日 受診。電話 03-1234-5678。",
    "Mrs. Linda Brown called her son, Peter Brown, on May 3, 2024.\nShe is well.",
)


@dataclass(frozen=True)
class Copyist:
    """A tagger that writes what `write` makes of a note."""

    write: Callable[[str], str]
    digest: str = "0" * 64
    name: str = "copyist"
    labels: tuple[str, ...] = TYPES
    n_notes_at_once: int = 2

    def tag(self, texts: Sequence[str]) -> list[Tags]:
        notes = [TaggedDocument("n", text) for text in texts]
        return [reading.tags for reading in self.read(notes)]

    def read(
        self,
        notes: Sequence[TaggedDocument],
        *,
        should_stop: StopQuestion = lambda: False,
        on_share: ShareListener = lambda share: None,
    ) -> list[CopyReading]:
        return [
            read_pieces(note, [Piece(0, len(note.text), self.write(note.text))]) for note in notes
        ]


@dataclass(frozen=True)
class Words:
    """Marks every word."""

    digest: str = "1" * 64
    name: str = "words"
    labels: tuple[str, ...] = ("identifier",)

    def tag(self, texts: Sequence[str]) -> list[Tags]:
        return [spans_of_words(text) for text in texts]


def spans_of_words(text: str) -> Tags:
    spans, start = [], None
    for place, char in enumerate(f"{text} "):
        if not char.isspace() and start is None:
            start = place
        elif char.isspace() and start is not None:
            spans.append(Span(start, place, "identifier"))
            start = None
    return tuple(spans)


def default_spans(text: str) -> Tags:
    return tag_and_check(load_tagger("default"), [text])[0]


def is_covered(span: Span, spans: Tags) -> bool:
    return any(start <= span.start and span.end <= end for start, end in merge_spans(spans))


def notes_file(folder: Path) -> Path:
    path = folder / "notes.jsonl"
    lines = ({"note_id": f"n{i}", "text": text} for i, text in enumerate(NOTES))
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    path.write_text(text, "utf-8")
    return path


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


COPIES: dict[str, Callable[[str], str]] = {
    "nothing": lambda text: "",
    "one letter": lambda text: "a" * len(text),
    "cut": lambda text: text[: len(text) // 2],
    "last": lambda text: text[-30:],
    "edited": lambda text: (
        text.replace("Smith", "Smyth").replace("高橋", "高田").replace("Br", "C")
    ),
    "other words": lambda text: "The patient is well. " * 9,
}


@pytest.mark.parametrize("copy", COPIES)
def test_what_the_default_tagger_finds_is_left_in_no_note_that_was_not_copied(
    copy: str, tmp_path: Path
) -> None:
    census = tag_notes(
        open_notes(notes_file(tmp_path)),
        tagger=Copyist(COPIES[copy]),
        folder=tmp_path / "out",
        release=Release(),
    )
    released = [line["text"] for line in lines_of(tmp_path / "out" / "redacted.jsonl")]
    listed = {line["row"]: line for line in lines_of(tmp_path / "out" / "uncopied.jsonl")}
    uncopied = census["uncopied"]
    assert (uncopied["how"], uncopied["n_withheld"]) == ("fallback", 0)
    assert uncopied["n_notes"] == len(listed) == len(uncopied["notes"]) > 0
    assert uncopied["n_characters"] == sum(line["n_not_copied"] for line in listed.values())
    assert census["copies"]["n_uncopied_notes"] == len(listed)
    names = ("John Smith", "Mary Jones", "高橋健一", "Linda Brown", "Peter Brown")
    if copy not in ("cut", "last", "edited"):
        assert not [name for name in names for text in released if name in text]
    marks = [line["spans"] for line in lines_of(tmp_path / "out" / "spans.jsonl")]
    for number, text in enumerate(NOTES, start=1):
        spans = tuple(Span(mark["start"], mark["end"], mark["label"]) for mark in marks[number - 1])
        sentences = [
            Span(start, end, "x")
            for start, end in find_sentences(text)
            if text[start:end] not in COPIES[copy](text)
        ]
        assert bool(sentences) <= (number in listed)
        for span in default_spans(text):
            if any(span.overlap(sentence) for sentence in sentences):
                assert is_covered(span, spans), "found by the default tagger, and left"


def test_a_note_that_was_not_copied_can_be_withheld(tmp_path: Path) -> None:
    writes = {text: text for text in NOTES} | {NOTES[0]: NOTES[0][:40]}
    census = tag_notes(
        open_notes(notes_file(tmp_path)),
        tagger=Copyist(lambda text: writes[text]),
        folder=tmp_path / "out",
        release=Release(),
        uncopied="withhold",
    )
    out = tmp_path / "out"
    assert [line["row"] for line in lines_of(out / "redacted.jsonl")] == [2, 3]
    assert [line["doc_id"] for line in lines_of(out / "spans.jsonl")] == ["n1", "n2"]
    (line,) = lines_of(out / "uncopied.jsonl")
    assert (line["row"], line["doc_id"], line["copy"]) == (1, "n0", "truncated")
    assert (line["uncopied"], line["n_characters"]) == ("withhold", len(NOTES[0]))
    assert 0 < line["n_not_copied"] <= len(NOTES[0])
    assert census["n_notes"] == 2 and census["uncopied"]["n_withheld"] == 1
    assert all("Smith" not in path.read_text("utf-8") for path in out.iterdir())
    everything = tag_notes(
        open_notes(notes_file(tmp_path)),
        tagger=Copyist(lambda text: ""),
        folder=tmp_path / "none",
        release=Release(),
        uncopied="withhold",
    )
    assert (everything["n_notes"], everything["uncopied"]["n_withheld"]) == (0, 3)
    assert (tmp_path / "none" / "redacted.jsonl").read_bytes() == b""


def test_what_was_copied_is_left_to_the_tagger(tmp_path: Path) -> None:
    for write in (lambda text: text, lambda text: text.upper(), lambda text: f" {text}\n"):
        tagger = BackedTagger(Copyist(write), Words())
        assert tag_and_check(tagger, NOTES) == ((),) * len(NOTES)
    copyist = Copyist(lambda text: text[:9])
    note = tag_text(NOTES[0], tagger=taggers.add_fallback(copyist), release=Release())
    assert "Smith" not in note.released, "a text that is pasted too"
    assert taggers.add_fallback(taggers.add_fallback(copyist)) == taggers.add_fallback(copyist)


PIECES = (
    "Ann Li came. ",
    "Dr. Ono saw him.\n",
    "受診。",
    "山田太郎様。",
    "Jo\n",
    "BP 120/80. ",
    "x ",
)


@st.composite
def careless_copies(draw: st.DrawFn) -> tuple[str, str]:
    """A note, and a copy of it with passages cut out, put in, doubled, or written over."""
    note = "".join(draw(st.lists(st.sampled_from(PIECES), min_size=1, max_size=12)))
    copy = note
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(copy)))
        end = draw(st.integers(start, min(len(copy), start + 25)))
        put_in = draw(st.sampled_from(("", "z", "Bo", copy[start:end] * 2, "受", "\n", "Ann Li ")))
        copy = copy[:start] + put_in + copy[end:]
    return note, copy[: draw(st.sampled_from((len(copy), len(copy) // 2, 3)))]


def squeezed(text: str) -> str:
    return "".join(text.split()).casefold()


@settings(max_examples=300)
@given(careless_copies())
def test_no_sentence_that_a_copy_lacks_is_left_unmarked(sides: tuple[str, str]) -> None:
    note, copy = sides
    (spans,) = tag_and_check(BackedTagger(Copyist(lambda text: copy), Words()), [note])
    bare = {place for place, char in enumerate(note) if not char.isspace()}
    bare -= {place for span in spans for place in range(span.start, span.end)}
    left = Counter(
        squeezed(note[start:end])
        for start, end in find_sentences(note)
        if bare.intersection(range(start, end))
    )
    for sentence, n in left.items():
        assert squeezed(copy).count(sentence) >= n, "it is not in the copy, and not marked"
    if squeezed(copy) == squeezed(note):
        assert spans == (), "copied whole"


@pytest.mark.long
@pytest.mark.parametrize("policy", ["fallback", "withhold"])
def test_a_model_with_random_weights_leaves_no_name(tmp_path: Path, policy: Any) -> None:
    """The whole way, with a language model that was never tuned."""
    from audit.deid.find.causal_model import directory_digest
    from audit.deid.find.tagger_facts import GenerativeFacts
    from audit.shelf import write_whole
    from tests.deid.generation.tiny_model import write_model

    folder = tmp_path / "tagger"
    model = write_model(folder / "model", n_positions=1024)
    facts = GenerativeFacts(model=directory_digest(model), max_tokens=1024)
    write_whole(folder / "tagger.json", facts.file())
    census = tag_notes(
        open_notes(notes_file(tmp_path)),
        tagger=load_tagger(str(folder), device="cpu"),
        folder=tmp_path / "out",
        release=Release(),
        uncopied=policy,
    )
    released = (tmp_path / "out" / "redacted.jsonl").read_text("utf-8")
    for text in NOTES:
        for span in default_spans(text):
            assert text[span.start : span.end] not in released
    assert census["uncopied"]["n_notes"] == 3
    assert released.count("\n") == (3 if policy == "fallback" else 0)
    facts_of_tagger = find_tagger(str(folder))
    assert facts_of_tagger.writes_copies
    assert facts_of_tagger.digest == census["tagger"]["digest"]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), max_size=6), st.integers(0, 6))
def test_several_taggers_as_one_find_what_any_finds(
    places: list[tuple[int, int]], n_first: int
) -> None:
    text = "Ann Li saw Bo Ek on 5/3 in Iowa, again."
    sides = [
        tuple(Span(start, start + n, "contact") for start, n in side)
        for side in (places[:n_first], places[n_first:])
    ]
    first = drop_overlaps(sides[0])
    spans = unite_spans(text, first, sides[1])
    marked = {place for span in spans for place in range(span.start, span.end)}
    for span in (*first, *sides[1]):
        assert all(
            place in marked for place in range(span.start, span.end) if text[place].isalnum()
        )
    assert set(first) <= set(spans)


def test_any_tagger_stands_beside_any_other() -> None:
    text = NOTES[0]
    rules, default, combined = (load_tagger(name) for name in ("rules", "default", "rules+default"))
    (spans,) = tag_and_check(combined, [text])
    for tagger in (rules, default):
        assert all(is_covered(span, spans) for span in tag_and_check(tagger, [text])[0])
    facts = find_tagger("rules+default")
    assert (facts.digest, facts.kind, facts.is_quick) == (combined.digest, "combined", True)
    assert combined.digest != load_tagger("default+rules").digest
    copying = taggers.UnitedCopies(
        (default, BackedTagger(Copyist(lambda text: ""), Words())), "default+copyist"
    )
    (reading,) = copying.read([TaggedDocument("n", text)])
    covered = {place for span in reading.tags for place in range(span.start, span.end)}
    assert all(place in covered for place, char in enumerate(text) if char.isalnum())
    assert reading.uncopied and reading.status == "empty"
    for wrong in ("rules+rules", "rules+nobody", "rules+"):
        with pytest.raises(AuditError, match=r"each tagger once|no such tagger"):
            load_tagger(wrong)


def test_what_was_not_copied_of_a_decomposed_note_stands_at_its_place_in_the_note() -> None:
    text = "Se\u0301jour. " * 4 + "Mrs. Smith went home."
    note, folded = TaggedDocument(doc_id="1", text=text), fold_text(text)
    start = folded.text.index("Mrs.")
    reading = CopyReading(
        TaggedDocument(doc_id="1", text=folded.text),
        tags=(),
        uncopied=(Window(start, len(folded.text)),),
        status="truncated",
        edits=Counter(),
        census=Counter(),
    )
    assert reading.to_source(note, folded).uncopied == ((text.index("Mrs."), len(text)),)
    assert start < text.index("Mrs.")
