"""Commands that train language models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from audit.attack.question import GenerationSettings, PosteriorSettings
from audit.cli.command_steps import answer_task, end_beside_first
from audit.cli.commands import (
    Dependence,
    FieldsOf,
    Options,
    Result,
    command,
    is_absent,
    is_given,
)
from audit.cli.deid_options import find_tagger_id
from audit.deid.find.tagger import TAGGER
from audit.deid.find.taggers import (
    DEFAULT,
    RULES,
    TRAINED,
    no_such_tagger,
    tagger_dir,
)
from audit.deid.learn.tagger_task import TuningSettings
from audit.experiment import leakage, paper, tagger_audit
from audit.models.inspect import inspect_model
from audit.models.registry import resolve_model_path
from audit.progress import say
from audit.shelf import is_code, write_private
from audit.training.config import (
    ADAPTER_RATE,
    Lora,
    TrainSettings,
    find_largest_pass,
    read_process_number,
)
from audit.training.trainings import MODEL, MODELS, PretrainTask, make_sibling_task, snapshot_name


@command(
    Dependence(
        {
            "corpus_id",
            "source",
            "notes",
            "columns",
            *TrainSettings.model_fields.keys() - {"n_epochs", "is_causal"},
        },
        is_absent("sibling_of"),
        clashes="--sibling-of",
    ),
    Dependence({"source"}, is_given("corpus_id"), needs="--corpus"),
    Dependence({"columns"}, is_given("notes"), needs="--notes"),
    Dependence({"n_steps"}, is_absent("n_epochs"), clashes="--epochs"),
    Dependence(
        {"evaluate_every"},
        lambda options: options.get("held_out_share") != 0,
        clashes="--held-out 0",
    ),
    Dependence({"lora_alpha", "lora_dropout"}, is_given("lora_rank"), needs="--lora-rank"),
    Dependence({"causal"}, is_absent("sibling_of"), clashes="--sibling-of"),
)
def pretrain(
    *,
    general: Annotated[str, "directory of the model to start from"],
    options: Annotated[Options, FieldsOf(PretrainTask)],
    trained: Annotated[Options, FieldsOf(TrainSettings)],
    sibling_of: Annotated[
        str,
        "identifier or folder of a trained model: train by its recipe, in as many passes or fewer "
        "(--epochs), on its corpus with other names; its audit shows what the attack would see",
    ] = "",
    causal: Annotated[
        bool, "refuse any but a causal model, which learns next tokens; the model decides by itself"
    ] = False,
) -> Result:
    """Train a model further on notes, or from scratch; goes on where it stopped.

    The kind of the model decides whether it learns masked or next tokens. With --lora-rank the
    result is an adapter.
    """
    start = resolve_model_path(general, option="--general")
    if sibling_of:
        model = (
            MODELS.get(sibling_of) if is_code(sibling_of) else MODELS.read_folder(Path(sibling_of))
        )
        n_epochs = trained.get("n_epochs")
        task = make_sibling_task(model, general=start, n_epochs=n_epochs).with_(**options)
    else:
        is_causal = inspect_model(start).config.is_causal
        if causal and not is_causal:
            TrainSettings(is_causal=True).refuse_other_kind(is_causal=False)
        defaults = TrainSettings(is_causal=is_causal)
        if trained.get("lora_rank"):
            defaults = defaults.with_(learning_rate=ADAPTER_RATE)
        settings = defaults.with_(**_choose_pass(trained, defaults=defaults))
        task = PretrainTask(general=start, settings=settings, **options)
    if read_process_number()[0]:  # of several processes, only the first answers and reports
        task.help()
        end_beside_first()
    (run_id,) = answer_task(task)
    folder = task.with_(run_id=run_id).folder
    trained_model = MODELS.read_folder(folder)
    return trained_model.facts.plain() | {
        "run_id": run_id,
        "model": str(folder / MODEL),
        "n_steps": trained_model.n_steps_done,
        "n_epochs": trained_model.n_epochs_done,
        "loss": trained_model.loss,
        "held_out_loss_before": trained_model.first_held_out,
        "held_out_loss": trained_model.held_out,
        "unigram_loss": trained_model.facts.unigram_loss,
        "snapshots": {
            str(step): str(folder / snapshot_name(step)) for step in trained_model.snapshots
        },
    }


def _choose_pass(options: Options, *, defaults: TrainSettings) -> Options:
    """Return settings with a forward pass that divides the step, unless one was given.

    If possible, all processes get the same number of passes.
    """
    batch, n_processes = options.get("batch", defaults.batch), read_process_number()[1]
    share = batch // n_processes if batch % n_processes == 0 else batch
    return {"micro_batch": find_largest_pass(share)} | options


_TRAINED = ("n_tokens", "batch", "micro_batch", "precision", "learning_rate", "from_scratch")


@command()
def experiment(
    *,
    general: Annotated[str, "directory of M_general"],
    notes: Annotated[Path, "notes with placeholders"],
    options: Annotated[Options, FieldsOf(paper.ExperimentTask)],
    trained: Annotated[Options, FieldsOf(TrainSettings, only=_TRAINED)],
    generation: Annotated[Options, FieldsOf(GenerationSettings, only=("n_documents", "n_steps"))],
    posterior: Annotated[Options, FieldsOf(PosteriorSettings, only=("n_inputs", "n_chain_inputs"))],
) -> Result:
    """Do the experiment of the paper, from notes to tables."""
    task = paper.ExperimentTask(
        **options | {"notes": notes},
        general=resolve_model_path(general, option="--general"),
        training=paper.TRAINING.with_(**_choose_pass(trained, defaults=paper.TRAINING)),
        generation=GenerationSettings(**generation),
        posterior=PosteriorSettings(**Options(n_chain_inputs=0) | posterior),
    )
    answer_task(task)
    say((task.out / paper.TABLES_MD).read_text(encoding="utf-8"))
    result: Result = json.loads((task.out / paper.TABLES_JSON).read_text(encoding="utf-8"))
    return result


@command()
def deid_leakage(
    *,
    out: Annotated[Path, "folder for the tables"],
    options: Annotated[Options, FieldsOf(leakage.LeakageTask)],
    quick: Annotated[bool, "fewer arms and epochs; takes minutes"] = False,
) -> Result:
    """Attack models of the demo hospital's notes, raw and de-identified."""
    (kept_as,) = answer_task(make_leakage_task(options, is_quick=quick))
    files = leakage.LEAKAGE.get(kept_as).tables.files()
    write_private(files, out)
    say(files[leakage.LEAKAGE_MD].decode())
    result: Result = json.loads(files[leakage.LEAKAGE_JSON])
    return result | {"kept_as": kept_as}


