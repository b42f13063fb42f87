"""What a tagger is trained on: files of annotated notes, or synthetic ones; torch-free."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.deid.documents import Span, TaggedDocument, tagged
from audit.deid.format_jsonl import jsonl_line
from audit.deid.formats import guess_format, read_unnamed
from audit.errors import AuditCancelled, AuditError
from audit.progress import StopQuestion
from audit.randomness import generator

MAX_SYNTHETIC = 1_000_000
_VALIDATION_SHARE = 0.1
_MOST_VALIDATION = 1000
_ASK_EVERY = 50
_WHERE = "annotated notes"


@dataclass(frozen=True)
class Material:
    """Annotated notes to learn from and to measure on."""

    train: tuple[TaggedDocument, ...]
    validation: tuple[TaggedDocument, ...]

    def __post_init__(self) -> None:
        """Check that there is something of both, once."""
        if not self.train or not self.validation:
            raise AuditError(
                "There are too few notes to train on some and measure on others.",
                where=_WHERE,
                do="Give notes of two patients or more, or validation notes of their own.",
            )
        if not any(document.spans for document in self.train):
            raise AuditError("No note holds a span: there is nothing to learn.", where=_WHERE)

    @property
    def digest(self) -> str:
        """SHA-256 of all notes and spans, in their order."""
        return notes_digest((*self.train, *self.validation), mark=len(self.train))


def notes_digest(documents: Iterable[TaggedDocument], *, mark: int = 0) -> str:
    """Return the SHA-256 of notes and spans, in their order; `mark` tells sets apart."""
    found = hashlib.sha256(f"{mark}\n".encode())
    for document in documents:
        found.update(jsonl_line(document).encode("utf-8", "surrogatepass"))
    return found.hexdigest()


def read_gold(path: Path) -> tuple[TaggedDocument, ...]:
    """Return the annotated notes of a file or a folder, in any format of `audit.deid.formats`.

    Raises
    ------
    AuditError
        If it cannot be read, its format is not known, or a file is not understood.
    """
    try:
        paths = sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path]
        files = {one.name: one.read_bytes() for one in paths if not one.name.startswith(".")}
    except OSError as error:
        raise AuditError(f"They cannot be read ({error.strerror}).", where=_WHERE) from None
    documents = read_unnamed(files, form=guess_format(files), what=_WHERE)
    if not documents:
        raise AuditError("There is no note.", where=_WHERE)
    return documents


def synthetic(
    n: int,
    *,
    seed: int,
    languages: Sequence[str],
    is_held_out: bool = False,
    should_stop: StopQuestion = lambda: False,
) -> Iterator[TaggedDocument]:
    """Yield synthetic notes, as many of each language, in turn; of held-out styles if asked.

    Raises
    ------
    AuditCancelled
        If the person asked to stop.
    """
    from audit.deid.synthetic import HELD_OUT_STYLES, TRAIN_STYLES, synthetic_notes

    styles = HELD_OUT_STYLES if is_held_out else TRAIN_STYLES
    known = [language for language in languages if language in styles]
    for number, language in enumerate(known):
        share = n // len(known) + (number < n % len(known))
        notes = synthetic_notes(share, seed=seed, language=language, styles=styles[language])
        for i, note in enumerate(notes):
            if i % _ASK_EVERY == 0 and should_stop():
                raise AuditCancelled
            yield note.named(f"{language}/{note.doc_id}")


def split_off(
    documents: Sequence[TaggedDocument],
    *,
    seed: int,
    share: float = _VALIDATION_SHARE,
    most: int = _MOST_VALIDATION,
) -> Material:
    """Keep the notes of a share of the patients apart, to measure on.

    Parameters
    ----------
    most
        No more notes than this, unless one patient has them.
    """
    patients = sorted({document.patient for document in documents})
    order = generator(seed, "tagger validation").permutation(len(patients))
    n_notes = dict.fromkeys(patients, 0)
    for document in documents:
        n_notes[document.patient] += 1
    wanted = min(most, max(1, round(share * len(documents))))
    kept: set[tuple[int, str]] = set()
    n = 0
    for place in order[: len(patients) - 1]:
        if n >= wanted:
            break
        kept.add(patients[place])
        n += n_notes[patients[place]]
    return Material(
        tuple(d for d in documents if d.patient not in kept),
        tuple(d for d in documents if d.patient in kept),
    )


def with_mixed_lines(
    documents: Sequence[TaggedDocument], *, seed: int
) -> tuple[TaggedDocument, ...]:
    """Return notes made of the lines of two others each, in any order: many layouts out of few.

    A line break inside a span is none here. There are as many as were given.
    """
    made = []
    for number, document in enumerate(documents):
        rng = generator(seed, "mixed lines", number)
        other = documents[int(rng.integers(len(documents)))]
        lines = [*_lines(document), *_lines(other)]
        order = rng.permutation(len(lines))[: max(1, len(lines) // 2)]
        text, spans = "", list[Span]()
        for place in order:
            line = lines[place]
            spans += [Span(s.start + len(text), s.end + len(text), s.label) for s in line.spans]
            text += line.text
        made.append(tagged(f"mixed/{document.doc_id}", text=text, spans=spans))
    return tuple(made)


def _lines(document: TaggedDocument) -> list[TaggedDocument]:
    found = []
    start = 0
    for line in document.text.splitlines(keepends=True):
        end = start + len(line)
        found.append((start, end))
        start = end
    joined: list[tuple[int, int]] = []
    for start, end in found:
        is_inside = any(s.start < start < s.end for s in document.spans)
        if is_inside and joined:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return [
        tagged(
            "",
            text=document.text[start:end],
            spans=[
                Span(s.start - start, s.end - start, s.label)
                for s in document.spans
                if start <= s.start < end
            ],
        )
        for start, end in joined
    ]
