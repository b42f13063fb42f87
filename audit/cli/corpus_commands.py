"""Commands of corpora: make, examine and list them, and write their lists of names."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

from audit import access_log
from audit.cli.command_steps import NamesList, answer_task, read_name_list, say_patients
from audit.cli.commands import (
    Dependence,
    FieldsOf,
    Options,
    Result,
    command,
    is_absent,
    is_given,
)
from audit.corpus.candidate_lists import ROLES, count_control_mentions, read_list, select_passages
from audit.corpus.corpora import CORPORA, KeptCorpus, corpus_line, find_corpus
from audit.corpus.examine import HeldOutCounts, read_examination
from audit.corpus.make import CorpusTask
from audit.corpus.other_names import make_sibling_list
from audit.corpus.own_controls import OwnControls, add_own_controls
from audit.errors import AuditError
from audit.names.candidates import Candidates
from audit.names.files import encode_names_csv
from audit.notes.read import open_notes
from audit.progress import say
from audit.shelf import write_private

CorpusName = Annotated[str, "identifier or folder of a corpus"]


@command(
    Dependence({"n_canaries"}, is_given("canary_counts"), needs="--canaries"),
)
def corpus_build(*, options: Annotated[Options, FieldsOf(CorpusTask)]) -> Result:
    """Make D_private, D_public, the truth, and the lists."""
    task = CorpusTask(**options)
    if task.out:
        access_log.record("exported", what="corpus", names="full")
    (corpus_id,) = answer_task(task)
    say_patients(open_notes(task.notes, columns=dict(task.columns)).has_patients)
    corpus = CORPORA.read_folder(task.out) if task.out else CORPORA.get(corpus_id)
    return _describe_corpus(corpus) | {"folder": str(corpus.path)}


@command()
def corpus_mentions(*, corpus: CorpusName) -> Result:
    """Say who is named beside an age, and how often."""
    examination = _describe_corpus(find_corpus(corpus))
    say_patients(bool(examination["n_patients"]))
    return examination


@command(
    Dependence(
        {"controls", "own_controls_from", "roles"},
        is_absent("other_names"),
        clashes="--other-names",
    ),
)
def corpus_candidates(
    *,
    corpus: CorpusName,
    out: Annotated[Path, "folder for names.csv and passages.jsonl"],
    controls: Annotated[
        str,
        "kinds of controls, with commas between: held_out,easy,hard,recombined; without it "
        "held_out if people were held out, else easy,hard",
    ] = "",
    own_controls_from: Annotated[
        Path | None,
        "register of patients: those who are in no training note of identified notes are controls",
    ] = None,
    roles: Annotated[str, "roles of members, with commas between"] = ",".join(ROLES),
    other_names: Annotated[
        bool, "make the list for a sibling model, from the notes with other names"
    ] = False,
) -> Result:
    """Write the list of names and the passages."""
    kept_corpus = find_corpus(corpus)
    if other_names:
        dropped: dict[str, int] = {}
        candidates, passages = make_sibling_list(kept_corpus)
    else:
        candidates, dropped = _make_corpus_list(
            kept_corpus,
            kinds=_split_words(controls),
            roles=_split_words(roles),
            register=own_controls_from,
        )
        passages = select_passages(kept_corpus, candidates)
    files = {"names.csv": encode_names_csv(candidates), "passages.jsonl": passages}
    log_fields = {"corpus": kept_corpus.corpus_id} if kept_corpus.corpus_id else {}
    access_log.record(
        "exported", what="candidates", names="full", n_names=len(candidates), **log_fields
    )
    return {
        "n_names": len(candidates),
        "n_members": sum(m is True for m in candidates.is_member),
        "by_kind": dict(sorted(Counter(filter(None, candidates.control_kind)).items())),
        "by_role": dict(sorted(Counter(filter(None, candidates.role)).items())),
        "control_source": candidates.source,
        "left_out": dropped,
        "n_passages": passages.count(b"\n"),
        "files": [str(path) for path in write_private(files, out)],
    }


def _make_corpus_list(
    corpus: KeptCorpus, *, kinds: tuple[str, ...], roles: tuple[str, ...], register: Path | None
) -> tuple[Candidates, dict[str, int]]:
    """Return the list of a corpus, and the numbers of names left out."""
    if register is None:
        candidates = read_list(corpus, controls=kinds or None, roles=roles)
        held_out = read_examination(corpus.path).held_out
        return candidates, _say_left_out(held_out) if candidates.source == "held_out" else {}
    if "held_out" in kinds:
        raise AuditError(
            "A list has held-out controls or own ones.",
            where="--controls",
            do="Leave held_out or --own-controls-from out.",
        )
    listed = read_list(corpus, controls=kinds, roles=roles)
    own_controls = add_own_controls(corpus, listed, register)
    return own_controls.candidates, _say_left_out(own_controls)


def _say_left_out(dropped: OwnControls | HeldOutCounts | None) -> dict[str, int]:
    """Return the numbers of names left out of a list, and say why."""
    if dropped is None:
        return {}
    numbers = {"members": dropped.n_dropped_members, "controls": dropped.n_dropped_controls}
    say(
        "Left out, because somebody else's training notes hold the full name: "
        f"{dropped.n_dropped_members:,} members and {dropped.n_dropped_controls:,} controls."
    )
    if isinstance(dropped, OwnControls):
        numbers["households"] = dropped.n_dropped_households
        say(
            f"Left out, because they live with somebody who has training notes: "
            f"{dropped.n_dropped_households:,} people."
        )
    return numbers


@command()
def corpus_check(*, corpus: CorpusName, names: NamesList) -> Result:
    """Say which controls of a list stand in D_private, by their rows."""
    candidates = read_name_list(names)
    occurrences = count_control_mentions(find_corpus(corpus), candidates)
    n_controls = candidates.is_member.count(False)
    do = " They are no controls: take them off the list." if occurrences else ""
    say(
        f"{len(occurrences):,} of {n_controls:,} controls stand in D_private with their full name."
        f"{do}"
    )
    return {
        "n_controls": n_controls,
        "n_found": len(occurrences),
        "found": [
            {"row": candidates.row[row], "n_occurrences": n} for row, n in occurrences.items()
        ],
    }


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, text.replace(" ", "").split(","))))


@command()
def corpus_list() -> Result:
    """List the corpora that are kept here."""
    return {"corpora": [corpus_line(kept_corpus) for kept_corpus in CORPORA.all()]}


@command()
def corpus_forget(corpus: Annotated[str, "its identifier"]) -> Result:
    """Remove a kept corpus with all of its files."""
    CORPORA.forget(corpus)
    return {"forgotten": corpus}


def _describe_corpus(corpus: KeptCorpus) -> Result:
    """Return the counts of a corpus as JSON values."""
    examination = read_examination(corpus.path)
    coverage = examination.coverage
    counted = coverage.plain() | {
        "forms": dict(coverage.by_form),
        "reasons": dict(coverage.by_reason),
        "n_by_role": dict(coverage.n_by_role),
        "n_mentions": coverage.n_mentions,
        "n_elsewhere": coverage.n_elsewhere,
    }
    return examination.plain() | {
        "coverage": counted,
        "carriers": dict(examination.carriers),
        "n_patients": examination.n_patients or None,  # unknown, not none
        "n_patterns": examination.n_patterns,
        "n_occurrences": examination.n_occurrences,
        "corpus": corpus_line(corpus),
    }
