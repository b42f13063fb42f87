"""The commands `corpus build | mentions | candidates | check | list | forget`."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from audit.console import say
from audit.corpora.notes import FIELDS
from audit.curation.corpus_lists import (
    ROLES,
    check_controls,
    full_names_in,
    keep_lists,
    list_of,
    passages_for,
)
from audit.curation.examination import Examination, read_examination
from audit.curation.found_mentions import mentions_in
from audit.curation.kept_corpora import (
    KeptCorpus,
    corpus_at,
    corpus_line,
    find_corpus,
    forget_corpus,
    kept_corpora,
    kept_corpus,
)
from audit.curation.list_files import CONTROLS, MEMBERS
from audit.curation.order import LANGUAGES, CorpusOrder
from audit.errors import AuditError
from audit.home import results_dir
from audit.job_commands import answered
from audit.jobs.corpus_job import corpus_question
from audit.membership.names_csv import read_names
from audit.prepare.names_file import names_file
from audit.report import write_private_files
from audit.tables import write_table
from cache.store import Store

_KEPT = "kept"


def add_corpus(commands_of: Any) -> None:
    """Add the commands' parsers."""
    corpus = commands_of.add_parser("corpus", help="from notes to what an audit needs")
    whats = corpus.add_subparsers(required=True, metavar="WHAT")
    _add_build(whats)
    mentions = whats.add_parser("mentions", help="who is named beside an age, and how often")
    of = mentions.add_mutually_exclusive_group(required=True)
    of.add_argument("--corpus", help="identifier or folder of a corpus")
    of.add_argument("--notes", type=Path, help="file or folder of notes of which no truth is known")
    mentions.add_argument("--names", action="store_true", help="with --notes: the names themselves")
    _column(mentions)
    mentions.set_defaults(command=mentions_command)
    candidates = whats.add_parser("candidates", help="the list of names and the passages")
    candidates.add_argument("--corpus", required=True, help="identifier or folder of a corpus")
    candidates.add_argument("--out", type=Path, help="folder for names.csv and passages.jsonl")
    candidates.add_argument("--controls", default="easy,hard", metavar=",".join(CONTROLS))
    candidates.add_argument("--roles", default=",".join(ROLES), metavar=",".join(MEMBERS))
    candidates.add_argument("--keep", action="store_true", help="for the pages too")
    candidates.set_defaults(command=candidates_command)
    check = whats.add_parser("check", help="does a control of a list occur in D_private?")
    check.add_argument("--corpus", required=True, help="identifier or folder of a corpus")
    check.add_argument("--names", type=Path, required=True, help="CSV of candidate names")
    check.set_defaults(command=check_command)
    listed = whats.add_parser("list", help="the corpora that are kept here")
    listed.set_defaults(command=list_command)
    forget = whats.add_parser("forget", help="remove a kept corpus with all of its files")
    forget.add_argument("corpus", help="its identifier")
    forget.set_defaults(command=forget_command)
    for command in (mentions, candidates, check, listed, forget):
        command.add_argument("--json", action="store_true", help="print one JSON object on stdout")


def _add_build(whats: Any) -> None:
    build = whats.add_parser("build", help="D_private, D_public, the truth, and the lists")
    build.add_argument("--notes", type=Path, required=True, help="NOTEEVENTS.csv(.gz), discharge."
                       "csv(.gz), CSV, JSONL, Parquet, or a folder of .txt")  # fmt: skip
    build.add_argument("--register", type=Path, help="CSV of patients: the notes are identified")
    _column(build)
    build.add_argument("--seed", type=int, default=0)
    build.add_argument("--workers", type=int, default=1, help="processes; they change no byte")
    build.add_argument("--out", default=_KEPT, help="a new folder; kept: on this installation")
    build.add_argument("--title", default="", help="for the list of corpora")
    build.add_argument("--sample", type=int, help="draw so many notes at random")
    build.add_argument("--canaries", default="", metavar="1,2,4,8",
                       help="plant invented names so many times")  # fmt: skip
    build.add_argument("--canary-names", type=int, default=10, help="names for each number")
    build.add_argument("--sentences", type=int, default=5, help="sentences of a passage")
    build.add_argument("--left", action="store_true",
                       help="passages begin with the sentence of the name")  # fmt: skip
    build.add_argument("--language", choices=LANGUAGES, default="auto", help="of drawn names")
    build.add_argument("--tokenizer", type=Path, metavar="DIR", help="general model: names whose "
                       "parts are single tokens of it only, as in the paper")  # fmt: skip
    build.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    build.set_defaults(command=build_command)


