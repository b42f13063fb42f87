"""A corpus on the screen: its count tables beside the paper's, refused rows, groups of values.

Comes in: tables of counts, a corpus's folder, kinds of placeholders. Goes out: plain values to be
drawn. Torch-free.

Source: Nakamura et al., appendix A (tables 3 and 4).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from audit.corpus.candidate_lists import CONTROLS, MEMBERS, read_candidates
from audit.corpus.demo_notes import MENTIONS_PER_NAME, PATTERNS_PER_NAME
from audit.corpus.truth import (
    CANDIDATES,
    CORPUS,
    EXAMINATION,
    PASSAGES,
    PEOPLE,
    PRIVATE,
    PUBLIC,
    REFUSED,
    SUMMARY,
    TRUTH,
)
from audit.errors import AuditError
from audit.names.candidates import Candidates
from audit.names.lists import MAX_LABEL_CHARS, MAX_NAMES, keep_names, keep_passages
from audit.names.matching import NameIndex, Pair, pair_of
from audit.notes.placeholders import NAME_KINDS
from audit.rng import generator
from audit.shelf import Shelf, is_code, now, one_line
from audit.tables import RowNote
from cache.store import Store

KINDS = ("dummy", "register")
"""Dummy identities in the place of placeholders; or the notes as they are, with a register."""
FORMAT = 1

_NEEDED = (PRIVATE, PUBLIC, TRUTH, PEOPLE, SUMMARY, CORPUS)


@dataclass(frozen=True)
class KeptCorpus:
    """A corpus that was built.

    Attributes
    ----------
    corpus_id
        12 random hexadecimal digits; "" for one in a folder of somebody's own.
    title
        As given; may be empty.
    kind
        One of `KINDS`.
    source
        What to call the file of notes: its own name, without the folders it lies in.
    seed
        Of identities, sample and canaries.
    created
        ISO time stamp in UTC.
    path
        The folder.
    n_notes, n_patients
        Of the corpus.
    is_examined
        Whether its names were counted and its lists made.
    """

    corpus_id: str
    title: str
    kind: str
    source: str
    seed: int
    created: str
    path: Path
    n_notes: int
    n_patients: int
    is_examined: bool


def _read_corpus(folder: Path) -> KeptCorpus:
    content = json.loads((folder / CORPUS).read_bytes())
    is_whole = all((folder / name).is_file() for name in _NEEDED)
    if content["format"] != FORMAT or content["kind"] not in KINDS or not is_whole:
        raise ValueError
    return KeptCorpus(
        corpus_id=folder.name if folder.parent == CORPORA.home() and is_code(folder.name) else "",
        title=str(content["title"]),
        kind=str(content["kind"]),
        source=str(content["source"]),
        seed=int(content["seed"]),
        created=str(content["created"]),
        path=folder,
        n_notes=int(content["n_notes"]),
        n_patients=int(content["n_patients"]),
        is_examined=(folder / EXAMINATION).is_file(),
    )


CORPORA = Shelf("corpora", where="corpus", read=_read_corpus)


def find_corpus(text: str) -> KeptCorpus:
    """Return the corpus that a person named on the command line, by id or by folder.

    Raises
    ------
    AuditError
        If there is none.
    """
    if is_code(text) and not Path(text).exists():
        return CORPORA.get(text)
    return CORPORA.at(Path(text).expanduser().absolute())


def describe_corpus(
    *, title: str, kind: str, source: str, seed: int, n_notes: int, n_patients: int, **more: Any
) -> bytes:
    """Return what `corpus.json` holds; `more` is what else was asked for, in plain values."""
    content = {
        "format": FORMAT,
        "title": one_line(title),
        "kind": kind,
        "source": source,
        "seed": seed,
        "created": now(),
        "n_notes": n_notes,
        "n_patients": n_patients,
        "settings": more,
    }
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()


def corpus_line(corpus: KeptCorpus) -> dict[str, Any]:
    """Return a corpus as plain values, without its path."""
    return {name: value for name, value in asdict(corpus).items() if name != "path"}


ROLES = ("patient", "canary")
"""Members of a list if nothing else is asked for: as in the paper, and planted names if any."""
MAX_PASSAGES = 20_000
"""Passages kept for an audit; of more than these, as many are drawn at random."""


def list_of(
    corpus: KeptCorpus,
    *,
    controls: tuple[str, ...] = ("easy", "hard"),
    roles: tuple[str, ...] = ROLES,
) -> Candidates:
    """Return the list L of a corpus (section 3.4).

    Parameters
    ----------
    controls
        Any of "easy", "hard", "recombined", "matched".
    roles
        Any of "patient", "staff", "canary": whose names are members. Twins come with the canaries.

    Raises
    ------
    AuditError
        If there is no such list, it holds no member, or a control is in D_private after all.
    """
    if not set(controls) <= set(CONTROLS) or not set(roles) <= set(MEMBERS):
        raise AuditError("There is no such list.", where="candidates")
    data = _file_bytes(corpus.path / CANDIDATES)
    candidates = read_candidates(data, lists=(*roles, *controls))
    if not any(candidates.is_member):
        raise AuditError(
            "No patient is named in these notes in a way that was understood.",
            where="candidates",
            do="Look at the examination of the corpus: names that stand elsewhere are counted.",
        )
    if not _is_as_drawn(corpus, data):
        check_controls(corpus, candidates)
    return candidates


def check_controls(corpus: KeptCorpus, candidates: Candidates) -> None:
    """Refuse a list of which a control stands in D_private; reads all of D_private.

    Raises
    ------
    AuditError
        With the number of such controls, never their names.
    """
    controls = [row for row, is_member in enumerate(candidates.is_member) if is_member is False]
    if n_found := len(full_names_in(corpus, candidates.rows(controls))):
        raise AuditError(
            f"{n_found:,} controls occur in D_private: they are no controls.",
            where="candidates",
            do="Take them off the list, or draw the controls again.",
        )


def full_names_in(corpus: KeptCorpus, names: Candidates) -> set[Pair]:
    """Return which of the names stand in D_private, first and last name side by side."""
    index = NameIndex(firsts=filter(None, names.first), lasts=filter(None, names.last))
    wanted = {pair_of(*name) for name in zip(names.first, names.last, strict=True)}
    found: set[Pair] = set()
    with (corpus.path / PRIVATE).open("rb") as lines:
        for line in lines:
            found.update(wanted & index.count(str(json.loads(line)["text"])).keys())
    return found


def passages_for(corpus: KeptCorpus, candidates: Candidates, *, seed: int = 0) -> bytes:
    """Return the passages of D_public that belong to members of a list, as JSONL."""
    members = {
        pair_of(candidates.first[row], candidates.last[row])
        for row, is_member in enumerate(candidates.is_member)
        if is_member
    }
    lines = [
        line
        for record, line in _passages(corpus.path / PASSAGES)
        if pair_of(record["first_name"], record["last_name"]) in members
    ]
    if len(lines) > MAX_PASSAGES:
        rows = generator(seed, "corpus/passages").permutation(len(lines))[:MAX_PASSAGES]
        lines = [lines[row] for row in sorted(rows.tolist())]
    return b"".join(lines)


def passages_of(corpus: KeptCorpus) -> bytes:
    """Return all passages of a corpus, as JSONL."""
    return _file_bytes(corpus.path / PASSAGES)


def keep_for_audit(
    corpus_id: str,
    *,
    controls: tuple[str, ...] = ("easy", "hard"),
    roles: tuple[str, ...] = ROLES,
    store: Store,
) -> tuple[str, str]:
    """Put a corpus's list and passages where an audit finds them; return their codes.

    Raises
    ------
    AuditError
        As `list_of`, or if the list is too long.
    """
    return keep_lists(CORPORA.get(corpus_id), controls=controls, roles=roles, store=store)


def keep_lists(
    corpus: KeptCorpus, *, controls: tuple[str, ...], roles: tuple[str, ...], store: Store
) -> tuple[str, str]:
    """Do what `keep_for_audit` does, for a corpus in any folder."""
    candidates = list_of(corpus, controls=controls, roles=roles)
    if len(candidates) > MAX_NAMES:
        raise AuditError(
            f"The list would have more than {MAX_NAMES:,} names.",
            where="candidates",
            do="Choose fewer kinds of controls.",
        )
    passages = passages_for(corpus, candidates, seed=corpus.seed)
    label = corpus.title or f"{corpus.source} {corpus.created[:10]}"
    kinds = f" ({', '.join(controls)})" if controls else ""
    label = f"{label[: MAX_LABEL_CHARS - len(kinds)]}{kinds}"
    names = keep_names(candidates, label=label, notes=(), encoding="UTF-8", store=store)
    if not passages:
        return names[:12], ""
    kept = keep_passages(passages, file_name="passages.jsonl", label=label, store=store)
    return names[:12], kept[:12]


def _is_as_drawn(corpus: KeptCorpus, candidates: bytes) -> bool:
    """Whether list and notes are those that were drawn together: no name needs a second look."""
    try:
        settings = json.loads((corpus.path / CORPUS).read_bytes())["settings"]
    except (OSError, ValueError, KeyError):
        return False
    return bool(
        settings.get("candidates_sha256") == hashlib.sha256(candidates).hexdigest()
        and settings.get("private_bytes") == (corpus.path / PRIVATE).stat().st_size
    )


def _file_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        raise AuditError(
            "A file of the corpus cannot be read.", where="corpus", do="Build the corpus again."
        ) from None


def _passages(path: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    for line in _file_bytes(path).splitlines(keepends=True):
        yield json.loads(line), line


PAPER: Mapping[str, Mapping[int, int]] = {
    "patterns": PATTERNS_PER_NAME,
    "mentions": MENTIONS_PER_NAME,
}
"""Table 3 (distinct passages) and table 4 (mentions) of the paper: count -> number of names."""
GROUPS = ("patient", "other", "date", "place", "number", "unknown")
"""What an inserted value is: a patient's name, another person's, a date or an age, a place, a
number or an address of a person, a placeholder that was not understood."""
LOWS = (1, 2, 3, 4, 5, 6, 11, 26, 101)
"""Where the bins of a chart of counts begin."""

_NAMES = NAME_KINDS | {"middle"}
_DATES = frozenset({"date", "date_range", "age", "age_over_90", "holiday", "birth"})
_PLACES = frozenset(
    {"university", "ward", "hospital", "city", "address", "po_box", "zipcode", "state", "country"}
) | {"company", "ethnicity"}


@dataclass(frozen=True)
class CountRow:
    """How many names have a count, in this corpus and in the paper's."""

    count: int
    n_here: int
    n_paper: int


