"""Open model directories of other people: plain files only, read within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from audit.errors import AuditError
from audit.foreign import MAX_VALUES, name_place, open_regular, parse_json_value
from audit.home import data_home

TRAINED_LABEL = "trained"
"""First part of a trained model's identifier; the second is its run's."""

CONVERTED_FOLDER = CONVERTED_LABEL = "converted"
"""Folder of the data directory, and first part of the identifier of a model converted here."""

MODEL_FOLDER = "model"
SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
ADAPTER_FILE = "adapter_config.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
FAST_FILE = "tokenizer.json"
LEGACY_FILES = ("added_tokens.json", "special_tokens_map.json")
PIECE_FILES = ("sentencepiece.bpe.model", "spiece.model", "spm.model", "tokenizer.model")
_TOKENIZER_FILES = ("vocab.txt", "vocab.json", "merges.txt", FAST_FILE, *PIECE_FILES)
MAX_TOKENIZER_BYTES = 48_000_000
"""Maximum for one file. A tokenizer.json with 261,000 tokens and 580,000 merges has 37,000,000."""
RUN_FILE = "training.json"
_MODEL_SIGNS = ("config.json", ADAPTER_FILE)
_MAX_RUN_BYTES = 1_000_000
_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar")
COPY_FILE = "Copy the file again from where the model was saved."
COPY_TOKENIZER = "Copy the tokenizer files again from where the model was saved."
SAME_FILE = "Check that this is the file that was saved with the model."
SAVE_ANEW = (
    "On a machine where the model's code may run, load the model with transformers and save it "
    "with save_pretrained, which writes safetensors."
)


def list_trained_models() -> Iterator[tuple[str, Path]]:
    """Yield identifier and directory of every model whose training has written one, by name."""
    with suppress(AuditError, OSError):  # code that needs the data directory reports the reason
        for run in sorted((data_home() / "models").iterdir()):
            directory = run / MODEL_FOLDER
            is_plain = not run.is_symlink() and not directory.is_symlink()
            if is_plain and any((directory / file).is_file() for file in _MODEL_SIGNS):
                yield f"{TRAINED_LABEL}/{run.name}", directory


def list_converted_models() -> Iterator[tuple[str, Path]]:
    """Yield identifier and directory of every model that was converted here, by identifier."""
    with suppress(AuditError, OSError):
        for conversion in sorted((data_home() / CONVERTED_FOLDER).iterdir()):
            if conversion.name.startswith(".") or conversion.is_symlink():
                continue
            for directory in conversion.iterdir():
                if not directory.is_symlink() and (directory / "config.json").is_file():
                    yield f"{CONVERTED_LABEL}/{conversion.name}", directory


def find_trained_name(directory: Path) -> str:
    """Return the name of a model that was trained here; "" for any other directory.

    The name is its title, or else the model it started from and the time, or else the name of its
    run's folder. A snapshot of the training has its directory's name added.
    """
    record = directory.parent / RUN_FILE
    is_copy = directory.name.startswith(f"{MODEL_FOLDER}-")
    if not (is_copy or directory.name == MODEL_FOLDER) or not record.is_file():
        return ""
    name = directory.parent.name
    with suppress(AuditError, OSError), open_regular(record) as file:
        run = parse_json(file.read(_MAX_RUN_BYTES), place=name)
        title, parent, created = (str(run.get(k) or "") for k in ("title", "parent", "created"))
        origin = f"{parent} {created[:16].replace('T', ' ')}" if parent and created else name
        name = " ".join(title.split()) or origin
    return f"{name} ({directory.name})" if is_copy else name


def refuse_more(n: int, *, than: int) -> None:
    """Refuse a file that holds more of something than is read."""
    if n > than:
        raise AuditError(
            "This holds more bytes, lines or entries than are read here (at most {most:,}).",
            do=SAME_FILE,
            most=than,
        )


@dataclass(frozen=True)
class ModelFolder:
    """A checked directory and the plain files in it.

    `path` has its links resolved; `name` is the model's name in messages and results. Only those of
    the `files` that the model needs are opened; of a pickle, no more than its first and last bytes,
    except by `pickled_weights.py`. `folders` are the names of the directories in it.
    """

    path: Path
    name: str
    files: tuple[str, ...]
    folders: tuple[str, ...] = ()

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of the files, and of the directories with a slash behind them."""
        return (*self.files, *(f"{folder}/" for folder in self.folders))

    def locate(self, file: str = "") -> str:
        """Return the place for a message: the model's name and a file in it."""
        return f"{self.name}/{make_printable(file)}" if file else self.name

    def require(self, file: str) -> None:
        """Refuse a directory that lacks a file."""
        if file not in self.files:
            raise AuditError(
                "The file {file} is missing.",
                where=self.name,
                do="Copy it from where the model was saved.",
                file=file,
            )

    def read(self, file: str, *, max_bytes: int) -> bytes:
        """Read one small file whole."""
        self.require(file)
        with name_place(self.locate(file)):
            try:
                with open_regular(self.path / file) as stream:
                    data = stream.read(max_bytes + 1)
            except OSError as fault:
                raise make_read_error(fault, place=self.locate(file)) from None
            refuse_stand_in(data)
            refuse_more(len(data), than=max_bytes)
        return data

    @property
    def has_tokenizer(self) -> bool:
        """Whether there are the files of a tokenizer, which an adapter may have too."""
        return any(file in self.files for file in _TOKENIZER_FILES)

    def read_tokenizer(self) -> dict[str, bytes]:
        """Return the content of each file of a tokenizer."""
        return {
            file: self.read(file, max_bytes=MAX_TOKENIZER_BYTES)
            for file in (TOKENIZER_CONFIG_FILE, *_TOKENIZER_FILES, *LEGACY_FILES)
            if file in self.files
        }

    def json(self, file: str, *, max_bytes: int) -> dict[str, JsonValue]:
        """Read one JSON object, as `parse_json` does."""
        return parse_json(self.read(file, max_bytes=max_bytes), place=self.locate(file))


