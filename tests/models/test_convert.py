"""Conversion of weights in other forms: equal to the model itself, or refused; no code runs."""

from __future__ import annotations

import errno
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from audit.cli import main
from audit.errors import AuditCancelled, AuditError
from audit.jobs import service
from audit.models import pickled_weights
from audit.models.conversion import RECORD_FILE
from audit.models.convert import CONVERTED, ConvertTask, find_need
from audit.models.inspect import compute_model_digest, inspect_model
from audit.models.limited import call_limited
from audit.models.load import load_model, load_pair
from audit.models.registry import list_models
from audit.task import Contact
from tests.models.editing import WEIGHTS, edit_json, edit_weights
from tests.models.hostile_pickles import PICKLE, list_calls, list_hostile_files
from tests.models.make_causal import make_causal
from tests.models.make_encoders import ENCODERS, make_encoder
from tests.models.make_models import MAKERS, WORDS, copy, good, make_bert, make_roberta
from tests.models.shut_off_calls import prepare, try_calls, unpickle_shut_off

__all__ = ["copy", "good"]
HOSTILE = dict(list_hostile_files())
SAMPLE = {
    "system-zip": 'The file holds more than tensors: reading it would need "os.system".',
    "eval-legacy": 'The file holds more than tensors: reading it would need "eval".',
    "promised_terabytes": "The file is damaged, or is not a PyTorch file that holds only tensors.",
    "one_number_for_terabytes": "The tensors claim 8,796,093,022,224 bytes, but the file has only",
    "sparse": '"weight" is not a plain tensor: it is sparse or',
    "itself": '"a" is not a plain tensor',
    "half_zip": "The file ends too early",
    "pointer": "This is a Git LFS pointer, not the file itself",
    "web_page": "This is a web page, not the file itself",
}
CONTACT = Contact(listen=lambda _: None, should_stop=lambda: False, say=lambda _: None)


@pytest.fixture(scope="module", autouse=True)
def _nursery() -> None:
    """Start the process that forks, which takes seconds."""
    assert call_limited(prepare, place="")


def convert(source: Path, out: Path, **options: Any) -> Path:
    """Convert a model as the command does, without a job."""
    ConvertTask(source=source, out=out, **options).run(CONTACT)
    return out


def pickle_weights(
    folder: Path, *, is_zip: bool = True, change: Callable[[Any], Any] = lambda tensors: tensors
) -> Path:
    """Replace a folder's safetensors by pickled weights."""
    tensors = change(load_file(folder / WEIGHTS))
    (folder / WEIGHTS).unlink()
    torch.save(tensors, folder / PICKLE, _use_new_zipfile_serialization=is_zip)
    return folder


def write_shards(folder: Path, *, is_pickled: bool, n: int = 3) -> Path:
    """Replace a folder's safetensors by shards and their index."""
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    stem, ending = ("pytorch_model", "bin") if is_pickled else ("model", "safetensors")
    files_by_tensor = {}
    for i in range(n):
        file = f"{stem}-{i + 1:05}-of-{n:05}.{ending}"
        shard = {name: tensors[name] for name in sorted(tensors)[i::n]}
        torch.save(shard, folder / file) if is_pickled else save_file(shard, folder / file)
        files_by_tensor |= dict.fromkeys(shard, file)
    index = {"metadata": {}, "weight_map": files_by_tensor}
    (folder / f"{stem}.{ending}.index.json").write_text(json.dumps(index))
    return folder


def save_body(folder: Path, *, prefix: str = "") -> Path:
    """Replace a folder's weights by those of its encoder alone, pickled."""
    transformers.utils.logging.set_verbosity_error()
    body = transformers.AutoModel.from_pretrained(folder)
    tensors = {prefix + name: tensor for name, tensor in body.state_dict().items()}
    return pickle_weights(folder, change=lambda _: tensors)


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.long
@pytest.mark.parametrize("kind", MAKERS)
def test_a_converted_model_is_the_model_itself(kind: str, tmp_path: Path) -> None:
    folder = MAKERS[kind](tmp_path / "model")
    original = Path(shutil.copytree(folder, tmp_path / "whole"))
    expected = load_model(original).model.state_dict()
    (folder / "train.py").write_text("raise SystemExit")
    for form, spoil in FORMS.items():
        source = Path(shutil.copytree(folder, tmp_path / form))
        spoil(source)
        source_names = list_names(source)
        out = convert(source, tmp_path / f"{form}-out")
        weights = load_model(out).model.state_dict()
        assert weights.keys() == expected.keys()
        assert all(torch.equal(tensor, expected[name]) for name, tensor in weights.items())
        assert list_names(out) == sorted({*list_names(original), RECORD_FILE})
        assert list_names(source) == source_names
        assert {path.stat().st_mode & 0o777 for path in out.iterdir()} == {0o600}
        record = json.loads((out / RECORD_FILE).read_text())
        assert record["prefixes_removed"] == (["module."] if form == "parallel" else [])
        assert (record["head_name"], record["prefix_added"]) == ("", "")


