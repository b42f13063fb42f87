"""Names as a report hands them over: masked, as pseudonyms, or in full.

Comes in: a report. Goes out: a report of the same schema, its names replaced. Torch-free.

A pseudonym is the row of the name in the auditor's own file (`audit.report.name_labels`): whoever
holds the file can read it back, and nobody else. Popularity goes with the name, for a share in a
public name table nearly is the name; so do the passages' own numbers, which can be anything.
Scores stay as they are, so whoever has both models and a guess at a name can still check the guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from audit.names import is_unspaced, written_name
from audit.report import AuditReport, name_labels

NameForm = Literal["masked", "pseudonyms", "full"]
NAME_FORMS: tuple[NameForm, ...] = ("masked", "pseudonyms", "full")
_HIDDEN = "***"


def masked_name(first: str, last: str) -> str:
    """Return a name of which only the initials are left, in the order in which it is written."""
    parts = (masked_part(first), masked_part(last))
    if is_unspaced(first + last):
        return " ".join(part for part in reversed(parts) if part)
    return written_name(*parts)


def masked_part(part: str) -> str:
    """Return a part's initial and stars; a part of one character is hidden whole."""
    if not part:
        return ""
    return part[0] + _HIDDEN if len(part) > 1 else _HIDDEN


def shown_name(label: str, first: str, last: str, *, form: NameForm) -> str:
    """Return one name in a form; not escaped. `label` is its pseudonym."""
    if form == "full":
        return written_name(first, last)
    return masked_name(first, last) if form == "masked" else label


def with_names_as(report: AuditReport, *, form: NameForm) -> AuditReport:
    """Return the report with its names in a form, which `made` then states as `names`."""
    made = {**report.made, "names": form}
    if form == "full":
        return AuditReport(**{**vars(report), "made": made})
    names = dict(report.names)
    if form == "masked":
        names["first_name"] = [masked_part(part) for part in names["first_name"]]
        names["last_name"] = [masked_part(part) for part in names["last_name"]]
    else:
        names["first_name"] = list(name_labels(names))
        names["last_name"] = [""] * len(names["name_id"])
    names["popularity"] = [None] * len(names["name_id"])
    details = _without_passage_ids(report.details)
    return AuditReport(**{**vars(report), "names": names, "made": made, "details": details})


def _without_passage_ids(details: Mapping[str, Any]) -> dict[str, Any]:
    # They are the hospital's own text: a chart's number, or a name.
    linking = details.get("linking")
    if not linking:
        return dict(details)
    ranks = [{**rank, "passage_id": ""} for rank in linking.get("rank_by_passage", ())]
    return {**details, "linking": {**linking, "rank_by_passage": ranks}}
