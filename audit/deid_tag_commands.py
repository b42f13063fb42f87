"""What `python -m audit deid tag` does, and the list of misses of `deid score`."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from audit.console import progress_line
from audit.console import say as _say
from audit.corpora.build_files import refuse_full
from audit.deid.annotated_files import annotated_notes, notes_to_tag
from audit.deid.documents import TaggedDocument, n_overlapping
from audit.deid.formats import FORMATS, flattened, write_files
from audit.deid.kept_taggers import TRAINED
from audit.deid.known_taggers import DEFAULT, RULES, load_tagger, load_tagger_folder
from audit.deid.misses import Miss, misses_csv, misses_jsonl, misses_of
from audit.deid.redact import FROM_TEXT, LANGUAGES, MODES, PLACEHOLDER, SURROGATE
from audit.deid.surrogate_text import Surrogates
from audit.deid.tag_files import REDACTED, SPANS, Release, tag_notes
from audit.deid.tagger import Tagger
from audit.deid.tagger_envelope import TAGGER
from audit.deid_generate_commands import tell_copies
from audit.errors import AuditError
from audit.private_files import whole_folder

Pair = tuple[TaggedDocument, TaggedDocument]


def add_tag(parts: Any) -> None:
    """Add `deid tag` to the command line."""
    tag = parts.add_parser("tag", help="find personal information in notes and take it out")
    tag.add_argument("--tagger", default=DEFAULT, help="rules, default, trained/ID, or the folder "
                     "of a tagger")  # fmt: skip
    tag.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    tag.add_argument("--notes", type=Path, required=True, help="CSV, JSONL, Parquet, i2b2 XML, "
                     "CoNLL, one .txt, or a folder of texts or annotated notes")  # fmt: skip
    tag.add_argument("--out", type=Path, required=True, help="a new folder")
    tag.add_argument("--mode", choices=MODES, default=PLACEHOLDER)
    tag.add_argument("--language", choices=LANGUAGES, default=FROM_TEXT, help="of the "
                     "placeholders: text for that of each note (default)")  # fmt: skip
    tag.add_argument("--seed", type=int, default=0, help="of the surrogates")
    tag.add_argument("--keep-outputs", action="store_true", help="of a model that writes copies: "
                     "keep them too (hold the text of notes)")  # fmt: skip
    tag.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    tag.set_defaults(command=tag_command)


def add_convert(parts: Any) -> None:
    """Add `deid convert` to the command line."""
    convert = parts.add_parser("convert", help="annotated notes from any form into any other")
    convert.add_argument("--notes", type=Path, required=True, help="JSONL, i2b2 XML, CoNLL, a text "
                         "with tags, or a folder of these or of brat")  # fmt: skip
    convert.add_argument("--out", type=Path, required=True, help="a new folder")
    convert.add_argument("--to", choices=FORMATS, required=True)
    convert.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    convert.set_defaults(command=convert_command)


def add_misses(score: Any) -> None:
    """Add the list of misses to `deid score`."""
    score.add_argument("--misses", type=Path, help="write every miss: FILE.csv or FILE.jsonl "
                       "(holds text of notes)")  # fmt: skip


def tag_command(options: Namespace) -> dict[str, Any]:
    """Tag a file of notes."""
    started = time.monotonic()
    surrogates = Surrogates(options.seed) if options.mode == SURROGATE else None
    release = Release(
        mode=options.mode,
        surrogate=surrogates,
        surrogate_digest=surrogates.digest if surrogates else "",
        language=options.language,
    )
    census = tag_notes(
        notes_to_tag(options.notes),
        tagger=_tagger(options),
        out=options.out,
        release=release,
        keep_outputs=options.keep_outputs,
        progress=progress_line(),
    )
    seconds = time.monotonic() - started
    n_spans = sum(entry["n"] for entry in census["spans"].values())
    _say(f"{n_spans} spans in {census['n_notes']} notes, in {seconds:.1f} s.")
    if census["n_refused"]:
        _say(f"{census['n_refused']} rows are no notes and were left out.")
    if census["n_notes_of_no_language"]:
        n_foreign = census["n_notes_of_no_language"]
        _say(f"{n_foreign} notes are neither in Japanese nor in English: the taggers that are ")
        _say("shipped know no other language and miss most of what stands in such notes.")
    if census["n_replaced_by_itself"]:
        _say(f"{census['n_replaced_by_itself']} replacements are equal to what they replace.")
    if "copies" in census:
        tell_copies(census["copies"])
    _say(f"{SPANS} holds the notes as they were; {REDACTED} holds what a tagger left of them, ")
    _say("with all that it missed: measure it with `deid score` before anything is given away.")
    return census


def convert_command(options: Namespace) -> dict[str, Any]:
    """Write annotated notes in another form."""
    refuse_full(options.out, where="--out")
    notes, n_flattened, n_patients, n_files = [], 0, 0, 0
    for note in annotated_notes(options.notes).documents(is_strict=True):
        assert isinstance(note, TaggedDocument)
        is_flat = options.to in ("conll", "inline") and n_overlapping(note.spans) > 0
        n_flattened += is_flat
        n_patients += note.patient_id is not None
        notes.append(flattened(note) if is_flat else note)
    if not notes:
        raise AuditError("There is no note in it.", where="notes")
    with whole_folder(options.out) as folder:
        for name, content in write_files(notes, form=options.to).items():
            (folder / name).write_bytes(content)
            n_files += 1
    _say(f"{len(notes)} notes in {n_files} files.")
    if n_flattened:
        _say(f"{n_flattened} notes had spans that overlap: the longest stay whole.")
    if n_patients and options.to in ("brat", "i2b2", "inline"):
        _say(f"{n_patients} notes belong to a patient, which this form does not say.")
    return {"n_notes": len(notes), "n_files": n_files, "n_flattened": n_flattened}


def _tagger(options: Namespace) -> Tagger:
    """Return the tagger that is meant: an identifier comes before a folder of that name."""
    name: str = options.tagger
    if name in (RULES, DEFAULT) or name.startswith(TRAINED):
        return load_tagger(name, device=options.device)
    if not (Path(name) / TAGGER).is_file():
        raise AuditError(
            "There is no such tagger.",
            where="--tagger",
            do="Give rules, default, trained/ID, or a folder with tagger.json.",
        )
    return load_tagger_folder(Path(name), device=options.device)


@contextmanager
def listing_misses(path: Path | None, pairs: Iterable[Pair]) -> Iterator[Iterable[Pair]]:
    """Pass notes on and write what differs in them; the file appears when the block ends well.

    Raises
    ------
    AuditError
        If the name ends in neither .csv nor .jsonl, or the file cannot be written.
    """
    if path is None:
        yield pairs
        return
    if path.suffix.lower() not in (".csv", ".jsonl"):
        raise AuditError("The name of the file ends in .csv or .jsonl.", where="--misses")
    partial = path.with_name(f".{path.name}.part")
    try:
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        # Half a surrogate pair, which is no UTF-8, becomes a question mark.
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace", newline="") as file:
            is_table = path.suffix.lower() == ".csv"
            if is_table:
                file.write(misses_csv(()))
            yield _passed_on(pairs, file, is_table=is_table)
        partial.replace(path)
    except OSError as error:
        raise AuditError(f"Cannot be written ({error.strerror}).", where="--misses") from None
    finally:
        partial.unlink(missing_ok=True)


def _passed_on(pairs: Iterable[Pair], file: Any, *, is_table: bool) -> Iterator[Pair]:
    for gold, predicted in pairs:
        misses: tuple[Miss, ...] = misses_of(gold, predicted=predicted)
        if misses and is_table:
            file.write(misses_csv(misses).partition("\n")[2])
        elif misses:
            file.writelines(misses_jsonl(misses))
        yield gold, predicted