def _in_half_precision(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: torch.nn.Parameter(tensor.half()) for name, tensor in tensors.items()}


FORMS: dict[str, Callable[[Path], Path]] = {
    "zip": pickle_weights,
    "legacy": lambda folder: pickle_weights(folder, is_zip=False),
    "wrapped": lambda folder: pickle_weights(folder, change=lambda t: {"state_dict": t}),
    "parallel": lambda folder: pickle_weights(
        folder, change=lambda t: {f"module.{name}": tensor for name, tensor in t.items()}
    ),
    "pickled_shards": lambda folder: write_shards(folder, is_pickled=True),
    "shards": lambda folder: write_shards(folder, is_pickled=False),
}


def test_number_types_and_tied_tensors_stay(copy: Path, tmp_path: Path) -> None:
    embedding = "bert.embeddings.word_embeddings.weight"

    def tie(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        half = _in_half_precision(tensors)
        return half | {"cls.predictions.decoder.weight": half[embedding]}

    pickle_weights(copy, change=tie)
    out = convert(copy, tmp_path / "out")
    tensors = load_file(out / WEIGHTS)
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16}
    assert torch.equal(tensors[embedding], tensors["cls.predictions.decoder.weight"])
    assert load_model(out).n_parameters == inspect_model(out).n_parameters


# Hostile files.


def refuse_hostile(name: str, folder: Path, model_folder: Path) -> str:
    """Convert a hostile file; return the refusal, and check that nothing else came of it."""
    source = Path(shutil.copytree(model_folder, folder / "model"))
    (source / WEIGHTS).unlink()
    canary = folder / "canary"
    HOSTILE[name](source / PICKLE, canary)
    names = {*list_names(folder)}
    with pytest.raises(AuditError) as refused:
        convert(source, folder / "out")
    assert not canary.exists() and {*list_names(folder)} == names
    message = refused.value.render("en")
    assert message.startswith("model") and str(folder) not in message and len(message) < 500
    assert refused.value.render("ja") != message
    return message


@pytest.mark.parametrize(("name", "sentence"), SAMPLE.items())
def test_hostile_files_are_refused(name: str, sentence: str, good: Path, tmp_path: Path) -> None:
    assert sentence in refuse_hostile(name, tmp_path, good)


@pytest.mark.slow
def test_no_hostile_file_runs_code_hangs_or_leaves_anything(good: Path, tmp_path: Path) -> None:
    assert len(HOSTILE) >= 200
    n_limits = 0
    for name in HOSTILE:
        (tmp_path / name).mkdir()
        start = time.process_time()
        message = refuse_hostile(name, tmp_path / name, good)
        assert time.process_time() - start < 20, name
        n_limits += "and was stopped" in message
        shutil.rmtree(tmp_path / name)
    assert n_limits < 10  # nearly all are refused for what they are


