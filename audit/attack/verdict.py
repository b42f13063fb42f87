"""The verdict: one of five states, with its reasons, the numbers they rest on, and what to do now.

There is no state that clears a model: an attack that finds nothing shows only that this attack, on
this list, found nothing, and the smallest effect it could have found is stated with it. One error
rate holds for the audit as a whole: a pair without any leak is called a leak in at most 5 % of
lists, both routes (the group, single names) together.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from audit.attack.cohort import RelabellingTest, SmallestFinding, members_enough
from audit.attack.decisions import ALPHA
from audit.attack.metrics import plain
from audit.stats import MIN_NAMES, Estimate

State = Literal[
    "leak_found",
    "none_found_at_this_power",
    "not_enough_evidence",
    "ill_matched",
    "not_compared",
]

NONE_BELOW = 0.6
"""None found at this power: the AUC's interval and the smallest detectable AUC lie below this."""

ILL_MATCHED_BEYOND = 0.05
"""Members and controls are ill-matched where M_general alone is surely, and by more than this, off
one half: on a long list any trifle is sure."""

NO_OVERLAP_BEYOND = 0.3
"""Where M_general alone is off one half by more than this, members and controls hardly overlap in
what it says of them: an adjustment for it is an extrapolation, and the group decides nothing."""

REASONS = {
    "group_stands_out": "Members rank above controls by more than chance explains.",
    "names_stand_out": "At least one name has a q value small enough for the audit's error rate.",
    "auc_below_limit": "The interval of the AUC lies below 0.60, and 0.60 would have been seen.",
    "auc_reaches_limit": "The interval of the AUC reaches 0.60 or more.",
    "list_too_small": "A leak of 0.60 could not have been seen with this list.",
    "auc_unusable": "Too few scored names, or too few different parts of names.",
    "no_truth": "The list does not say who is a member; q alone is judged.",
    "no_name_stands_out": "No name stands out.",
    "general_separates": "M_general alone tells members from controls: they are ill-matched.",
    "general_missing": "M_general alone is not known.",
    "members_rank_lower": "The interval of the AUC lies below 0.5: members rank below controls.",
    "equal_models": "Both models are the same.",
}
"""Reason codes of a verdict, and what each means."""


@dataclass(frozen=True)
class Verdict:
    """What may be said about a pair of models after one attack.

    Attributes
    ----------
    state
        One of the five states.
    reasons
        Keys of `REASONS`, the deciding one first.
    n_flagged, n_undecided, n_tested
        Names that stand out (0 unless a leak is found), those of all tested names whose Monte-Carlo
        error covers the threshold, and names with a q.
    auc, general_auc
        Of the score fixed beforehand and of M_general alone; None without truth.
    p_group, p_names
        Of the two routes: relabelling test, smallest q. NaN where a route decides nothing.
    smallest_auc
        The smallest AUC that the list could have shown; NaN if none, None without truth.
    n_enough
        Members (and as many controls) with which an AUC of 0.60 would be seen; None where not
        known, or where this list is enough.
    smallest_finding
        The least that the q values could have shown; None where not given.
    """

    state: State
    reasons: tuple[str, ...]
    n_flagged: int
    n_undecided: int
    n_tested: int
    auc: Estimate | None
    general_auc: Estimate | None
    p_group: float
    p_names: float
    smallest_auc: float | None
    n_enough: int | None
    smallest_finding: SmallestFinding | None

    @property
    def english(self) -> str:
        """The verdict in plain English."""
        return _sentence(self, _ENGLISH)

    @property
    def japanese(self) -> str:
        """The verdict in plain Japanese."""
        return _sentence(self, _JAPANESE)

    def to_json(self) -> dict[str, object]:
        """Return the verdict as plain values; NaN becomes None."""
        finding = self.smallest_finding
        return {
            "state": self.state,
            "reasons": list(self.reasons),
            "english": self.english,
            "japanese": self.japanese,
            "what_now": {
                "english": _what_now(self, _ENGLISH),
                "japanese": _what_now(self, _JAPANESE),
            },
            "n_flagged": self.n_flagged,
            "n_undecided": self.n_undecided,
            "n_tested": self.n_tested,
            "auc": plain(self.auc),
            "general_auc": plain(self.general_auc),
            "p_group": plain(self.p_group),
            "p_names": plain(self.p_names),
            "smallest_detectable_auc": plain(self.smallest_auc),
            "n_enough": self.n_enough,
            "smallest_p": finding.p if finding else None,
            "smallest_n_flagged": finding.n_flagged if finding else None,
        }


