"""A request as a plain JSON value, so that another process can ask the same question later."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from audit.corpora.passages import Passage, Passages
from audit.errors import AuditError
from audit.membership.candidates import Candidates
from audit.membership.name_pools import pool_for
from audit.request import AuditRequest, GenerationSettings, PosteriorSettings, question_digest
from audit.tables import RowNote

_VERSION = 1
_PATHS = ("general", "hospital")
_Record = TypeVar("_Record", Passage, RowNote, GenerationSettings, PosteriorSettings)


def audit_digest(request: AuditRequest) -> str:
    """Return the digest that names the request's audit; reads every byte of both models.

    Raises
    ------
    AuditError
        If a model directory is refused.
    """
    pool = pool_for(request.candidates).digest()
    return question_digest(request.question() | {"name_pool": pool})


def request_to_json(request: AuditRequest) -> dict[str, Any]:
    """Return a request as plain values; it holds names and notes, so keep it private."""
    plain = {f.name: getattr(request, f.name) for f in fields(request)}
    columns = {name: list(column) for name, column in vars(request.candidates).items()}
    columns["popularity"] = [None if math.isnan(p) else p for p in columns["popularity"]]
    return plain | {
        "version": _VERSION,
        **{path: str(plain[path]) for path in _PATHS},
        "candidates": columns,
        "passages": _passages_to_json(request.passages),
        "generation": asdict(request.generation),
        "posterior": asdict(request.posterior),
    }


def request_from_json(value: object) -> AuditRequest:
    """Return the request that `request_to_json` wrote down.

    Raises
    ------
    AuditError
        If the value is not such a request, or asks what cannot be asked.
    """
    try:
        plain = dict(_mapping(value))
        if plain.pop("version") != _VERSION:
            raise ValueError
        _check_plain(plain)
        return AuditRequest(
            **plain
            | {path: Path(_text(plain[path])) for path in _PATHS}
            | {
                "candidates": _candidates(plain["candidates"]),
                "passages": _passages(plain["passages"]),
                "generation": _record(GenerationSettings, plain["generation"]),
                "posterior": _record(PosteriorSettings, plain["posterior"]),
            }
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise AuditError(
            "This request cannot be read: it is damaged, or of another version of the program.",
            do="Ask the question again.",
        ) from None


def _check_plain(plain: Mapping[str, Any]) -> None:
    if plain.keys() != {f.name for f in fields(AuditRequest)}:
        raise ValueError
    _text(plain["dtype"])
    if plain["device"] not in ("auto", "cpu", "cuda") or type(plain["scenario_number"]) is not int:
        raise ValueError
    if plain["threshold"] is not None and type(plain["threshold"]) not in (int, float):
        raise ValueError


def _candidates(value: object) -> Candidates:
    columns = {name: tuple(column) for name, column in _mapping(value).items()}
    if columns.keys() != {f.name for f in fields(Candidates)}:
        raise ValueError
    for name in ("first", "last", "control_kind", "role", "sex"):
        for text in columns[name]:
            _text(text)
    if any(n is not None and type(n) is not int for n in columns["n_mentions"]):
        raise ValueError
    if any(row is not None and type(row) is not int for row in columns["row"]):
        raise ValueError
    if any(type(is_guessed) is not bool for is_guessed in columns["is_kind_guessed"]):
        raise ValueError
    columns["popularity"] = tuple(
        math.nan if p is None else float(p) for p in columns["popularity"]
    )
    return Candidates(**columns)


def _passages_to_json(passages: Passages | None) -> dict[str, Any] | None:
    if passages is None:
        return None
    return {
        "passages": [asdict(passage) for passage in passages.passages],
        "notes": [asdict(note) for note in passages.notes],
        "encoding": passages.encoding,
    }


def _passages(value: object) -> Passages | None:
    if value is None:
        return None
    plain = _mapping(value)
    if plain.keys() != {"passages", "notes", "encoding"}:
        raise ValueError
    return Passages(
        passages=tuple(_passage(one) for one in plain["passages"]),
        notes=tuple(_record(RowNote, one) for one in plain["notes"]),
        encoding=_text(plain["encoding"]),
    )


def _passage(value: object) -> Passage:
    plain = dict(_mapping(value))
    for name in ("left", "separator", "right", "passage_id"):
        _text(plain[name])
    owner = plain["owner"]
    if isinstance(owner, list | tuple):  # a tuple where no file lies between
        first, last = owner
        plain["owner"] = (_text(first), _text(last))
    elif owner is not None and type(owner) is not int:
        raise ValueError
    return _record(Passage, plain | {"slots": tuple(_text(slot) for slot in plain["slots"])})


def _record(kind: type[_Record], value: object) -> _Record:
    plain = _mapping(value)
    if plain.keys() != {f.name for f in fields(kind)}:
        raise ValueError
    return kind(**plain)


def _mapping(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value
