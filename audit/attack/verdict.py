"""The verdict: one of five states, with its reasons, the numbers they rest on, and what to do now.

There is no state that clears a model: an attack that finds nothing shows only that this attack, on
this list, found nothing, and the smallest effect it could have found is stated with it. One error
rate holds for the audit as a whole: a pair without any leak is called a leak in at most 5 % of
lists, both routes (the group, single names) together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from audit.attack.decisions import ALPHA, plain
from audit.stats import MIN_NAMES, NOTHING, Estimate
from audit.words import catalogue

State = Literal[
    "leak_found", "none_found_at_this_power", "not_enough_evidence", "ill_matched", "not_compared"
]

NONE_BELOW = 0.6
"""None found at this power: the AUC's interval and the smallest detectable AUC lie below this."""

ILL_MATCHED_BEYOND = 0.05
"""Members and controls are ill-matched where M_general alone is surely, and by more than this, off
one half: on a long list any trifle is sure."""

NO_OVERLAP_BEYOND = 0.3
"""Where M_general alone is off one half by more than this, members and controls hardly overlap in
what it says of them: an adjustment for it is an extrapolation, and the group decides nothing."""

_LANGUAGES = {"english": catalogue("en", "verdict"), "japanese": catalogue("ja", "verdict")}
_NOTES = (
    "no_evidence",
    "auc_unusable",
    "no_truth",
    "general_separates",
    "general_missing",
    "members_rank_lower",
)
"""Reasons that need a sentence of their own; the others are told by the numbers."""


@dataclass(frozen=True)
class Ranked:
    """Members against listed controls: what the group's route judges.

    `auc` and `general_auc` are of the fixed score and of M_general alone; `p` and `smallest_auc` of
    the relabelling test.
    """

    n_members: int
    n_controls: int
    auc: Estimate
    general_auc: Estimate
    p: float
    smallest_auc: float


def is_leak(p_group: float, p_names: float) -> bool:
    """Whether two routes together find a leak at one error rate.

    Where one decides nothing (NaN) the other has the whole rate; else either must reach half of it,
    or both the whole.
    """
    known = [p for p in (p_group, p_names) if not math.isnan(p)]
    if len(known) < 2:
        return any(p <= ALPHA for p in known)
    return min(known) <= ALPHA / 2 or max(known) <= ALPHA


def members_enough(n_members: int, n_controls: int, *, smallest_auc: float) -> int | None:
    """Return the members (and as many controls) that would show an AUC of 0.60, in tens.

    None: not known, or this list is enough. The error falls with the root of the names; a list of m
    and n is worth their harmonic mean.
    """
    if not smallest_auc > NONE_BELOW:
        return None
    n_each = 2 / (1 / n_members + 1 / n_controls)
    return math.ceil(n_each * ((smallest_auc - 0.5) / (NONE_BELOW - 0.5)) ** 2 / 10) * 10


def smallest_finding(n_tested: int, *, n_reference: int) -> tuple[float, int | None]:
    """Return the least that `n_tested` names against `n_reference` controls could show.

    The smallest p-value of a name, and the smallest number of names that can be flagged together at
    q <= 0.05 (None: not even all of them). Names above every control have p = 1 / (n + 1);
    Benjamini-Hochberg flags k of m of them if p <= 0.05 k / m.
    """
    smallest_p = Fraction(1, n_reference + 1)
    n_flagged = math.ceil(n_tested * smallest_p / Fraction(str(ALPHA)))
    return float(smallest_p), n_flagged if 0 < n_flagged <= n_tested else None


