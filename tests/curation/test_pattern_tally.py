"""The tally of patterns, against a plain reckoning; passages as they are written and read."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from audit.corpus.examine import PatternTally, written_passage
from audit.notes.passages import Passage
from audit.notes.placeholders import find_name_slot

FOUND = st.lists(
    st.tuples(st.sampled_from(["Ann", "ANN", "Bo", "Cy", ""]), st.sampled_from(["Ray", "Poe"]),
              st.sampled_from("abc")),
    max_size=40,
)  # fmt: skip


@given(FOUND)
def test_the_counts_are_those_of_a_plain_reckoning(found: list[tuple[str, str, str]]) -> None:
    tally = PatternTally(accepts=lambda first, last: first != "Bo")
    new = [tally.add((first, last), text, note=0) for first, last, text in found]
    good = [(f.lower(), last.lower(), text) for f, last, text in found if f not in ("Bo", "")]
    assert sum(new) == len(set(good))
    n_mentions = Counter(one[:2] for one in good)
    n_patterns = Counter(one[:2] for one in set(good))
    for table, counts in ((tally.mention_table, n_mentions), (tally.pattern_table, n_patterns)):
        assert table == tuple(sorted(Counter(counts.values()).items(), reverse=True))
    members = tally.members(tally.names)
    assert list(members.n_mentions) == list(n_mentions.values())
    assert tally.n_refused == len({one[:2] for one in found if one[0] in ("Bo", "")})


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
