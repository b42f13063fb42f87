"""The tagger by rule: what each group finds and leaves alone, and its promise on any text.

`rules_found.txt` has texts by group with the marks that rules give them; what is `kept` there could
be personal, what is `clinical` is none.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.deid.find.rules import (
    GROUPS,
    RULES_VERSION,
    RuleTagger,
    WeightedSpan,
    drop_clinical_values,
    keep_strongest,
)
from audit.deid.find.tagger import tag_and_check
from audit.deid.find.taggers import load_tagger
from audit.deid.redact.release import Release
from audit.notes.patterns import fold_characters
from audit.notes.spans import TYPES, Span, TaggedDocument
from tests.deid.unseen_notes import N_VALUES, clinical_sentences, marked

FOUND = {
    group: [row.replace("\\n", "\n") for row in rows.splitlines()]
    for group, _, rows in (
        block[1:].partition("]\n")
        for block in (Path(__file__).parent / "rules_found.txt").read_text("utf-8").split("\n\n")
    )
}


@pytest.mark.parametrize("group", [*GROUPS, "all"])
def test_what_is_found_and_what_looks_like_it_and_is_left_alone(group: str) -> None:
    tagger = RuleTagger() if group == "all" else RuleTagger((group,))
    notes = [marked(row) for row in FOUND[group]]
    assert len(notes) > 5
    for note in notes:
        (spans,) = tagger.tag([note.text])
        assert note.with_spans(spans) == note


@pytest.mark.parametrize("row", FOUND["kept"] + FOUND["clinical"])
def test_clinical_values_are_refused_and_what_may_be_personal_is_not(row: str) -> None:
    note = marked(row)
    personal_spans = drop_clinical_values(note.text, note.spans)
    assert personal_spans == (list(note.spans) if row in FOUND["kept"] else [])
    assert drop_clinical_values(note.text, []) == []


@pytest.mark.parametrize("n_joined", [1, 8])
@pytest.mark.parametrize("tagger", ["rules", "default"])
def test_values_are_neither_altered_nor_replaced(tagger: str, n_joined: int) -> None:
    """Each sentence alone, and eight as one note: at most 1 % of the values are touched."""
    sentences = clinical_sentences()
    parts = [sentences[start : start + n_joined] for start in range(0, len(sentences), n_joined)]
    texts = ["".join(f"{sentence.text}\n" for sentence in part) for part in parts]
    n_values = n_touched = n_kept = 0
    tags = tag_and_check(load_tagger(tagger, device="cpu"), texts)
    for text, part, spans in zip(texts, parts, tags, strict=True):
        released = Release(mode="surrogate", seed=1).redact(TaggedDocument("1", text, spans))
        start, value_spans = 0, []
        for sentence in part:
            value_spans += [Span(start + s.start, start + s.end, s.label) for s in sentence.spans]
            start += len(sentence.text) + 1
        n_values += len(value_spans)
        n_kept += len(drop_clinical_values(text, value_spans))
        n_touched += sum(
            any(r.start < s.end and s.start < r.end for r in released.replacements)
            for s in value_spans
        )
    assert (n_values, n_kept) == (N_VALUES, 62)
    assert n_touched <= 0.01 * N_VALUES


PIECES = st.sampled_from(
    [
        "山田太郎",
        "佐藤",
        "さん",
        "氏名：",
        "　",
        " ",
        "2024年",
        "５月",
        "3日",
        "歳",
        "70",
        "０３-",
        "1234",
        "-5678",
        "MRN: ",
        "Dr. ",
        "Smith",
        ", ",
        "M.D.",
        "\n",
        "病院",
        "東京都",
        "港区",
        "@",
        "a.jp",
        "患者",
        "Jan ",
        "/",
        "(",
        ")",
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=3), max_size=25).map("".join)


@settings(max_examples=150)
@given(st.lists(TEXTS, max_size=3))
def test_spans_lie_inside_sorted_and_apart_and_texts_beside_change_nothing(
    texts: list[str],
) -> None:
    tags = tag_and_check(RuleTagger(), texts)
    assert tags == tuple(RuleTagger().tag([text])[0] for text in texts)
    for text, spans in zip(texts, tags, strict=True):
        document = TaggedDocument("1", text, spans)
        assert {span.label for span in spans} <= set(TYPES)
        released = Release().redact(document)
        assert [replacement.start for replacement in released.replacements] == [
            span.start for span in spans
        ]


@given(st.text())
def test_folding_keeps_every_offset(text: str) -> None:
    assert len(fold_characters(text)) == len(text)
    assert fold_characters("２０２４　Ａ−，（⽉\t⼈") == "2024 A-,(月 人"


FINDS = st.builds(
    lambda start, n, label, weight: WeightedSpan(Span(start, start + n, label), weight),
    st.integers(0, 30),
    st.integers(1, 8),
    st.sampled_from(TYPES),
    st.integers(1, 3),
)


@given(st.lists(FINDS))
def test_what_goes_shares_a_character_with_something_that_stays_and_is_no_lighter(
    candidates: list[WeightedSpan],
) -> None:
    kept_spans = keep_strongest(candidates)
    assert all(left.end <= right.start for left, right in pairwise(kept_spans))
    weights = {
        span: max(match.weight for match in candidates if match.span == span) for span in kept_spans
    }
    for candidate in candidates:
        above = [span for span in kept_spans if span.overlap(candidate.span)]
        assert above and max(weights[span] for span in above) >= candidate.weight


@pytest.mark.parametrize(
    "spans", [[[]], [[Span(0, 2, "x"), Span(1, 3, "x")], []], [[Span(0, 9, "x")], []]]
)
def test_a_tagger_that_breaks_its_promise_is_refused(spans: list[list[Span]]) -> None:
    class Broken(RuleTagger):
        def tag(self, texts):  # type: ignore[no-untyped-def]
            return spans

    with pytest.raises(ValueError, match="rules:"):
        tag_and_check(Broken(), ["abc", "def"])


def test_long_runs_of_one_sign_take_no_time() -> None:
    pieces = [
        "1",
        "-",
        " ",
        "一",
        "山",
        "ア",
        "A",
        "a ",
        "A. ",
        "東京都",
        "1-",
        "(",
        "A b ",
        "Dr. ",
    ]
    for piece in pieces:
        (spans,) = RuleTagger().tag([piece * (30_000 // len(piece))])
        assert len(spans) <= 30_000


def test_a_change_of_what_the_rules_find_goes_with_a_new_version() -> None:
    folder = Path(__file__).parent
    texts = [path.read_text("utf-8") for path in sorted(folder.glob("unseen*/*.txt"))]
    spans = repr([[(s.start, s.end, s.label) for s in tags] for tags in RuleTagger().tag(texts)])
    digest = sha256(spans.encode()).hexdigest()[:16]
    assert (RULES_VERSION, len(texts), digest) == ("rules 5", 4, "a737582404cc787c")