@pytest.mark.long
def test_a_damaged_file_is_refused_or_gives_numbers(copy: Path, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    pickle_weights(copy)
    pickle_bytes = (copy / PICKLE).read_bytes()
    n_refused = 0
    for i in range(40):
        data = bytearray(pickle_bytes)
        for place in torch.randint(len(data), (1 + i % 4,), generator=generator).tolist():
            data[place] ^= 1 << i % 8
        (copy / PICKLE).write_bytes(data)
        try:
            load_model(convert(copy, tmp_path / str(i)))
        except AuditError:
            n_refused += 1
    assert 0 < n_refused < 40


# The process that is shut off.


def test_a_process_that_is_shut_off_reaches_nothing(tmp_path: Path) -> None:
    outcomes = call_limited(try_calls, str(tmp_path / "canary"), place="here")
    assert outcomes.pop("open_file") == "done"
    assert outcomes.pop("thread") == "RuntimeError"
    assert set(outcomes.values()) == {"PermissionError"} and len(outcomes) == 12
    assert list_names(tmp_path) == []


@pytest.mark.long
def test_code_that_would_run_after_all_reaches_nothing(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    outcomes = {}
    for name, code in list_calls(canary).items():
        data = b"\x80\x02" + code + b"."
        ended = AuditError("It ended.")
        try:
            outcomes[name] = call_limited(
                unpickle_shut_off, data.hex(), place="here", seconds=5, refusal=ended
            )
        except AuditError:
            outcomes[name] = "ended"
    assert list_names(tmp_path) == []
    assert outcomes["mkdir"] == outcomes["open"] == outcomes["Popen"] == "PermissionError"
    assert outcomes["exit"] == "ended"


# Encoders without a head.


def test_an_encoder_gets_the_head_of_the_general_model(good: Path, tmp_path: Path) -> None:
    source = save_body(make_bert(tmp_path / "ward", seed=5))
    body = load_file(make_bert(tmp_path / "whole", seed=5) / WEIGHTS)
    assert find_need(source) == "weights"
    with pytest.raises(
        AuditError, match=r"^ward: The weights were saved without the masked-language-model head"
    ):
        convert(source, tmp_path / "out")
    general = Path(shutil.copytree(good, tmp_path / "general"))
    out = convert(source, tmp_path / "out", head_from=general)
    tensors, head = load_file(out / WEIGHTS), load_file(general / WEIGHTS)
    for name, tensor in tensors.items():
        origin = head if name.startswith("cls.") else body
        assert name.startswith("bert.pooler.") or torch.equal(tensor, origin[name]), name
    pair = load_pair(general, out)
    embedding = pair.hospital.model.get_input_embeddings().weight
    assert pair.hospital.model.get_output_embeddings().weight is embedding
    assert torch.equal(embedding, body["bert.embeddings.word_embeddings.weight"])
    record = json.loads((out / RECORD_FILE).read_text())
    assert (record["head_name"], record["head_digest"], record["prefix_added"]) == (
        "general",
        compute_model_digest(general),
        "bert.",
    )
    (note,) = pair.notes
    assert note.startswith("The hospital model was saved without its masked-LM head; that of gen")
    assert "general の出力層" in note.render("ja") and note.render("ja").startswith("病院モデルは")
    with pytest.raises(AuditError, match="The head of this model is itself another model's"):
        convert(source, tmp_path / "third", head_from=out)
    digest = compute_model_digest(out)
    (out / RECORD_FILE).unlink()  # then it is another model, which no kept audit stands for
    assert digest == pair.hospital.digest != compute_model_digest(out)


@pytest.mark.long
@pytest.mark.parametrize("kind", ENCODERS)
def test_body_and_head_of_one_model_are_that_model(kind: str, tmp_path: Path) -> None:
    model_folder = make_encoder(tmp_path / "whole", kind)
    pickled = pickle_weights(Path(shutil.copytree(model_folder, tmp_path / "pickled")))
    body = save_body(Path(shutil.copytree(model_folder, tmp_path / "body")))
    assert load_pair(model_folder, convert(pickled, tmp_path / "out")).is_one_model
    out = convert(body, tmp_path / "joined", head_from=model_folder)
    assert load_pair(model_folder, out).is_one_model


@pytest.mark.parametrize(
    ("make_head", "sentence"),
    [
        (lambda f: make_bert(f, n_layers=1), "because the two models differ in n_layers, settings"),
        (lambda f: make_bert(f, hidden_act="relu"), "because the two models differ in hidden_act"),
        (make_roberta, "because the two models differ in architecture"),
        (lambda f: make_bert(f, words=(*WORDS[1:], WORDS[0])), "have different tokenizers"),
    ],
)
def test_the_head_of_an_unlike_model_is_refused(
    make_head: Callable[[Path], Path], sentence: str, good: Path, tmp_path: Path
) -> None:
    source = save_body(Path(shutil.copytree(good, tmp_path / "ward")))
    head = make_head(tmp_path / "general")
    with pytest.raises(AuditError, match=sentence.partition(", ")[0]):
        convert(source, tmp_path / "out", head_from=head)
    assert list_names(tmp_path) == ["general", "ward"]


def test_a_model_with_a_head_keeps_it(copy: Path, good: Path, tmp_path: Path) -> None:
    with pytest.raises(AuditError, match=r"^model: The model has a head of its own\."):
        convert(pickle_weights(copy), tmp_path / "out", head_from=good)


def test_safetensors_without_a_head_are_known(copy: Path, tmp_path: Path) -> None:
    assert find_need(copy) == ""
    headless = Path(shutil.copytree(copy, tmp_path / "headless"))
    edit_weights(headless, lambda t: [t.pop(name) for name in [*t] if name.startswith("cls.")])
    bare = Path(shutil.copytree(headless, tmp_path / "bare"))
    edit_weights(bare, lambda t: t.update({n.removeprefix("bert."): t.pop(n) for n in [*t]}))
    assert find_need(headless) == find_need(bare) == "head"
    edit_weights(bare, lambda t: t.update({"classifier.weight": torch.zeros(2, 16)}))
    assert find_need(bare) == ""  # another head would not make it a whole model
    assert find_need(write_shards(copy, is_pickled=False)) == ""
    assert find_need(tmp_path) == ""


def test_a_pickled_causal_model_is_converted(tmp_path: Path) -> None:
    source = make_causal(tmp_path / "model", "gpt2")
    ids = torch.tensor([[3, 4, 5]])
    with torch.inference_mode():
        expected = load_model(source).model(ids).logits
    assert find_need(pickle_weights(source)) == "weights"
    out = convert(source, tmp_path / "out")
    with torch.inference_mode():
        assert torch.equal(load_model(out).model(ids).logits, expected)


# What is refused before and after.


def _change_index(**changes: object) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        index = folder / f"{PICKLE}.index.json"
        files = json.loads(index.read_text())["weight_map"]
        index.write_text(json.dumps({"weight_map": files | changes}))

    return change


SHARDS: dict[str, tuple[Callable[[Path], object], str]] = {
    "leads_out": (_change_index(a="../secret.bin"), 'names "../secret.bin", which is missing or'),
    "not_there": (
        _change_index(a="pytorch_model-00009-of-00009.bin"),
        "is missing or is not a shard",
    ),
    "other_file": (_change_index(a="vocab.txt"), 'names "vocab.txt", which is missing or'),
    "one_more": (
        _change_index(more="pytorch_model-00001-of-00003.bin"),
        "The shards do not hold exactly the tensors that their index names",
    ),
    "numbers": (_change_index(a=1), 'names "1", which is missing or'),
    "twice": (
        lambda folder: shutil.copy(
            folder / "pytorch_model-00001-of-00003.bin",
            folder / "pytorch_model-00002-of-00003.bin",
        ),
        "Two shards hold a tensor of the same name",
    ),
    "no_index": (
        lambda folder: (folder / f"{PICKLE}.index.json").write_text('{"weight_map": []}'),
        "This is not an index of shards",
    ),
    "adapter": (
        lambda folder: (folder / "adapter_config.json").write_text("{}"),
        "The directory holds an adapter \\(LoRA",
    ),
}


@pytest.mark.parametrize("case", SHARDS)
def test_shards_that_do_not_fit_are_refused(case: str, copy: Path, tmp_path: Path) -> None:
    spoil, sentence = SHARDS[case]
    spoil(write_shards(copy, is_pickled=True))
    with pytest.raises(AuditError, match=sentence):
        convert(copy, tmp_path / "out")
    assert list_names(tmp_path) == ["model"]


def test_the_result_is_checked_as_any_other_model(copy: Path, tmp_path: Path) -> None:
    def spoil(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        tensors["bert.encoder.layer.1.output.dense.weight"][0, 0] = torch.nan
        return tensors

    pickle_weights(copy, change=spoil)
    with pytest.raises(AuditError, match=r"^model/model\.safetensors: .* not finite"):
        convert(copy, tmp_path / "out")
    torch.save({"bert.x": torch.zeros(2), "cls.predictions.bias": torch.zeros(37)}, copy / PICKLE)
    with pytest.raises(
        AuditError, match=r"^model: Tensors that config\.json promises are missing \(4"
    ):
        convert(copy, tmp_path / "out")
    assert list_names(tmp_path) == ["model"]


def test_a_missing_kind_is_given_and_another_is_refused(copy: Path, tmp_path: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    del config["model_type"]
    (copy / "config.json").write_text(json.dumps(config))
    pickle_weights(copy)
    for kind, sentence in (("", r"--model-type bert`\."), ("opt", "Causal language models")):
        with pytest.raises(AuditError, match=sentence):
            convert(copy, tmp_path / "out", model_type=kind)
    out = convert(copy, tmp_path / "out", model_type="bert")
    assert json.loads((out / "config.json").read_text()) == config | {"model_type": "bert"}
    assert json.loads((out / RECORD_FILE).read_text())["is_kind_added"]
    with pytest.raises(AuditError, match=r'of another kind, "bert"\. Leave out --model-type'):
        convert(out, tmp_path / "again", model_type="roberta")


def test_nothing_is_overwritten_and_a_failed_write_leaves_nothing(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pickle_weights(copy)
    full = tmp_path / "full"
    full.mkdir()
    (full / "notes.txt").write_text("mine")
    for out in (copy, full):
        with pytest.raises(AuditError, match=r"^out: There is something already"):
            convert(copy, out)
    with pytest.raises(AuditError, match=r"^out: The folder cannot be written \(File exists"):
        convert(copy, full / "notes.txt" / "out")

    def fill_disk(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/secret")

    monkeypatch.setattr(pickled_weights, "write_safetensors", fill_disk)
    with pytest.raises(AuditError, match=r"^out: The folder cannot be written \(No space left"):
        convert(copy, tmp_path / "out")
    assert list_names(tmp_path) == ["full", "model"] and list_names(full) == ["notes.txt"]
    assert PICKLE in list_names(copy)


def test_a_conversion_that_is_stopped_leaves_nothing(copy: Path, tmp_path: Path) -> None:
    pickle_weights(copy)
    contact = Contact(listen=lambda _: None, should_stop=lambda: True, say=lambda _: None)
    with pytest.raises(AuditCancelled):
        ConvertTask(source=copy, out=tmp_path / "out").run(contact)
    assert list_names(tmp_path) == ["model"]


@pytest.mark.parametrize(
    "changes",
    [
        {"head_name": "a\nThe model is safe."},
        {"head_name": "x" * 81},
        {"head_name": "<b>", "head_digest": "0" * 63},
        {"head_name": "", "head_digest": "0" * 64},
        {"head_name": "\u202egnp.exe"},
        {"prefixes_removed": ["a b"]},
        {"weights_form": "a form"},
        {"version": 2},
        {"verdict": "safe"},
        {"created": "yesterday, [here](http://evil.example)"},
        {"weights_sha256": "0" * 20_000},
    ],
)
def test_a_record_cannot_say_anything_else(changes: dict[str, object], copy: Path) -> None:
    record = {
        "version": 1,
        "weights_form": "pickle",
        "weights_sha256": "0" * 64,
        "head_name": "general",
        "head_digest": "1" * 64,
        "created": "2026-11-29T05:57:08.285670+00:00",
    }
    (copy / RECORD_FILE).write_text(json.dumps(record))
    assert load_model(copy).head_of == "general"
    (copy / RECORD_FILE).write_text(json.dumps(record | changes))
    for read in (inspect_model, load_model):
        with pytest.raises(AuditError) as refused:
            read(copy)
        assert str(refused.value).startswith(f"model/{RECORD_FILE}: This ")
        assert "evil" not in str(refused.value) and "safe" not in str(refused.value)


# As a command and as a job.


def test_the_command_says_what_it_wrote(
    copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    pickle_weights(copy)
    out = tmp_path / "out"
    assert main(["models", "convert", str(copy), "--out", str(out), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["digest"] == compute_model_digest(out) and answer["weights_form"] == "pickle"
    (job,) = service.jobs()
    assert (job.kind, job.state, job.label, job.device) == ("convert", "done", "model", "short")
    assert main(["models", "convert", str(copy), "--out", str(out)]) == 2
    assert main(["models", "convert", str(copy / "no"), "--out", str(out)]) == 2
    assert "There is no such directory" in capsys.readouterr().err


def test_a_kept_model_is_listed_until_it_is_removed(copy: Path, home: Path) -> None:
    pickle_weights(copy)
    question = ConvertTask(source=copy).question()
    assert ConvertTask.read_answer(question) == ()
    task = ConvertTask.from_order(question.order)
    (model_id,) = task.run(CONTACT)
    assert ConvertTask.read_answer(ConvertTask(source=copy).question()) == (model_id,)
    (model,) = list_models()
    assert model.model_id == model_id and not model.refusal
    assert model.summary is not None and model.summary.name == "model"
    (kept_model,) = CONVERTED.all()
    assert (kept_model.name, kept_model.path) == ("model", model.path)
    edit_json(copy, "config.json", _name_or_path="changed")
    assert ConvertTask.read_answer(ConvertTask(source=copy).question()) == ()
    CONVERTED.forget(model_id.removeprefix("converted/"))
    assert list_models() == () and CONVERTED.all() == ()
