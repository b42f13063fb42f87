"""Tags in a model's output, and spans brought back from careless copies to the note."""

from __future__ import annotations

import json
import random
import time
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.deid.copies import align, align_output, fold
from audit.notes.formats import TagCensus, scan_tags, write_tags
from audit.notes.spans import Span, TaggedDocument
from tests.deid.perturbed import PERTURBATIONS, edited, note_with_names

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "medtxt_ja.jsonl"
INVENTED = (
    "症例は高血圧の既往がある．検査で白血球の上昇を認めた．\n抗菌薬を投与し，第{}病日に改善した．"
    "腹部ＣＴでは<5 mmの結節を{}か所に認める．\n再検で血圧は{}/80 mmHgであった。"
)


@cache
def notes() -> tuple[TaggedDocument, ...]:
    rng = random.Random(7)
    if SHARED.exists():
        lines = SHARED.read_text("utf-8").splitlines()[::4]
        texts = [json.loads(line)["text"] for line in lines]
    else:
        texts = [
            "".join(INVENTED.format(*rng.sample(range(300), 3)) for _ in range(6))
            for _ in range(80)
        ]  # fmt: skip
    return tuple(note_with_names(text, doc_id=str(i), rng=rng) for i, text in enumerate(texts))


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_spans_of_perturbed_copies_come_back_with_exact_offsets(name):
    rng = random.Random(11)
    n_kept = n_back = 0
    for note in notes():
        copied = PERTURBATIONS[name](note, rng)
        found = align_output(copied.output, note.text)
        n_kept += len(copied.kept)
        n_back += len(set(copied.kept) & set(found.spans))
    assert n_kept > 500
    assert n_back / n_kept >= (0.98 if name == "2 % edits" else 0.995)


@pytest.mark.parametrize(
    ("output", "plain", "spans", "census"),
    [
        ("氏名:<識別子>足立志保</識別子>", "氏名:足立志保", [(3, 7, "identifier")], {}),
        ("< Identifier >Ann＜／identifier＞ <5 mg", "Ann <5 mg", [(0, 3, "identifier")], {}),
        ("<連絡先>03</連絡先情報>", "03", [(0, 2, "contact")], {}),
        ("<quasi identifier>Ann</quasi-identifier>", "Ann", [(0, 3, "quasi_identifier")], {}),
        ("<識別子>山田\n<準識別子>男</準識別子>", "山田\n男",
         [(0, 2, "identifier"), (3, 4, "quasi_identifier")], {"n_unclosed": 1}),
        ("<識別子>山田<準識別子>男</準識別子>", "山田男",
         [(0, 2, "identifier"), (2, 3, "quasi_identifier")], {"n_unclosed": 1}),
        ("山田</識別子>さん", "山田さん", [], {"n_stray": 1}),
        ("<識別子>ab<準識別子>cd</識別子>ef</準識別子>", "abcdef",
         [(0, 6, "identifier"), (2, 4, "quasi_identifier")], {"n_crossing": 1}),
        ("<識別子>ab<準識別子>cd</準識別子>ef</識別子>", "abcdef",
         [(0, 6, "identifier"), (2, 4, "quasi_identifier")], {"n_nested": 1}),
        ("<識別子>ab</準識別子>", "ab", [(0, 2, "identifier")], {"n_crossing": 1}),
        ("<氏名>山田</氏名>", "<氏名>山田</氏名>", [], {"n_unknown": 2}),
        ("<識別子></識別子>a<識別子> </識別子>", "a ", [], {"n_empty": 2}),
        ("<識別子>" + "a" * 300 + "</識別子>", "a" * 300, [(0, 200, "identifier")],
         {"n_unclosed": 1, "n_stray": 1}),
    ],
)  # fmt: skip
def test_the_scanner_reads_and_counts(output, plain, spans, census):
    found = scan_tags(output)
    assert found.plain == plain
    assert [(s.start, s.end, s.label) for s in found.spans] == spans
    n_opened = found.census.n_tags
    assert found.census == TagCensus(n_tags=n_opened, **census)
    assert found.census.n_malformed == sum(census.values())
    assert (found.census + found.census).n_tags == 2 * n_opened


def test_what_looks_like_a_tag_in_the_note_is_no_unknown_tag():
    assert scan_tags("see <ref>", source="see ＜ref＞").census.n_unknown == 0
    assert scan_tags("see <ref>").census.n_unknown == 1


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("<>/＜＞識別子準 a\n"), max_size=40))
def test_the_scanner_takes_anything(output):
    found = scan_tags(output)
    assert all(found.plain[s.start : s.end].strip() for s in found.spans)
    align_output(output, "山田 a\n")


def test_status_edits_and_both_columns_of_scores():
    note = "氏名：山田太郎　７０歳。\n経過は良好である。以上、報告する。"
    tags = "氏名：<識別子>山田太郎</識別子>　７０歳。\n経過は良好である。以上、報告する。"
    exact = align_output(tags, note)
    assert (exact.status, set(exact.edits.values())) == ("exact", {0, 31})
    assert exact.spans == (Span(3, 7, "identifier"),)
    normal = align_output(tags.replace("　", " ").replace("７０", "70"), note)
    assert (normal.status, normal.edits, normal.spans) == ("normalised", exact.edits, exact.spans)
    other = align_output(tags.replace("良好", "不良").replace("太郎", "大郎"), note)
    assert other.status == "edited" and other.spans == exact.spans
    assert (
        other.edits["n_inside"] == 1 and other.edits["n_inserted"] == other.edits["n_deleted"] == 1
    )
    assert align_output(tags[:20], note).status == "truncated"
    assert align_output(" \n", note).status == "empty"


def test_a_span_that_is_nowhere_is_listed_and_counted():
    note = "経過は良好である。"
    found = align_output("経過は良好である。<識別子>鈴木一郎</識別子>", note)
    assert found.spans == () and [s.label for s in found.unaligned] == ["identifier"]
    assert found.copy[found.unaligned[0].start :] == "鈴木一郎"


def test_a_lost_first_character_goes_with_its_kind():
    note = "氏名：山田太郎は来院"
    found = align_output("氏名：<識別子>田太郎</識別子>は来院", note)
    assert found.spans == (Span(3, 7, "identifier"),)
    found = align_output("氏名<識別子>山田太郎</識別子>は来院", note)
    assert found.spans == (Span(3, 7, "identifier"),)


@settings(max_examples=200, deadline=None)
@given(st.text("abc 山ｶﾞ\n", max_size=30), st.text("abc 山ガ　", max_size=30))
def test_blocks_cover_both_texts_and_equal_blocks_are_equal(first, second):
    copy, source = fold(first), fold(second)
    a = b = 0
    for block in align(copy.chars, source.chars):
        assert (block.a, block.b) == (a, b)
        if block.is_equal:
            assert copy.chars[a : block.a_end] == source.chars[b : block.b_end]
        a, b = block.a_end, block.b_end
    assert (a, b) == (len(copy.chars), len(source.chars))


@pytest.mark.parametrize("text", ["血液検査で異常なし．\n" * 3000, "あ" * 30_000])
def test_long_repetitive_notes_are_quick(text):
    rng = random.Random(5)
    note = note_with_names(text, doc_id="1", rng=rng)
    copied = edited(note, rng)
    begin = time.process_time()
    found = align_output(copied.output, note.text)
    assert time.process_time() - begin < 20
    assert len(set(copied.kept) & set(found.spans)) >= 0.98 * len(copied.kept)


def test_what_is_written_for_training_is_read_back():
    for note in notes()[:20]:
        assert align_output(write_tags(note), note.text).spans == note.spans
