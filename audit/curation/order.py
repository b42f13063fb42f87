"""The order of a corpus: which notes, which people, what to plant, and with which seed.

Comes in: what somebody chose on a page or on the command line. Goes out: one frozen value, also as
plain JSON, so that another process can carry it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from audit.corpora.mention_passages import N_SENTENCES
from audit.corpora.notes import FIELDS
from audit.curation.kept_corpora import KINDS, MAX_TITLE_CHARS
from audit.errors import AuditError

LANGUAGES = ("auto", "us", "ja")
MAX_COUNTS, MAX_COUNT, MAX_CANARIES = 12, 1_000, 1_000
MAX_WORKERS = 64
MAX_SEED = 2**63 - 1


@dataclass(frozen=True)
class CorpusOrder:
    """What a corpus is to be made of.

    Attributes
    ----------
    notes, file_id
        The file or folder of notes: its path, as on the command line, or its place in the list of
        `audit.curation.note_files`. One of them.
    columns
        (field of a note, name of its column), for headings that are not known.
    kind
        "dummy": placeholders become dummy identities. "register": identified notes.
    register, register_id
        The register of patients, by path or by its place in the list; for kind "register" only.
    seed
        Of identities, sample, canaries and controls.
    n_workers
        Processes; they change no byte of the corpus.
    title
        For the list of corpora; no part of the corpus.
    sample
        How many notes to draw at random; None takes all.
    canary_counts, n_canaries
        How often names are planted, and how many names for each of these counts; as many twins
        are left out. No canaries where either is empty or 0.
    n_sentences
        Of a passage, from the mention on (section 3.4: five).
    has_left
        Whether a passage begins with the sentence in which the name stands, so that the name stands
        as far from the beginning as in training; else with the name, as in the paper.
    language
        Where controls and canaries come from: "us", "ja", or "auto" by the names in the notes.
    tokenizer
        Directory of the general model: positives and controls are then names whose parts are
        single tokens of it (section 3.4). None takes all names.
    """

    notes: Path | None = None
    file_id: str = ""
    columns: tuple[tuple[str, str], ...] = ()
    kind: str = "dummy"
    register: Path | None = None
    register_id: str = ""
    seed: int = 0
    n_workers: int = 1
    title: str = ""
    sample: int | None = None
    canary_counts: tuple[int, ...] = ()
    n_canaries: int = 10
    n_sentences: int = N_SENTENCES
    has_left: bool = False
    language: str = "auto"
    tokenizer: Path | None = None

    def __post_init__(self) -> None:
        """Check every choice, and each against the others."""
        if (self.notes is None) == (not self.file_id):
            raise AuditError("One file or folder of notes is needed.", where="notes")
        if self.kind not in KINDS or self.language not in LANGUAGES:
            raise AuditError("There is no such choice.", where="kind or language")
        if (self.kind == "register") != (self.register is not None or bool(self.register_id)):
            raise AuditError(
                "Identified notes need a register of patients, and notes with placeholders none.",
                where="register",
            )
        names = [name for name, _ in self.columns]
        if set(names) - set(FIELDS) or len(set(names)) != len(names):
            raise AuditError("A column is given for no field, or twice.", where="columns")
        self._check_numbers()
        if len(self.title) > MAX_TITLE_CHARS:
            raise AuditError(
                f"The title is longer than {MAX_TITLE_CHARS} characters.", where="title"
            )

    def _check_numbers(self) -> None:
        bounds = {
            "seed": (self.seed, 0, MAX_SEED),
            "workers": (self.n_workers, 1, MAX_WORKERS),
            "canaries": (self.n_canaries, 0, MAX_CANARIES),
            "sentences": (self.n_sentences, 1, 50),
            "sample": (1 if self.sample is None else self.sample, 1, MAX_SEED),
        }
        for where, (value, low, high) in bounds.items():
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise AuditError(f"The number must lie from {low} to {high:,}.", where=where)
        counts = self.canary_counts
        is_good = all(isinstance(n, int) and 1 <= n <= MAX_COUNT for n in counts)
        if not is_good or len(set(counts)) != len(counts) or len(counts) > MAX_COUNTS:
            raise AuditError(
                f"The numbers of mentions are {MAX_COUNTS} different ones at most, "
                f"each from 1 to {MAX_COUNT:,}.",
                where="canaries",
                do="Write them like 1,2,4,8.",
            )

    @property
    def has_canaries(self) -> bool:
        """Whether names are to be planted."""
        return bool(self.canary_counts) and self.n_canaries > 0


def order_to_json(order: CorpusOrder) -> dict[str, Any]:
    """Return an order as plain JSON values."""
    content = asdict(order)
    for name in ("notes", "register", "tokenizer"):
        content[name] = None if content[name] is None else str(content[name])
    return content | {
        "columns": [list(pair) for pair in order.columns],
        "canary_counts": list(order.canary_counts),
    }


def order_from_json(content: Mapping[str, Any]) -> CorpusOrder:
    """Return the order that `order_to_json` wrote.

    Raises
    ------
    AuditError
        If it is none.
    """
    try:
        values = dict(content)
        if set(values) != {field.name for field in fields(CorpusOrder)}:
            raise ValueError
        for name in ("notes", "register", "tokenizer"):
            values[name] = None if values[name] is None else Path(values[name])
        values["columns"] = tuple((str(field), str(name)) for field, name in values["columns"])
        values["canary_counts"] = tuple(values["canary_counts"])
    except (ValueError, TypeError):
        raise AuditError("The order of the corpus cannot be read.", where="order") from None
    return CorpusOrder(**values)


def without_title(order: CorpusOrder) -> CorpusOrder:
    """Return the same order as far as the corpus depends on it."""
    return replace(order, title="", n_workers=1)
