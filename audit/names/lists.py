"""Lists of names and files of passages: put together, and kept."""

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
from typing import Any, Literal

import numpy as np

from audit.errors import AuditError
from audit.home import DEMO_HOSPITAL, salted_digest
from audit.names.candidates import Candidates, ControlSource
from audit.names.controls import characters, with_controls, with_own_controls
from audit.names.facts import NameFacts, counted_pieces, name_facts
from audit.names.files import NamesFile, read_names
from audit.names.pools import pools_by_script
from audit.names.spelling import CountPieces
from audit.notes.passages import Passages, normalize_passages, read_passages
from audit.progress import Meter, Phase, ProgressListener
from audit.shelf import now, one_line
from audit.tables import RowNote
from cache.store import Store

MAX_NAMES = 50_000
DEMO = {"demo-en": "en", "demo-ja": "ja"}
"""Codes of the demo's lists and passages -> language of the demo hospital."""

_CODE = re.compile("[0-9a-f]{12,64}")
_COUNTED = {"list": "n_names", "passages": "n_passages"}


@dataclass(frozen=True)
class Line:
    """What a choice of lists, or of files of passages, shows of one: never a name.

    `code` is what a link carries: the first 12 digits of the digest, or "demo-en", "demo-ja".
    `label` is the title that was given and `at` when it was kept, ISO 8601; all are "" for none.
    `n` names, or passages with a place for one. `source` is where a list says that its controls
    come from.
    """

    code: str
    label: str
    at: str
    n: int
    source: ControlSource | Literal[""] = ""


@dataclass(frozen=True, eq=False)
class KeptNames(NamesFile):
    """A list of names, kept or being made; `encoding` is "" where it is of no file.

    `n_given` names are of the file or list that it was made from and `n_own` of a file of own
    controls, the others were drawn. `own_notes` are what looks odd in that file, by row number.
    """

    line: Line
    n_given: int
    n_own: int = 0
    own_notes: tuple[RowNote, ...] = ()

    @cached_property
    def digest(self) -> str:
        """What stands for the list's content, as `Candidates.digest`."""
        return self.candidates.digest()

    @cached_property
    def facts(self) -> NameFacts:
        """Counts of the list."""
        return name_facts(self.candidates)


@dataclass(frozen=True, eq=False)
class KeptPassages:
    """A kept file of passages: as it is read, and its own bytes under a name of the right kind."""

    line: Line
    passages: Passages
    data: bytes
    file_name: str


def keep_names(candidates: Candidates, *, label: str, store: Store) -> str:
    """Keep a list of names and return its salted digest, 64 hexadecimal digits.

    A list that is kept again without a title keeps the one it has.
    """
    if not 0 < len(candidates) <= MAX_NAMES:
        raise AuditError("A list has 1 to {max_names:,} names.", where="names", max_names=MAX_NAMES)
    digest = salted_digest(candidates.digest())
    store.put_record(f"list/{digest}", {"columns": vars(candidates)})
    _keep_line(
        "list", digest, label=label, n=len(candidates), store=store, source=candidates.source
    )
    return digest


def kept_names(code: str, *, store: Store) -> KeptNames:
    """Return the list that a link names, by its digest, 12 digits of it, or the demo's code."""
    if code in DEMO:
        demo_names = read_names(_demo_file(code, "names.csv"), what="demo names").candidates
        found = demo_names.with_source("invented")
        line = Line(code, "", "", len(found), found.source)
    else:
        line, record = _kept(code, "list", store, store.get_record)
        found = Candidates(**{name: tuple(of) for name, of in record["columns"].items()})
    return KeptNames(found, "", (), line, len(found))


def all_names(store: Store) -> tuple[Line, ...]:
    """Return the lines of all kept lists, the newest first, then the demo's."""
    return _lines("list", store) + tuple(kept_names(code, store=store).line for code in DEMO)


def code_of_names(digest: str, *, store: Store) -> str:
    """Return the code of the kept list with this content (`Candidates.digest`); "" for none."""
    if store.keys(f"list-line/{salted_digest(digest)}"):
        return salted_digest(digest)[:12]
    demo = (code for code in DEMO if kept_names(code, store=store).candidates.digest() == digest)
    return next(demo, "")


def keep_passages(data: bytes, *, file_name: str, label: str, store: Store) -> str:
    """Keep a file of passages as it is, but unpacked, and return its salted digest.

    The file itself is kept, so that the one that is handed out again gives the same question, down
    to the number of rows left out.
    """
    data, file_name = normalize_passages(data, file_name=file_name)
    passages = read_passages(data, file_name=file_name)
    kind = file_name.rpartition(".")[2]
    digest = salted_digest(hashlib.sha256(data).hexdigest())
    arrays = {"data": np.frombuffer(data, dtype=np.uint8)}
    store.put(f"passages/{digest}", arrays=arrays, meta={"kind": kind})
    _keep_line("passages", digest, label=label, n=len(passages), store=store)
    return digest


