"""The Workshop's trainings: which model learned from which notes, live curves, and a new one."""

from __future__ import annotations

import math

import streamlit as st

from audit.corpus.kept import CORPORA, KeptCorpus
from audit.errors import AuditError
from audit.jobs import service
from audit.jobs.table import Job, read_order
from audit.models.inspect import LABEL
from audit.models.registry import DEMO_PREFIX, RegisteredModel, find_model
from audit.pretrain import PretrainTask
from audit.shelf import MAX_TITLE_CHARS
from audit.tables import decimal
from audit.task import queue_of
from audit.training.config import LossCurve, loss_curve, read_losses
from audit.training.kept import (
    MODELS,
    PRESETS,
    NotesLoad,
    TrainedModel,
    TrainingPlan,
    make_training_plan,
    parent_of,
    preset,
    trained_on,
)
from audit.words import Words
from pages.ui import blocks, cached, charts
from pages.ui.access import may_or_say, note
from pages.ui.blocks import day, refused
from pages.ui.called import (
    corpus_name,
    corpus_of,
    model_name,
    model_names,
    notes_name,
    training_name,
)
from pages.ui.charts import Axis, Series
from pages.ui.corpus import to_audit
from pages.ui.form import ask, pick
from pages.ui.running import FollowedJobs
from pages.ui.section import (
    Table,
    csv_button,
    details,
    empty,
    facts,
    figure,
    head,
    refusals,
    remark,
    removal,
)  # fmt: skip
from pages.ui.state import choose, go_to, link

SOURCES = ("private", "public", "other_names")
LENGTH = ("n_epochs", "n_steps")
REST = (
    "n_tokens", "learning_rate", "batch", "head_learning_rate", "micro_batch", "warmup_share",
    "evaluate_every", "weight_decay", "checkpoint_every", "mask_share", "seed", "held_out_share",
    "from_scratch", "clip", "schedule", "precision",
)  # fmt: skip
MANY_EPOCHS, FEW_EPOCHS, N_SHOWN = 50, 0.5, 12


def _done(say: Words, run_id: str) -> None:
    st.query_params["run"] = run_id


JOBS = FollowedJobs(kind=PretrainTask.job, page="train", on_done=_done)


def draw(say: Words) -> None:
    """Draw the training that the link names or that runs, the list, and a new one."""
    remark(say, "train_below")
    trainings = MODELS.all()
    JOBS.draw(say)
    live = [_run_of(job) for job in service.active_jobs() if job.kind == PretrainTask.job]
    asked = st.query_params.get("run", "")
    for run_id in (run for run in live if asked in ("", run)):
        _draw_live(say, run_id)
    model = next((one for one in trainings if one.run_id == asked), None)
    if model is not None and asked not in live:
        draw_training(say, model)
    elif asked and asked not in live:
        empty(say, "train_not_here")
    if trainings or not live:
        draw_list(say, trainings)
    draw_new(say)


def _run_of(job: Job) -> str:
    """Return the identifier of the training that a job works on; "" where it is not known."""
    try:
        return str(read_order(job.job_id).get("run_id", ""))
    except AuditError:
        return ""


def _draw_live(say: Words, run_id: str) -> None:
    """Draw what is known of a training that runs, anew each second."""

    def now() -> None:
        with refusals(say):
            found = next((one for one in MODELS.all() if one.run_id == run_id), None)
            if found is not None:
                draw_facts(say, found)
                draw_curve(say, found)

    st.fragment(now, run_every="1s")()


# One training, and the list of all.


def draw_training(say: Words, model: TrainedModel) -> None:
    """Draw a training that has ended, or stands still."""
    st.html(blocks.heading(training_name(say, model)))
    draw_facts(say, model)
    draw_curve(say, model)
    if model.is_whole:
        _draw_ways_on(say, model)
    else:
        remark(say, "train_unfinished")
        link("jobs", label=say.text("train_see_jobs"))

    def remove() -> None:
        MODELS.forget(model.run_id)
        note("removed", what="trained-model", run=model.run_id)

    removal(say, "train_forget", remove, leaves="run")


