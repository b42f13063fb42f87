"""The Python interface: the calls of the command line and of the pages, for scripts and notebooks.

An installed package offers the names of `__all__` as `kart_audit.audit_pair` and so on; in a
checkout they are imported from here. Tables are DataFrames, figures are of plotly. Results are kept
in the data directory (`KART_AUDIT_HOME`), where the app and the command line find them. A question
that was answered before is not computed again. Bad input raises `AuditError`, whose text says what
is wrong, where, and what to do, and repeats no name and no text of a note.

Examples
--------
>>> from audit.home import DEMO_HOSPITAL
>>> models = DEMO_HOSPITAL / "en" / "models"
>>> names = pd.read_csv(DEMO_HOSPITAL / "en" / "names.csv", keep_default_na=False, dtype=str)
>>> audit_pair(
...     general=models / "general", hospital=models / "hospital-40", names=names, scenario=2
... )
Traceback (most recent call last):
...
audit.errors.AuditError: passages: Scenario 2 needs the passages of the de-identified notes...

>>> text = "Mr. John Smith was seen on 3 May 2021."
>>> name, date = Span(4, 14, "identifier"), Span(27, 37, "date")
>>> gold = [TaggedDocument("1", text, (name, date))]
>>> table = measure(gold, [TaggedDocument("1", text, (name,))])
>>> table.loc["strict", "recall"].to_dict()
{'identifier': 1.0, 'date': 0.0, '': 0.5}

>>> build_corpus(notes=DEMO_HOSPITAL / "notes.csv", title="Ward notes").n_notes
254
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas as pd
from numpy.typing import ArrayLike

from audit import access_log
from audit.attack.metrics import measure_scores
from audit.attack.question import AuditRequest, Dtype, GenerationSettings, PosteriorSettings
from audit.corpus.corpora import CORPORA, KeptCorpus
from audit.corpus.make import CorpusTask
from audit.deid.find.taggers import DEFAULT, load_tagger
from audit.deid.measure.score_report import SCORES, Source
from audit.deid.measure.scoring import ScoreTask
from audit.deid.measure.span_matching import COLUMNS
from audit.deid.measure.span_metrics import MEASURES, LabelScore
from audit.deid.redact.policy import ALL_OUT, find_policy
from audit.deid.redact.release import PLACEHOLDER, Release, Replacement
from audit.deid.sets.incoming_notes import keep_notes, keep_path
from audit.deid.sets.tagged_sets import tag_text
from audit.errors import AuditError
from audit.foreign import locate_errors, read_file_bytes
from audit.home import results_dir, stay_offline
from audit.jobs.foreground import answer_task
from audit.models.registry import resolve_model_path
from audit.names.candidates import Candidates, ControlSource
from audit.names.files import read_names
from audit.notes.formats import GOLD, PREDICTED
from audit.notes.passages import Passages, read_passages
from audit.notes.spans import Span, TaggedDocument
from audit.progress import ProgressListener
from audit.report import audit_store
from audit.report.export import write_report
from audit.report.figures import draw_scores
from audit.report.report import AuditReport as Report
from audit.run import AuditTask
from audit.stats import Estimate
from audit.task import Device
from cache.store import Store

__all__ = [
    "AuditError",
    "DeidentifiedText",
    "GenerationSettings",
    "PosteriorSettings",
    "Report",
    "Span",
    "TaggedDocument",
    "audit_pair",
    "build_corpus",
    "deidentify",
    "draw_scores",
    "measure",
    "save_report",
    "score",
]

Table = Path | str | pd.DataFrame
"""A file, or the same columns as a DataFrame."""
Notes = Path | str | Sequence[TaggedDocument]
"""A file or folder of notes with spans, or such notes."""


def audit_pair(
    *,
    general: Path | str,
    hospital: Path | str,
    names: Table,
    scenario: Literal[1, 2],
    passages: Table | None = None,
    control_source: ControlSource | None = None,
    generation: GenerationSettings | None = None,
    posterior: PosteriorSettings | None = None,
    seed: int = 0,
    dtype: Dtype = "auto",
    device: Device = "auto",
    progress: ProgressListener = lambda _: None,
) -> Report:
    """Audit a pair of models: is anybody of a list recognisable in the hospital's model?

    Parameters
    ----------
    general, hospital
        Directories of M_general and M_hospital (safetensors).
    names
        The list L of N candidates, as in `docs/names.md`; `is_member` may be unknown.
    scenario
        1: the attacker has the model (generation); 2: also the de-identified notes (section 3.1).
    passages
        Of the de-identified notes; needed in scenario 2.
    control_source
        Where the controls come from; None: as the list says.
    generation, posterior
        Settings of scenario 1 and of scenario 2; None: those of the paper.
    seed
        Of every draw: the same question with the same seed has the same digest and report.
    progress
        Is called with phase, share done (0-1) and seconds left.

    Returns
    -------
    Report
        `verdict`, `measures` (rates 0-1 with 95 % intervals) and `table`, a DataFrame of N rows
        with score, standard error, p and q of each name.
    """
    stay_offline()
    request = AuditRequest(
        scenario_number=scenario,
        general=resolve_model_path(str(general), option="general"),
        hospital=resolve_model_path(str(hospital), option="hospital"),
        candidates=_read_candidates(names, source=control_source),
        passages=_read_passages(passages) if scenario == 2 else None,
        generation=generation or GenerationSettings(),
        posterior=posterior or PosteriorSettings(),
        seed=seed,
        dtype=dtype,
        device=device,
    )
    (digest,) = answer_task(AuditTask(request=request), progress=progress)
    with Store(results_dir()) as store:
        return audit_store.read_report(digest, store=store)


def save_report(report: Report, *, out: Path | str) -> tuple[Path, ...]:
    """Write an audit's files as `audit run --out` does, and return their paths.

    The files hold full names, have mode 600, and the access log says that they were written.
    """
    access_log.record("exported", audit=report.digest, names="full")
    with Store(results_dir()) as store:
        documents = audit_store.read_documents(report.digest, store=store)
    return write_report(report, Path(out), documents=documents, seal=access_log.log_seal())


def score(
    scores: ArrayLike, is_member: ArrayLike, *, threshold: float | None = None, seed: int = 0
) -> pd.DataFrame:
    """Measure any scores of N names with known truth; needs no model.

    Parameters
    ----------
    scores
        [N], higher is more member-like; NaN is left out and counted.
    is_member
        [N], True or 1 for a member.
    threshold
        Names with a score above it are flagged, which adds the confusion table and its rates.
    seed
        Of the bootstrap.

    Returns
    -------
    pandas.DataFrame
        A row for each measure, with its value and 95 % interval: AUC, TPR at a FPR (rates 0-1),
        and counts. NaN is an undefined value, or one that so few controls cannot resolve.

    Raises
    ------
    AuditError
        If there is no member or no control with a score.

    Examples
    --------
    >>> measures = score([0.9, 0.4, 0.3, 0.1], [1, 1, 0, 0], threshold=0.5)
    >>> measures.loc[["auc", "recall", "n_controls"], "value"]
    auc           1.0
    recall        0.5
    n_controls    2.0
    Name: value, dtype: float64
    """
    measures = measure_scores(scores, is_member, seed=seed, threshold=threshold)
    ranking, counts = measures.ranking, measures.confusion
    estimates: dict[str, Estimate] = {"auc": ranking.auc}
    estimates |= {f"tpr_at_fpr_{fpr}": tpr for fpr, tpr in ranking.tpr_at_fpr.items()}
    numbers = {name: getattr(ranking, name) for name in ("n_members", "n_controls", "n_not_scored")}
    if counts is not None:
        estimates |= {name: getattr(counts, name) for name in ("accuracy", "precision", "recall")}
        numbers |= {"threshold": measures.threshold, "f1": counts.compute_f1()}
        numbers |= dict(zip(("tp", "fn", "fp", "tn"), counts.four, strict=True))
    rows = {name: (e.value, e.low, e.high) for name, e in estimates.items()}
    rows |= {name: (number, math.nan, math.nan) for name, number in numbers.items()}
    columns = ["value", "low", "high"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns, dtype=float)


@dataclass(frozen=True)
class DeidentifiedText:
    """A text whose spans are replaced.

    `text` is the released text; `document` is the note as it came in, with the spans that were
    replaced. Both `document` and `spans` hold text of the note.
    """

    text: str
    document: TaggedDocument
    replacements: tuple[Replacement, ...]

    @property
    def spans(self) -> pd.DataFrame:
        """A row for each span: `start` and `end` in the note (characters), label, replacement."""
        rows = [(r.start, r.end, r.label, r.text) for r in self.replacements]
        return pd.DataFrame(rows, columns=["start", "end", "label", "replacement"])


def deidentify(
    text: str,
    *,
    tagger: str = DEFAULT,
    policy: str = ALL_OUT.title,
    mode: str = PLACEHOLDER,
    doc_id: str = "1",
    patient_id: str | None = None,
    device: Device = "auto",
) -> DeidentifiedText:
    """De-identify one text, of 100,000 characters at most; it is kept nowhere.

    Parameters
    ----------
    text
        A note in English or Japanese.
    tagger
        "rules", "default", "trained/ID", an installed package, a folder, or several as "a+b".
    policy
        Name of a ready-made policy ("five-types", "safe-harbor") or the path of one.
    mode
        "placeholder", "mask" or "surrogate"; a key is drawn for surrogates and forgotten.
    doc_id, patient_id
        Of the returned `document`.

    Raises
    ------
    AuditError
        If the text is empty or too long, or if there is no such tagger or policy.

    Examples
    --------
    >>> note = deidentify("Mr. John Smith was seen on 3 May 2021.", tagger="rules")
    >>> note.text
    'Mr. [NAME] was seen on [DATE].'
    >>> note.spans[["start", "end", "replacement"]].values.tolist()
    [[4, 14, '[NAME]'], [27, 37, '[DATE]']]
    """
    stay_offline()
    released = tag_text(
        text,
        tagger=load_tagger(tagger, device=device),
        release=Release(mode=mode),
        policy=find_policy(policy),
    )
    document = TaggedDocument(
        doc_id, released.document.text, released.document.spans, patient_id=patient_id
    )
    return DeidentifiedText(released.released, document, released.replacements)


def measure(
    gold: Notes,
    predicted: Notes,
    *,
    policy: str = ALL_OUT.title,
    has_five_types: bool = False,
    label_map: Mapping[str, str] | None = None,
    seed: int = 0,
    title: str = "",
) -> pd.DataFrame:
    """Measure predicted spans against gold spans of the same notes, which `doc_id` pairs.

    Parameters
    ----------
    gold, predicted
        Notes with spans, or a file or folder of them: JSONL, i2b2 XML, CoNLL, brat, or the folder
        that `deid tag` wrote.
    policy
        Only marks that it takes out count, on both sides.
    has_five_types
        Map the labels of i2b2 2014, MEDDOCAN and others to the five types first.
    label_map
        Further labels to map; "" leaves their spans out.
    seed
        Of the bootstrap over patients.

    Returns
    -------
    pandas.DataFrame
        A row for each criterion and label ("": all together): counts of spans and notes, and
        precision, recall, F1 and shares of notes (0-1) with 95 % intervals; NaN if undefined.

    Raises
    ------
    AuditError
        If notes cannot be read, differ in their texts, or no note is on both sides.
    """
    task = ScoreTask(
        gold=_keep_spans(gold, subject=GOLD),
        predicted=_keep_spans(predicted, subject=PREDICTED),
        policy=find_policy(policy),
        has_five_types=has_five_types,
        label_map=dict(label_map or {}),
        seed=seed,
        title=title,
    )
    (score_id,) = answer_task(task)
    rows = {
        (criterion, label): _flatten(line)
        for criterion, measured in SCORES.get(score_id).summary.criteria.items()
        for label, line in measured.lines.items()
    }
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index = pd.MultiIndex.from_tuples(rows, names=["criterion", "label"])
    return table


def build_corpus(
    *,
    notes: Path | str,
    out: Path | str | None = None,
    register: Path | str | None = None,
    title: str = "",
    canary_counts: Sequence[int] = (),
    hold_out: str = "",
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
    sample: int | None = None,
    tokenizer: Path | str | None = None,
    workers: int = 1,
    progress: ProgressListener = lambda _: None,
) -> KeptCorpus:
    """Build D_private, D_public and the truth from a hospital's notes (`docs/corpus.md`).

    Parameters
    ----------
    notes
        NOTEEVENTS.csv(.gz), discharge.csv(.gz), CSV, JSONL, Parquet, or a folder of .txt.
    out
        A new folder; None: among the corpora of this installation.
    register
        The hospital's patients, if the notes are identified.
    canary_counts
        Plant invented names so many times each; as many twins are left out.
    hold_out
        Share ("10%") or number ("200") of patients who are kept out, as controls of an audit.
    columns
        Field -> the column of the notes that holds it, where its name does not say so.
    tokenizer
        General model; names must be single tokens of it, as in the paper (section 3.4).
    sample, seed, workers
        Notes to draw at random, seed of every draw, and processes, which change nothing.

    Returns
    -------
    KeptCorpus
        Its `path` holds the files; `n_notes` and `n_patients` count notes and people.
    """
    task = CorpusTask(
        notes=Path(notes),
        out=Path(out) if out else None,
        title=title,
        canary_counts=tuple(canary_counts),
        hold_out=hold_out,
        seed=seed,
        register_file=Path(register) if register else None,
        columns=tuple((columns or {}).items()),
        sample=sample,
        tokenizer=Path(tokenizer) if tokenizer else None,
        workers=workers,
    )
    if task.out:
        access_log.record("exported", what="corpus", names="full")
    (corpus_id,) = answer_task(task, progress=progress)
    return CORPORA.read_folder(task.out) if task.out else CORPORA.get(corpus_id)


def _read_table(table: Table, *, subject: str) -> bytes:
    """Return a table as the content of a CSV file, or the content of its file."""
    if isinstance(table, pd.DataFrame):
        return table.to_csv(index=False).encode()
    with locate_errors(subject):
        return read_file_bytes(Path(table))


def _read_candidates(names: Table, *, source: ControlSource | None) -> Candidates:
    candidates = read_names(_read_table(names, subject="names"), subject="names").candidates
    return candidates if source is None else candidates.with_source(source)


def _read_passages(passages: Table | None) -> Passages | None:
    if passages is None:
        return None
    name = "passages.csv" if isinstance(passages, pd.DataFrame) else Path(passages).name
    content = _read_table(passages, subject="passages")
    return read_passages(content, subject="passages", file_name=name)


def _keep_spans(notes: Notes, *, subject: str) -> Source:
    if isinstance(notes, str | Path):
        return Source(kind="given", ref=keep_path(Path(notes), subject=subject))
    return Source(kind="given", ref=keep_notes(notes).digest)


def _flatten(line: LabelScore) -> dict[str, float]:
    """Return counts first, then each measure with the ends of its interval."""
    row: dict[str, float] = {name: getattr(line, name) for name in COLUMNS}
    for name in MEASURES:
        estimate = line.estimate(name)
        row |= {name: estimate.value, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
    return row
