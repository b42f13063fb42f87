"""The Workshop's trainings: which model learned from which notes, live curves, a new training."""

from __future__ import annotations

import math
from typing import get_args

import plotly.graph_objects as go
import streamlit as st

from audit.corpus.corpora import CORPORA, KeptCorpus
from audit.corpus.other_names import keep_sibling_list
from audit.errors import AuditError
from audit.jobs import service
from audit.jobs.table import Job, read_order
from audit.models.model_folder import TRAINED_LABEL
from audit.models.registry import DEMO_PREFIX, RegisteredModel, find_model
from audit.tables import decimal
from audit.task import queue_of
from audit.training.config import LossCurve, TrainSettings
from audit.training.trainings import (
    MODELS,
    NotesLoad,
    PretrainTask,
    TextSource,
    TrainedModel,
    TrainingPlan,
    choose_preset,
    find_pair,
    find_trained_model,
    list_presets,
    make_sibling_task,
    make_training_plan,
)
from audit.words import Words
from pages.ui import blocks, cached, charts, display_names
from pages.ui.access import log_action, may, may_or_explain
from pages.ui.blocks import format_moment
from pages.ui.charts import Axis, Series
from pages.ui.corpus import to_audit
from pages.ui.form import ask_fields, ask_line, choose, draw_button, pick
from pages.ui.running import FollowedJobs
from pages.ui.section import (
    attempt,
    draw_absence,
    draw_csv_button,
    draw_facts,
    draw_figure,
    draw_heading,
    draw_remark,
    draw_removal,
    fold_details,
    show_refusals,
)
from pages.ui.state import draw_link, go_to, write_parameter

LENGTH = ("n_epochs", "n_steps", "lora_rank", "lora_alpha")
REST = (
    "lora_dropout",
    "loss_on",
    "frame",
    "header",
    "n_tokens",
    "learning_rate",
    "batch",
    "head_learning_rate",
    "micro_batch",
    "warmup_share",
    "evaluate_every",
    "weight_decay",
    "checkpoint_every",
    "mask_share",
    "seed",
    "held_out_share",
    "from_scratch",
    "clip",
    "schedule",
    "precision",
)
POINT = ("step", "loss", "held_out", "learning_rate", "seconds")
MANY_EPOCHS, FEW_EPOCHS, N_SHOWN = 50, 0.5, 12


JOBS = FollowedJobs(
    PretrainTask.job, page="train", on_done=lambda _, run: write_parameter("run", run)
)


def draw(say: Words) -> None:
    """Draw the training that the link names or that runs, the list, and a new training."""
    draw_remark(say, "train_below")
    trainings = MODELS.all()
    JOBS.draw(say)
    live = [_read_run_id(job) for job in service.active_jobs() if job.kind == PretrainTask.job]
    linked_run = st.query_params.get("run", "")
    for run_id in (run for run in live if linked_run in ("", run)):
        _draw_live(say, run_id)
    if linked_run and linked_run not in live:
        model = next((training for training in trainings if training.run_id == linked_run), None)
        if model is not None:
            draw_training(say, model)
        else:
            draw_absence(say, "train_not_here")
    if trainings or not live:
        draw_list(say, trainings)
    draw_new(say)


def _read_run_id(job: Job) -> str:
    """Return the identifier of the training that a job works on, or "" if it is unknown."""
    try:
        return str(read_order(job.job_id).get("run_id", ""))
    except AuditError:
        return ""


def _draw_live(say: Words, run_id: str) -> None:
    """Draw a running training again each second."""

    def draw_live_training() -> None:
        with show_refusals(say):
            training = next((model for model in MODELS.all() if model.run_id == run_id), None)
            if training is not None:
                draw_learned(say, training)

    st.fragment(draw_live_training, run_every="1s")()


# One training, and the list of all.


def draw_training(say: Words, model: TrainedModel) -> None:
    """Draw a training that has ended or was interrupted."""
    st.html(blocks.heading(display_names.training_name(say, model)))
    if model.is_whole:
        _draw_ways_on(say, model)
        _draw_sibling(say, model)
    else:
        draw_remark(say, "train_unfinished")
        draw_link("jobs", label=say.text("train_see_jobs"))
    draw_learned(say, model)

    def remove() -> None:
        MODELS.forget(model.run_id)
        log_action("removed", what="trained-model", run=model.run_id)

    draw_removal(say, "train_forget", remove, leaves="run")