def give_verdict(
    p_names: float,
    *,
    n_flagged: int,
    n_tested: int,
    n_undecided: int = 0,
    ranked: Ranked | None = None,
    smallest: tuple[float, int | None] | None = None,
    has_evidence: bool = True,
) -> dict[str, Any]:
    """Return the verdict on scores fixed beforehand, as a report keeps it.

    *Leak found*: `is_leak` of the relabelling test and the smallest q (`p_names`: of members
    and unknown names; NaN where none is judged). *None found at this power*: the AUC's upper
    bound and the smallest AUC that the list could have shown lie at most at 0.60, and M_general
    alone tells members and controls apart in neither direction. *Ill-matched*: it does.
    Otherwise *not enough evidence*; so without truth (`ranked` None), where q alone decides.

    Counts are of names with q <= 0.05, of which close to the threshold, of the names with a q.
    Under 5 members or controls the group decides nothing. `smallest` is from
    `smallest_finding`. Without evidence (`has_evidence`: M_hospital said nothing of the listed
    names, or just what M_general said) nothing is found and nothing excluded.
    """
    p_group = math.nan
    if not has_evidence:
        p_names = math.nan
    elif (
        ranked is not None
        and min(ranked.n_members, ranked.n_controls) >= MIN_NAMES
        and not abs(ranked.general_auc.value - 0.5) > NO_OVERLAP_BEYOND
    ):
        p_group = ranked.p
    found = is_leak(p_group, p_names)
    state, reasons = _judge(found, p_group, p_names, ranked)
    if not has_evidence:
        state, reasons = "not_enough_evidence", ["no_evidence", *_notes(ranked)]
    smallest_p, smallest_n = smallest or (None, None)
    return _told({
        "state": state,
        "reasons": reasons,
        "n_flagged": n_flagged if found else 0,
        "n_undecided": n_undecided if found else 0,
        "n_tested": n_tested,
        **_of_group(ranked),
        "p_group": p_group,
        "p_names": p_names,
        "smallest_p": smallest_p,
        "smallest_n_flagged": smallest_n,
    })  # fmt: skip


def _of_group(ranked: Ranked | None) -> dict[str, Any]:
    if ranked is None:
        return dict.fromkeys(("auc", "general_auc", "smallest_detectable_auc", "n_enough"))
    smallest = ranked.smallest_auc
    return {
        "auc": ranked.auc,
        "general_auc": ranked.general_auc,
        "smallest_detectable_auc": smallest,
        "n_enough": members_enough(ranked.n_members, ranked.n_controls, smallest_auc=smallest),
    }


def equal_models_record() -> dict[str, Any]:
    """Return the verdict of an audit that compared a model with itself."""
    nothing = give_verdict(math.nan, n_flagged=0, n_tested=0)
    return _told(nothing | {
        "state": "not_compared",
        "reasons": ["equal_models"],
        "auc": NOTHING,
        "general_auc": NOTHING,
    })  # fmt: skip


def is_ill_matched(general: Estimate) -> bool:
    """Whether M_general alone tells members from controls, in either direction."""
    is_sure = general.low > 0.5 or general.high < 0.5
    beyond = abs(general.value - 0.5)
    return beyond > NO_OVERLAP_BEYOND or (is_sure and beyond > ILL_MATCHED_BEYOND)


def _judge(
    found: bool, p_group: float, p_names: float, ranked: Ranked | None
) -> tuple[State, list[str]]:
    """State, and reasons with the deciding ones first."""
    notes = _notes(ranked)
    if found:
        routes = (("group_stands_out", p_group), ("names_stand_out", p_names))
        return "leak_found", [*(code for code, p in routes if p <= ALPHA), *notes]
    if ranked is None:
        return "not_enough_evidence", ["no_truth", "no_name_stands_out"]
    if "general_separates" in notes:
        return "ill_matched", [*notes, "no_name_stands_out"]
    if math.isnan(p_group) or math.isnan(ranked.auc.high):
        return "not_enough_evidence", ["auc_unusable", "no_name_stands_out", *notes]
    if ranked.auc.high >= NONE_BELOW:
        return "not_enough_evidence", ["auc_reaches_limit", "no_name_stands_out", *notes]
    if not ranked.smallest_auc <= NONE_BELOW:
        return "not_enough_evidence", ["list_too_small", "no_name_stands_out", *notes]
    if math.isnan(ranked.general_auc.high):
        return "not_enough_evidence", ["general_missing", "no_name_stands_out"]
    return "none_found_at_this_power", ["auc_below_limit", "no_name_stands_out", *notes]


