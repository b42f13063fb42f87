"""The demo hospital's notes with gold spans: where each patient and each doctor is named.

Comes in: a language. Goes out: notes as a hospital keeps them, the place of every name in them, the
list of names and the passages of the attack. The notes are those that the shipped models learned.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.corpora import demo
from audit.corpora.passages import Passages, read_passages
from audit.deid.documents import Span, TaggedDocument, tagged
from audit.deid.labels import IDENTIFIER, QUASI_IDENTIFIER
from audit.demo import SHIPPED
from audit.demo_build import ENGLISH, JAPANESE, Recipe, demo_staff
from audit.errors import AuditError
from audit.membership.candidates import Candidates
from audit.membership.name_pools import japanese_pool, us_pool
from audit.membership.names_csv import read_names

RECIPES = {"en": ENGLISH, "ja": JAPANESE}
DEMO_SEED = 0
"""Of the shipped notes."""

_FIRST, _LAST, _STAFF = 0xE000, 0xE800, 0xF000
"""Where the signs begin that stand for names while the notes are written (private use area)."""


@dataclass(frozen=True)
class Mention:
    """Where a patient is named: the number of the note, and the span of the name in it."""

    note: int
    span: Span
    owner: int


@dataclass(frozen=True, eq=False)
class HospitalNotes:
    """The notes of a hospital whose names are all known.

    Attributes
    ----------
    language
        "en" or "ja".
    documents
        The notes; gold spans are the full names of patients and the last names of doctors.
    mentions
        Of patients, in the order of the notes.
    names
        The list L: patients first, in the order of `Mention.owner`, then controls.
    passages
        Of D_public: what the attacker of scenario 2 holds.
    general
        Directory of M_general.
    """

    language: str
    documents: tuple[TaggedDocument, ...]
    mentions: tuple[Mention, ...]
    names: Candidates
    passages: Passages
    general: Path

    def __post_init__(self) -> None:
        """Check every mention against its note, once."""
        for mention in self.mentions:
            document = self.documents[mention.note]
            first, last = self.names.first[mention.owner], self.names.last[mention.owner]
            is_gold = mention.span in document.spans
            written = document.text[mention.span.start : mention.span.end]
            if not is_gold or written != _written(first, last, self.language):
                raise ValueError("a mention is not where a name is")

    @property
    def n_patients(self) -> int:
        """How many patients are named; rows 0 to n - 1 of `names`."""
        return sum(truth is True for truth in self.names.is_member)

    @property
    def texts(self) -> tuple[str, ...]:
        """The notes as they are."""
        return tuple(document.text for document in self.documents)


def hospital_notes(language: str, *, directory: Path = SHIPPED) -> HospitalNotes:
    """Return the demo hospital's notes.

    Parameters
    ----------
    language
        "en" or "ja".
    directory
        Of the shipped demo.

    Raises
    ------
    AuditError
        If the demo's files are not there.
    """
    recipe, folder = RECIPES[language], directory / language
    try:
        names = read_names((folder / "names.csv").read_bytes(), what="demo names").candidates
    except OSError:
        raise AuditError(
            "The demo's files are missing.", do="Make them with: python -m audit demo --retrain"
        ) from None
    pool = us_pool() if language == "en" else japanese_pool()
    staff = demo_staff(pool, recipe, seed=DEMO_SEED)
    patients = [
        (first, last)
        for first, last, truth in zip(names.first, names.last, names.is_member, strict=True)
        if truth
    ]
    written = _demo_notes(patients, staff=staff, recipe=recipe)
    documents, mentions = _placed(patients, staff=staff, recipe=recipe)
    if tuple(document.text for document in documents) != written.notes:
        raise ValueError("the places of the names are not those of the notes")
    return HospitalNotes(
        language, documents, mentions, names, _passages(written), folder / "models" / "general"
    )


def _demo_notes(
    patients: Sequence[tuple[str, str]], *, staff: Sequence[str], recipe: Recipe
) -> demo.DemoHospital:
    return demo.demo_notes(
        patients, staff=staff, language=recipe.language, n_notes=recipe.n_notes, seed=DEMO_SEED
    )


def _placed(
    patients: Sequence[tuple[str, str]], *, staff: Sequence[str], recipe: Recipe
) -> tuple[tuple[TaggedDocument, ...], tuple[Mention, ...]]:
    """Write the notes with one sign for each part of a name, then put the names where signs are."""
    signs = [(chr(_FIRST + i), chr(_LAST + i)) for i in range(len(patients))]
    drafts = _demo_notes(
        signs, staff=[chr(_STAFF + i) for i in range(len(staff))], recipe=recipe
    ).notes  # fmt: skip
    language = recipe.language
    names = {
        _written(*sign, language): (_written(*patient, language), i)
        for i, (sign, patient) in enumerate(zip(signs, patients, strict=True))
    }
    names |= {chr(_STAFF + i): (name, -1) for i, name in enumerate(staff)}
    documents, mentions = [], []
    for number, draft in enumerate(drafts):
        text, found = _filled(draft, names)
        spans = [span for span, _ in found]
        own = [Mention(number, span, owner) for span, owner in found if owner >= 0]
        patient = f"P{own[0].owner:03d}" if own else None
        documents.append(tagged(f"N{number:04d}", text=text, spans=spans, patient_id=patient))
        mentions += own
    return tuple(documents), tuple(mentions)


def _filled(draft: str, names: dict[str, tuple[str, int]]) -> tuple[str, list[tuple[Span, int]]]:
    """Return a draft with names in place of signs, span and owner (-1: a doctor) of each."""
    pieces: list[str] = []
    found: list[tuple[Span, int]] = []
    at = n_chars = 0
    places = [(start, sign) for sign in names for start in _starts(draft, sign)]
    for start, sign in sorted(places):
        name, owner = names[sign]
        pieces += [draft[at:start], name]
        n_chars += start - at
        label = QUASI_IDENTIFIER if owner < 0 else IDENTIFIER
        found.append((Span(n_chars, n_chars + len(name), label), owner))
        n_chars += len(name)
        at = start + len(sign)
    return "".join([*pieces, draft[at:]]), found


def _starts(text: str, sign: str) -> list[int]:
    return [i for i in range(len(text)) if text.startswith(sign, i)] if sign in text else []


def _written(first: str, last: str, language: str) -> str:
    return f"{last}{first}" if language == "ja" else f"{first} {last}"


def _passages(hospital: demo.DemoHospital) -> Passages:
    lines = [
        json.dumps(
            {"passage_id": f"P{i + 1:03d}", "name_id": p.owner, "text": demo.passage_text(p)}
        )
        for i, p in enumerate(hospital.patterns)
    ]
    return read_passages("\n".join(lines).encode(), what="passages", file_name="passages.jsonl")
