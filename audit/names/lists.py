"""Lists of names and files of passages: put together, counted for the screen, and kept."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from audit.errors import AuditError
from audit.home import DEMO_HOSPITAL, salted_digest
from audit.models.registry import tokenizer
from audit.names.candidates import Candidates
from audit.names.controls import with_controls
from audit.names.files import read_names, with_typed
from audit.names.pools import with_popularity
from audit.names.spelling import RUNNING_TEXT, part_pieces, piece_counter
from audit.notes.passages import Passages, read_passages
from audit.tables import RowNote
from audit.text import script_of
from cache.store import Store

MAX_NAMES = 50_000
MAX_LABEL_CHARS = 80
DEMO = {"demo-en": "en", "demo-ja": "ja"}
"""Codes of the demo's lists and passages -> language of the demo hospital."""

_CODE = re.compile("[0-9a-f]{12,64}")
_GONE = "It was made on another installation, or has been removed. Choose another one."


@dataclass(frozen=True)
class ListLine:
    """What a choice of lists shows of one: counts, never a name.

    `code` is what a link carries: the first 12 digits of the digest, or "demo-en", "demo-ja".
    `label` is the title that was given and `at` when it was kept, ISO 8601; "" for none.
    `n_members` are in the notes, `n_unknown` of unknown truth; `by_kind` counts controls and
    canaries.
    """

    code: str
    label: str
    at: str
    n_names: int
    n_members: int
    n_unknown: int
    by_kind: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class KeptNames:
    """A kept list of names, with what was said of its file's rows."""

    line: ListLine
    candidates: Candidates
    notes: tuple[RowNote, ...]
    encoding: str


@dataclass(frozen=True)
class PassageLine:
    """What a choice of passages shows of one file; as `ListLine`."""

    code: str
    label: str
    at: str
    n_passages: int
    n_left_out: int
    has_owners: bool


@dataclass(frozen=True, eq=False)
class KeptPassages:
    """A kept file of passages: as it is read, and its own bytes under a name of the right kind."""

    line: PassageLine
    passages: Passages
    data: bytes
    file_name: str


def list_line(candidates: Candidates, *, code: str, label: str = "", at: str = "") -> ListLine:
    """Return a list's line; planted names are no members here, and counted beside the controls."""
    kinds = Counter(kind for kind in candidates.control_kind if kind)
    members = [row for row, m in enumerate(candidates.is_member) if m is True]
    if n_planted := sum(map(candidates.is_canary, members)):
        kinds["planted"] = n_planted
    n_unknown = sum(m is None for m in candidates.is_member)
    n_members = len(members) - n_planted
    by_kind = dict(sorted(kinds.items()))
    return ListLine(code, label, at, len(candidates), n_members, n_unknown, by_kind)


def keep_names(
    candidates: Candidates,
    *,
    label: str,
    notes: Sequence[RowNote],
    encoding: str,
    store: Store,
) -> str:
    """Keep a list of names and return its salted digest, 64 hexadecimal digits.

    A list that is kept again without a title keeps the one it has. Popularity is left out: it
    follows from the names, and a file read again does not have it.
    """
    if not 0 < len(candidates) <= MAX_NAMES:
        raise AuditError(f"A list has 1 to {MAX_NAMES:,} names.", where="names")
    candidates = candidates.without_popularity()
    digest = salted_digest(candidates.digest())
    columns = {name: list(column) for name, column in vars(candidates).items()}
    del columns["popularity"]
    known = _line(store, "list", digest) or {}
    label = _label(label) or str(known.get("label", ""))
    line = list_line(candidates, code=digest[:12], label=label, at=_now())
    store.put_record(
        f"list/{digest}",
        {"columns": columns, "notes": [[n.row, n.what] for n in notes], "encoding": encoding},
    )
    store.put_record(f"list-line/{digest}", asdict(line))
    return digest