@dataclass(frozen=True)
class CountBin:
    """Shares of names (0-1) whose count lies from `low` to `high`; `high` None has no end."""

    low: int
    high: int | None
    here: float
    paper: float


@dataclass(frozen=True)
class CountView:
    """A table of counts beside the paper's.

    Attributes
    ----------
    rows
        For every count that occurs, the highest first.
    bins
        The same for a chart, from the lowest on; empty where there are no names.
    n_names, n_total
        Names, and the sum of their counts, in this corpus.
    n_paper_names, n_paper_total
        The same in the paper.
    """

    rows: tuple[CountRow, ...]
    bins: tuple[CountBin, ...]
    n_names: int
    n_total: int
    n_paper_names: int
    n_paper_total: int


def beside_paper(table: Sequence[tuple[int, int]], *, which: str) -> CountView:
    """Return a table of (count, number of names) beside the paper's "patterns" or "mentions"."""
    here, paper = dict(table), PAPER[which]
    n_here, n_paper = sum(here.values()), sum(paper.values())
    rows = [
        CountRow(count, here.get(count, 0), paper.get(count, 0))
        for count in sorted({*here, *paper}, reverse=True)
    ]
    return CountView(
        rows=tuple(rows),
        bins=_bins(rows, n_here=n_here, n_paper=n_paper) if n_here else (),
        n_names=n_here,
        n_total=sum(count * n for count, n in here.items()),
        n_paper_names=n_paper,
        n_paper_total=sum(count * n for count, n in paper.items()),
    )


