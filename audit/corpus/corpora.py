"""Kept corpora: their descriptions and their folders."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from audit.corpus.truth import (
    CANDIDATES,
    CORPUS,
    EXAMINATION,
    HELD_OUT,
    HELD_OUT_TRUTH,
    PASSAGES,
    PEOPLE,
    PRIVATE,
    PUBLIC,
    REFUSED,
    TRUTH,
)
from audit.errors import Message
from audit.shelf import JSON, Shelf, is_code, json_page, make_time_stamp, one_line
from audit.tables import RowNote

KINDS = ("dummy", "register")
"""Dummy identities in the places of placeholders; or unchanged notes, with a register."""
_FORMAT = 1
_WORDS, _NUMBERS = ("title", "kind", "source", "created"), ("seed", "n_notes", "n_patients")
_NEEDED = (PRIVATE, PUBLIC, TRUTH, PEOPLE, EXAMINATION, CANDIDATES, PASSAGES)


@dataclass(frozen=True)
class KeptCorpus:
    """A corpus that was built.

    `corpus_id` is 12 random hexadecimal digits, "" for a corpus outside the data directory; `kind`
    is one of `KINDS`; `source` is the name of the file of notes, without its folders; `created` is
    an ISO time stamp in UTC; `n_held_out` people were held out and are not among `n_patients`.
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
    n_held_out: int = 0


def _read_corpus(folder: Path) -> KeptCorpus:
    content = json.loads((folder / CORPUS).read_bytes())
    n_held_out = int(content.get("n_held_out", 0))
    needed = (*_NEEDED, HELD_OUT, HELD_OUT_TRUTH) if n_held_out else _NEEDED
    is_whole = all((folder / name).is_file() for name in needed)
    if content["format"] != _FORMAT or content["kind"] not in KINDS or not is_whole:
        raise ValueError
    is_kept = folder.parent == CORPORA.home() and is_code(folder.name)
    fields: dict[str, Any] = {name: str(content[name]) for name in _WORDS}
    fields |= {name: int(content[name]) for name in _NUMBERS}
    corpus_id = folder.name if is_kept else ""
    return KeptCorpus(corpus_id=corpus_id, path=folder, n_held_out=n_held_out, **fields)


CORPORA = Shelf("corpora", label="corpus", read=_read_corpus)


def find_corpus(text: str) -> KeptCorpus:
    """Return the corpus that a person gave on the command line, by id or by folder."""
    if is_code(text) and not Path(text).exists():
        return CORPORA.get(text)
    return CORPORA.read_folder(Path(text).expanduser().absolute())


def describe_corpus(
    *,
    title: str,
    kind: str,
    source: str,
    seed: int,
    n_notes: int,
    n_patients: int,
    n_held_out: int = 0,
    **settings: JSON,
) -> bytes:
    """Return the content of `corpus.json`; `settings` are further settings as JSON values."""
    return json_page(
        {
            "format": _FORMAT,
            "title": one_line(title),
            "kind": kind,
            "source": source,
            "seed": seed,
            "created": make_time_stamp(),
            "n_notes": n_notes,
            "n_patients": n_patients,
            **({"n_held_out": n_held_out} if n_held_out else {}),
            "settings": settings,
        }
    )


def corpus_line(corpus: KeptCorpus) -> dict[str, JSON]:
    """Return a corpus as JSON values, without its path; None patients if the notes name none."""
    line = {name: value for name, value in asdict(corpus).items() if name != "path"}
    return line | {"n_patients": corpus.n_patients or None}


def refused_rows(folder: Path, *, limit: int) -> tuple[RowNote, ...]:
    """Return the first rows of the source that became no notes, with the reasons.

    They end at a line that cannot be read; without a file there are none.
    """
    refused_notes = []
    try:
        with (folder / REFUSED).open(encoding="utf-8") as lines:
            for line in islice(lines, limit):
                row = json.loads(line)
                refused_notes.append(RowNote(int(row["row"]), Message.read(row["what"])))
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return tuple(refused_notes)