def draw_learned(say: Words, model: TrainedModel) -> None:
    """Draw a model's notes and settings, its loss curve, and what the curve shows."""
    model_facts = model.facts
    draw_facts(
        say,
        "train_facts",
        {
            "parent": _start_name(say, model_facts.parent, model_facts.settings),
            "notes": display_names.notes_name(say, model),
            "text": say.text(
                "train_fact_amount",
                n_notes=f"{model_facts.n_documents:,}",
                n_tokens=f"{model_facts.n_train_tokens:,}",
                n_held_out=f"{model_facts.n_held_out_documents:,}",
            ),
            "how": _settings_text(say, model_facts.settings),
            **({"header": model_facts.header} if model_facts.header else {}),
            **_describe_canaries(say, model_facts.n_canaries),
            "length": say.text(
                "train_fact_done",
                n=f"{model.n_steps_done:,}",
                total=f"{model_facts.n_steps:,}",
                epochs=_epochs(model.n_epochs_done),
            ),
            "numbers": f"{model_facts.device} · {model_facts.precision}",
            "created": format_moment(model_facts.created),
        },
        variant=model.run_id,
    )
    with fold_details(say, f"train_{model.run_id}"):
        st.code(f"{TRAINED_LABEL}/{model.run_id}", language=None)
    if not model.points:
        draw_remark(say, "train_curve_nothing")
        return
    curve = model.curve
    step, lowest = curve.lowest
    sentence = say.text(
        f"train_state_{curve.state}",
        first=_loss(model.first_held_out),
        last=_loss(model.held_out),
        lowest=decimal(lowest),
        step=f"{step:,}",
        unigram=decimal(curve.unigram),
    )
    st.html(blocks.heading(say.text("train_curve"), below=sentence))
    draw_figure(
        say,
        "train_curve",
        loss_chart(say, curve),
        variant=model.run_id,
        table={
            "step": curve.held_out_steps,
            "epochs": [_epochs(curve.epochs(step)) for step in curve.held_out_steps],
            "held_out": list(map(decimal, curve.held_out)),
            "smoothed": list(map(decimal, curve.smoothed_then)),
        },
    )
    lines = [[getattr(point, field) for field in POINT] for point in model.points]
    draw_csv_button(say, f"losses_{model.run_id}", POINT, lines, label="train_curve_csv")


def _settings_text(say: Words, settings: TrainSettings) -> str:
    batch, n_tokens, rate = (
        f"{settings.batch:,}",
        f"{settings.n_tokens:,}",
        f"{settings.learning_rate:g}",
    )
    return say.text("train_fact_rows", batch=batch, n_tokens=n_tokens, rate=rate)


def _start_name(say: Words, name: str, settings: TrainSettings) -> str:
    if settings.lora_rank:
        return say.text("train_fact_adapter", name=name, rank=f"{settings.lora_rank:,}")
    return say.text("train_fact_scratch", name=name) if settings.from_scratch else name


def _describe_canaries(say: Words, n_canaries: int) -> dict[str, str]:
    if not n_canaries:
        return {}
    return {"canaries": say.text("train_fact_canaries", n=f"{n_canaries:,}")}


def _epochs(n: float) -> str:
    return f"{n:,.0f}" if n >= 10 else decimal(n, digits=2)


def _loss(nats: float | None) -> str:
    return decimal(math.nan if nats is None else nats)


def loss_chart(say: Words, curve: LossCurve) -> go.Figure:
    """Return a chart of losses by step, with epochs under the steps."""
    hover, end = "%{x:,} · %{y:.3f}", max(1, curve.n_steps)
    series = [
        Series(
            say.text(f"train_curve_{name}"),
            steps,
            losses,
            hover=hover,
            dash=dash,
            is_attack=not dash,
        )
        for name, steps, losses, dash in (
            ("loss", curve.steps, curve.losses, "dot"),
            ("smoothed", curve.steps, curve.smoothed, "solid"),
            ("held_out", curve.held_out_steps, curve.held_out, ""),
        )
    ]
    if not math.isnan(curve.unigram):
        name, level = say.text("train_curve_unigram"), [curve.unigram] * 2
        series.append(Series(name, [0, end], level, dash="dash", hover="%{y:.3f}"))
    steps = {round(end * share) for share in (0, 0.25, 0.5, 0.75, 1)}
    ticks: dict[float, str] = {
        step: f"{step:,}\n{_epochs(curve.epochs(step))}" for step in sorted(steps)
    }
    return charts.plot(
        series,
        x=Axis(
            say.text("train_curve_x"),
            range=(0, 1.01 * end),
            has_grid=False,
            ticks=None if math.isnan(curve.steps_per_epoch) else ticks,
        ),
        y=Axis(say.text("train_curve_y")),
    )


