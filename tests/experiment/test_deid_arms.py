from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.errors import AuditCancelled
from audit.experiment.leakage import (
    MISSED,
    PART,
    WHOLE,
    missed_at_random,
    name_misses,
    released_texts,
    replaced_spans,
)
from audit.experiment.leakage_tables import (
    MENTIONS,
    PATIENTS,
    PERFECT,
    RAW,
    TAGGER,
    Arm,
)
from audit.notes.spans import Span
from tests.experiment.tiny_leakage import demo_notes, tiny_notes

SHARES = (0.01, 0.05, 0.1, 0.25, 0.5)


class HalfTagger:
    """Finds the first three characters of every note."""

    name, digest, labels = "half", "0" * 64, ("identifier",)

    def tag(self, texts):
        return [(Span(0, 3, "identifier"),) for _ in texts]


def test_raw_leaves_everything_and_perfect_nothing():
    notes = tiny_notes()
    raw = replaced_spans(notes, arm=Arm(RAW), tagger=None, seed=0)
    assert name_misses(notes, raw).mentions == (MISSED,) * 3
    assert released_texts(notes, raw, mode="placeholder", seed=0) == notes.texts
    perfect = replaced_spans(notes, arm=Arm(PERFECT), tagger=None, seed=0)
    found = name_misses(notes, perfect)
    assert (found.mentions, sum(found.is_exposed)) == ((WHOLE,) * 3, 0)
    assert found.coverage.row("quasi_identifier")[:2] == (1, 1)
    assert released_texts(notes, perfect, mode="placeholder", seed=0) == (
        "[NAME] is ill .",
        "[NAME] saw dr . [NAME] .",
        "x [NAME] .",
    )


def test_a_tagger_is_measured_by_what_it_leaves():
    notes = tiny_notes()
    spans = replaced_spans(notes, arm=Arm(TAGGER, tagger="half"), tagger=HalfTagger(), seed=0)
    found = name_misses(notes, spans)
    assert found.mentions == (PART, PART, PART)  # "Ann" of "Ann Lee", "A" behind "x "
    assert found.is_exposed == (True, True)
    assert found.coverage.row("quasi_identifier")[1] == 0
    assert found.coverage.n_over_chars == 2  # "x " stands outside every name


def test_surrogates_are_the_same_for_a_patient_and_hide_the_name():
    notes = tiny_notes()
    spans = replaced_spans(notes, arm=Arm(PERFECT), tagger=None, seed=0)
    first, _, third = released_texts(notes, spans, mode="surrogate", seed=0)
    assert "Ann Lee" not in first + third
    name = first.removesuffix(" is ill .")
    assert third == f"x {name} ."


@pytest.mark.parametrize("unit", [MENTIONS, PATIENTS])
def test_shares_are_nested_and_as_large_as_asked(unit):
    notes = demo_notes("ja")
    before: set[int] = set()
    for share in SHARES:
        left = set(missed_at_random(notes, unit=unit, share=share, seed=0))
        assert before <= left
        owners = {notes.mentions[i].owner for i in left}
        n = len(left) if unit == MENTIONS else len(owners)
        total = len(notes.mentions) if unit == MENTIONS else notes.n_patients
        assert n == max(1, round(share * total))
        if unit == PATIENTS:
            of_owners = {i for i, m in enumerate(notes.mentions) if m.owner in owners}
            assert left == of_owners
        before = left
    assert left != set(missed_at_random(notes, unit=unit, share=0.5, seed=1))


def test_exactly_the_drawn_mentions_stay_in_the_text():
    notes = demo_notes("ja")
    left = missed_at_random(notes, unit=MENTIONS, share=0.25, seed=3)
    spans = replaced_spans(notes, arm=Arm(MENTIONS, 0.25), tagger=None, seed=3)
    states = name_misses(notes, spans).mentions
    assert [i for i, state in enumerate(states) if state == MISSED] == list(left)
    texts = released_texts(notes, spans, mode="mask", seed=0)
    for i, mention in enumerate(notes.mentions):
        name = notes.texts[mention.note][mention.span.start : mention.span.end]
        assert (name in texts[mention.note]) == (i in left)


def test_who_asks_to_stop_is_heard_before_notes_are_read():
    with pytest.raises(AuditCancelled):
        replaced_spans(
            tiny_notes(), arm=Arm(TAGGER, tagger="half"), tagger=HalfTagger(), seed=0,
            should_stop=lambda: True,
        )  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 14), st.integers(1, 8)), max_size=4))
def test_how_much_of_a_name_is_left_is_what_counting_characters_says(given_spans):
    notes = tiny_notes()
    spans = tuple(
        tuple(
            sorted({Span(start, min(start + n, len(text)), "contact")
                    for start, n in given_spans if start < len(text)})
        )
        for text in notes.texts
    )  # fmt: skip
    found = name_misses(notes, spans)
    n_whole = 0
    for mention, state in zip(notes.mentions, found.mentions, strict=True):
        covered = {i for span in spans[mention.note] for i in range(span.start, span.end)}
        left = [i for i in range(mention.span.start, mention.span.end) if i not in covered]
        expected = WHOLE if not left else MISSED if len(left) == mention.span.n_chars else PART
        assert state == expected
        n_whole += state == WHOLE
    # The same mentions as `deid score` counts them.
    assert found.coverage.row("identifier")[:2] == (3, n_whole)
