"""One training: what learned from what, its loss curve, live while it runs, and the ways on."""

from __future__ import annotations

import math
from collections.abc import Mapping

import plotly.graph_objects as go
import streamlit as st

from audit.errors import AuditError
from audit.jobs import service
from audit.jobs.table import Job, read_order
from audit.training.config import LossCurve, LossPoint, loss_curve, read_losses
from audit.training.kept import MODELS, TrainedModel
from pages.ui import blocks, charts
from pages.ui.blocks import refused
from pages.ui.charts import GREY, LINE, RUST
from pages.ui.job_card import job_head, progress_text
from pages.ui.language import Words, link
from pages.ui.logged import note
from pages.ui.text import day, decimal, escaped
from pages.ui.train_audit import draw_ways_on
from pages.ui.train_names import epochs_text, notes_name, start_name, training_name

_FAINT = "rgba(125, 133, 144, 0.6)"
_MARGIN = 1.01
_N_EPOCH_TICKS = 8


def loss_chart(curve: LossCurve, *, words: Mapping[str, str]) -> go.Figure:
    """Return losses by step, epochs written at the upper edge; rust is what the notes taught.

    `words` has "x", "y", "epochs", "loss", "smoothed", "held_out" and "unigram".
    """
    figure = go.Figure()
    _line(figure, curve.steps, curve.losses, name=words["loss"], colour=_FAINT, width=1)
    _line(figure, curve.steps, curve.smoothed, name=words["smoothed"], colour=GREY, width=2.5)
    figure.add_scatter(
        x=[step for step, _ in curve.held_out],
        y=[loss for _, loss in curve.held_out],
        mode="lines+markers",
        name=escaped(words["held_out"]),
        line={"color": RUST, "width": 3},
        marker={"color": RUST, "size": 8},
        hovertemplate="%{x:,} · %{y:.3f}<extra></extra>",
    )
    if not math.isnan(curve.unigram):
        figure.add_scatter(
            x=[0, curve.n_steps],
            y=[curve.unigram] * 2,
            mode="lines",
            name=escaped(words["unigram"]),
            line={"color": GREY, "width": 2, "dash": "dot"},
            hovertemplate="%{y:.3f}<extra></extra>",
        )
    figure.update_yaxes(title=words["y"], gridcolor=LINE, zeroline=False)
    figure.update_xaxes(
        title=words["x"], range=[0, _MARGIN * max(1, curve.n_steps)], showgrid=False,
        zeroline=False, tickformat=",",
    )  # fmt: skip
    if not math.isnan(curve.steps_per_epoch):
        _epoch_axis(figure, curve, title=words["epochs"])
    return figure.update_layout(
        height=400,
        margin={"l": 10, "r": 16, "t": 46, "b": 10},
        font={"size": 13},
        legend={"orientation": "h", "y": -0.22, "x": 0},
    )


def epoch_ticks(n_epochs: float) -> list[float]:
    """Return at most some eight round numbers of epochs from 0 up to `n_epochs`."""
    if not 0 < n_epochs < math.inf:
        return [0.0]
    decade = 10.0 ** math.floor(math.log10(n_epochs / _N_EPOCH_TICKS))
    step = next(k * decade for k in (1, 2, 5, 10) if n_epochs / (k * decade) <= _N_EPOCH_TICKS)
    return [i * step for i in range(int(n_epochs / step + 1e-9) + 1)]


def _line(
    figure: go.Figure,
    x: tuple[int, ...],
    y: tuple[float, ...],
    *,
    name: str,
    colour: str,
    width: float,
) -> None:
    figure.add_scatter(
        x=list(x), y=list(y), mode="lines", name=escaped(name),
        line={"color": colour, "width": width}, hovertemplate="%{x:,} · %{y:.3f}<extra></extra>",
    )  # fmt: skip