def draw_facts(say: Words, model: TrainedModel) -> None:
    """Draw what a model learned, from which notes, and how."""
    known, settings = model.facts, model.facts.settings
    rows = {
        "parent": _start_name(say, known.parent, from_scratch=settings.from_scratch),
        "notes": notes_name(say, model),
        "text": say.text(
            "train_fact_amount", n_notes=f"{known.n_documents:,}",
            n_tokens=f"{known.n_train_tokens:,}", n_held_out=f"{known.n_held_out_documents:,}",
        ),
        "how": say.text(
            "train_fact_rows", batch=f"{settings.batch:,}", n_tokens=f"{settings.n_tokens:,}",
            rate=f"{settings.learning_rate:g}",
        ),
        "length": say.text(
            "train_fact_done", n=f"{model.n_steps_done:,}", total=f"{known.n_steps:,}",
            epochs=_epochs(model.n_epochs_done),
        ),
        "numbers": f"{known.device} · {known.precision}",
        "created": day(known.created),
    }  # fmt: skip
    _facts(say, rows, caption="train_fact_caption")
    with details(say, f"train_{model.run_id}"):
        st.code(f"{LABEL}/{model.run_id}", language=None)


def _facts(say: Words, rows: dict[str, str], *, caption: str) -> None:
    pairs = [(say.text(f"train_fact_{key}"), value) for key, value in rows.items()]
    facts(say, pairs, caption=say.text(caption))


def _start_name(say: Words, name: str, *, from_scratch: bool) -> str:
    return say.text("train_fact_scratch", name=name) if from_scratch else name


def _epochs(n: float) -> str:
    return f"{n:,.0f}" if n >= 10 else decimal(n, digits=2)


def draw_curve(say: Words, model: TrainedModel) -> None:
    """Draw the loss curve, what it says, and its table."""
    points, known = read_losses(MODELS.place(model.run_id)), model.facts
    if not points:
        remark(say, "train_curve_nothing")
        return
    curve = loss_curve(
        points, n_steps=known.n_steps, unigram=known.unigram_loss,
        steps_per_epoch=known.settings.n_rows(known.n_train_tokens) / known.settings.batch,
    )  # fmt: skip
    first, last = curve.held_out[:1], curve.held_out[-1:]
    step, lowest = curve.lowest
    sentence = say.text(
        f"train_state_{curve.state}",
        first=decimal(first[0][1] if first else math.nan),
        last=decimal(last[0][1] if last else math.nan),
        lowest=decimal(lowest), step=f"{step:,}", unigram=decimal(curve.unigram),
    )  # fmt: skip
    st.html(blocks.heading(say.text("train_curve"), below=sentence))
    smoothed = dict(zip(curve.steps, curve.smoothed, strict=True))
    rows = []
    for step, held_out in curve.held_out:
        before = [one for one in curve.steps if one <= step]
        near = smoothed[before[-1]] if before else math.nan
        epochs = _epochs(curve.epochs(step))
        rows.append((f"{step:,}", epochs, decimal(held_out), decimal(near)))
    header = [say.text(f"train_column_{c}") for c in ("step", "epochs", "held_out", "loss")]
    chart, table = loss_chart(say, curve), Table(header, rows, n_text=0)
    figure(say, "train_curve", chart, table=table, of=model.run_id)
    columns = ("step", "loss", "held_out", "learning_rate", "seconds")
    lines = [[getattr(point, one) for one in columns] for point in points]
    csv_button(say, f"losses_{model.run_id}", columns, lines, label="train_curve_csv")


def loss_chart(say: Words, curve: LossCurve) -> charts.go.Figure:
    """Return losses by step, epochs written under them; rust is what the notes taught."""
    words = {key: say.text(f"train_curve_{key}") for key in ("loss", "smoothed", "held_out")}
    hover, ends = "%{x:,} · %{y:.3f}", [0, max(1, curve.n_steps)]
    series = [
        Series(words["loss"], curve.steps, curve.losses, hover=hover, dash="dot"),
        Series(words["smoothed"], curve.steps, curve.smoothed, hover=hover, dash="solid"),
        Series(words["held_out"], [step for step, _ in curve.held_out],
               [loss for _, loss in curve.held_out], is_attack=True, hover=hover),
    ]  # fmt: skip
    if not math.isnan(curve.unigram):
        name = say.text("train_curve_unigram")
        series.append(Series(name, ends, [curve.unigram] * 2, dash="dash", hover="%{y:.3f}"))
    steps = [round(ends[1] * share) for share in (0, 0.25, 0.5, 0.75, 1)]
    ticks = {
        step: f"{step:,}\n{_epochs(curve.epochs(step))}" for step in dict.fromkeys(steps)
        if not math.isnan(curve.steps_per_epoch)
    }  # fmt: skip
    return charts.plot(
        series,
        x=Axis(say.text("train_curve_x"), range=(0, 1.01 * ends[1]), ticks=ticks or None,
               has_grid=False),
        y=Axis(say.text("train_curve_y")),
    )  # fmt: skip


