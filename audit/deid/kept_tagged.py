"""Tagged sets: notes that a tagger was asked to mark, each set in a private folder of its own.

A set lies in `tagged/<tagged_id>` of the data directory: `tagged.json` says what was asked, `input`
holds notes that were handed in (gone once they are tagged), `result` is what `tag_notes` wrote, and
`index.npy` says where each note stands. Torch-free.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from audit.deid.redact import FROM_TEXT, LANGUAGES, MODES, PLACEHOLDER, SURROGATE, VERSION
from audit.deid.surrogate_text import Surrogates
from audit.deid.tag_files import CENSUS, REDACTED, REFUSED, SPANS, Release
from audit.errors import AuditError
from audit.home import home_folder
from audit.kept_folders import coded_folders, forget_folder, is_code
from audit.private_files import private_folder, write_whole

ASKED, INPUT, RESULT, INDEX = "tagged.json", "input", "result", "index.npy"
SOURCES = ("pasted", "uploaded", "registered")
FORMAT = 1
MAX_TITLE_CHARS = 80
MAX_SEED = 2**31 - 1


@dataclass(frozen=True)
class ReleaseSettings:
    """How spans are replaced, as plain values.

    Parameters
    ----------
    mode
        One of `audit.deid.redact.MODES`.
    language
        Of placeholders: "ja", "en", or "text" for that of each note.
    seed
        Of surrogates.

    Raises
    ------
    ValueError
        If one of them is unknown.
    """

    mode: str = PLACEHOLDER
    language: str = FROM_TEXT
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the values, once."""
        if self.mode not in MODES or self.language not in LANGUAGES:
            raise ValueError("no such mode or language")
        if not 0 <= self.seed <= MAX_SEED:
            raise ValueError("no such seed")

    def release(self) -> Release:
        """Return what replaces the spans of a note."""
        if self.mode != SURROGATE:
            return Release(mode=self.mode, language=self.language)
        surrogates = Surrogates(self.seed)
        return Release(self.mode, surrogates, surrogates.digest, self.language)

    def decisive(self) -> dict[str, Any]:
        """Return what decides the released text: a seed only where there are surrogates."""
        seed = self.seed if self.mode == SURROGATE else None
        language = self.language if self.mode == PLACEHOLDER else None
        return {"mode": self.mode, "language": language, "seed": seed, "version": VERSION}


@dataclass(frozen=True)
class TaggedSet:
    """A set of notes that a tagger was asked to mark.

    Attributes
    ----------
    tagged_id
        12 hexadecimal digits, the same for the same question.
    title
        As given, untrusted; may be empty.
    source
        One of `SOURCES`.
    tagger_id, tagger_digest
        As in `audit.deid.known_taggers.KnownTagger`.
    how
        How spans are replaced.
    created
        ISO time stamp in UTC.
    path
        The folder.
    census
        What `tag_notes` counted; None while the set is not whole.
    """

    tagged_id: str
    title: str
    source: str
    tagger_id: str
    tagger_digest: str
    how: ReleaseSettings
    created: str
    path: Path
    census: Mapping[str, Any] | None

    def __post_init__(self) -> None:
        """Check code and source, once."""
        if not is_code(self.tagged_id) or self.source not in SOURCES:
            raise ValueError("no such set")

    @property
    def is_whole(self) -> bool:
        """Whether all notes are tagged and can be looked up."""
        return self.census is not None

    @property
    def n_notes(self) -> int:
        """Notes that were tagged; 0 while the set is not whole."""
        return int(self.census["n_notes"]) if self.census else 0

    @property
    def n_spans(self) -> dict[str, int]:
        """Spans by label, the five types first."""
        spans = self.census["spans"] if self.census else {}
        return {str(label): int(counted["n"]) for label, counted in spans.items()}

    @property
    def spans_path(self) -> Path:
        """The notes with their spans: what `deid score --pred` reads; private."""
        return self.path / RESULT / SPANS

    @property
    def redacted_path(self) -> Path:
        """The notes as they may be released."""
        return self.path / RESULT / REDACTED

    @property
    def refused_path(self) -> Path:
        """The rows that were no notes."""
        return self.path / RESULT / REFUSED


def tagged_dir() -> Path:
    """Return the directory of the sets, made with mode 700 if it is not there.

    Raises
    ------
    AuditError
        As `audit.home.data_home`.
    """
    return home_folder("tagged")


def set_folder(tagged_id: str) -> Path:
    """Return the folder of a set, be it there already or not; AuditError if it is no identifier."""
    if not is_code(tagged_id):
        raise _unknown()
    return tagged_dir() / tagged_id


def tagged_sets() -> tuple[TaggedSet, ...]:
    """Return the sets, the newest first, those that are not whole among them; no damaged ones."""
    found = []
    for folder in coded_folders(tagged_dir()):
        try:
            found.append(_set_at(folder))
        except AuditError:
            continue
    return tuple(sorted(found, key=lambda one: (one.created, one.tagged_id), reverse=True))


def tagged_set(tagged_id: str) -> TaggedSet:
    """Return a set.

    Raises
    ------
    AuditError
        If there is none of this identifier, or it is damaged.
    """
    folder = set_folder(tagged_id)
    if not folder.is_dir():
        raise _unknown()
    return _set_at(folder)


def begin_set(
    tagged_id: str,
    *,
    source: str,
    tagger_id: str,
    tagger_digest: str,
    how: ReleaseSettings,
    title: str = "",
    given: bytes | None = None,
) -> TaggedSet:
    """Make the folder of a set, with the notes that were handed in; one that is there stays.

    Raises
    ------
    AuditError
        If the folder cannot be written.
    """
    folder = set_folder(tagged_id)
    if (folder / ASKED).is_file():
        return _set_at(folder)
    private_folder(folder)
    if given is not None:
        write_whole(folder / INPUT, given)
    asked = {
        "format": FORMAT,
        "title": " ".join(title.split())[:MAX_TITLE_CHARS],
        "source": source,
        "tagger_id": tagger_id,
        "tagger_digest": tagger_digest,
        "how": asdict(how),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    write_whole(folder / ASKED, (json.dumps(asked, ensure_ascii=False, indent=1) + "\n").encode())
    return _set_at(folder)


def forget_set(tagged_id: str) -> None:
    """Remove a set with all of its files.

    Raises
    ------
    AuditError
        If there is none of this identifier, or it cannot be removed.
    """
    refused = AuditError("The tagged notes cannot be removed.", where="tagged notes")
    forget_folder(set_folder(tagged_id), unknown=_unknown(), refused=refused)


def _set_at(folder: Path) -> TaggedSet:
    try:
        asked = json.loads((folder / ASKED).read_bytes())
        if asked["format"] != FORMAT:
            raise ValueError
        census = None
        if (folder / INDEX).is_file():
            census = json.loads((folder / RESULT / CENSUS).read_bytes())
            int(census["n_notes"])
            {label: int(counted["n"]) for label, counted in census["spans"].items()}
        return TaggedSet(
            tagged_id=folder.name,
            title=str(asked["title"]),
            source=str(asked["source"]),
            tagger_id=str(asked["tagger_id"]),
            tagger_digest=str(asked["tagger_digest"]),
            how=ReleaseSettings(**asked["how"]),
            created=str(asked["created"]),
            path=folder,
            census=census,
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise AuditError("These tagged notes are damaged.", where="tagged notes") from None


def _unknown() -> AuditError:
    return AuditError("There are no such tagged notes here.", where="tagged notes")