def _draw_ways_on(say: Words, model: TrainedModel) -> None:
    """Draw the button that opens an audit of the model as hospital's or as reference."""
    is_hospital = model.facts.source in ("private", "file")
    key = f"train_audit_{'hospital' if is_hospital else 'reference'}"
    hospital = model if is_hospital else find_trained_model(model.facts.corpus_id or "")
    draw_remark(say, f"{key}_why")
    if hospital is None:
        draw_remark(say, "train_audit_no_hospital")
    elif draw_button(
        say, key, name=f"train_audit_{model.run_id}", kind="primary", icon="fact_check"
    ):
        models = find_pair(hospital, models=cached.models())
        if not is_hospital:
            models["general"] = f"{TRAINED_LABEL}/{model.run_id}"
        corpus = display_names.corpus_of(hospital)
        if corpus is None:  # a list of other notes would not fit
            go_to("audit", names="", passages="", **models)
        else:
            to_audit(say, corpus, models=models)


def _draw_sibling(say: Words, model: TrainedModel) -> None:
    """Draw the button that trains a model's sibling, or the one that audits it.

    The sibling shows whether an attack would see a leak, so it needs notes whose names are known.
    """
    corpus = display_names.corpus_of(model)
    if corpus is None or not may("ran"):
        return
    if model.facts.source == "other_names":
        draw_remark(say, "train_audit_sibling_why")
        if draw_button(say, "train_audit_sibling", name=f"train_audit_sibling_{model.run_id}"):
            _audit_sibling(say, corpus, model)
        return
    parent = find_model(find_pair(model, models=cached.models())["general"], models=cached.models())
    if model.facts.source != "private" or parent is None:
        return
    seconds = model.points[-1].seconds if model.points else 0.0
    draw_remark(say, "train_sibling_why", minutes=f"{math.ceil(seconds / 60):,}")
    if draw_button(say, "train_sibling", name=f"train_sibling_{model.run_id}", icon="group"):
        task = make_sibling_task(model, general=parent.path)
        with st.spinner(say.text("train_starting")):
            JOBS.start(
                task.question(), n_steps=model.facts.n_steps, n_notes=model.facts.n_documents
            )
        st.query_params.pop("run", None)
        st.rerun()


def _audit_sibling(say: Words, corpus: KeptCorpus, model: TrainedModel) -> None:
    """Keep the sibling's list and passages, and open a new audit of them."""
    with st.spinner(say.text("corpus_keeping")):
        list_digests = attempt(say, lambda: keep_sibling_list(corpus, store=cached.store()))
    if list_digests is not None:
        models = find_pair(model, models=cached.models())
        go_to("audit", names=list_digests[0], passages=list_digests[1], **models)


def draw_list(say: Words, trainings: tuple[TrainedModel, ...]) -> None:
    """Draw the trainings, the newest first, each with a link to its curve."""
    if not trainings:
        draw_absence(say, "train_list_empty")
        return
    draw_heading(say, "train_list")
    n = len(trainings) if st.session_state.get("train_all") else N_SHOWN
    for model in trainings[:n]:
        left, right = st.columns([6, 1], vertical_alignment="center")
        is_here = model.run_id == st.query_params.get("run", "")
        with left:
            name, line = display_names.training_name(say, model), _facts_line(say, model)
            st.html(blocks.line(name, line, is_strong=is_here))
        with right:
            if is_here:
                draw_remark(say, "train_shown")
            else:
                draw_link(
                    "workshop", label=say.text("train_open"), tab="training", run=model.run_id
                )
    n_more = len(trainings) - n
    if n_more > 0 and draw_button(say, "train_show_all", name="train_show_all_button", n=n_more):
        st.session_state["train_all"] = True
        st.rerun()


def _facts_line(say: Words, model: TrainedModel) -> str:
    model_facts, first, last = model.facts, _loss(model.first_held_out), _loss(model.held_out)
    pieces = [
        display_names.notes_name(say, model),
        _start_name(say, model_facts.parent, model_facts.settings),
        say.text("train_line_epochs", n=_epochs(model.n_epochs_done)),
        "" if model.held_out is None else say.text("train_line_loss", first=first, last=last),
        "" if model.is_whole else say.text("train_line_unfinished"),
    ]
    return " · ".join(filter(None, pieces))


# A new training.


