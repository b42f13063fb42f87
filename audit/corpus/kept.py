"""Kept corpora, and the lists of names and passages that an audit takes from one.

Comes in: a corpus's folder. Goes out: what is said of it, candidates that are checked against
D_private, passages of D_public. Torch-free.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from audit.corpus.candidate_lists import read_candidates
from audit.corpus.truth import (
    CANDIDATES,
    CORPUS,
    EXAMINATION,
    PASSAGES,
    PEOPLE,
    PRIVATE,
    PUBLIC,
    TRUTH,
    json_page,
    unreadable,
)
from audit.errors import AuditError
from audit.names.candidates import Candidates
from audit.names.lists import MAX_NAMES, keep_names, keep_passages
from audit.names.matching import pair_of
from audit.rng import generator
from audit.shelf import MAX_TITLE_CHARS, Shelf, is_code, now, one_line
from cache.store import Store

KINDS = ("dummy", "register")
"""Dummy identities in the place of placeholders; or the notes as they are, with a register."""
_FORMAT = 1
_WORDS, _NUMBERS = ("title", "kind", "source", "created"), ("seed", "n_notes", "n_patients")
_NEEDED = (PRIVATE, PUBLIC, TRUTH, PEOPLE, CORPUS)


@dataclass(frozen=True)
class KeptCorpus:
    """A corpus that was built.

    `corpus_id` is 12 random hexadecimal digits, "" for one in a folder of somebody's own; `kind`
    one of `KINDS`; `source` the name of the file of notes, without the folders it lies in;
    `created` an ISO time stamp in UTC; `is_examined`: its names were counted, its lists made.
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
    if content["format"] != _FORMAT or content["kind"] not in KINDS or not is_whole:
        raise ValueError
    is_kept = folder.parent == CORPORA.home() and is_code(folder.name)
    told: dict[str, Any] = {name: str(content[name]) for name in _WORDS}
    told |= {name: int(content[name]) for name in _NUMBERS}
    return KeptCorpus(
        corpus_id=folder.name if is_kept else "",
        path=folder,
        is_examined=(folder / EXAMINATION).is_file(),
        **told,
    )


CORPORA = Shelf("corpora", where="corpus", read=_read_corpus)


def find_corpus(text: str) -> KeptCorpus:
    """Return the corpus that a person named on the command line, by id or by folder."""
    if is_code(text) and not Path(text).exists():
        return CORPORA.get(text)
    return CORPORA.at(Path(text).expanduser().absolute())


def describe_corpus(
    *, title: str, kind: str, source: str, seed: int, n_notes: int, n_patients: int, **more: Any
) -> bytes:
    """Return what `corpus.json` holds; `more` is what else was asked for, in plain values."""
    return json_page(
        {
            "format": _FORMAT,
            "title": one_line(title),
            "kind": kind,
            "source": source,
            "seed": seed,
            "created": now(),
            "n_notes": n_notes,
            "n_patients": n_patients,
            "settings": more,
        }
    )


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

    `controls` are any of `CONTROLS`; `roles` any of `MEMBERS`: whose names are members. Twins come
    with the canaries.
    """
    candidates = read_candidates(_file_bytes(corpus, CANDIDATES), lists=(*roles, *controls))
    if not any(candidates.is_member):
        raise AuditError(
            "No patient is named in these notes in a way that was understood.",
            where="candidates",
            do="Look at the examination of the corpus: names that stand elsewhere are counted.",
        )
    return candidates


def passages_for(corpus: KeptCorpus, candidates: Candidates, *, seed: int = 0) -> bytes:
    """Return the passages of D_public that belong to members of a list, as JSONL."""
    columns = zip(candidates.first, candidates.last, candidates.is_member, strict=True)
    members = {pair_of(first, last) for first, last, is_member in columns if is_member}
    lines = []
    for line in _file_bytes(corpus, PASSAGES).splitlines(keepends=True):
        record = json.loads(line)
        if pair_of(record["first_name"], record["last_name"]) in members:
            lines.append(line)
    if len(lines) > MAX_PASSAGES:
        rows = generator(seed, "corpus/passages").permutation(len(lines))[:MAX_PASSAGES]
        lines = [lines[row] for row in sorted(rows.tolist())]
    return b"".join(lines)


def keep_lists(
    corpus: KeptCorpus,
    *,
    controls: tuple[str, ...] = ("easy", "hard"),
    roles: tuple[str, ...] = ROLES,
    store: Store,
) -> tuple[str, str]:
    """Put a corpus's list and passages where an audit finds them; return their codes."""
    candidates = list_of(corpus, controls=controls, roles=roles)
    if len(candidates) > MAX_NAMES:
        raise AuditError(
            "The list would have more than {max_names:,} names.",
            where="candidates",
            do="Choose fewer kinds of controls.",
            max_names=MAX_NAMES,
        )
    passages = passages_for(corpus, candidates, seed=corpus.seed)
    label = corpus.title or f"{corpus.source} {corpus.created[:10]}"
    kinds = f" ({', '.join(controls)})" if controls else ""
    label = label[: MAX_TITLE_CHARS - len(kinds)] + kinds
    names = keep_names(candidates, label=label, store=store)
    if not passages:
        return names[:12], ""
    kept = keep_passages(passages, file_name="passages.jsonl", label=label, store=store)
    return names[:12], kept[:12]


def _file_bytes(corpus: KeptCorpus, name: str) -> bytes:
    try:
        return (corpus.path / name).read_bytes()
    except OSError:
        raise unreadable() from None