def _epoch_axis(figure: go.Figure, curve: LossCurve, *, title: str) -> None:
    ticks = epoch_ticks(curve.epochs(curve.n_steps))
    # An axis without a trace is not drawn: this one has an invisible point.
    figure.add_scatter(
        x=[0], y=[None], xaxis="x2", showlegend=False, hoverinfo="skip", mode="markers"
    )
    figure.update_layout(
        xaxis2={
            "overlaying": "x", "side": "top", "range": [0, _MARGIN * max(1, curve.n_steps)],
            "tickvals": [tick * curve.steps_per_epoch for tick in ticks],
            "ticktext": [f"{tick:g}" for tick in ticks],
            "title": {"text": title}, "showgrid": False, "zeroline": False,
        }
    )  # fmt: skip


_CURVE_WORDS = ("x", "y", "epochs", "loss", "smoothed", "held_out", "unigram")


def draw_job(say: Words, job: Job) -> None:
    """Draw a training that runs or waits, with what is known of it so far, anew each second."""

    def card() -> None:
        try:
            now = service.job(job.job_id)
            if not now.is_active:
                st.query_params["job"] = job.job_id  # the page goes on to what came of it
                st.rerun(scope="app")
            with st.container(border=True, key=f"train-job-{job.job_id}"):
                st.html(job_head(say, now))
                st.progress(now.share, text=progress_text(say, now))
                link("jobs", label=say.text("train_see_job"), job=now.job_id)
            run_id = run_of(job.job_id)
            model = known_training(run_id)
            if model is not None:
                draw_facts(say, model)
                draw_curve(say, model, key=f"train_live_{run_id}")
        except AuditError as error:
            refused(say, error)

    st.fragment(card, run_every="1s")()


def draw_training(say: Words, model: TrainedModel) -> None:
    """Draw a training that has ended, or stands still."""
    st.html(blocks.heading(training_name(say, model)))
    draw_facts(say, model)
    draw_curve(say, model, key=f"train_curve_{model.run_id}")
    if model.is_whole:
        draw_ways_on(say, model)
    else:
        st.html(blocks.heading("", below=say.text("train_unfinished")))
        link("jobs", label=say.text("train_see_jobs"))
    draw_forget(say, model)


def run_of(job_id: str) -> str:
    """Return the identifier of the training that a job works on; "" where it is not known."""
    try:
        return str(read_order(job_id).get("run_id", ""))
    except AuditError:
        return ""


def known_training(run_id: str) -> TrainedModel | None:
    """Return a training; None where nothing is written of it yet."""
    try:
        return MODELS.get(run_id) if run_id else None
    except AuditError:
        return None


def draw_facts(say: Words, model: TrainedModel) -> None:
    """Draw what a model learned, from which notes, and how, as a table."""
    facts, settings = model.facts, model.facts.settings
    shape = say.text(
        "train_fact_rows", batch=f"{settings.batch:,}", n_tokens=f"{settings.n_tokens:,}",
        rate=f"{settings.learning_rate:g}",
    )  # fmt: skip
    done = say.text(
        "train_fact_done", n=f"{model.n_steps_done:,}", total=f"{facts.n_steps:,}",
        epochs=epochs_text(model.n_epochs_done),
    )  # fmt: skip
    text = say.text(
        "train_fact_amount", n_notes=f"{facts.n_documents:,}", n_tokens=f"{facts.n_train_tokens:,}",
        n_held_out=f"{facts.n_held_out_documents:,}",
    )  # fmt: skip
    rows = [
        (
            say.text("train_fact_parent"),
            start_name(say, facts.parent, from_scratch=settings.from_scratch),
        ),
        (say.text("train_fact_notes"), notes_name(say, model)),
        (say.text("train_fact_text"), text),
        (say.text("train_fact_how"), shape),
        (say.text("train_fact_length"), done),
        (say.text("train_fact_numbers"), f"{facts.device} · {facts.precision}"),
        (say.text("train_fact_created"), day(facts.created)),
    ]
    header = [say.text("train_column_fact"), say.text("train_column_value")]
    caption = say.text("train_fact_caption", run=model.run_id)
    st.html(blocks.simple_table(header, rows, caption=caption, n_text=2))


