"""Clinical values stay as they are: no shipped tagger takes them for personal information."""

from __future__ import annotations

import pytest

from audit.deid.release import Release
from audit.deid.rules import without_clinical
from audit.deid.tagger import tag_checked
from audit.deid.taggers import load_tagger
from audit.notes.spans import Span, TaggedDocument
from tests.deid.clinical_values import N_VALUES, clinical_sentences

MOST = 0.01


@pytest.mark.parametrize("n_joined", [1, 8])
@pytest.mark.parametrize("tagger", ["rules", "default"])
def test_values_are_neither_altered_nor_replaced(tagger: str, n_joined: int) -> None:
    """Each sentence alone, and eight as one note."""
    sentences = clinical_sentences()
    texts, values = [], []
    for place in range(0, len(sentences), n_joined):
        text, own = "", []
        for sentence in sentences[place : place + n_joined]:
            own += [(start + len(text), end + len(text)) for start, end in sentence.values]
            text += sentence.text + "\n"
        texts.append(text)
        values.append(own)
    found = tag_checked(load_tagger(tagger, device="cpu"), texts)
    touched = []
    for text, own, spans in zip(texts, values, found, strict=True):
        document = TaggedDocument("1", text, spans)
        for mode in ("surrogate", "placeholder"):
            replaced = Release(mode=mode, seed=1).of(document).replacements
            touched += [
                (mode, text[start:end]) for start, end in own
                if any(one.start < end and start < one.end for one in replaced)
            ]  # fmt: skip
    assert sum(map(len, values)) == N_VALUES
    assert len(touched) / 2 <= MOST * N_VALUES, touched


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("Seen on 8/10 for pain.", "8/10"),
        ("Pain began on 8/10.", "8/10"),
        ("入院 5/10 疼痛あり", "5/10"),
        ("age 46 and well", "46"),
        ("手術 98/11 に施行", "98/11"),
        ("病室 304 へ", "304"),
        ("R6.5.10 採血", "R6.5.10"),
        ("8m old girl", "8m"),
        ("3W へ転棟", "3W"),
        ("MRN 12400", "12400"),
        ("Dr. Gray", "Gray"),
        ("admitted 5/5, discharged 5/9", "5/5"),
        ("ID 132-84", "132-84"),
    ],
)
def test_what_may_be_personal_is_not_refused(text: str, mark: str) -> None:
    start = text.index(mark)
    span = Span(start, start + len(mark), "quasi_identifier")
    assert without_clinical(text, [span]) == [span]
