"""Options that commands of de-identification share: taggers, policies, labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

from audit.cli.command_steps import read_bytes
from audit.cli.commands import (
    Options,
    make_absolute,
)
from audit.deid.find.tagger import TAGGER
from audit.deid.find.taggers import (
    TAGGER_SEPARATOR,
    list_taggers,
)
from audit.deid.sets.tagging import Uncopied as UncopiedChoice
from audit.foreign import decode_text
from audit.notes.spans import read_label_map

PolicyName = Annotated[
    str, "which marks are taken out: five-types (all), safe-harbor, or a JSON file of `deid policy`"
]


Beside = Annotated[
    tuple[str, ...],
    "another tagger that is asked too: what either finds is marked; repeatable, or with commas",
]


Uncopied = Annotated[
    UncopiedChoice,
    "of a tagger that writes copies: what it did not copy of a note the default tagger marks, "
    "or the note is left out of what is released",
]

OutputsFile = Annotated[
    Path | None, "instead of a tagger: JSONL of copies with tags, as doc_id, output"
]

HELD: Final = "held"
FREE: Final = "free"
Copying = Annotated[
    Literal["held", "free"],
    "of a generative tagger: every token goes on with the note or with a tag, or the model "
    "writes what it likes",
]


def join_tagger_ids(name: str, *, other_names: Sequence[str] = ()) -> str:
    """Return the joint identifier of taggers, given by their names or folders.

    `other_names` may hold several names with commas between them.
    """
    return TAGGER_SEPARATOR.join((find_tagger_id(name), *find_tagger_ids(other_names)))


def find_tagger_ids(names: Sequence[str]) -> list[str]:
    """Return the identifiers of taggers; a text may hold several names with commas between them."""
    return [find_tagger_id(name) for listed in names for name in listed.split(",") if name]


def find_tagger_id(name: str) -> str:
    """Return the identifier of a tagger that is given by its name, its folder, or joint names."""
    path = make_absolute(name)
    if is_tagger_id(name):
        return name
    if (path / TAGGER).is_file():
        return str(path)
    is_one = TAGGER_SEPARATOR not in name
    return (
        name if is_one else TAGGER_SEPARATOR.join(map(find_tagger_id, name.split(TAGGER_SEPARATOR)))
    )


def is_tagger_id(name: str) -> bool:
    """Whether a text is the identifier of a tagger that can be had here."""
    return any(name == tagger.tagger_id for tagger in list_taggers())


def read_labels(path: Path | None) -> Options:
    """Return the map of a file of labels as an option; none without a file."""
    if path is None:
        return {}
    text, _ = decode_text(read_bytes(path, where="--label-map"), subject="--label-map")
    return {"label_map": dict(read_label_map(text, subject="--label-map").labels)}