@dataclass(frozen=True)
class Ranked:
    """Members against listed controls: what the group's route judges.

    `auc` and `general_auc` are of the fixed score and of M_general alone.
    """

    n_members: int
    n_controls: int
    auc: Estimate
    general_auc: Estimate
    relabelled: RelabellingTest


def is_leak(p_group: float, p_names: float, *, alpha: float = ALPHA) -> bool:
    """Whether two routes together find a leak at one error rate.

    Where one decides nothing (NaN) the other has the whole rate; else either must reach half of it,
    or both the whole.
    """
    known = [p for p in (p_group, p_names) if not math.isnan(p)]
    if len(known) < 2:
        return any(p <= alpha for p in known)
    return min(known) <= alpha / 2 or max(known) <= alpha


def give_verdict(
    p_names: float,
    *,
    n_flagged: int,
    n_tested: int,
    n_undecided: int = 0,
    ranked: Ranked | None = None,
    smallest_finding: SmallestFinding | None = None,
) -> Verdict:
    """Return the verdict on scores fixed beforehand.

    *Leak found*: `is_leak` of the relabelling test and the smallest q. *None found at this power*:
    the AUC's upper bound and the smallest AUC that the list could have shown lie at most at 0.60,
    and M_general alone tells members and controls apart in neither direction. *Ill-matched*: it
    does. Otherwise *not enough evidence*; so without truth (`ranked` None), where q alone decides.

    Parameters
    ----------
    p_names
        Smallest q of the tested names: members and unknown; NaN where none is judged.
    n_flagged, n_undecided, n_tested
        Names with q <= 0.05, of which close to the threshold, of the names with a q.
    ranked
        The group's route; under 5 members or controls it decides nothing.
    smallest_finding
        From `smallest_finding`.
    """
    p_group = math.nan
    if (
        ranked is not None
        and min(ranked.n_members, ranked.n_controls) >= MIN_NAMES
        and not abs(ranked.general_auc.value - 0.5) > NO_OVERLAP_BEYOND
    ):
        p_group = ranked.relabelled.p
    found = is_leak(p_group, p_names)
    smallest = None if ranked is None else ranked.relabelled.smallest_auc
    state, reasons = _judge(found, p_group, p_names, ranked)
    return Verdict(
        state=state,
        reasons=reasons,
        n_flagged=n_flagged if found else 0,
        n_undecided=n_undecided if found else 0,
        n_tested=n_tested,
        auc=None if ranked is None else ranked.auc,
        general_auc=None if ranked is None else ranked.general_auc,
        p_group=p_group,
        p_names=p_names,
        smallest_auc=smallest,
        n_enough=None if ranked is None else _enough(ranked),
        smallest_finding=smallest_finding,
    )


def is_ill_matched(general: Estimate) -> bool:
    """Whether M_general alone tells members from controls, in either direction."""
    is_sure = general.low > 0.5 or general.high < 0.5
    beyond = abs(general.value - 0.5)
    return beyond > NO_OVERLAP_BEYOND or (is_sure and beyond > ILL_MATCHED_BEYOND)


def _enough(ranked: Ranked) -> int | None:
    """Members with which 0.60 would be seen."""
    smallest = ranked.relabelled.smallest_auc
    if math.isnan(smallest) or smallest <= NONE_BELOW:
        return None
    return members_enough(
        ranked.n_members, ranked.n_controls, smallest_auc=smallest, wanted=NONE_BELOW
    )


