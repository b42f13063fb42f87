"""Counts of a list of names: by script, popularity and word pieces."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.models.limited import call_limited
from audit.models.model_folder import find_display_name
from audit.models.registry import load_tokenizer
from audit.names.candidates import Candidates
from audit.names.pools import pool_for, popularity
from audit.names.spelling import (
    NO_TWIN,
    RUNNING_TEXT,
    CountPieces,
    part_pieces,
    piece_counter,
)
from audit.shelf import JSON
from audit.text import script_of

SCRIPTS = ("latin", "han_kana", "other")


@dataclass(frozen=True)
class Bins:
    """A histogram: for each bin, tested names (in the notes or of unknown truth) and controls.

    `starts` has the lower edge of each bin; all bins have the same width. `n_missing` names have no
    value.
    """

    starts: tuple[float, ...]
    n_tested: tuple[int, ...]
    n_controls: tuple[int, ...]
    n_missing: int


@dataclass(frozen=True)
class NameFacts:
    """Counts of a list: names by script (`SCRIPTS`), names of one part, names with known mentions.

    `n_members` names are in the notes and were not planted, `n_unknown` are of unknown truth;
    `by_kind` counts controls and planted names. `popularity` is a histogram of the decimal
    logarithm of the share of people with the name, in steps of 0.5; `log_popularity` [N] is the
    logarithm itself, NaN if the generator does not know the name.
    """

    n_members: int
    n_unknown: int
    by_kind: Mapping[str, int]
    scripts: Mapping[str, int]
    n_one_part: int
    n_with_mentions: int
    popularity: Bins
    log_popularity: tuple[float, ...]


@dataclass(frozen=True)
class Spelling:
    """How a tokenizer spells a list's names.

    `n_pieces` [N] are the word pieces of the whole name in running text, 0 if it cannot be spelt
    and is therefore not scored; `by_pieces` counts them. `n_twins` names are spelt like another
    name of the list.
    """

    n_pieces: tuple[int, ...]
    by_pieces: Bins
    n_twins: int = 0


def name_facts(candidates: Candidates) -> NameFacts:
    """Count the names of a list."""
    parts = list(zip(candidates.first, candidates.last, strict=True))
    pool = pool_for(candidates)
    shares = (popularity(pool, first=first, last=last) for first, last in parts)
    logs = tuple(math.log10(share) if share > 0 else math.nan for share in shares)
    scripts = Counter(script_of(first + last) for first, last in parts)
    kinds = Counter(filter(None, candidates.control_kind))
    members = [row for row, truth in enumerate(candidates.is_member) if truth]
    if n_planted := sum(map(candidates.is_canary, members)):
        kinds["planted"] = n_planted
    return NameFacts(
        n_members=len(members) - n_planted,
        n_unknown=candidates.is_member.count(None),
        by_kind=dict(sorted(kinds.items())),
        scripts={script: scripts[script] for script in SCRIPTS if scripts[script]},
        n_one_part=sum(not all(pair) for pair in parts),
        n_with_mentions=sum(n is not None for n in candidates.n_mentions),
        popularity=_make_bins(logs, candidates=candidates, step=0.5),
        log_popularity=logs,
    )


def spelling(candidates: Candidates, *, model: Path) -> Spelling:
    """Spell the names of a list with a model's tokenizer, as in running text."""
    counts = call_limited(_count_name_pieces, candidates, model, place=find_display_name(model))
    n_pieces, n_twins = tuple(counts["n_pieces"]), counts["n_twins"]
    values = tuple(float(n) if n else math.nan for n in n_pieces)
    bins = _make_bins(values, candidates=candidates, step=1.0)
    return Spelling(n_pieces, bins, n_twins=n_twins)


def _count_name_pieces(candidates: Candidates, model: Path) -> dict[str, JSON]:
    pieces = part_pieces(candidates, kind=RUNNING_TEXT, tokenizer=load_tokenizer(model))
    totals = pieces.n_pieces.sum(axis=1)
    is_twin = pieces.twin_of != NO_TWIN
    is_spelt = pieces.is_known | is_twin
    n_pieces = [int(n) if ok else 0 for n, ok in zip(totals, is_spelt, strict=True)]
    return {"n_pieces": n_pieces, "n_twins": int(is_twin.sum())}


def make_piece_counter(parts: Iterable[tuple[str, str]], *, model: Path) -> CountPieces:
    """Return a function from a part's role and text to its word pieces, for these parts alone."""
    unique_parts = list(dict.fromkeys(parts))
    counts = call_limited(_count_parts, unique_parts, model, place=find_display_name(model))
    table = dict(zip(unique_parts, counts, strict=True))
    return lambda role, part: table[role, part]


def _count_parts(parts: Sequence[tuple[str, str]], model: Path) -> list[int]:
    count = piece_counter(load_tokenizer(model))
    return [count(role, text) for role, text in parts]


def _make_bins(values: Sequence[float], *, candidates: Candidates, step: float) -> Bins:
    tested: Counter[int] = Counter()
    controls: Counter[int] = Counter()
    for value, is_member in zip(values, candidates.is_member, strict=True):
        if not math.isnan(value):
            (controls if is_member is False else tested)[math.floor(value / step)] += 1
    places = tested.keys() | controls.keys()
    span = range(min(places), max(places) + 1) if places else range(0)
    return Bins(
        starts=tuple(place * step for place in span),
        n_tested=tuple(tested[place] for place in span),
        n_controls=tuple(controls[place] for place in span),
        n_missing=sum(map(math.isnan, values)),
    )
