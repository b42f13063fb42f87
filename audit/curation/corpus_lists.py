"""Lists of a corpus for an audit: names and passages, checked against D_private before use.

Comes in: a corpus, which controls and roles are wanted. Goes out: candidates; and both kept where
pages and commands find lists.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from audit.corpora.build_summary import PRIVATE
from audit.curation.corpus_lines import text_lines
from audit.curation.examine_batch import count_names
from audit.curation.kept_corpora import CORPUS, KeptCorpus, kept_corpus
from audit.curation.list_files import (
    CANDIDATES,
    MEMBERS,
    PASSAGES,
    file_bytes,
    read_candidates,
)
from audit.curation.list_files import CONTROLS as CONTROLS
from audit.errors import AuditError
from audit.membership.candidates import Candidates
from audit.membership.corpus_names import NameIndex, Pair, pair_of
from audit.prepare.lists import MAX_LABEL_CHARS, MAX_NAMES, keep_names, keep_passages
from audit.randomness import generator
from cache.store import Store

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
    data = file_bytes(corpus.path / CANDIDATES)
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
    for lines in text_lines(corpus.path / PRIVATE, on_bytes=lambda n: None):
        found.update(wanted & count_names(index, lines).keys())
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
    return file_bytes(corpus.path / PASSAGES)


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
    return keep_lists(kept_corpus(corpus_id), controls=controls, roles=roles, store=store)


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


def drawn_record(folder: Path, candidates: bytes) -> dict[str, Any]:
    """Return what `corpus.json` says of its lists: with which D_private they were drawn."""
    return {
        "candidates_sha256": hashlib.sha256(candidates).hexdigest(),
        "private_bytes": (folder / PRIVATE).stat().st_size,
    }


def _is_as_drawn(corpus: KeptCorpus, candidates: bytes) -> bool:
    """Whether list and notes are those that were drawn together: no name needs a second look."""
    try:
        settings = json.loads((corpus.path / CORPUS).read_bytes())["settings"]
    except (OSError, ValueError, KeyError):
        return False
    known = {name: settings.get(name) for name in ("candidates_sha256", "private_bytes")}
    return known == drawn_record(corpus.path, candidates)


def _passages(path: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    for line in file_bytes(path).splitlines(keepends=True):
        yield json.loads(line), line
