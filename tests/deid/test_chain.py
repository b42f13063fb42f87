"""The chain: notes in, a corpus with names out; the same bytes twice, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import random
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.deid.invent import pipeline
from audit.deid.invent.masks import find_marks
from audit.deid.invent.pipeline import FILES, SPLITS, build_named
from audit.deid.sets.answers import AnswerFile
from audit.errors import AuditCancelled, AuditError
from audit.names.people import ENGLISH
from audit.notes.formats import read_jsonl
from audit.notes.read import Note, NoteSource, open_notes
from audit.notes.spans import IDENTIFIER, TYPES
from audit.progress import Progress
from tests.deid.make_scores import Killed, bytes_of

MASKED = (
    "Name: [**Known lastname 8**],[**Known firstname 7**]\nAdmission Date: [**2151-8-4**]\n"
    "A {age} year old {noun}, seen by Dr. [**Last Name (STitle) 3**]. [**Known firstname 7**] "
    "[**Known lastname 8**] left. [**Odd thing 1**] {{{{Shoe Size}}}} Note {n}."
)
JAPANESE_NOTE = (
    "症例は７０歳，女性．ＷＢＣ３．５と低下し２０１５年４月２日に入院した．経過は良好。{n}"
)
TRAIN, VALIDATION, TEST, REST = SPLITS
Rows = list[dict[str, str]]


def source_of(path: Path, rows: Rows) -> NoteSource:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return open_notes(path)


def masked(path: Path, *, n: int = 40) -> NoteSource:
    texts = [
        MASKED.format(age=30 + i // 2, noun=("man", "woman")[i // 2 % 2], n=i) for i in range(n)
    ]
    return source_of(
        path,
        [
            {
                "note_id": f"d{i}",
                "patient_id": f"p{i if i < n // 2 else i // 2 * 2}",
                "admission_id": str(i),
                "date": "2151-08-04",
                "text": text,
            }
            for i, text in enumerate(texts)
        ],
    )


def test_a_corpus_with_names_and_what_is_said_of_it(tmp_path: Path) -> None:
    path, out = tmp_path / "n.jsonl", tmp_path / "out"
    masked(path)
    again = {"note_id": "d3", "text": "Ms. [**Known lastname 8**] again"}
    with path.open("a") as file:
        file.write(json.dumps({"note_id": "e", "text": " "}) + "\n" + json.dumps(again) + "\n")
    summary = build_named(open_notes(path), folder=out, seed=1, locale=ENGLISH)
    notes = [
        json.loads(line)
        for name in SPLITS
        for line in (out / f"{name}.jsonl").read_bytes().splitlines()
    ]
    spans = [span for note in notes for span in note["spans"]]
    files = bytes_of(out)
    assert summary == json.loads(files.pop("summary.json")) and {*files} == {*FILES} - {
        "summary.json"
    }
    digests = summary.pop("digests")
    assert digests == {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    assert [digests[f"{name}.jsonl"][:8] for name in SPLITS[:3]] == [
        "8cef0c96",
        "2f6ae508",
        "29c730a6",
    ]
    assert summary == {
        "seed": 1,
        "locale": ENGLISH,
        "n_notes": 41,
        "n_refused": 1,
        "n_patients": 30,
        "n_templates": 0,
        "n_restored": 0,
        "unknown": {"Odd thing": 40},
        "n_marks_left": 40,
        "n_passages": 0,
        "n_passages_kept": 0,
        "n_spans": {name: sum(span["label"] == name for span in spans) for name in TYPES},
        "kinds": dict(Counter(span["kind"] for span in spans).most_common()),
        "splits": {"train": 37, "validation": 2, "test": 2, "rest": 0},
    }
    names: dict[str, set[str]] = {}
    for note in (note for note in notes if "patient_id" in note):
        values = [note["text"][span["start"] : span["end"]] for span in note["spans"]]
        full_names = [
            v for span, v in zip(note["spans"], values, strict=True) if span["label"] == IDENTIFIER
        ]
        assert sorted(full_names[0].split(", ")) == sorted(
            (full_names[1].split()[0], full_names[1].split()[-1])
        )
        names.setdefault(note["patient_id"], set()).add(full_names[0])
    assert [len(forms) for forms in names.values()] == [1] * 30
    assert {stat.S_IMODE(path.stat().st_mode) for path in out.iterdir()} == {0o600}
    assert stat.S_IMODE(out.stat().st_mode) == 0o700
    assert json.loads(files["refused.jsonl"])["row"] == 41
    assert sorted((note["doc_id"] for note in notes), key=lambda name: int(name.split("#")[1])) == [
        *(f"d{i}#{i + 1}" for i in range(40)),
        "d3#42",
    ]


def test_japanese_notes_without_masks_get_templates(tmp_path: Path) -> None:
    source = source_of(
        tmp_path / "n.jsonl", [{"id": str(i), "text": JAPANESE_NOTE.format(n=i)} for i in range(30)]
    )
    summary = build_named(source, folder=tmp_path / "o")
    assert (summary["n_templates"], summary["splits"]["train"]) == (30, 24)
    assert summary["digests"]["train.jsonl"][:8] == "705f1c3c"
    documents = list(read_jsonl((tmp_path / "o/train.jsonl").read_text("utf-8"), subject="train"))
    assert len(documents) == 24
    for document in documents:
        values = [document.text[span.start : span.end] for span in document.spans]
        assert {"７０歳", "女性", "２０１５年４月２日"} <= set(values)
        assert "ＷＢＣ３．５と低下し" in document.text
        assert not find_marks(document.text)
    rows = [{"id": str(i), "text": f"He is 70 years old. {i}"} for i in range(30)]
    english = source_of(tmp_path / "e.jsonl", rows)
    plain = build_named(english, folder=tmp_path / "p")
    assert (plain["n_templates"], plain["kinds"]) == (0, {"Age": 30})


def test_templates_keep_every_word() -> None:
    rng = random.Random(5)
    pieces = [
        "所見なし。",
        "ＣＴ３．５mm，",
        "（検査。後）",
        "平成３年５月の",
        "\n",
        "{{x}}",
        "６歳男児．",
    ]
    digest = hashlib.sha256()
    for n in range(60):
        text = "".join(rng.choices(pieces, k=12))
        templated_text = pipeline.add_template(text, seed=n, note=str(n))
        digest.update(templated_text.encode())
        rebuilt_text = templated_text
        for mark in reversed(find_marks(templated_text)):
            value = (mark.content or "")[1:]
            rebuilt_text = rebuilt_text[: mark.start] + value + rebuilt_text[mark.stop :]
        # Every piece of the text stands in its order; "．" of a number is never cut.
        position = 0
        for word in text.replace("{{", "［［").replace("}}", "］］"):
            position = rebuilt_text.index(word, position) + 1
        assert rebuilt_text.count("３．５") == text.count("３．５")
    assert digest.hexdigest()[:8] == "48bde85f"


def test_what_cannot_be_built_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    source = masked(tmp_path / "n.jsonl")
    empty = source_of(tmp_path / "e.jsonl", [{"id": "1", "text": " "}])
    model = FakeModel()
    for notes, out, models, message in (
        (empty, "o", {}, "No row is a note"),
        (source, ".", both(model), "something already"),
    ):
        with pytest.raises(AuditError, match=message):
            build_named(notes, folder=tmp_path / out, **models)
    with pytest.raises(AuditCancelled):
        build_named(source, folder=tmp_path / "o", **both(model), should_stop=lambda: True)
    left = {path.name for path in tmp_path.iterdir()}
    assert left - {"home"} == {"e.jsonl", "n.jsonl"}  # where paces are kept
    assert not model.calls


class Changing:
    """A source whose second reading has other notes."""

    n_bytes = 100

    def __init__(self, *readings: Sequence[Note]) -> None:
        self._readings = iter(readings)

    def read(self, *, on_bytes: Callable[[int], None]) -> Iterator[Note]:
        on_bytes(100)
        return iter(next(self._readings))


def test_notes_that_change_while_they_are_read_are_refused(tmp_path: Path) -> None:
    notes = [Note(str(i), f"p{i}", "", "", "", f"{i} years old", i) for i in range(40)]
    other_patients = [replace(note, patient_id=f"q{i}") for i, note in enumerate(notes)]
    for changed_notes in (notes * 2, notes[:-1], other_patients):
        with pytest.raises(AuditError, match="notes changed while"):
            build_named(Changing(notes, changed_notes), folder=tmp_path / "o")


# Splits.


@given(st.lists(st.integers(0, 60), min_size=1, max_size=80), st.integers(0, 5))
def test_no_patient_is_in_two_splits(owners: list[int], seed: int) -> None:
    is_alone = [owners.count(owner) == 1 for owner in owners]
    split = [SPLITS[i] for i in pipeline.split_notes(is_alone, seed=seed)]
    n_per_split = sum(is_alone) // 10
    assert [split.count(name) for name in (VALIDATION, TEST, REST)] == [n_per_split, n_per_split, 0]
    for owner in set(owners):
        assert len({split[i] for i, neighbour in enumerate(owners) if neighbour == owner}) == 1


def test_sizes_are_the_papers_where_there_are_enough() -> None:
    for n_notes, n_alone, sizes in (
        (62_000, 55_000, [50_000, 5000, 5000, 2000]),
        (341, 341, [273, 34, 34, 0]),
    ):
        split = pipeline.split_notes([i < n_alone for i in range(n_notes)], seed=1)
        assert [split.count(place) for place in range(4)] == sizes


# Language models that are asked, and their kept answers.


class FakeModel:
    """Answers from the prompt and its neighbours, counts calls, and dies after `n_left` of them."""

    def __init__(self, n_batch: int = 3, *, n_left: int = 10_000, digest: str = "a") -> None:
        self.n_batch, self.n_left, self.digest = n_batch, n_left, digest
        self.calls: list[tuple[str, ...]] = []

    def __call__(self, prompts: Sequence[str]) -> list[str]:
        self.calls.append(tuple(prompts))
        self.n_left -= 1
        if self.n_left < 0:
            raise Killed
        if "Passage:" in prompts[0]:
            return [f"訳{len(prompts)} " + prompt.split("Passage:\n")[1] for prompt in prompts]
        return [f"1: TEXT {len(prompts)}.{len(prompt)}" for prompt in prompts]


def both(model: FakeModel) -> dict[str, Any]:
    return {"typer": model, "translator": model}


def blanks(path: Path) -> NoteSource:
    return source_of(
        path,
        [
            {
                "note_id": f"d{i}",
                "patient_id": f"p{i % 60}",
                "text": f"Ms. ___ came.{' again' * (i % 7)}\nHgb ___ in note {i % 50}.\n",
            }
            for i in range(80)
        ],
    )


def test_prompts_of_like_length_together_and_none_twice(tmp_path: Path) -> None:
    model, reports = FakeModel(2), []
    prompts = ["ccc", "a", "bb", "a", "dddd", "bb"]

    def tell(share: float, *, is_cached: bool) -> None:
        reports.append((share, is_cached))

    with closing(AnswerFile(tmp_path / "a")) as answers:
        for _ in range(2):
            assert pipeline.ask_in_batches(model, answers, tell, prompts) == [
                f"1: TEXT 2.{len(prompt)}" for prompt in prompts
            ]
        assert pipeline.ask_in_batches(model, answers, tell, []) == []
    assert model.calls == [("a", "bb"), ("ccc", "dddd")]
    ends = [(1.0, True)]
    assert reports == [(0.5, False), (1, False), *ends, (0.5, True), (1, True), *ends, *ends]


HALVES = [
    b'["00112233445566778899aabbccddeeff", ["half an ans',
    b'["' + b"1" * 32 + b'", [3]]\n',
    b"\0\0\0\n",
    b'["zz", []]\n',
    b"[1, 2]\n",
]


def test_a_build_that_was_killed_asks_for_the_others_alone(tmp_path: Path) -> None:
    source = blanks(tmp_path / "n.jsonl")
    full_model = FakeModel()
    summary = build_named(source, folder=tmp_path / "whole", **both(full_model))
    assert sorted(bytes_of(tmp_path / "whole")) == sorted(FILES), "no answers in the corpus"
    counts = [summary[f"n_{name}"] for name in ("restored", "passages", "passages_kept")]
    assert counts == [80, 80, 0]
    assert b"TEXT" not in (tmp_path / "whole" / "train.jsonl").read_bytes()
    finished_calls: list[tuple[str, ...]] = []
    left = tmp_path / ".out.making"
    for n_left, half in zip((2, 11, 5, 0, 6), HALVES, strict=True):
        model = FakeModel(n_left=n_left)
        with pytest.raises(Killed):
            build_named(source, folder=tmp_path / "out", **both(model))
        finished_calls += model.calls[:-1]
        assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in left.iterdir()} == {
            "answers.jsonl": 0o600
        }
        assert stat.S_IMODE(left.stat().st_mode) == 0o700
        with (left / "answers.jsonl").open("ab") as file:
            file.write(half)
        (left / "train.jsonl").write_bytes(b"what a kill leaves")
    other_model = FakeModel(n_left=1, digest="b")
    with pytest.raises(Killed):
        build_named(source, folder=tmp_path / "out", **both(other_model))
    assert other_model.calls == full_model.calls[:2], "another model is asked anew"
    last = FakeModel()
    with pytest.raises(AuditCancelled):
        build_named(
            source, folder=tmp_path / "out", **both(last), should_stop=lambda: len(last.calls) >= 5
        )
    assert len(last.calls) == 5
    reports: list[Progress] = []
    build_named(source, folder=tmp_path / "out", **both(last), progress=reports.append)
    assert len(finished_calls) == 24
    assert finished_calls + last.calls == full_model.calls, "each batch is asked for once"
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "whole")
    left = {path.name for path in tmp_path.iterdir()}
    assert left - {"home"} == {"n.jsonl", "out", "whole"}
    shares = [report.share for report in reports]
    assert shares == sorted(shares) and shares[-1] == 1


def test_a_link_in_the_place_of_the_answers_is_not_followed(tmp_path: Path) -> None:
    source = blanks(tmp_path / "n.jsonl")
    (tmp_path / "elsewhere").write_text("x")
    (tmp_path / ".out.making").mkdir()
    (tmp_path / ".out.making" / "answers.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AuditError, match="cannot be written"):
        build_named(source, folder=tmp_path / "out", **both(FakeModel()))
    assert (tmp_path / "elsewhere").read_text() == "x"