def build_command(options: Namespace) -> dict[str, Any]:
    """Make a corpus."""
    order = CorpusOrder(
        notes=options.notes.expanduser().absolute(),
        columns=tuple(columns_from(options.column).items()),
        kind="dummy" if options.register is None else "register",
        register=None if options.register is None else options.register.expanduser().absolute(),
        seed=options.seed,
        n_workers=options.workers,
        title=options.title,
        sample=options.sample,
        canary_counts=_numbers(options.canaries),
        n_canaries=options.canary_names,
        n_sentences=options.sentences,
        has_left=options.left,
        language=options.language,
        tokenizer=None if options.tokenizer is None else options.tokenizer.expanduser().absolute(),
    )
    out = None if options.out == _KEPT else Path(options.out).expanduser().absolute()
    (corpus_id,) = answered(corpus_question(order, out=out))
    corpus = kept_corpus(corpus_id) if out is None else corpus_at(out)
    found = read_examination(corpus.path)
    for line in _report(corpus, found):
        say(line)
    return {"corpus": corpus_line(corpus), "folder": str(corpus.path), **_plain(found)}


def mentions_command(options: Namespace) -> dict[str, Any]:
    """Say who is mentioned: the examination of a corpus, or what is found in plain notes."""
    if options.corpus is not None:
        if options.names:
            raise AuditError(
                "It goes with --notes.",
                where="--names",
                do="The names of a corpus are listed by `corpus candidates`.",
            )
        corpus = find_corpus(options.corpus)
        found = read_examination(corpus.path)
        for line in _report(corpus, found):
            say(line)
        return {"corpus": corpus_line(corpus), **_plain(found)}
    result = mentions_in(
        options.notes.expanduser(), columns=columns_from(options.column), with_names=options.names
    )
    for form, n in result.coverage.by_form:
        say(f"{form}: {n:,}")
    say(f"{result.coverage.n_mentions:,} mentions in {result.coverage.n_notes:,} notes.")
    if options.names and not options.json:
        named = (
            (one["first"], one["last"]) for one in result.mentions if not one["is_placeholder"]
        )
        rows = [(*name, n) for name, n in Counter(named).most_common() if any(name)]
        sys.stdout.write(write_table(("first", "last", "n_mentions"), rows))
    return {
        "n_notes": result.coverage.n_notes,
        "n_refused": result.n_refused,
        "n_mentions": result.coverage.n_mentions,
        "by_form": dict(result.coverage.by_form),
        "without_a_mention": dict(result.coverage.by_reason),
        "n_left_out": result.n_left_out,
        "mentions": list(result.mentions),
    }


def candidates_command(options: Namespace) -> dict[str, Any]:
    """Write the list and the passages of a corpus, or keep them for the pages, or both."""
    corpus = find_corpus(options.corpus)
    controls, roles = _words(options.controls), _words(options.roles)
    candidates = list_of(corpus, controls=controls, roles=roles)
    passages = passages_for(corpus, candidates, seed=corpus.seed)
    result: dict[str, Any] = {
        "n_names": len(candidates),
        "n_members": sum(m is True for m in candidates.is_member),
        "by_kind": {
            kind: candidates.control_kind.count(kind)
            for kind in sorted(set(candidates.control_kind) - {""})
        },
        "by_role": {
            role: candidates.role.count(role) for role in sorted(set(candidates.role) - {""})
        },
        "n_passages": passages.count(b"\n"),
    }
    if options.out is not None:
        files = {"names.csv": names_file(candidates), "passages.jsonl": passages}
        written = write_private_files(files, options.out.expanduser())
        result["files"] = [str(path) for path in written]
    if options.keep:
        with Store(results_dir()) as store:
            names, texts = keep_lists(corpus, controls=controls, roles=roles, store=store)
        result |= {"names": names, "passages": texts}
    say(f"{result['n_names']:,} names, {result['n_members']:,} of them in the notes; "
        f"{result['n_passages']:,} passages.")  # fmt: skip
    return result


