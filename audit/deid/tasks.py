"""The long task of de-identification: the tagging of a set of notes; torch-free."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from audit.deid.find.copies import OUTPUTS
from audit.deid.find.elsewhere import FileTagger, read_file_tagger
from audit.deid.find.taggers import (
    COMBINED,
    PACKAGED,
    RULES,
    KnownTagger,
    find_tagger,
    load_tagger,
    tagger_names,
)
from audit.deid.measure.leftovers import write_leftovers
from audit.deid.redact.policy import ALL_OUT, Policy
from audit.deid.redact.release import Release
from audit.deid.sets.incoming_notes import (
    FHIR_ENDINGS,
    Files,
    check_lone_note,
    decode_outputs,
    notes_as_jsonl,
)
from audit.deid.sets.tagged_sets import INPUT, REGISTER, RESULT, TAGGED_SETS, begin_set, write_index
from audit.deid.sets.tagging import FALLBACK, Uncopied, tag_notes
from audit.errors import AuditError
from audit.executor import count_cores
from audit.foreign import decode_text, is_fhir
from audit.home import salted_digest
from audit.notes.read import Note, open_notes, resolve_note_file
from audit.patients.finder import FINDER_VERSION
from audit.patients.register import open_register, read_register
from audit.shelf import json_line
from audit.task import SHORT, Columns, Contact, Device, Question, Task, queue_of, read_file_states

_SHORT_BYTES = {
    RULES: 2_000_000,
    COMBINED: 2_000_000,
    OUTPUTS: 2_000_000,
    "token": 400_000,
    PACKAGED: 400_000,
}
"""The largest upload that is tagged beside an audit: an encoder reads 1,400 characters a second on
a shared CPU, and copies with many edits are aligned at 17,000. A tagger that writes copies needs
the device for itself."""
_COPIES = "copies"
"""The name of an uploaded file of copies in errors."""


@dataclass(frozen=True)
class NotesToTag:
    """The notes of a question, or its register: uploaded bytes, or a registered file.

    `source` is one of the sources of `TaggedSet`; `columns` are set if a person chose them.
    """

    source: str
    content: bytes | None = None
    file_id: str = ""
    columns: Columns = ()


def single_text(text: str, *, source: str) -> NotesToTag:
    """Return a question with a single text as its only note."""
    check_lone_note(text)  # refuses invalid notes; a web page or FHIR is parsed when it is tagged
    return NotesToTag(source, content=json_line({"note_id": "1", "text": text}))


def read_uploads(files: Files) -> NotesToTag:
    """Return uploaded files, as (name, bytes), as the notes of a question.

    A .jsonl or .csv has a note in each row. Each .txt, .html, i2b2 .xml or brat file, or each of
    them in a .zip, is a note. In FHIR (.json, .ndjson) each resource with a text is a note.
    """
    if len(files) == 1 and files[0][0].lower().endswith((".jsonl", ".csv", *FHIR_ENDINGS)):
        return NotesToTag("uploaded", content=files[0][1])
    if len(files) == 1 and files[0][0].lower().endswith((".txt", ".html", ".htm")):
        text, _ = decode_text(files[0][1], subject="notes")
        if is_fhir(text):
            return NotesToTag("uploaded", content=files[0][1])
        return single_text(text, source="uploaded")
    return NotesToTag("uploaded", content=notes_as_jsonl(files))


class TaggingTask(Task):
    """The tagging of the notes of a set that `tagging_task` has begun."""

    job = "tagging"

    tagged_id: str
    file_id: str = ""
    """The identifier of a registered file; "" if the notes were uploaded."""
    columns: Columns = ()
    register_id: str = ""
    """The identifier of a registered file with the patients; "" if the register was uploaded."""
    has_register: bool = False
    device: Device = "auto"
    is_quick: bool = False
    """Whether the tagger needs no accelerator."""

    @property
    def notes(self) -> Path:
        """The file with the notes to tag."""
        return self._file(self.file_id, INPUT)

    @property
    def register_file(self) -> Path | None:
        """The register of patients; None if there is none."""
        return self._file(self.register_id, REGISTER) if self.has_register else None

    @property
    def outputs(self) -> FileTagger | None:
        """The uploaded copies of the notes; None if the tagger of the set reads none."""
        if OUTPUTS not in tagger_names(TAGGED_SETS.get(self.tagged_id).tagger_id):
            return None
        return read_file_tagger(self._file("", OUTPUTS), subject=_COPIES)

    def _file(self, file_id: str, name: str) -> Path:
        if file_id:
            return resolve_note_file(file_id)
        path = TAGGED_SETS.place(self.tagged_id) / name
        if not path.is_file():
            raise AuditError(
                "The notes that were handed in are gone.",
                where=_COPIES if name == OUTPUTS else "notes",
                do="Request it again.",
            )
        return path

    def question(self) -> Question:
        """Return the question; equal notes, tagger and replacement are one set."""
        queue = SHORT if self.device == "cpu" else "cpu" if self.is_quick else queue_of("auto")
        label = TAGGED_SETS.get(self.tagged_id).tagger_id
        return self.make_question(label=label, device=queue, about=self.tagged_id)

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Tag the notes of the set, or resume an earlier run; return the identifier of the set."""
        tagged = TAGGED_SETS.get(self.tagged_id)
        if not tagged.is_whole:
            if not (tagged.path / RESULT).is_dir():
                source = open_notes(self.notes, columns=dict(self.columns))
                tagger = load_tagger(tagged.tagger_id, device=self.device, elsewhere=self.outputs)
                if tagger.digest != tagged.tagger_digest:
                    raise AuditError(
                        "The tagger has changed since it was requested.",
                        where="tagger",
                        do="Request it again.",
                    )
                register = self.register_file
                tag_notes(
                    source,
                    tagger=tagger,
                    folder=tagged.path / RESULT,
                    release=tagged.how,
                    policy=tagged.policy,
                    register=read_register(register) if register else None,
                    uncopied=tagged.uncopied,
                    n_workers=1 if self.device == "cpu" else count_cores(),
                    progress=contact.listen,
                    should_stop=contact.should_stop,
                )
            write_index(tagged.path, should_stop=contact.should_stop)
            tagged = TAGGED_SETS.get(self.tagged_id)
        for name in (INPUT, REGISTER, OUTPUTS):  # the result contains the uploaded notes
            (tagged.path / name).unlink(missing_ok=True)
        # For a complete set this repeats only the search for leftovers, after corrections by hand.
        write_leftovers(tagged, progress=contact.listen, should_stop=contact.should_stop)
        return (self.tagged_id,)