def make_read_error(fault: Exception, *, place: str) -> AuditError:
    """Return the error for a file that the system refuses to read, without its path."""
    return AuditError(
        "It cannot be read ({reason}).",
        where=place,
        do="Check that it exists and that you may read it.",
        reason=getattr(fault, "strerror", None) or type(fault).__name__,
    )


def parse_json(
    data: bytes, *, place: str, max_values: int = MAX_VALUES, max_objects: int = MAX_VALUES
) -> dict[str, JsonValue]:
    """Parse a JSON object strictly, as `audit.foreign.parse_json_value` does."""
    refusal = AuditError("This is not a valid JSON object.", where=place, do=COPY_FILE)
    value = parse_json_value(data, refusal=refusal, max_values=max_values, max_objects=max_objects)
    if not isinstance(value, dict):
        raise refusal
    return value


def require_members(value: JsonValue) -> dict[str, JsonValue]:
    """Return a value that has named members, or is missing; refuse anything else."""
    if value and not isinstance(value, dict):
        raise AuditError("This is not a valid JSON object.", do=COPY_FILE)
    return value if isinstance(value, dict) else {}


def refuse_stand_in(start: bytes) -> None:
    """Refuse what a failed download leaves in place of a file, by its first bytes."""
    if start.startswith(b"version https://git-lfs"):
        raise AuditError(
            "This is a Git LFS pointer, not the file itself.",
            do="Run `git lfs pull` in the clone of the model, and copy the file again.",
        )
    if start[:100].lstrip().lower().startswith((b"<!doctype html", b"<html")):
        raise AuditError(
            "This is a web page, not the file itself.",
            do="Download the file itself, not the page that shows it. You may have to log in "
            "first.",
        )


def open_folder(path: Path) -> ModelFolder:
    """Check every entry of a model directory without opening any.

    The directory of a model in a hub's cache stands for its only snapshot.
    """
    try:
        root = find_snapshot(path.resolve(strict=True))
        name = find_display_name(root)
        with name_place(name):
            refuse_single_file(root)
            entries = {entry.name: _is_file(entry) for entry in sorted(root.iterdir())}
    except (OSError, ValueError, RuntimeError) as fault:
        raise make_read_error(fault, place=path.name) from None
    files, folders = (
        tuple(name for name, is_file in entries.items() if is_file is kind)
        for kind in (True, False)
    )
    return ModelFolder(root, name, files, folders)


def refuse_single_file(path: Path) -> None:
    """Refuse a path that leads to a file in place of a directory."""
    if path.suffix.lower() in _ARCHIVES and path.is_file():
        raise AuditError(
            "This is an archive, not a directory.",
            do="Unpack it, and choose the resulting directory.",
        )
    if path.is_file():
        raise AuditError(
            "This is a file, not a directory.",
            do="Choose the directory that holds the model's files.",
        )


def find_snapshot(root: Path) -> Path:
    """Return the only snapshot in a model's directory of a hub's cache, or else the directory."""
    if root.name.startswith("models--"):
        with suppress(OSError):
            snapshots = [entry for entry in (root / "snapshots").iterdir() if entry.is_dir()]
            if len(snapshots) == 1 and not snapshots[0].is_symlink():
                return snapshots[0]
    return root


def find_display_name(root: Path) -> str:
    """Return the name of a model's directory in messages and results."""
    # In a Hugging Face cache the directory's own name is a revision; the model's is two above.
    return make_printable(
        root.parent.parent.name if _is_snapshot(root) else find_trained_name(root) or root.name
    )


def _is_snapshot(root: Path) -> bool:
    return root.parent.name == "snapshots" and root.parent.parent.name.startswith("models--")


def _is_file(entry: Path) -> bool:
    """Whether an entry is a file, not a directory; anything else is refused."""
    root = entry.parent
    # Snapshots of a Hugging Face cache link into the blobs of the same model.
    home = root.parent.parent if _is_snapshot(root) else root
    is_own = not entry.is_symlink() or entry.resolve().is_relative_to(home)
    if not is_own or not (entry.is_file() or entry.is_dir()):
        raise AuditError(
            "{file} is a link that leads out of the model's directory or nowhere, or neither a "
            "file nor a directory.",
            do="Replace a link by a copy of the file.",
            file=make_printable(entry.name),
        )
    return entry.is_file()


def make_printable(name: str) -> str:
    """Return a foreign name, shortened and without characters that could mislead."""
    return "".join(ch if ch.isprintable() and ch != '"' else "?" for ch in name)[:80]
