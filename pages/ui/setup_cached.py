"""What the server keeps in memory of models, lists and plans that are being chosen: by digest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from audit.attack import plan
from audit.attack.question import AuditRequest
from audit.home import results_dir
from audit.models import registry
from audit.models.inspect import trained_models
from audit.models.registry import VARIABLE, RegisteredModel
from audit.names import lists
from audit.names.candidates import Candidates
from audit.names.lists import Draft, make_draft
from audit.notes.passages import Passages, is_jsonl, read_passages
from audit.tables import RowNote
from pages.ui import cached
from pages.ui.setup_facts import NameFacts, Spelling, name_facts, spelling


@dataclass(frozen=True, eq=False)
class ListView:
    """A list on the screen, kept or still being made; `key` stands for its content."""

    key: str
    line: lists.Line
    candidates: Candidates
    facts: NameFacts
    notes: tuple[RowNote, ...]
    encoding: str
    draft: Draft | None = None


def models() -> tuple[RegisteredModel, ...]:
    """Return the models that can be chosen; a folder that has changed is seen within seconds."""
    return _models(os.environ.get(VARIABLE, ""), str(list(trained_models())))


def check(general: Path, hospital: Path) -> registry.PairCheck:
    """Return what differs between two models; raises `AuditError` if one cannot be read."""
    files = registry.signature(general), registry.signature(hospital)
    return _check(str(general), str(hospital), str(files))


def names(code: str) -> ListView:
    """Return a kept list; raises as `audit.names.lists.kept_names`."""
    return _names(str(results_dir()), code)


def passages(code: str) -> lists.KeptPassages:
    """Return kept passages; raises as `audit.names.lists.kept_passages`."""
    return _passages(str(results_dir()), code)


def new_names(
    data: bytes | None, *, base: str, wanted: Mapping[str, int], model: Path | None
) -> ListView | None:
    """Return a list that is being made, from a file or the kept list `base`; raises so too."""
    key = hashlib.sha256(repr((_sha256(data), base, wanted, model)).encode("utf-8", "replace"))
    return _new_names(
        str(results_dir()), key.hexdigest(), _data=data, _base=base, _wanted=wanted, _model=model
    )


def new_passages(data: bytes, *, file_name: str) -> Passages:
    """Return an uploaded file's passages; raises as `read_passages`."""
    return _new_passages(_sha256(data), is_jsonl(data, file_name=file_name), _data=data)


def spelt(view: ListView, *, model: Path) -> Spelling:
    """Return how a model's tokenizer spells a list; raises as `name_check.spelling`."""
    files = str(registry.signature(model))
    return _spelt(view.key, str(model), files, _candidates=view.candidates)


def make_plan(request: AuditRequest, *, names: str, passages: str, passages_file: str) -> plan.Plan:
    """Return the plan of a request about a kept list and kept passages, by their codes.

    Raises
    ------
    AuditError
        As `audit.attack.plan.make_plan`, or if the data directory cannot be used.
    """
    files = [registry.signature(path) for path in (request.general, request.hospital)]
    key = repr((
        names, passages, files, request.general, request.hospital, request.scenario_number,
        request.settings, request.seed, request.dtype, request.device, passages_file,
    ))  # fmt: skip
    return _plan(str(results_dir()), key, _request=request, _passages_file=passages_file)


def _sha256(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()


@st.cache_resource(show_spinner=False, ttl="10s", max_entries=4)
def _models(folders: str, trained: str) -> tuple[RegisteredModel, ...]:
    return registry.model_choices()


@st.cache_resource(show_spinner=False, max_entries=32)
def _check(general: str, hospital: str, files: str) -> registry.PairCheck:
    return registry.check_pair(Path(general), Path(hospital))


@st.cache_resource(show_spinner=False, max_entries=8)
def _names(directory: str, code: str) -> ListView:
    found = lists.kept_names(code, store=cached.store())
    return ListView(
        key=f"{directory} {code}",
        line=found.line,
        candidates=found.candidates,
        facts=name_facts(found.candidates),
        notes=(),
        encoding="",
    )


@st.cache_resource(show_spinner=False, max_entries=4)
def _passages(directory: str, code: str) -> lists.KeptPassages:
    return lists.kept_passages(code, store=cached.store())


@st.cache_resource(show_spinner=False, max_entries=8)
def _new_names(
    directory: str, key: str, *, _data: bytes | None, _base: str, _wanted: Mapping[str, int],
    _model: Path | None,
) -> ListView | None:  # fmt: skip
    base = names(_base).candidates if _base else None
    draft = make_draft(_data, base=base, wanted=_wanted, model=_model)
    if draft is None:
        return None
    return ListView(
        key=key,
        line=lists.Line("", "", "", len(draft.candidates)),
        candidates=draft.candidates,
        facts=name_facts(draft.candidates),
        notes=draft.notes,
        encoding=draft.encoding,
        draft=draft,
    )


@st.cache_resource(show_spinner=False, max_entries=4)
def _new_passages(key: str, is_jsonl: bool, *, _data: bytes) -> Passages:
    return read_passages(_data, file_name="passages.jsonl" if is_jsonl else "passages.csv")


@st.cache_resource(show_spinner=False, max_entries=16)
def _spelt(key: str, model: str, files: str, *, _candidates: Candidates) -> Spelling:
    return spelling(_candidates, model=Path(model))


@st.cache_resource(show_spinner=False, max_entries=32)
def _plan(directory: str, key: str, *, _request: Any, _passages_file: str) -> plan.Plan:
    return plan.make_plan(_request, passages_file=_passages_file)