def make_leakage_task(options: Options, *, is_quick: bool) -> leakage.LeakageTask:
    """Return the task of the given options; without a tagger, it uses the shipped ones."""
    defaults = leakage.LeakageTask(taggers=(RULES, DEFAULT))
    return (leakage.make_quick_order(defaults) if is_quick else defaults).with_(**options)


_TUNED = tuple(TuningSettings.model_fields.keys() - {"lora", "is_split", *tagger_audit.FROM_ORDER})


@command(
    Dependence({"adapted"}, is_given("lora"), needs="--lora"),
    Dependence({"names", "passages"}, is_given("tagger"), needs="--tagger"),
    Dependence({"tuned", "lora", "adapted", "language"}, is_absent("tagger"), clashes="--tagger"),
)
def deid_selfaudit(
    *,
    options: Annotated[Options, FieldsOf(tagger_audit.TaggerAuditTask)],
    model: Annotated[
        str,
        "directory of the causal model that the tagger is tuned from; without it that of the demo "
        "hospital",
    ] = "",
    tagger: Annotated[
        str,
        "trained/ID or the folder of a generative tagger; without it one is tuned on the demo "
        "hospital's notes, and another on the same notes with other names",
    ] = "",
    tuned: Annotated[
        Options,
        FieldsOf(
            TuningSettings, only=_TUNED, prefix="gen-", defaults=tagger_audit.TUNING.model_dump()
        ),
    ],
    lora: Annotated[bool, "tune an adapter (needs peft) and merge it into the model"] = False,
    adapted: Annotated[Options, FieldsOf(Lora, prefix="lora-")],
) -> Result:
    """Audit a generative tagger beside the model that it was tuned from."""
    task = tagger_audit.TaggerAuditTask(
        **options,
        base=resolve_model_path(model, option="--model") if model else None,
        tagger=_find_tagger_folder(tagger) if tagger else None,
        tuning=tagger_audit.TUNING.with_(**tuned, lora=Lora(**adapted) if lora else None),
    )
    answer_task(task)
    say((task.out / tagger_audit.TABLES_MD).read_text(encoding="utf-8"))
    result: Result = json.loads((task.out / tagger_audit.TABLES_JSON).read_text(encoding="utf-8"))
    return result


def _find_tagger_folder(name: str) -> Path:
    """Return the folder of a trained tagger, given by its identifier or its folder."""
    tagger_id = find_tagger_id(name)
    folder = tagger_dir(tagger_id) if tagger_id.startswith(TRAINED) else Path(tagger_id)
    if not (folder / TAGGER).is_file():
        raise no_such_tagger()
    return folder