def refused_rows(folder: Path, *, limit: int) -> tuple[RowNote, ...]:
    """Return the first rows of the source that became no notes, with the reasons.

    A file that is not there, or a line that cannot be read, gives none.
    """
    found = []
    try:
        with (folder / REFUSED).open(encoding="utf-8") as lines:
            for line in islice(lines, limit):
                row = json.loads(line)
                found.append(RowNote(int(row["row"]), str(row["what"])))
    except (OSError, ValueError, KeyError, TypeError):
        return tuple(found)
    return tuple(found)


def group_of(kind: str, *, role: str = "") -> str:
    """Return the one of `GROUPS` that a placeholder's kind belongs to."""
    if kind in _NAMES:
        return "patient" if role == "patient" else "other"
    if kind == "unknown":
        return "unknown"
    if kind == "prefix":
        return "other"
    if kind in _DATES:
        return "date"
    return "place" if kind in _PLACES else "number"


def _bins(rows: Sequence[CountRow], *, n_here: int, n_paper: int) -> tuple[CountBin, ...]:
    bins = []
    for low, following in zip(LOWS, (*LOWS[1:], None), strict=True):
        within = [r for r in rows if r.count >= low and (following is None or r.count < following)]
        bins.append(
            CountBin(
                low=low,
                high=None if following is None else following - 1,
                here=sum(row.n_here for row in within) / n_here,
                paper=sum(row.n_paper for row in within) / n_paper,
            )
        )
    while bins and not bins[-1].here and not bins[-1].paper:
        bins.pop()
    return tuple(bins)
