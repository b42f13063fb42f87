"""A list of names before it is kept: read, added to, drawn for, counted, and spelt in word pieces.

Comes in: an uploaded file, typed lines, numbers of controls, a tokenizer. Goes out: candidates
with counts for the screen. Torch-free.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.errors import AuditError
from audit.membership import prompts
from audit.membership.candidates import Candidates
from audit.membership.controls import with_controls
from audit.membership.name_pools import with_popularity
from audit.membership.names_csv import read_names
from audit.names import script_of as script_of
from audit.prepare.lists import MAX_NAMES
from audit.prepare.pair_check import tokenizer
from audit.prepare.typed_names import with_typed
from audit.tables import RowNote

MAX_FILE_BYTES = 20_000_000
SCRIPTS = ("latin", "han_kana", "other")


@dataclass(frozen=True, eq=False)
class Draft:
    """A list that is being made.

    Attributes
    ----------
    candidates
        Names of the file or the list it starts from, then typed ones, then drawn controls.
    notes
        On rows of the file.
    typed_notes
        On typed lines.
    encoding
        Of the file; "" without one.
    n_given, n_typed, n_drawn
        How many names came from where.
    """

    candidates: Candidates
    notes: tuple[RowNote, ...]
    typed_notes: tuple[RowNote, ...]
    encoding: str
    n_given: int
    n_typed: int
    n_drawn: int


@dataclass(frozen=True)
class Wanted:
    """What is to be added to a list.

    Attributes
    ----------
    typed
        One name a line: "First Last", "Last, First" or "姓 名".
    is_typed_member
        Truth of the typed names; None: unknown.
    n_easy, n_hard, n_recombined
        Controls to draw against the members.
    seed
        Of the draw.
    model
        Whose word pieces controls and members have alike; None: characters of Han and kana.
    """

    typed: str = ""
    is_typed_member: bool | None = None
    n_easy: int = 0
    n_hard: int = 0
    n_recombined: int = 0
    seed: int = 0
    model: Path | None = None


@dataclass(frozen=True)
class Bins:
    """A histogram of names: for each bin those in the notes or of unknown truth, and controls.

    Attributes
    ----------
    starts
        Where each bin begins; bins are as wide as they are apart.
    n_tested, n_controls
        Names by bin.
    n_missing
        Names without a value.
    """

    starts: tuple[float, ...]
    n_tested: tuple[int, ...]
    n_controls: tuple[int, ...]
    n_missing: int


@dataclass(frozen=True)
class NameFacts:
    """Counts of a list.

    Attributes
    ----------
    scripts
        Names by script, `SCRIPTS`.
    n_one_part
        Names with one part only.
    n_with_mentions
        Names whose mentions in the notes are known.
    popularity
        Share of people with the name, by its decimal logarithm in steps of 0.5.
    log_popularity
        [N] the logarithm itself; NaN where the generator does not know the name.
    """

    scripts: Mapping[str, int]
    n_one_part: int
    n_with_mentions: int
    popularity: Bins
    log_popularity: tuple[float, ...]


@dataclass(frozen=True)
class Spelling:
    """How a tokenizer spells a list's names.

    Attributes
    ----------
    n_pieces
        [N] word pieces of the whole name in running text; 0 where it cannot be spelt.
    by_pieces
        Names by number of pieces; `n_missing` are those that cannot be scored.
    """

    n_pieces: tuple[int, ...]
    by_pieces: Bins


def make_draft(data: bytes | None, *, base: Candidates | None, wanted: Wanted) -> Draft | None:
    """Put a list together; None where nothing was given.

    Parameters
    ----------
    data
        An uploaded CSV file, or None.
    base
        A list to start from where there is no file.

    Raises
    ------
    AuditError
        If the file, a typed line or a number cannot be used.
    """
    candidates: Candidates | None = None
    notes: tuple[RowNote, ...] = ()
    encoding = ""
    if data is not None:
        if len(data) > MAX_FILE_BYTES:
            raise AuditError("The file is larger than 20 MB.", where="names")
        found = read_names(data)
        candidates, notes, encoding = found.candidates, found.notes, found.encoding
    elif base is not None:
        candidates = base
    n_given = len(candidates) if candidates is not None else 0
    candidates, typed_notes = with_typed(
        candidates, text=wanted.typed, is_member=wanted.is_typed_member
    )
    if candidates is None:
        return None
    n_typed = len(candidates) - n_given
    if len(candidates) > MAX_NAMES:
        raise AuditError(
            f"The list has more than {MAX_NAMES:,} names.", where="names", do="Split the file."
        )
    candidates = with_controls(
        candidates,
        n_easy=wanted.n_easy,
        n_hard=wanted.n_hard,
        n_recombined=wanted.n_recombined,
        seed=wanted.seed,
        count_pieces=prompts.piece_counter(tokenizer(wanted.model)) if wanted.model else None,
    )
    n_drawn = len(candidates) - n_given - n_typed
    return Draft(candidates, notes, typed_notes, encoding, n_given, n_typed, n_drawn)


def name_facts(candidates: Candidates) -> NameFacts:
    """Count a list."""
    full = [first + last for first, last in zip(candidates.first, candidates.last, strict=True)]
    shares = with_popularity(candidates).popularity
    logs = tuple(math.log10(share) if share > 0 else math.nan for share in shares)
    scripts = Counter(map(script_of, full))
    return NameFacts(
        scripts={script: scripts[script] for script in SCRIPTS if scripts[script]},
        n_one_part=sum(
            not (first and last)
            for first, last in zip(candidates.first, candidates.last, strict=True)
        ),
        n_with_mentions=sum(n is not None for n in candidates.n_mentions),
        popularity=_bins(logs, candidates=candidates, step=0.5),
        log_popularity=logs,
    )


def spelling(candidates: Candidates, *, model: Path) -> Spelling:
    """Spell a list with a model's tokenizer, as it stands in running text.

    Raises
    ------
    AuditError
        If the tokenizer cannot be built.
    """
    kind = prompts.PassageKind(slots=("full",), separator="", lead=" ")
    pieces = prompts.part_pieces(candidates, kind=kind, tokenizer=tokenizer(model))
    totals = pieces.n_pieces.sum(axis=1)
    known = tuple(int(n) if ok else 0 for n, ok in zip(totals, pieces.is_known, strict=True))
    values = tuple(float(n) if n else math.nan for n in known)
    return Spelling(known, _bins(values, candidates=candidates, step=1.0))


def _bins(values: Sequence[float], *, candidates: Candidates, step: float) -> Bins:
    tested: Counter[int] = Counter()
    controls: Counter[int] = Counter()
    for value, is_member in zip(values, candidates.is_member, strict=True):
        if not math.isnan(value):
            (controls if is_member is False else tested)[math.floor(value / step)] += 1
    places = tested.keys() | controls.keys()
    span = range(min(places), max(places) + 1) if places else range(0)
    return Bins(
        starts=tuple(place * step for place in span),
        n_tested=tuple(tested[place] for place in span),
        n_controls=tuple(controls[place] for place in span),
        n_missing=sum(map(math.isnan, values)),
    )
