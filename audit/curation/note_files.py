"""Files of notes that this installation may read: those under the registered folders.

Pages pick a file from this list by its identifier, which is compared and never made into a path; a
path typed by a person is accepted on the command line only. Torch-free.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from audit.corpora.example_notes import example_csv
from audit.corpora.notes import open_notes
from audit.curation.note_columns import columns_taken, headings_of
from audit.errors import AuditError
from audit.home import data_home, results_dir
from audit.report import write_private_files

VARIABLE = "KART_AUDIT_NOTES"
"""Environment variable that names the registered folders, separated as in PATH."""
EXAMPLE = "example/notes.csv"
"""Invented notes that are always there, to try the program with."""

_SUFFIXES = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".jsonl.gz": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
_MAX_DEPTH = 4
_MAX_ENTRIES = 20_000
_MAX_FILES = 2_000


@dataclass(frozen=True)
class NoteFile:
    """A file, or a folder of texts, in the list.

    Attributes
    ----------
    file_id
        The folder's label and the path under it, with "/".
    kind
        "csv", "jsonl", "parquet" or "folder", by its name alone.
    n_bytes
        Of a file; of the texts right inside a folder.
    path
        Where it lies, links resolved.
    """

    file_id: str
    kind: str
    n_bytes: int
    path: Path


@dataclass(frozen=True)
class NoteColumns:
    """What a file's columns are.

    Attributes
    ----------
    kind
        As it is read: "csv", "jsonl", "parquet" or "folder".
    headings
        All of them, in order; empty for a folder.
    taken
        Field of a note -> headings that are taken for it, the first that is filled wins.
    """

    kind: str
    headings: tuple[str, ...]
    taken: Mapping[str, tuple[str, ...]]

    @property
    def has_text(self) -> bool:
        """Whether it is clear where the notes stand."""
        return self.kind == "folder" or bool(self.taken.get("text"))


def registered_note_folders() -> tuple[tuple[str, Path], ...]:
    """Return (label, path) of the registered folders that exist, as the variable orders them."""
    folders: list[tuple[str, Path]] = []
    used = {EXAMPLE.partition("/")[0]}
    for text in os.environ.get(VARIABLE, "").split(os.pathsep):
        if not text.strip():
            continue
        path = Path(os.path.realpath(Path(text.strip()).expanduser()))
        if not path.is_dir() or any(path == known for _, known in folders):
            continue
        base = path.name or "notes"
        numbers = range(2, len(folders) + 4)
        label = next(n for n in (base, *(f"{base}-{i}" for i in numbers)) if n not in used)
        used.add(label)
        folders.append((label, path))
    return tuple(folders)


def list_note_files() -> tuple[NoteFile, ...]:
    """Return every file of notes under the registered folders, then the example."""
    return (*_found(), _example())


def resolve_note_file(file_id: str) -> Path:
    """Return the path of a file in the list.

    Raises
    ------
    AuditError
        If no file of the list has this identifier.
    """
    if file_id == EXAMPLE:
        return _example().path
    found = next((file.path for file in _found() if file.file_id == file_id), None)
    if found is None:
        raise AuditError(
            "No registered file has this identifier.",
            where="notes",
            do=f"Choose one from the list; notes lie under the folders named in {VARIABLE}.",
        )
    return found


def columns_of(path: Path) -> NoteColumns:
    """Return a file's headings and which of them are taken for what.

    Raises
    ------
    AuditError
        If the file cannot be read.
    """
    if path.is_dir():
        return NoteColumns(open_notes(path).kind, (), {})
    kind, headings = headings_of(path)
    return NoteColumns(kind, headings, columns_taken(path, headings=headings))


def _example() -> NoteFile:
    results_dir()  # marks the data directory as ours before anything else is in it
    path = data_home() / EXAMPLE
    if not path.is_file():
        write_private_files({path.name: example_csv()}, path.parent)
    return NoteFile(EXAMPLE, "csv", path.stat().st_size, path)


def _found() -> Iterator[NoteFile]:
    """Yield what can be read, in order of name; links are not followed."""
    for label, top in registered_note_folders():
        n_seen = n_files = 0
        waiting = [top]
        while waiting and n_seen < _MAX_ENTRIES and n_files < _MAX_FILES:
            folder = waiting.pop()
            # A folder can be exchanged for a link meanwhile.
            if not Path(os.path.realpath(folder)).is_relative_to(top):
                continue
            entries = _entries(folder)
            n_seen += len(entries)
            parts = (label, *folder.relative_to(top).parts)
            files, folders = _sorted_out(entries)
            n_texts = sum(entry.name.lower().endswith(".txt") for entry in files)
            is_texts = bool(n_texts) or _holds_patients(folders, files)
            if is_texts:
                size = sum(_size(e) for e in files if e.name.lower().endswith(".txt"))
                yield NoteFile("/".join(parts), "folder", size, folder)
                n_files += 1
            for entry in files:
                if kind := _kind_of(entry.name):
                    file_id = "/".join((*parts, entry.name))
                    yield NoteFile(file_id, kind, _size(entry), Path(entry.path))
                    n_files += 1
            if not is_texts and len(parts) <= _MAX_DEPTH:
                waiting += [Path(entry.path) for entry in reversed(folders)]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        found = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []
    return [entry for entry in found[:_MAX_ENTRIES] if not entry.name.startswith(".")]


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:  # gone meanwhile
        return 0


def _sorted_out(
    entries: list[os.DirEntry[str]],
) -> tuple[list[os.DirEntry[str]], list[os.DirEntry[str]]]:
    files = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
    folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
    return files, folders


def _holds_patients(folders: list[os.DirEntry[str]], files: list[os.DirEntry[str]]) -> bool:
    """Whether the folders are patients: each of the first ones holds texts and nothing else."""
    if not folders or any(_kind_of(entry.name) for entry in files):
        return False
    for folder in folders[:20]:
        inside, deeper = _sorted_out(_entries(Path(folder.path)))
        if deeper or not inside or not all(e.name.lower().endswith(".txt") for e in inside):
            return False
    return True


def _kind_of(name: str) -> str:
    lower = name.lower()
    return next((kind for suffix, kind in _SUFFIXES.items() if lower.endswith(suffix)), "")