def _is_short(notes: NotesToTag, tagger: KnownTagger, *, n_more: int) -> bool:
    """Return whether the work takes little memory, and minutes on any CPU: it does not wait then.

    `n_more` are the bytes of a file of copies.
    """
    if notes.content is None:
        return False
    return len(notes.content) + n_more <= _SHORT_BYTES.get(tagger.kind, 0)


def tagging_task(
    notes: NotesToTag,
    *,
    tagger: KnownTagger,
    release: Release,
    policy: Policy = ALL_OUT,
    uncopied: Uncopied = FALLBACK,
    title: str = "",
    register: NotesToTag | None = None,
    outputs: bytes = b"",
) -> TaggingTask:
    """Make the folder of a set with the uploaded files, and return the task that tags it.

    `outputs` is an uploaded file of copies, for a tagger that reads them; the digest of such a
    tagger is computed here.

    Equal notes, tagger, register, replacement and policy are one set, whatever its title. The
    identifier is salted because a text could be guessed. Surrogates from a new key are a new
    release each time, except that an incomplete set resumes with its key.
    """
    copies, copies_text = None, ""
    if tagger.reads_outputs:
        copies_text, output_by_name = decode_outputs(outputs, subject=_COPIES)
        copies = FileTagger(output_by_name, _COPIES)
        tagger = find_tagger(tagger.tagger_id, elsewhere=copies)
    tagged_id = _choose_set_id(
        notes, register, tagger=tagger, release=release, policy=policy, uncopied=uncopied
    )
    is_new = not TAGGED_SETS.place(tagged_id).is_dir()
    tagged = begin_set(
        tagged_id,
        source=notes.source,
        tagger_id=tagger.tagger_id,
        tagger_digest=tagger.digest,
        release=release,
        policy=policy,
        uncopied=uncopied,
        title=title,
        notes=notes.content,
        register=register.content if register else None,
        outputs=copies_text.encode("utf-8", "surrogatepass") if copies else None,
    )
    task = TaggingTask(
        tagged_id=tagged_id,
        file_id=notes.file_id,
        columns=notes.columns,
        register_id=register.file_id if register else "",
        has_register=register is not None,
        device="cpu" if _is_short(notes, tagger, n_more=len(outputs)) else "auto",
        is_quick=tagger.is_quick,
    )
    if not tagged.is_whole:
        try:
            _check_files(task, copies)
        except AuditError:
            if is_new:
                TAGGED_SETS.forget(tagged_id)
            raise
    return task


def _check_files(task: TaggingTask, copies: FileTagger | None) -> None:
    """Refuse notes and a register that cannot be read, and copies of which no note was uploaded.

    A registered file may be large, so its job compares the names.
    """
    notes = open_notes(task.notes, columns=dict(task.columns))
    if copies and not task.file_id:
        copies.compare_names({row.note_id for row in notes.read() if isinstance(row, Note)})
    if path := task.register_file:
        open_register(path)


def _choose_set_id(
    notes: NotesToTag,
    register: NotesToTag | None,
    *,
    tagger: KnownTagger,
    release: Release,
    policy: Policy,
    uncopied: Uncopied,
) -> str:
    """Return the identifier of the set for notes and register.

    With a new key, the identifier is not that of a complete set.
    """
    about = json.dumps(
        [
            *(_identity(file) for file in (notes, register) if file),
            notes.columns,
            tagger.digest,
            release.decisive(),
            *policy.decisive(),
            *([uncopied] if tagger.writes_copies else ()),
            FINDER_VERSION,
        ],
        sort_keys=True,
    )
    is_own_key = release.key is not None and not release.is_linked
    return next(set_id for set_id in _set_ids(about) if not (is_own_key and _is_whole(set_id)))


def _set_ids(about: str) -> Iterator[str]:
    """Yield the identifiers for the sets of one question, in the order in which they are used."""
    yield salted_digest(f"tagging {about}")[:12]
    for number in count(2):
        yield salted_digest(f"tagging {about} {number}")[:12]


def _is_whole(tagged_id: str) -> bool:
    return TAGGED_SETS.place(tagged_id).is_dir() and TAGGED_SETS.get(tagged_id).is_whole


def _identity(file: NotesToTag) -> object:
    if file.content is not None:
        return hashlib.sha256(file.content).hexdigest()
    return read_file_states(resolve_note_file(file.file_id), where="notes")
