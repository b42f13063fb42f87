"""Display names of models, lists, corpora, files, taggers and scores.

A display name is the title if there is one, or else the origin and date, never a digest alone. All
display names are untrusted text.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from audit.attack.measure_types import RULE_VERSION
from audit.corpus.corpora import CORPORA, KeptCorpus
from audit.deid.find.copies import OUTPUTS
from audit.deid.find.packaged import TITLES
from audit.deid.find.taggers import DEFAULT, RULES, list_taggers, tagger_names
from audit.deid.measure.score_report import Score, Source
from audit.deid.redact.policy import Policy
from audit.deid.sets.tagged_sets import TAGGED_SETS
from audit.errors import catalogue
from audit.home import salted_digest
from audit.models.convert import CONVERTED, ConvertedModel
from audit.models.model_folder import CONVERTED_LABEL, TRAINED_LABEL
from audit.models.registry import DEMO_PREFIX, RegisteredModel
from audit.names.lists import Line
from audit.notes.read import EXAMPLE, NoteFile
from audit.notes.spans import TYPES
from audit.report.report import KeptAudit
from audit.training.trainings import MODELS, TrainedModel
from audit.words import Words
from pages.ui.blocks import format_moment

_DEMO_FOLDER = re.compile(r"(general|null|hospital(?=-)|adapter(?=-))(?:-([0-9.]+))?")


def model_name(say: Words, model_id: str) -> str:
    """Return a model's display name."""
    folder, _, name = model_id.partition("/")
    if folder.startswith(DEMO_PREFIX):
        *group, name = model_id.removeprefix(DEMO_PREFIX).split("/")
        place = say.text(f"called_demo_of_{'_'.join(group)}")
        return say.text("called_demo_model", name=demo_model_name(say, name), place=place)
    if folder == TRAINED_LABEL:
        training = next((model for model in MODELS.all() if model.run_id == name), None)
        return training_name(say, training) if training else say.text("called_trained_gone")
    if folder == CONVERTED_LABEL:
        converted = next((model for model in CONVERTED.all() if model.conversion_id == name), None)
        return converted_name(say, converted) if converted else say.text("called_converted_gone")
    return model_id


def demo_model_name(say: Words, name: str) -> str:
    """Return what a model of the demo learned and for how long; `name` is that of its folder."""
    folder = _DEMO_FOLDER.fullmatch(name)
    return say.text(f"called_demo_model_{folder[1]}", n=folder[2]) if folder else name


def audited_names(say: Words, audit: KeptAudit) -> dict[str, str]:
    """Return the display names of an audit's models, by their role."""
    names = {"general": audit.general, "hospital": audit.hospital}
    if not audit.is_demo:
        return names
    return {role: demo_model_name(say, name) for role, name in names.items()}


def model_names(
    say: Words, models: tuple[RegisteredModel, ...], *, with_adapters: bool = False
) -> dict[str, str]:
    """Return the display names of usable models by identifier, for `form.pick`."""
    return {
        model.model_id: model_name(say, model.model_id)
        for model in models
        if model.summary or (model.adapter and with_adapters)
    }


def converted_name(say: Words, model: ConvertedModel) -> str:
    """Return the display name of a model that was converted here: its source's and the date."""
    facts = {"name": model.name, "at": format_moment(model.created, has_zone=False)}
    if rounding := model.record.rounding:
        return say.text("called_rounded", rounding=rounding, **facts)
    return say.text("called_converted", **facts)


def training_name(say: Words, model: TrainedModel) -> str:
    """Return the display name of a model trained here: its title, or its parent and date."""
    date = format_moment(model.facts.created, has_zone=False)
    if title := model.facts.title:
        return say.text("called_titled", title=title, at=date)
    return say.text("called_trained", parent=model.facts.parent, at=date)


def list_name(say: Words, line: Line) -> str:
    """Return the display name of a list of names or a file of passages."""
    if not line.at:
        return say.text(f"called_demo_{line.code.removeprefix('demo-')}")
    return line.label or say.text("called_untitled", at=format_moment(line.at, has_zone=False))


def corpus_name(say: Words, corpus: KeptCorpus) -> str:
    """Return a corpus's display name with its size and date."""
    title = corpus.title or corpus.source
    return say.text(
        "called_corpus",
        title=title,
        n=f"{corpus.n_notes:,}",
        at=format_moment(corpus.created, has_zone=False),
    )


def corpus_of(model: TrainedModel) -> KeptCorpus | None:
    """Return the corpus that a model was trained on, if it is still kept."""
    corpus_id = model.facts.corpus_id
    return next(
        (corpus for corpus in CORPORA.all() if corpus_id and corpus.corpus_id == corpus_id), None
    )


