"""Steps and options that commands of several rooms share."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

from pydantic import Field

from audit.foreign import locate_errors, read_file_bytes
from audit.jobs import foreground
from audit.names.candidates import Candidates
from audit.names.files import NamesFile, read_names
from audit.names.letter_case import report_letter_case
from audit.notes.passages import Passages
from audit.progress import progress_line, say
from audit.task import MAX_SEED, Device, Task


def answer_task(task: Task) -> tuple[str, ...]:
    """Return the results of a task; progress and sentences go to stderr."""
    return foreground.answer_task(task, progress=progress_line(), say=say)


def end_beside_first() -> NoReturn:
    """End a process that worked beside the first one, which alone answers and reports.

    Python does not end itself here: threads of torch may still hold tensors that it shared with the
    other processes, and a thread that lets go of one while Python ends aborts the process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def read_bytes(path: Path, *, where: str) -> bytes:
    """Return the bytes of a file; `where` names it in errors."""
    with locate_errors(where):
        return read_file_bytes(path)


Seed = Annotated[int, Field(ge=0, le=MAX_SEED, description="seed of all random draws")]
WhereRun = Annotated[Device, "where models run"]


NamesList = Annotated[Path, "list of candidate names: CSV, .xlsx or JSONL"]


def read_name_list(path: Path, *, where: str = "--names") -> Candidates:
    """Return the names of a list, and say what was read and what looks odd."""
    listed = read_names(read_bytes(path, where=where), subject="names")
    say_read(listed, len(listed.candidates), content="names")
    for note in report_letter_case(listed.candidates):
        say(str(note))
    return listed.candidates


def say_read(listed: NamesFile | Passages, n: int, *, content: str) -> None:
    """Say how much was read of a list, and the first remarks about its rows."""
    say(f"{n} {content} read ({listed.encoding}).")
    for note in listed.notes[:20]:
        say(f"{content}, row {note.row}: {note.what}")


def say_patients(has_patients: bool) -> None:
    """Say so if notes do not name their patients."""
    if not has_patients:
        say(
            "No patient column was found: each note counts as that of a patient of its own. The "
            "column is called\npatient_id, subject_id, person_id, PAT_ID, mrn, 患者番号 ..., or "
            "--column patient_id=NAME where there is that option."
        )
