"""What models, lists, corpora, files, taggers and scores are called on the screen.

By title where there is one, else by what it comes from and when; never by a digest alone. All of
it is untrusted text.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from audit.attack.verdicts import RULE_VERSION
from audit.corpus.corpora import CORPORA, KeptCorpus
from audit.deid.packaged import TITLES
from audit.deid.policy import Policy
from audit.deid.score_report import Score
from audit.deid.taggers import DEFAULT, RULES, tagger_names
from audit.home import salted_digest
from audit.models.inspect import LABEL
from audit.models.registry import RegisteredModel
from audit.names.lists import Line
from audit.notes.read import EXAMPLE, NoteFile
from audit.notes.spans import TYPES
from audit.training.trainings import MODELS, TrainedModel
from audit.words import Words, catalogue
from pages.ui import cached
from pages.ui.blocks import day


def model_name(say: Words, model_id: str) -> str:
    """Return what a model is called, by its identifier."""
    folder, _, name = model_id.partition("/")
    if folder.startswith("demo:"):
        return say.text("called_demo_model", name=name, language=folder.removeprefix("demo:"))
    if folder == LABEL:
        found = next((one for one in MODELS.all() if one.run_id == name), None)
        return training_name(say, found) if found else say.text("called_trained_gone")
    return model_id


def model_names(say: Words, models: tuple[RegisteredModel, ...]) -> dict[str, str]:
    """Return the models that can be used by identifier, as `form.pick` takes them."""
    return {one.model_id: model_name(say, one.model_id) for one in models if not one.refusal}


def training_name(say: Words, model: TrainedModel) -> str:
    """Return what a model trained here is called: its title, or its parent and date."""
    at = day(model.facts.created)
    if title := model.facts.title:
        return say.text("called_titled", title=title, at=at)
    return say.text("called_trained", parent=model.facts.parent, at=at)


def list_name(say: Words, line: Line) -> str:
    """Return what a list of names or a file of passages is called."""
    if not line.at:
        return say.text(f"called_demo_{line.code.removeprefix('demo-')}")
    return line.label or say.text("called_untitled", at=day(line.at))


def corpus_name(say: Words, corpus: KeptCorpus) -> str:
    """Return what a corpus is called, with its size and date."""
    title = corpus.title or corpus.source
    return say.text("called_corpus", title=title, n=f"{corpus.n_notes:,}", at=day(corpus.created))


def corpus_of(model: TrainedModel) -> KeptCorpus | None:
    """Return the corpus that a model was trained on, if it is still kept."""
    wanted = model.facts.corpus_id
    return next((one for one in CORPORA.all() if wanted and one.corpus_id == wanted), None)


def notes_name(say: Words, model: TrainedModel) -> str:
    """Return which notes a model learned from."""
    source, corpus = say.text(f"called_source_{model.facts.source}"), corpus_of(model)
    name = corpus and (corpus.title or corpus.source)
    return say.text("called_notes_of", source=source, corpus=name) if corpus else source


def file_code(file: NoteFile) -> str:
    """Return what a link says of a file of notes: its name may hold a person's."""
    return salted_digest(f"notes {file.file_id}")[:12]


def file_names(say: Words, files: tuple[NoteFile, ...]) -> dict[str, str]:
    """Return files of notes by their code, each with its size, as `form.pick` takes them."""
    return {file_code(one): file_name(say, one) for one in files}


def file_name(say: Words, file: NoteFile) -> str:
    """Return what a file of notes is called."""
    if file.file_id == EXAMPLE:
        return say.text("called_example_file")
    return say.text("called_file", name=file.file_id, size=size_text(file.n_bytes))


def size_text(n_bytes: int) -> str:
    """Return a size in bytes as it is written for a reader."""
    if n_bytes < 1000:
        return f"{n_bytes} B"
    power = min(3, (len(str(n_bytes)) - 1) // 3)
    return f"{n_bytes / 1000**power:.{1 + (power == 3)}f} {('kB', 'MB', 'GB')[power - 1]}"


def state_name(say: Words, state: str, *, rule: int = RULE_VERSION) -> str:
    """Return what a verdict's state is called, with its rule where that is an older one."""
    name = say.text(f"state_{state}")
    return name if rule >= RULE_VERSION else say.text("called_state_of_rule", state=name, rule=rule)


def tagger_name(say: Words, tagger_id: str) -> str:
    """Return what a tagger is called."""
    names = tagger_names(tagger_id)
    if len(names) > 1:
        return " + ".join(tagger_name(say, name) for name in names)
    if tagger_id in (RULES, DEFAULT, *TITLES):
        return TITLES.get(tagger_id) or say.text(f"called_tagger_{tagger_id}")
    if tagger_id.startswith("/"):  # a folder that the command line named
        return PurePosixPath(tagger_id).name
    title = next((one.title for one in cached.taggers() if one.tagger_id == tagger_id), "")
    return say.text("called_tagger_titled", title=title) if title else say.text("called_tagger")


def label_name(say: Words, label: str) -> str:
    """Return what a label is called; one that is none of the five types is called as it is."""
    if label in TYPES:
        return say.text(f"called_type_{label}")
    if label in ("", "missed", "spurious"):
        return say.text(f"called_row_{label or 'all'}")
    return label


def score_name(say: Words, kept: Score) -> str:
    """Return what a score is called: its title, who was measured, on which notes, and when."""
    kind, ref = kept.gold.kind, kept.gold.ref
    given = f"called_example_{ref}" if kind == "example" else "called_gold_given"
    return say.text(
        "called_score",
        title=predicted_name(say, kept),
        gold=ref if kind == "file" else say.text(given),
        n=f"{kept.summary.n_documents:,}",
        at=day(kept.created),
    )


def predicted_name(say: Words, kept: Score) -> str:
    """Return what was measured, by its title and by where it comes from."""
    return " · ".join(filter(None, (kept.title, _predicted(say, kept))))


def _predicted(say: Words, kept: Score) -> str:
    kind, ref = kept.predicted.kind, kept.predicted.ref
    if kind == "tagger":
        return tagger_name(say, ref)
    if kind == "tagged":
        title = next((one.title for one in cached.marked_sets() if one.tagged_id == ref), "")
        name = tagger_name(say, kept.tagger["name"]) if kept.tagger["name"] else ""
        return " · ".join(filter(None, (title, name))) or say.text("called_predicted_tagged")
    return say.text(f"called_predicted_{kind}")


def kind_name(say: Words, kind: str) -> str:
    """Return what a kind of mark is called."""
    return catalogue(say.language, "policy")[f"kind_{kind}"]


def policy_name(say: Words, policy: Policy) -> str:
    """Return what a policy is called; a title of one's own is untrusted text."""
    if policy.is_ready_made:
        return say.text(f"deidentify_policy_{policy.title}")
    return say.text("called_own_policy", title=policy.title or say.text("deidentify_policy_own"))