def _draw_ways_on(say: Words, model: TrainedModel) -> None:
    """Draw the button that leads to an audit, by what the model learned from."""
    is_hospital = model.facts.source in ("private", "file")
    kind = "hospital" if is_hospital else "reference"
    hospital = model if is_hospital else trained_on(model.facts.corpus_id or "")
    remark(say, f"train_audit_{kind}_why")
    if hospital is None:
        remark(say, "train_audit_no_hospital")
        return
    if not st.button(
        say.text(f"train_audit_{kind}"), key=f"train_audit_{model.run_id}", type="primary",
        icon=":material/fact_check:",
    ):  # fmt: skip
        return
    parent = parent_of(hospital, among=cached.models())
    general = (parent.model_id if parent else "") if is_hospital else f"{LABEL}/{model.run_id}"
    models = {"general": general, "hospital": f"{LABEL}/{hospital.run_id}"}
    corpus = corpus_of(hospital)
    if corpus is None:  # a list of other notes would not fit
        go_to("audit", names="", passages="", **models)
    else:
        to_audit(say, corpus, **models)


def draw_list(say: Words, trainings: tuple[TrainedModel, ...]) -> None:
    """Draw the trainings, the newest first, each with a link to its curve."""
    if not trainings:
        empty(say, "train_list_empty")
        return
    head(say, "train_list")
    n = len(trainings) if st.session_state.get("train_all") else N_SHOWN
    for model in trainings[:n]:
        left, right = st.columns([6, 1], vertical_alignment="center")
        is_here = model.run_id == st.query_params.get("run", "")
        with left:
            line = _facts_line(say, model)
            st.html(blocks.line(training_name(say, model), line, is_strong=is_here))
        with right:
            if is_here:
                remark(say, "train_shown")
            else:
                link("workshop", label=say.text("train_open"), tab="training", run=model.run_id)
    n_more = len(trainings) - n
    if n_more > 0 and st.button(say.text("train_show_all", n=n_more), key="train_show_all_button"):
        st.session_state["train_all"] = True
        st.rerun()


def _facts_line(say: Words, model: TrainedModel) -> str:
    known = model.facts
    pieces = [
        notes_name(say, model),
        _start_name(say, known.parent, from_scratch=known.settings.from_scratch),
        say.text("train_line_epochs", n=_epochs(model.n_epochs_done)),
    ]
    if model.held_out is not None:
        first = math.nan if model.first_held_out is None else model.first_held_out
        losses = {"first": decimal(first), "last": decimal(model.held_out)}
        pieces.append(say.text("train_line_loss", **losses))
    if not model.is_whole:
        pieces.append(say.text("train_line_unfinished"))
    return " · ".join([*pieces, day(known.created)])


# A new training.


def draw_new(say: Words) -> None:
    """Draw what can be trained, how, what that takes, and the button that starts it."""
    head(say, "train_new")
    if not may_or_say("ran", say):
        return
    corpora = {one.corpus_id: one for one in CORPORA.all()}
    if not corpora:
        empty(say, "train_no_corpus")
        label = say.text("train_to_corpus")
        link("workshop", label=label, icon=":material/arrow_forward:", tab="corpus", show="build")
        return
    left, right = st.columns([3, 2], gap="large")
    try:
        with left:
            parent, corpus, source = _ask_subject(say, corpora)
            if parent is None or corpus is None:
                return
            code = choose(
                "preset", PRESETS, label=say.text("train_preset"),
                shown=lambda one: say.text(f"train_preset_{one}"),
                why=lambda one: say.text(f"train_preset_why_{one}"),
            )  # fmt: skip
            title = st.text_input(
                say.text("train_set_title"), help=say.text("train_help_title"), key="train_title",
                max_chars=MAX_TITLE_CHARS,
            )  # fmt: skip
            with st.spinner(say.text("train_counting")):
                load = cached.text_load(corpus, source=source, model=parent.path)
            assert parent.summary is not None
            usual = preset(code, parent=parent.summary, n_tokens=load.n_tokens)
            task = _ask_task(
                say,
                PretrainTask(general=parent.path, settings=usual, corpus_id=corpus.corpus_id,
                             source=source, title=" ".join(title.split())),
                key=f"{code}_{load.n_tokens}",
            )  # fmt: skip
        with right, st.container(border=True, key="train_plan"):
            st.html(blocks.heading(say.text("train_plan")))
            plan = make_training_plan(task.settings, parent=parent.summary, load=load)
            _draw_plan(say, plan, task, parent=parent, corpus=corpus, load=load)
            if st.button(
                say.text("train_start"), key="train_start", type="primary", width="stretch",
                icon=":material/play_arrow:",
            ):  # fmt: skip
                with st.spinner(say.text("train_starting")):
                    JOBS.start(task.question(), n_steps=plan.n_steps, n_notes=load.n_notes)
                st.query_params.pop("run", None)
                st.rerun()
    except AuditError as error:
        refused(say, error)


