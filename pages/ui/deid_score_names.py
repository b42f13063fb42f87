"""What taggers and kept scores are called on the screen; all of it is untrusted text."""

from __future__ import annotations

from audit.deid.score import Score
from pages.ui.cached import marked_sets, taggers
from pages.ui.language import Words
from pages.ui.text import day


def tagger_name(say: Words, tagger_id: str) -> str:
    """Return what a tagger is called; untrusted text."""
    if tagger_id in ("rules", "default"):
        return say.text(f"deid_measures_tagger_{tagger_id}")
    found = next((one for one in taggers() if one.tagger_id == tagger_id), None)
    if found is not None and found.title:
        return say.text("deid_measures_tagger_titled", title=found.title, code=tagger_id[-12:-8])
    return say.text("deid_measures_tagger_code", code=tagger_id)


def gold_name(say: Words, kept: Score) -> str:
    """Return where a score's gold came from; untrusted text."""
    kind, ref = kept.gold.kind, kept.gold.ref
    if kind == "example":
        return say.text(f"deid_measures_example_{ref}")
    return ref if kind == "file" else say.text("deid_measures_gold_given")


def predicted_name(say: Words, kept: Score) -> str:
    """Return where a score's predictions came from; untrusted text."""
    kind, ref = kept.predicted.kind, kept.predicted.ref
    if kind == "tagger":
        return tagger_name(say, ref)
    if kind == "tagged":
        title = next((one.title for one in marked_sets() if one.tagged_id == ref), "")
        name = tagger_name(say, kept.tagger["name"]) if kept.tagger["name"] else ""
        return " · ".join(filter(None, (title, name))) or say.text("deid_measures_set", code=ref)
    return say.text(f"deid_measures_predicted_{kind}")


def score_name(say: Words, kept: Score) -> str:
    """Return what a score is called; untrusted text."""
    title = " · ".join(filter(None, (kept.title, predicted_name(say, kept))))
    return say.text(
        "deid_measures_score_name",
        title=title,
        gold=gold_name(say, kept),
        n=f"{kept.summary.n_documents:,}",
        at=day(kept.created),
    )
