"""A random sample of notes: as many as asked for, each as likely as any other, in their order.

Source: Nakamura et al., section 3.2 (1,000,000 notes of 2.08 million).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import partial

import numpy as np

from audit.corpora.note_streams import ByteListener
from audit.corpora.notes import Note, NoteSource
from audit.errors import AuditError
from audit.progress import Meter
from audit.randomness import generator
from audit.tables import RowNote


@dataclass(frozen=True)
class SampledSource(NoteSource):
    """A source of which some notes are read; `chosen` holds a 1 for each of them, else a 0."""

    chosen: bytes = b""

    def read(self, *, on_bytes: ByteListener = lambda n: None) -> Iterator[Note | RowNote]:
        """Go through the notes that were drawn, and through all refusals."""
        index = 0
        for note in super().read(on_bytes=on_bytes):
            if isinstance(note, RowNote):
                yield note
                continue
            if index < len(self.chosen) and self.chosen[index]:
                yield note
            index += 1
        if index != len(self.chosen):
            raise AuditError("The notes changed while they were read.", where="notes")


def sampled(source: NoteSource, *, n: int, seed: int, meter: Meter, phase: str) -> NoteSource:
    """Draw n notes without replacement; all of them where there are no more.

    Raises
    ------
    AuditError
        If the source cannot be read to its end.
    """
    notes = source.read(on_bytes=partial(meter.add, phase))
    n_notes = sum(isinstance(note, Note) for note in notes)
    meter.finish(phase)
    if n >= n_notes:
        return source
    chosen = np.zeros(n_notes, dtype=np.uint8)
    chosen[generator(seed, "corpus/sample").permutation(n_notes)[:n]] = 1
    known = {field.name: getattr(source, field.name) for field in fields(NoteSource)}
    return SampledSource(**known, chosen=chosen.tobytes())
