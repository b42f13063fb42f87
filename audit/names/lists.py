"""Lists of names and files of passages: put together, and kept."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from audit.errors import AuditError
from audit.home import DEMO_HOSPITAL, salted_digest
from audit.names.candidates import Candidates
from audit.names.controls import with_controls
from audit.names.files import NamesFile, read_names
from audit.names.spelling import piece_counter
from audit.notes.passages import Passages, read_passages
from audit.shelf import now, one_line
from audit.tables import RowNote
from cache.store import Store

MAX_NAMES = 50_000
MAX_FILE_BYTES = 20_000_000
DEMO = {"demo-en": "en", "demo-ja": "ja"}
"""Codes of the demo's lists and passages -> language of the demo hospital."""

_CODE = re.compile("[0-9a-f]{12,64}")


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
class KeptNames:
    """A kept list of names."""

    line: ListLine
    candidates: Candidates


@dataclass(frozen=True, eq=False)
class KeptPassages:
    """A kept file of passages: as it is read, and its own bytes under a name of the right kind."""

    line: PassageLine
    passages: Passages
    data: bytes
    file_name: str


Line = TypeVar("Line", ListLine, PassageLine)
_KEYS: dict[Any, str] = {ListLine: "list", PassageLine: "passages"}


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


def passage_line(passages: Passages, *, code: str, label: str = "", at: str = "") -> PassageLine:
    """Return the line of a file of passages."""
    n_left_out = len(passages.notes)
    return PassageLine(code, label, at, len(passages), n_left_out, passages.has_owners)


def keep_names(candidates: Candidates, *, label: str, store: Store) -> str:
    """Keep a list of names and return its salted digest, 64 hexadecimal digits.

    A list that is kept again without a title keeps the one it has. Popularity is left out: it
    follows from the names, and a file read again does not have it.
    """
    if not 0 < len(candidates) <= MAX_NAMES:
        raise AuditError("A list has 1 to {max_names:,} names.", where="names", max_names=MAX_NAMES)
    candidates = candidates.without_popularity()
    digest = salted_digest(candidates.digest())
    columns = {name: column for name, column in vars(candidates).items() if name != "popularity"}
    store.put_record(f"list/{digest}", {"columns": columns})
    line = list_line(candidates, code=digest[:12], label=one_line(label), at=now())
    return _keep_line(line, digest, store)


def kept_names(code: str, *, store: Store) -> KeptNames:
    """Return the list that a link names, by its digest, 12 digits of it, or the demo's code."""
    if code in DEMO:
        found = read_names(_demo_file(code, "names.csv"), what="demo names").candidates
        return KeptNames(list_line(found, code=code), found)
    line, record = _kept(code, ListLine, store, store.get_record)
    columns = {name: tuple(column) for name, column in record["columns"].items()}
    columns["popularity"] = (math.nan,) * len(columns["first"])
    return KeptNames(line, Candidates(**columns))


def all_names(store: Store) -> tuple[ListLine, ...]:
    """Return the lines of all kept lists, the newest first, then the demo's."""
    demo = [kept_names(code, store=store).line for code in DEMO]
    return (*_lines(ListLine, store), *demo)


def keep_passages(data: bytes, *, file_name: str, label: str, store: Store) -> str:
    """Keep a file of passages as it is and return its salted digest.

    The file itself is kept, so that the one that is handed out again gives the same question, down
    to the number of rows left out.
    """
    passages = read_passages(data, file_name=file_name)
    kind = "csv" if passages_are_csv(data, file_name=file_name) else "jsonl"
    digest = salted_digest(hashlib.sha256(data).hexdigest())
    arrays = {"data": np.frombuffer(data, dtype=np.uint8)}
    store.put(f"passages/{digest}", arrays=arrays, meta={"kind": kind})
    line = passage_line(passages, code=digest[:12], label=one_line(label), at=now())
    return _keep_line(line, digest, store)


def kept_passages(code: str, *, store: Store) -> KeptPassages:
    """Return the passages that a link names; raises as `kept_names`."""
    if code in DEMO:
        data, name = _demo_file(code, "passages.jsonl"), "passages.jsonl"
        passages = read_passages(data, what="demo passages", file_name=name)
        return KeptPassages(passage_line(passages, code=code), passages, data, name)
    line, stored = _kept(code, PassageLine, store, store.get)
    data, name = stored.arrays["data"].tobytes(), f"passages.{stored.meta['kind']}"
    return KeptPassages(line, read_passages(data, file_name=name), data, name)


