"""The tagger by rule on any text: its promise, its parts, and its speed on real notes."""

from __future__ import annotations

import json
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.deid.patterns import folded_text
from audit.deid.release import Release
from audit.deid.rules import GROUPS, RULES_VERSION, Found, RuleTagger, strongest
from audit.deid.tagger import tag_checked
from audit.notes.spans import TYPES, Span, tagged

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "medtxt_ja.jsonl"
PIECES = st.sampled_from(
    ["山田太郎", "佐藤", "さん", "氏名：", "　", " ", "2024年", "５月", "3日", "歳", "70",
     "０３-", "1234", "-5678",
     "MRN: ", "Dr. ", "Smith", ", ", "M.D.", "\n", "病院", "東京都", "港区", "@", "a.jp",
     "患者", "Jan ", "/", "(", ")"]
)  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=3), max_size=25).map("".join)


@settings(max_examples=150, deadline=None)
@given(st.lists(TEXTS, max_size=3))
def test_spans_lie_inside_sorted_and_apart_and_what_is_released_is_source_and_replacements(
    texts: list[str],
) -> None:
    for text, spans in zip(texts, tag_checked(RuleTagger(), texts), strict=True):
        document = tagged("1", text=text, spans=spans)
        assert document.spans == spans and {span.label for span in spans} <= set(TYPES)
        redacted = Release().of(document)
        at, pieces = 0, []
        for one in redacted.replacements:
            pieces += [text[at : one.start], one.text]
            at = one.end
        assert "".join([*pieces, text[at:]]) == redacted.text


@given(st.text())
def test_folding_keeps_every_offset(text: str) -> None:
    assert len(folded_text(text)) == len(text)
    assert folded_text("２０２４　Ａ−，（") == "2024 A-,("


@given(
    st.lists(
        st.builds(
            lambda start, n, label, weight: Found(Span(start, start + n, label), weight),
            st.integers(0, 30),
            st.integers(1, 8),
            st.sampled_from(TYPES),
            st.integers(1, 3),
        )
    )
)
def test_what_goes_shares_a_character_with_something_that_stays_and_is_no_lighter(
    found: list[Found],
) -> None:
    kept = strongest(found)
    assert all(one.end <= other.start for one, other in pairwise(kept))
    weights = {span: max(f.weight for f in found if f.span == span) for span in kept}
    for each in found:
        above = [span for span in kept if span.overlap(each.span)]
        assert above and max(weights[span] for span in above) >= each.weight


def test_texts_beside_it_change_nothing() -> None:
    texts = ["氏名：高橋健一", "高橋は退院", ""]
    assert RuleTagger().tag(texts) == tuple(RuleTagger().tag([text])[0] for text in texts)
    assert RuleTagger().tag(["高橋は退院"]) == ((),)


def test_groups_can_be_left_out_and_are_part_of_the_digest() -> None:
    text = "佐藤医師 2024年5月3日"
    (only,) = RuleTagger(("dates",)).tag([text])
    assert [text[s.start : s.end] for s in only] == ["2024年5月3日"]
    assert RuleTagger(("dates",)).digest != RuleTagger().digest == RuleTagger().digest
    with pytest.raises(KeyError):
        RuleTagger(("dates", "nothing")).tag([text])
    assert set(RuleTagger().groups) == set(GROUPS)


@pytest.mark.parametrize(
    "spans", [[[]], [[Span(0, 2, "x"), Span(1, 3, "x")], []], [[Span(0, 9, "x")], []]]
)
def test_a_tagger_that_breaks_its_promise_is_refused(spans: list[list[Span]]) -> None:
    class Broken(RuleTagger):
        def tag(self, texts):  # type: ignore[no-untyped-def]
            return spans

    with pytest.raises(ValueError, match="rules:"):
        tag_checked(Broken(), ["abc", "def"])


def test_long_runs_of_one_sign_take_no_time() -> None:
    for piece in (
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
    ):
        (spans,) = RuleTagger().tag([piece * (30_000 // len(piece))])
        assert len(spans) <= 30_000


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data is not there")
def test_real_reports_without_names_get_hardly_any() -> None:
    texts = [json.loads(line)["text"] for line in SHARED.read_text("utf-8").splitlines()]
    found = [span for spans in RuleTagger().tag(texts) for span in spans]
    assert sum(span.label == "quasi_identifier" for span in found) > 400
    assert sum(span.label != "quasi_identifier" for span in found) <= 2


def test_a_change_of_what_the_rules_find_goes_with_a_new_version() -> None:
    here = Path(__file__).parent
    texts = [path.read_text("utf-8") for path in sorted(here.glob("unseen*/*.txt"))]
    spans = repr([[(s.start, s.end, s.label) for s in one] for one in RuleTagger().tag(texts)])
    found = sha256(spans.encode()).hexdigest()[:16]
    assert (RULES_VERSION, len(texts), found) == ("rules 1", 4, "53eb20e919752ecf")
