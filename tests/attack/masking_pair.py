"""A small pair of models, names they can and cannot spell, and scenario 2's question about them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from audit.attack.question import AuditRequest, PosteriorSettings
from audit.names.candidates import Candidates, make_candidates
from audit.names.pools import us_pool
from audit.notes.passages import Passages, read_passages
from audit.report.report import AuditReport
from cache.store import Store
from tests.models.make_models import WORDS, make_bert

FIRSTS, LASTS = us_pool().first[:60], us_pool().last[:60]
NAME_WORDS = tuple(dict.fromkeys([*WORDS, *map(str.lower, (*FIRSTS, *LASTS))]))
MEMBERS = [(FIRSTS[k], LASTS[k]) for k in range(6)]
CONTROLS = [(FIRSTS[k], LASTS[k]) for k in range(10, 16)]
UNKNOWN = ("Zq", LASTS[3])
LISTED = (
    make_candidates(MEMBERS, is_member=True, n_mentions=[1, 1, 2, 3, 5, 12])
    + make_candidates(CONTROLS, is_member=False, control_kind="easy")
    + make_candidates([UNKNOWN], is_member=True)
    + make_candidates([("", LASTS[8])], is_member=False, control_kind="given")
)


def passages_of(*records: dict[str, Any]) -> Passages:
    return read_passages("\n".join(map(json.dumps, records)).encode())


PASSAGES = passages_of(
    {"text": "[NAME] was seen by dr jones for pain.", "name_id": 0},
    {"text": "the patient [NAME] was in pain.", "name_id": 1},
    {"text": "[FIRST] [LAST] was seen.", "name_id": 2},
    {"text": "in and of [LAST], [FIRST] was seen by [HOSPITAL].", "name_id": 12},
    {"text": "mrs [NAME] was seen."},
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pair")
    seeds = {"hospital": 1, "general": 2}
    return {who: make_bert(folder / who, seed=s, words=NAME_WORDS) for who, s in seeds.items()}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store(tmp_path_factory.mktemp("store")) as opened:
        yield opened


def request_of(
    folders: dict[str, Path],
    *,
    candidates: Candidates = LISTED,
    passages: Passages = PASSAGES,
    **settings: Any,
) -> AuditRequest:
    wanted = {"n_inputs": 230, "n_chain_inputs": 20, "is_dropout_on": False, "micro_batch": 64}
    return AuditRequest(
        scenario_number=2,
        general=folders["general"],
        hospital=folders["hospital"],
        candidates=candidates,
        passages=passages,
        posterior=PosteriorSettings(**{**wanted, **settings}),
        seed=5,
        device="cpu",
    )


def numbers(report: AuditReport, column: str) -> list[float]:
    return [math.nan if x is None else float(x) for x in report.names[column]]