def kept_names(code: str, *, store: Store) -> KeptNames:
    """Return the list that a link names, by its digest, 12 digits of it, or the demo's code."""
    if code in DEMO:
        found = read_names(_demo_file(code, "names.csv"), what="demo names")
        line = list_line(found.candidates, code=code)
        return KeptNames(line, found.candidates, found.notes, found.encoding)
    digest = _digest(code, kind="list", store=store)
    record, line_record = store.get_record(f"list/{digest}"), _line(store, "list", digest)
    if record is None or line_record is None:
        raise AuditError("This list of names is not kept here.", do=_GONE)
    columns = {name: tuple(column) for name, column in record["columns"].items()}
    columns["popularity"] = (math.nan,) * len(columns["first"])
    return KeptNames(
        line=ListLine(**line_record),
        candidates=Candidates(**columns),
        notes=tuple(RowNote(int(row), what) for row, what in record["notes"]),
        encoding=record["encoding"],
    )


def all_names(store: Store) -> tuple[ListLine, ...]:
    """Return the lines of all kept lists, the newest first, then the demo's."""
    lines = (ListLine(**line) for line in _lines(store, "list"))
    return (*lines, *(kept_names(code, store=store).line for code in _shipped("names.csv")))


def keep_passages(data: bytes, *, file_name: str, label: str, store: Store) -> str:
    """Keep a file of passages as it is and return its salted digest.

    The file itself is kept, so that the one that is handed out again gives the same question, down
    to the number of rows left out.
    """
    passages = read_passages(data, file_name=file_name)
    kind = "csv" if passages_are_csv(data, file_name=file_name) else "jsonl"
    digest = salted_digest(hashlib.sha256(data).hexdigest())
    known = _line(store, "passages", digest) or {}
    label = _label(label) or str(known.get("label", ""))
    line = passage_line(passages, code=digest[:12], label=label, at=_now())
    array = np.frombuffer(data, dtype=np.uint8)
    store.put(f"passages/{digest}", arrays={"data": array}, meta={"kind": kind})
    store.put_record(f"passages-line/{digest}", asdict(line))
    return digest


def kept_passages(code: str, *, store: Store) -> KeptPassages:
    """Return the passages that a link names; raises as `kept_names`."""
    if code in DEMO:
        data, name = _demo_file(code, "passages.jsonl"), "passages.jsonl"
        passages = read_passages(data, what="demo passages", file_name=name)
        return KeptPassages(passage_line(passages, code=code), passages, data, name)
    digest = _digest(code, kind="passages", store=store)
    stored, line_record = store.get(f"passages/{digest}"), _line(store, "passages", digest)
    if stored is None or line_record is None:
        raise AuditError("These passages are not kept here.", do=_GONE)
    data = stored.arrays["data"].tobytes()
    name = f"passages.{stored.meta['kind']}"
    passages = read_passages(data, file_name=name)
    return KeptPassages(PassageLine(**line_record), passages, data, name)


def all_passages(store: Store) -> tuple[PassageLine, ...]:
    """Return the lines of all kept passages, the newest first, then the demo's."""
    lines = (PassageLine(**line) for line in _lines(store, "passages"))
    demo = (kept_passages(code, store=store).line for code in _shipped("passages.jsonl"))
    return (*lines, *demo)


def passage_line(passages: Passages, *, code: str, label: str = "", at: str = "") -> PassageLine:
    """Return the line of a file of passages."""
    n_left_out = len(passages.notes)
    return PassageLine(code, label, at, len(passages), n_left_out, passages.has_owners)


def passages_are_csv(data: bytes, *, file_name: str) -> bool:
    """Whether `read_passages` reads this file as CSV (else JSONL)."""
    if file_name.lower().endswith((".jsonl", ".ndjson", ".json")):
        return False
    return not data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")


def _demo_file(code: str, name: str) -> bytes:
    try:
        return (DEMO_HOSPITAL / DEMO[code] / name).read_bytes()
    except OSError:
        raise AuditError("The demo's files are missing.", do="Install the program again.") from None


def _shipped(name: str) -> list[str]:
    return [code for code, language in DEMO.items() if (DEMO_HOSPITAL / language / name).is_file()]


