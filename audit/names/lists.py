"""Makes lists of names, and keeps lists of names and files of passages in the store."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from audit.errors import AuditError
from audit.home import DEMO_HOSPITAL, salted_digest
from audit.names.candidates import Candidates, ControlSource
from audit.names.controls import characters, with_controls, with_own_controls
from audit.names.facts import NameFacts, make_piece_counter, name_facts
from audit.names.files import NamesFile, read_names
from audit.names.pools import pools_by_script
from audit.names.spelling import CountPieces
from audit.notes.passages import Passages, normalize_passages, read_passages
from audit.progress import Meter, Phase, ProgressListener
from audit.shelf import JSON, make_time_stamp, one_line
from audit.tables import RowNote
from cache.store import Store

T = TypeVar("T")

MAX_NAMES = 50_000
DEMO = {"demo-en": "en", "demo-ja": "ja"}
"""Codes of the demo's lists and passages -> language of the demo hospital."""

_CODE = re.compile("[0-9a-f]{12,64}")
_COUNT_KEYS = {"list": "n_names", "passages": "n_passages"}


@dataclass(frozen=True)
class Line:
    """A kept list of names, or file of passages, as the choice of lists shows it: without any name.

    `code` is the part of a link: the first 12 digits of the digest, or "demo-en", "demo-ja".
    `label` is the title that a person gave, and `at` the time when it was kept (ISO 8601); each is
    "" for none. `n` counts names, or passages with a place for a name. `source` is where the list's
    controls come from.
    """

    code: str
    label: str
    at: str
    n: int
    source: ControlSource | Literal[""] = ""


@dataclass(frozen=True, eq=False)
class KeptNames(NamesFile):
    """A list of names that is kept or is being made; `encoding` is "" if it comes from no file.

    `n_given` names come from the uploaded file or base list and `n_own` from a file of own
    controls; the others were drawn. `own_notes` are remarks on odd rows of that file.
    """

    line: Line
    n_given: int
    n_own: int = 0
    own_notes: tuple[RowNote, ...] = ()

    @cached_property
    def digest(self) -> str:
        """Digest of the list's content (`Candidates.digest`)."""
        return self.candidates.digest()

    @cached_property
    def facts(self) -> NameFacts:
        """Counts of the list."""
        return name_facts(self.candidates)


@dataclass(frozen=True, eq=False)
class KeptPassages:
    """A kept file of passages: parsed, and its own bytes under a file name of the right type."""

    line: Line
    passages: Passages
    data: bytes
    file_name: str


def keep_names(candidates: Candidates, *, label: str, store: Store) -> str:
    """Keep a list of names and return its salted digest, 64 hexadecimal digits.

    A list that is kept again without a title keeps its old title.
    """
    if not 0 < len(candidates) <= MAX_NAMES:
        raise AuditError("A list has 1 to {max_names:,} names.", where="names", max_names=MAX_NAMES)
    digest = salted_digest(candidates.digest())
    store.put_record(f"list/{digest}", {"columns": vars(candidates)})
    _keep_line(
        "list", digest, label=label, n=len(candidates), store=store, source=candidates.source
    )
    return digest


def load_names(code: str, *, store: Store) -> KeptNames:
    """Return the list of a code: its digest, 12 digits of the digest, or the demo's code."""
    if code in DEMO:
        demo_names = read_names(_read_demo_file(code, "names.csv"), subject="demo names").candidates
        candidates = demo_names.with_source("invented")
        line = Line(code, "", "", len(candidates), candidates.source)
    else:
        line, record = _load_entry(code, "list", store, store.get_record)
        candidates = Candidates(
            **{name: tuple(column) for name, column in record["columns"].items()}
        )
    return KeptNames(candidates, "", (), line, len(candidates))


def all_names(store: Store) -> tuple[Line, ...]:
    """Return the lines of all kept lists, the newest first, followed by the demo's."""
    return _load_lines("list", store) + tuple(load_names(code, store=store).line for code in DEMO)


def find_names_code(digest: str, *, store: Store) -> str:
    """Return the code of the kept list with this content (`Candidates.digest`); "" for none."""
    if store.keys(f"list-line/{salted_digest(digest)}"):
        return salted_digest(digest)[:12]
    demo = (code for code in DEMO if load_names(code, store=store).candidates.digest() == digest)
    return next(demo, "")


def keep_passages(data: bytes, *, file_name: str, label: str, store: Store) -> str:
    """Keep a file of passages as it is, but unpacked, and return its salted digest.

    The file itself is kept, so that a download gives the same question again, down to the number of
    rows that are left out.
    """
    data, file_name = normalize_passages(data, file_name=file_name)
    passages = read_passages(data, file_name=file_name)
    kind = file_name.rpartition(".")[2]
    digest = salted_digest(hashlib.sha256(data).hexdigest())
    arrays = {"data": np.frombuffer(data, dtype=np.uint8)}
    store.put(f"passages/{digest}", arrays=arrays, meta={"kind": kind})
    _keep_line("passages", digest, label=label, n=len(passages), store=store)
    return digest


def load_passages(code: str, *, store: Store) -> KeptPassages:
    """Return the passages of a code; raises the errors of `load_names`."""
    if code in DEMO:
        data, name = _read_demo_file(code, "passages.jsonl"), "passages.jsonl"
        passages = read_passages(data, subject="demo passages", file_name=name)
        return KeptPassages(Line(code, "", "", len(passages)), passages, data, name)
    line, stored = _load_entry(code, "passages", store, store.get)
    data, name = stored.arrays["data"].tobytes(), f"passages.{stored.meta['kind']}"
    return KeptPassages(line, read_passages(data, file_name=name), data, name)


