"""Commands of de-identification: tag notes, train a tagger, convert notes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from audit import access_log
from audit.cli.command_steps import Seed, answer_task, end_beside_first, say_patients
from audit.cli.commands import (
    Dependence,
    FieldsOf,
    Options,
    Result,
    command,
    has,
    is_absent,
    is_given,
)
from audit.cli.deid_options import (
    FREE,
    HELD,
    Beside,
    Copying,
    OutputsFile,
    PolicyName,
    Uncopied,
    find_tagger_id,
    find_tagger_ids,
    join_tagger_ids,
    read_labels,
)
from audit.cli.printing import format_table
from audit.deid.find.causal_model import LocalModel
from audit.deid.find.copies import OUTPUTS
from audit.deid.find.elsewhere import (
    FileTagger,
    ServerSettings,
    ServerTagger,
    open_server_tagger,
    read_file_tagger,
)
from audit.deid.find.rules import RuleTagger
from audit.deid.find.tagger_facts import GenerativeFacts, TaggerFacts
from audit.deid.find.taggers import (
    DEFAULT,
    TAGGER_SEPARATOR,
    combined_digest,
    find_tagger,
    load_tagger,
)
from audit.deid.invent.pipeline import build_named
from audit.deid.learn.tagger_task import (
    FROM_ENCODER,
    FROM_SCRATCH,
    FROM_TAGGER,
    TaggerSettings,
    TaggerTask,
    TuningSettings,
    make_token_settings,
)
from audit.deid.measure import leftovers
from audit.deid.measure.coverage import describe_rows, list_coverage
from audit.deid.redact.policy import ALL_OUT, find_policy
from audit.deid.redact.release import SURROGATE, Release
from audit.deid.sets import incoming_notes as handed_in
from audit.deid.sets.releases import list_releases, record_release, release_sharing_key
from audit.deid.sets.tagging import (
    CENSUS,
    FALLBACK,
    REDACTED,
    UNCOPIED,
    WITHHOLD,
    tag_notes,
)
from audit.errors import AuditError
from audit.executor import count_cores
from audit.foreign import locate_errors, read_file_bytes, refuse_errors
from audit.names.people import ENGLISH, JAPANESE
from audit.notes.formats import Format, flatten_spans, write_files
from audit.notes.read import Note, NoteSource, open_notes
from audit.notes.spans import TaggedDocument
from audit.patients.register import read_register
from audit.progress import progress_line, say
from audit.shelf import whole_folder, write_private, write_whole
from audit.task import Device
from audit.training.config import Lora, read_process_number

_MAX_SHOWN = 20


@command()
def deid_build(
    *,
    notes: Annotated[
        Path, "discharge.csv(.gz), NOTEEVENTS.csv(.gz), CSV, JSONL, Parquet, or a folder of .txt"
    ],
    out: Annotated[Path, "a new folder"],
    names: Annotated[Literal["ja", "en"], "language of names"] = "ja",
    seed: Seed = 0,
    typer: Annotated[
        Path | None, "directory of a causal language model that types masks; rules without"
    ] = None,
    translator: Annotated[
        Path | None, "directory of a causal language model that translates into Japanese"
    ] = None,
) -> Result:
    """Make a corpus with names and spans from masked notes."""
    return build_named(
        open_notes(notes),
        folder=out,
        seed=seed,
        locale={"ja": JAPANESE, "en": ENGLISH}[names],
        typer=LocalModel(typer) if typer else None,
        translator=LocalModel(translator, max_new_tokens=2048) if translator else None,
        progress=progress_line(),
    )


@command()
def deid_policy(
    policy: Annotated[str, "five-types, safe-harbor or a JSON file"] = ALL_OUT.title,
    *,
    tagger: Annotated[str, "rules, default or trained/ID; several: rules+trained/ID"] = DEFAULT,
) -> Result:
    """Say what a policy takes out, what a tagger can find of it, and what was measured."""
    stated_policy = find_policy(policy)
    rows = describe_rows(
        list_coverage(stated_policy, tagger=find_tagger(join_tagger_ids(tagger))), language="en"
    )
    return {
        "coverage": rows,
        "policy": stated_policy.as_file().decode(),
    }


Mode = Annotated[Literal["placeholder", "surrogate", "mask"], "what takes the place of marked text"]
KeyOf = Annotated[
    str,
    "surrogates from the key of this release of `deid releases`: a patient has the same ones "
    "and the same shift of dates in both, so that whoever has both can link them; a new random "
    "key without",
]


@command(
    Dependence({"seed", "key_of"}, has("mode", SURROGATE), needs="--mode surrogate"),
    Dependence({"seed"}, is_absent("key_of"), clashes="--key-of"),
    Dependence({"outputs"}, is_absent("endpoint"), clashes="--endpoint"),
    Dependence({"tagger", "copying"}, is_absent("outputs"), clashes="--outputs"),
    Dependence({"tagger", "copying"}, is_absent("endpoint"), clashes="--endpoint"),
    Dependence(
        {*ServerSettings.model_fields} - {"endpoint"}, is_given("endpoint"), needs="--endpoint"
    ),
)
def deid_tag(
    *,
    tagger: Annotated[
        str,
        "rules, default, trained/ID, one of installed packages, or the folder of a tagger; "
        "several as one: default+ginza",
    ] = DEFAULT,
    notes: Annotated[
        Path,
        "CSV, JSONL, Parquet, FHIR (JSON), i2b2 XML, CoNLL, one .txt or .html, or a folder of such",
    ],
    out: Annotated[Path, "a new folder"],
    register: Annotated[
        Path | None,
        "CSV, JSONL or Parquet: what is known of patients, and is found in their notes",
    ] = None,
    outputs: OutputsFile = None,
    server: Annotated[Options, FieldsOf(ServerSettings)],
    beside: Beside = (),
    uncopied: Uncopied = FALLBACK,
    copying: Copying = HELD,
    mode: Mode = "placeholder",
    policy: PolicyName = ALL_OUT.title,
    key_of: KeyOf = "",
    seed: Annotated[
        int | None,
        "for tests only: of the surrogates. It is public: anybody with the program can compute "
        "names, dates and numbers from such a release",
    ] = None,
    workers: Annotated[
        int, "processes that tag many notes with rules or a network of words; 0: one a core, to 8"
    ] = 0,
    device: Annotated[Device, "where a tagger runs"] = "auto",
) -> Result:
    """Find personal information in notes and take it out."""
    stated = find_policy(policy)
    requested_release = release_sharing_key(key_of) if key_of else Release(mode=mode, seed=seed)
    source = _notes_to_tag(notes)
    elsewhere = _open_elsewhere(outputs, server, source=source)
    if elsewhere:
        tagger_id = TAGGER_SEPARATOR.join((elsewhere.name, *find_tagger_ids(beside)))
    else:
        tagger_id = join_tagger_ids(tagger, other_names=beside)
        _refuse_nothing_copied(tagger_id, uncopied, copying)
    loaded = load_tagger(tagger_id, device=device, is_free=copying == FREE, elsewhere=elsewhere)
    with record_release(out, requested_release) as (release_id, release):
        census = tag_notes(
            source,
            tagger=loaded,
            folder=out,
            release=release,
            policy=stated,
            register=read_register(register) if register else None,
            uncopied=uncopied,
            n_workers=workers or count_cores(),
            progress=progress_line(),
        )
    _say_tagged(census, release_id, release)
    return census


def _open_elsewhere(
    outputs: Path | None, server: Options, *, source: NoteSource | handed_in.AnnotatedNotes
) -> FileTagger | ServerTagger | None:
    """Return the tagger whose copies are written elsewhere; None if the options name none.

    A file without a copy of any note is refused here, before a release is recorded.
    """
    if not outputs:
        return open_server_tagger(ServerSettings(**server)) if server.get("endpoint") else None
    copies = read_file_tagger(outputs, subject="--outputs")
    copies.compare_names([row.note_id for row in source.read() if isinstance(row, Note)])
    return copies


def _say_output_names(counts: Mapping[str, Any] | None) -> None:
    """Say how many notes have no copy in the file, and which copies belong to no note."""
    if not counts:
        return
    if n_without := counts["n_notes_without_copy"]:
        say(
            f"{n_without} notes have no copy in the file: they count as not copied, and "
            f"{UNCOPIED} lists them."
        )
    if n_alone := counts["n_copies_without_note"]:
        lines = counts["lines_without_note"][:_MAX_SHOWN]
        line_list = ", ".join(map(str, lines)) + (" ..." if n_alone > len(lines) else "")
        say(f"{n_alone} copies belong to no note and are left out: lines {line_list}.")


def _notes_to_tag(path: Path) -> NoteSource | handed_in.AnnotatedNotes:
    """Return the notes of a path; say so if a table of notes does not name their patients."""
    source = handed_in.notes_to_tag(path)
    if isinstance(source, NoteSource):
        say_patients(source.has_patients)
    return source


def _say_tagged(census: Mapping[str, Any], release_id: str, release: Release) -> None:
    """Say what the user must know about the released notes."""
    _say_release(release_id, release)
    if n_without := census.get("register", {}).get("n_notes_without_row"):
        say(f"{n_without} notes are of a patient whom the register does not know, or of none.")
    if n_foreign := census["n_notes_of_no_language"]:
        say(
            f"{n_foreign} notes are neither in Japanese nor in English: the taggers that are "
            "shipped know\nno other language and miss most of what stands in such "
            "notes."
        )
    _say_output_names(census.get(OUTPUTS))
    _say_uncopied(census.get("uncopied"))
    say(
        f"{handed_in.SPANS} holds the notes as they were; {REDACTED} holds what a tagger left of "
        "them,\nwith all that it missed: measure it with `deid score` before anything is given "
        "away."
    )


def _refuse_nothing_copied(tagger_id: str, uncopied: Uncopied, copying: str) -> None:
    """Refuse options about copies if no tagger writes any."""
    options = [("--uncopied", uncopied == WITHHOLD), ("--copying", copying == FREE)]
    for option, is_set in options:
        if is_set and not find_tagger(tagger_id).writes_copies:
            raise AuditError(
                "No tagger that was named writes copies, so the option has no meaning.",
                where=option,
                do="Name a generative tagger, or leave the option out.",
            )


def _say_release(release_id: str, release: Release) -> None:
    if release.is_reversible:
        say(
            "A seed is public: anybody who has this program can compute the names, dates and "
            "record numbers\nfrom these surrogates. Do not hand them out."
        )
    elif release_id:
        say(f"This is release {release_id}; its key stays in the data directory.")


@command()
def deid_releases(
    *, tagged: Annotated[Path | None, "folder of `deid tag`: say whether it is reversible"] = None
) -> Result:
    """List the releases with surrogates, and say which of them can be reversed."""
    rows = [asdict(kept_release) for kept_release in list_releases()]
    if tagged:
        with refuse_errors(AuditError("This is no folder of `deid tag`.", where="--tagged")):
            census = json.loads(read_file_bytes(tagged / CENSUS))
            has_key = census.get("surrogates", {}).get("reversible") is False
            is_reversible = census["mode"] == SURROGATE and not has_key
        rows.append(
            {
                "identifier": "",
                "title": tagged.resolve().name,
                "created": "",
                "is_kept": False,
                "is_reversible": is_reversible,
                "linked": (),
            }
        )
    if rows:
        say(
            format_table(
                [row | {"linked": " ".join(row["linked"])} for row in rows], columns=tuple(rows[0])
            )
        )
    if n_reversible := sum(row["is_reversible"] for row in rows):
        say(
            f"{n_reversible} can be reversed: the surrogates come from a public seed, so that "
            "anybody who has this\nprogram can compute true names, dates and record numbers from "
            "them. Tell whoever has a copy to\ndelete it and to confirm that, and call back what "
            "was passed on; make a new release, which has\na secret key, and then remove this "
            "one."
        )
    return {"releases": rows}


def _say_uncopied(counts: Mapping[str, Any] | None) -> None:
    """Say how many notes a tagger did not copy completely, and what happened to them."""
    if not counts or not counts["n_notes"]:
        return
    outcome = (
        f"They are withheld: they stand neither in {REDACTED} nor in {handed_in.SPANS}"
        if counts["n_withheld"]
        else "The default tagger marked these parts"
    )
    say(
        f"{counts['n_notes']} notes were not copied whole ({counts['n_characters']} characters). "
        f"{outcome}. {UNCOPIED} lists them."
    )


@command()
def deid_leftovers(
    *,
    tagged: Annotated[Path, "folder of `deid tag`"],
    k: Annotated[int, "count patients in groups below this; terms of so many notes are rare"] = 5,
    out: Annotated[Path | None, "write who is singled out: a CSV (holds text of notes)"] = None,
) -> Result:
    """Find what stays readable in tagged notes and singles somebody out."""
    with locate_errors("--tagged"):
        n_bytes = (tagged / handed_in.SPANS).stat().st_size
    names: dict[int, str] = {}

    def notes() -> Iterator[tuple[int, TaggedDocument]]:
        for row, document in leftovers.read_tagged_folder(tagged):
            names[row] = document.doc_id
            yield row, document

    remains = leftovers.find_leftovers(notes(), k=k, n_bytes=n_bytes, progress=progress_line())
    if out:
        access_log.record("exported", what="leftovers", names="full")
        csv_text = leftovers.leftovers_csv(remains, names=names)
        write_whole(out, csv_text.encode("utf-8", "replace"))
    say(
        f"{remains.n_singled} of {remains.n_patients} patients have a combination of what is left "
        f"that nobody else of the set has; {remains.n_below} one that fewer than {k} share. Who is "
        "unique in a set need not be so outside: this is\nan upper bound of the risk. What no rule "
        "or list knows is not counted."
    )
    return remains.counts()


@command()
def deid_convert(
    *,
    notes: Annotated[
        Path, "JSONL, i2b2 XML, CoNLL, a text with tags, or a folder of these or of brat"
    ],
    out: Annotated[Path, "a new folder"],
    to: Annotated[Format, "the other form"],
) -> Result:
    """Write annotated notes in another form; of spans that overlap the longest stay whole."""
    documents = handed_in.annotated_notes(notes).read_all()
    converted = list(map(flatten_spans, documents)) if to in ("conll", "inline") else documents
    with whole_folder(out, place="--out") as folder:
        n_files = len(write_private(dict(write_files(converted, form=to)), folder))
    n_flattened = sum(
        document is not original for document, original in zip(converted, documents, strict=True)
    )
    return {"n_notes": len(documents), "n_files": n_files, "n_flattened": n_flattened}


@command(
    Dependence({"adapted"}, is_given("lora"), needs="--lora"),
    Dependence(
        {"model", "tuned", "lora"}, has("kind", GenerativeFacts.kind), needs="--kind generative"
    ),
    Dependence({"encoder"}, is_absent("base"), clashes="--from"),
    Dependence(
        {"encoder", "trained", "base", "label_map"},
        lambda options: options.get("kind", TaggerFacts.kind) == TaggerFacts.kind,
        needs="--kind token",
    ),
)
def deid_train(
    *,
    kind: Annotated[
        Literal["token", "generative"],
        "token: a network that marks words; generative: a language model that writes copies",
    ] = "token",
    options: Annotated[Options, FieldsOf(TaggerTask)],
    encoder: Annotated[
        Path | None, "directory of an encoder to start from; without it a small network"
    ] = None,
    trained: Annotated[Options, FieldsOf(TaggerSettings)],
    model: Annotated[Path | None, "generative: directory of a causal language model"] = None,
    tuned: Annotated[Options, FieldsOf(TuningSettings, prefix="gen-")],
    lora: Annotated[
        bool, "generative: tune an adapter (needs peft) and merge it into the model"
    ] = False,
    adapted: Annotated[Options, FieldsOf(Lora, prefix="lora-")],
    label_map: Annotated[Path | None, "JSON object from label to type"] = None,
) -> Result:
    """Train a tagger; goes on where it stopped."""
    settings: TaggerSettings | TuningSettings
    if kind == "generative":
        if model is None:
            raise AuditError("Which model shall be tuned?", where="--model", do="Give a directory.")
        settings = TuningSettings(**tuned, lora=Lora(**adapted) if lora else None)
    else:
        if options.get("base"):
            options["base"] = find_tagger_id(options["base"])
        defaults = FROM_TAGGER if options.get("base") else FROM_ENCODER if encoder else FROM_SCRATCH
        settings = make_token_settings(trained, defaults=defaults)
    options |= read_labels(label_map)
    task = TaggerTask(settings=settings, start=model or encoder, **options)
    if read_process_number()[0]:  # of several processes, only the first answers and reports
        task.help()
        end_beside_first()
    (tagger_id,) = answer_task(task)
    folder = task.with_(tagger_id=tagger_id).folder
    facts_of: Any = GenerativeFacts if kind == "generative" else TaggerFacts
    facts = facts_of.of_folder(folder)
    return {
        "tagger_id": None if task.out else tagger_id,
        "directory": str(folder),
        "digest": _tagger_digest(facts),
        "measured": dict(facts.measured),
        "training": dict(facts.training),
    }


def _tagger_digest(facts: GenerativeFacts | TaggerFacts) -> str:
    """Return the digest of a trained model, combined with that of rules beside it."""
    digest = facts.digest()
    is_beside = isinstance(facts, TaggerFacts) and facts.has_rules
    return combined_digest(RuleTagger().digest, digest) if is_beside else digest