def check_command(options: Namespace) -> dict[str, Any]:
    """Check a list of names against D_private."""
    corpus = find_corpus(options.corpus)
    try:
        candidates = read_names(options.names.expanduser().read_bytes()).candidates
    except OSError:
        raise AuditError("The file is not there or cannot be read.", where="--names") from None
    check_controls(corpus, candidates)
    members = candidates.rows([i for i, m in enumerate(candidates.is_member) if m is True])
    n_found = len(full_names_in(corpus, members)) if len(members) else 0
    say(f"No control occurs in D_private; {n_found:,} of {len(members):,} members do in full.")
    return {"n_names": len(candidates), "n_members": len(members), "n_members_in_full": n_found}


def list_command(options: Namespace) -> dict[str, Any]:
    """List the kept corpora."""
    corpora = kept_corpora()
    for corpus in corpora:
        say(f"{corpus.corpus_id}  {corpus.created}  {corpus.kind}  {corpus.n_notes:,} notes  "
            f"{corpus.title or corpus.source}")  # fmt: skip
    return {"corpora": [corpus_line(corpus) for corpus in corpora]}


def forget_command(options: Namespace) -> dict[str, Any]:
    """Remove a kept corpus."""
    forget_corpus(options.corpus)
    say("Removed.")
    return {"forgotten": options.corpus}


def columns_from(texts: list[str]) -> dict[str, str]:
    """Return field -> column of "field=column" texts.

    Raises
    ------
    AuditError
        If one is not of this form.
    """
    columns: dict[str, str] = {}
    for text in texts:
        field, sign, name = text.partition("=")
        if not (sign and name) or field not in FIELDS or field in columns:
            raise AuditError(
                "This is no FIELD=NAME, or the field is given twice.",
                where="--column",
                do=f"Fields are {', '.join(FIELDS)}; as text=body.",
            )
        columns[field] = name
    return columns


def _column(command: Any) -> None:
    command.add_argument("--column", action="append", default=[], metavar="FIELD=NAME",
                         help="which column holds a field, as text=body")  # fmt: skip


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in _words(text))
    except ValueError:
        raise AuditError(
            "These are no whole numbers with commas between.", where="--canaries", do="As 1,2,4,8."
        ) from None


def _plain(found: Examination) -> dict[str, Any]:
    return asdict(found) | {
        "coverage": asdict(found.coverage)
        | {
            "forms": dict(found.coverage.by_form),
            "reasons": dict(found.coverage.by_reason),
            "n_by_role": dict(found.coverage.n_by_role),
            "n_mentions": found.coverage.n_mentions,
            "n_elsewhere": found.coverage.n_elsewhere,
        },
        "n_patterns": found.n_patterns,
        "n_occurrences": found.n_occurrences,
    }


def _report(corpus: KeptCorpus, found: Examination) -> list[str]:
    table_3 = "  ".join(f"{count}:{n}" for count, n in found.pattern_table)
    table_4 = "  ".join(f"{count}:{n}" for count, n in found.mention_table)
    forms = ", ".join(f"{form} {n:,}" for form, n in found.coverage.by_form)
    unknown = ", ".join(f"{count.category} {count.n:,}" for count in found.unknown[:20])
    kinds = ", ".join(
        f"{c.control_kind or c.role}{' twins' if c.control_kind == 'canary' else ''} {c.n:,}"
        for c in found.candidates
    )
    return [
        f"{found.n_notes:,} notes, {found.n_patients:,} patients; "
        f"{found.n_refused:,} rows refused.",
        f"Placeholders not understood: {unknown or 'none'}.",
        f"{found.coverage.n_mentions:,} mentions ({forms or 'none'}); "
        f"{found.coverage.n_elsewhere:,} names of patients stand elsewhere.",
        f"{found.n_positives:,} names, {found.n_patterns:,} patterns, "
        f"{found.n_occurrences:,} occurrences.",
        f"Patterns per name (table 3): {table_3 or 'none'}",
        f"Occurrences per name (table 4): {table_4 or 'none'}",
        f"Candidates: {kinds or 'none'}.",
        f"The corpus: {corpus.corpus_id or corpus.path}",
    ]