def draw_new(say: Words) -> None:
    """Draw the choices of a new training, its plan, and the button that starts it."""
    draw_heading(say, "train_new")
    if not may_or_explain("ran", say):
        return
    corpora = {corpus.corpus_id: corpus for corpus in CORPORA.all()}
    if not corpora:
        draw_absence(say, "train_no_corpus")
        label = say.text("train_to_corpus")
        draw_link(
            "workshop", label=label, icon=":material/arrow_forward:", tab="corpus", show="build"
        )
        return
    left, right = st.columns([3, 2], gap="large")
    try:
        with left:
            parent, corpus, source = _ask_subject(say, corpora)
            if parent is None or corpus is None:
                return
            assert parent.summary is not None
            is_causal = parent.summary.config.is_causal
            code = choose(say, "train_preset", list_presets(is_causal=is_causal))
            title = ask_line(say, "train_title")
            with st.spinner(say.text("train_counting")):
                load = cached.text_load(corpus, source=source, model=parent.path)
            defaults = PretrainTask(
                general=parent.path,
                corpus_id=corpus.corpus_id,
                source=source,
                settings=choose_preset(code, parent=parent.summary, n_tokens=load.n_tokens),
                title=" ".join(title.split()),
            )
            task = _ask_task(say, defaults, key=f"train_{code}_{load.n_tokens}")
        with right, st.container(border=True, key="train_plan"):
            draw_heading(say, "train_plan")
            plan = make_training_plan(task.settings, parent=parent.summary, load=load)
            _draw_plan(say, plan, task, parent=parent, corpus=corpus, load=load)
            if not task.title:
                task = task.with_(title=_suggest_title(say, plan, parent=parent, corpus=corpus))
            if draw_button(say, "train_start", kind="primary", icon="play_arrow", is_wide=True):
                with st.spinner(say.text("train_starting")):
                    JOBS.start(task.question(), n_steps=plan.n_steps, n_notes=load.n_notes)
                st.query_params.pop("run", None)
                st.rerun()
    except AuditError as error:
        blocks.draw_refusal(say, error)


def _suggest_title(
    say: Words, plan: TrainingPlan, *, parent: RegisteredModel, corpus: KeptCorpus
) -> str:
    """Return a title for a model without one: what it starts from, the notes and the epochs."""
    return say.text(
        "train_title_default",
        parent=parent.summary.name if parent.summary else parent.model_id,
        corpus=corpus.title or corpus.source,
        epochs=_epochs(plan.n_epochs),
    )


def _ask_subject(
    say: Words, corpora: dict[str, KeptCorpus]
) -> tuple[RegisteredModel | None, KeptCorpus | None, TextSource]:
    names = display_names.model_names(say, cached.models())
    demo = [code for code in names if code.startswith(DEMO_PREFIX)]
    own_codes = [
        code for code in names if code not in demo and not code.startswith(f"{TRAINED_LABEL}/")
    ]
    parent = pick(say, "train_parent", names, default=demo[0] if demo and not own_codes else "")
    titles = {code: display_names.corpus_name(say, corpus) for code, corpus in corpora.items()}
    corpus = pick(say, "train_corpus", titles, default=next(iter(corpora)))
    source = choose(
        say,
        "train_source",
        {code: say.text(f"called_source_{code}") for code in get_args(TextSource)},
    )
    return find_model(parent, models=cached.models()), corpora.get(corpus), source


def _ask_task(say: Words, defaults: PretrainTask, *, key: str) -> PretrainTask:
    """Draw the boxes of the length and, folded, of every setting.

    If the box of epochs is empty, the steps set the length. Raises `AuditError` if the settings are
    invalid.
    """
    settings = defaults.settings
    idle_fields = settings.list_idle_fields(is_causal=settings.is_causal)
    length, rest = (
        [field for field in fields if field not in idle_fields] for fields in (LENGTH, REST)
    )
    entries = ask_fields(say, settings, words="train", fields=length, key=key)
    with st.expander(say.text("train_details"), key="train_details"):
        draw_remark(say, "train_details_below")
        entries |= ask_fields(say, settings, words="train", fields=rest, key=key)
        device = ask_fields(say, defaults, words="train", fields=("device",), key="train_device")
    return defaults.with_(settings=settings.with_(**entries), **device)


def _draw_plan(
    say: Words,
    plan: TrainingPlan,
    task: PretrainTask,
    *,
    parent: RegisteredModel,
    corpus: KeptCorpus,
    load: NotesLoad,
) -> None:
    """Draw the plan as a table, with a remark on its number of epochs."""
    about, name = "" if load.is_exact else "_about", display_names.model_name(say, parent.model_id)
    draw_facts(
        say,
        "train_plan",
        {
            "train_facts_parent": _start_name(say, name, task.settings),
            "train_facts_notes": say.text(
                "called_notes_of",
                source=say.text(f"called_source_{task.source}"),
                corpus=display_names.corpus_name(say, corpus),
            ),
            "train_facts_text": say.text(
                f"train_plan_tokens{about}",
                n_notes=f"{load.n_notes:,}",
                n_tokens=f"{load.n_tokens:,}",
            ),
            "length": say.text(
                "train_plan_steps",
                n=f"{plan.n_steps:,}",
                epochs=_epochs(plan.n_epochs),
                per_epoch=f"{math.ceil(plan.steps_per_epoch):,}",
            ),
            "train_facts_how": _settings_text(say, task.settings),
            "device": say.text(f"train_device_{queue_of(task.device)}"),
        },
    )
    if plan.n_epochs > MANY_EPOCHS:
        draw_remark(say, "train_many", n=f"{plan.n_epochs:,.0f}")
    elif plan.n_epochs < FEW_EPOCHS:
        draw_remark(say, "train_few")