def find_passages_code(digest: str, *, store: Store) -> str:
    """Return the code of the newest passages with this content (`Passages.digest`); "" for none."""
    for line in list_passages(store):
        with suppress(AuditError):  # damaged passages cannot match
            if load_passages(line.code, store=store).passages.digest() == digest:
                return line.code
    return ""


def list_passages(store: Store) -> tuple[Line, ...]:
    """Return the lines of all kept passages, the newest first, followed by the demo's."""
    demo = tuple(load_passages(code, store=store).line for code in DEMO)
    return _load_lines("passages", store) + demo


def _read_demo_file(code: str, name: str) -> bytes:
    return (DEMO_HOSPITAL / DEMO[code] / name).read_bytes()


def _load_entry(
    code: str, kind: str, store: Store, read_content: Callable[[str], T | None]
) -> tuple[Line, T]:
    """Return the line and the content of the only digest that begins with a code."""
    keys = store.keys(f"{kind}/{code}") if _CODE.fullmatch(code) else ()
    line = _load_line(kind, keys[0].partition("/")[2], store) if len(keys) == 1 else None
    content = read_content(keys[0]) if line else None
    if line is None or content is None:
        raise AuditError(
            "This list of names is not kept here."
            if kind == "list"
            else "These passages are not kept here.",
            do="It was made on another installation, or has been removed. Choose another one.",
        )
    return line, content


def _load_line(kind: str, digest: str, store: Store) -> Line | None:
    """Return a kept line; None if there is none, or if it has another version."""
    record = store.get_record(f"{kind}-line/{digest}") or {}
    try:
        n, source = record[_COUNT_KEYS[kind]], record.get("source", "")
        return Line(digest[:12], record["label"], record["at"], n, source)
    except KeyError:
        return None


def _load_lines(kind: str, store: Store) -> tuple[Line, ...]:
    """Return the kept lines of a kind, the newest first."""
    lines = (_load_line(kind, key.partition("/")[2], store) for key in store.keys(f"{kind}-line/"))
    return tuple(sorted(filter(None, lines), key=attrgetter("at", "code"), reverse=True))


def _keep_line(
    kind: str, digest: str, *, label: str, n: int, store: Store, source: str = ""
) -> None:
    """Keep a line; without a new title it keeps its old one."""
    older_line = _load_line(kind, digest, store)
    title = one_line(label) or (older_line.label if older_line else "")
    record: dict[str, JSON] = {"label": title, "at": make_time_stamp(), _COUNT_KEYS[kind]: n}
    record |= {"source": source} if source else {}
    store.put_record(f"{kind}-line/{digest}", record)


READ, MATCH = "reading the list", "matching controls"


def make_draft(
    data: bytes | None,
    *,
    base: Candidates | None,
    n_by_kind: Mapping[str, int],
    model: Path | None,
    own_controls: bytes | None = None,
    progress: ProgressListener = lambda told: None,
) -> KeptNames | None:
    """Make a list from an uploaded file or from `base`; return None if there is neither.

    `own_controls` is a list of people of the hospital who are in no training note; they are added
    as controls. `n_by_kind` are the controls to draw, as in `with_controls`: they match the
    members' word pieces for `model`, or their Han and kana characters if it is None. `progress`
    receives the progress of reading and matching.
    """
    n_rows, n_matched = (
        (data or b"").count(b"\n"),
        n_by_kind.get("easy", 0) + n_by_kind.get("hard", 0),
    )
    plan = [Phase(READ, n_rows, 2e-5, READ), Phase(MATCH, n_matched, 2e-4, MATCH)]
    meter = Meter(plan, listener=progress)
    if data is not None:
        meter.add(READ, 0)
        names_file = read_names(data, on_rows=partial(meter.add, READ))
    elif base is not None:
        names_file = NamesFile(base, "", ())
    else:
        return None
    listed = candidates = names_file.candidates
    own_notes: tuple[RowNote, ...] = ()
    if own_controls is not None:
        people = read_names(own_controls, subject="own controls")
        candidates, own_notes = with_own_controls(listed, people.candidates), people.notes
    count_pieces = _count_pieces_of(listed, model=model) if model and n_matched else characters
    meter.finish(READ)
    draft_candidates = with_controls(
        candidates,
        n_by_kind=n_by_kind,
        seed=0,
        count_pieces=count_pieces,
        on_drawn=partial(meter.add, MATCH),
    )
    meter.finish(MATCH)
    return KeptNames(
        draft_candidates,
        names_file.encoding,
        names_file.notes,
        Line("", "", "", len(draft_candidates), draft_candidates.source),
        n_given=len(listed),
        n_own=len(candidates) - len(listed),
        own_notes=own_notes,
    )


def _count_pieces_of(listed: Candidates, *, model: Path) -> CountPieces:
    """Return the counter of the word pieces of all names on the list and of the generators."""
    parts = [("first", ""), ("last", "")]
    parts += [part for row in range(len(listed)) for part in listed.parts(row)]
    for pool in pools_by_script().values():
        parts += product(["first"], pool.first)
        parts += product(["last"], pool.last)
    return make_piece_counter(parts, model=model)