def draw_curve(say: Words, model: TrainedModel, *, key: str) -> None:
    """Draw the loss curve, what it says, and its table."""
    points = read_losses(MODELS.place(model.run_id))
    curve = curve_of(model, points)
    if not points:
        st.html(blocks.heading("", below=say.text("train_curve_nothing")))
        return
    st.html(blocks.heading(say.text("train_curve"), below=finding(say, curve)))
    texts = {name: say.text(f"train_curve_{name}") for name in _CURVE_WORDS}
    st.plotly_chart(
        loss_chart(curve, words=texts), config=charts.CONFIG, alt=say.text("train_curve_alt"),
        key=key,
    )  # fmt: skip
    with st.expander(say.text("as_table"), key=f"{key}_table"):
        st.html(curve_table(say, curve))
        st.download_button(
            say.text("train_curve_csv"), data=losses_csv(points), mime="text/csv",
            file_name=f"losses-{model.run_id}.csv", icon=":material/download:",
            key=f"{key}_csv", on_click="ignore",
        )  # fmt: skip


def curve_of(model: TrainedModel, points: tuple[LossPoint, ...]) -> LossCurve:
    """Return the chart of a training."""
    facts = model.facts
    return loss_curve(
        points,
        n_steps=facts.n_steps,
        steps_per_epoch=facts.settings.n_rows(facts.n_train_tokens) / facts.settings.batch,
        unigram=facts.unigram_loss,
    )


def finding(say: Words, curve: LossCurve) -> str:
    """Return what the held-out loss says, as a sentence."""
    first, last = curve.held_out[:1], curve.held_out[-1:]
    step, lowest = curve.lowest
    return say.text(
        f"train_state_{curve.state}",
        first=decimal(first[0][1] if first else math.nan),
        last=decimal(last[0][1] if last else math.nan),
        lowest=decimal(lowest),
        step=f"{step:,}",
        unigram=decimal(curve.unigram),
    )


def curve_table(say: Words, curve: LossCurve) -> str:
    """Return the held-out losses as a table, each with the training loss near it."""
    smoothed = dict(zip(curve.steps, curve.smoothed, strict=True))
    rows = []
    for step, held_out in curve.held_out:
        before = [s for s in curve.steps if s <= step]
        near = smoothed[before[-1]] if before else math.nan
        epochs = epochs_text(curve.epochs(step))
        rows.append((f"{step:,}", epochs, decimal(held_out), decimal(near)))
    header = [say.text(f"train_column_{c}") for c in ("step", "epochs", "held_out", "loss")]
    caption = say.text("train_curve_alt")
    return blocks.simple_table(header, rows, caption=caption, n_text=0)


def losses_csv(points: tuple[LossPoint, ...]) -> bytes:
    """Return the log as CSV; it holds numbers only."""
    lines = ["step,loss,held_out,learning_rate,seconds"]
    for p in points:
        cells = (p.step, p.loss, p.held_out, p.learning_rate, p.seconds)
        lines.append(",".join("" if cell is None else repr(cell) for cell in cells))
    return ("\n".join(lines) + "\n").encode("ascii")


def draw_forget(say: Words, model: TrainedModel) -> None:
    """Draw the button that removes a training, which asks once more."""
    with st.popover(say.text("train_forget"), key=f"train-forget-ask-{model.run_id}"):
        st.html(blocks.heading("", below=say.text("train_forget_why")))
        if st.button(
            say.text("train_forget_now"), key=f"train-forget-{model.run_id}", type="primary"
        ):
            try:
                MODELS.forget(model.run_id)
                note("removed", what="trained-model", run=model.run_id)
            except AuditError as error:
                st.html(blocks.heading("", below=error.written(say.language)))
                return
            st.query_params.pop("run", None)
            st.rerun()