def _ask_subject(
    say: Words, corpora: dict[str, KeptCorpus]
) -> tuple[RegisteredModel | None, KeptCorpus | None, str]:
    names = model_names(say, cached.models())
    demo = [code for code in names if code.startswith(DEMO_PREFIX)]
    own = [code for code in names if code not in demo and not code.startswith(f"{LABEL}/")]
    parent = pick(
        say, "parent", names, label=say.text("train_parent"), help=say.text("train_parent_help"),
        usual=demo[0] if demo and not own else "",
    )  # fmt: skip
    corpus = pick(
        say, "corpus", {code: corpus_name(say, one) for code, one in corpora.items()},
        label=say.text("train_corpus"), help=say.text("train_corpus_help"),
        usual=next(iter(corpora)),
    )  # fmt: skip
    source = choose(
        "source", SOURCES, label=say.text("train_source"),
        shown=lambda one: say.text(f"called_source_{one}"),
        why=lambda one: say.text(f"train_source_why_{one}"),
    )  # fmt: skip
    return find_model(parent, among=cached.models()), corpora.get(corpus), source


def _ask_task(say: Words, usual: PretrainTask, *, key: str) -> PretrainTask:
    """Ask for the length and, if somebody looks, for every setting.

    An empty box of passes leaves the length to the steps. Raises `AuditError` if no training can
    have the settings.
    """
    settings = usual.settings
    found = ask(say, settings, words="train", fields=LENGTH, key=f"train_{key}")
    with st.expander(say.text("train_details"), key="train_details"):
        remark(say, "train_details_below")
        found |= ask(say, settings, words="train", fields=REST, key=f"train_{key}")
        device = ask(say, usual, words="train", fields=("device",), key="train_device")
    return usual.with_(settings=settings.with_(**found), **device)


def _draw_plan(
    say: Words, plan: TrainingPlan, task: PretrainTask, *, parent: RegisteredModel,
    corpus: KeptCorpus, load: NotesLoad,
) -> None:  # fmt: skip
    """Draw the plan as a table, and what to think of it."""
    settings, about = task.settings, "" if load.is_exact else "_about"
    source = say.text(f"called_source_{task.source}")
    rows = {
        "parent": _start_name(
            say, model_name(say, parent.model_id), from_scratch=settings.from_scratch
        ),
        "notes": say.text("called_notes_of", source=source, corpus=corpus_name(say, corpus)),
        "text": say.text(
            f"train_plan_tokens{about}", n_notes=f"{load.n_notes:,}", n_tokens=f"{load.n_tokens:,}"
        ),
        "plan_length": say.text(
            "train_plan_steps", n=f"{plan.n_steps:,}", epochs=_epochs(plan.n_epochs),
            per_epoch=f"{math.ceil(plan.steps_per_epoch):,}",
        ),
        "how": say.text(
            "train_fact_rows", batch=f"{settings.batch:,}", n_tokens=f"{settings.n_tokens:,}",
            rate=f"{settings.learning_rate:g}",
        ),
        "plan_device": say.text(f"train_device_{queue_of(task.device)}"),
    }  # fmt: skip
    _facts(say, rows, caption="train_plan_caption")
    if plan.n_epochs > MANY_EPOCHS:
        remark(say, "train_many", n=f"{plan.n_epochs:,.0f}")
    elif plan.n_epochs < FEW_EPOCHS:
        remark(say, "train_few")
