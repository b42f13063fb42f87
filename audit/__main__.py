"""The command line: python -m audit demo | run | score | selftest | results | jobs and more.

The same calls as the pages. With `--json` one JSON object goes to stdout; progress and words go to
stderr. Exit code 0, or 2 with one plain paragraph for bad input, or 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from audit import cli
from audit.cli import add_corpus, add_deid, add_experiment, add_pretrain, log_command
from audit.errors import AuditCancelled, AuditError
from audit.report.html import LANGUAGES
from audit.report.names import NAME_FORMS
from cache.store import StoreError

_OK, _BAD_INPUT, _CANCELLED = 0, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    # Nothing is ever fetched: set before any library of Hugging Face is imported.
    os.environ.update(
        HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", TOKENIZERS_PARALLELISM="false"
    )
    try:
        options = _parser().parse_args(arguments)
        result = options.command(options)
    except (AuditError, StoreError) as error:
        _say(str(error))
        return _BAD_INPUT
    except (AuditCancelled, KeyboardInterrupt):
        _say("Stopped. Everything finished so far is kept; the same command goes on from there.")
        return _CANCELLED
    if result is not None and getattr(options, "json", False):
        sys.stdout.write(json.dumps(result, ensure_ascii=False, allow_nan=False) + "\n")
    return int(result.get("exit_code", _OK)) if isinstance(result, dict) else _OK


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m audit", description="May this language model leave the building?"
    )
    commands_of = parser.add_subparsers(required=True, metavar="COMMAND")
    _demo(commands_of)
    _run(commands_of)
    _score(commands_of)
    _selftest(commands_of)
    _results(commands_of)
    _jobs(commands_of)
    _log(commands_of)
    add_corpus(commands_of)
    add_pretrain(commands_of)
    add_experiment(commands_of)
    add_deid(commands_of)
    return parser


def _demo(commands_of: Any) -> None:
    demo = commands_of.add_parser("demo", help="audit the demo hospital, or make it again")
    demo.add_argument("--retrain", action="store_true", help="make names, notes and models anew")
    demo.add_argument("--documents", type=int, default=None, help="documents of scenario 1")
    demo.add_argument("--inputs", type=int, default=None, help="inputs of scenario 2")
    demo.add_argument("--exposures", action="store_true", help="also the other exposures, the null "
                      "pair and the Japanese hospital")  # fmt: skip
    demo.add_argument("--directory", type=Path, default=None, help="where retrained models go")
    _shared(demo)
    demo.set_defaults(command=cli.demo)


def _run(commands_of: Any) -> None:
    run = commands_of.add_parser("run", help="audit a pair of models")
    run.add_argument("--general", required=True, help="directory of the general model")
    run.add_argument("--hospital", required=True, help="directory of the hospital's model")
    run.add_argument("--reference", action="append", metavar="DIR", help="also with this model in "
                     "the general model's place, such as one trained on the de-identified notes; "
                     "repeatable")  # fmt: skip
    run.add_argument("--scenario", type=int, choices=(1, 2), required=True)
    run.add_argument("--names", type=Path, required=True, help="CSV of candidate names")
    run.add_argument("--passages", type=Path, help="CSV or JSONL of de-identified passages")
    run.add_argument("--documents", type=int, default=10_000)
    run.add_argument("--steps", type=int, default=500)
    run.add_argument("--tokens", type=int, default=32)
    run.add_argument("--top-k", type=int, default=100)
    run.add_argument("--temperature", type=float, default=1.0)
    run.add_argument("--prompt", help="x(0) of scenario 1, with [MASK] where a token is sampled")
    run.add_argument("--keep-sampled", action="store_true", help="do not mask the sampled position")
    run.add_argument("--inputs", type=int, default=10_000)
    run.add_argument("--chain-inputs", type=int, default=200, help="inputs of `chain`; 0: none")
    run.add_argument("--no-dropout", action="store_true", help="evaluation mode in scenario 2")
    run.add_argument("--micro-batch", type=int, default=32)
    run.add_argument("--max-tokens", type=int, default=512)
    run.add_argument("--threshold", type=float, help="a free threshold on the fixed score")
    run.add_argument(
        "--draw-controls", type=int, default=0, metavar="N", help="draw N easy and N hard controls"
    )
    run.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    run.add_argument("--out", type=Path, help="directory for names.csv, measures.json, report.json")
    _shared(run)
    run.set_defaults(command=cli.run)


def _score(commands_of: Any) -> None:
    score = commands_of.add_parser("score", help="measure any scores with known truth")
    score.add_argument("--scores", type=Path, required=True, help="CSV with score and is_member")
    score.add_argument("--threshold", type=float)
    score.add_argument("--seed", type=int, default=0)
    score.add_argument("--json", action="store_true")
    score.set_defaults(command=cli.score)


def _selftest(commands_of: Any) -> None:
    selftest = commands_of.add_parser("selftest", help="can this installation be trusted?")
    selftest.add_argument("--directory", type=Path, default=None, help="demo files to test with")
    _shared(selftest)
    selftest.set_defaults(command=cli.selftest)


def _results(commands_of: Any) -> None:
    results = commands_of.add_parser("results", help="list kept audits, or write one out")
    results.add_argument("digest", nargs="?", help="beginning of an audit's digest")
    results.add_argument("--out", type=Path, help="write this audit's files here")
    results.add_argument("--html", action="store_true", help="write the report to be signed, with "
                         "its tables and a manifest of digests")  # fmt: skip
    results.add_argument("--names", choices=NAME_FORMS, default="masked", help="with --html")
    results.add_argument("--language", choices=LANGUAGES, default="en", help="with --html")
    results.add_argument("--json", action="store_true")
    results.set_defaults(command=cli.results)


def _jobs(commands_of: Any) -> None:
    jobs = commands_of.add_parser("jobs", help="list what waits, runs and has ended")
    jobs.add_argument("--watch", action="store_true", help="until nothing waits or runs any more")
    jobs.set_defaults(command=cli.jobs)
    cancel = commands_of.add_parser("cancel", help="stop a job; what is finished is kept")
    cancel.set_defaults(command=cli.cancel)
    resume = commands_of.add_parser("resume", help="let a job go on, in the background")
    resume.set_defaults(command=cli.resume)
    for command in (cancel, resume):
        command.add_argument("job", help="the job's id, or the beginning of it")
    worker = commands_of.add_parser("worker", help="do the jobs of a device")
    worker.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    worker.set_defaults(command=cli.worker)
    for command in (jobs, cancel, resume, worker):
        command.add_argument("--json", action="store_true", help="print one JSON object on stdout")


def _log(commands_of: Any) -> None:
    log = commands_of.add_parser("log", help="the access log: is it whole, and what does it say?")
    log.add_argument("what", choices=("verify", "show"))
    log.add_argument("--limit", type=int, default=50, help="lines of `show`, the newest")
    log.add_argument("--audit", default="", help="only lines of this audit: digits of its digest")
    log.add_argument(
        "--seal",
        default="",
        help="`verify`: of a report; what the log held then it must still hold",
    )
    log.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    log.set_defaults(command=log_command)


def _shared(command: argparse.ArgumentParser) -> None:
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    command.add_argument("--json", action="store_true", help="print one JSON object on stdout")


if __name__ == "__main__":
    sys.exit(main())
