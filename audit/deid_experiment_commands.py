"""What `python -m audit experiment --deid` does: leakage against missed names, as files."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import replace
from typing import Any

from audit.console import say
from audit.deid.known_taggers import DEFAULT, RULES, known_taggers
from audit.deid.redact import MODES, PLACEHOLDER
from audit.experiment.deid_kept import kept_files
from audit.experiment.deid_order import LANGUAGES, LeakageOrder, quick
from audit.experiment.deid_tables import FILES, LEAKAGE_JSON, LEAKAGE_MD
from audit.job_commands import answered
from audit.jobs.deid_experiment_job import leakage_question
from audit.report import write_private_files


def add_leakage(command: ArgumentParser) -> None:
    """Add the options of `--deid` to `python -m audit experiment`."""
    add = command.add_argument_group("leakage against missed names").add_argument
    add("--deid", action="store_true",
        help="attack models of the demo hospital's notes, raw and de-identified")  # fmt: skip
    add("--tagger", action="append", default=None, metavar="ID",
        help="rules, default or trained/<id>; repeatable")  # fmt: skip
    add("--miss", type=_shares, default=None, metavar="0.01,0.05,0.1",
        help="shares of names that are left at random")  # fmt: skip
    add("--language", choices=LANGUAGES, default="en")
    add("--mode", choices=MODES, default=PLACEHOLDER, help="what takes a name's place")
    add("--scenario", type=int, choices=(1, 2), action="append", default=None,
        help="the attack; repeatable, 2 unless given")  # fmt: skip
    add("--quick", action="store_true", help="fewer arms and epochs, done in minutes")


def leakage(options: Namespace) -> dict[str, Any]:
    """Do the experiment as a registered job, and write its tables."""
    question = leakage_question(leakage_order(options))
    (kept_as,) = answered(question)
    files = kept_files(kept_as)
    write_private_files(files, options.out)
    say(files[LEAKAGE_MD].decode())
    say(f"Written: {', '.join(FILES)}; kept as {kept_as}")
    result: dict[str, Any] = json.loads(files[LEAKAGE_JSON])
    return result


def leakage_order(options: Namespace) -> LeakageOrder:
    """Return the order that the options ask for.

    Raises
    ------
    AuditError
        If one of them cannot be.
    """
    order = LeakageOrder(
        language=options.language,
        taggers=tuple(options.tagger) if options.tagger else _usual_taggers(),
        mode=options.mode,
        scenarios=tuple(options.scenario or (2,)),
        seed=options.seed,
        device=options.device,
    )
    if options.quick:
        order = quick(order)
    given = {
        "shares": options.miss,
        "epochs": options.epochs[-1] if options.epochs else None,
        "n_inputs": options.inputs,
        "n_documents": options.documents,
    }
    return replace(order, **{name: value for name, value in given.items() if value is not None})


def _usual_taggers() -> tuple[str, ...]:
    known = {tagger.tagger_id for tagger in known_taggers()}
    return tuple(tagger for tagger in (RULES, DEFAULT) if tagger in known)


def _shares(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",") if part)
    except ValueError:
        raise ArgumentTypeError("numbers with commas between, like 0.01,0.05") from None