def _digest(code: str, *, kind: str, store: Store) -> str:
    keys = store.keys(f"{kind}/{code}") if _CODE.fullmatch(code) else ()
    if len(keys) != 1:
        what = "This list of names is" if kind == "list" else "These passages are"
        raise AuditError(f"{what} not kept here.", do=_GONE)
    return keys[0].removeprefix(f"{kind}/")


def _line(store: Store, kind: str, digest: str) -> dict[str, Any] | None:
    record = store.get_record(f"{kind}-line/{digest}")
    wanted = {f.name for f in fields(ListLine if kind == "list" else PassageLine)}
    return record if isinstance(record, dict) and set(record) == wanted else None


def _lines(store: Store, kind: str) -> list[dict[str, Any]]:
    """Return the lines of what is kept, the newest first."""
    digests = (key.removeprefix(f"{kind}-line/") for key in store.keys(f"{kind}-line/"))
    lines = [line for digest in digests if (line := _line(store, kind, digest)) is not None]
    return sorted(lines, key=lambda line: (line["at"], line["code"]), reverse=True)


def _label(text: str) -> str:
    return " ".join(text.split())[:MAX_LABEL_CHARS]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


MAX_FILE_BYTES = 20_000_000
SCRIPTS = ("latin", "han_kana", "other")


@dataclass(frozen=True, eq=False)
class Draft:
    """A list that is being made: names of the file or list it starts from, typed ones, controls.

    `notes` are on rows of the file, `typed_notes` on typed lines; `encoding` is "" without a file.
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
    typed, is_typed_member
        One name a line, and the truth of all of them; None: unknown.
    n_easy, n_hard, n_recombined, seed
        Controls to draw against the members.
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
    """A histogram: for each bin names in the notes or of unknown truth, and controls.

    `starts` is where each bin begins; they are as wide as they are apart. `n_missing` names have no
    value.
    """

    starts: tuple[float, ...]
    n_tested: tuple[int, ...]
    n_controls: tuple[int, ...]
    n_missing: int


@dataclass(frozen=True)
class NameFacts:
    """Counts of a list: names by script (`SCRIPTS`), of one part, with known mentions.

    `popularity` is the share of people with the name by its decimal logarithm in steps of 0.5;
    `log_popularity` [N] the logarithm itself, NaN where the generator does not know the name.
    """

    scripts: Mapping[str, int]
    n_one_part: int
    n_with_mentions: int
    popularity: Bins
    log_popularity: tuple[float, ...]


@dataclass(frozen=True)
class Spelling:
    """How a tokenizer spells a list's names.

    `n_pieces` [N] are those of the whole name in running text, 0 where it cannot be spelt and so
    not scored; `by_pieces` counts them.
    """

    n_pieces: tuple[int, ...]
    by_pieces: Bins


def make_draft(data: bytes | None, *, base: Candidates | None, wanted: Wanted) -> Draft | None:
    """Put a list together from an uploaded CSV file or from `base`; None where none was given."""
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
        count_pieces=piece_counter(tokenizer(wanted.model)) if wanted.model else None,
    )
    n_drawn = len(candidates) - n_given - n_typed
    return Draft(candidates, notes, typed_notes, encoding, n_given, n_typed, n_drawn)


def name_facts(candidates: Candidates) -> NameFacts:
    """Count a list."""
    parts = list(zip(candidates.first, candidates.last, strict=True))
    shares = with_popularity(candidates).popularity
    logs = tuple(math.log10(share) if share > 0 else math.nan for share in shares)
    scripts = Counter(script_of(first + last) for first, last in parts)
    return NameFacts(
        scripts={script: scripts[script] for script in SCRIPTS if scripts[script]},
        n_one_part=sum(not all(pair) for pair in parts),
        n_with_mentions=sum(n is not None for n in candidates.n_mentions),
        popularity=_bins(logs, candidates=candidates, step=0.5),
        log_popularity=logs,
    )


def spelling(candidates: Candidates, *, model: Path) -> Spelling:
    """Spell a list with a model's tokenizer, as it stands in running text."""
    pieces = part_pieces(candidates, kind=RUNNING_TEXT, tokenizer=tokenizer(model))
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
