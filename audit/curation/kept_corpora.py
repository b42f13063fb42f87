"""Kept corpora: those that were built on this machine, each in a folder of its own.

A corpus lies in `corpora/<corpus_id>` of the data directory, its files for their owner alone. What
`corpus.json` says of it holds no path and no word of a note. Torch-free.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from audit.corpora.build_summary import PEOPLE, PRIVATE, PUBLIC, SUMMARY, TRUTH
from audit.curation.examination import EXAMINATION
from audit.errors import AuditError
from audit.home import home_folder
from audit.kept_folders import coded_folders, forget_folder, is_code

CORPUS = "corpus.json"
KINDS = ("dummy", "register")
"""Dummy identities in the place of placeholders; or the notes as they are, with a register."""
FORMAT = 1
MAX_TITLE_CHARS = 80

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

    def __post_init__(self) -> None:
        """Check kind and code."""
        if self.kind not in KINDS:
            raise ValueError(f"unknown kind of corpus {self.kind!r}")
        if self.corpus_id and not is_code(self.corpus_id):
            raise ValueError("a corpus_id is 12 hexadecimal digits")


def corpora_dir() -> Path:
    """Return the directory of the kept corpora, made with mode 700 if it is not there.

    Raises
    ------
    AuditError
        As `audit.home.data_home`.
    """
    return home_folder("corpora")


def new_corpus_id() -> str:
    """Return an id that no corpus has."""
    return secrets.token_hex(6)


def corpus_dir(corpus_id: str) -> Path:
    """Return the folder of a kept corpus, be it there already or not."""
    if not is_code(corpus_id):
        raise _unknown()
    return corpora_dir() / corpus_id


def kept_corpora() -> tuple[KeptCorpus, ...]:
    """Return the kept corpora, the newest first; what is damaged is left out."""
    found = []
    for folder in coded_folders(corpora_dir()):
        try:
            found.append(corpus_at(folder))
        except AuditError:
            continue
    return tuple(sorted(found, key=lambda corpus: (corpus.created, corpus.corpus_id), reverse=True))


def kept_corpus(corpus_id: str) -> KeptCorpus:
    """Return a kept corpus.

    Raises
    ------
    AuditError
        If there is none of this id, or it is damaged.
    """
    folder = corpus_dir(corpus_id)
    if not folder.is_dir():
        raise _unknown()
    return corpus_at(folder)


def corpus_at(folder: Path) -> KeptCorpus:
    """Return the corpus in a folder, kept or anywhere else.

    Raises
    ------
    AuditError
        If the folder holds no whole corpus of this version.
    """
    try:
        content = json.loads((folder / CORPUS).read_bytes())
        if content["format"] != FORMAT or not all((folder / name).is_file() for name in _NEEDED):
            raise ValueError
        corpus_id = folder.name if is_code(folder.name) else ""
        return KeptCorpus(
            corpus_id=corpus_id if folder.parent == corpora_dir() else "",
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
    except (OSError, ValueError, TypeError, KeyError):
        raise AuditError(
            "This is no whole corpus.",
            where="corpus",
            do="Name a folder that `corpus build` has made.",
        ) from None


def find_corpus(text: str) -> KeptCorpus:
    """Return the corpus that a person named on the command line, by id or by folder.

    Raises
    ------
    AuditError
        If there is none.
    """
    if is_code(text) and not Path(text).exists():
        return kept_corpus(text)
    return corpus_at(Path(text).expanduser().absolute())


def forget_corpus(corpus_id: str) -> None:
    """Remove a kept corpus with all of its files; lists that were kept for audits stay.

    Raises
    ------
    AuditError
        If there is none of this id, or it cannot be removed.
    """
    refused = AuditError("The corpus cannot be removed.", where="corpus")
    forget_folder(corpus_dir(corpus_id), unknown=_unknown(), refused=refused)


def describe_corpus(
    *, title: str, kind: str, source: str, seed: int, n_notes: int, n_patients: int, **more: Any
) -> bytes:
    """Return what `corpus.json` holds; `more` is what else was asked for, in plain values."""
    content = {
        "format": FORMAT,
        "title": " ".join(title.split())[:MAX_TITLE_CHARS],
        "kind": kind,
        "source": source,
        "seed": seed,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "n_notes": n_notes,
        "n_patients": n_patients,
        "settings": more,
    }
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()


def corpus_line(corpus: KeptCorpus) -> dict[str, Any]:
    """Return a corpus as plain values, without its path."""
    return {name: value for name, value in asdict(corpus).items() if name != "path"}


def _unknown() -> AuditError:
    return AuditError(
        "There is no such corpus here.", where="corpus", do="`corpus list` names those that are."
    )
