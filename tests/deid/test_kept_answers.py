"""A model's answers are kept: a build that was killed asks for the others alone, to equal bytes."""

from __future__ import annotations

import json
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from audit.deid.generative.model import LocalModel
from audit.deid.masks import ModelTranslation, ModelTyper
from audit.deid.pipeline import (
    ANSWERS,
    FILES,
    AnswerFile,
    AskedModel,
    ChainOrder,
    FillMeter,
    build_named,
)
from audit.errors import AuditCancelled, AuditError
from audit.notes.read import open_notes
from audit.progress import Meter, Progress

N_NOTES = 80


class Killed(BaseException):
    """What no code catches."""


class FakeModel:
    """Answers from the prompt and its neighbours, counts calls, and dies after `n_left` of them."""

    def __init__(self, *, n_left: int = 10_000) -> None:
        self.n_left = n_left
        self.calls: list[tuple[str, ...]] = []

    def __call__(self, prompts: Sequence[str]) -> list[str]:
        self.calls.append(tuple(prompts))
        self.n_left -= 1
        if self.n_left < 0:
            raise Killed
        if "Passage:" in prompts[0]:
            return [f"訳{len(prompts)} " + one.split("Passage:\n")[1] for one in prompts]
        return [f"1: TEXT {len(prompts)}.{len(prompt)}" for prompt in prompts]


def order_of(model: FakeModel, *, digest: str = "a") -> ChainOrder:
    typing = AskedModel(model, digest=f"typing {digest}", n_at_once=3)
    translating = AskedModel(model, digest=f"translating {digest}", n_at_once=4)
    return ChainOrder(
        typer=ModelTyper(typing),
        translator=ModelTranslation(translating),
        models=(typing, translating),
    )


def notes_file(path: Path) -> Path:
    lines = [
        {"note_id": f"d{i}", "patient_id": f"p{i % 60}",
         "text": f"Ms. ___ came.{' again' * (i % 7)}\nHgb ___ in note {i % 50}.\n"}
        for i in range(N_NOTES)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_build_that_was_killed_asks_for_the_others_alone(tmp_path: Path) -> None:
    source = open_notes(notes_file(tmp_path / "n.jsonl"))
    whole = FakeModel()
    build_named(source, out=tmp_path / "whole", order=order_of(whole))
    assert sorted(bytes_of(tmp_path / "whole")) == sorted(FILES), "no answers in the corpus"
    assert b"TEXT" not in (tmp_path / "whole" / "train.jsonl").read_bytes()
    done: list[tuple[str, ...]] = []
    for n_left in (2, 17, 5):
        model = FakeModel(n_left=n_left)
        with pytest.raises(Killed):
            build_named(source, out=tmp_path / "out", order=order_of(model))
        done += model.calls[:-1]
        left = tmp_path / ".out.making"
        assert [path.name for path in left.iterdir()] == [ANSWERS]
        assert stat.S_IMODE((left / ANSWERS).stat().st_mode) == 0o600
        assert stat.S_IMODE(left.stat().st_mode) == 0o700
        with (left / ANSWERS).open("ab") as file:
            file.write(b'["00112233445566778899aabbccddeeff", ["half an ans')
        (left / "train.jsonl").write_bytes(b"what a kill leaves")
    last = FakeModel()
    build_named(source, out=tmp_path / "out", order=order_of(last))
    assert len(done) == 24
    assert done + last.calls == whole.calls, "each batch is asked for once"
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["n.jsonl", "out", "whole"]


def test_another_model_is_asked_anew_and_rules_alone_clear_what_is_left(tmp_path: Path) -> None:
    source = open_notes(notes_file(tmp_path / "n.jsonl"))
    with pytest.raises(Killed):
        build_named(source, out=tmp_path / "out", order=order_of(FakeModel(n_left=9)))
    other, whole = FakeModel(n_left=12), FakeModel()
    with pytest.raises(Killed):
        build_named(source, out=tmp_path / "out", order=order_of(other, digest="b"))
    build_named(source, out=tmp_path / "whole", order=order_of(whole))
    assert other.calls == whole.calls[:13]
    build_named(source, out=tmp_path / "out", order=ChainOrder())
    build_named(source, out=tmp_path / "rules", order=ChainOrder())
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "rules")
    assert not (tmp_path / ".out.making").exists()


def test_a_person_can_stop_between_two_batches(tmp_path: Path) -> None:
    source = open_notes(notes_file(tmp_path / "n.jsonl"))
    model = FakeModel()
    with pytest.raises(AuditCancelled):
        build_named(source, out=tmp_path / "out", order=order_of(model),
                    should_stop=lambda: len(model.calls) >= 5)  # fmt: skip
    assert len(model.calls) == 5
    rest, whole = FakeModel(), FakeModel()
    build_named(source, out=tmp_path / "out", order=order_of(rest))
    build_named(source, out=tmp_path / "whole", order=order_of(whole))
    assert model.calls + rest.calls == whole.calls
    with pytest.raises(AuditCancelled):
        build_named(source, out=tmp_path / "none", order=order_of(model), should_stop=lambda: True)
    assert not (tmp_path / ".none.making").exists(), "nothing asked, nothing kept"