def kept_passages(code: str, *, store: Store) -> KeptPassages:
    """Return the passages that a link names; raises as `kept_names`."""
    if code in DEMO:
        data, name = _demo_file(code, "passages.jsonl"), "passages.jsonl"
        passages = read_passages(data, subject="demo passages", file_name=name)
        return KeptPassages(Line(code, "", "", len(passages)), passages, data, name)
    line, stored = _kept(code, "passages", store, store.get)
    data, name = stored.arrays["data"].tobytes(), f"passages.{stored.meta['kind']}"
    return KeptPassages(line, read_passages(data, file_name=name), data, name)


def code_of_passages(digest: str, *, store: Store) -> str:
    """Return the code of the newest passages with this content (`Passages.digest`); "" for none."""
    for line in all_passages(store):
        with suppress(AuditError):  # damaged ones are not what is looked for
            if kept_passages(line.code, store=store).passages.digest() == digest:
                return line.code
    return ""


def all_passages(store: Store) -> tuple[Line, ...]:
    """Return the lines of all kept passages, the newest first, then the demo's."""
    demo = tuple(kept_passages(code, store=store).line for code in DEMO)
    return _lines("passages", store) + demo


def _demo_file(code: str, name: str) -> bytes:
    return (DEMO_HOSPITAL / DEMO[code] / name).read_bytes()


def _kept(code: str, what: str, store: Store, get: Callable[[str], Any]) -> tuple[Line, Any]:
    """Return the line of what a code's digest begins, and what `get` has of it."""
    keys = store.keys(f"{what}/{code}") if _CODE.fullmatch(code) else ()
    line = _line(what, keys[0].partition("/")[2], store) if len(keys) == 1 else None
    found = get(keys[0]) if line else None
    if line is None or found is None:
        raise AuditError(
            "This list of names is not kept here."
            if what == "list"
            else "These passages are not kept here.",
            do="It was made on another installation, or has been removed. Choose another one.",
        )
    return line, found


def _line(what: str, digest: str, store: Store) -> Line | None:
    """Return a kept line; None where there is none, or one of another version."""
    record = store.get_record(f"{what}-line/{digest}") or {}
    try:
        n, source = record[_COUNTED[what]], record.get("source", "")
        return Line(digest[:12], record["label"], record["at"], n, source)
    except KeyError:
        return None


def _lines(what: str, store: Store) -> tuple[Line, ...]:
    """Return the lines of what is kept, the newest first."""
    lines = (_line(what, key.partition("/")[2], store) for key in store.keys(f"{what}-line/"))
    return tuple(sorted(filter(None, lines), key=attrgetter("at", "code"), reverse=True))


def _keep_line(
    what: str, digest: str, *, label: str, n: int, store: Store, source: str = ""
) -> None:
    """Keep a line, with the title that it had where it has none now."""
    before = _line(what, digest, store)
    title = one_line(label) or (before.label if before else "")
    record: dict[str, Any] = {"label": title, "at": now(), _COUNTED[what]: n}
    record |= {"source": source} if source else {}
    store.put_record(f"{what}-line/{digest}", record)


READ, MATCH = "reading the list", "matching controls"


def make_draft(
    data: bytes | None,
    *,
    base: Candidates | None,
    wanted: Mapping[str, int],
    model: Path | None,
    own: bytes | None = None,
    progress: ProgressListener = lambda told: None,
) -> KeptNames | None:
    """Put a list together from an uploaded file or from `base`; None where none was given.

    `own` is a list of people of the hospital who are in no training note, to be added as
    controls. `wanted` are controls to be drawn, as in `with_controls`: with as many word pieces as
    the members have for `model`; None: characters of Han and kana. `progress` is told of what is
    read and of what is matched.
    """
    n_rows, n_matched = (data or b"").count(b"\n"), wanted.get("easy", 0) + wanted.get("hard", 0)
    plan = [Phase(READ, n_rows, 2e-5, READ), Phase(MATCH, n_matched, 2e-4, MATCH)]
    meter = Meter(plan, listener=progress)
    if data is not None:
        meter.add(READ, 0)
        found = read_names(data, on_rows=partial(meter.add, READ))
    elif base is not None:
        found = NamesFile(base, "", ())
    else:
        return None
    given = candidates = found.candidates
    own_notes: tuple[RowNote, ...] = ()
    if own is not None:
        people = read_names(own, what="own controls")
        candidates, own_notes = with_own_controls(given, people.candidates), people.notes
    count_pieces: CountPieces = characters
    if model and n_matched:
        parts = [("first", ""), ("last", "")]
        parts += [part for row in range(len(given)) for part in given.parts(row)]
        for pool in pools_by_script().values():
            parts += product(["first"], pool.first)
            parts += product(["last"], pool.last)
        count_pieces = counted_pieces(parts, model=model)
    meter.finish(READ)
    drawn = with_controls(
        candidates,
        wanted=wanted,
        seed=0,
        count_pieces=count_pieces,
        on_drawn=partial(meter.add, MATCH),
    )
    meter.finish(MATCH)
    return KeptNames(
        drawn,
        found.encoding,
        found.notes,
        Line("", "", "", len(drawn), drawn.source),
        n_given=len(given),
        n_own=len(candidates) - len(given),
        own_notes=own_notes,
    )
