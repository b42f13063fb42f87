"""The tally of patterns: the same counts as the functions that keep every text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from audit.corpus.examine import PatternTally, count_table, hash_of, positives_of, written_passage
from audit.corpus.truth import NamePattern
from audit.notes.passages import Passage
from audit.notes.placeholders import find_name_slot

NOWHERE = Passage("", ("full",), "", "", "", None)
FOUND = st.lists(
    st.tuples(st.sampled_from(["Ann", "ANN", "Bo", "Cy"]), st.sampled_from(["Ray", "Poe"]),
              st.sampled_from("abc")),
    max_size=40,
)  # fmt: skip


def refuses_bo(first: str, last: str) -> bool:
    return first != "Bo"


@given(FOUND)
def test_the_counts_are_those_of_the_positives(found: list[tuple[str, str, str]]) -> None:
    patterns = [NamePattern("", "", "patient", f, n, "is_a", t, NOWHERE) for f, n, t in found]
    positives, n_patterns = positives_of(patterns, accepts=refuses_bo)
    tally = PatternTally(accepts=refuses_bo)
    new = [tally.add(f, n, text_hash=hash_of(t)) for f, n, t in found]
    assert tally.names == tuple(zip(positives.first, positives.last, strict=True))
    assert tally.pattern_table == count_table(n_patterns)
    assert tally.mention_table == count_table(n or 0 for n in positives.n_mentions)
    assert sum(is_new for _, is_new in new) == sum(n_patterns)
    assert [good for good, _ in new] == [first != "Bo" for first, _, _ in found]
    again, n_again = positives_of(tally.stand_ins(tally.names))
    assert (again, n_again) == (positives, n_patterns)


TEXT = st.text(alphabet="ab c.,\u3000山", max_size=12).map(lambda t: " ".join(t.split()))


@given(TEXT, TEXT, st.sampled_from([("first", "last"), ("last", "first"), ("full",)]),
       st.sampled_from(["", " ", ", ", "\u3000", "・"]))  # fmt: skip
def test_a_written_passage_is_read_back(
    left: str, right: str, slots: tuple[str, ...], separator: str
) -> None:
    separator = "" if slots == ("full",) else separator
    left = f"{left} " if left else ""
    passage = Passage(left, slots, separator, f" {right}" if right else "", "", None)
    found = find_name_slot(written_passage(passage))
    assert found is not None
    assert (found.left, found.right) == (passage.left, passage.right)
    is_one = slots == ("full",) or separator == "・"
    assert (found.roles, found.separator) == ((("full",), "") if is_one else (slots, separator))