def _notes(ranked: Ranked | None) -> list[str]:
    """Reasons that decide nothing by themselves."""
    if ranked is None:
        return ["no_truth"]
    holds = {
        "general_separates": is_ill_matched(ranked.general_auc),
        "general_missing": math.isnan(ranked.general_auc.low),
        "members_rank_lower": ranked.auc.high < 0.5,
    }
    holds["general_missing"] &= not holds["general_separates"]
    return [code for code, is_so in holds.items() if is_so]


def _told(verdict: dict[str, Any]) -> dict[str, Any]:
    """Add the verdict, and what to do now, in both languages; all as values of JSON."""
    now = f"now_{verdict['state']}"
    return dict(plain(verdict)) | {
        **{language: _sentence(verdict, words) for language, words in _LANGUAGES.items()},
        "what_now": {
            language: words[now].format(
                enough=words["enough"].format(n=verdict["n_enough"]) if verdict["n_enough"] else ""
            )
            for language, words in _LANGUAGES.items()
        },
    }


def _sentence(verdict: dict[str, Any], words: Mapping[str, str]) -> str:
    """Put the verdict's numbers into the words of one language."""
    state, facts = verdict["state"], []
    for name, estimate in (("auc", verdict["auc"]), ("general", verdict["general_auc"])):
        if estimate is None or math.isnan(estimate.value):
            break
        facts.append(words[name].format(auc=_interval(estimate, words)))
    n_undecided = verdict["n_undecided"]
    of = words["undecided"].format(u=n_undecided) if n_undecided else ""
    facts.append(words["names"].format(k=verdict["n_flagged"], n=verdict["n_tested"], of=of))
    text = words[state].format(facts=words["join"].join(facts))
    if state == "leak_found":
        text += words["rate"]
    elif state != "not_compared":
        smallest, n_flagged = verdict["smallest_detectable_auc"], verdict["smallest_n_flagged"]
        if smallest is not None and smallest <= 1 and state != "ill_matched":
            text += words["smallest"].format(auc=_percent(smallest))
        if verdict["smallest_p"] is not None and n_flagged is None:
            text += words["smallest_none"]
        elif n_flagged is not None and n_flagged > 1:
            text += words["smallest_k"].format(k=n_flagged)
    # What the state itself says is not said again.
    said = "general_separates" if state == "ill_matched" else ""
    return text + "".join(words[code] for code in verdict["reasons"] if code in _NOTES
                          and code != said)  # fmt: skip


def in_short(
    state: str, *, reasons: Sequence[str], n_flagged: int, n_tested: int, smallest_auc: float,
    language: str,
) -> str:  # fmt: skip
    """Return the one sentence that helps to decide; the numbers behind it are the verdict's own.

    `reasons` of older versions that have no sentence count as the one that fits any.
    """
    words, key, why = catalogue(language, "verdict"), f"short_{state}", ""
    if state == "leak_found":
        key += "_group" if not n_flagged else "_one" if n_flagged == 1 else ""
    elif state == "none_found_at_this_power" and math.isnan(smallest_auc):
        key += "_any"
    elif state == "not_enough_evidence":
        known = [f"why_{code}" for code in reasons if f"why_{code}" in words]
        why = words[known[0] if known else "why_auc_reaches_limit"]
    return words[key].format(k=n_flagged, n=n_tested, auc=_percent(smallest_auc), why=why)


def _interval(estimate: Estimate, words: Mapping[str, str]) -> str:
    value, low, high = (_percent(x) for x in vars(estimate).values())
    key = "no_interval" if math.isnan(estimate.low) else "interval"
    return words[key].format(value=value, low=low, high=high)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