def test_progress_moves_with_every_answer_and_kept_ones_take_no_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("audit.progress._REPORT_SECONDS", 0.0)
    source = open_notes(notes_file(tmp_path / "n.jsonl"))
    reports: list[Progress] = []
    model = FakeModel(n_left=20)
    with pytest.raises(Killed):
        build_named(source, out=tmp_path / "out", order=order_of(model), progress=reports.append)
    fills = [dict(one.by_phase)["filling names in"] for one in reports]
    assert fills == sorted(fills)
    assert len({share for share in fills if share}) >= 20
    added: list[tuple[float, bool]] = []
    real = Meter.add

    def listening(self: Meter, phase: str, units: float, *, is_cached: bool = False) -> None:
        added.append((units, is_cached))
        real(self, phase, units, is_cached=is_cached)

    monkeypatch.setattr(Meter, "add", listening)
    build_named(source, out=tmp_path / "out", order=order_of(FakeModel()))
    fresh = sum(units for units, is_cached in added if not is_cached)
    total = 20.0 * source.n_bytes
    # 20 of the batches were kept; the first batch of notes and a part of the second were done.
    assert 0.35 * total < fresh < 0.7 * total
    assert sum(units for units, _ in added) == pytest.approx(total + source.n_bytes)


def test_prompts_of_like_length_together_and_none_twice() -> None:
    model = FakeModel()
    prompts = ["ccc", "a", "bb", "a", "dddd", "bb"]
    answers = AskedModel(model, digest="", n_at_once=2)(prompts)
    assert model.calls == [("a", "bb"), ("ccc", "dddd")]
    assert answers == [f"1: TEXT 2.{len(prompt)}" for prompt in prompts]
    assert AskedModel(model, digest="", n_at_once=2)([]) == []


@pytest.mark.parametrize(
    "rest", [b'["00', b"\0\0\0\n", b'["zz", []]\n', b"[1, 2]\n", b'["' + b"1" * 32 + b'", [3]]\n']
)
def test_what_is_not_whole_is_cut_off(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "answers"
    key, other = "0" * 32, "f" * 32
    file = AnswerFile(path)
    file.add(key, ["氏名\n", "\ud800", ""])
    file.close()
    whole = path.read_bytes()
    path.write_bytes(whole + rest)
    file = AnswerFile(path)
    assert (file.get(key), file.get(other)) == (["氏名\n", "\ud800", ""], None)
    file.add(other, ["b"])
    assert (file.get(other), file.get(key)) == (["b"], ["氏名\n", "\ud800", ""])
    file.close()
    assert path.read_bytes().startswith(whole)
    assert path.read_bytes().count(b"\n") == 2


def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("x")
    (tmp_path / "answers").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        AnswerFile(tmp_path / "answers")
    assert (tmp_path / "elsewhere").read_text() == "x"


def test_after_the_block_a_model_keeps_nothing(tmp_path: Path) -> None:
    model = FakeModel()
    asked = AskedModel(model, digest="", n_at_once=2)
    file = AnswerFile(tmp_path / "a")
    with asked.keeping(file, lambda share, is_known: None):
        asked(["a"])
        asked(["a"])
    file.close()
    asked(["a"])
    assert len(model.calls) == 2


def test_units_of_a_batch_are_counted_once_however_the_answers_come() -> None:
    seen: list[Progress] = []
    meter = Meter({"x": 30.0}, listener=seen.append, should_stop=lambda: False)
    gauge = FillMeter(meter, "x", n_units=1.0, n_models=2)
    for shares in ((), (1.0,), (0.3, 0.7, 0.5, 0.5)):
        gauge.begin(10)
        for share in shares:
            gauge.answered(share, False)
        gauge.end()
    assert seen[-1].done == pytest.approx(30.0)


def test_a_real_model_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    from tests.deid.generation.tiny_model import write_model

    directory = write_model(tmp_path / "m")
    source = open_notes(notes_file(tmp_path / "n.jsonl"))
    batches: list[int] = []
    real = LocalModel.__call__

    def counting(self: LocalModel, texts: list[str]) -> list[str]:
        batches.append(len(texts))
        if len(batches) == 4:
            raise Killed
        return real(self, texts)

    def order() -> ChainOrder:
        model = LocalModel(directory, max_new_tokens=3)
        asked = AskedModel(model, digest=model.digest, n_at_once=model.n_batch)
        return ChainOrder(translator=ModelTranslation(asked), models=(asked,))

    build_named(source, out=tmp_path / "whole", order=order())
    monkeypatch.setattr(LocalModel, "__call__", counting)
    with pytest.raises(Killed):
        build_named(source, out=tmp_path / "out", order=order())
    n_before = len(batches) - 1
    build_named(source, out=tmp_path / "out", order=order())
    assert n_before == 3
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "whole")
    one, other = LocalModel(directory, max_new_tokens=3), LocalModel(directory, max_new_tokens=4)
    assert len(one(["a" * 400])) == 1
    assert len(LocalModel(directory, max_new_tokens=2048)(["a b c", "番号"])) == 2, (
        "a short context"
    )
    assert len({one.digest, other.digest, LocalModel(directory, max_new_tokens=3).digest}) == 2


def test_a_full_folder_is_refused_before_a_model_is_asked(tmp_path: Path) -> None:
    model = FakeModel()
    source = open_notes(notes_file(tmp_path / "n.jsonl"))
    with pytest.raises(AuditError, match="something already"):
        build_named(source, out=tmp_path, order=order_of(model))
    assert not model.calls
