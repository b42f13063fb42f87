"""Questions of both scenarios about small models, and what two models could have said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from audit.attack.generation import GenerationTask
from audit.attack.prompts import PosteriorTask, Template, part_columns
from audit.models.load import load_model
from audit.names.spelling import PartPieces
from audit.notes.passages import Passage
from tests.reference_masking import make_task
from tests.table_model import APART, CLS, MASK, N_TOKENS, SEP, WORD

RIGHT = " was seen by dr jones for pain."
PASSAGES = (
    Passage("", ("full",), "", RIGHT, "1", None),
    Passage("the patient ", ("full",), "", RIGHT, "2", None),
    Passage("", ("first", "last"), " ", RIGHT, "3", None),
    Passage("in pain and ", ("first", "last"), " ", " was seen for pain", "4", None),
    Passage("", ("last", "first"), ", ", RIGHT, "5", None),
    Passage("the patient - ", ("last", "first"), ", ", " seen", "6", None),
)
NAMES = (
    ("john", "smith"),
    ("mary", "jones"),
    ("anna", "jonesson"),
    ("johns", "smiths"),
    ("mary", "smith-jones"),
    ("", "smith"),
    ("johns", ""),
    ("zoe", "smith"),
)


def generation_task(prompt: tuple[int, ...] = APART, **changes: Any) -> GenerationTask:
    settings = {"multi_piece_parts": (), "n_steps": 10, "top_k": N_TOKENS, "mask_id": MASK}
    return GenerationTask(prompt=prompt, **{**settings, "seed": 5, **changes})


def task_of(
    folder: Path, passages: Any = PASSAGES, names: Any = NAMES, **more: Any
) -> PosteriorTask:
    return make_task(load_model(folder).tokenizer, passages, names, **more)


def plain_pieces(ids: np.ndarray) -> PartPieces:
    """Known names, the first name written first, of these pieces [N, 2, K] (-1: none)."""
    n_pieces = (ids >= 0).sum(axis=2)
    roles = np.where(n_pieces > 0, np.array([0, 1]), -1)
    return PartPieces(ids, n_pieces, roles, np.ones(len(ids), dtype=bool), np.full(len(ids), -1))


def table_task(ids: Any, n_passages: int = 1, **changes: Any) -> PosteriorTask:
    """A task of pieces made by hand, for a `TableModel` with its slots at 1 and 2."""
    fields: dict[str, Any] = {
        "templates": (Template((CLS,), (), (WORD, SEP)),) * n_passages,
        "kind_of_passage": np.zeros(n_passages, int),
        "pieces": (plain_pieces(np.array(ids)),),
        "n_listed": len(ids),
        "mask_id": MASK,
        "seed": 1,
        **changes,
    }
    kind_of = list(fields["kind_of_passage"])
    kinds = range(len(fields["pieces"]))
    has_between = [bool(fields["templates"][kind_of.index(kind)].between) for kind in kinds]
    columns = part_columns(fields["pieces"], has_between=has_between)
    return PosteriorTask(**fields, part_columns=columns)


def sums_of(
    hospital: dict[str, np.ndarray], general: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """What both models said, as `compute_scores` takes it."""
    sums_of_model = {"hospital": hospital, "general": general}
    return {
        f"{model}_{name}": x for model, sums in sums_of_model.items() for name, x in sums.items()
    }
