"""The tagger: greedy, the same alone as in a batch, long notes in windows, copies kept beside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from audit.deid.copies import COPIES
from audit.deid.generative import tagger as generative_tagger
from audit.deid.generative import tagger as greedy
from audit.deid.generative.config import GenerativeFacts
from audit.deid.generative.model import CausalModel, check_directory, load_causal, text_ids
from audit.deid.generative.tagger import (
    Asked,
    GenerativeTagger,
    cache_bytes,
    generated,
    load_generative,
    tagger_of,
)
from audit.deid.given import SPANS
from audit.deid.release import Release
from audit.deid.tag import tag_notes
from audit.errors import AuditCancelled, AuditError
from audit.notes.read import open_notes
from audit.notes.spans import TaggedDocument
from tests.deid.generation.tiny_model import NOTES, documents, line_of, order, tuned, write_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tuned")
    task = order(path, write_model(path / "m"), n_epochs=70.0)
    tuned(task)
    return task.folder


@pytest.fixture
def tagger(folder: Path) -> GenerativeTagger:
    return load_generative(folder, device="cpu")


def asked_of(tagger: GenerativeTagger, texts: Sequence[str]) -> list[Asked]:
    notes = [text_ids(tagger.loaded.tokenizer, text) for text in texts]
    return [Asked(tagger.frame.prompt(n), tagger.room.n_answer(len(n))) for n in notes]


def test_a_batch_answers_as_one_by_one_and_as_a_loop_by_hand(tagger: GenerativeTagger) -> None:
    asked = asked_of(tagger, [text for text, _ in NOTES] + ["森", "足立 5/3 受診 電話 99"])
    stops = tagger.frame.stops
    together = generated(tagger.loaded, asked, stops=stops, n_tokens=100_000)
    alone = generated(tagger.loaded, asked, stops=stops, n_tokens=1)
    assert together == alone
    assert [by_hand(tagger.loaded, one, stops) for one in asked] == together


def by_hand(loaded: CausalModel, asked: Asked, stops: Sequence[int]) -> list[int]:
    """The most likely token, again and again, without a cache."""
    ids, answer = list(asked.prompt), []
    while len(answer) < asked.n_answer:
        with torch.no_grad():
            said = loaded.model(input_ids=torch.tensor([ids])).logits[0, -1]
        token = int(said.argmax())
        if token in stops:
            break
        answer.append(token)
        ids.append(token)
    return answer


def test_each_answer_has_its_own_limit(tagger: GenerativeTagger) -> None:
    one, other = asked_of(tagger, [NOTES[0][0], NOTES[1][0]])
    cut = [Asked(one.prompt, 5), Asked(other.prompt, other.n_answer)]
    answers = generated(tagger.loaded, cut, stops=tagger.frame.stops, n_tokens=100_000)
    whole = generated(tagger.loaded, [one, other], stops=tagger.frame.stops, n_tokens=100_000)
    assert answers == [whole[0][:5], whole[1]]


def test_where_memory_runs_out_halves_are_tried(
    tagger: GenerativeTagger, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asked_of(tagger, [text for text, _ in NOTES])
    stops = tagger.frame.stops
    expected = generated(tagger.loaded, asked, stops=stops, n_tokens=100_000)
    real, sizes = greedy._one_batch, []

    def small(loaded, rows, **more):  # type: ignore[no-untyped-def]
        sizes.append(len(rows))
        if len(rows) > 1:
            return None
        return real(loaded, rows, **more)

    monkeypatch.setattr(greedy, "_one_batch", small)
    assert generated(tagger.loaded, asked, stops=stops, n_tokens=100_000) == expected
    assert sizes == [4, 2, 1, 1, 2, 1, 1]
    monkeypatch.undo()

    def full(**_: object) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(tagger.loaded.model, "generate", full)
    with pytest.raises(AuditError, match="single window"):
        generated(tagger.loaded, asked[:1], stops=stops, n_tokens=1)


def test_a_person_can_stop_it_in_the_middle(
    tagger: GenerativeTagger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(greedy, "_ASK_SECONDS", 0.0)
    with pytest.raises(AuditCancelled):
        tagger.read(documents(), should_stop=lambda: True)


def test_it_tells_how_far_it_is_inside_of_a_note(
    tagger: GenerativeTagger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(greedy, "_ASK_SECONDS", 0.0)
    note = TaggedDocument("long", "\n".join(text for text, _ in NOTES[:3]))
    shares: list[float] = []
    small = replace(tagger, n_tokens_at_once=1)
    (reading,) = small.read([note], on_share=shares.append)
    assert len(shares) > 2 * len(reading.pieces) > 2
    assert shares == sorted(shares)
    assert 0 < shares[0] < 0.1
    assert shares[-1] == 1.0


def test_the_cache_by_hand(tagger: GenerativeTagger) -> None:
    # keys and values, 2 layers, 2 heads of 16 numbers of 4 bytes
    assert cache_bytes(tagger.loaded.model) == 2 * 2 * 2 * 16 * 4


def test_a_long_note_is_read_in_windows(tagger: GenerativeTagger) -> None:
    text = "\n".join(text for text, _ in NOTES[:3])
    (reading,) = tagger.read([TaggedDocument("long", text)])
    assert len(reading.pieces) > 1
    assert all(len(one.output) <= 1.2 * 17 + 64 for one in reading.pieces)
    assert {i for one in reading.pieces for i in range(one.start, one.end)} == set(range(len(text)))
    for before, after in zip(reading.tags, reading.tags[1:], strict=False):
        assert before.end <= after.start


def test_blank_and_empty_notes_are_not_asked_about(
    tagger: GenerativeTagger, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Asked] = []

    def nothing(loaded: object, given: list[Asked], **_: object) -> list[list[int]]:
        asked.extend(given)
        return [[] for _ in given]

    monkeypatch.setattr(generative_tagger, "generated", nothing)
    readings = tagger.read([TaggedDocument("a", ""), TaggedDocument("b", " \n"), documents()[0]])
    assert [one.status for one in readings] == ["exact", "exact", "empty"]
    assert len(asked) == 1


def notes_file(path: Path, *, n: int = 30) -> Path:
    with path.open("w", encoding="utf-8") as file:
        for i in range(n):
            text = NOTES[i % 4][0] if i % 5 else "森様\n特記なし。 " + NOTES[i % 3][0]
            file.write(line_of(doc_id=f"n{i}", patient_id=f"p{i % 6}", text=text))
    return path


def tag(tagger: GenerativeTagger, notes: Path, out: Path, **more):  # type: ignore[no-untyped-def]
    return tag_notes(open_notes(notes), tagger=tagger, out=out, release=Release(), **more)


def test_a_file_of_notes_its_copies_and_what_is_summed(
    tagger: GenerativeTagger, tmp_path: Path
) -> None:
    notes = notes_file(tmp_path / "notes.jsonl")
    census = tag(tagger, notes, tmp_path / "out", keep_outputs=True)
    lines = [
        json.loads(line) for line in (tmp_path / "out" / COPIES).read_text("utf-8").splitlines()
    ]
    assert (tmp_path / "out" / COPIES).stat().st_mode & 0o777 == 0o600
    copies = census["copies"]
    statuses = [line["status"] for line in lines]
    assert copies["n_notes"] == len(lines) == census["n_notes"] == 30
    assert copies["statuses"] == {name: statuses.count(name) for name in copies["statuses"]}
    assert copies["faithful"]["n"] == statuses.count("exact") >= 12
    assert copies["error_rate"] == pytest.approx(sum(one["error_rate"] for one in lines) / 30)
    assert copies["n_windows"] == sum(len(one["outputs"]) for one in lines) > 30
    assert copies["n_unaligned"] == sum(len(one["unaligned"]) for one in lines)
    assert COPIES in census["sha256"]
    spans = [
        json.loads(line) for line in (tmp_path / "out" / SPANS).read_text("utf-8").splitlines()
    ]
    assert [one.get("unaligned", []) for one in spans] == [one["unaligned"] for one in lines]
    tag(tagger, notes, tmp_path / "bare")
    assert "output" not in (tmp_path / "bare" / COPIES).read_text("utf-8")


def test_stopped_and_gone_on_the_files_have_the_same_bytes(
    folder: Path, tagger: GenerativeTagger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("audit.deid.tag._KEEP_SECONDS", 0.0)
    notes = notes_file(tmp_path / "notes.jsonl")
    tag(tagger, notes, tmp_path / "whole")
    real, calls = GenerativeTagger.read, []

    def dying(self, given, **more):  # type: ignore[no-untyped-def]
        calls.append(len(given))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(self, given, **more)

    monkeypatch.setattr(GenerativeTagger, "read", dying)
    with pytest.raises(KeyboardInterrupt):
        tag(tagger, notes, tmp_path / "parts")
    tag(load_generative(folder, device="cpu"), notes, tmp_path / "parts")
    assert calls == [8, 8, 8, 8, 6]  # the batch that was lost, and the rest
    for path in sorted((tmp_path / "whole").iterdir()):
        assert path.read_bytes() == (tmp_path / "parts" / path.name).read_bytes(), path.name


def test_any_causal_model_can_be_asked(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m", kind="gpt2", n_positions=400)
    loaded = load_causal(model, device="cpu")
    tagger = tagger_of(loaded, GenerativeFacts(model=loaded.digest))
    (reading,) = tagger.read(documents()[:1])
    assert reading.status != "exact"
    assert reading.document.text == NOTES[0][0]
    assert tagger.room.growth == 2.0


def test_another_model_than_described_is_refused(folder: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copy"
    write_model(copied / "model")
    (copied / "tagger.json").write_bytes((folder / "tagger.json").read_bytes())
    with pytest.raises(AuditError, match="is not the one that"):
        load_generative(copied, device="cpu")
    (copied / "tagger.json").write_text("{}")
    with pytest.raises(AuditError, match="does not describe a tagger"):
        load_generative(copied, device="cpu")


def test_facts_change_the_digest_and_are_checked(tagger: GenerativeTagger) -> None:
    facts = GenerativeFacts(title="a", model="0" * 64)
    assert facts.digest() != GenerativeFacts(title="a", model="0" * 64, overlap=3).digest()
    assert facts.digest() == GenerativeFacts(title="b", model="0" * 64).digest()
    with pytest.raises(AuditError, match="must be"):
        GenerativeFacts(title="", model="", language="de")
    with pytest.raises(AuditError, match="no room"):
        tagger_of(tagger.loaded, GenerativeFacts(title="", model="", max_tokens=100))


def test_a_directory_with_an_adapter_or_without_weights_is_refused(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    (model / "adapter_config.json").write_text('{"base_model_name_or_path": "elsewhere"}')
    with pytest.raises(AuditError, match="adapter"):
        check_directory(model)
    (model / "adapter_config.json").unlink()
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    with pytest.raises(AuditError, match="lacks tensors"):
        load_causal(model, device="cpu")
