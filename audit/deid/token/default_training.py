"""The default tagger, made from nothing: synthetic notes, a small network, the best combination.

Comes in: a folder, a number of notes, a seed. Goes out: `tagger.json`, `model/` and `how.json`,
which says how it was made and what it reaches on styles of notes that it was not trained on. The
same recipe made `audit/deid/default_tagger`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.deid.bootstrap import N_REPLICATES
from audit.deid.combined_tagger import WAYS, combined_digest, put_together
from audit.deid.documents import TaggedDocument
from audit.deid.matching import OPTIMAL
from audit.deid.rule_tagger import RuleTagger
from audit.deid.score import Scored, score_pairs
from audit.deid.score_summary import score_summary
from audit.deid.tagger import Tags
from audit.deid.tagger_envelope import MODEL, TAGGER
from audit.deid.token.course import PointListener
from audit.deid.token.material import Material, synthetic, with_mixed_lines
from audit.deid.token.material import notes_digest as digest_of_notes
from audit.deid.token.measure import Figures, figures_of, predicted
from audit.deid.token.settings import Shape, TaggerSettings
from audit.deid.token.tagger_file import TaggerFacts, read_tagger_file
from audit.deid.token.task import TaggerOrder
from audit.deid.token.token_tagger import load_token_tagger
from audit.deid.token.train import train_tagger
from audit.errors import AuditError
from audit.private_files import unwritable
from audit.progress import ProgressListener, StopQuestion

HOW = "how.json"
LANGUAGES = ("ja", "en")
_BETA = 2.0


@dataclass(frozen=True)
class DefaultRecipe:
    """How the default tagger is made; sizes that train in minutes on two cores.

    Attributes
    ----------
    n_notes
        To learn from, all languages together; half of them made of lines of the others.
    n_validation
        Notes of the same styles and other patients: for the best weights and the bias.
    n_choosing, n_test
        Notes of styles that are not learned from: to choose the combination by, and to measure it.
    """

    n_notes: int = 16_000
    n_validation: int = 400
    n_choosing: int = 600
    n_test: int = 1000
    n_epochs: float = 1.0
    seed: int = 0

    def settings(self) -> TaggerSettings:
        """Return the settings of the training."""
        return TaggerSettings(
            n_tokens=192,
            n_epochs=self.n_epochs,
            learning_rate=2e-3,
            unknown_share=0.1,
            hidden_share=0.25,
            seed=self.seed,
        )


def make_default(
    work: Path,
    *,
    out: Path,
    recipe: DefaultRecipe,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
    on_point: PointListener = lambda point: None,
) -> dict[str, Any]:
    """Train the default tagger in `work` and put it whole into `out`; returns `how.json`.

    Raises
    ------
    AuditError
        As `train_tagger`, or if `out` cannot be written.
    AuditCancelled
        If the person asked to stop; the same call goes on from there.
    """

    def notes(n: int, *, seed: int, is_held_out: bool = False) -> tuple[TaggedDocument, ...]:
        made = synthetic(n, seed=seed, languages=LANGUAGES, is_held_out=is_held_out,
                         should_stop=should_stop)  # fmt: skip
        return tuple(made)

    seed = recipe.seed
    plain = notes(recipe.n_notes - recipe.n_notes // 2, seed=seed)
    mixed = with_mixed_lines(plain[: recipe.n_notes // 2], seed=seed)
    material = Material((*plain, *mixed), notes(recipe.n_validation, seed=seed + 1))
    order = TaggerOrder(
        out=work, settings=recipe.settings(), shape=Shape(), is_halved=True,
        about={"synthetic": recipe.n_notes},
    )  # fmt: skip
    facts = train_tagger(
        order, material, progress=progress, should_stop=should_stop, on_point=on_point
    )
    how = _how(work, facts, recipe=recipe, notes_digest=material.digest, should_stop=should_stop)
    _put_down(work, out=out, how=how)
    return how


def _put_down(work: Path, *, out: Path, how: dict[str, Any]) -> None:
    """Write what is shipped, readable for everybody: no note and no name is in it."""
    partial = out.with_name(f".{out.name}.part")
    text = json.dumps(how, ensure_ascii=False, indent=1, allow_nan=False)
    try:
        shutil.rmtree(partial, ignore_errors=True)
        (partial / MODEL).mkdir(parents=True)
        for path in (work / TAGGER, *sorted((work / MODEL).iterdir())):
            (partial / path.relative_to(work)).write_bytes(path.read_bytes())
        (partial / HOW).write_text(text + "\n", encoding="utf-8")
        shutil.rmtree(out, ignore_errors=True)
        partial.rename(out)
    except OSError as error:
        raise unwritable(error) from None


def measure_again(out: Path, *, should_stop: StopQuestion = lambda: False) -> dict[str, Any]:
    """Choose the combination and measure it anew, as after a change of the rules; trains nothing.

    Raises
    ------
    AuditError
        If there is no default tagger in `out`, or it cannot be written.
    AuditCancelled
        If the person asked to stop.
    """
    facts = read_tagger_file(out)
    try:
        before = json.loads((out / HOW).read_text(encoding="utf-8"))
        recipe, digest = DefaultRecipe(**before["recipe"]), str(before["notes_digest"])
    except (OSError, ValueError, KeyError, TypeError):
        raise AuditError("It is damaged.", where="default tagger", do="Install it again.") from None
    how = _how(out, facts, recipe=recipe, notes_digest=digest, should_stop=should_stop)
    _put_down(out, out=out, how=how)
    return how


def _how(
    work: Path,
    facts: TaggerFacts,
    *,
    recipe: DefaultRecipe,
    notes_digest: str,
    should_stop: StopQuestion,
) -> dict[str, Any]:
    """Choose the combination on some held-out notes, and measure it on others."""
    chooser, test = (
        tuple(
            synthetic(
                n,
                seed=recipe.seed + place,
                languages=LANGUAGES,
                is_held_out=True,
                should_stop=should_stop,
            )
        )
        for n, place in ((recipe.n_choosing, 2), (recipe.n_test, 3))
    )
    model, rules = load_token_tagger(work, device="cpu"), RuleTagger()
    texts = [document.text for document in chooser]
    found = rules.tag(texts), model.tag(texts)
    tried = ways_tried(chooser, by_rules=found[0], by_model=found[1])
    way = max(WAYS, key=lambda name: (tried[name].f, -WAYS.index(name)))
    texts = [document.text for document in test]
    by_rules, by_model = rules.tag(texts), model.tag(texts)
    together = [put_together(t, a, b, way=way)
                for t, a, b in zip(texts, by_rules, by_model, strict=True)]  # fmt: skip
    return {
        "way": way,
        "digest": combined_digest(rules.digest, model.digest, way=way),
        "rules_digest": rules.digest,
        "model_digest": facts.digest,
        "recipe": vars(recipe).copy(),
        "notes_digest": notes_digest,
        "test_digest": digest_of_notes(test),
        "chosen_by": {name: one.to_json() for name, one in tried.items()},
        "held_out": {
            "rules alone": _by_language(test, by_rules),
            "model alone": _by_language(test, by_model),
            "default": _by_language(test, together),
        },
    }


def ways_tried(
    documents: Sequence[TaggedDocument], *, by_rules: Sequence[Tags], by_model: Sequence[Tags]
) -> dict[str, Figures]:
    """Return the figures of rules alone, the model alone, and both by every way."""
    answers: dict[str, Sequence[Tags]] = {"rules alone": by_rules, "model alone": by_model}
    for way in WAYS:
        rows = zip(documents, by_rules, by_model, strict=True)
        answers[way] = [put_together(d.text, a, b, way=way) for d, a, b in rows]
    return {
        name: figures_of(predicted(documents, tags), beta=_BETA) for name, tags in answers.items()
    }


def _by_language(documents: Sequence[TaggedDocument], tags: Sequence[Tags]) -> dict[str, Any]:
    """Return the measures of held-out notes, for each language: those of `deid score`."""
    pairs = predicted(documents, tags)
    found: dict[str, Any] = {}
    for language in LANGUAGES:
        some = [pair for pair in pairs if pair[0].doc_id.startswith(f"{language}/")]
        if some:
            found[language] = shown_measures(score_pairs(some))
    if not found:
        raise AuditError("There is no note of a held-out style.", where="synthetic notes")
    return found


def shown_measures(scored: Scored) -> dict[str, Any]:
    """Return counts, rates and intervals by type, under two criteria, as the page shows them."""
    summary: dict[str, Any] = score_summary(scored, matcher=OPTIMAL, n_replicates=N_REPLICATES)
    criteria: dict[str, Any] = summary["criteria"]
    return {
        "n_notes": summary["n_documents"],
        "n_patients": summary["n_patients"],
        **{
            name: {
                label: _shortened(entry)
                for label, entry in (
                    *criteria[name]["labels"].items(),
                    ("all", criteria[name]["together"]),
                )
            }
            for name in ("strict", "label_relaxed")
        },
    }


def _shortened(entry: dict[str, Any]) -> dict[str, Any]:
    """Return counts, rates and their 95 % intervals over patients, to four digits."""
    counts = {name: entry[name] for name in ("n_gold", "n_predicted")}
    rates = {
        name: None if entry[name] is None else round(entry[name], 4)
        for name in ("precision", "recall", "f1", "complete")
    }
    intervals = {
        name: None
        if entry["intervals"][name] is None
        else [round(one, 4) for one in entry["intervals"][name]]
        for name in rates
    }
    return {**counts, **rates, "intervals": intervals}