def all_passages(store: Store) -> tuple[PassageLine, ...]:
    """Return the lines of all kept passages, the newest first, then the demo's."""
    demo = [kept_passages(code, store=store).line for code in DEMO]
    return (*_lines(PassageLine, store), *demo)


def passages_are_csv(data: bytes, *, file_name: str) -> bool:
    """Whether `read_passages` reads this file as CSV (else JSONL)."""
    if file_name.lower().endswith((".jsonl", ".ndjson", ".json")):
        return False
    return not data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")


def _demo_file(code: str, name: str) -> bytes:
    return (DEMO_HOSPITAL / DEMO[code] / name).read_bytes()


def _kept(code: str, of: type[Line], store: Store, get: Callable[[str], Any]) -> tuple[Line, Any]:
    """Return the line of what a code's digest begins, and what `get` has of it."""
    key = f"{_KEYS[of]}/"
    keys = store.keys(key + code) if _CODE.fullmatch(code) else ()
    line = _line(of, keys[0].removeprefix(key), store) if len(keys) == 1 else None
    found = get(keys[0]) if line else None
    if line is None or found is None:
        do = "It was made on another installation, or has been removed. Choose another one."
        if of is ListLine:
            raise AuditError("This list of names is not kept here.", do=do)
        raise AuditError("These passages are not kept here.", do=do)
    return line, found


def _line(of: type[Line], digest: str, store: Store) -> Line | None:
    """Return a kept line; None where there is none, or one of another version."""
    record = store.get_record(f"{_KEYS[of]}-line/{digest}")
    try:
        return of(**record)
    except TypeError:
        return None


def _lines(of: type[Line], store: Store) -> list[Line]:
    """Return the lines of what is kept, the newest first."""
    key = f"{_KEYS[of]}-line/"
    lines = (_line(of, one.removeprefix(key), store) for one in store.keys(key))
    kept = [line for line in lines if line is not None]
    return sorted(kept, key=lambda line: (line.at, line.code), reverse=True)


def _keep_line(line: Line, digest: str, store: Store) -> str:
    """Keep a line, with the title that it had where it has none now; returns the digest."""
    before = _line(type(line), digest, store)
    title = line.label or (before.label if before else "")
    store.put_record(f"{_KEYS[type(line)]}-line/{digest}", asdict(line) | {"label": title})
    return digest


@dataclass(frozen=True, eq=False)
class Draft(NamesFile):
    """A list that is being made: names of the file or list it starts from, then drawn controls.

    `encoding` is "" without a file.
    """

    n_given: int
    n_drawn: int


@dataclass(frozen=True)
class Wanted:
    """Which controls are to be added to a list, drawn against its members.

    They have as many word pieces as the members have for `model`; None: characters of Han and kana.
    """

    n_easy: int = 0
    n_hard: int = 0
    n_recombined: int = 0
    seed: int = 0
    model: Path | None = None


def make_draft(data: bytes | None, *, base: Candidates | None, wanted: Wanted) -> Draft | None:
    """Put a list together from an uploaded CSV file or from `base`; None where none was given."""
    from audit.models.registry import tokenizer

    notes: tuple[RowNote, ...] = ()
    encoding = ""
    if data is not None:
        if len(data) > MAX_FILE_BYTES:
            raise AuditError("The file is larger than 20 MB.", where="names")
        found = read_names(data)
        base, notes, encoding = found.candidates, found.notes, found.encoding
    if base is None:
        return None
    if len(base) > MAX_NAMES:
        raise AuditError(
            "The list has more than {max_names:,} names.",
            where="names",
            do="Split the file.",
            max_names=MAX_NAMES,
        )
    drawn = with_controls(
        base,
        n_easy=wanted.n_easy,
        n_hard=wanted.n_hard,
        n_recombined=wanted.n_recombined,
        seed=wanted.seed,
        count_pieces=piece_counter(tokenizer(wanted.model)) if wanted.model else None,
    )
    return Draft(drawn, encoding, notes, len(base), len(drawn) - len(base))
