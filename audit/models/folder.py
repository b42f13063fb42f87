"""One model directory as it lies on the disk: which of its files may be opened at all.

Nothing here reads a weight. Only top-level files are ever opened; subdirectories are not entered.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from audit.errors import AuditError
from audit.models.trained import trained_name

_MAX_ENTRIES = 10_000
_CODE_SUFFIXES = {".py", ".pyc", ".pyd", ".so", ".dll", ".dylib"}
_UNSAFE_WEIGHTS = {
    ".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".h5", ".msgpack", ".joblib", ".npy",
    ".npz", ".onnx", ".gguf", ".tflite", ".ot", ".pdparams", ".index", ".data-00000-of-00001",
}  # fmt: skip


@dataclass(frozen=True)
class ModelFolder:
    """A checked directory and the plain files in it.

    Attributes
    ----------
    path
        The directory, links resolved.
    name
        What the model is called in messages and results.
    files
        Names of the files that may be opened, sorted.
    unsafe
        Names of pickled and other foreign weight files; they are never opened.
    """

    path: Path
    name: str
    files: tuple[str, ...]
    unsafe: tuple[str, ...]

    def where(self, file: str = "") -> str:
        """Return the place for a message: the model's name and a file in it."""
        return f"{self.name}/{file}" if file else self.name

    def read(self, file: str, *, max_bytes: int) -> bytes:
        """Read one small file whole.

        Raises
        ------
        AuditError
            If it is missing, larger than allowed, or cannot be read.
        """
        if file not in self.files:
            raise AuditError(f"The file {file} is missing.", where=self.where())
        try:
            with (self.path / file).open("rb") as stream:
                data = stream.read(max_bytes + 1)
        except OSError as fault:
            raise unreadable(fault, where=self.where(file)) from None
        if len(data) > max_bytes:
            raise AuditError(
                f"The file is larger than {max_bytes // 1_000_000} MB.", where=self.where(file)
            )
        return data


def unreadable(fault: OSError, *, where: str) -> AuditError:
    """Return the error for a file that the system does not give out, without its path."""
    return AuditError(
        f"It cannot be read ({fault.strerror or type(fault).__name__}).",
        where=where,
        do="Check that it exists and that you may read it.",
    )


def open_folder(path: Path) -> ModelFolder:
    """Look at every entry of a model directory without opening any.

    Raises
    ------
    AuditError
        If it is no directory, holds program code, a link that leads out, or something that is
        neither a file nor a directory.
    """
    try:
        root = path.resolve(strict=True)
        if not root.is_dir():
            raise AuditError("This is not a directory.", where=path.name)
        entries = sorted(os.scandir(root), key=lambda entry: entry.name)
    except (OSError, ValueError, RuntimeError) as fault:
        reason = fault if isinstance(fault, OSError) else OSError(0, "not a valid path")
        raise unreadable(reason, where=path.name) from None
    name = display_name(root)
    if len(entries) > _MAX_ENTRIES:
        raise AuditError(f"The directory holds more than {_MAX_ENTRIES} entries.", where=name)
    try:
        files = [one.name for one in entries if _is_file(Path(one.path), root=root, name=name)]
    except OSError as fault:  # changed or closed since it was listed
        raise unreadable(fault, where=name) from None
    code = [file for file in files if Path(file).suffix.lower() in _CODE_SUFFIXES]
    if code:
        raise AuditError(
            "The directory holds program code; a model that needs code of its own is not loaded.",
            where=f"{name}/{_plain(code[0])}",
            do="Remove it if the model is a plain BERT, RoBERTa or DistilBERT.",
        )
    unsafe = tuple(f for f in files if Path(f).suffix.lower() in _UNSAFE_WEIGHTS)
    kept = tuple(f for f in files if f not in unsafe)
    return ModelFolder(path=root, name=name, files=kept, unsafe=unsafe)


def display_name(root: Path) -> str:
    """Return what a model's directory is called in messages and results."""
    # In a Hugging Face cache the directory's own name is a revision; the model's is two above.
    own = root.parent.parent.name if _is_snapshot(root) else trained_name(root) or root.name
    return _plain(own)


def _is_snapshot(root: Path) -> bool:
    return root.parent.name == "snapshots" and root.parent.parent.name.startswith("models--")


def _is_file(entry: Path, *, root: Path, name: str) -> bool:
    """Whether the entry is a file to be opened; directories are not, all else is refused."""
    where = f"{name}/{_plain(entry.name)}"
    mode = entry.lstat().st_mode
    if stat.S_ISLNK(mode):
        # Snapshots of a Hugging Face cache link into the blobs of the same model.
        home = root.parent.parent if _is_snapshot(root) else root
        try:
            target = entry.resolve(strict=True)
        except (OSError, RuntimeError):
            raise AuditError("This is a link that leads nowhere.", where=where) from None
        if not target.is_relative_to(home):
            raise AuditError(
                "This is a link that leads out of the model's directory.",
                where=where,
                do="Replace the link by a copy of the file.",
            )
        mode = target.lstat().st_mode
    if stat.S_ISDIR(mode):
        return False
    if not stat.S_ISREG(mode):
        raise AuditError("This is neither a file nor a directory.", where=where)
    return True


def _plain(name: str) -> str:
    return "".join(ch if ch.isprintable() else "?" for ch in name)[:80]
