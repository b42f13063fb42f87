"""The chain: notes in, a corpus with names out; the same bytes twice, whole or not at all."""

from __future__ import annotations

import json
import random
import stat
from pathlib import Path
from typing import Any

import pytest

from audit.deid.masks import find_marks
from audit.deid.pipeline import (
    FILES,
    SPLIT_FILES,
    ChainOrder,
    SplitSizes,
    build_named,
    with_template,
)
from audit.errors import AuditCancelled, AuditError
from audit.names.people import ENGLISH
from audit.notes.formats import read_jsonl
from audit.notes.read import open_notes
from audit.notes.spans import IDENTIFIER, TYPES

MASKED = (
    "Name: [**Known lastname 8**],[**Known firstname 7**]\nAdmission Date: [**2151-8-4**]\n"
    "A {age} year old {noun}, seen by Dr. [**Last Name (STitle) 3**]. [**Known firstname 7**] "
    "[**Known lastname 8**] left. [**Odd thing 1**] Note {n}."
)
JAPANESE_NOTE = (
    "症例は７０歳，女性．ＷＢＣ３．５と低下し２０１５年４月２日に入院した．経過は良好。{n}"
)


def write(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


def masked(path: Path, *, n: int = 40) -> Path:
    texts = [MASKED.format(age=30 + i // 2, noun=("man", "woman")[i // 2 % 2], n=i)
             for i in range(n)]  # fmt: skip
    return write(path, [
        {"note_id": f"d{i}", "patient_id": f"p{i if i < n // 2 else i // 2 * 2}",
         "admission_id": str(i), "date": "2151-08-04", "text": text}
        for i, text in enumerate(texts)
    ])  # fmt: skip


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for name in SPLIT_FILES.values()
            for line in (folder / name).read_text("utf-8").splitlines()]  # fmt: skip


def test_a_corpus_with_names(tmp_path: Path) -> None:
    source = open_notes(masked(tmp_path / "n.jsonl"))
    summary = build_named(source, out=tmp_path / "out", order=ChainOrder(seed=1, locale=ENGLISH))
    found = records(tmp_path / "out")
    assert len(found) == summary.n_notes == 40
    assert summary.unknown == {"Odd thing": 40}
    assert summary.n_spans == {
        name: sum(span["label"] == name for one in found for span in one["spans"])
        for name in TYPES
    }  # fmt: skip
    assert summary.leaks.is_clean
    assert (summary.splits["validation"], summary.splits["test"]) == (2, 2)
    names: dict[str, set[str]] = {}
    for one in found:
        spans = one["spans"]
        values = [one["text"][span["start"] : span["end"]] for span in spans]
        assert values[2] == one["text"].split("A ", 1)[1].split(" ", 1)[0]
        whole = [v for span, v in zip(spans, values, strict=True) if span["label"] == IDENTIFIER]
        last, first = whole[0].split(", ")
        assert whole[1].startswith(first)
        assert whole[1].endswith(last)
        names.setdefault(one["patient_id"], set()).add(whole[0])
    assert all(len(one) == 1 for one in names.values())


def test_built_twice_it_has_equal_bytes_and_private_modes(tmp_path: Path) -> None:
    source = open_notes(masked(tmp_path / "n.jsonl"))
    for out in ("a", "b"):
        build_named(source, out=tmp_path / out, order=ChainOrder(seed=2))
    for name in FILES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
        assert stat.S_IMODE((tmp_path / "a" / name).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o700
    build_named(source, out=tmp_path / "c", order=ChainOrder(seed=3))
    assert (tmp_path / "a/train.jsonl").read_bytes() != (tmp_path / "c/train.jsonl").read_bytes()


def test_japanese_notes_without_masks_get_templates(tmp_path: Path) -> None:
    path = write(tmp_path / "n.jsonl", [{"id": str(i), "text": JAPANESE_NOTE.format(n=i)}
                                        for i in range(30)])  # fmt: skip
    summary = build_named(open_notes(path), out=tmp_path / "o", order=ChainOrder())
    assert summary.n_templates == 30
    text = (tmp_path / "o/train.jsonl").read_text("utf-8")
    documents = list(read_jsonl(text, what="train"))
    assert len(documents) == summary.splits["train"] == 24
    for document in documents:
        values = [document.text[span.start : span.end] for span in document.spans]
        assert {"７０歳", "女性", "２０１５年４月２日"} <= set(values)
        assert "ＷＢＣ３．５と低下し" in document.text
        assert not find_marks(document.text)


def test_templates_keep_every_word(tmp_path: Path) -> None:
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
    for n in range(60):
        text = "".join(rng.choices(pieces, k=12))
        done = with_template(text, seed=n, note=str(n))
        kept = done
        for mark in reversed(find_marks(done)):
            value = (mark.content or "")[1:]
            kept = kept[: mark.start] + value + kept[mark.stop :]
        # Every piece of the text stands in its order; "．" of a number is never cut.
        at = 0
        for word in text.replace("{{", "［［").replace("}}", "］］"):
            at = kept.index(word, at) + 1
        assert kept.count("３．５") == text.count("３．５")


def test_too_small_a_source_and_a_full_folder_are_refused(tmp_path: Path) -> None:
    source = open_notes(masked(tmp_path / "n.jsonl"))
    order = ChainOrder(sizes=SplitSizes(300, 0, 0))
    with pytest.raises(AuditError, match="held out"):
        build_named(source, out=tmp_path / "o", order=order)
    assert not (tmp_path / "o").exists()
    empty = open_notes(write(tmp_path / "e.jsonl", [{"id": "1", "text": " "}]))
    with pytest.raises(AuditError, match="No row is a note"):
        build_named(empty, out=tmp_path / "o", order=ChainOrder())
    with pytest.raises(AuditError, match="something already"):
        build_named(source, out=tmp_path, order=ChainOrder())


def test_it_stops_when_asked_and_leaves_nothing(tmp_path: Path) -> None:
    source = open_notes(masked(tmp_path / "n.jsonl"))
    with pytest.raises(AuditCancelled):
        build_named(source, out=tmp_path / "o", order=ChainOrder(), should_stop=lambda: True)
    assert [path.name for path in tmp_path.iterdir()] == ["n.jsonl"]