def notes_name(say: Words, model: TrainedModel) -> str:
    """Return which notes a model learned from."""
    source, corpus = say.text(f"called_source_{model.facts.source}"), corpus_of(model)
    name = corpus and (corpus.title or corpus.source)
    return say.text("called_notes_of", source=source, corpus=name) if corpus else source


def file_code(file: NoteFile) -> str:
    """Return a file's code for links; the name of a file may hold a person's name."""
    return salted_digest(f"notes {file.file_id}")[:12]


def file_names(say: Words, files: tuple[NoteFile, ...]) -> dict[str, str]:
    """Return the display names of files of notes by code, for `form.pick`."""
    return {file_code(file): file_name(say, file) for file in files}


def file_name(say: Words, file: NoteFile) -> str:
    """Return the display name of a file of notes, with its size."""
    if file.file_id == EXAMPLE:
        return say.text("called_example_file")
    return say.text("called_file", name=file.file_id, size=size_text(file.n_bytes))


def size_text(n_bytes: int) -> str:
    """Format a size in bytes with a unit."""
    if n_bytes < 1000:
        return f"{n_bytes} B"
    power = min(3, (len(str(n_bytes)) - 1) // 3)
    return f"{n_bytes / 1000**power:.{1 + (power == 3)}f} {('kB', 'MB', 'GB')[power - 1]}"


def state_name(say: Words, state: str, *, rule: int = RULE_VERSION) -> str:
    """Return the display name of a verdict's state, with its rule if that is an older one."""
    name = say.text(f"state_{state}")
    return name if rule >= RULE_VERSION else say.text("called_state_of_rule", state=name, rule=rule)


def tagger_name(say: Words, tagger_id: str) -> str:
    """Return a tagger's display name."""
    names = tagger_names(tagger_id)
    if len(names) > 1:
        return " + ".join(tagger_name(say, name) for name in names)
    if tagger_id in (RULES, DEFAULT, OUTPUTS, *TITLES):
        return TITLES.get(tagger_id) or say.text(f"called_tagger_{tagger_id}")
    if tagger_id.startswith("/"):  # a folder that the command line named
        return PurePosixPath(tagger_id).name
    titles = {tagger.tagger_id: tagger.title for tagger in list_taggers()}
    title = titles.get(tagger_id, "")
    return say.text("called_tagger_titled", title=title) if title else say.text("called_tagger")


def label_name(say: Words, label: str) -> str:
    """Return a label's display name; a label outside the five types is returned as it is."""
    if label in TYPES:
        return say.text(f"called_type_{label}")
    if label in ("", "missed", "spurious"):
        return say.text(f"called_row_{label or 'all'}")
    return label


def score_name(say: Words, score: Score) -> str:
    """Return a score's display name: its title, what was measured, on which notes, and when."""
    return say.text(
        "called_score",
        title=predicted_name(say, score),
        gold=gold_name(say, score.gold),
        n=f"{score.summary.n_documents:,}",
        at=format_moment(score.created, has_zone=False),
    )


def predicted_name(say: Words, score: Score) -> str:
    """Return the title and origin of the predictions that a score measures."""
    return " · ".join(filter(None, (score.title, _predicted(say, score))))


def _predicted(say: Words, score: Score) -> str:
    kind, ref = score.predicted.kind, score.predicted.ref
    if kind == "tagger":
        return tagger_name(say, ref)
    if kind == "tagged":
        titles = {tagged.tagged_id: tagged.title for tagged in TAGGED_SETS.all()}
        title = titles.get(ref, "")
        name = tagger_name(say, score.tagger["name"]) if score.tagger["name"] else ""
        return " · ".join(filter(None, (title, name))) or say.text("called_predicted_tagged")
    return say.text(f"called_predicted_{kind}")


def gold_name(say: Words, gold: Source) -> str:
    """Return the display name of annotated notes to measure on."""
    if gold.kind == "file":
        return gold.ref
    return say.text(f"called_example_{gold.ref}" if gold.kind == "example" else "called_gold_given")


def kind_name(say: Words, kind: str) -> str:
    """Return the display name of a kind of mark."""
    return catalogue(say.language, "policy")[f"kind_{kind}"]


def policy_name(say: Words, policy: Policy) -> str:
    """Return a policy's display name; an own title is untrusted text."""
    if policy.is_ready_made:
        return say.text(f"deidentify_policy_{policy.title}")
    return say.text("called_own_policy", title=policy.title or say.text("deidentify_policy_own"))