def _judge(
    found: bool, p_group: float, p_names: float, ranked: Ranked | None
) -> tuple[State, tuple[str, ...]]:
    """State, and reasons with the deciding ones first."""
    notes = _notes(ranked)
    if found:
        routes = (("group_stands_out", p_group), ("names_stand_out", p_names))
        return "leak_found", (*(code for code, p in routes if p <= ALPHA), *notes)
    if ranked is None:
        return "not_enough_evidence", ("no_truth", "no_name_stands_out")
    if "general_separates" in notes:
        return "ill_matched", (*notes, "no_name_stands_out")
    if math.isnan(p_group) or math.isnan(ranked.auc.high):
        return "not_enough_evidence", ("auc_unusable", "no_name_stands_out", *notes)
    if ranked.auc.high >= NONE_BELOW:
        return "not_enough_evidence", ("auc_reaches_limit", "no_name_stands_out", *notes)
    if not ranked.relabelled.smallest_auc <= NONE_BELOW:
        return "not_enough_evidence", ("list_too_small", "no_name_stands_out", *notes)
    if math.isnan(ranked.general_auc.high):
        return "not_enough_evidence", ("general_missing", "no_name_stands_out")
    return "none_found_at_this_power", ("auc_below_limit", "no_name_stands_out", *notes)


def _notes(ranked: Ranked | None) -> list[str]:
    """Reasons that decide nothing by themselves."""
    if ranked is None:
        return ["no_truth"]
    codes = []
    if is_ill_matched(ranked.general_auc):
        codes.append("general_separates")
    elif math.isnan(ranked.general_auc.low):
        codes.append("general_missing")
    if ranked.auc.high < 0.5:
        codes.append("members_rank_lower")
    return codes


WORDS: dict[str, dict[str, dict[str, str]]] = json.loads(
    Path(__file__).with_name("words.json").read_text("utf-8")
)
"""Sentences of verdicts and of canaries, by language."""
_ENGLISH, _JAPANESE = WORDS["verdict"]["en"], WORDS["verdict"]["ja"]

_NOTES = (
    "auc_unusable",
    "no_truth",
    "general_separates",
    "general_missing",
    "members_rank_lower",
)
# Reasons that need a sentence of their own; the others are told by the numbers.


def equal_models_record() -> dict[str, object]:
    """Return the verdict of an audit that compared a model with itself, as plain values."""
    none = Estimate(math.nan, math.nan, math.nan)
    verdict = Verdict(
        "not_compared", ("equal_models",), 0, 0, 0, none, none, math.nan, math.nan, None, None, None
    )
    return verdict.to_json()


def _sentence(verdict: Verdict, words: dict[str, str]) -> str:
    """Put the verdict's numbers into the words of one language."""
    facts = []
    if verdict.auc is not None and not math.isnan(verdict.auc.value):
        facts.append(words["auc"].format(auc=_interval(verdict.auc, words)))
        if verdict.general_auc is not None and not math.isnan(verdict.general_auc.value):
            facts.append(words["general"].format(auc=_interval(verdict.general_auc, words)))
    of = words["undecided"].format(u=verdict.n_undecided) if verdict.n_undecided else ""
    facts.append(words["names"].format(k=verdict.n_flagged, n=verdict.n_tested, of=of))
    text = words[verdict.state].format(facts=words["join"].join(facts))
    if verdict.state == "leak_found":
        text += words["rate"]
    elif verdict.state != "not_compared":
        text += _power(verdict, words)
    # What the state itself says is not said again.
    said = {"ill_matched": "general_separates"}.get(verdict.state)
    notes = [code for code in verdict.reasons if code in _NOTES and code != said]
    return text + "".join(words[code] for code in notes)


def _power(verdict: Verdict, words: dict[str, str]) -> str:
    text = ""
    smallest = verdict.smallest_auc
    if smallest is not None and smallest <= 1 and verdict.state != "ill_matched":
        text += words["smallest"].format(auc=_percent(smallest))
    finding = verdict.smallest_finding
    if finding is not None and finding.n_flagged is None:
        text += words["smallest_none"]
    elif finding is not None and finding.n_flagged is not None and finding.n_flagged > 1:
        text += words["smallest_k"].format(k=finding.n_flagged)
    return text


def _what_now(verdict: Verdict, words: dict[str, str]) -> str:
    n = verdict.n_enough
    enough = words["enough"].format(n=n) if n is not None else ""
    return words[f"now_{verdict.state}"].format(enough=enough)


def _interval(estimate: Estimate, words: dict[str, str]) -> str:
    value, low, high = (_percent(x) for x in (estimate.value, estimate.low, estimate.high))
    key = "no_interval" if math.isnan(estimate.low) else "interval"
    return words[key].format(value=value, low=low, high=high)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
