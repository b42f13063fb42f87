from __future__ import annotations

from collections import Counter

import pytest

from audit.errors import AuditError
from audit.experiment.leakage import HospitalNotes, hospital_notes
from audit.home import DEMO_HOSPITAL
from audit.notes.passages import read_passages
from audit.notes.spans import IDENTIFIER, QUASI_IDENTIFIER
from tests.experiment.tiny_leakage import demo_notes


@pytest.fixture(scope="module", params=["en", "ja"])
def notes(request) -> HospitalNotes:
    return demo_notes(request.param)


def test_the_notes_are_those_of_the_shipped_passages(notes):
    data = (DEMO_HOSPITAL / notes.language / "passages.jsonl").read_bytes()
    shipped = read_passages(data, what="passages", file_name="passages.jsonl")
    assert notes.passages.digest() == shipped.digest()


def test_every_patient_is_named_as_often_as_the_list_says(notes):
    found = Counter(mention.owner for mention in notes.mentions)
    n = notes.n_patients
    assert [found[i] for i in range(n)] == list(notes.names.n_mentions[:n])


def test_no_name_of_a_patient_stands_anywhere_else(notes):
    text = "\n".join(notes.texts)
    for owner in range(notes.n_patients):
        first, last = notes.names.first[owner], notes.names.last[owner]
        written = f"{last}{first}" if notes.language == "ja" else f"{first} {last}"
        n_mentions = sum(mention.owner == owner for mention in notes.mentions)
        assert text.count(written) == n_mentions


def test_gold_is_full_names_of_patients_and_last_names_of_doctors(notes):
    labels = Counter(span.label for document in notes.documents for span in document.spans)
    assert labels[IDENTIFIER] == len(notes.mentions)
    cue = {"en": "dr . ", "ja": "担当医"}[notes.language]
    assert labels[QUASI_IDENTIFIER] == sum(text.count(cue) for text in notes.texts) > 20
    for document in notes.documents:
        for span in document.spans:
            if span.label == QUASI_IDENTIFIER:
                assert document.text[: span.start].endswith(cue)


def test_without_the_demos_files_it_says_what_to_do(tmp_path):
    with pytest.raises(AuditError, match="missing"):
        hospital_notes("en", directory=tmp_path)
