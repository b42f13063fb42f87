"""Check before a training that a causal model learns every planted name of a corpus.

A name that no row predicts would look as if the model had not given it away.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from audit.corpus.truth import CANARY, corpus_notes
from audit.errors import AuditError
from audit.training.framing import Framing, PackedRows
from audit.training.tokens import TokenFile


def count_learned_canaries(
    corpus: Path, framing: Framing, tokens: TokenFile, *, rows: PackedRows, n_steps: int
) -> int:
    """Return the number of canaries in a corpus's notes; refuse if one would not be learnt.

    A canary is learnt if a row of the training predicts every token of its name, so that the name
    is neither cut in two, nor left out, nor part of what gets no loss.
    """
    is_learned: dict[str, bool] = {}
    for position, (_, note, places) in enumerate(corpus_notes(corpus, on_bytes=lambda n: None)):
        canaries = [place for place in places if place.role == CANARY]
        if not canaries:
            continue
        framed = framing.frame(str(note["text"]))
        for canary in canaries:
            is_in = (framed.spans[:, 0] < canary.stop) & (framed.spans[:, 1] > canary.start)
            numbers = np.flatnonzero(is_in)
            documents = tokens.documents_at(np.array([position]))
            stream_places = (
                rows.stream.locate(int(documents[0]), numbers) if len(documents) else None
            )
            has_loss = (
                stream_places is not None
                and len(stream_places) > 0
                and rows.stream.read_ids(stream_places).tolist() == [framed.ids[n] for n in numbers]
                and rows.is_learned_whole(stream_places, n_steps=n_steps)
            )
            is_learned[canary.identity] = is_learned.get(canary.identity, False) or has_loss
    n_missed = sum(not has_loss for has_loss in is_learned.values())
    if n_missed:
        raise AuditError(
            "{n_missed:,} of the {n_canaries:,} planted names would not be learnt: no row of this "
            "training predicts the whole name.",
            where="canaries",
            do="Train longer, so that every note is seen at least once, or take longer rows.",
            n_missed=n_missed,
            n_canaries=len(is_learned),
        )
    return len(is_learned)
